"""A drill as HTML, the same at build time and in the browser; complete with scripts off."""

from __future__ import annotations

import zlib
from typing import Any

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.drills.prose import paragraph, spans
from kvdocs.html import Element, h

STATIC_STATUS = "Checked by Python, here in your browser"
NO_SCRIPTS = "Scripts are off: answer on paper, then open the solution."
_WORDS = {
    Outcome.RIGHT: "Right.",
    Outcome.WRONG: "Not yet.",
    Outcome.UNREADABLE: "Not checked.",
}


def _asked(posed: Posed[Any]) -> Element:
    kind = posed.drill.kind
    legend = h(
        "legend",
        h("span", f"{kind.word}.", class_="kv-drill-word"),
        h("span", " ", *spans(posed.question), class_="kv-drill-question"),
        tabindex=-1,
    )
    requirement = h("p", *spans(kind.requirement(posed)), class_="kv-requirement")
    return h("fieldset", legend, *posed.drill.given(posed.params), kind.fields(posed), requirement)


def _form(posed: Posed[Any]) -> Element:
    asked = _asked(posed)
    # What the reader typed is kept under it: a changed question never shows an old answer.
    key = f"{zlib.crc32(str(asked).encode()):08x}"
    check = h("button", "Check", type="submit", class_="kv-button")
    return h("form", asked, check, class_="kv-answer", autocomplete="off", data_key=key)


def _fold(summary: str, content: tuple[str | Element, ...], name: str) -> Element:
    parts = (paragraph(part) for part in content)
    return h("details", h("summary", summary), h("div", *parts), class_=name)


def _help(posed: Posed[Any]) -> Element:
    hints = posed.hints
    folds = (
        _fold(f"Hint {number} of {len(hints)}", (hint,), "kv-hint")
        for number, hint in enumerate(hints, start=1)
    )
    solution = _fold("Show the solution", posed.solution, "kv-solution")
    return h("div", *folds, solution, class_="kv-help")


def _foot(posed: Posed[Any]) -> Element:
    another = h(
        "button",
        "Another one",
        type="button",
        class_="kv-another",
        data_next=posed.next_seed(),
    )
    status = h("p", STATIC_STATUS, class_="kv-status")
    return h("div", another, h("kv-link"), status, class_="kv-drill-foot")


def inner(posed: Posed[Any]) -> tuple[Element, ...]:
    """Return what stands inside `<kv-drill>`."""
    return (
        _form(posed),
        h("div", class_="kv-result", role="status"),
        h("p", NO_SCRIPTS, class_="kv-noscript"),
        _help(posed),
        _foot(posed),
    )


def element(posed: Posed[Any], *, ident: str) -> Element:
    """Return a whole `<kv-drill>` in its static form.

    Args:
        posed: The drill with its numbers.
        ident: The element's id.
    """
    return h(
        "kv-drill",
        *inner(posed),
        id=ident,
        name=posed.drill.id,
        seed=posed.seed,
        state="static",
        class_="kv-drill",
    )


def _compared(verdict: Verdict) -> Element | None:
    if not verdict.truth:
        return None
    return h(
        "dl",
        h("div", h("dt", "Your guess"), h("dd", verdict.guess, class_="kv-guess")),
        h("div", h("dt", "Computed"), h("dd", verdict.truth, class_="kv-truth")),
        class_="kv-compare",
    )


def _word(verdict: Verdict) -> str:
    missed = verdict.outcome is Outcome.WRONG and verdict.done
    return "Not quite." if missed else _WORDS[verdict.outcome]


def result(verdict: Verdict) -> tuple[Element, ...]:
    """Return the result line, with what belongs to it."""
    told: tuple[Element, ...] = (h("span", *spans(verdict.message)),)
    if verdict.ruled_out:
        # The reason is shown at the option; here it is for those who hear the page.
        told = (
            h("span", *spans(verdict.message), class_="kv-hidden"),
            h("span", "The reason stands below your pick.", aria_hidden="true"),
        )
    line = h("p", h("b", _word(verdict)), " ", *told, class_="kv-verdict")
    printed = (
        h("pre", h("samp", verdict.printed), class_="kv-printed", tabindex=0)
        if verdict.printed
        else None
    )
    return tuple(part for part in (line, _compared(verdict), printed) if part is not None)
