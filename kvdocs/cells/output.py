"""What a block prints: passed on while it runs, up to a limit, with nobody to ask for input."""

from __future__ import annotations

import builtins
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from kvdocs.errors import InputError

Emit: TypeAlias = Callable[[str, str], Any]
"""Takes the name of a stream, `stdout` or `stderr`, and some text."""

AT_ONCE: Final = 300
"""So many pieces are passed on as they come; later ones are gathered for `GATHER_SECONDS`."""
GATHER_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one run shows.

    Attributes:
        characters: Characters of printed output, or of a shown value.
        lines: Lines of the same.
        html: Characters of a value's HTML or SVG.
    """

    characters: int = 100_000
    lines: int = 2_000
    html: int = 500_000

    def cut(self, text: str) -> str:
        r"""Return the beginning of a text that is within the limits.

        Examples:
            >>> Limits(characters=5).cut("1234567")
            '12345'
            >>> Limits(lines=2).cut("a\nb\nc")
            'a\nb\n'
        """
        part = text[: self.characters]
        if part.count("\n") < self.lines:
            return part
        return "\n".join([*part.split("\n", self.lines)[: self.lines], ""])


class Output:
    """The output of one run.

    Attributes:
        dropped: Characters beyond the limits, which nobody sees.
    """

    def __init__(self, emit: Emit, limits: Limits) -> None:
        self.dropped = 0
        self._emit = emit
        self._characters = limits.characters
        self._lines = limits.lines
        self._pending: list[str] = []
        self._stream = ""
        self._pieces = 0
        self._emitted_at = time.monotonic()

    def write(self, stream: str, text: str) -> None:
        """Pass text on, or keep it for a moment; beyond the limits, only count it."""
        if not self._characters:
            self.dropped += len(text)
            return
        part = Limits(characters=self._characters, lines=self._lines).cut(text)
        self.dropped += len(text) - len(part)
        self._characters -= len(part)
        self._lines -= part.count("\n")
        if len(part) < len(text) or not self._lines:
            self._characters = 0
        if part:
            self._keep(stream, part)

    def _keep(self, stream: str, part: str) -> None:
        if stream != self._stream:
            self.flush()
        self._stream = stream
        self._pending.append(part)
        few = self._pieces < AT_ONCE and part.endswith("\n")
        if few or time.monotonic() - self._emitted_at > GATHER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Pass on what is still kept."""
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        self._pieces += 1
        self._emitted_at = time.monotonic()
        self._emit(self._stream, text)


class Stream(io.TextIOBase):
    """Stands for standard output or error while a block runs.

    There is one for the life of the process, so a logging handler made by an earlier block still
    writes to where the reader looks.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.stream_name = name
        self.output: Output | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """UTF-8, as everywhere."""
        return "utf-8"

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Hand text to the run that is going on."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.output is not None:
            self.output.write(self.stream_name, text)
        return len(text)


STDOUT: Final = Stream("stdout")
STDERR: Final = Stream("stderr")


def refuse_input(*_: object, **__: object) -> NoReturn:
    """Refuse to read what nobody can type."""
    raise InputError(
        "input() and standard input have nobody to ask on this page. Write the value into the "
        'code instead, for example: answer = "42"'
    )


class NoInput(io.TextIOBase):
    """Stands for standard input; every reading is refused."""

    read = readline = readlines = __next__ = refuse_input


@contextmanager
def captured(output: Output) -> Iterator[None]:
    """Send what is printed to `output` and refuse input while the context is open."""
    before = sys.stdout, sys.stderr, sys.stdin, builtins.input, sys.getrecursionlimit()
    STDOUT.output = STDERR.output = output
    sys.stdout, sys.stderr, sys.stdin = STDOUT, STDERR, NoInput()
    builtins.input = refuse_input
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.stdin, builtins.input, depth = before
        sys.setrecursionlimit(depth)
        output.flush()
        STDOUT.output = STDERR.output = None
