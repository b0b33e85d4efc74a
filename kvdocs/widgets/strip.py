"""Small charts over time, one below the other, as plain SVG: cheap enough for every frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvdocs.html import Element, h, svg

HEIGHT: Final = 100
"""Units of a drawing's height; the style sheet gives its pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One quantity over time.

    Attributes:
        name: What it is.
        value: Its value now, as printed with its unit.
        values: One value a moment, from moment 0.
        top: Value at the upper edge.
        top_label: That value as printed.
        tone: Class of its colour: `used`, `running`, `waiting`, `compute`.
        marks: Moments at which something happened, drawn as strokes from below.
    """

    name: str
    value: str
    values: Sequence[float]
    top: float
    top_label: str
    tone: str
    marks: Sequence[int] = ()


def area(values: Sequence[float], top: float) -> str:
    """Return the path of the area below values, one unit of width a moment.

    Examples:
        >>> area((0, 1), 2)
        'M0 100V100H1V50H2V100z'
    """
    scale = HEIGHT / top if top else 0.0
    last, path = -1.0, "M0 100"
    for moment, value in enumerate(values):
        level = round(HEIGHT - min(value, top) * scale, 1)
        if level != last:
            path += f"{f'H{moment}' if moment else ''}V{level:g}"
            last = level
    return f"{path}H{len(values)}V100z"


def _drawing(strip: Strip, num_moments: int, now: int, changes: str) -> Element:
    marks = "".join(f"M{moment + 0.5} 100V70" for moment in strip.marks)
    return svg(
        "svg",
        svg("path", d=area(strip.values, strip.top), class_=f"kv-area kv-tone-{strip.tone}"),
        svg("path", d=marks, class_="kv-strip-mark") if marks else None,
        svg("path", d=changes, class_="kv-change-mark") if changes else None,
        svg("path", d=f"M{_place(now, num_moments)} 0V100", class_="kv-now"),
        view_box=f"0 0 {num_moments} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )


def _place(now: int, num_moments: int) -> float:
    """Where the stroke stands: in the middle of its moment, and at the end of the last."""
    return num_moments if now == num_moments - 1 else now + 0.5


def _strip(strip: Strip, num_moments: int, now: int, changes: str) -> Element:
    return h(
        "div",
        h(
            "p",
            h("span", strip.name),
            h("b", strip.value),
            class_="kv-strip-name",
        ),
        h(
            "div",
            _drawing(strip, num_moments, now, changes),
            h("span", strip.top_label),
            class_="kv-plot",
        ),
        class_="kv-strip",
    )


def strips(
    entries: Sequence[Strip],
    *,
    num_moments: int,
    now: int,
    axis: tuple[str, ...],
    label: str,
    changes: Sequence[int] = (),
) -> Element:
    """Draw quantities over the same time, one below the other.

    Args:
        entries: The quantities.
        num_moments: Moments in the whole width.
        now: The moment that is shown.
        axis: Labels of the time axis, evenly spaced from its start to its end.
        label: What the charts show, in words.
        changes: Moments at which the reader changed something, as dotted lines.
    """
    lines = "".join(f"M{moment + 0.5} 0V100" for moment in changes)
    rows = (_strip(entry, num_moments, now, lines) for entry in entries)
    return h(
        "div",
        h("div", *rows, class_="kv-strip-rows"),
        h("div", *(h("span", text) for text in axis), class_="kv-scale", aria_hidden="true"),
        class_="kv-strips",
        role="img",
        aria_label=label,
    )
