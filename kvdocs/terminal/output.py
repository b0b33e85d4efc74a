"""What a command gives back: the machine as it is then, and what it printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from kvdocs.terminal.machine import Machine

MOST_LINES: Final = 1_000
"""Lines shown of one line typed."""
MOST_CHARACTERS: Final = 100_000
"""Characters shown of one line typed."""


class Kind(StrEnum):
    """Who speaks."""

    OUT = "out"
    """Standard output: what a pipe carries on."""
    ERROR = "error"
    """Standard error."""
    NOTE = "note"
    """The lesson, not the machine: what a real one would not say."""


class Piece(NamedTuple):
    """Some lines of output.

    Attributes:
        kind: Who speaks.
        text: The lines, without the last line end.
        wide: Whether they are laid out in columns, so that a line must not be broken.
    """

    kind: Kind
    text: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a command.

    Attributes:
        machine: The machine after it.
        pieces: What it printed, in order.
        status: Its exit status.
        clears: Whether the screen is to be cleared.
    """

    machine: Machine
    pieces: tuple[Piece, ...] = ()
    status: int = 0
    clears: bool = False

    @property
    def out(self) -> str:
        """Standard output as a pipe carries it, each line with its end."""
        texts = [piece.text for piece in self.pieces if piece.kind is Kind.OUT]
        return "".join(f"{text}\n" for text in texts)


def out(machine: Machine, text: str, *, status: int = 0, wide: bool = False) -> Result:
    r"""A result that prints to standard output; nothing when the text is empty.

    Examples:
        >>> out(Machine(), "hello").out
        'hello\n'
    """
    pieces = (Piece(Kind.OUT, text, wide),) if text else ()
    return Result(machine, pieces, status)


def fail(machine: Machine, text: str, *, status: int = 1, note: str = "") -> Result:
    """A result that prints to standard error.

    Args:
        machine: The machine, unchanged.
        text: What went wrong, in the command's own words.
        status: Exit status.
        note: What the lesson adds.
    """
    pieces = [Piece(Kind.ERROR, text)]
    if note:
        pieces.append(Piece(Kind.NOTE, note))
    return Result(machine, tuple(pieces), status)


def cap(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Cut what is too much to show, and say so.

    Examples:
        >>> cap([Piece(Kind.OUT, "x" * 200_000)])[-1].text[:26]
        '# The rest is not shown: 1'
    """
    kept: list[Piece] = []
    lines, characters = MOST_LINES, MOST_CHARACTERS
    left_out = 0
    for piece in pieces:
        shown = piece.text[:characters].split("\n")[:lines]
        text = "\n".join(shown)
        left_out += len(piece.text) - len(text)
        if shown and lines and characters:
            kept.append(piece._replace(text=text))
        lines -= len(shown)
        characters -= len(text)
    if left_out:
        rest = f"# The rest is not shown: {left_out:,} characters. Pipe it through head or grep."
        kept.append(Piece(Kind.NOTE, rest))
    return tuple(kept)
