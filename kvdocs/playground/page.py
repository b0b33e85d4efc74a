"""The playground as it stands in the page: complete without scripts, alive with them."""

from __future__ import annotations

import json

from kvdocs.html import Element, h
from kvdocs.playground.fields import defaults
from kvdocs.playground.form import read_form
from kvdocs.playground.layout import form_html, sized_html
from kvdocs.playground.load import Made
from kvdocs.playground.result import result_html
from kvdocs.playground.session import Session
from kvdocs.playground.take_away import code_folds, export_buttons

_SHOWN_SHARE = 0.45
"""Where in the run the page's picture stands."""


def playground(ident: str = "playground") -> Element:
    """Return the playground in its static form: the lesson's set-ups, run to the end.

    Args:
        ident: The element's id.

    Examples:
        >>> str(playground())[:40]
        '<kv-playground id="playground" state="st'
    """
    values = defaults()
    form = read_form(values)
    session = Session(form.setups, form.load or Made())
    session.finish()
    return h(
        "kv-playground",
        h("div", form_html(values, off=True), data_place="form"),
        _run_bar(),
        h("div", sized_html(form), data_place="sized", hidden=True),
        h(
            "div",
            result_html(session, int(len(session.moments) * _SHOWN_SHARE), off=True),
            data_place="result",
        ),
        h(
            "div",
            export_buttons(),
            h("div", code_folds(session), data_place="code"),
            class_="kv-folds",
        ),
        id=ident,
        state="static",
        data_params=json.dumps(values, separators=(",", ":")),
    )


def _button(act: str, word: str) -> Element:
    return h("button", word, type="button", class_="kv-button", data_do=act, disabled=True)


def _run_bar() -> Element:
    return h(
        "div",
        h(
            "div",
            _button("run", "Run"),
            _button("pause", "Pause"),
            _button("step", "Step"),
            _button("cancel", "Cancel"),
            class_="kv-pg-buttons",
            role="group",
            aria_label="Run",
        ),
        h("progress", max=1, value=1, aria_label="How far the run has come"),
        h("p", "As built: both set-ups, run to the end.", class_="kv-pg-progress"),
        h("p", "Static picture", class_="kv-status", role="status"),
        class_="kv-pg-bar",
    )
