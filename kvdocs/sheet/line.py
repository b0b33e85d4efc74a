"""What a cheat sheet is made of: parts, lines, and small tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the sheet.

    Attributes:
        what: What the line is about. In backticks for what is typed or printed.
        how: Formula or rule, with its numbers.
        step: The step that explains it.
        value: The result; "" where the rule is all.
    """

    what: str
    how: str
    step: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A small table among the lines.

    Attributes:
        head: Column titles.
        rows: Cells, the first of a row its name.
        step: The step that explains it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    step: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the sheet.

    Attributes:
        title: Its heading.
        lines: What stands in it.
    """

    title: str
    lines: tuple[Line | Grid, ...]
