"""All widgets by name. Widget `block-map` is `BLOCK_MAP` of the module `block_map`."""

from __future__ import annotations

from typing import Final

from kvdocs.by_name import ByName
from kvdocs.errors import KvdocsError
from kvdocs.widgets.widget import Widget

_NAMES: Final = (
    "block-map",
    "bytes-per-token",
    "cheat-sheet",
    "concurrency",
    "dashboards",
    "decode-reads",
    "diagnose",
    "disaggregation-timeline",
    "fp8-before-after",
    "gpu-memory",
    "heads",
    "length-tail",
    "move-or-recompute",
    "preemption",
    "prefix-tree",
    "recompute",
    "server-load",
    "slabs-vs-blocks",
    "startup",
    "tensor-parallel",
)


def _place(name: str) -> str:
    module = name.replace("-", "_")
    return f"{module}:{module.upper()}"


WIDGETS: Final = ByName(Widget, "kvdocs.widgets", {name: _place(name) for name in _NAMES})
"""Every widget, by its name."""


def get_widget(name: str) -> Widget:
    """Return the widget of that name.

    Raises:
        KvdocsError: No widget has that name.
    """
    if name not in WIDGETS:
        raise KvdocsError(f"no widget is called {name!r}; there are {', '.join(sorted(WIDGETS))}")
    return WIDGETS[name]
