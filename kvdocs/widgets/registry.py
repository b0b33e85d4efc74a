"""All widgets by name."""

from __future__ import annotations

from typing import Final

from kvdocs.errors import KvdocsError
from kvdocs.widgets.bytes_per_token import BYTES_PER_TOKEN
from kvdocs.widgets.concurrency import CONCURRENCY
from kvdocs.widgets.gpu_memory import GPU_MEMORY
from kvdocs.widgets.heads import HEADS
from kvdocs.widgets.startup import STARTUP
from kvdocs.widgets.widget import Widget

WIDGETS: Final[dict[str, Widget]] = {
    widget.name: widget for widget in (BYTES_PER_TOKEN, CONCURRENCY, GPU_MEMORY, HEADS, STARTUP)
}
"""Every widget, by its name."""


def get_widget(name: str) -> Widget:
    """Return the widget of that name.

    Raises:
        KvdocsError: No widget has that name.
    """
    if name not in WIDGETS:
        raise KvdocsError(f"no widget is called {name!r}; there are {', '.join(sorted(WIDGETS))}")
    return WIDGETS[name]
