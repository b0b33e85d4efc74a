"""Build HTML and SVG as a tree, so that everything shown is escaped by construction.

Text becomes markup only through `h`; a string child is always text. There is no way to insert raw
markup, so a pasted `<script>` can only ever be shown, never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
"""HTML elements without an end tag (HTML Living Standard, section 13.1.2)."""

_SVG_CASE: Final = {"view-box": "viewBox", "preserve-aspect-ratio": "preserveAspectRatio"}

Attribute: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Element:
    """One element of HTML or SVG.

    Attributes:
        name: Tag name.
        attributes: Attribute names and values, in order.
        children: Elements and texts, in order.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Element | str, ...]

    def __str__(self) -> str:
        """Return the markup."""
        return "".join(_markup(self))

    def _repr_html_(self) -> str:
        """Show the element in a notebook."""
        return str(self)


Node: TypeAlias = Element | str | None
"""What may stand as a child: an element, a text, or None for nothing."""


def _attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _attributes(attributes: dict[str, Attribute]) -> Iterator[tuple[str, str]]:
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        yield _attribute_name(name), "" if value is True else str(value)


def h(name: str, /, *children: Node, **attributes: Attribute) -> Element:
    """Make an element.

    Args:
        name: Tag name.
        *children: Elements and texts; None is left out.
        **attributes: A trailing underscore is dropped (`class_`), other underscores become
            hyphens (`data_figure`). True gives a bare attribute; None and False give none.

    Examples:
        >>> str(h("p", "1 < 2 & ", h("b", "bold"), class_="note"))
        '<p class="note">1 &lt; 2 &amp; <b>bold</b></p>'
        >>> str(h("input", type="range", disabled=True))
        '<input type="range" disabled>'
    """
    kept = tuple(child for child in children if child is not None)
    return Element(name, tuple(_attributes(attributes)), kept)


def svg(name: str, /, *children: Node, **attributes: Attribute) -> Element:
    """Make an SVG element; like `h`, with SVG's case-sensitive attribute names.

    Examples:
        >>> str(svg("svg", svg("rect", width=4, height=2), view_box="0 0 8 2"))
        '<svg viewBox="0 0 8 2"><rect width="4" height="2"></rect></svg>'
    """
    element = h(name, *children, **attributes)
    renamed = tuple((_SVG_CASE.get(key, key), value) for key, value in element.attributes)
    return Element(name, renamed, element.children)


def _markup(node: Element | str) -> Iterator[str]:
    if isinstance(node, str):
        yield escape(node, quote=False)
        return
    yield f"<{node.name}"
    for name, value in node.attributes:
        yield f' {name}="{escape(value)}"' if value else f" {name}"
    yield ">"
    if node.name in VOID:
        return
    for child in node.children:
        yield from _markup(child)
    yield f"</{node.name}>"
