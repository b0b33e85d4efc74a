"""One of a few options; each wrong pick is struck out with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.drills.prose import spans
from kvdocs.html import Element, h


@dataclass(frozen=True, slots=True)
class Option:
    """Something to choose, or to put in order.

    Attributes:
        value: What is sent.
        text: What is shown; `code` stands in backticks.
        detail: A second line in smaller type.
    """

    value: str
    text: str
    detail: str = ""

    def label(self) -> tuple[Element, ...]:
        """Return what is shown."""
        detail = (h("span", *spans(self.detail), class_="kv-option-detail"),) if self.detail else ()
        return (h("span", *spans(self.text), class_="kv-option-text"), *detail)


@dataclass(frozen=True, slots=True)
class Choice:
    """Radio buttons.

    Attributes:
        options: The options for these parameters, in the order shown.
    """

    options: Callable[[Any], tuple[Option, ...]]

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Choose"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all choices
        """Say that one option is right."""
        return "One is right. A wrong pick is struck out and says why."

    def fields(self, posed: Posed[Any]) -> Element:
        """Return a radio button an option."""
        rows = (
            h(
                "li",
                h(
                    "label",
                    h("input", type="radio", name="answer", value=option.value),
                    h("span", *option.label(), class_="kv-option-label"),
                ),
                h("p", class_="kv-option-why", hidden=True),
                class_="kv-option",
                data_option=option.value,
            )
            for option in self.options(posed.params)
        )
        return h("ul", *rows, class_="kv-options", data_answer="choice")

    def written(self, answer: Any) -> str:
        """Return the option's value."""
        return str(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether two options are one."""
        return bool(some == other)

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Compare the option."""
        values = [option.value for option in self.options(posed.params)]
        if raw not in values:
            return Verdict(Outcome.UNREADABLE, "Nothing is chosen yet: pick one of the options.")
        if raw == posed.answer:
            return Verdict(Outcome.RIGHT, "")
        for mistake in posed.misconceptions:
            if mistake.answer == raw:
                return Verdict(Outcome.WRONG, mistake.message, ruled_out=str(raw))
        return Verdict(Outcome.WRONG, "Not this one.", ruled_out=str(raw))
