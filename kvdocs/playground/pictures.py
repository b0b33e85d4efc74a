"""What a running server is drawn as: its memory, its pool's holders, its figures over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kvdocs.html import Element, h, svg
from kvdocs.playground.measures import SHARES, TIMES
from kvdocs.playground.moment import Moment
from kvdocs.playground.setup import Sized
from kvdocs.server import Latency
from kvdocs.units import GB, format_bytes, format_number, format_seconds
from kvdocs.widgets.blocks_view import HUES, hue
from kvdocs.widgets.memory import MemoryKind, Segment, memory_bar, swatch
from kvdocs.widgets.strip import Strip, strips

COLUMNS: Final = 40
CELL: Final = 12
"""Units of a cell's side, about pixels: patterns keep their size."""
MOST_CELLS: Final = 240
"""A larger pool is drawn by a sample of its blocks."""


# Memory ---------------------------------------------------------------------------------------


def memory(sized: Sized, held: int | None = None) -> Element:
    """Draw a GPU's memory, the pool parted into what is held and what is free.

    Args:
        sized: The set-up.
        held: Blocks held; None before anything runs.
    """
    budget, pool = sized.budget, max(0.0, sized.budget.kv_bytes)
    usable = sized.server.config.usable_blocks if sized.server else 0
    used = pool * held / usable if held and usable else 0.0
    parts = (
        Segment(MemoryKind.WEIGHTS, budget.weights_bytes),
        Segment(MemoryKind.WORKSPACE, budget.activation_bytes),
        Segment(MemoryKind.CONTEXT, budget.non_torch_bytes + budget.cuda_graph_bytes),
        Segment(MemoryKind.KV_USED, used),
        Segment(MemoryKind.KV_FREE, pool - used),
    )
    spent = sum(part.num_bytes for part in parts)
    rest = Segment(MemoryKind.UNTOUCHED, max(0.0, budget.total_bytes - spent))
    shown = tuple(part for part in (*parts, rest) if part.num_bytes)
    return memory_bar(
        shown,
        total_bytes=max(spent, budget.total_bytes),
        limit_bytes=min(budget.requested_bytes, budget.total_bytes),
        limit_text=(
            f"vLLM may use {format_bytes(budget.requested_bytes, 'GB')}, "
            f"{budget.utilization:g} of {format_number(budget.total_bytes / GB)} GB"
        ),
    )


# The pool -------------------------------------------------------------------------------------

_Piece = tuple[str, int]
"""A stretch of the pool: the class it is drawn with, and its blocks."""


def _pieces(moment: Moment, usable: int) -> Iterator[_Piece]:
    yield "kv-mem kv-mem-shared", moment.shared
    for holder in moment.holders:
        yield f"kv-share {hue(_number(holder.id))}", holder.num_blocks
    yield "kv-mem kv-mem-kv-cached", moment.cached
    yield "kv-mem kv-mem-kv-free", usable - moment.held - moment.cached


def _number(request_id: str) -> int:
    """A number that gives a request its hue."""
    digits = "".join(letter for letter in request_id if letter.isdigit())
    return int(digits or 0) % HUES


def cells(moment: Moment, usable: int) -> list[str]:
    """The class of each cell of a pool's map.

    A cell stands for so many blocks and shows the one in its middle.

    Args:
        moment: The moment.
        usable: Blocks of the pool.

    Examples:
        >>> empty = Moment(0, 0, 0, 0, 0, 0, 0, 0, 0, ())
        >>> set(cells(empty, 1000)), len(cells(empty, 1000))
        ({'kv-mem kv-mem-kv-free'}, 200)
    """
    size = blocks_per_cell(usable)
    found, end = [], 0
    middle = (size - 1) // 2
    for css, count in _pieces(moment, usable):
        end += count
        while middle < end:
            found.append(css)
            middle += size
    return found


def blocks_per_cell(usable: int) -> int:
    """Blocks that one cell of a pool's map stands for."""
    return -(-usable // MOST_CELLS)


def pool(moment: Moment, usable: int, block_size: int) -> Element:
    """Draw who holds the pool.

    Args:
        moment: The moment.
        usable: Blocks of the pool.
        block_size: Tokens in a block.
    """
    found = cells(moment, usable)
    paths: dict[str, str] = {}
    for place, css in enumerate(found):
        row, column = divmod(place, COLUMNS)
        start = f"M{column * CELL} {row * CELL}"
        paths[css] = f"{paths.get(css, '')}{start}h{CELL}v{CELL}h-{CELL}z"
    num_rows = -(-len(found) // COLUMNS)
    private = sum(holder.num_blocks for holder in moment.holders)
    words = (
        f"{usable:,} blocks: {private:,} held by one request each, {moment.shared:,} shared, "
        f"{moment.cached:,} cached but free, {usable - moment.held - moment.cached:,} free."
    )
    drawing = svg(
        "svg",
        *(svg("path", d=path, class_=css) for css, path in paths.items()),
        view_box=f"0 0 {COLUMNS * CELL} {CELL * max(1, num_rows)}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    size = blocks_per_cell(usable)
    cell = (
        f"one block of {block_size} tokens" if size == 1 else f"{size:,} blocks, by its middle one"
    )
    return h(
        "div",
        h(
            "p",
            h("span", f"The pool: one cell = {cell}"),
            h("b", f"{moment.held / usable:.0%} held"),
            class_="kv-strip-name",
        ),
        h("div", drawing, class_="kv-pg-pool", role="img", aria_label=words),
        _pool_key(moment, usable, private),
        class_="kv-shares",
    )


def _pool_key(moment: Moment, usable: int, private: int) -> Element:
    sample = svg(
        "svg",
        svg("rect", width="100%", height="100%", class_="kv-share kv-r0"),
        class_="kv-swatch",
        aria_hidden="true",
    )
    entries = (
        (sample, "one request's, by hue", private),
        (swatch(MemoryKind.SHARED), MemoryKind.SHARED.word, moment.shared),
        (swatch(MemoryKind.KV_CACHED), MemoryKind.KV_CACHED.word, moment.cached),
        (swatch(MemoryKind.KV_FREE), "free", usable - moment.held - moment.cached),
    )
    items = (
        h("li", picture, h("span", word), h("span", f"{count:,}", class_="kv-key-value"))
        for picture, word, count in entries
    )
    return h("ul", *items, class_="kv-key kv-pg-key")


# Over time ------------------------------------------------------------------------------------


def top(values: Sequence[float], least: int) -> int:
    """A round upper end for a scale.

    Examples:
        >>> top([3, 137], 10), top([], 10)
        (200, 10)
    """
    most = max([least, *values])
    step = 10 ** (len(str(int(most))) - 1)
    return int(-(-most // step) * step)


def rates(moments: Sequence[Moment], interval_s: float) -> list[float]:
    """Output tokens a second, between each moment and the one before.

    Args:
        moments: The moments.
        interval_s: Seconds between them.
    """
    gained = (two.generation_tokens - one.generation_tokens for one, two in pairwise(moments))
    return [0.0, *(tokens / interval_s for tokens in gained)]


def preempted(moments: Sequence[Moment]) -> list[int]:
    """The moments before which somebody was preempted."""
    steps = enumerate(pairwise(moments), 1)
    return [place for place, (one, two) in steps if two.preemptions > one.preemptions]


class Scales:
    """Upper ends that pictures of several set-ups share, so that they can be compared.

    Args:
        all_moments: The moments of each set-up.
        interval_s: Seconds between them.
    """

    def __init__(self, all_moments: Sequence[Sequence[Moment]], interval_s: float) -> None:
        every = [moment for moments in all_moments for moment in moments]
        self.running = top([moment.running for moment in every], 10)
        self.waiting = top([moment.waiting for moment in every], 10)
        self.rate = top([rate for m in all_moments for rate in rates(m, interval_s)], 100)


def over_time(
    moments: Sequence[Moment], *, now: int, usable: int, interval_s: float, scales: Scales
) -> Element:
    """Draw a set-up's figures over time, one below the other.

    Args:
        moments: The moments.
        now: The moment shown.
        usable: Blocks of the pool.
        interval_s: Seconds between two moments.
        scales: Upper ends.
    """
    here, speeds = moments[now], rates(moments, interval_s)
    entries = (
        Strip(
            name="KV cache usage; a stroke = preemption",
            value=f"{here.held / usable:.0%}",
            values=[moment.held / usable for moment in moments],
            top=1,
            top_label="100%",
            tone="used",
            marks=preempted(moments),
        ),
        Strip(
            name="Running",
            value=f"{here.running:,}",
            values=[moment.running for moment in moments],
            top=scales.running,
            top_label=f"{scales.running:,}",
            tone="running",
        ),
        Strip(
            name="Waiting",
            value=f"{here.waiting:,}",
            values=[moment.waiting for moment in moments],
            top=scales.waiting,
            top_label=f"{scales.waiting:,}",
            tone="waiting",
        ),
        Strip(
            name="Output tokens per second",
            value=f"{speeds[now]:,.0f}",
            values=speeds,
            top=scales.rate,
            top_label=f"{scales.rate:,}",
            tone="compute",
        ),
    )
    words = (
        f"At {format_seconds(now * interval_s)}: KV cache usage {here.held / usable:.0%}, "
        f"{here.running:,} running, {here.waiting:,} waiting, {here.preemptions:,} preemptions so "
        f"far, {speeds[now]:,.0f} output tokens per second."
    )
    return strips(
        entries,
        num_moments=len(moments),
        now=now,
        axis=axis((len(moments) - 1) * interval_s),
        label=words,
    )


def axis(end_s: float) -> tuple[str, ...]:
    """Labels of a time axis, evenly spaced.

    Args:
        end_s: Its end, in seconds.

    Examples:
        >>> axis(60)
        ('0 s', '15', '30', '45', '60 s')
    """
    digits = 0 if end_s >= 8 else 2
    inner = (format_number(end_s * part / 4, digits) for part in (1, 2, 3))
    return ("0 s", *inner, f"{format_number(end_s, digits)} s")


# Latencies ------------------------------------------------------------------------------------


def latency_table(found: Sequence[dict[str, Latency]], letters: Sequence[str]) -> Element:
    """A table of latencies: a line for each of them and each set-up.

    Args:
        found: Latencies by name, of each set-up.
        letters: What the set-ups are called.
    """
    titles = ("Latency", "half within", "90% within", "99% within", "longest")
    head = h("thead", h("tr", *(h("th", title, scope="col") for title in titles)))
    lines = []
    for name, label in TIMES.items():
        for letter, latencies in zip(letters, found, strict=True):
            title = f"{label}, {letter}" if len(letters) > 1 else label
            latency = latencies.get(name)
            cells = [
                "–" if latency is None else format_seconds(getattr(latency, share))
                for share in SHARES
            ]
            row = h("tr", h("th", title, scope="row"), *(h("td", cell) for cell in cells))
            lines.append(row)
    return h(
        "div",
        h("table", head, h("tbody", *lines), class_="kv-table kv-pg-latency"),
        class_="kv-scroll",
        tabindex=0,
        role="group",
        aria_label="Latencies",
    )
