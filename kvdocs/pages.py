"""What the lesson's pages print at build time: widgets and predictions, as HTML."""

from __future__ import annotations

from typing import Any

from kvdocs.html import Element, h
from kvdocs.widgets.frame import element
from kvdocs.widgets.registry import get_widget


def widget(name: str, *, ident: str | None = None, state: Any = None, **params: str) -> Element:
    """Return a widget in its static form, ready to be printed into a page.

    Args:
        name: The widget's name.
        ident: The element's id; the widget's name when not given. Must be unique on a page.
        state: For a simulation that the reader may change while it runs: the changes made so far,
            as its views carry them; the widget's own when not given.
        **params: Parameters that differ from the widget's defaults, as text.

    Raises:
        KvdocsError: No such widget, or a parameter that it does not allow.

    Examples:
        >>> str(widget("gpu-memory"))[:39]
        '<kv-widget id="gpu-memory" name="gpu-me'
    """
    return element(get_widget(name), ident=ident or name, params=params, state=state)


def _compare(truth: str) -> Element:
    return h(
        "dl",
        h("div", h("dt", "Your guess"), h("dd", class_="kv-guess"), hidden=True),
        h("div", h("dt", "Computed"), h("dd", truth)),
        class_="kv-compare",
    )


def predict(
    ident: str, question: str, *, unit: str, truth: str, because: tuple[str, ...]
) -> Element:
    """Return a prediction: a question, a box for the guess, and the answer in a fold.

    Without scripts the fold opens by hand; with them the guess stays beside the truth.

    Args:
        ident: The element's id.
        question: What to predict.
        unit: Unit of the guess, shown after the box.
        truth: The answer as printed, computed by the caller.
        because: Paragraphs that explain the answer and the most common wrong one.

    Examples:
        >>> "346,679 tokens" in str(
        ...     predict("p", "How many?", unit="tokens", truth="346,679 tokens", because=("So.",))
        ... )
        True
    """
    row = h(
        "form",
        h(
            "label",
            h("span", "Your guess", class_="kv-hidden"),
            h("input", type="text", name="guess", autocomplete="off", inputmode="decimal"),
            unit,
        ),
        h("button", "Compare", type="submit", class_="kv-button"),
        class_="kv-predict-row",
    )
    return h(
        "kv-predict",
        h("p", h("b", "Predict first. "), question),
        row,
        h(
            "details",
            h("summary", "Show the answer"),
            _compare(truth),
            *(h("p", paragraph) for paragraph in because),
        ),
        id=ident,
        class_="kv-predict",
        data_unit=unit,
    )
