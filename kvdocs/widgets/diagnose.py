"""Widget `diagnose`: the reader's own metrics or log, and what is wrong with the server."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kvdocs.diagnose.diagnosis import Diagnosis
from kvdocs.diagnose.read import diagnose
from kvdocs.diagnose.thresholds import FULL
from kvdocs.diagnose.verdicts import Gravity
from kvdocs.drills.prose import spans
from kvdocs.errors import DiagnosisError, ParameterError
from kvdocs.html import Element, h, svg
from kvdocs.units import format_number
from kvdocs.widgets.controls import Choice, Text
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

PRIVATE: Final = (
    "What you paste is read by the Python in this page. Nothing of it leaves your browser, unless "
    "you make a link of this picture yourself."
)
EXAMPLE: Final = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 21.0
vllm:num_requests_waiting{engine="0",model_name="llama"} 23.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.984
vllm:prefix_cache_queries_total{engine="0",model_name="llama"} 9.1204e+06
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 412032.0
vllm:num_preemptions_total{engine="0",model_name="llama"} 11.0
vllm:prompt_tokens_total{engine="0",model_name="llama"} 9.1204e+06
vllm:generation_tokens_total{engine="0",model_name="llama"} 2.2051e+06
vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama"} 3804.0
"""
_NO_MORE: Final = 12
_TONES: Final = {
    Gravity.FINE: "fine",
    Gravity.UNKNOWN: "unknown",
    Gravity.NOTICE: "notice",
    Gravity.TROUBLE: "trouble",
}


@lru_cache(maxsize=4)
def _diagnosis(first: str, second: str, seconds: str, flags: str, prompts: str) -> Diagnosis:
    sources = [text for text in (first, second) if text.strip()]
    told = {} if prompts == "unknown" else {"prompts": prompts}
    return diagnose(*sources, seconds=_seconds(seconds), flags=flags, **told)


def _seconds(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise ParameterError(
            f"{text[:40]!r} is not a number of seconds; leave it empty if you do not know",
            name="seconds",
        ) from None


def _map(told: Diagnosis) -> Element | None:
    """Usage against queue, with the server's place."""
    usage, waiting = told.evidence.get("kv_cache_usage"), told.evidence.get("waiting")
    if usage is None or waiting is None:
        return None
    x, y = 100 * min(usage, 1.0), 92 - 78 * waiting / (waiting + 10)
    y = 92 if waiting == 0 else y
    words = f"The server between four corners: usage {usage:.0%}, {waiting:g} requests waiting."
    drawing = svg(
        "svg",
        svg("path", d=f"M{100 * FULL.value:g} 0H100V100H{100 * FULL.value:g}z", class_="kv-full"),
        svg("path", d="M0 84H100", class_="kv-grid"),
        view_box="0 0 100 100",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    place = h("span", class_="kv-here", style=f"left:{x:.1f}%;top:{y:.1f}%")
    return h(
        "div",
        h("p", "Where it stands", class_="kv-part-name"),
        _row("requests wait: scheduling or compute", "full: memory"),
        h("div", drawing, place, class_="kv-map", role="img", aria_label=words),
        _row("nobody waits: room to spare", "full: at work"),
    )


def _row(left: str, right: str) -> Element:
    return h("p", h("span", left), h("span", right), class_="kv-map-names", aria_hidden="true")


def _list(title: str, lines: tuple[str, ...], *, ordered: bool = False) -> Element | None:
    if not lines:
        return None
    shown = lines[:_NO_MORE]
    items = [h("li", *spans(line)) for line in shown]
    if len(lines) > len(shown):
        items.append(h("li", f"and {len(lines) - len(shown):,} more"))
    return h("div", h("p", title, class_="kv-part-name"), h("ol" if ordered else "ul", *items))


def _evidence(told: Diagnosis) -> Element | None:
    if not told.evidence:
        return None
    rows = (
        h("tr", h("th", h("code", name), scope="row"), h("td", format_number(value, 3)))
        for name, value in told.evidence.items()
    )
    table = h("table", h("tbody", *rows), class_="kv-table")
    return h("div", h("p", "Figures it goes by", class_="kv-part-name"), table)


def _picture(told: Diagnosis) -> Element:
    advice = told.verdict.advice
    also = tuple(f"{each}: {each.advice.title}" for each in told.also)
    return h(
        "div",
        h("p", PRIVATE, class_="kv-note kv-private"),
        h(
            "div",
            h("b", str(told.verdict), class_=f"kv-finding kv-finding-{_TONES[advice.gravity]}"),
            h("span", f"{told.confidence} confidence", class_="kv-confidence"),
            h("p", *spans(advice.meaning)),
            class_="kv-diagnosis-head",
        ),
        h(
            "div",
            h(
                "div",
                _list("What to change, the cheapest first", advice.actions, ordered=True),
                _list("What would tell more", told.tell_more),
                _list("Also", also),
                _list("Notes", told.notes),
            ),
            h("div", _map(told), _evidence(told)),
            class_="kv-diagnosis-parts",
        ),
        class_="kv-diagnosis",
    )


def _python(*, is_example: bool) -> str:
    if is_example:
        imported, source = "from kvdocs.widgets.diagnose import EXAMPLE\n", "EXAMPLE"
    else:
        imported, source = "", 'open("metrics.txt", "rb")'
    return (
        f"from kvdocs.diagnose import diagnose\n{imported}\n"
        f"told = diagnose({source})\n"
        "print(len(told.evidence))"
    )


def draw(*, first: str, second: str, seconds: str, flags: str, prompts: str) -> View:
    """Draw the diagnosis of what was pasted.

    Args:
        first: A page of `/metrics`, a log, or a query.
        second: A second page, or "".
        seconds: Time between the two, as typed; "" if it is not known.
        flags: Flags of the server or of the load.
        prompts: What the prompts have in common: `unknown`, `shared` or `unrelated`.

    Raises:
        ParameterError: A time that is none.
    """
    try:
        told = _diagnosis(first, second, seconds, flags, prompts)
    except DiagnosisError as error:
        raise ParameterError(str(error), name="seconds") from error
    title = told.verdict.advice.title
    return View(
        title=f"{title[0].upper()}{title[1:]}",
        picture=_picture(told),
        figures=(
            Figure("num_figures", "Figures it goes by", f"{len(told.evidence):,}", "", told.source),
            Figure("verdict", "Verdict", str(told.verdict), "", f"{told.confidence} confidence"),
        ),
        caption=(
            "Notice what would tell more: one page is one moment. The reference has the table that "
            "makes the verdicts, with every threshold and its reason."
        ),
        table=Table(
            ("Signal", "Value"), tuple((name, value) for name, value in told.signals.items())
        ),
        python=_python(is_example=first == EXAMPLE),
        announce=f"{told.verdict}, {told.confidence} confidence.",
    )


DIAGNOSE: Final = Widget(
    name="diagnose",
    controls=(
        Text(
            "first",
            "Your /metrics, or lines of your log (read here, sent nowhere)",
            default=EXAMPLE,
            lines=9,
        ),
        Text(
            "second",
            "A second scrape, some time later (for rates; may stay empty)",
            placeholder="curl -s localhost:8000/metrics",
            lines=3,
        ),
        Text("seconds", "Seconds between the two", placeholder="30", max_characters=20, lines=1),
        Text(
            "flags",
            "Flags of the server or the load",
            placeholder="--max-num-seqs 64",
            max_characters=4000,
            lines=1,
        ),
        Choice(
            "prompts",
            "What prompts have in common",
            (
                ("unknown", "not known"),
                ("shared", "a long beginning"),
                ("unrelated", "nothing"),
            ),
            "unknown",
        ),
    ),
    draw=draw,
)
