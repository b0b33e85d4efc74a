"""Time in whole ticks, so that adding it up never rounds.

A tick is 2**-30 s, a little less than a nanosecond. A float holds every whole number of ticks up
to 2**53 of them (97 days) exactly, and adding such floats is exact as well. So a thousand steps
added one by one and the same thousand summed by a formula give the same number, to the last bit.
"""

from __future__ import annotations

import math
from typing import Final

TICK_BITS: Final = 30
TICK: Final[float] = 2.0**-TICK_BITS
"""Seconds in a tick."""
_TICKS_PER_S: Final[float] = 2.0**TICK_BITS

GRAIN_BITS: Final = 34
"""A grain is 2**-34 of a tick: the unit in which the parts of a step are added before rounding."""

_MAX_EXACT: Final = 2**53


def to_grid(seconds: float) -> float:
    """The nearest time that is a whole number of ticks.

    Args:
        seconds: A time, up to 97 days.

    Examples:
        >>> to_grid(0.1) == 0.1, abs(to_grid(0.1) - 0.1) < 1e-9, to_grid(0.25)
        (False, True, 0.25)
    """
    return round(seconds * _TICKS_PER_S) * TICK


def on_grid(seconds: float) -> bool:
    """Whether a time is a whole number of ticks.

    Args:
        seconds: A time, finite.

    Examples:
        >>> on_grid(3.5), on_grid(0.1)
        (True, False)
    """
    return (seconds * _TICKS_PER_S).is_integer()


def grains(seconds: float) -> int:
    """A duration in grains, rounded to the nearest.

    Args:
        seconds: A duration, finite and not negative.

    Examples:
        >>> grains(1.0) == 2**64
        True
    """
    return round(math.ldexp(seconds, TICK_BITS + GRAIN_BITS))


def floor_sum(count: int, first: int, step: int, bits: int = GRAIN_BITS) -> int:
    """Sum of `(first + step * i) >> bits` for i from 0 to `count - 1`, without the loop.

    The count of lattice points under a line, by Euclid's algorithm (Graham, Knuth, Patashnik:
    Concrete Mathematics, section 3.5).

    Args:
        count: Number of terms.
        first: The first numerator, not negative.
        step: What each next one adds, not negative.
        bits: The denominator is 2 to this power.

    Examples:
        >>> floor_sum(1000, 77, 9, 5) == sum((77 + 9 * i) >> 5 for i in range(1000))
        True
    """
    total, divisor = 0, 1 << bits
    terms, intercept, slope = count, first, step
    while terms:
        if slope >= divisor:
            total += terms * (terms - 1) // 2 * (slope // divisor)
            slope %= divisor
        if intercept >= divisor:
            total += terms * (intercept // divisor)
            intercept %= divisor
        top = slope * terms + intercept
        if top < divisor:
            break
        terms, intercept = divmod(top, divisor)
        slope, divisor = divisor, slope
    return total


def as_ticks(seconds: float) -> int | None:
    """A time in ticks, or None when it is not a whole number of them.

    Examples:
        >>> as_ticks(2.0**-30), as_ticks(0.1) is None
        (1, True)
    """
    scaled = seconds * _TICKS_PER_S
    return int(scaled) if scaled.is_integer() and abs(scaled) < _MAX_EXACT else None


def ticks_until(seconds: float) -> int:
    """Ticks at which a clock has reached a time; 97 days stand for any later one.

    Examples:
        >>> ticks_until(0.1), ticks_until(math.inf) == 2**53
        (107374183, True)
    """
    scaled = seconds * _TICKS_PER_S
    return math.ceil(scaled) if scaled < _MAX_EXACT else _MAX_EXACT


def is_exact(ticks: int) -> bool:
    """Whether a float holds this many ticks, and every smaller number, exactly.

    Examples:
        >>> is_exact(2**53), is_exact(2**53 + 1)
        (True, False)
    """
    return ticks <= _MAX_EXACT


def power(base: float, exponent: int) -> float:
    """`base ** exponent` by repeated multiplication, so that no C library decides the last digit.

    Args:
        base: Any number.
        exponent: Not negative.

    Examples:
        >>> power(0.5, 10) == 0.5**10, power(3.0, 0)
        (True, 1.0)
    """
    result, factor = 1.0, base
    while exponent:
        if exponent & 1:
            result *= factor
        factor *= factor
        exponent >>= 1
    return result
