"""Stretches of decode steps: summed by formula instead of one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvdocs.timing.exact import floor_sum


class Totals(NamedTuple):
    """A step in grains (`kvdocs.timing.exact`).

    Attributes:
        weights: Reading weights.
        kv: Reading keys, values and states.
        matmul: Matrix products.
        attention: Scores and weighted sums.
        link: All-reduces.
    """

    weights: int
    kv: int
    matmul: int
    attention: int
    link: int

    def grains(self, overhead: int) -> int:
        """The whole step: the slower of the two in each pair, and the rest.

        Args:
            overhead: Grains it costs in any case.
        """
        linear = max(self.weights, self.matmul)
        return overhead + self.link + linear + max(self.kv, self.attention)


def crossings(totals: Callable[[int], Totals], begin: int, end: int) -> Iterator[int]:
    """Ends of the parts of a stretch in which either KV or attention leads throughout.

    Args:
        totals: The step of that number. Over the stretch both grow evenly.
        begin: First step.
        end: One past the last.
    """
    before, after = (step.kv - step.attention for step in (totals(begin), totals(end - 1)))
    if (before >= 0) != (after >= 0):
        change = (after - before) // (end - 1 - begin)
        yield begin + (before // -change + 1 if before >= 0 else -(before // change))
    yield end


def run_steps(count: int, first: int, slope: int, ticks: int, end: int) -> tuple[int, int]:
    """Run up to `count` evenly growing steps while the clock is before `end`.

    Args:
        count: Steps at most.
        first: Grains of the first step.
        slope: Grains by which each next one is longer.
        ticks: The clock.
        end: Ticks at or after which no step may start.

    Returns:
        Steps run and the clock after them.
    """
    if ticks >= end:
        return 0, ticks
    run = count
    if ticks + floor_sum(count - 1, first, slope) >= end:
        run = bisect_left(
            range(count), end - ticks, key=lambda steps: floor_sum(steps, first, slope)
        )
    return run, ticks + floor_sum(run, first, slope)
