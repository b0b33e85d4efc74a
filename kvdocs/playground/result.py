"""What came of a session: the page's picture of it at any of its moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kvdocs.diagnose import Diagnosis
from kvdocs.drills.prose import spans
from kvdocs.html import Element, h
from kvdocs.playground.differences import differences
from kvdocs.playground.measures import MEASURES, change, latencies
from kvdocs.playground.moment import Moment
from kvdocs.playground.pictures import Scales, latency_table, memory, over_time, pool
from kvdocs.playground.session import Run, Session
from kvdocs.server import RequestRecord, ServerRun
from kvdocs.units import format_seconds
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Table

LETTERS: Final = "AB"
_WORST: Final = 10
_MOST_MEASURED: Final = 20_000
"""Requests up to which percentiles are computed while a run is under way."""


def result_html(session: Session, now: int, *, off: bool = False) -> Element:
    """Return the picture of a session at a moment.

    Args:
        session: The session.
        now: The moment, from 0; a later one than there is shows the last.
        off: Whether the slider cannot be moved, as on the page before its scripts run.
    """
    now = min(now, len(session.moments) - 1)
    measured = session.is_done or session.progress.ended <= _MOST_MEASURED
    outcomes = session.outcomes if measured else ()
    return h(
        "div",
        h("p", title(session, now), class_="kv-title"),
        _player(session, now, off=off),
        _panels(session, now),
        *_outcome(session, outcomes),
        class_="kv-pg-result",
    )


def title(session: Session, now: int) -> str:
    """Say in a sentence what is seen.

    Args:
        session: The session.
        now: The moment.
    """
    told = []
    for letter, moment in zip(LETTERS, session.moments[now], strict=False):
        who = f"{letter} runs" if len(session.runs) > 1 else "the server runs"
        told.append(f"{who} {moment.running:,} requests and {moment.waiting:,} wait")
    time = format_seconds(now * session.interval_s) if now else "0 s"
    return f"At {time} " + "; ".join(told)


def _player(session: Session, now: int, *, off: bool) -> Element:
    last = len(session.moments) - 1
    timeline = Timeline(
        name="moment",
        label=f"Moment, each {format_seconds(session.interval_s)}",
        maximum=max(1, last),
        default="0",
        frame=max(1, last // 160),
        interval_ms=120,
        calm_frame=max(1, last // 20),
    )
    fields = h(
        "fieldset",
        h("legend", "Time", class_="kv-hidden"),
        timeline.element(str(now)),
        disabled=off,
    )
    return h("form", h("div", fields, class_="kv-player"), autocomplete="off")


def worst_moment(session: Session) -> int:
    """The moment that tells most: the longest queue, or without one the fullest pool.

    Args:
        session: The session.
    """

    def trouble(place: int) -> tuple[int, int]:
        moments = session.moments[place]
        return max(one.waiting for one in moments), max(one.held for one in moments)

    return max(range(len(session.moments)), key=trouble)


def moments_of(session: Session, place: int) -> list[Moment]:
    """The moments of one of a session's set-ups.

    Args:
        session: The session.
        place: Which set-up, from 0.
    """
    return [moments[place] for moments in session.moments]


def _panels(session: Session, now: int) -> Element:
    every = [moments_of(session, place) for place in range(len(session.runs))]
    scales = Scales(every, session.interval_s)
    panels = (
        _panel(LETTERS[place], run, every[place], now, (session.interval_s, scales))
        for place, run in enumerate(session.runs)
    )
    return h("div", *panels, class_="kv-pg-panels", data_two=len(session.runs) > 1)


def _panel(
    letter: str, run: Run, moments: list[Moment], now: int, shared: tuple[float, Scales]
) -> Element:
    config, (interval_s, scales) = run.server.config, shared
    usable, here = config.usable_blocks, moments[now]
    return h(
        "section",
        h("p", h("b", letter), f" {run.sized.name}", class_="kv-pg-name"),
        memory(run.sized, here.held),
        over_time(moments, now=now, usable=usable, interval_s=interval_s, scales=scales),
        pool(here, usable, config.block_size),
        _running(here),
        aria_label=f"Set-up {letter}: what runs",
    )


def _running(moment: Moment) -> Element:
    largest = sorted(moment.holders, key=lambda one: -(one.num_blocks + one.shared))[:_WORST]
    rows = tuple(
        (
            one.id,
            "prefill" if one.prefill else "decode",
            f"{one.num_blocks + one.shared:,}",
            f"{one.shared:,}",
        )
        for one in largest
    )
    head = ("Request", "State", "Blocks", "shared")
    shown = f"The largest of {moment.running:,} running requests"
    return _fold(shown, Table(head, rows))


def _fold(name: str, table: Table) -> Element:
    inner = h("div", table.element(), class_="kv-scroll", tabindex=0, role="group", aria_label=name)
    return h("details", h("summary", name), inner)


# What came of it ------------------------------------------------------------------------------


def _outcome(session: Session, outcomes: Sequence[ServerRun]) -> Iterator[Element]:
    two = len(session.runs) > 1
    if two:
        yield _differences(session)
    if not outcomes:
        yield h("p", "Percentiles come with the end of the run.", class_="kv-note")
        return
    yield h(
        "div",
        h(
            "div",
            _part("What came of it" if session.is_done else "What came of it so far"),
            _measures(session, outcomes),
        ),
        h(
            "div",
            _part("Latencies"),
            latency_table([latencies(run) for run in outcomes], LETTERS[: len(outcomes)]),
        ),
        class_="kv-pg-panels kv-pg-tables",
        data_two=True,
    )
    if session.is_done:
        yield _part("Diagnosis")
        yield h(
            "p", "Each judged at its worst moment, with counters since the start.", class_="kv-note"
        )
        for letter, one in zip(LETTERS, session.runs, strict=False):
            yield _diagnosis(one.trouble.diagnosis, letter if two else "")
        for letter, run in zip(LETTERS, outcomes, strict=False):
            yield _fold(f"{letter}: the requests that waited longest", worst(run))


def _part(name: str) -> Element:
    return h("p", name, class_="kv-part-name")


def _differences(session: Session) -> Element:
    a, b = (run.sized for run in session.runs)
    found = differences(a, b)
    if not found:
        return h("p", "A and B are the same set-up.", class_="kv-pg-differences")
    items = (
        h("li", h("span", f"{one.what}: "), h("b", one.a), " in A, ", h("b", one.b), " in B")
        for one in found
    )
    return h("div", _part("What differs"), h("ul", *items), class_="kv-pg-differences")


def _measures(session: Session, outcomes: Sequence[ServerRun]) -> Element:
    two = len(outcomes) > 1
    rows = []
    for measure in MEASURES:
        values = [
            measure.value(run, moments_of(session, place)) for place, run in enumerate(outcomes)
        ]
        if measure.name in {"refused", "preemptions", "recomputed", "hit_share"} and not any(
            values
        ):
            continue
        shown = [measure.shown(value) for value in values]
        rows.append((measure.label, *shown, *_told(values, shown)))
    head = ("Figure", "A", "B", "B against A") if two else ("Figure", "A")
    return h(
        "div",
        Table(head, tuple(rows)).element(),
        class_="kv-scroll",
        tabindex=0,
        role="group",
        aria_label="What came of it",
    )


def _told(values: list[float], shown: list[str]) -> list[str]:
    """How B differs from A, where there is a B."""
    if len(values) < len(LETTERS):
        return []
    return ["the same" if shown[0] == shown[1] else change(values[0], values[1])]


def _diagnosis(told: Diagnosis, letter: str) -> Element:
    advice = told.verdict.advice
    return h(
        "div",
        h(
            "p",
            h("b", letter, " ") if letter else None,
            h("b", str(told.verdict)),
            f": {advice.title}; {told.confidence} confidence",
            class_="kv-pg-name",
        ),
        h("p", *spans(advice.meaning), class_="kv-note"),
        h("ol", *(h("li", *spans(action)) for action in told.actions)),
        class_="kv-pg-advice",
    )


def worst(run: ServerRun) -> Table:
    """The requests that waited longest.

    Args:
        run: The run.
    """

    def waited(record: RequestRecord) -> float:
        return -(record.queue_s or 0.0)

    rows = tuple(
        (
            record.id,
            f"{record.num_prompt_tokens:,} + {record.num_output_tokens:,}",
            _time(record.queue_s),
            _time(record.ttft_s),
            _time(record.e2e_s),
            f"{record.num_preemptions:,}",
        )
        for record in sorted(run.requests, key=waited)[:_WORST]
    )
    head = ("Request", "Prompt + answer", "Queued", "First token", "Whole", "Preempted")
    return Table(head, rows)


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_seconds(seconds)
