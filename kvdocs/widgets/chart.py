"""A chart: a Vega-Lite specification made in Python, drawn where the page is.

The site's build draws the specification into the page as SVG; in the browser the page's runtime
draws the same one after a change. Colours are the style sheet's variables, so one drawing serves
both colour schemes and follows a switch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.html import Element, h

INK: Final = "var(--kv-ink)"
SOFT: Final = "var(--kv-soft)"
LINE: Final = "var(--kv-line)"
PAPER: Final = "var(--kv-paper)"
FIRST: Final = "var(--kv-first)"
"""Colour of the first of two things compared."""
SECOND: Final = "var(--kv-second)"
"""Colour of the second."""

WIDTH: Final = 760
"""Pixels, until the drawing is fitted to its place."""

CONFIG: Final[dict[str, Any]] = {
    "aria": False,
    "background": None,
    "mark": {"aria": False},
    "font": "IBM Plex Sans Variable, sans-serif",
    "padding": 2,
    "view": {"stroke": None},
    "axis": {
        "domainColor": SOFT,
        "gridColor": LINE,
        "labelColor": SOFT,
        "labelFontSize": 12,
        "tickColor": SOFT,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 8,
    },
    "text": {"color": INK, "fontSize": 12},
}
"""What all charts of the site share."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to stand in a picture.

    Attributes:
        spec: What is drawn: a Vega-Lite view (`data` inline, `mark` or `layer`, `encoding`).
        label: What it shows, in words, for those who do not see it; its data stand in the
            widget's table.
        height: Pixels.
    """

    spec: Mapping[str, Any]
    label: str
    height: int = 320

    def specification(self) -> dict[str, Any]:
        """Return the whole Vega-Lite specification.

        Examples:
            >>> Chart({"mark": "bar"}, "Bars.").specification()["height"]
            320
        """
        return {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": WIDTH,
            "height": self.height,
            "autosize": {"type": "fit", "contains": "padding"},
            "config": CONFIG,
            **self.spec,
        }

    def element(self) -> Element:
        """Return the place the chart is drawn into.

        Examples:
            >>> print(Chart({"mark": "bar"}, "Bars.").element())  # doctest: +ELLIPSIS
            <div class="kv-chart" role="img" aria-label="Bars." data-spec="{...}"></div>
        """
        spec = json.dumps(self.specification(), separators=(",", ":"), ensure_ascii=False)
        return h("div", class_="kv-chart", role="img", aria_label=self.label, data_spec=spec)


def rows(**columns: tuple[Any, ...]) -> dict[str, Any]:
    """Return columns as inline data.

    Examples:
        >>> rows(x=(1, 2), y=("a", "b"))
        {'values': [{'x': 1, 'y': 'a'}, {'x': 2, 'y': 'b'}]}
    """
    cells = zip(*columns.values(), strict=True)
    return {"values": [dict(zip(columns, row, strict=True)) for row in cells]}
