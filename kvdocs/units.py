"""Bytes, tokens and seconds: reading them and printing them.

GB is 10^9 bytes and GiB is 2^30 bytes, here and everywhere in kvdocs. A drive or GPU maker prints
GB; `nvidia-smi` (MiB) and vLLM's log (GiB) print binary units. Nothing here converts silently: the
caller names the unit to print.
"""

from __future__ import annotations

import math
import re
from typing import Final

from kvdocs.errors import UnitError

KB: Final = 10**3
MB: Final = 10**6
GB: Final = 10**9
TB: Final = 10**12
KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40

BYTE_UNITS: Final[dict[str, int]] = {
    "B": 1,
    "kB": KB,
    "MB": MB,
    "GB": GB,
    "TB": TB,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
}


_UNIT_BY_LOWER: Final = {name.lower(): factor for name, factor in BYTE_UNITS.items()}
_COUNT_SUFFIXES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_NUMBER: Final = r"(?P<number>[+-]?(?:\d[\d,_]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)"
_QUANTITY: Final = re.compile(rf"\s*{_NUMBER}\s*(?P<unit>[a-zA-Z/]*)\s*", re.IGNORECASE)
_MAX_LENGTH: Final = 60


def _split(text: str, what: str) -> tuple[float, str]:
    """Split a quantity into its number and its unit."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        shown = text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH] + "…"
        raise UnitError(f"cannot read {shown!r} as {what}")
    number = float(match["number"].replace(",", "").replace("_", ""))
    if not math.isfinite(number):
        raise UnitError(f"{text.strip()!r} is too large to be {what}")
    return number, match["unit"]


def parse_bytes(text: str) -> float:
    """Read a quantity of memory, such as `"53.4 GB"` or `"49.8GiB"`, in bytes.

    Args:
        text: A number and one of the units in `BYTE_UNITS` (upper or lower case). Thousands
            separators and exponents are allowed.

    Returns:
        Bytes.

    Raises:
        UnitError: No number, or a unit that is not one of bytes.

    Examples:
        >>> parse_bytes("53.44 GB")
        53440000000.0
        >>> parse_bytes("1 GiB")
        1073741824.0
    """
    number, unit = _split(text, "an amount of memory; write it like 53.4 GB or 49.8 GiB")
    factor = _UNIT_BY_LOWER.get(unit.lower())
    if factor is None:
        allowed = ", ".join(BYTE_UNITS)
        given = f"the unit {unit!r}" if unit else "no unit"
        raise UnitError(f"{text.strip()!r} has {given}; allowed are {allowed}")
    return number * factor


def parse_count(text: str) -> float:
    """Read a count of tokens, requests or blocks: `"407,714"`, `"407k"`, `"4e5"`.

    Args:
        text: A number, optionally with k, M or B (thousand, million, billion).

    Returns:
        The count, not rounded.

    Raises:
        UnitError: Not a number with one of those suffixes.

    Examples:
        >>> parse_count("407,714")
        407714.0
        >>> parse_count("128k")
        128000.0
    """
    number, suffix = _split(text, "a count; write it like 407,714 or 407k")
    factor = _COUNT_SUFFIXES.get(suffix.lower())
    if factor is None:
        raise UnitError(f"{text.strip()!r} ends in {suffix!r}; allowed are k, M and B, or nothing")
    return number * factor


def format_number(value: float, digits: int = 2) -> str:
    """Print a number with thousands separators and no trailing zeros.

    Examples:
        >>> format_number(407714)
        '407,714'
        >>> format_number(67.0552, 2), format_number(1.5, 2), format_number(16.0)
        ('67.06', '1.5', '16')
    """
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(num_bytes: float, unit: str, digits: int = 2) -> str:
    """Print bytes in a named unit.

    Args:
        num_bytes: Bytes.
        unit: One of `BYTE_UNITS`.
        digits: Decimals at most; trailing zeros are dropped.

    Raises:
        UnitError: The unit is not one of `BYTE_UNITS`.

    Examples:
        >>> format_bytes(72e9, "GB"), format_bytes(72e9, "GiB")
        ('72 GB', '67.06 GiB')
        >>> format_bytes(131072, "KiB")
        '128 KiB'
    """
    if unit not in BYTE_UNITS:
        raise UnitError(f"{unit!r} is not a unit of memory; allowed are {', '.join(BYTE_UNITS)}")
    return f"{format_number(num_bytes / BYTE_UNITS[unit], digits)} {unit}"


def format_gib_as_vllm(num_bytes: float) -> str:
    """Print bytes as vLLM's log does: GiB rounded to two decimals, at least one shown.

    Source: `format_gib` in vLLM 0.33.0, `vllm/utils/mem_utils.py`: `str(round(x / 2**30, 2))`.

    Examples:
        >>> format_gib_as_vllm(50 * 2**30), format_gib_as_vllm(53.44e9)
        ('50.0', '49.77')
    """
    return str(round(num_bytes / GIB, 2))


def format_seconds(seconds: float) -> str:
    """Print a duration with the unit that suits it.

    Examples:
        >>> format_seconds(0.0042), format_seconds(2.5), format_seconds(90)
        ('4.2 ms', '2.5 s', '1 min 30 s')
    """
    if seconds < 1e-3:
        return f"{format_number(seconds * 1e6, 1)} µs"
    if seconds < 1:
        return f"{format_number(seconds * 1e3, 1)} ms"
    if seconds < 60:
        return f"{format_number(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s" if rest else f"{minutes:,} min"
