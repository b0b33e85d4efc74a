"""Draw the pages' charts into them as SVG, once wide and once for a phone.

A chart stands in the page as an empty element that carries its Vega-Lite specification (see
`kvdocs.widgets.chart`). What is drawn is complete without scripts; the style sheet shows the
drawing that suits the width, and gives the colours, which the specification names as variables.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from html import unescape
from typing import Final

import vl_convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

WIDTHS: Final = {"wide": 760, "narrow": 300}
"""Pixels each drawing is made for, by its name in the style sheet."""
VEGA_LITE: Final = "6.4"
"""The version drawn with; package.json pins the same for the browser."""

_PLACE: Final = re.compile(
    r'(?P<start><div class="kv-chart"[^>]* data-spec="(?P<spec>[^"]*)">)(?=</div>)'
)
_IDENT: Final = re.compile(r'(?<=\bid=")|(?<=url\(#)')


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Draw every chart of the page, after the search index has read it: its ticks are no text."""
    return draw_charts(output)


def draw_charts(output: str) -> str:
    """Fill each chart's place with its drawings."""
    count = iter(range(len(output)))

    def fill(place: re.Match[str]) -> str:
        spec, number = unescape(place["spec"]), next(count)
        drawn = (
            draw(spec, width=width).replace(
                "<svg ", f'<svg data-fit="{name}" aria-hidden="true" ', 1
            )
            for name, width in WIDTHS.items()
        )
        named = (
            _IDENT.sub(f"chart-{number}-{name}-", svg)
            for name, svg in zip(WIDTHS, drawn, strict=True)
        )
        return place["start"] + "".join(named)

    return _PLACE.sub(fill, output)


@lru_cache(maxsize=256)
def draw(spec: str, *, width: int) -> str:
    """Return the SVG of a specification at a width.

    Args:
        spec: Vega-Lite, as JSON.
        width: Pixels.
    """
    fitted = json.loads(spec) | {"width": width}
    svg: str = vl_convert.vegalite_to_svg(fitted, vl_version=VEGA_LITE)
    return svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
