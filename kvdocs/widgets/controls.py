"""A widget's controls: what may be chosen, how it is read, how it is shown.

Each control reads what a form sends (always text) and refuses what it does not allow with a
`ParameterError` that says what it does allow. Each is a native, labelled form control.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from kvdocs.errors import ParameterError
from kvdocs.html import Element, h
from kvdocs.units import format_number


class Control(Protocol):
    """A parameter the reader can set."""

    @property
    def name(self) -> str:
        """The parameter's name."""

    @property
    def label(self) -> str:
        """What the reader sees it called."""

    @property
    def default(self) -> str:
        """The value it starts with, as a form would send it."""

    def read(self, raw: str) -> object:
        """Return the value a form sent, or raise `ParameterError`."""

    def element(self, raw: str) -> Element:
        """Return the control as HTML, showing that value."""


def _field(control: Control, label: Element, *extra: Element) -> Element:
    error = h("p", class_="kv-error", data_error_for=control.name, hidden=True)
    return h("div", label, *extra, error, class_="kv-control", data_control=control.name)


@dataclass(frozen=True, slots=True)
class Range:
    """A slider over numbers.

    Attributes:
        name: Parameter name.
        label: Visible label.
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        step: Distance between two positions.
        default: Starting value, as text.
        unit: Unit shown after the value; "" for none.
        digits: Decimals shown.
        fresh: Whether a visit starts at a number of its own, where Python is live soon enough.
    """

    name: str
    label: str
    minimum: float
    maximum: float
    step: float
    default: str
    unit: str = ""
    digits: int = 2
    fresh: bool = False

    def read(self, raw: str) -> float:
        """Read a number inside the range.

        Raises:
            ParameterError: Not a finite number, or outside the range.

        Examples:
            >>> Range("u", "Memory share", 0.5, 0.98, 0.01, "0.9").read("0.8")
            0.8
        """
        allowed = f"{format_number(self.minimum, 4)} to {format_number(self.maximum, 4)}"
        try:
            value = float(raw)
        except ValueError:
            value = math.nan
        if not self.minimum <= value <= self.maximum:
            raise ParameterError(
                f"{self.label}: {raw[:40]!r} is not a number from {allowed}", name=self.name
            )
        return value

    def _shown(self, raw: str) -> str:
        shown = f"{float(raw):,.{self.digits}f}"
        return f"{shown}\N{NO-BREAK SPACE}{self.unit}" if self.unit else shown

    def element(self, raw: str) -> Element:
        """Return a labelled slider with its value beside it."""
        slider = h(
            "input",
            type="range",
            name=self.name,
            min=format_number(self.minimum, 6).replace(",", ""),
            max=format_number(self.maximum, 6).replace(",", ""),
            step=format_number(self.step, 6).replace(",", ""),
            value=raw,
            aria_valuetext=self._shown(raw),
            data_fresh=self.fresh,
        )
        # Beside the label, not in it: a control's name must not change with its value.
        value = h("span", self._shown(raw), class_="kv-range-value", aria_hidden="true")
        return _field(self, h("label", h("span", self.label, class_="kv-label"), slider), value)


@dataclass(frozen=True, slots=True)
class Steps:
    """A slider over a few whole numbers that lie unevenly, such as powers of two.

    The page's runtime turns the slider's position into the number at that place and back.

    Attributes:
        name: Parameter name.
        label: Visible label.
        values: The numbers, ascending, each above 0.
        default: Starting value, as text.
        unit: Unit shown after the value; "" for none.
    """

    name: str
    label: str
    values: tuple[int, ...]
    default: str
    unit: str = ""

    def read(self, raw: str) -> int:
        """Read a number: the step nearest to it by ratio, for the steps may have changed.

        Raises:
            ParameterError: Not a whole number above 0.

        Examples:
            >>> heads = Steps("h", "Heads", (1, 2, 4, 7, 14, 28), "4")
            >>> heads.read("14"), heads.read("8"), heads.read("64")
            (14, 7, 28)
        """
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 18 and int(raw)):
            shown = ", ".join(f"{value:,}" for value in self.values)
            raise ParameterError(
                f"{self.label}: {raw[:40]!r} is not one of {shown}", name=self.name
            )
        wanted = int(raw)
        return min(self.values, key=lambda value: max(value / wanted, wanted / value))

    def element(self, raw: str) -> Element:
        """Return a labelled slider with its value beside it."""
        value = self.read(raw)
        shown = f"{value:,}\N{NO-BREAK SPACE}{self.unit}" if self.unit else f"{value:,}"
        slider = h(
            "input",
            type="range",
            name=self.name,
            min="0",
            max=len(self.values) - 1,
            step="1",
            value=self.values.index(value),
            data_steps=" ".join(map(str, self.values)),
            aria_valuetext=shown,
        )
        beside = h("span", shown, class_="kv-range-value", aria_hidden="true")
        return _field(self, h("label", h("span", self.label, class_="kv-label"), slider), beside)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few options.

    Attributes:
        name: Parameter name.
        label: Visible label.
        options: Pairs of value and visible text.
        default: Starting value.
    """

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    default: str

    def read(self, raw: str) -> str:
        """Read one of the options.

        Raises:
            ParameterError: Not one of them.
        """
        values = [value for value, _ in self.options]
        if raw not in values:
            raise ParameterError(
                f"{self.label}: {raw[:40]!r} is not one of {', '.join(values)}", name=self.name
            )
        return raw

    def element(self, raw: str) -> Element:
        """Return a labelled select."""
        options = (
            h("option", text, value=value, selected=value == raw) for value, text in self.options
        )
        return _field(
            self,
            h(
                "label",
                h("span", self.label, class_="kv-label"),
                h("select", *options, name=self.name),
            ),
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A box for text the reader types or pastes.

    Attributes:
        name: Parameter name.
        label: Visible label.
        default: Starting text.
        placeholder: Example of what may be pasted.
        max_characters: Longer text is refused.
        lines: Height of the box, in lines.
    """

    name: str
    label: str
    default: str = ""
    placeholder: str = ""
    max_characters: int = 1_000_000
    lines: int = 4

    def read(self, raw: str) -> str:
        """Read the text.

        Raises:
            ParameterError: Longer than allowed.
        """
        if len(raw) > self.max_characters:
            raise ParameterError(
                f"{self.label}: {len(raw):,} characters are too many;"
                f" at most {self.max_characters:,} are read. Nothing was changed.",
                name=self.name,
            )
        return raw

    def element(self, raw: str) -> Element:
        """Return a labelled text area."""
        return _field(
            self,
            h(
                "label",
                h("span", self.label, class_="kv-label"),
                h(
                    "textarea",
                    raw,
                    name=self.name,
                    rows=self.lines,
                    spellcheck="false",
                    autocomplete="off",
                    placeholder=self.placeholder or None,
                ),
            ),
        )
