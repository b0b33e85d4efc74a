"""A few things to put in order, with two buttons each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.drills.kinds.choice import Option
from kvdocs.html import Element, h


@dataclass(frozen=True, slots=True)
class Ordering:
    """A list whose items move up and down.

    Attributes:
        items: The items for these parameters, in the order shown at first (not the right one).
        first: What stands at the top of the right order: "the least".
        last: What stands at its bottom: "the most".
    """

    items: Callable[[Any], tuple[Option, ...]]
    first: str
    last: str

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Put in order"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all orderings
        """Say which end is up."""
        return f"At the top {self.first}, at the bottom {self.last}."

    def fields(self, posed: Posed[Any]) -> Element:
        """Return the list."""
        items = self.items(posed.params)
        rows = (_row(item, place, len(items)) for place, item in enumerate(items, start=1))
        return h("ol", *rows, class_="kv-order", data_answer="order")

    def written(self, answer: Any) -> list[str]:
        """Return the values in order."""
        return list(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether two orders are one."""
        return tuple(some) == tuple(other)

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Compare the order."""
        values = {item.value for item in self.items(posed.params)}
        if not isinstance(raw, list) or len(raw) != len(values) or set(map(str, raw)) != values:
            text = f"The order must hold each of the {len(values)} items once."
            return Verdict(Outcome.UNREADABLE, text)
        truth = list(posed.answer)
        if raw == truth:
            return Verdict(Outcome.RIGHT, "")
        for mistake in posed.misconceptions:
            if list(mistake.answer) == raw:
                return Verdict(Outcome.WRONG, mistake.message)
        placed = sum(some == other for some, other in zip(raw, truth, strict=True))
        return Verdict(Outcome.WRONG, f"{placed} of {len(truth)} stand where they belong.")


def _row(item: Option, place: int, count: int) -> Element:
    def button(direction: str, sign: str, *, off: bool) -> Element:
        return h(
            "button",
            h("span", sign, aria_hidden="true"),
            h("span", f"Move {item.text} {direction}", class_="kv-hidden"),
            type="button",
            class_="kv-move",
            data_move=direction,
            aria_disabled="true" if off else "false",
        )

    return h(
        "li",
        h("span", *item.label(), class_="kv-option-label"),
        h(
            "span",
            button("up", "↑", off=place == 1),
            button("down", "↓", off=place == count),
            class_="kv-moves",
        ),
        class_="kv-order-item",
        data_value=item.value,
    )
