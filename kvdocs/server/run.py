"""A finished run: records, totals, percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from kvdocs.engine import EngineConfig
from kvdocs.engine.events import Counters
from kvdocs.engine.tally import GAP_RESOLUTION, Tally
from kvdocs.metrics import EngineSnapshot
from kvdocs.server.page import snapshot
from kvdocs.server.records import FinishReason, RequestRecord, Sample
from kvdocs.server.simulation import Simulation
from kvdocs.stats_log import StatsLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How some time was distributed over the requests, in seconds.

    Attributes:
        count: How many were measured.
        mean: Their mean.
        p50: Half were no longer.
        p90: 90 in 100 were no longer.
        p99: 99 in 100 were no longer.
        longest: The longest.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    longest: float


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of sorted values does not exceed, between two by a straight line.

    As numpy's default, which `vllm bench serve` uses.

    Args:
        values: Values in ascending order, at least one.
        share: From 0 to 1.

    Examples:
        >>> percentile([1.0, 2.0, 4.0], 0.5), percentile([1.0, 2.0, 4.0], 0.75)
        (2.0, 3.0)
    """
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def latency(values: Iterable[float | None]) -> Latency | None:
    """How values are distributed.

    Args:
        values: Seconds; None is left out.

    Returns:
        The distribution; None when there is nothing.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return Latency(
        count=len(known),
        mean=math.fsum(known) / len(known),  # exact: `sum` differs between versions of Python
        p50=percentile(known, 0.5),
        p90=percentile(known, 0.9),
        p99=percentile(known, 0.99),
        longest=known[-1],
    )


def gap_latency(tally: Tally) -> Latency | None:
    """How the gaps between tokens are distributed, to the resolution they were counted in.

    Args:
        tally: What the engine counted.

    Examples:
        >>> tally = Tally()
        >>> tally.add_gaps(0.25, 99)
        >>> tally.add_gaps(4.0)
        >>> gaps = gap_latency(tally)
        >>> gaps.p99, gaps.longest
        (0.25, 4.0)
    """
    if not tally.num_gaps:
        return None
    lengths = sorted(tally.gaps)
    cumulative = list(accumulate(tally.gaps[length] for length in lengths))

    def at(share: float) -> float:
        rank = share * tally.num_gaps
        place = next(i for i, count in enumerate(cumulative) if count >= rank)
        return lengths[place] * GAP_RESOLUTION

    return Latency(
        count=tally.num_gaps,
        mean=tally.gap_seconds / tally.num_gaps,
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        longest=lengths[-1] * GAP_RESOLUTION,
    )


_TIMES: Final[dict[str, Callable[[RequestRecord], float | None]]] = {
    "ttft": lambda record: record.ttft_s,
    "tpot": lambda record: record.tpot_s,
    "e2el": lambda record: record.e2e_s,
    "queue": lambda record: record.queue_s,
}


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """What came of a workload.

    Attributes:
        config: The engine's settings.
        requests: What became of each request, in the order of the workload.
        samples: Metrics over time.
        log: Statistics lines with their times in seconds.
        counters: What the engine counted.
        tally: Gaps between tokens, and tokens per turn.
        end_s: When the last request ended.
        simulation: The server at the end.
        model_name: What the metrics page calls the model.
        cache_config: Labels of `vllm:cache_config_info`.
        stories: Sentences about each request that was watched, by id.
    """

    config: EngineConfig
    requests: tuple[RequestRecord, ...]
    samples: tuple[Sample, ...]
    log: tuple[tuple[float, StatsLine], ...]
    counters: Counters
    tally: Tally
    end_s: float
    simulation: Simulation
    model_name: str
    cache_config: Mapping[str, str]
    stories: dict[str, tuple[str, ...]]

    @cached_property
    def snapshot(self) -> EngineSnapshot:
        """The metrics page's figures at the end."""
        return snapshot(self.simulation, model_name=self.model_name, cache_config=self.cache_config)

    @cached_property
    def finished(self) -> tuple[RequestRecord, ...]:
        """Requests that got all their tokens."""
        return tuple(one for one in self.requests if one.reason is FinishReason.LENGTH)

    @cached_property
    def refused(self) -> tuple[RequestRecord, ...]:
        """Requests that were refused at the door."""
        return tuple(one for one in self.requests if one.reason is FinishReason.REFUSED)

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last end."""
        return self.end_s - min((one.arrival_s for one in self.requests), default=self.end_s)

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt tokens of the requests that finished."""
        return sum(record.num_prompt_tokens for record in self.finished)

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated for the requests that finished."""
        return sum(record.num_output_tokens for record in self.finished)

    @property
    def hit_tokens(self) -> int:
        """Prompt tokens found in the prefix cache at first admission."""
        return sum(record.hit_tokens for record in self.requests)

    @property
    def recomputed_tokens(self) -> int:
        """Tokens computed again after preemptions."""
        return sum(record.recomputed_tokens for record in self.requests)

    @property
    def num_preemptions(self) -> int:
        """Running requests that lost their blocks."""
        return self.counters.preemptions

    @property
    def requests_per_s(self) -> float:
        """Requests finished per second."""
        return len(self.finished) / self.duration_s if self.duration_s else 0.0

    def latency(self, name: str) -> Latency | None:
        """How some time is distributed.

        Args:
            name: `ttft`, `tpot`, `itl`, `e2el` or `queue`, as `vllm bench serve` names them.

        Returns:
            The distribution; None when nothing was measured.
        """
        if name == "itl":
            return gap_latency(self.tally)
        return latency(map(_TIMES[name], self.requests))
