"""Two readings of one server, some time apart: what happened in between."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.errors import MetricsError
from kvdocs.metrics.histogram import HistogramReading
from kvdocs.metrics.reader import MetricsPage
from kvdocs.metrics.servers import ServerMetrics

_COUNTERS: Final = (
    "preemptions",
    "prefix_queries",
    "prefix_hits",
    "external_queries",
    "external_hits",
    "prompt_tokens",
    "prompt_tokens_computed",
    "generation_tokens",
    "requests_finished",
)
_HISTOGRAMS: Final = ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened between two readings; None is what one of them does not show.

    Attributes:
        seconds: Time between them.
        prompt_tokens_per_s: Prompt tokens per second, from whatever source.
        computed_tokens_per_s: Prompt tokens computed per second.
        generation_tokens_per_s: Tokens generated per second.
        requests_per_s: Requests finished per second.
        preemptions_per_s: Preemptions per second.
        prefix_hit_rate: Share of the tokens looked up that were found.
        external_hit_rate: The same beyond the GPU.
        ttft: Times to first token observed in between.
        itl: Times between tokens observed in between.
        tpot: Mean times per output token of requests that finished in between.
        e2e: Their times from arrival to end.
        queue: Their times in the queue.
        prefill: Their times in prefill.
        decode: Their times in decode.
        restarted: Whether a counter went back: the later reading then counts from zero.
    """

    seconds: float
    prompt_tokens_per_s: float | None
    computed_tokens_per_s: float | None
    generation_tokens_per_s: float | None
    requests_per_s: float | None
    preemptions_per_s: float | None
    prefix_hit_rate: float | None
    external_hit_rate: float | None
    ttft: HistogramReading | None
    itl: HistogramReading | None
    tpot: HistogramReading | None
    e2e: HistogramReading | None
    queue: HistogramReading | None
    prefill: HistogramReading | None
    decode: HistogramReading | None
    restarted: bool


def compare(before: ServerMetrics, after: ServerMetrics, *, seconds: float) -> Rates:
    """What an engine did between two readings.

    Args:
        before: The earlier reading.
        after: The later one.
        seconds: Time between them.

    Raises:
        MetricsError: A time that is not above 0.

    Examples:
        >>> before = ServerMetrics(server="vllm", generation_tokens=1000)
        >>> after = ServerMetrics(server="vllm", generation_tokens=6000)
        >>> compare(before, after, seconds=10).generation_tokens_per_s
        500.0
    """
    if not 0 < seconds < math.inf:
        raise MetricsError(f"{seconds} s between two readings; it must be above 0")
    restarted = any(_went_back(before, after, name) for name in _COUNTERS)
    grown = {name: _grown(before, after, name, restarted=restarted) for name in _COUNTERS}

    def per_s(name: str) -> float | None:
        value = grown[name]
        return None if value is None else value / seconds

    return Rates(
        seconds=seconds,
        prompt_tokens_per_s=per_s("prompt_tokens"),
        computed_tokens_per_s=per_s("prompt_tokens_computed"),
        generation_tokens_per_s=per_s("generation_tokens"),
        requests_per_s=per_s("requests_finished"),
        preemptions_per_s=per_s("preemptions"),
        prefix_hit_rate=_ratio(grown["prefix_hits"], grown["prefix_queries"]),
        external_hit_rate=_ratio(grown["external_hits"], grown["external_queries"]),
        restarted=restarted,
        **{name: _observed(before, after, name, restarted=restarted) for name in _HISTOGRAMS},
    )


def compare_pages(
    before: MetricsPage, after: MetricsPage, *, seconds: float
) -> Iterator[tuple[ServerMetrics, Rates]]:
    """Compare all engines that stand on both of two pages.

    Args:
        before: The earlier page.
        after: The later one.
        seconds: Time between them.

    Yields:
        The later reading of an engine, and what it did in between.

    Raises:
        MetricsError: A time that is not above 0.
    """
    earlier = {server.key: server for server in before.servers}
    for server in after.servers:
        if server.key in earlier:
            yield server, compare(earlier[server.key], server, seconds=seconds)


def _went_back(before: ServerMetrics, after: ServerMetrics, name: str) -> bool:
    then, now = getattr(before, name), getattr(after, name)
    return then is not None and now is not None and now < then


def _grown(
    before: ServerMetrics, after: ServerMetrics, name: str, *, restarted: bool
) -> float | None:
    then: float | None = getattr(before, name)
    now: float | None = getattr(after, name)
    if now is None or then is None:
        return None
    return now if restarted else now - then


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _observed(
    before: ServerMetrics, after: ServerMetrics, name: str, *, restarted: bool
) -> HistogramReading | None:
    then: HistogramReading | None = getattr(before, name)
    now: HistogramReading | None = getattr(after, name)
    if now is None or then is None:
        return None
    return now if restarted else now.since(then)
