"""`vllm serve`: start the machine's server, or be refused as vLLM refuses.

Errors of the command line read as those of vLLM's argparse (`vllm/utils/argparse_utils.py`), those
of a start as its log (`kvdocs.startup_log`). What vLLM would not say stands in notes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kvdocs.errors import CatalogError, ConfigError, FlagError, KvdocsError
from kvdocs.flags import parse_flags
from kvdocs.model.dtypes import CACHE_DTYPES
from kvdocs.terminal.command import Call
from kvdocs.terminal.commands.serve_help import help_text
from kvdocs.terminal.machine import Machine, Server
from kvdocs.terminal.output import Kind, Piece, Result, fail, out
from kvdocs.terminal.plan import PID, SERVER_PID, Plan, make_plan
from kvdocs.terminal.served import simulated

_USAGE: Final = "usage: vllm [-h] [-v] {serve,bench} ..."
_SERVE_USAGE: Final = "usage: vllm serve [model_tag] [options]"
_UNKNOWN: Final = re.compile(r"(?P<flag>\S+) (?:is not a flag of vllm serve|is gone since)")
_VALUE: Final = re.compile(r"(?P<flag>--?[\w-]+) (?P<why>.*)", re.DOTALL)
_QUOTED: Final = re.compile(r"'[^']*'")
_DTYPES: Final = ("auto", *sorted(CACHE_DTYPES))
_UTILIZATION: Final = re.compile(r"--gpu-memory-utilization '(-?[\d.]{1,12})' ")
_INVALID: Final = (
    f"(APIServer pid={SERVER_PID}) pydantic_core._pydantic_core.ValidationError: 1 validation "
    "error for {}"
)
_UVICORN: Final = (
    f"(APIServer pid={SERVER_PID}) INFO:     Started server process [{SERVER_PID}]",
    f"(APIServer pid={SERVER_PID}) INFO:     Waiting for application startup.",
    f"(APIServer pid={SERVER_PID}) INFO:     Application startup complete.",
)


def run(call: Call) -> Result:
    """Start the server.

    Args:
        call: The words after `vllm serve`.
    """
    for word in call.words:
        if word in ("-h", "--help") or word.startswith("--help="):
            return out(call.machine, help_text(word.partition("=")[2]))
    try:
        parse_flags(call.words)
    except FlagError as error:
        return _bad_usage(call.machine, str(error))
    if call.machine.running is not None:
        return _port_in_use(call)
    try:
        plan = make_plan(call.machine.gpu, call.words)
        problem = _check(call.machine, plan)
    except (FlagError, CatalogError, ConfigError) as error:
        problem = _problem(error)
    if problem is not None:
        lines, note = problem
        return fail(call.machine, lines, note=note)
    return _start(call, plan)


def _bad_usage(machine: Machine, message: str) -> Result:
    """A command line that vLLM's parser refuses, in the parser's words."""
    first, _, advice = message.partition("; ")
    if match := _UTILIZATION.match(message):
        return fail(machine, _out_of_range(match[1]))
    if match := _UNKNOWN.match(message):
        note = f"# {advice}" if "is not a flag" in message else f"# {message}"
        error = f"{_USAGE}\nvllm: error: unrecognized arguments: {match['flag']}"
        return fail(machine, error, status=2, note=note if note != "# " else "")
    if " stands alone" in message:
        word = first.partition(" stands alone")[0].strip("'")
        error = f"{_USAGE}\nvllm: error: unrecognized arguments: {word}"
        return fail(machine, error, status=2, note=f"# {message}")
    match = _VALUE.match(message)
    flag, why = (match["flag"], match["why"]) if match else ("model_tag", message)
    if why == "needs a value":
        why = "expected one argument"
    if flag == "--kv-cache-dtype" and (value := _QUOTED.match(why)):
        why = f"invalid choice: {value[0]} (choose from {', '.join(_DTYPES)})"
    error = f"{_SERVE_USAGE}\nvllm serve: error: argument {flag}: {why}"
    return fail(machine, error, status=2)


def _out_of_range(given: str) -> str:
    """A share outside 0 to 1: vLLM 0.33.0 `vllm/config/cache.py`, CacheConfig, checks it late."""
    too_large = float(given) > 1
    should = "less than or equal to 1" if too_large else "greater than 0"
    kind = "less_than_equal" if too_large else "greater_than"
    return (
        f"{_INVALID.format('CacheConfig')}\ngpu_memory_utilization\n"
        f"  Input should be {should} [type={kind}, input_value={given}, input_type=float]"
    )


def _port_in_use(call: Call) -> Result:
    note = f"# A server runs already. Stop it first: press Ctrl-C, or type kill {PID}."
    return fail(call.machine, "OSError: [Errno 98] Address already in use", note=note)


def _check(machine: Machine, plan: Plan) -> tuple[str, str] | None:
    """What stops a start before any memory is measured: the error, and a note."""
    size = plan.flags.world_size
    if size > machine.num_gpus:
        error = (
            f"{_INVALID.format('ParallelConfig')}\n"
            f"  Value error, World size ({size}) is larger than the number of available GPUs "
            f"({machine.num_gpus}) in this node. If this is intentional and you are using:\n"
            "- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately."
        )
        return error, ""
    if plan.refusal is None:
        simulated(plan)  # what vLLM checks between its settings
    return None


def _problem(error: KvdocsError) -> tuple[str, str]:
    if isinstance(error, CatalogError):
        return f"OSError: {error}", "# Here a model is one of `ls models`, by name or by folder."
    text = str(error)
    if text.startswith("User-specified max_model_len"):
        return f"{_INVALID.format('ModelConfig')}\n  Value error, {text}", ""
    return f"(APIServer pid={SERVER_PID}) ValueError: {text}", ""


def _start(call: Call, plan: Plan) -> Result:
    machine, started = call.machine, call.machine.clock
    lines = plan.log(started)
    later = machine.after(plan.startup_seconds)
    server = Server(words=call.words, started=started)
    if plan.refusal is not None:
        refused = replace(later, server=replace(server, ended=later.clock))
        return Result(refused, (Piece(Kind.OUT, "\n".join(lines)),), status=1)
    note = (
        f"# It runs on while you type (pid {PID}): try nvidia-smi, or curl localhost:{plan.port}"
        f"/metrics. Ctrl-C on an empty line stops it, and so does kill {PID}."
    )
    text = "\n".join((*lines, *_UVICORN))
    pieces = (Piece(Kind.OUT, text), Piece(Kind.NOTE, note))
    return Result(replace(later, server=server), pieces)
