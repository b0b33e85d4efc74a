"""What the page's runtime calls: parameters in, HTML or messages out, both as JSON."""

from __future__ import annotations

import json
from typing import Any

from kvdocs.widgets.frame import inner
from kvdocs.widgets.registry import get_widget
from kvdocs.widgets.widget import draw


def _text(value: Any) -> str:
    """Return a form value as text: parameters are text, whatever the page sent."""
    return value if isinstance(value, str) else json.dumps(value)


def update(name: str, params_json: str) -> str:
    """Draw a widget for the page.

    Args:
        name: Widget name.
        params_json: A JSON object of parameter texts.

    Returns:
        A JSON object: `html` (new content of `<kv-widget>`, or null when a parameter was
        refused), `announce` (one sentence for screen readers), `errors` (message by parameter).

    Raises:
        KvdocsError: No widget has that name.

    Examples:
        >>> json.loads(update("gpu-memory", '{"utilization": "2"}'))["html"] is None
        True
    """
    widget = get_widget(name)
    drawn = draw(widget, {key: _text(value) for key, value in json.loads(params_json).items()})
    if drawn.view is None:
        return json.dumps({"html": None, "announce": "", "errors": drawn.errors})
    html = str(inner(widget, drawn.params, drawn.view))
    return json.dumps({"html": html, "announce": drawn.view.announce, "errors": {}})
