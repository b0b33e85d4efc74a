"""Find a page's executed Python fences in its Markdown, as the author wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_OPENING: Final = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_EXECUTED: Final = re.compile(r"""^\s*python\s+(.*\s)?exec=["']?(1|true|yes|on)\b""")


@dataclass(frozen=True, slots=True)
class Fence:
    """An executed Python fence.

    Attributes:
        line: Index of its opening line.
        options: What follows `python` on that line.
        source: The code, every character as written, without the fence's indentation.
    """

    line: int
    options: str
    source: str

    @property
    def is_shown(self) -> bool:
        """Whether readers see the code as a block with its output."""
        return re.search(r"""\bsource=["']?block\b""", self.options) is not None

    @property
    def prints_html(self) -> bool:
        """Whether what the code prints is markup."""
        return re.search(r"""\bhtml=["']?(1|true|yes|on)\b""", self.options) is not None


def executed_fences(markdown: str) -> Iterator[Fence]:
    """Yield the executed Python fences of a page, in order.

    A fence that is shown inside a longer fence is text, not a fence.
    """
    lines = markdown.split("\n")
    number = 0
    while number < len(lines):
        opening = _OPENING.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = _closing_line(lines, number, opening["indent"], opening["ticks"])
        if _EXECUTED.match(opening["info"]):
            body = lines[number + 1 : end]
            source = "\n".join(line.removeprefix(opening["indent"]) for line in body)
            yield Fence(number, opening["info"].strip().removeprefix("python").strip(), source)
        number = end + 1


def _closing_line(lines: list[str], opening: int, indent: str, ticks: str) -> int:
    closing = f"{indent}{ticks}"
    for number in range(opening + 1, len(lines)):
        if lines[number].rstrip() == closing:
            return number
    return len(lines)


def with_options(markdown: str, options: dict[int, str]) -> str:
    """Return the Markdown with options added to the opening lines of that index."""
    lines = markdown.split("\n")
    for number, added in options.items():
        lines[number] = f"{lines[number].rstrip()} {added}"
    return "\n".join(lines)
