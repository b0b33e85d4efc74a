"""Widget `server-load`: the lesson's server under a load that the reader changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kvdocs.html import Element, h, svg
from kvdocs.units import format_number
from kvdocs.widgets.blocks_view import HUES, hue
from kvdocs.widgets.controls import Choice, Range, Steps
from kvdocs.widgets.load_run import LAST_S, Edit, History, Holder, Moment, moment
from kvdocs.widgets.strip import Strip, strips
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

WINDOW_S: Final = 60
"""Seconds over which figures are averaged: several rounds of prefills and of requests that end."""
_LABELLED: Final = 0.036
"""Share of the pool from which a request's number is written on it, where the place is wide."""
_LABELLED_NARROW: Final = 0.075
"""The same on a phone."""
_WORDS: Final = {
    "rate": "{} requests/s",
    "prompts": "whole files as context",
    "output": "answers of {} tokens",
    "max_num_seqs": "--max-num-seqs {}",
}


def _word(edit: Edit) -> str:
    """Return a change in words."""
    if edit.name == "prompts" and edit.text == "snippets":
        return "snippets as context"
    return _WORDS[edit.name].format(edit.text)


# The picture ----------------------------------------------------------------------------------


def _shares(holders: Sequence[Holder], num_blocks: int) -> tuple[list[str], list[Element]]:
    """Return a path for each hue, and the numbers of the requests that are wide enough."""
    paths = [""] * HUES
    labels = []
    start = 0
    for holder in holders:
        paths[holder.number % HUES] += f"M{start} 0h{holder.num_blocks}v100h-{holder.num_blocks}z"
        share = holder.num_blocks / num_blocks
        if share > _LABELLED:
            left = 100 * (start / num_blocks + share / 2)
            small = "kv-wide" if share < _LABELLED_NARROW else None
            labels.append(h("span", f"{holder.number}", style=f"left:{left:.2f}%", class_=small))
        start += holder.num_blocks
    return paths, labels


def _pool(now: Moment) -> Element:
    """Draw which running request holds which share of the pool, to scale."""
    paths, labels = _shares(now.holders, now.num_blocks)
    drawing = svg(
        "svg",
        *(
            svg("path", d=path, class_=f"kv-share {hue(index)}")
            for index, path in enumerate(paths)
            if path
        ),
        view_box=f"0 0 {now.num_blocks} 100",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    held = sum(holder.num_blocks for holder in now.holders)
    largest = max((holder.num_blocks for holder in now.holders), default=0)
    words = (
        f"{len(now.holders)} running requests hold {held:,} of {now.num_blocks:,} blocks; the "
        f"largest holds {largest:,}."
    )
    return h(
        "div",
        h(
            "p",
            h(
                "span",
                "Who holds the pool: one box = one running request, with its number, to scale",
            ),
            h("b", f"{held / now.num_blocks:.0%} held"),
            class_="kv-strip-name",
        ),
        h("div", drawing, *labels, class_="kv-pool", role="img", aria_label=words),
        class_="kv-shares",
    )


def _top(values: Sequence[float], least: int) -> int:
    """Return a round upper end for a scale."""
    most = max(least, *values)
    step = 10 ** (len(str(int(most))) - 1)
    return int(-(-most // step) * step)


def _strips(now: Moment, edits: Sequence[Edit]) -> Element:
    samples, last = [each.sample for each in now.seconds], now.now
    running = [sample.running for sample in samples]
    waiting = [sample.waiting for sample in samples]
    top = _top([*running, *waiting], 20)
    preempted = [
        second
        for second in range(1, len(samples))
        if samples[second].preemptions > samples[second - 1].preemptions
    ]
    entries = (
        Strip(
            name="KV cache usage; a stroke = preemption",
            value=f"{last.kv_cache_usage:.0%}",
            values=[sample.kv_cache_usage for sample in samples],
            top=1,
            top_label="100%",
            tone="used",
            marks=preempted,
        ),
        Strip(
            name="Running",
            value=f"{last.running:,} requests",
            values=running,
            top=top,
            top_label=f"{top:,}",
            tone="running",
        ),
        Strip(
            name="Waiting",
            value=f"{last.waiting:,} requests",
            values=waiting,
            top=top,
            top_label=f"{top:,}",
            tone="waiting",
        ),
        Strip(
            name="Arithmetic busy",
            value=f"{_busy(now):.0%} of the last {_window(now)} s",
            values=[each.busy for each in now.seconds],
            top=1,
            top_label="100%",
            tone="compute",
        ),
    )
    words = (
        f"Over {now.second} seconds: KV cache usage now {last.kv_cache_usage:.0%}, "
        f"{last.running} running, {last.waiting} waiting, {last.preemptions} preemptions so far, "
        f"arithmetic busy {_busy(now):.0%}."
    )
    return strips(
        entries,
        num_moments=LAST_S + 1,
        now=now.second,
        axis=("0 s", *(f"{LAST_S * part // 4}" for part in (1, 2, 3)), f"{LAST_S} s"),
        label=words,
        changes=[edit.at for edit in edits],
    )


def _told(history: History) -> Element:
    """Say what the reader changed, and when."""
    edits = [h("li", h("b", f"{edit.at} s"), h("span", _word(edit))) for edit in history.edits]
    first = ", ".join(_word(Edit(0, name, text)) for name, text in history.start.items())
    return h("ul", h("li", h("b", "0 s"), h("span", first)), *edits[-3:], class_="kv-told")


def _picture(now: Moment, history: History) -> Element:
    shown = [edit for edit in history.edits if edit.at <= now.second]
    return h("div", _strips(now, shown), _told(history), _pool(now))


# Figures --------------------------------------------------------------------------------------


def _window(now: Moment) -> int:
    return max(1, min(WINDOW_S, now.second))


def _busy(now: Moment) -> float:
    return sum(each.busy for each in now.seconds[-_window(now) :]) / _window(now)


def _leave_rate(now: Moment) -> float:
    """Requests finished a second, of late."""
    window = _window(now)
    before = now.seconds[-1 - min(window, now.second)].sample
    return (now.now.finished - before.finished) / window


def _figures(now: Moment, rate: str) -> tuple[Figure, ...]:
    last = now.now
    held = sum(holder.num_blocks for holder in now.holders)
    return (
        Figure(
            "waiting",
            "Waiting",
            f"{last.waiting:,}",
            "requests",
            (
                f"{rate} a second come; {format_number(_leave_rate(now), 2)} left, "
                f"in the last {_window(now)} s"
            ),
        ),
        Figure(
            "kv_cache_usage",
            "KV cache usage",
            format_number(100 * last.kv_cache_usage, 0),
            "%",
            f"{held:,} of {now.num_blocks:,} blocks, {last.running} running",
        ),
        Figure(
            "compute_busy",
            "Arithmetic busy",
            format_number(100 * _busy(now), 0),
            "%",
            f"compute time ÷ time, last {_window(now)} s",
        ),
    )


def _table(now: Moment) -> Table:
    rows = []
    for second in (*range(0, now.second, 10), now.second):
        sample = now.seconds[second].sample
        rows.append(
            (
                f"{second} s",
                f"{sample.kv_cache_usage:.0%}",
                f"{sample.running:,}",
                f"{sample.waiting:,}",
                f"{sample.preemptions:,}",
                f"{now.seconds[second].busy:.0%}",
            )
        )
    head = ("Time", "KV cache usage", "Running", "Waiting", "Preemptions", "Arithmetic busy (1 s)")
    return Table(head, tuple(rows))


def _title(now: Moment) -> str:
    last, busy = now.now, _busy(now)
    if last.waiting >= 10 and last.kv_cache_usage > 0.8:
        return (
            f"{last.waiting:,} requests wait for memory; the arithmetic units idled for"
            f" {1 - busy:.0%} of the last {_window(now)} s"
        )
    if last.waiting >= 10:
        return f"{last.waiting:,} requests wait, with the cache {last.kv_cache_usage:.0%} full"
    return (
        f"{last.running:,} requests run, the cache is {last.kv_cache_usage:.0%} full, nobody queues"
    )


def _python(second: int, kv_cache_dtype: str, history: History) -> str:
    return (
        "from kvdocs.widgets.load_run import Edit, History, moment\n\n"
        "history = History(\n"
        f"    {dict(history.start)!r},\n"
        f"    ({''.join(f'{edit!r}, ' for edit in history.edits).strip()}),\n"
        f"    {second},\n"
        ")\n"
        f"print(moment({second}, kv_cache_dtype={kv_cache_dtype!r}, history=history).now.waiting)"
    )


def draw(
    *,
    second: int,
    rate: float,
    prompts: str,
    output: int,
    max_num_seqs: int,
    kv_cache_dtype: str,
    state: Any,
) -> View:
    """Draw the server at a second, after all that was changed until then.

    Args:
        second: Seconds from the start.
        rate: Requests per second.
        prompts: `snippets` or `files`.
        output: Tokens of each answer.
        max_num_seqs: `--max-num-seqs`.
        kv_cache_dtype: `--kv-cache-dtype`: a start-up flag, so the same load begins again with it.
        state: The changes so far, from the last view.
    """
    sent = {
        "rate": format_number(rate, 2),
        "prompts": prompts,
        "output": str(output),
        "max_num_seqs": str(max_num_seqs),
    }
    history = History.read(state, sent).follow(second, sent)
    now = moment(second, kv_cache_dtype=kv_cache_dtype, history=history)
    shown = history.in_force(second)
    return View(
        title=_title(now),
        picture=_picture(now, history),
        figures=_figures(now, shown["rate"]),
        caption=(
            "Notice Waiting and Arithmetic busy together: arithmetic works in bursts, when prompts "
            "are let in, and idles in between, for decoding waits for memory. "
            "What you change counts from the moment shown; the cache dtype is a start-up flag, "
            "so with it the same load begins anew."
        ),
        table=_table(now),
        python=_python(second, kv_cache_dtype, history),
        announce=f"{second} seconds: {now.now.running} running, {now.now.waiting} waiting.",
        state=history.write(),
        params=shown,
    )


SERVER_LOAD: Final = Widget(
    name="server-load",
    controls=(
        Timeline(
            name="second",
            label="Seconds",
            maximum=LAST_S,
            default="140",
            interval_ms=120,
            calm_frame=5,
        ),
        Range("rate", "Requests per second", minimum=0, maximum=8, step=0.25, default="2"),
        Choice(
            "prompts",
            "The assistant sends",
            (
                ("snippets", "snippets, about 1,000 tokens"),
                ("files", "whole files, about 10,000 tokens"),
            ),
            "files",
        ),
        Steps("output", "Answer", (100, 200, 400, 800, 1600), "800", unit="tokens"),
        Steps("max_num_seqs", "--max-num-seqs", (8, 16, 32, 64, 128, 256), "256"),
        Choice(
            "kv_cache_dtype",
            "KV cache dtype (restarts)",
            (("auto", "auto (bf16)"), ("fp8", "fp8")),
            "auto",
        ),
    ),
    draw=draw,
    start={"at": 140, "start": {"prompts": "snippets"}, "edits": [[40, "prompts", "files"]]},
)
