"""What a widget returns: a picture with its figures, words and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kvdocs.html import Element, h

NONE: Final = "–"
"""The value of a figure for what a server that does not start never has."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One key figure below a picture.

    Attributes:
        name: Stable name; the element that shows the value carries it as `data-figure`.
        label: What the figure is, in a few words.
        value: The value as printed, thousands separators included.
        unit: Unit as printed, or "" for a pure number.
        formula: The small formula it comes from, with its numbers filled in.
    """

    name: str
    label: str
    value: str
    unit: str = ""
    formula: str = ""

    def element(self) -> Element:
        """Return the figure as HTML."""
        return h(
            "div",
            h("dt", self.label),
            h(
                "dd",
                h("span", self.value, class_="kv-value", data_figure=self.name),
                h("span", "\N{NO-BREAK SPACE}" + self.unit, class_="kv-unit")
                if self.unit
                else None,
                class_="kv-number",
            ),
            h("dd", self.formula, class_="kv-formula") if self.formula else None,
            class_="kv-figure",
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The data behind a picture, for those who cannot or would rather not see it.

    Attributes:
        head: Column titles.
        rows: One tuple of printed cells a row; the first cell names the row.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def element(self) -> Element:
        """Return the table as HTML."""
        head = h("thead", h("tr", *(h("th", title, scope="col") for title in self.head)))
        body = h(
            "tbody",
            *(
                h("tr", h("th", row[0], scope="row"), *(h("td", cell) for cell in row[1:]))
                for row in self.rows
            ),
        )
        return h("table", head, body, class_="kv-table")


@dataclass(frozen=True, slots=True)
class View:
    """A widget's picture for one set of parameters.

    Attributes:
        title: A sentence that states what is seen.
        picture: HTML or SVG.
        figures: Key figures, the most important first.
        caption: What to notice.
        table: The same data as a table.
        python: The `kvdocs` call that makes the same figures.
        announce: One sentence for screen readers after a change.
        state: What a running simulation must be handed with its next update, as plain JSON; None
            for a widget whose parameters say all.
        params: Parameters that the controls show instead of what was sent: those in force at the
            moment drawn.
    """

    title: str
    picture: Element
    figures: tuple[Figure, ...]
    caption: str
    table: Table
    python: str
    announce: str
    state: Any = None
    params: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Show picture, figures and words in a notebook or a page's block."""
        figures = h("dl", *(figure.element() for figure in self.figures), class_="kv-figures")
        return str(
            h(
                "figure",
                h("p", self.title, class_="kv-title"),
                h("div", self.picture, class_="kv-picture"),
                figures,
                h("figcaption", self.caption, class_="kv-caption"),
                class_="kv-frame",
            )
        )

    def figure(self, name: str) -> Figure:
        """Return the figure of that name.

        Raises:
            KeyError: The view has no such figure.
        """
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(name)
