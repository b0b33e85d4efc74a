"""The one frame around every live picture, the same at build time and in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvdocs.html import Element, Node, h
from kvdocs.widgets.controls import Control
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import View
from kvdocs.widgets.widget import Widget

STATIC_STATUS = "Static picture"


def _head(view: View) -> Element:
    return h(
        "div",
        h("p", view.title, class_="kv-title"),
        h("p", STATIC_STATUS, class_="kv-status", role="status"),
        class_="kv-head",
    )


def _figures(view: View) -> Element:
    return h("dl", *(figure.element() for figure in view.figures), class_="kv-figures")


def _fieldset(legend: str, fields: list[Element]) -> Element | None:
    if not fields:
        return None
    return h("fieldset", h("legend", legend, class_="kv-hidden"), *fields, disabled=True)


def _body(widget: Widget, params: Mapping[str, str], view: View) -> tuple[Node, ...]:
    """Return figures and controls; a timeline stands between the picture and the figures."""
    timelines: list[Element] = []
    others: list[Element] = []
    for control in widget.controls_for(params):
        (timelines if isinstance(control, Timeline) else others).append(_control(control, params))
    general = h("p", class_="kv-error", data_error_for="*", hidden=True)
    controls = _fieldset("Controls", others)
    if not timelines:
        form = h("form", controls, general, class_="kv-controls", autocomplete="off")
        return _figures(view), form
    player = h("div", _fieldset("Time", timelines), class_="kv-player")
    again = (
        h("button", "Undo all changes", type="reset", class_="kv-button") if widget.start else None
    )
    below = h("div", controls, again, general, class_="kv-controls")
    return (h("form", player, _figures(view), below, autocomplete="off"),)


def _control(control: Control, params: Mapping[str, str]) -> Element:
    return control.element(params[control.name])


def _folds(view: View) -> Element:
    return h(
        "div",
        h(
            "details",
            h("summary", "Data table"),
            h(
                "div",
                view.table.element(),
                class_="kv-scroll",
                tabindex=0,
                role="group",
                aria_label="Data table",
            ),
        ),
        h(
            "details",
            h("summary", "As Python"),
            h("pre", h("code", view.python), class_="kv-python", tabindex=0),
            h("kv-copy"),
        ),
        h("kv-link"),
        class_="kv-folds",
    )


def inner(widget: Widget, params: Mapping[str, str], view: View) -> Element:
    """Return the figure that stands inside `<kv-widget>`."""
    picture = h("div", view.picture, class_="kv-picture")
    body = _body(widget, params, view)
    return h(
        "figure",
        _head(view),
        *((*reversed(body), picture) if widget.controls_first else (picture, *body)),
        h("figcaption", view.caption, class_="kv-caption"),
        _folds(view),
        class_="kv-frame",
    )


def element(widget: Widget, *, ident: str, params: Mapping[str, str], state: Any = None) -> Element:
    """Return a whole `<kv-widget>` in its static form.

    Args:
        widget: The widget.
        ident: The element's id; share links and saved state are kept under it.
        params: Parameters that differ from the widget's defaults.
        state: For a simulation: what the reader would have changed so far; the widget's own when
            None.

    Raises:
        KvdocsError: A parameter that is not allowed.
    """
    view = widget.view(state, **params)
    complete = widget.complete(params) | dict(view.params)
    return h(
        "kv-widget",
        inner(widget, complete, view),
        id=ident,
        name=widget.name,
        state="static",
        data_params=json.dumps(complete, separators=(",", ":")),
        data_state=None if view.state is None else json.dumps(view.state, separators=(",", ":")),
    )
