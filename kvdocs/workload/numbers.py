"""Logarithm, exponential and draws from them, the same to the last digit on every machine.

C libraries may round `log` and `exp` differently in the last place (glibc on a desktop, musl in
the browser), and a simulation would then drift apart. IEEE 754 fixes the four operations, square
roots and powers of two, so only those are used here.
"""

from __future__ import annotations

import math
import random
from typing import Final

_LN_2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476


def ln(x: float) -> float:
    """Natural logarithm, to about 1e-15.

    By ln(m * 2**e) = e ln 2 + 2 artanh((m - 1) / (m + 1)) and the series of artanh.

    Args:
        x: Above 0.

    Examples:
        >>> ln(1.0), abs(ln(10.0) - 2.302585092994046) < 1e-15
        (0.0, True)
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa, exponent = mantissa * 2, exponent - 1
    ratio = (mantissa - 1) / (mantissa + 1)  # at most 0.1716 from 0
    square, power, total = ratio * ratio, ratio, 0.0
    for odd in range(1, 24, 2):
        total += power / odd
        power *= square
    return exponent * _LN_2 + 2 * total


def exp(x: float) -> float:
    """Exponential, to about 1e-15 relative.

    By exp(x) = 2**n * exp(r) with r within half of ln 2, and the series of exp.

    Args:
        x: Within 700 of 0.

    Examples:
        >>> exp(0.0), abs(exp(1.0) - 2.718281828459045) < 1e-15
        (1.0, True)
    """
    doublings = round(x / _LN_2)
    rest = x - doublings * _LN_2
    term, total = 1.0, 1.0
    for index in range(1, 18):
        term *= rest / index
        total += term
    return math.ldexp(total, doublings)


def draw_exponential(rng: random.Random, mean: float) -> float:
    """A gap between events that happen at random, by inverting the distribution.

    Args:
        rng: Where randomness comes from.
        mean: Mean of the gap.

    Examples:
        >>> 0 <= draw_exponential(random.Random(1), 2.0)
        True
    """
    return -mean * ln(1 - rng.random())


def draw_normal(rng: random.Random) -> float:
    """A standard normal number, by Marsaglia's polar method.

    Args:
        rng: Where randomness comes from; it is asked twice or more.

    Examples:
        >>> -7 < draw_normal(random.Random(1)) < 7
        True
    """
    while True:
        x, y = 2 * rng.random() - 1, 2 * rng.random() - 1
        square = x * x + y * y
        if 0 < square < 1:
            return x * math.sqrt(-2 * ln(square) / square)


def draw_gamma(rng: random.Random, shape: float) -> float:
    """A number from the gamma distribution of scale 1.

    By rejection from a cubed normal number (Marsaglia and Tsang 2000, "A simple method for
    generating gamma variables"); a shape below 1 by theirs of shape + 1.

    Args:
        rng: Where randomness comes from.
        shape: Above 0; also the mean.

    Examples:
        >>> 0 <= draw_gamma(random.Random(1), 2.0)
        True
    """
    if shape < 1:
        boost = ln(1 - rng.random()) / shape
        return draw_gamma(rng, shape + 1) * exp(max(boost, -700.0))
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = draw_normal(rng)
        cube = 1 + c * x
        v = cube * cube * cube
        if v > 0 and ln(1 - rng.random()) < 0.5 * x * x + d - d * v + d * ln(v):
            return d * v


def draw_integer(rng: random.Random, low: int, high: int) -> int:
    """A whole number from `low` to `high`, each as likely.

    Args:
        rng: Where randomness comes from.
        low: Smallest.
        high: Largest.

    Examples:
        >>> draw_integer(random.Random(1), 5, 5)
        5
    """
    return low + int(rng.random() * (high - low + 1))
