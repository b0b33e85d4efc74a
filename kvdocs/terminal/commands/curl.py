"""`curl` to the machine's server: /metrics, /health, /v1/models, /version."""

from __future__ import annotations

import json
import re
from datetime import UTC
from typing import Final, NamedTuple

from kvdocs.errors import TerminalError
from kvdocs.metrics import write_metrics
from kvdocs.startup_log.writer import VERSION
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.commands.options import read_options
from kvdocs.terminal.machine import Machine
from kvdocs.terminal.output import Kind, Piece, Result, fail, out
from kvdocs.terminal.plan import plan_of
from kvdocs.terminal.served import snapshot

_URL: Final = re.compile(
    r"(?:http://)?(?P<host>[\w.-]+)(?::(?P<port>\d{1,6}))?(?P<path>/[^?#]*)?.*"
)
_HERE: Final = ("localhost", "127.0.0.1", "0.0.0.0", "dgx-1")  # noqa: S104 - names, no binding
_TOO_MUCH: Final = ("/v1/completions", "/v1/chat/completions", "/v1/responses")
URLS: Final = tuple(
    f"localhost:8000{path}" for path in ("/metrics", "/health", "/v1/models", "/version")
)


class _Answer(NamedTuple):
    status: int
    body: str
    type: str = "application/json"
    note: str = ""


def _curl(call: Call) -> Result:
    options = read_options(
        call.words,
        switches=(
            "-s",
            "-S",
            "-i",
            "-I",
            "-v",
            "-f",
            "-L",
            "-k",
            "--silent",
            "--fail",
            "--include",
        ),
        valued=(
            "-X",
            "-H",
            "-d",
            "-o",
            "-w",
            "-m",
            "--data",
            "--header",
            "--request",
            "--max-time",
        ),
    )
    if not options.rest:
        return fail(call.machine, "curl: (2) no URL specified", status=2)
    url = _URL.fullmatch(options.rest[0])
    if url is None:
        raise TerminalError(f"(3) {options.rest[0][:60]!r} is not an address this machine reaches")
    if url["host"] not in _HERE:
        note = "# This machine is alone in its network; its own server is localhost:8000."
        error = f"curl: (6) Could not resolve host: {url['host'][:60]}"
        return fail(call.machine, error, status=6, note=note)
    port = int(url["port"] or 80)
    answer = _answer(call.machine, port, url["path"] or "/")
    if answer is None:
        return _refused(call.machine, url["host"], port)
    return _printed(call.machine, answer, options.switches, options.values)


def _refused(machine: Machine, host: str, port: int) -> Result:
    server = machine.running
    error = (
        f"curl: (7) Failed to connect to {host} port {port} after 0 ms: Could not connect to server"
    )
    if server is not None:
        note = f"# The server listens on port {plan_of(machine, server).port}."
    else:
        note = "# No server runs. Start one: vllm serve meta-llama/Llama-3.1-8B"
    return fail(machine, error, status=7, note=note)


def _answer(machine: Machine, port: int, path: str) -> _Answer | None:
    server = machine.running
    shown = snapshot(machine) if server is not None else None
    if server is None or shown is None or plan_of(machine, server).port != port:
        return None
    if path.rstrip("/") == "/metrics":
        return _Answer(200, write_metrics([shown]).rstrip("\n"), "text/plain; version=0.0.4")
    healthy = _Answer(200, "", note="# HTTP 200 and an empty body: the server is healthy.")
    note = "# This server computes no text. To give it load: vllm bench serve"
    no_text = _Answer(501, json.dumps({"detail": "Not Implemented"}), note=note)
    answers = {
        "/health": healthy,
        "/ping": healthy,
        "/version": _Answer(200, json.dumps({"version": VERSION})),
        "/v1/models": _Answer(200, _models(machine)),
        **dict.fromkeys(_TOO_MUCH, no_text),
    }
    return answers.get(path.rstrip("/"), _Answer(404, json.dumps({"detail": "Not Found"})))


def _models(machine: Machine) -> str:
    """The body of /v1/models (vLLM 0.33.0 `vllm/entrypoints/openai/models/protocol.py`)."""
    server = machine.running
    if server is None:
        return ""
    plan = plan_of(machine, server)
    created = int(Machine(clock=server.started).time.replace(tzinfo=UTC).timestamp())
    card = {
        "id": plan.served_name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": plan.name,
        "parent": None,
        "max_model_len": plan.capacity.max_model_len,
    }
    return json.dumps({"object": "list", "data": [card]})


_REASONS: Final = {200: "OK", 404: "Not Found", 501: "Not Implemented"}


def _printed(
    machine: Machine, answer: _Answer, switches: frozenset[str], values: dict[str, str]
) -> Result:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\nserver: uvicorn\n"
        f"content-length: {len(answer.body)}\ncontent-type: {answer.type}\n"
    )
    if {"-f", "--fail"} & switches and answer.status >= 400:
        error = f"curl: (22) The requested URL returned error: {answer.status}"
        return fail(machine, error, status=22)
    parts = []
    if {"-i", "-I", "--include"} & switches:
        parts.append(head)
    if "-I" not in switches and values.get("-o") != "/dev/null":
        parts.append(answer.body)
    if "-w" in values:
        parts.append(values["-w"].replace("%{http_code}", str(answer.status)).replace("\\n", "\n"))
    text = "\n".join(part.strip("\n") for part in parts if part.strip("\n"))
    result = out(machine, text, wide=answer.type.startswith("text/plain"))
    if not answer.note or "-w" in values:
        return result
    return Result(machine, (*result.pieces, Piece(Kind.NOTE, answer.note)))


CURL: Final = Command("ask the server: curl localhost:8000/metrics", _curl, URLS)
