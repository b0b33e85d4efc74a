"""Controls that only the playground has: exact numbers, with a slider for the usual ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kvdocs.errors import ParameterError, UnitError
from kvdocs.html import Element, h
from kvdocs.units import GB, format_number, parse_bytes

_SHOWN: Final = 40


def field(name: str, label: str, control: Element, *more: Element, note: str = "") -> Element:
    """Return a control with its label and the place of its message.

    Args:
        name: Parameter name.
        label: Visible label.
        control: The native control.
        *more: What stands beside it.
        note: A few words below the label.
    """
    words = h("span", h("span", label), h("small", note) if note else None, class_="kv-label")
    error = h("p", class_="kv-error", data_error_for=name, hidden=True)
    return h(
        "div", h("label", words, control), *more, error, class_="kv-control", data_control=name
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number that may be typed exactly, with a slider over usual ones.

    Attributes:
        name: Parameter name.
        label: Visible label.
        stops: The slider's numbers, ascending, as text; none for no slider.
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        default: Starting value, as text.
        unit: Unit shown with the label.
        whole: Whether only whole numbers are allowed.
    """

    name: str
    label: str
    minimum: float
    maximum: float
    default: str
    stops: tuple[str, ...] = ()
    unit: str = ""
    whole: bool = True

    def read(self, raw: str) -> float:
        """Read a number.

        Raises:
            ParameterError: None, or one outside the limits.

        Examples:
            >>> Number(name="n", label="Requests", minimum=1, maximum=10, default="1").read("1.5")
            Traceback (most recent call last):
            kvdocs.errors.ParameterError: Requests: '1.5' is not a whole number from 1 to 10
        """
        text = raw.strip().replace(",", "").replace("_", "")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not self.minimum <= value <= self.maximum or (self.whole and value % 1):
            kind = "a whole number" if self.whole else "a number"
            limits = f"{format_number(self.minimum, 4)} to {format_number(self.maximum, 4)}"
            raise ParameterError(
                f"{self.label}: {raw[:_SHOWN]!r} is not {kind} from {limits}", name=self.name
            )
        return value

    def element(self, raw: str) -> Element:
        """Return a labelled box, with a slider that sets it."""
        box = h(
            "input",
            type="text",
            inputmode="numeric" if self.whole else "decimal",
            autocomplete="off",
            name=self.name,
            value=raw,
        )
        slider = (self._slider(raw),) if self.stops else ()
        return field(self.name, self.label, box, *slider, note=self.unit)

    def _slider(self, raw: str) -> Element:
        return h(
            "input",
            type="range",
            min=0,
            max=len(self.stops) - 1,
            step=1,
            value=self._place(raw),
            data_sets=self.name,
            data_steps=" ".join(self.stops),
            aria_label=f"{self.label}, usual values",
            aria_valuetext=raw,
        )

    def _place(self, raw: str) -> int:
        """The stop nearest to what is typed."""
        try:
            wanted = self.read(raw)
        except ParameterError:
            return 0
        return min(range(len(self.stops)), key=lambda place: abs(float(self.stops[place]) - wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A figure of the reader's own, in the place of one that is known; empty takes the known one.

    Attributes:
        name: Parameter name.
        label: Visible label.
        unit: What a bare number is in.
        factor: How much that unit is.
        is_bytes: Whether units of memory may be written behind the number.
        known: What counts when it is empty, as printed.
    """

    name: str
    label: str
    unit: str = "GB"
    factor: float = GB
    is_bytes: bool = True
    known: str = ""

    default: str = ""

    def read(self, raw: str) -> float | None:
        """Read a figure; None when it is empty.

        Raises:
            ParameterError: Not a figure above 0.

        Examples:
            >>> Own(name="m", label="Memory").read("79.1 GiB"), Own(name="m", label="M").read("80")
            (84932978278.4, 80000000000.0)
        """
        text = raw.strip()
        if not text:
            return None
        try:
            value = float(text.replace(",", "")) * self.factor
        except ValueError:
            value = self._with_unit(text)
        if not 0 < value < math.inf:
            raise ParameterError(f"{self.label}: {text[:_SHOWN]!r} must be above 0", name=self.name)
        return value

    def _with_unit(self, text: str) -> float:
        how = f"{self.label}: {text[:_SHOWN]!r} is not a number of {self.unit}"
        if not self.is_bytes:
            raise ParameterError(how, name=self.name)
        try:
            return parse_bytes(text)
        except UnitError as error:
            raise ParameterError(f"{how}, such as 80 or 74.5 GiB", name=self.name) from error

    def element(self, raw: str) -> Element:
        """Return a labelled box that shows what is known until something is typed."""
        box = h(
            "input",
            type="text",
            autocomplete="off",
            name=self.name,
            value=raw,
            placeholder=self.known or None,
        )
        return field(self.name, self.label, box, note=self.unit)
