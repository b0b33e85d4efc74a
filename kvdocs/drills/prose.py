"""The little that a drill's text needs: code in backticks, a list of sums, a file to read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kvdocs.html import Element, Node, h


def spans(text: str) -> tuple[Node, ...]:
    """Split a text into texts and, where it stands in backticks, code.

    Examples:
        >>> [str(span) for span in spans("Set `--seed` to <1>")]
        ['Set ', '<code>--seed</code>', ' to <1>']
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner is a backtick
        return (text,)
    return tuple(h("code", part) if odd % 2 else part for odd, part in enumerate(parts) if part)


def paragraph(text: str | Element, **attributes: str) -> Element:
    """Return a paragraph, or an element as it is."""
    return text if isinstance(text, Element) else h("p", *spans(text), **attributes)


def working(*lines: tuple[str, str]) -> Element:
    """Return sums, each with what it is.

    Args:
        *lines: Pairs of a sum with its numbers and the name of what comes out.
    """
    items = (
        h("li", h("span", total, class_="kv-sum"), h("span", name, class_="kv-sum-name"))
        for total, name in lines
    )
    return h("ol", *items, class_="kv-working")


def file(name: str, content: Mapping[str, Any]) -> Element:
    """Return a JSON file to be read, such as a part of a `config.json`."""
    return _figure(name, json.dumps(content, indent=2))


def fields(name: str, config: Mapping[str, Any]) -> Element:
    """Return some fields of a config, one a line; of a list the entries of each kind are counted.

    Examples:
        >>> print(fields("config", {"head_dim": 64, "layer_types": ["full", "full", "sliding"]}))
        <figure class="kv-file"><figcaption>config</figcaption>...head_dim: 64
        layer_types:
          2 × full
          1 × sliding...
    """
    return _figure(name, "\n".join(f"{field}:{_told(value)}" for field, value in config.items()))


def _told(value: Any) -> str:
    if not isinstance(value, list):
        return f" {value}"
    return "".join(f"\n  {count} × {kind}" for kind, count in Counter(value).items())


def log(name: str, lines: Iterable[str]) -> Element:
    """Return lines of a server's log; a phone shows their level and their message alone."""
    return _figure(name, *(_log_line(line) for line in lines), class_="kv-log")


def _log_line(line: str) -> Element:
    level, _, rest = line.partition(" ")
    when, mark, message = rest.partition("] ")
    head = h("span", f" {when}{mark}".rstrip(), class_="kv-log-head")
    return h("span", level, head, f" {message}\n", class_="kv-log-line")


def _figure(name: str, *text: str | Element, class_: str | None = None) -> Element:
    return h(
        "figure",
        h("figcaption", name),
        h("pre", h("code", *text), tabindex=0, role="region", aria_label=name, class_=class_),
        class_="kv-file",
    )
