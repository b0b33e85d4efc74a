"""What commands print: tables for people, JSON for programs.

A table looks the same on every terminal, in a file and in a pipe; only colours are left out where
nobody sees them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MAX_LINE: Final = 600
_BOLD: Final = "1"
_RED: Final = "31"
_GREEN: Final = "32"
_YELLOW: Final = "33"


def one_line(text: str) -> str:
    r"""A text as one printable line, cut to a length a person reads.

    Examples:
        >>> one_line("no such file:\n\x1b[31mx")
        'no such file: \\x1b[31mx'
    """
    flat = " ".join(text.split())
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in flat
    )
    return shown if len(shown) <= _MAX_LINE else shown[:_MAX_LINE] + "…"


def shorten(text: str, length: int = 60) -> str:
    """A name as it stands in a table or a message: printable, and not too long.

    Examples:
        >>> shorten("config.json"), len(shorten("x" * 1000))
        ('config.json', 61)
    """
    shown = one_line(text)
    return shown if len(shown) <= length else shown[:length] + "…"


def print_json(value: object) -> None:
    """Print a value as JSON: ASCII only, two spaces a level, whole numbers without a point."""
    print(json.dumps(_whole(value), indent=2, allow_nan=False))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), align: str = "") -> str:
    """Lay rows out in columns, two spaces apart.

    Args:
        rows: Cells as text; all rows of one length.
        header: Names of the columns, above a line; none when empty.
        align: One character a column: `<` left or `>` right. Left when not given.

    Examples:
        >>> print(table([["a", "1"], ["bb", "10"]], header=["name", "n"], align="<>"))
        name   n
        ----  --
        a      1
        bb    10
    """
    lines = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    if header:
        lines.insert(1, ["-" * width for width in widths])
    sides = align.ljust(len(widths), "<")
    return "\n".join(_line(cells, widths, sides) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int], sides: str) -> str:
    padded = (
        cell.rjust(width) if side == ">" else cell.ljust(width)
        for cell, width, side in zip(cells, widths, sides, strict=False)
    )
    return "  ".join(padded).rstrip()


def indent(text: str, prefix: str = "  ") -> str:
    """Put a prefix before every line.

    Examples:
        >>> indent("a")
        '  a'
    """
    return "\n".join(prefix + line for line in text.split("\n"))


def wants_colour() -> bool:
    """Whether standard output is a terminal on which colours are welcome (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if wants_colour() else text


def heading(text: str) -> str:
    """A heading: bold on a terminal."""
    return _paint(text, _BOLD)


def good(text: str) -> str:
    """Good news: green on a terminal."""
    return _paint(text, _GREEN)


def bad(text: str) -> str:
    """Bad news: red on a terminal."""
    return _paint(text, _RED)


def doubtful(text: str) -> str:
    """News that may be bad: yellow on a terminal."""
    return _paint(text, _YELLOW)


def print_notes(notes: Sequence[str]) -> None:
    """Print what to know about the figures above, each note once."""
    for note in dict.fromkeys(notes):
        print(f"note: {note}")
