"""Tracebacks cut down to the lines of the page's own blocks."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BLOCK: Final = "block "
"""File names of blocks begin with it: `block 3` is the third on its page."""
LONGEST: Final = 20_000


@dataclass(frozen=True, slots=True)
class Trimmed:
    """An error as the reader sees it.

    Attributes:
        text: The traceback, without frames outside the page's blocks.
        line: The line of the block that was run, or None when none of its lines is involved.
    """

    text: str
    line: int | None


def trim(error: BaseException, block: str) -> Trimmed:
    """Cut an error's traceback down to the page's blocks.

    Args:
        error: The error, with its traceback.
        block: File name of the block that was run.

    Examples:
        >>> try:
        ...     exec(compile("1 / 0", "block 1", "exec"))
        ... except ZeroDivisionError as error:
        ...     trim(error, "block 1").line
        1
    """
    whole = traceback.TracebackException.from_exception(error)
    for part in _parts(whole):
        own = [frame for frame in part.stack if frame.filename.startswith(BLOCK)]
        part.stack = traceback.StackSummary.from_list(own)
    text = "".join(whole.format()).rstrip()
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n…\n{text[-LONGEST // 2 :]}"
    return Trimmed(text, _line(error, block))


def _parts(whole: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting, seen = [whole], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        linked = (part.__cause__, part.__context__, *(part.exceptions or ()))
        waiting.extend(other for other in linked if other is not None)


def _line(error: BaseException, block: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == block:
        return error.lineno
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == block
    ]
    return lines[-1] if lines else None
