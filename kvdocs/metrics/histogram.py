"""Histograms: filled by a simulation, or read from a page."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


class Histogram:
    """Counts of observed values by bucket, and their sum.

    Args:
        bounds: Upper bounds of the buckets, ascending; one more, +Inf, follows.

    Attributes:
        bounds: Those bounds.
        counts: Observations in each bucket, +Inf last.
        total: Sum of the observations.

    Examples:
        >>> histogram = Histogram([1, 10])
        >>> histogram.observe(10)
        >>> histogram.counts, histogram.total
        ([0, 1, 0], 10.0)
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value: in the first bucket whose bound is not below it.

        Args:
            value: The value.
        """
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def cumulative(self) -> list[int]:
        """Observations up to each bound, as a page shows them; +Inf last."""
        return list(accumulate(self.counts))


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A histogram as a page shows it.

    Attributes:
        bounds: Upper bounds, ascending; the last is infinite.
        cumulative: Observations up to each bound.
        count: Observations.
        total: Their sum.

    Examples:
        >>> reading = HistogramReading((1.0, 2.0, math.inf), (10, 30, 40), 40, 80.0)
        >>> reading.mean, reading.quantile(0.5)
        (2.0, 1.5)
    """

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    count: float
    total: float

    @property
    def mean(self) -> float | None:
        """Mean of the observations; None without any."""
        return self.total / self.count if self.count > 0 else None

    def quantile(self, share: float) -> float | None:
        """Value that so many observations do not exceed, as `histogram_quantile` estimates it.

        Within a bucket values are taken to be spread evenly; beyond the last finite bound, that
        bound is the answer (Prometheus, "Query functions", histogram_quantile).

        Args:
            share: From 0 to 1.

        Returns:
            The estimate, or None without observations or buckets.
        """
        if not self.bounds or not self.cumulative[-1] > 0:
            return None
        rank = share * self.cumulative[-1]
        index = min(bisect_left(self.cumulative, rank), len(self.bounds) - 1)
        upper, lower = self.bounds[index], self.bounds[index - 1] if index else 0.0
        if math.isinf(upper):
            return lower if index else None
        before = self.cumulative[index - 1] if index else 0.0
        inside = self.cumulative[index] - before
        return lower + (upper - lower) * (rank - before) / inside if inside > 0 else upper

    def since(self, before: HistogramReading) -> HistogramReading:
        """Only what was observed after an earlier reading.

        Args:
            before: The earlier one. With other buckets, or more observations (the server was
                restarted), all of this one counts.
        """
        if before.bounds != self.bounds or before.count > self.count:
            return self
        counts = (now - then for now, then in zip(self.cumulative, before.cumulative, strict=True))
        return HistogramReading(
            self.bounds, tuple(counts), self.count - before.count, self.total - before.total
        )
