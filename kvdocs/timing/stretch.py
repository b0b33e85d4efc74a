"""Stretches of decode steps: summed by formula instead of one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from kvdocs.timing.exact import GRAIN_BITS, floor_sum


class Line(NamedTuple):
    """Steps that grow evenly.

    Attributes:
        steps: Number of steps.
        first: Grains of the first (`kvdocs.timing.exact`).
        slope: Grains by which each next one is longer.
    """

    steps: int
    first: int
    slope: int


def upper(one: Line, two: Line) -> Iterator[Line]:
    """The higher of two lines, in one part or, where they cross, in two.

    Args:
        one: A line.
        two: Another of as many steps.

    Examples:
        >>> list(upper(Line(5, 10, 1), Line(5, 6, 3)))
        [Line(steps=3, first=10, slope=1), Line(steps=2, first=15, slope=3)]
    """
    if (two.first, two.slope) > (one.first, one.slope):
        one, two = two, one
    head = one.steps
    if two.slope > one.slope:
        head = min(head, (one.first - two.first) // (two.slope - one.slope) + 1)
    yield Line(head, one.first, one.slope)
    if head < one.steps:
        yield Line(one.steps - head, two.first + two.slope * head, two.slope)


def run_steps(line: Line, ticks: int, end: int) -> tuple[int, int]:
    """Run steps while the clock is before `end`.

    Args:
        line: The steps.
        ticks: The clock.
        end: Ticks at or after which no step may start.

    Returns:
        Steps run and the clock after them.
    """
    if ticks >= end:
        return 0, ticks
    done = ticks + floor_sum(*line)
    if done < end:
        return line.steps, done
    run = _steps_to_last(line, end - ticks)
    return run, ticks + floor_sum(run, line.first, line.slope)


def _steps_to_last(line: Line, ticks: int) -> int:
    """Fewest steps of a line that last so long; the whole line does."""
    _, first, slope = line
    # Without rounding to ticks it is the root of a parabola: near enough to correct by trying.
    half = first - slope / 2
    root = math.sqrt(half * half + 2.0 * slope * (ticks << GRAIN_BITS))
    steps = int((ticks << GRAIN_BITS) * 2.0 / (half + root)) if half + root > 0 else 0
    steps = min(max(steps, 0), line.steps)
    while floor_sum(steps, first, slope) < ticks:
        steps += 1
    while steps and floor_sum(steps - 1, first, slope) >= ticks:
        steps -= 1
    return steps
