"""Charts to take away: whole SVG files with axes, colours of their own, and no style sheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kvdocs.html import Element, Node, svg
from kvdocs.units import format_number

INK: Final = "#1c2430"
SOFT: Final = "#535c69"
LINE: Final = "#d8d2c5"
PAPER: Final = "#ffffff"
COLOURS: Final = ("#2f5fb3", "#b3541e")
"""Of set-up A and set-up B."""
DASHES: Final = ("none", "7 4")
WIDTH: Final = 900
LEFT: Final = 90
RIGHT: Final = 24
PANEL: Final = 150
GAP: Final = 54
HEAD: Final = 64
FOOT: Final = 40
FONT: Final = "IBM Plex Sans, Helvetica, Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity over the shared axis.

    Attributes:
        name: What it is, with its unit.
        series: Values of each set-up.
        places: Where on the axis they lie, from 0 to 1, for each set-up.
        top: Value at the upper edge.
        top_label: That value as printed.
    """

    name: str
    series: tuple[Sequence[float], ...]
    places: tuple[Sequence[float], ...]
    top: float
    top_label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart of several panels, one below the other.

    Attributes:
        title: What it shows.
        names: The set-ups' names, for the key.
        panels: The panels.
        ticks: Labels of the axis, and where they lie, from 0 to 1.
        axis: What the axis is.
    """

    title: str
    names: tuple[str, ...]
    panels: tuple[Panel, ...]
    ticks: tuple[tuple[float, str], ...]
    axis: str

    @property
    def height(self) -> int:
        """Pixels."""
        return HEAD + 18 * len(self.names) + len(self.panels) * (PANEL + GAP) + FOOT

    def svg(self) -> str:
        """The whole file."""
        top = HEAD + 18 * len(self.names)
        drawing = svg(
            "svg",
            svg("title", self.title),
            svg("rect", width=WIDTH, height=self.height, fill=PAPER),
            _text(self.title, x=20, y=32, size=18, weight=600),
            *self._key(),
            *(
                self._panel(panel, top + 24 + index * (PANEL + GAP))
                for index, panel in enumerate(self.panels)
            ),
            *self._axis(top + 24 + len(self.panels) * (PANEL + GAP) - GAP),
            xmlns="http://www.w3.org/2000/svg",
            width=WIDTH,
            height=self.height,
            view_box=f"0 0 {WIDTH} {self.height}",
            font_family=FONT,
        )
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}\n'

    def _key(self) -> Iterator[Element]:
        for index, name in enumerate(self.names):
            y = 54 + 18 * index
            yield svg(
                "path",
                d=f"M20 {y - 4}h32",
                stroke=COLOURS[index],
                stroke_width=2.5,
                stroke_dasharray=DASHES[index],
            )
            yield _text(name, x=60, y=y, size=13)

    def _panel(self, panel: Panel, top: int) -> Element:
        lines = (
            svg(
                "path",
                d=_line(panel, index, top),
                fill="none",
                stroke=COLOURS[index],
                stroke_width=1.8,
                stroke_dasharray=DASHES[index],
                stroke_linejoin="round",
            )
            for index in range(len(panel.series))
        )
        width = WIDTH - LEFT - RIGHT
        return svg(
            "g",
            _text(panel.name, x=LEFT, y=top - 8, size=13, weight=600),
            svg("path", d=f"M{LEFT} {top}h{width}M{LEFT} {top + PANEL}h{width}", stroke=LINE),
            _text(panel.top_label, x=LEFT - 8, y=top + 4, size=12, anchor="end", fill=SOFT),
            _text("0", x=LEFT - 8, y=top + PANEL + 4, size=12, anchor="end", fill=SOFT),
            *lines,
        )

    def _axis(self, y: int) -> Iterator[Element]:
        width = WIDTH - LEFT - RIGHT
        for place, label in self.ticks:
            x = LEFT + place * width
            yield svg("path", d=f"M{x:.1f} {y}v6", stroke=SOFT)
            yield _text(label, x=x, y=y + 20, size=12, anchor="middle", fill=SOFT)
        yield _text(self.axis, x=WIDTH - RIGHT, y=y + 38, size=12, anchor="end", fill=SOFT)


def _line(panel: Panel, index: int, top: int) -> str:
    width = WIDTH - LEFT - RIGHT
    points = (
        f"{LEFT + place * width:.1f} {top + PANEL * (1 - min(1.0, value / panel.top)):.1f}"
        for place, value in zip(panel.places[index], panel.series[index], strict=True)
    )
    return "M" + "L".join(points)


def _text(
    content: Node,
    *,
    x: float,
    y: float,
    size: int,
    weight: int = 400,
    anchor: str = "start",
    fill: str = INK,
) -> Element:
    return svg(
        "text",
        content,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        font_size=size,
        font_weight=weight,
        text_anchor=anchor,
        fill=fill,
    )


def decades(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Ticks of a logarithmic axis of seconds, at powers of ten.

    Args:
        low: Exponent of ten at its start.
        high: At its end.

    Examples:
        >>> decades(-1, 1)
        ((0.0, '0.1 s'), (0.5, '1 s'), (1.0, '10 s'))
    """
    span = high - low
    return tuple(
        ((power - low) / span, f"{format_number(10.0**power, 4)} s")
        for power in range(round(low), round(high) + 1)
    )
