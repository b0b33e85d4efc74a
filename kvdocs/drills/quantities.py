"""Reading the numbers people type, with the units people write."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Protocol

from kvdocs.errors import UnitError
from kvdocs.units import BYTE_UNITS, format_bytes, format_number, parse_bytes, parse_count

_SPACES: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\N{FIGURE SPACE}"
_APOSTROPHE: Final = "\N{RIGHT SINGLE QUOTATION MARK}"
_THOUSANDS: Final = re.compile(rf"(?<=\d)['{_APOSTROPHE} {_SPACES}](?=\d{{3}}(?!\d))")
_LOOSE_COMMA: Final = re.compile(r",(?!\d{3}(?!\d))|^[+-]?0+,")
_ABOUT: Final = re.compile(r"^(about|approximately|roughly|ca\.?|~|≈|=)\s*", re.IGNORECASE)
_PER_TOKEN: Final = re.compile(r"\s*(/|per|a)\s*token$", re.IGNORECASE)
_SHORT_BINARY: Final = re.compile(r"(?<=[KMGT])i$", re.IGNORECASE)
_COUNT_EXAMPLES: Final = "Write it like 12,500, 12.5k or 1.25e4."
_PARTNERS: Final = {
    "kB": "KiB",
    "MB": "MiB",
    "GB": "GiB",
    "TB": "TiB",
    "KiB": "kB",
    "MiB": "MB",
    "GiB": "GB",
    "TiB": "TB",
}


def tidy(text: str) -> str:
    """Bring a number as people type it into the form that `kvdocs.units` reads.

    Raises:
        UnitError: Nothing was typed, or a comma that does not part thousands.

    Examples:
        >>> tidy("≈ 407 714 tokens")
        '407714 tokens'
        >>> tidy("53,4 GB")
        Traceback (most recent call last):
        kvdocs.errors.UnitError: '53,4 GB': a comma parts thousands here, as in 12,500; ...
    """
    plain = _ABOUT.sub("", text.strip())
    if not plain:
        raise UnitError("nothing was typed yet")
    if _LOOSE_COMMA.search(plain):
        raise UnitError(
            f"{shortened(plain)!r}: a comma parts thousands here, as in 12,500; "
            "write decimals with a point, as in 53.4"
        )
    return _THOUSANDS.sub("", plain)


def shortened(text: str, limit: int = 40) -> str:
    """Cut a long text, to quote it.

    Examples:
        >>> shortened("abcdef", 3)
        'abc…'
    """
    return text if len(text) <= limit else text[:limit] + "…"


def close(value: float, truth: float, tolerance: float) -> bool:
    """Whether a value lies within a share of the truth.

    Examples:
        >>> close(407_000, 407_714, 0.01), close(48, 49, 0)
        (True, False)
    """
    return abs(value - truth) <= max(tolerance, 1e-12) * abs(truth)


class Quantity(Protocol):
    """What kind of number is asked for."""

    @property
    def unit(self) -> str:
        """The unit shown beside the box; a bare number is read in it."""

    @property
    def examples(self) -> str:
        """Ways to write one."""

    def read(self, text: str) -> float:
        """Read what was typed, or raise `UnitError`."""

    def show(self, value: float) -> str:
        """Print a value with its unit."""

    def slip(self, text: str, truth: float, tolerance: float) -> str:
        """Say which unit was mixed up, if with another unit the answer would be right; else ""."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount of memory.

    Attributes:
        unit: The unit of a bare number, one of `BYTE_UNITS`.
        digits: Decimals printed.

    Examples:
        >>> size = Bytes("GB")
        >>> size.read("53.4"), size.read("49.8GiB") > size.read("53,400 MB"), size.show(53.44e9)
        (53400000000.0, True, '53.44 GB')
    """

    unit: str
    digits: int = 2

    @property
    def examples(self) -> str:
        """Ways to write one."""
        return f"A bare number is read as {self.unit}; other units are understood, as in 49.8 GiB."

    def _with_unit(self, text: str) -> str:
        plain = _SHORT_BINARY.sub("iB", _PER_TOKEN.sub("", tidy(text)))
        return plain if re.search(r"[a-zA-Z]\s*$", plain) else f"{plain} {self.unit}"

    def read(self, text: str) -> float:
        """Read an amount in bytes.

        Raises:
            UnitError: No number, or no unit of bytes.
        """
        return parse_bytes(self._with_unit(text))

    def show(self, value: float) -> str:
        """Print it in the page's unit, or in bytes where it would round to nothing."""
        vanishes = 0 < abs(value) < BYTE_UNITS[self.unit] * 10**-self.digits
        return format_bytes(value, "B" if vanishes else self.unit, self.digits)

    def slip(self, text: str, truth: float, tolerance: float) -> str:
        """Recognise bytes without a unit, and a decimal unit given for a binary one or back."""
        if _is_bare(text) and close(parse_count(tidy(text)), truth, tolerance):
            return (
                f"The number is right in bytes, but a bare number is read as {self.unit}. Write "
                "its unit, B."
            )
        written = self._with_unit(text)
        unit = _unit_of(written)
        partner = _PARTNERS.get(unit)
        value = parse_bytes(written)
        if not partner or not close(
            value / BYTE_UNITS[unit] * BYTE_UNITS[partner], truth, tolerance
        ):
            return ""
        sizes = f"1 {unit} is {BYTE_UNITS[unit]:,} bytes, 1 {partner} is {BYTE_UNITS[partner]:,}"
        read_as = "" if _unit_of(tidy(text)) else f", as a bare number is read as {unit}"
        return (
            f"The number is right in {partner}, but this says {unit}{read_as}. They are not the "
            f"same: {sizes}. Write the unit that you mean."
        )


def _not_negative(value: float, text: str) -> float:
    if value < 0:
        raise UnitError(f"{shortened(text, 40)!r} is below 0")
    return value


def _is_bare(text: str) -> bool:
    """Whether a number stands without a unit."""
    return not re.search(r"[a-zA-Z]", tidy(text))


def _unit_of(text: str) -> str:
    letters = re.search(r"[a-zA-Z]+\s*$", text)
    wanted = letters[0].strip().lower() if letters else ""
    return next((unit for unit in BYTE_UNITS if unit.lower() == wanted), "")


@dataclass(frozen=True, slots=True)
class Count:
    """A count or a ratio.

    Attributes:
        unit: The word after the number, in the plural.
        others: Other words or signs that may stand after it.
        digits: Decimals printed.

    Examples:
        >>> tokens = Count("tokens")
        >>> tokens.read("407k"), tokens.read("407,714 tokens"), tokens.show(407714)
        (407000.0, 407714.0, '407,714 tokens')
        >>> Count("times", ("x",), 2).read("2.5x")
        2.5
    """

    unit: str
    others: tuple[str, ...] = ()
    digits: int = 0

    @property
    def examples(self) -> str:
        """Ways to write one."""
        return "Decimals have a point, as in 2.5." if self.digits else _COUNT_EXAMPLES

    def read(self, text: str) -> float:
        """Read a count.

        Raises:
            UnitError: Not a number, or with a word after it that is not one of ours.
        """
        plain = tidy(text)
        for word in (self.unit, self.unit.removesuffix("s"), *self.others):
            if plain.lower().endswith(word.lower()):
                plain = plain[: -len(word)]
                break
        try:
            return _not_negative(parse_count(plain.strip()), text)
        except UnitError as error:
            raise UnitError(
                f"{error}. Asked for is a number of {self.unit}. {self.examples}"
            ) from error

    def show(self, value: float) -> str:
        """Print it with its word."""
        is_small_part = abs(value) < 1000 and value != round(value)
        number = format_number(value, max(self.digits, 1) if is_small_part else self.digits)
        return f"{number} {self.unit.removesuffix('s') if number == '1' else self.unit}"

    def slip(self, text: str, truth: float, tolerance: float) -> str:
        """Recognise the right number where a whole one is asked for and it is not rounded yet."""
        value = self.read(text)
        if tolerance or value == truth or truth not in (math.floor(value), math.ceil(value)):
            return ""
        way = "down" if value > truth else "up"
        return f"Nearly: only whole {self.unit} count. Round {way}."
