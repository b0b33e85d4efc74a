"""Reading the options of the small commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvdocs.errors import TerminalError


class Options(NamedTuple):
    """The words of a command, told apart.

    Attributes:
        switches: Options without a value, such as `-i`.
        values: Options with one.
        rest: All other words.
    """

    switches: frozenset[str]
    values: dict[str, str]
    rest: tuple[str, ...]


def read_options(
    words: Sequence[str], *, switches: Sequence[str] = (), valued: Sequence[str] = ()
) -> Options:
    """Tell options, their values and other words apart.

    Short options may stand together (`-in`), a value may follow at once (`-n5`) or after `=`.

    Args:
        words: The words.
        switches: Options without a value.
        valued: Options with a value.

    Raises:
        TerminalError: An option that is neither, or a value that is missing.

    Examples:
        >>> read_options(["-in", "KV", "-m1"], switches=["-i", "-n"], valued=["-m"]).values
        {'-m': '1'}
    """
    given: set[str] = set()
    values: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            rest += left
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
        elif word in switches:
            given.add(word)
        elif name in valued and (equals or word == name):
            values[name] = value if equals else _next(name, left)
        elif word[:2] in valued and not word.startswith("--"):
            values[word[:2]] = word[2:]
        elif len(word) > 2 and word[:2] in switches and not word.startswith("--"):
            given.add(word[:2])
            left.insert(0, "-" + word[2:])
        else:
            allowed = ", ".join((*switches, *valued)) or "none"
            raise TerminalError(f"{name[:40]} is not an option here; allowed are {allowed}")
    return Options(frozenset(given), values, tuple(rest))


def _next(name: str, left: list[str]) -> str:
    if not left:
        raise TerminalError(f"{name} needs a value")
    return left.pop(0)


def whole(text: str, what: str, *, most: int = 10**6) -> int:
    """Read a whole number.

    Args:
        text: The number.
        what: What it is of, for the message.
        most: The largest allowed.

    Raises:
        TerminalError: It is none, or too large.

    Examples:
        >>> whole("10", "-n")
        10
    """
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= most):
        raise TerminalError(f"{what} {text[:30]!r} is not a whole number up to {most:,}")
    return int(text)
