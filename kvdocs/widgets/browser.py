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


def update(name: str, params_json: str, state_json: str = "null") -> str:
    """Draw a widget for the page.

    Args:
        name: Widget name.
        params_json: A JSON object of parameter texts.
        state_json: The state of the last answer, for a simulation that has one.

    Returns:
        A JSON object: `html` (new content of `<kv-widget>`, or null when a parameter was
        refused), `announce` (one sentence for screen readers), `errors` (message by parameter),
        and `state` where the widget has one, to be handed back with the next update.

    Raises:
        KvdocsError: No widget has that name.

    Examples:
        >>> json.loads(update("gpu-memory", '{"utilization": "2"}'))["html"] is None
        True
    """
    widget = get_widget(name)
    params = {key: _text(value) for key, value in json.loads(params_json).items()}
    drawn = draw(widget, params, json.loads(state_json))
    if drawn.view is None:
        return json.dumps({"html": None, "announce": "", "errors": drawn.errors})
    html = str(inner(widget, drawn.params, drawn.view))
    answer = {"html": html, "announce": drawn.view.announce, "errors": {}}
    if drawn.view.state is not None:
        answer["state"] = drawn.view.state
    return json.dumps(answer)
