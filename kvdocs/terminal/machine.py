"""The simulated machine: a small, plain state that every command takes and gives back.

What follows from it (the memory a server takes, what its metrics show) is computed when asked, so
that the state stays small, can be kept as JSON, and never contradicts itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final

from kvdocs.errors import TerminalError
from kvdocs.scenario import LESSON

MORNING: Final = datetime(2026, 11, 30, 9, 0)  # noqa: DTZ001 - a log line names no zone
"""When the machine's clock begins."""
HOME: Final = "/home/dev"
"""Where the shell begins."""
VERSION: Final = 1
"""Version of the state; another one is not read."""
MOST_HISTORY: Final = 200
"""Lines of history kept."""
MOST_GPUS: Final = 8
"""GPUs of one machine, as of a DGX."""


@dataclass(frozen=True, slots=True)
class Load:
    """One `vllm bench serve` that the server got.

    Attributes:
        started: When, in seconds on the machine's clock.
        words: Its options as typed.
        reported: Whether its result has been printed.
    """

    started: float
    words: tuple[str, ...]
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The last `vllm serve`, running or not.

    Attributes:
        words: What followed `vllm serve`.
        started: When, in seconds on the machine's clock.
        ended: When it was stopped or refused to start; None while it runs.
        loads: The benchmarks it served, in order.
    """

    words: tuple[str, ...]
    started: float
    ended: float | None = None
    loads: tuple[Load, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and its shell.

    Attributes:
        gpu: Catalogue id of its GPUs.
        num_gpus: How many it has.
        clock: Seconds since 9:00. Only commands move it.
        cwd: The shell's folder.
        status: Exit status of the last command.
        server: The last server started; None before the first.
        history: Lines typed, the oldest first.

    Examples:
        >>> machine = Machine()
        >>> from_json(to_json(machine)) == machine
        True
    """

    gpu: str = LESSON.gpu
    num_gpus: int = 1
    clock: float = 0.0
    cwd: str = HOME
    status: int = 0
    server: Server | None = None
    history: tuple[str, ...] = ()

    @property
    def running(self) -> Server | None:
        """The server, if it runs."""
        return self.server if self.server is not None and self.server.ended is None else None

    @property
    def time(self) -> datetime:
        """What the machine's clock shows."""
        return MORNING + timedelta(seconds=self.clock)

    def after(self, seconds: float) -> Machine:
        """The machine some time later.

        Args:
            seconds: How much later.
        """
        return replace(self, clock=self.clock + seconds)


def to_json(machine: Machine) -> str:
    """The state as JSON.

    Examples:
        >>> to_json(Machine())[:31]
        '{"version":1,"gpu":"lesson-h100'
    """
    return json.dumps({"version": VERSION, **asdict(machine)}, separators=(",", ":"))


def from_json(text: str) -> Machine:
    """Read a state written by `to_json`.

    Raises:
        TerminalError: It is not one, or of another version.

    Examples:
        >>> from_json('{"version":1}').cwd
        '/home/dev'
    """
    try:
        state = json.loads(text)
        if state.pop("version") != VERSION:
            raise TerminalError(f"the machine's state is not of version {VERSION}; begin anew")
        return _machine(state)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, TerminalError):
            raise
        raise TerminalError(f"this is not a machine's state ({error}); begin anew") from None


def _machine(state: dict[str, Any]) -> Machine:
    unknown = set(state) - {field.name for field in fields(Machine)}
    if unknown:
        raise TerminalError(f"a machine has no {', '.join(sorted(unknown))}; begin anew")
    server = state.pop("server", None)
    history = tuple(str(line) for line in state.pop("history", ()))
    machine = Machine(**state, history=history, server=_server(server) if server else None)
    if not (isinstance(machine.cwd, str) and 1 <= machine.num_gpus <= MOST_GPUS):
        raise TerminalError("the machine's state has a folder or GPUs that cannot be; begin anew")
    return replace(machine, clock=float(machine.clock), status=int(machine.status))


def _server(state: dict[str, Any]) -> Server:
    loads = tuple(
        Load(float(load["started"]), tuple(map(str, load["words"])), bool(load["reported"]))
        for load in state["loads"]
    )
    ended = state["ended"]
    return Server(
        words=tuple(map(str, state["words"])),
        started=float(state["started"]),
        ended=None if ended is None else float(ended),
        loads=loads,
    )
