"""Blocks of a KV pool as cells: how full by its fill, who by hue and letter, how many by a number.

Cells are HTML in a grid that wraps, so that their labels stay legible on a phone; colours and
patterns are the style sheet's (`simulation.css`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kvdocs.html import Element, h
from kvdocs.widgets.memory import MemoryKind

HUES: Final = 8
"""Hues for requests; the ninth has the first one's again, and another letter."""
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def letter(index: int) -> str:
    """Return the short name of a request by its number.

    Examples:
        >>> letter(0), letter(25), letter(26)
        ('A', 'Z', 'A2')
    """
    rounds, place = divmod(index, len(_LETTERS))
    return _LETTERS[place] + (str(rounds + 1) if rounds else "")


def hue(index: int) -> str:
    """Return the class that gives a request its hue.

    Examples:
        >>> hue(0), hue(9)
        ('kv-r0', 'kv-r1')
    """
    return f"kv-r{index % HUES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One block as it is drawn.

    Attributes:
        kind: Kind of memory: in use, shared, cached but free, free, evicted.
        label: Letters on it; "" for a free one.
        owner: Number of the request whose hue it has; None where it has no single holder.
        fill: How much of it holds tokens, 0 to 1.
        count: Holders, shown as a number when more than one.
        note: A short note in its corner, such as a place in the queue.
        new: Whether it was taken in this step.
    """

    kind: MemoryKind
    label: str = ""
    owner: int | None = None
    fill: float = 1.0
    count: int = 1
    note: str = ""
    new: bool = False

    def element(self) -> Element:
        """Return the cell as HTML."""
        classes = f"kv-block kv-block-{self.kind.value}"
        if self.owner is not None:
            classes += " " + hue(self.owner)
        if self.new:
            classes += " kv-block-new"
        return h(
            "div",
            h("b", self.label) if self.label else None,
            h("i", f"×{self.count}") if self.count > 1 else None,
            h("small", self.note) if self.note else None,
            class_=classes,
            style=f"--fill:{self.fill:.0%}" if self.fill < 1 else None,
        )


def block_map(cells: Iterable[Cell], *, label: str, columns: int) -> Element:
    """Draw blocks in the order of their ids.

    Args:
        cells: The blocks.
        label: What they show, in words, for those who do not see them.
        columns: Cells a row where the place is wide; half as many on a phone.
    """
    return h(
        "div",
        *(cell.element() for cell in cells),
        class_="kv-blocks",
        style=f"--columns:{columns};--narrow:{columns // 2}",
        role="img",
        aria_label=label,
    )


def sample(cell: Cell, text: str) -> Element:
    """Return one entry of a key: a cell and what it stands for."""
    return h("li", cell.element(), h("span", text))


def block_key(*samples: Element) -> Element:
    """Return the key below a map."""
    return h("ul", *samples, class_="kv-key kv-block-key")
