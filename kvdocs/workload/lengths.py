"""How long prompts and outputs are."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Protocol

from kvdocs.errors import WorkloadError
from kvdocs.workload.numbers import draw_integer, draw_normal, exp, ln

_Z_95: Final = 1.6448536269514722
"""95% of a normal distribution lie below this many standard deviations."""
_LONGEST: Final = 10**9


class Lengths(Protocol):
    """A distribution of lengths in tokens."""

    def draw(self, rng: random.Random) -> int:
        """One length, 1 or more.

        Args:
            rng: Where randomness comes from.
        """


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same length.

    Attributes:
        tokens: That length.

    Examples:
        >>> Fixed(512).draw(random.Random(1))
        512
    """

    tokens: int

    def __post_init__(self) -> None:
        """Refuse what is no length."""
        _check(tokens=self.tokens)

    def draw(self, rng: random.Random) -> int:
        """The length; nothing is drawn."""
        del rng
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length in a range as likely.

    Attributes:
        low: Shortest.
        high: Longest.

    Examples:
        >>> 10 <= Uniform(10, 20).draw(random.Random(1)) <= 20
        True
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse what is no range of lengths."""
        _check(low=self.low, high=self.high)
        if self.low > self.high:
            raise WorkloadError(f"low {self.low} is above high {self.high}; swap them")

    def draw(self, rng: random.Random) -> int:
        """One length."""
        return draw_integer(rng, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Mostly short, sometimes very long: the logarithm of the length is normally distributed.

    Attributes:
        median: Half are shorter.
        p95: 95 in 100 are shorter; above the median.
        low: Shorter ones become this long.
        high: Longer ones become this long.

    Examples:
        >>> 1 <= LogNormal(median=150, p95=900, high=2000).draw(random.Random(1)) <= 2000
        True
    """

    median: float
    p95: float
    low: int = 1
    high: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse figures that no such distribution has."""
        _check(low=self.low, high=self.high)
        if self.low > self.high:
            raise WorkloadError(f"low {self.low} is above high {self.high}; swap them")
        if not 1 <= self.median < self.p95 <= _LONGEST:
            raise WorkloadError(
                f"median {self.median} and p95 {self.p95}; the median must be 1 or more and p95 "
                "above it"
            )

    def draw(self, rng: random.Random) -> int:
        """One length."""
        sigma = ln(self.p95 / self.median) / _Z_95
        drawn = self.median * exp(min(sigma * draw_normal(rng), 100.0))
        return min(max(round(drawn), self.low), self.high)


def _check(**lengths: int) -> None:
    for name, value in lengths.items():
        if not isinstance(value, int) or not 1 <= value <= _LONGEST:
            raise WorkloadError(
                f"{name} is {value}; a length is a whole number of tokens, 1 or more"
            )
