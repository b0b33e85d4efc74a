"""The one frame around every live picture, the same at build time and in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kvdocs.html import Element, h
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


def _controls(widget: Widget, params: Mapping[str, str]) -> Element:
    fields = (control.element(params[control.name]) for control in widget.controls_for(params))
    general = h("p", class_="kv-error", data_error_for="*", hidden=True)
    fieldset = h("fieldset", h("legend", "Controls", class_="kv-hidden"), *fields, disabled=True)
    return h("form", fieldset, general, class_="kv-controls", autocomplete="off")


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
                role="region",
                aria_label="Data table",
            ),
        ),
        h(
            "details",
            h("summary", "As Python"),
            h("pre", h("code", view.python), class_="kv-python", tabindex=0),
        ),
        class_="kv-folds",
    )


def inner(widget: Widget, params: Mapping[str, str], view: View) -> Element:
    """Return the figure that stands inside `<kv-widget>`."""
    return h(
        "figure",
        _head(view),
        h("div", view.picture, class_="kv-picture"),
        _figures(view),
        _controls(widget, params),
        h("figcaption", view.caption, class_="kv-caption"),
        _folds(view),
        class_="kv-frame",
    )


def element(widget: Widget, *, ident: str, params: Mapping[str, str]) -> Element:
    """Return a whole `<kv-widget>` in its static form.

    Args:
        widget: The widget.
        ident: The element's id; share links and saved state are kept under it.
        params: Parameters that differ from the widget's defaults.

    Raises:
        KvdocsError: A parameter that is not allowed.
    """
    complete = widget.complete(params)
    return h(
        "kv-widget",
        inner(widget, complete, widget.view(**complete)),
        id=ident,
        name=widget.name,
        state="static",
        data_params=json.dumps(complete, separators=(",", ":")),
    )
