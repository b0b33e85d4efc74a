"""Numbers as the findings write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvdocs.units import format_bytes, format_number

if TYPE_CHECKING:
    from kvdocs.startup_log.interval import Interval


def gib(num_bytes: float) -> str:
    """Bytes in GiB.

    Examples:
        >>> gib(6.51 * 2**30), gib(-2.14 * 2**30)
        ('6.51 GiB', '-2.14 GiB')
    """
    return format_bytes(num_bytes, "GiB")


def count(value: float) -> str:
    """A whole number with commas.

    Examples:
        >>> count(42656.0)
        '42,656'
    """
    return format_number(value, 0)


def bytes_range(interval: Interval) -> str:
    """An interval of whole bytes.

    Examples:
        >>> from kvdocs.startup_log.interval import Interval
        >>> bytes_range(Interval(163_684.2, 164_001.7)), bytes_range(Interval(524_288, 524_288))
        ('163,685 to 164,001 bytes', '524,288 bytes')
    """
    low, high = -(-interval.low // 1), interval.high // 1
    if low >= high:
        return f"{count(interval.middle)} bytes"
    return f"{count(low)} to {count(high)} bytes"
