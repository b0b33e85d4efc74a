"""Commands about what runs, and about time: ps, kill, jobs, sleep, wait."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kvdocs.errors import TerminalError
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.commands.bench import last_end
from kvdocs.terminal.machine import Machine
from kvdocs.terminal.output import Kind, Piece, Result, fail, out
from kvdocs.terminal.plan import PID, SERVER_PID

MOST_SLEEP_S: Final = 3600.0
"""How long a `sleep` may be, in simulated seconds."""
_STOP_S: Final = 2.0
_TIME: Final = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)([smh]?)")
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_TARGETS: Final = (str(PID), str(SERVER_PID), "%1")


def stop_server(machine: Machine) -> Result:
    """Stop the running server, as Ctrl-C and `kill` do.

    The lines are those of vLLM's `vllm/entrypoints/launcher.py` and of uvicorn, without places.

    Args:
        machine: A machine whose server runs.
    """
    server = machine.running
    if server is None:
        return Result(machine)
    later = machine.after(_STOP_S)
    who = f"(APIServer pid={SERVER_PID}) INFO: "
    lines = (
        f"{who}    Shutting down",
        f"{who}    Waiting for application shutdown.",
        f"{who}    Application shutdown complete.",
    )
    pieces = [Piece(Kind.OUT, "\n".join(lines))]
    lost = [index for index, load in enumerate(server.loads) if not load.reported]
    if lost:
        pieces.append(Piece(Kind.NOTE, "# The benchmark under way lost its server and ended."))
    ended = replace(server, ended=later.clock, loads=())
    return Result(replace(later, server=ended), tuple(pieces))


def _kill(call: Call) -> Result:
    words = [word for word in call.words if not re.fullmatch(r"-\w+", word)]
    if not words:
        return fail(call.machine, "kill: usage: kill [-signal] pid", status=2)
    if words[0] not in _TARGETS or call.machine.running is None:
        error = f"bash: kill: ({words[0][:20]}) - No such process"
        return fail(call.machine, error, note="# `ps` lists what runs.")
    return stop_server(call.machine)


def _pkill(call: Call) -> Result:
    words = [word for word in call.words if not word.startswith("-")]
    if not words:
        raise TerminalError("a name is missing: pkill vllm")
    if words[0].lower() not in "vllm serve vllm::enginecore" or call.machine.running is None:
        return Result(call.machine, status=1)
    return stop_server(call.machine)


def _ps(call: Call) -> Result:
    lines = ["    PID TTY          TIME CMD"]
    server = call.machine.running
    if server is not None:
        lines.append(
            f"{SERVER_PID:>7} ?        00:00:00 vllm serve {' '.join(server.words)}".rstrip()
        )
        lines.append(f"{PID:>7} ?        00:00:00 VLLM::EngineCore")
    lines.append("    201 pts/0    00:00:00 bash")
    return out(call.machine, "\n".join(lines), wide=True)


def _jobs(call: Call) -> Result:
    server = call.machine.running
    lines = [
        f"[{index}]  Running    vllm bench serve {' '.join(load.words)}".rstrip()
        for index, load in enumerate(server.loads if server else (), 1)
        if not load.reported
    ]
    return out(call.machine, "\n".join(lines))


def _sleep(call: Call) -> Result:
    total = 0.0
    for word in call.words:
        match = _TIME.fullmatch(word)
        if match is None:
            raise TerminalError(f"invalid time interval {word[:30]!r}; write 10, 10s or 2m")
        total += float(match[1]) * _UNITS[match[2]]
    if not call.words:
        raise TerminalError("a time is missing: sleep 10")
    if total > MOST_SLEEP_S:
        raise TerminalError(f"{total:g} s is too long here; at most {MOST_SLEEP_S:g} s")
    return Result(call.machine.after(total))


def _wait(call: Call) -> Result:
    return Result(replace(call.machine, clock=max(call.machine.clock, last_end(call.machine))))


KILL: Final = Command(
    f"stop the server: kill {PID} (or Ctrl-C on an empty line)", _kill, (str(PID),)
)
PKILL: Final = Command("stop the server by name: pkill vllm", _pkill, ("vllm",))
PS: Final = Command("what runs", _ps)
JOBS: Final = Command("benchmarks that run in the background", _jobs)
SLEEP: Final = Command("let simulated time pass: sleep 10", _sleep)
WAIT: Final = Command("let time pass until background benchmarks have ended", _wait)
