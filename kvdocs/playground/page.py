"""The playground as it stands in the page: complete without scripts, alive with them."""

from __future__ import annotations

import json
from typing import Final

from kvdocs.html import Element, h
from kvdocs.playground.fields import defaults
from kvdocs.playground.form import read_form
from kvdocs.playground.layout import FORM_ID, form_html, sized_html
from kvdocs.playground.load import Made
from kvdocs.playground.result import result_html, worst_moment
from kvdocs.playground.session import Session
from kvdocs.playground.take_away import code_folds, export_buttons

IDENT: Final = "simulator"
"""The element's id on its page."""


def playground(ident: str = IDENT) -> Element:
    """Return the playground in its static form: the lesson's set-ups, run to the end.

    Args:
        ident: The element's id.

    Examples:
        >>> str(playground())[:40]
        '<kv-playground id="simulator" state="sta'
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
            result_html(session, worst_moment(session), off=True),
            data_place="result",
        ),
        h(
            "div",
            export_buttons(),
            code_folds(session),
            class_="kv-folds",
        ),
        id=ident,
        state="static",
        data_params=json.dumps(values, separators=(",", ":")),
    )


def _button(act: str, word: str) -> Element:
    return h("button", word, type="button", class_="kv-button", data_do=act, disabled=True)


def _run_button() -> Element:
    """The form's own button, so that Enter in a box runs."""
    return h(
        "button",
        "Run",
        type="submit",
        form=FORM_ID,
        class_="kv-button",
        data_do="run",
        disabled=True,
    )


def _run_bar() -> Element:
    return h(
        "div",
        h(
            "div",
            _run_button(),
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
