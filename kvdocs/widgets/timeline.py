"""The control of a running simulation: a slider over its moments, with play, step and speed.

The page's runtime moves the slider; each moment is drawn like any other parameter, so playing to a
moment and jumping to it give the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvdocs.errors import ParameterError
from kvdocs.html import Element, h

SPEEDS: Final = (("0.5", "½×"), ("1", "1×"), ("2", "2×"), ("4", "4×"))
"""How fast the reader may let it play."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A slider over the moments of a run, numbered from 0, that can play.

    Keys: space plays and pauses, the arrows step. Nothing plays before it is asked to.

    Attributes:
        name: Parameter name.
        label: What a moment is called, such as "Step" or "Second".
        maximum: The last moment.
        default: Starting moment, as text.
        frame: Moments that one frame of playing advances.
        interval_ms: Time between two frames at speed 1.
        calm_frame: Moments that a frame advances where the reader asked for less motion; such
            frames come once a second.
        minimum: The first moment.
    """

    name: str
    label: str
    maximum: int
    default: str
    frame: int = 1
    interval_ms: int = 400
    calm_frame: int = 1
    minimum: int = 0

    def read(self, raw: str) -> int:
        """Read a moment.

        Raises:
            ParameterError: Not a whole number from the first moment to the last.

        Examples:
            >>> Timeline(name="t", label="Step", maximum=80, default="0").read("12")
            12
        """
        whole = raw.isascii() and raw.isdigit() and len(raw) <= 9
        if not whole or not self.minimum <= int(raw) <= self.maximum:
            raise ParameterError(
                f"{self.label}: {raw[:40]!r} is not a whole number from {self.minimum:,}"
                f" to {self.maximum:,}",
                name=self.name,
            )
        return int(raw)

    def _shown(self, raw: str) -> str:
        return f"{int(raw):,} of {self.maximum:,}"

    def _slider(self, raw: str) -> Element:
        return h(
            "input",
            type="range",
            name=self.name,
            min=self.minimum,
            max=self.maximum,
            step=1,
            value=raw,
            aria_valuetext=f"{self.label} {self._shown(raw)}",
            data_frame=self.frame,
            data_interval=self.interval_ms,
            data_calm_frame=self.calm_frame,
        )

    def element(self, raw: str) -> Element:
        """Return the slider with its buttons, showing that moment."""
        label = h("label", h("span", self.label, class_="kv-label"), self._slider(raw))
        value = h("span", self._shown(raw), class_="kv-range-value", aria_hidden="true")
        error = h("p", class_="kv-error", data_error_for=self.name, hidden=True)
        return h(
            "div",
            label,
            value,
            error,
            _buttons(),
            class_="kv-control",
            data_control=self.name,
        )


def _button(act: str, sign: str, word: str, *, name: str | None = None) -> Element:
    return h(
        "button",
        h("span", sign, class_="kv-sign", aria_hidden="true"),
        h("span", word, class_="kv-word"),
        type="button",
        aria_label=name,
        class_="kv-button",
        data_act=act,
    )


def _buttons() -> Element:
    speeds = (h("option", text, value=value, selected=value == "1") for value, text in SPEEDS)
    return h(
        "div",
        _button("play", "▶", "Play"),
        _button("back", "◀", "Back", name="Back one step"),
        _button("forward", "▶", "Forward", name="Forward one step"),
        h("label", h("span", "Speed"), h("select", *speeds, data_act="speed"), class_="kv-speed"),
        class_="kv-transport",
        role="group",
        aria_label="Playback",
    )
