"""Numbers as people type and read them on the command line."""

from __future__ import annotations

from typing import Final

from kvdocs.errors import UsageError
from kvdocs.flags import human_readable_int
from kvdocs.units import GIB, KIB, MIB, TIB, format_bytes, parse_bytes

_UNITS: Final = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_MAX: Final = 10**15


def whole_number(text: str) -> int:
    """Read a whole number: `8192`, `8,192`, `8k` (8,000) or `8K` (8,192), as vLLM does.

    Raises:
        FlagError: Not such a number.
        UsageError: A number beyond any server.

    Examples:
        >>> whole_number("8,192"), whole_number("8k"), whole_number("8K")
        (8192, 8000, 8192)
    """
    value = human_readable_int(text.replace(",", "").replace("_", ""))
    if value > _MAX:
        raise UsageError(f"{text[:30]} is too large; at most {_MAX:,} is allowed")
    return value


def amount_of_memory(text: str) -> float:
    """Read bytes: a number alone, or with a unit.

    Raises:
        UnitError: Not an amount of memory.

    Examples:
        >>> amount_of_memory("16060000000"), amount_of_memory("1 GiB")
        (16060000000.0, 1073741824.0)
    """
    return parse_bytes(f"{text} B" if text.strip()[-1:].isdigit() else text)


def human_bytes(num_bytes: float) -> str:
    """Print bytes in the largest binary unit of which there is at least one.

    Examples:
        >>> human_bytes(131072), human_bytes(1000), human_bytes(53.44e9)
        ('128 KiB', '1,000 B', '49.77 GiB')
    """
    for unit, size in _UNITS:
        if num_bytes >= size:
            return format_bytes(num_bytes, unit)
    return format_bytes(num_bytes, "B")


def exact_and_human(num_bytes: int) -> tuple[str, str]:
    """Exact bytes, and the same in a unit people read; the second is empty where it adds nothing.

    Examples:
        >>> exact_and_human(131072), exact_and_human(0)
        (('131,072 B', '128 KiB'), ('0 B', ''))
    """
    return f"{num_bytes:,} B", human_bytes(num_bytes) if num_bytes >= KIB else ""
