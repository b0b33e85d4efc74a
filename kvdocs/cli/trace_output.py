"""What `kvdocs trace` prints."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kvdocs.catalog import Link
from kvdocs.cli.numbers import human_bytes
from kvdocs.cli.output import heading, indent, print_json, print_notes, table
from kvdocs.errors import WorkloadError
from kvdocs.timing import RooflineTimer
from kvdocs.trace_study import HitCurve, TraceStudy
from kvdocs.trace_study.latency import Saving, ttft_without_cache
from kvdocs.trace_study.reuse import Reuse, reuse, working_set
from kvdocs.trace_study.servers import ServerResult
from kvdocs.trace_study.spread import Spread, spread
from kvdocs.trace_study.study import NOTHING_SHARED
from kvdocs.units import format_seconds

WINDOWS_S: Final = (60.0, 600.0)
"""Windows of the working set, in seconds."""
_SHARES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What prompts are timed on.

    Attributes:
        name: The model.
        timer: Times the prompts.
        bytes_per_token: Bytes of keys and values of one token, on all GPUs together.
    """

    name: str
    timer: RooflineTimer
    bytes_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is printed.

    Attributes:
        study: The trace's study.
        curve: Hits of every size; None when nothing is known about what prompts share.
        sizes: Blocks of the caches that are shown.
        machine: What prompts are timed on; None when they are not.
        link: What the cache is behind; None for the GPU's own memory.
        savings: Each of the sizes, and one that never evicts; empty without a machine.
        servers: Whole servers with pools of the sizes, when asked for.
    """

    study: TraceStudy
    curve: HitCurve | None
    sizes: tuple[int, ...]
    machine: Machine | None = None
    link: Link | None = None
    savings: list[Saving] = field(default_factory=list)
    servers: list[ServerResult] = field(default_factory=list)

    @property
    def without_cache(self) -> Spread | None:
        """Time to first token when every prompt is computed whole; None without a machine."""
        if self.machine is None:
            return None
        return ttft_without_cache(self.study, self.machine.timer)

    @property
    def reuse(self) -> Reuse | None:
        """How soon blocks are used again; None when none are, or nobody knows."""
        try:
            return reuse(self.study)
        except WorkloadError:
            return None

    @property
    def working_sets(self) -> dict[float, float]:
        """Tokens used within the last so many seconds, by window."""
        study = self.study
        windows = [window for window in WINDOWS_S if window < study.duration_s]
        return {window: working_set(study, window) * study.block_size for window in windows}


# --- for people ---------------------------------------------------------------------------------


def print_answer(answer: Answer) -> None:
    """Print what was found, as tables."""
    print(heading("the trace"))
    print(indent(table(list(_trace_rows(answer)))))
    for title, rows, header in _tables(answer):
        print(f"\n{heading(title)}")
        print(indent(table(rows, header=header, align=">" * len(header))))
    print()
    print_notes(list(_notes(answer)))


def _trace_rows(answer: Answer) -> Iterable[list[str]]:
    study, found = answer.study, answer.reuse
    rate = f", {study.num_requests / study.duration_s:.2f} a second" if study.duration_s else ""
    yield ["requests", f"{study.num_requests:,} in {format_seconds(study.duration_s)}{rate}"]
    for name, lengths in (("prompt", study.prompt_tokens), ("output", study.output_tokens)):
        yield [f"{name} tokens", f"{sum(lengths):,}; {_lengths(spread(lengths))}"]
    if answer.curve is None:
        return
    once = f"; {found.used_once / found.num_blocks:.1%} used once" if found else ""
    yield [f"blocks of {study.block_size} tokens", f"{study.num_blocks:,} different{once}"]
    if found:
        times, room = found.seconds, found.distance_tokens
        yield [
            "used again after",
            f"P50 {format_seconds(times.p50)}, P90 {format_seconds(times.p90)}",
        ]
        yield ["with other tokens between", f"P50 {room.p50:,.0f}, P90 {room.p90:,.0f}"]
    for window, tokens in answer.working_sets.items():
        yield [f"working set of {format_seconds(window)}", f"{tokens:,.0f} tokens on average"]
    yield ["found when nothing is evicted", f"{answer.curve.ideal_ratio:.2%} of the prompt tokens"]
    if answer.curve.ideal_ratio:
        yield ["tokens of room for a share of that", _room(answer.curve)]


def _lengths(found: Spread) -> str:
    shown = ", ".join(
        f"{name} {getattr(found, name.lower()):,.0f}" for name in ("P50", "P95", "P99")
    )
    return f"mean {found.mean:,.1f}, {shown}, longest {found.largest:,.0f}"


def _room(curve: HitCurve) -> str:
    sizes = (curve.smallest(share * curve.ideal_ratio) * curve.block_size for share in _SHARES)
    return ", ".join(f"{share:.0%} {size:,}" for share, size in zip(_SHARES, sizes, strict=True))


def _tables(answer: Answer) -> Iterable[tuple[str, list[list[str]], list[str]]]:
    if answer.curve is not None:
        yield _cache_title(answer), list(_cache_rows(answer, answer.curve)), _cache_header(answer)
    elif answer.without_cache:
        yield _cache_title(answer), [_times(answer.without_cache)], ["TTFT mean", *_PERCENTILES]
    if answer.servers:
        yield "whole servers with such a pool", _server_rows(answer), _SERVER


_PERCENTILES: Final = ["P50", "P90", "P99"]
_SERVER: Final = [
    "tokens of room",
    "found",
    "done",
    "refused",
    "preempted",
    "TTFT mean",
    *_PERCENTILES,
]


def _cache_title(answer: Answer) -> str:
    if answer.machine is None:
        return "an LRU cache"
    alone = f"each prompt alone on {answer.machine.timer.gpu.name}"
    if answer.curve is None:
        return f"no cache; {alone}"
    where = f"behind {answer.link.name}" if answer.link else "in the GPU's memory"
    return f"an LRU cache {where}; {alone}"


def _cache_header(answer: Answer) -> list[str]:
    if answer.machine is None:
        return ["tokens of room", "found", "of the ideal"]
    return ["tokens of room", "KV", "found", "of the ideal", "TTFT mean", *_PERCENTILES, "saved"]


def _cache_rows(answer: Answer, curve: HitCurve) -> Iterable[list[str]]:
    if answer.without_cache:
        yield ["none", "", "", "", *_times(answer.without_cache), ""]
    savings = itertools.chain(answer.savings, itertools.repeat(None))
    for size, saving in zip((*answer.sizes, answer.study.num_blocks), savings, strict=False):
        ratio, tokens = curve.hit_ratio(size), size * curve.block_size
        row = [f"{ratio:.2%}", f"{ratio / curve.ideal_ratio:.1%}" if curve.ideal_ratio else ""]
        if answer.machine:
            row.insert(0, human_bytes(tokens * answer.machine.bytes_per_token))
        if saving:
            row += [*_times(saving.ttft_s), format_seconds(saving.saved_s)]
        shown = f"all: {tokens:,}" if size == answer.study.num_blocks else f"{tokens:,}"
        yield [shown, *row]


def _times(found: Spread) -> list[str]:
    return [format_seconds(time) for time in (found.mean, found.p50, found.p90, found.p99)]


def _server_rows(answer: Answer) -> list[list[str]]:
    return [_server_row(result, answer.study.block_size) for result in answer.servers]


def _server_row(result: ServerResult, block_size: int) -> list[str]:
    found, times = result.ttft, ["", "", "", ""]
    if found:
        times = [format_seconds(time) for time in (found.mean, found.p50, found.p90, found.p99)]
    counts = (result.finished, result.refused, result.preemptions)
    return [
        f"{result.num_blocks * block_size:,}",
        f"{result.hit_ratio:.2%}",
        *(f"{count:,}" for count in counts),
        *times,
    ]


def _notes(answer: Answer) -> Iterable[str]:
    if answer.curve is None:
        yield NOTHING_SHARED
        return
    yield "requests one after the other: none holds blocks while another runs, none waits"
    if answer.machine and not answer.servers:
        yield "on a busy server prompts also wait for each other: see --simulate"
    if not answer.study.rules.keep_outputs:
        yield "as a store: outputs take no room, and blocks that are not full are found"


# --- for programs -------------------------------------------------------------------------------


def print_document(answer: Answer) -> None:
    """Print what was found, as JSON."""
    study, found, without = answer.study, answer.reuse, answer.without_cache
    print_json(
        {
            "requests": study.num_requests,
            "duration_s": study.duration_s,
            "prompt_tokens": {
                "total": sum(study.prompt_tokens),
                **asdict(spread(study.prompt_tokens)),
            },
            "output_tokens": {
                "total": sum(study.output_tokens),
                **asdict(spread(study.output_tokens)),
            },
            "block_size": study.block_size,
            "rules": asdict(study.rules),
            "blocks": study.num_blocks,
            "reuse": None if found is None else asdict(found),
            "working_set_tokens": {f"{s:g}": tokens for s, tokens in answer.working_sets.items()},
            "ideal_hit_ratio": None if answer.curve is None else answer.curve.ideal_ratio,
            "ttft_without_cache_s": asdict(without) if without else None,
            "caches": _caches(answer),
            "servers": [asdict(result) for result in answer.servers],
            "notes": list(_notes(answer)),
        }
    )


def _caches(answer: Answer) -> list[dict[str, Any]]:
    curve = answer.curve
    if curve is None:
        return []
    by_size = {saving.num_blocks: saving for saving in answer.savings}
    sizes = (*answer.sizes, answer.study.num_blocks)
    rows = []
    for size in sizes:
        tokens = size * curve.block_size
        row: dict[str, Any] = {"tokens": tokens, "hit_ratio": curve.hit_ratio(size)}
        if answer.machine:
            row["kv_bytes"] = tokens * answer.machine.bytes_per_token
        if size in by_size:
            row |= {"ttft_s": asdict(by_size[size].ttft_s), "saved_s": by_size[size].saved_s}
        rows.append(row)
    return rows
