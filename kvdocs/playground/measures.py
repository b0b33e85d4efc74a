"""The figures by which runs are compared: totals, rates and latencies, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kvdocs.playground.moment import Moment
from kvdocs.server import Latency, ServerRun
from kvdocs.units import format_number, format_seconds

TIMES: Final = {
    "ttft": "Time to first token",
    "tpot": "Time per output token",
    "e2el": "Whole request",
    "queue": "In the queue",
}
"""Latencies that are shown, by `vllm bench serve`'s names."""
SHARES: Final = ("p50", "p90", "p99", "longest")


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a run.

    Attributes:
        name: Stable name.
        label: What it is.
        value: The figure of a run and its moments so far.
        shown: The figure as printed, with its unit.
        better: 1 where more is better, -1 where less is, 0 where neither.
    """

    name: str
    label: str
    value: Callable[[ServerRun, Sequence[Moment]], float]
    shown: Callable[[float], str]
    better: int = 0


def _count(value: float) -> str:
    return format_number(value, 0)


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _rate(value: float) -> str:
    return f"{format_number(value, 2)}/s"


def peak_usage(run: ServerRun, moments: Sequence[Moment]) -> float:
    """The largest share of the pool held at any moment that was looked at.

    Args:
        run: The run.
        moments: Its moments.
    """
    return max((moment.held for moment in moments), default=0) / run.config.usable_blocks


def _per_second(run: ServerRun, tokens: int) -> float:
    return tokens / run.duration_s if run.duration_s else 0.0


def _hit_share(run: ServerRun) -> float:
    queries = run.counters.prefix_cache_queries
    return run.counters.prefix_cache_hits / queries if queries else 0.0


MEASURES: Final = (
    Measure("finished", "Requests finished", lambda run, _: len(run.finished), _count, 1),
    Measure("refused", "Requests refused: too long", lambda run, _: len(run.refused), _count, -1),
    Measure("duration", "First arrival to last end", lambda run, _: run.duration_s, format_seconds),
    Measure(
        "output_rate",
        "Output tokens",
        lambda run, _: _per_second(run, run.num_output_tokens),
        _rate,
        1,
    ),
    Measure("peak_usage", "Pool held at most", peak_usage, _share),
    Measure("peak_waiting", "Waiting at most", lambda _, m: max(x.waiting for x in m), _count, -1),
    Measure("peak_running", "Running at most", lambda _, m: max(x.running for x in m), _count),
    Measure("preemptions", "Preemptions", lambda run, _: run.num_preemptions, _count, -1),
    Measure(
        "recomputed", "Tokens computed again", lambda run, _: run.recomputed_tokens, _count, -1
    ),
    Measure(
        "hit_share",
        "Prompt tokens found in the prefix cache",
        lambda run, _: _hit_share(run),
        _share,
        1,
    ),
)


def change(before: float, after: float) -> str:
    """How a figure of B differs from A's, in words and signs.

    Args:
        before: A's.
        after: B's.

    Examples:
        >>> change(200.0, 50.0), change(4.0, 6.0), change(5.0, 5.0), change(0.0, 3.0)
        ("1/4 of A's", '+50%', 'the same', 'none in A')
    """
    if before == after:
        return "the same"
    if not before:
        return "none in A"
    if not after:
        return "none in B"
    if after >= 2 * before:
        return f"{_ratio(after / before)} × A's"
    if before >= 2 * after:
        return f"1/{_ratio(before / after)} of A's"
    return f"{100 * (after / before - 1):+.0f}%".replace("-", "\N{MINUS SIGN}")


def _ratio(ratio: float) -> str:
    return format_number(ratio, 1 if ratio < 10 else 0)


def latencies(run: ServerRun) -> dict[str, Latency]:
    """The latencies of a run that were measured, by name.

    Args:
        run: The run.
    """
    found = {name: run.latency(name) for name in TIMES}
    return {name: latency for name, latency in found.items() if latency is not None}
