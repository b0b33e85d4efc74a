"""How figures are distributed, each with a weight."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from kvdocs.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How some figure is distributed.

    A percentile is a figure that occurs: the smallest that the named share does not exceed.

    Attributes:
        count: How many there are (their weight, where they have one).
        mean: Their mean.
        p50: Half do not exceed it.
        p90: 90 in 100 do not exceed it.
        p95: 95 in 100 do not exceed it.
        p99: 99 in 100 do not exceed it.
        largest: The largest.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


def spread(values: Iterable[float]) -> Spread:
    """How values are distributed.

    Args:
        values: One or more.

    Raises:
        WorkloadError: There are none.

    Examples:
        >>> spread([4, 1, 3, 2]).p50
        2
    """
    return weighted_spread((value, 1) for value in values)


def weighted_spread(values: Iterable[tuple[float, int]]) -> Spread:
    """How values are distributed that stand for several each.

    Args:
        values: Pairs of a value and how often it counts, at least once.

    Raises:
        WorkloadError: There are none.

    Examples:
        >>> weighted_spread([(1, 3), (10, 1)]).mean
        3.25
    """
    pairs = sorted(values)
    if not pairs:
        raise WorkloadError("there is nothing to take percentiles of")
    upto = list(accumulate(weight for _, weight in pairs))
    total = upto[-1]

    def at(share: float) -> float:
        return pairs[bisect_left(upto, share * total)][0]

    return Spread(
        count=total,
        mean=math.fsum(value * weight for value, weight in pairs) / total,
        p50=at(0.5),
        p90=at(0.9),
        p95=at(0.95),
        p99=at(0.99),
        largest=pairs[-1][0],
    )
