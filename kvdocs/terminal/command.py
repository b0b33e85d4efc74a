"""What a command is: a function from a call to a result."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kvdocs.terminal.files import MachineFiles
from kvdocs.terminal.machine import Machine
from kvdocs.terminal.output import Result


@dataclass(frozen=True, slots=True)
class Call:
    """One command as the shell hands it over.

    Attributes:
        machine: The machine before it.
        words: Its arguments, without its name.
        stdin: What a pipe brings; None without one.
        in_background: Whether an `&` follows.
    """

    machine: Machine
    words: tuple[str, ...] = ()
    stdin: str | None = None
    in_background: bool = False

    @property
    def files(self) -> MachineFiles:
        """The machine's files."""
        return MachineFiles(self.machine)


Run: TypeAlias = Callable[[Call], Result]
"""What a command does."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the machine.

    Attributes:
        about: What it does, in a few words; shown by `help`.
        run: What it does. Returns a `kvdocs.terminal.output.Result`.
        flags: What may be completed after it.
    """

    about: str
    run: Run
    flags: tuple[str, ...] = ()


def near(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """A sentence that names what a word may have meant, or nothing.

    Examples:
        >>> near("nvidia-sim", ["nvidia-smi", "ls"])
        'did you mean nvidia-smi?'
        >>> near("x", ["nvidia-smi"])
        ''
    """
    found = difflib.get_close_matches(word[:80], known, n=2, cutoff=cutoff)
    return f"did you mean {' or '.join(found)}?" if found else ""
