"""When requests arrive. Endless streams of times, each a whole number of ticks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.numbers import draw_exponential, draw_gamma


def poisson(rng: random.Random, *, rate: float, start: float = 0.0) -> Iterator[float]:
    """Requests of many users who know nothing of each other: exponential gaps.

    Args:
        rng: Where randomness comes from.
        rate: Requests per second on average.
        start: When the first gap begins, in seconds.

    Raises:
        WorkloadError: A rate that is not above 0.

    Examples:
        >>> times = poisson(random.Random(1), rate=10)
        >>> 0 < next(times) < next(times)
        True
    """
    _check(rate=rate)
    return _poisson(rng, rate, start)


def _poisson(rng: random.Random, rate: float, clock: float) -> Iterator[float]:
    while True:
        clock = to_grid(clock + draw_exponential(rng, 1 / rate))
        yield clock


def gamma(rng: random.Random, *, rate: float, burstiness: float) -> Iterator[float]:
    """Requests whose gaps follow a gamma distribution, as `vllm bench serve --burstiness` makes it.

    Args:
        rng: Where randomness comes from.
        rate: Requests per second on average.
        burstiness: Shape of the distribution: 1 is `poisson`, below that requests come in bunches,
            above it evenly.

    Raises:
        WorkloadError: A rate or a burstiness that is not above 0.

    Examples:
        >>> times = gamma(random.Random(1), rate=10, burstiness=0.5)
        >>> 0 <= next(times) <= next(times)
        True
    """
    _check(rate=rate, burstiness=burstiness)
    return _gamma(rng, rate, burstiness)


def _gamma(rng: random.Random, rate: float, shape: float) -> Iterator[float]:
    clock = 0.0
    while True:
        clock = to_grid(clock + draw_gamma(rng, shape) / (rate * shape))
        yield clock


def fixed_rate(*, rate: float, start: float = 0.0) -> Iterator[float]:
    """Requests in step: one every 1 / rate seconds, the first at once.

    Args:
        rate: Requests per second.
        start: When the first arrives, in seconds.

    Raises:
        WorkloadError: A rate that is not above 0.

    Examples:
        >>> times = fixed_rate(rate=4)
        >>> [next(times) for _ in range(3)]
        [0.0, 0.25, 0.5]
    """
    _check(rate=rate)
    return _fixed_rate(rate, start)


def _fixed_rate(rate: float, start: float) -> Iterator[float]:
    index = 0
    while True:
        yield to_grid(start + index / rate)
        index += 1


def bursts(
    rng: random.Random,
    *,
    burst_rate: float,
    burst_s: float,
    quiet_s: float,
    quiet_rate: float = 0.0,
    start: float = 0.0,
) -> Iterator[float]:
    """Busy and quiet spells in turn, each of exponential length; at random within a spell.

    Args:
        rng: Where randomness comes from.
        burst_rate: Requests per second in a burst, on average.
        burst_s: Mean length of a burst, in seconds. The stream begins with one.
        quiet_s: Mean time between bursts, in seconds.
        quiet_rate: Requests per second between bursts; may be 0.
        start: When the first burst begins, in seconds.

    Raises:
        WorkloadError: A rate or a length that is not above 0.

    Examples:
        >>> times = bursts(random.Random(1), burst_rate=50, burst_s=1, quiet_s=9)
        >>> 0 < next(times) < next(times)
        True
    """
    _check(burst_rate=burst_rate, burst_s=burst_s, quiet_s=quiet_s)
    if not 0 <= quiet_rate < math.inf:
        raise WorkloadError(f"quiet_rate is {quiet_rate}; it must be 0 or more")
    return _bursts(rng, ((burst_rate, burst_s), (quiet_rate, quiet_s)), start)


def _bursts(
    rng: random.Random, spells: tuple[tuple[float, float], ...], clock: float
) -> Iterator[float]:
    while True:
        for rate, mean_s in spells:
            end = clock + draw_exponential(rng, mean_s)
            while rate > 0:
                clock += draw_exponential(rng, 1 / rate)
                if clock >= end:
                    break
                yield to_grid(clock)
            clock = end


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise WorkloadError(f"{name} is {value}; it must be above 0")
