"""How the value of a block's last expression is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pprint import pformat
from typing import Any, Final, Literal, TypeAlias

from kvdocs.cells.output import Limits
from kvdocs.html import Element

Kind: TypeAlias = Literal["nothing", "text", "html"]

LINE: Final = 88
LONGEST_PRETTY: Final = 20_000
"""A longer repr is shown as it is: breaking it into lines would take too long."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as the page shows it.

    Attributes:
        kind: `nothing` (for None), `text`, or `html` (HTML or SVG, which the page makes inert).
        content: The text or the markup.
    """

    kind: Kind
    content: str


def shown(value: object, limits: Limits | None = None) -> Shown:
    """Return how a value is shown: drawn if it can draw itself, else its repr.

    Args:
        value: Any object. `_repr_html_()`, `_repr_svg_()` or an `element()` that returns a
            `kvdocs.html.Element` draw it.
        limits: The most that is shown; the default limits when not given.

    Examples:
        >>> shown(0)
        Shown(kind='text', content='0')
        >>> shown(None).kind
        'nothing'
        >>> from kvdocs.html import h
        >>> shown(h("b", "1 < 2"))
        Shown(kind='html', content='<b>1 &lt; 2</b>')
    """
    limits = limits or Limits()
    if value is None:
        return Shown("nothing", "")
    markup = _markup(value)
    if markup is None:
        return Shown("text", _cut(_text(value), limits))
    if len(markup) > limits.html:
        return Shown("text", f"Too large to draw: {len(markup):,} characters of HTML.")
    return Shown("html", markup)


def _markup(value: object) -> str | None:
    if isinstance(value, type):
        return None
    for name in ("_repr_html_", "_repr_svg_", "element"):
        method: Any = getattr(value, name, None)
        if not callable(method) or (name == "element" and not _is_ours(value)):
            continue
        drawn = method()
        if isinstance(drawn, str | Element):
            return str(drawn)
    return None


def _is_ours(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "kvdocs"


def _text(value: object) -> str:
    line = repr(value)
    if LINE < len(line) <= LONGEST_PRETTY:
        return pformat(value, width=LINE, sort_dicts=False)
    return line


def _cut(text: str, limits: Limits) -> str:
    part = limits.cut(text)
    if len(part) == len(text):
        return text
    return f"{part}\n… ({len(text):,} characters; the first {len(part):,} are shown)"
