"""Numbers as a log prints them: rounded, so each stands for an interval.

Every conclusion the findings draw is drawn on intervals, so that "the line says 6.51 GiB" never
pretends to more digits than the line has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIKELY_WIDTH: Final = 0.2
"""A round number is likely when its like falls into such an interval by chance less often."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Every value between two bounds, both included.

    Examples:
        >>> Interval(6.505, 6.515).scaled(2)
        Interval(low=13.01, high=13.03)
    """

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Half-way between the bounds."""
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def scaled(self, factor: float) -> Interval:
        """Both bounds times a factor of zero or more."""
        return Interval(self.low * factor, self.high * factor)

    def over(self, divisor: Interval) -> Interval:
        """Quotient of two intervals; the divisor must be positive."""
        ends = (self.low / divisor.low, self.low / divisor.high)
        more = (self.high / divisor.low, self.high / divisor.high)
        return Interval(min(ends + more), max(ends + more))

    def meets(self, other: Interval) -> bool:
        """Whether some value lies in both."""
        return self.low <= other.high and other.low <= self.high

    def common(self, other: Interval) -> Interval:
        """The values in both; only for intervals that meet."""
        return Interval(max(self.low, other.low), min(self.high, other.high))


def exactly(value: float) -> Interval:
    """The interval that holds one value.

    Examples:
        >>> exactly(16)
        Interval(low=16, high=16)
    """
    return Interval(value, value)


def roundest(interval: Interval) -> int:
    """The whole number with the most factors of two in an interval of positive numbers.

    Zero when the interval holds no whole number. Sizes of KV layouts are products of layer counts
    and powers of two, so the true one is usually the roundest number near it.

    Examples:
        >>> roundest(Interval(163_684, 164_002))
        163840
        >>> roundest(Interval(10.2, 10.8))
        0
    """
    best = 0
    step = 1
    while step <= interval.high:
        multiple = int(interval.high // step) * step
        if multiple >= interval.low and multiple > 0:
            best = multiple
        step *= 2
    return best


def likely_value(interval: Interval) -> int:
    """The roundest number in an interval, if it is too round to be there by chance; else zero.

    Examples:
        >>> likely_value(Interval(163_684, 164_002))
        163840
        >>> likely_value(Interval(48_063, 48_077))
        0
    """
    value = roundest(interval)
    if not value:
        return 0
    factor = value & -value
    return value if interval.width / factor <= LIKELY_WIDTH else 0
