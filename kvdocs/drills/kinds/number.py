"""A number with a unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Misconception, Outcome, Posed, Verdict
from kvdocs.drills.quantities import Quantity, close
from kvdocs.errors import UnitError
from kvdocs.html import Element, h
from kvdocs.units import format_number


@dataclass(frozen=True, slots=True)
class Number:
    """A box for a number; its unit stands beside it.

    Attributes:
        quantity: What is asked for, and how it is written.
        tolerance: Share of the truth by which an answer may be off; 0 where it must be exact.
    """

    quantity: Quantity
    tolerance: float = 0.01

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Compute"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all numbers
        """Say how exact the number must be, and how it may be written."""
        exact = f"within {self.tolerance:.0%} is right" if self.tolerance else "the exact number"
        return f"{exact[0].upper()}{exact[1:]}. {self.quantity.examples}"

    def fields(self, posed: Posed[Any]) -> Element:  # noqa: ARG002 - one for all numbers
        """Return a labelled box with its unit."""
        return number_box("Your answer", self.quantity)

    def written(self, answer: Any) -> str:
        """Return the number as it is printed."""
        return self.quantity.show(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether a number would pass for another."""
        return close(some, other, self.tolerance)

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Read the number and compare it."""
        try:
            value = self.quantity.read(str(raw))
        except UnitError as error:
            return unreadable(error)
        truth = posed.answer
        if self.same(value, truth):
            exact, written = self.quantity.show(truth), self.quantity.show(value)
            near = "" if written == exact else f" Yours, {written}, is near enough."
            return Verdict(Outcome.RIGHT, f"{exact}.{near}")
        slip = self.quantity.slip(str(raw), truth, self.tolerance)
        mistake = mistake_of(value, posed, self._like)
        return Verdict(Outcome.WRONG, slip or mistake or direction(value, truth))

    def _like(self, value: float, mistake: float) -> bool:
        """Whether a number is what a mistake leads to; half a per cent off may be rounding."""
        return close(value, mistake, max(self.tolerance, 0.005))


def number_box(label: str, quantity: Quantity) -> Element:
    """Return a labelled text box with its unit behind it."""
    box = h(
        "input",
        type="text",
        name="answer",
        inputmode="decimal",
        autocomplete="off",
        spellcheck="false",
        data_answer="text",
    )
    return h(
        "label",
        h("span", label, class_="kv-label"),
        h("span", box, h("span", quantity.unit, class_="kv-box-unit"), class_="kv-box"),
        class_="kv-number-field",
    )


def unreadable(error: UnitError) -> Verdict:
    """Return the verdict on what is no number; the error says what is allowed."""
    text = str(error)
    return Verdict(Outcome.UNREADABLE, f"{text[0].upper()}{text[1:]}.".replace("..", "."))


def mistake_of(value: float, posed: Posed[Any], near: Callable[[float, float], bool]) -> str:
    """Return the message of the misconception whose answer is nearest, if one is near; else ""."""

    def distance(mistake: Misconception) -> float:
        return abs(value - float(mistake.answer))

    nearest = min(posed.misconceptions, key=distance, default=None)
    if nearest is None or not near(value, nearest.answer):
        return ""
    return nearest.message


def direction(value: float, truth: float) -> str:
    """Say on which side of the truth a value lies, and whether it is far off.

    Examples:
        >>> direction(3, 2), direction(1, 200)
        ('Too high.', 'Too low, by more than 100 times: check the units and the powers of ten.')
    """
    word = "Too high" if value > truth else "Too low"
    factor = max(abs(value), abs(truth)) / max(min(abs(value), abs(truth)), 1e-300)
    for far in (1000, 100, 10):
        if factor > far:
            times = format_number(far)
            return f"{word}, by more than {times} times: check the units and the powers of ten."
    return f"{word}."
