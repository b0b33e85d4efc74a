"""What of a session can be taken away, as it stands in the page: files, and text to copy."""

from __future__ import annotations

from typing import Final

from kvdocs.html import Element, h
from kvdocs.playground.exports import code, command
from kvdocs.playground.session import Session

_FILES: Final = (
    ("csv", "Requests, CSV"),
    ("json", "Figures, JSON"),
    ("timeline", "Over time, SVG"),
    ("timeline:png", "Over time, PNG"),
    ("latency", "Latencies, SVG"),
    ("latency:png", "Latencies, PNG"),
)


def export_buttons() -> Element:
    """Return a button for each file, and the link's."""
    buttons = (
        h("button", word, type="button", class_="kv-small-button", data_export=what, disabled=True)
        for what, word in _FILES
    )
    return h(
        "div",
        h("span", "Save: "),
        *buttons,
        h("kv-link"),
        class_="kv-pg-exports",
        role="group",
        aria_label="Save",
    )


def code_folds(session: Session) -> Element:
    """Return what repeats a session elsewhere: commands and a program.

    Args:
        session: The session.
    """
    return h(
        "div",
        _fold("command", "As vllm serve", command(session)),
        _fold("code", "As Python: the same figures", code(session)),
        class_="kv-pg-code",
    )


def _fold(kind: str, name: str, text: str) -> Element:
    return h(
        "details",
        h("summary", name),
        h("pre", h("code", text, data_code=kind), class_="kv-python", tabindex=0),
        h("kv-copy"),
    )
