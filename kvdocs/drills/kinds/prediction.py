"""A number guessed before the truth is shown; the guess stays beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.drills.kinds.number import mistake_of, number_box, unreadable
from kvdocs.drills.quantities import Quantity, close
from kvdocs.errors import UnitError
from kvdocs.html import Element, h
from kvdocs.units import format_number


@dataclass(frozen=True, slots=True)
class Slider:
    """A slider to guess with, in the quantity's printed unit.

    Attributes:
        minimum: Left end.
        maximum: Right end.
        step: Distance of two positions.
        start: Where it stands at first; not the answer.
    """

    minimum: float
    maximum: float
    step: float
    start: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A guess by number or slider. Any guess reveals the truth; one is not asked twice.

    Attributes:
        quantity: What is guessed, and how it is written.
        tolerance: Share of the truth by which a guess may be off and is called right.
        points: Percentage points by which it may be off instead, where a percentage is guessed.
        slider: A slider instead of a box.
    """

    quantity: Quantity
    tolerance: float = 0.1
    points: float | None = None
    slider: Slider | None = None

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Predict first"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all predictions
        """Say how near a guess should come, and how it may be written."""
        share = self.points is None
        off = f"{self.tolerance:.0%}" if share else f"{self.points:g} percentage points"
        near = f"Any guess shows the answer; within {off} counts as a hit."
        return near if self.slider else f"{near} {self.quantity.examples}"

    def fields(self, posed: Posed[Any]) -> Element:  # noqa: ARG002 - one for all predictions
        """Return a labelled box or slider."""
        if self.slider is None:
            return number_box("Your guess", self.quantity)
        return _slider("Your guess", self.slider, self.quantity.unit)

    def written(self, answer: Any) -> str:
        """Return the number as it is printed."""
        return self.quantity.show(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether a guess would pass for another."""
        return self._near(some, other)

    def _near(self, value: float, truth: float, part: float = 1) -> bool:
        """Whether a value lies within the tolerance, or a part of it."""
        if self.points is None:
            return close(value, truth, self.tolerance * part)
        return abs(value - truth) <= self.points * part

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Compare the guess with the truth and show both."""
        try:
            value = self.quantity.read(str(raw))
        except UnitError as error:
            return unreadable(error)
        truth = posed.answer
        guess, shown = self.quantity.show(value), self.quantity.show(truth)
        if self.same(value, truth):
            return Verdict(Outcome.RIGHT, "Well predicted.", guess=guess, truth=shown)
        mistake = mistake_of(value, posed, lambda guess, known: self._near(guess, known, 0.5))
        return Verdict(Outcome.WRONG, mistake or _distance(value, truth), guess=guess, truth=shown)


def _distance(value: float, truth: float) -> str:
    """Say how far a guess is from the truth."""
    if value <= 0 or truth <= 0:
        return "Your guess is nowhere near; see below how it is computed."
    factor = max(value / truth, truth / value)
    side = "high" if value > truth else "low"
    off = (
        f"{factor - 1:.0%} too {side}" if factor < 2 else f"{format_number(factor, 1)}× too {side}"
    )
    return f"Your guess is {off}; see below how it is computed."


def _slider(label: str, slider: Slider, unit: str) -> Element:
    def plain(value: float) -> str:
        return format_number(value, 6).replace(",", "")

    box = h(
        "input",
        type="range",
        name="answer",
        min=plain(slider.minimum),
        max=plain(slider.maximum),
        step=plain(slider.step),
        value=plain(slider.start),
        aria_valuetext=f"{format_number(slider.start, 6)} {unit}",
        data_answer="text",
        data_unit=unit,
    )
    shown = h("output", f"{format_number(slider.start, 6)} {unit}", class_="kv-slider-value")
    return h(
        "div",
        h("label", h("span", label, class_="kv-label"), box),
        shown,
        class_="kv-slider-field",
    )
