"""The decision table: which signals make which verdict.

Every combination of signals meets exactly one row. `overlaps` and `num_covered` count that without
going through all combinations; a test goes through many of them too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from kvdocs.diagnose.signals import SIGNALS, UNKNOWN
from kvdocs.diagnose.verdicts import Verdict


class Confidence(StrEnum):
    """How sure a verdict is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        verdict: What holds.
        when: The values that a signal may have, by its name; all, for one that is not named.
        confidence: How sure it is if several moments were read and no figure is near a threshold.
    """

    verdict: Verdict
    when: Mapping[str, tuple[str, ...]]
    confidence: Confidence = Confidence.HIGH

    def holds(self, values: Mapping[str, str]) -> bool:
        """Whether the row is met.

        Args:
            values: Every signal's value.
        """
        return all(values[name] in allowed for name, allowed in self.when.items())


DOMAINS: Final = {signal.name: tuple(signal.values) for signal in SIGNALS}


def _but(name: str, *values: str) -> tuple[str, ...]:
    """All values of a signal but these."""
    return tuple(value for value in DOMAINS[name] if value not in values)


_MOVES: Final = {"progress": _but("progress", "stalled"), "start": _but("start", "never-fits")}
_READ: Final = {**_MOVES, "tier": ("unneeded", "fine", UNKNOWN)}
_LOAD: Final = {**_READ, "queue": ("some", "none")}
_PLAIN: Final = {**_LOAD, "sharing": ("fine", UNKNOWN)}
_CALM: Final = {**_PLAIN, "preempting": ("rare", UNKNOWN)}
_QUEUE: Final = {**_CALM, "queue": ("some",)}
_IDLE: Final = {**_CALM, "queue": ("none",)}
_NO_TIER: Final = {**_IDLE, "tier": ("fine", UNKNOWN)}
_PACED: Final = {**_NO_TIER, "prefill": _but("prefill", "starving")}
_LEVEL: Final = {**_PACED, "growth": ("steady", UNKNOWN)}
_SOUND: Final = {**_LEVEL, "metric": ("sound",)}
_DARK: Final = {**_READ, "queue": (UNKNOWN,)}
_DARK_PLAIN: Final = {**_DARK, "sharing": ("fine", UNKNOWN)}
_DARK_SOUND: Final = {**_DARK_PLAIN, "metric": ("sound",)}
_DARK_START: Final = {**_DARK_SOUND, "tier": (UNKNOWN,)}
_CROWDED: Final = ("starving", "heavy")
_LIGHT: Final = ("light", UNKNOWN)

ROWS: Final = (
    Row(Verdict.STALLED, {"progress": ("stalled",)}),
    Row(Verdict.NEVER_FITS, {"progress": _but("progress", "stalled"), "start": ("never-fits",)}),
    Row(Verdict.OFFLOAD_SLOWER, {**_MOVES, "tier": ("slower",)}),
    Row(Verdict.OFFLOAD_FULL, {**_MOVES, "tier": ("full",)}),
    Row(Verdict.SLOW_LINK, {**_MOVES, "tier": ("slow-link",)}, Confidence.MEDIUM),
    Row(Verdict.WAITING_FOR_KV, {**_READ, "queue": ("fetching",)}),
    Row(Verdict.DEFERRED, {**_READ, "queue": ("deferred",)}, Confidence.MEDIUM),
    Row(Verdict.HITS_ARE_PREEMPTIONS, {**_LOAD, "sharing": ("artefact",)}),
    Row(Verdict.PREFIX_SHARING_DEFEATED, {**_LOAD, "sharing": ("defeated",)}),
    Row(Verdict.THRASHING, {**_PLAIN, "preempting": ("steady",)}),
    Row(Verdict.MEMORY_BOUND, {**_QUEUE, "room": ("full",)}),
    Row(Verdict.MEMORY_BOUND, {**_QUEUE, "room": ("tight",), "cap": ("below", UNKNOWN)}),
    Row(Verdict.MAX_NUM_SEQS_BOUND, {**_QUEUE, "room": ("tight",), "cap": ("reached",)}),
    Row(Verdict.MAX_NUM_SEQS_BOUND, {**_QUEUE, "room": ("free",), "cap": ("reached",)}),
    Row(
        Verdict.PREFILL_BOUND,
        {**_QUEUE, "room": ("free",), "cap": ("below", UNKNOWN), "prefill": _CROWDED},
    ),
    Row(
        Verdict.SCHEDULING_OR_COMPUTE_BOUND,
        {**_QUEUE, "room": ("free",), "cap": ("below", UNKNOWN), "prefill": _LIGHT},
    ),
    Row(
        Verdict.MAX_NUM_SEQS_BOUND,
        {**_QUEUE, "room": (UNKNOWN,), "cap": ("reached",)},
        Confidence.LOW,
    ),
    Row(
        Verdict.PREFILL_BOUND,
        {**_QUEUE, "room": (UNKNOWN,), "cap": ("below", UNKNOWN), "prefill": _CROWDED},
        Confidence.LOW,
    ),
    Row(
        Verdict.NOT_ENOUGH,
        {**_QUEUE, "room": (UNKNOWN,), "cap": ("below", UNKNOWN), "prefill": _LIGHT},
        Confidence.LOW,
    ),
    Row(Verdict.OFFLOAD_UNNEEDED, {**_IDLE, "tier": ("unneeded",)}),
    Row(Verdict.PREFILL_BOUND, {**_NO_TIER, "prefill": ("starving",)}, Confidence.MEDIUM),
    Row(Verdict.ANSWERS_GROWING, {**_PACED, "growth": ("growing",)}),
    Row(Verdict.METRIC_MISREAD, {**_LEVEL, "metric": ("misread",)}),
    Row(Verdict.HEALTHY_FULL, {**_SOUND, "room": ("full",)}),
    Row(Verdict.FULL_AT_START, {**_SOUND, "room": ("tight", "free"), "start": ("full",)}),
    Row(Verdict.HEALTHY, {**_SOUND, "room": ("tight", "free"), "start": ("reserve", UNKNOWN)}),
    Row(Verdict.NOT_ENOUGH, {**_SOUND, "room": (UNKNOWN,)}, Confidence.LOW),
    Row(Verdict.HITS_ARE_PREEMPTIONS, {**_DARK, "sharing": ("artefact",)}, Confidence.MEDIUM),
    Row(Verdict.PREFIX_SHARING_DEFEATED, {**_DARK, "sharing": ("defeated",)}),
    Row(Verdict.METRIC_MISREAD, {**_DARK_PLAIN, "metric": ("misread",)}),
    Row(Verdict.OFFLOAD_UNNEEDED, {**_DARK_SOUND, "tier": ("unneeded",)}),
    Row(Verdict.OFFLOAD_PAYS, {**_DARK_SOUND, "tier": ("fine",)}),
    Row(Verdict.PROFILING_RESERVE, {**_DARK_START, "start": ("reserve",)}, Confidence.MEDIUM),
    Row(Verdict.FULL_AT_START, {**_DARK_START, "start": ("full",)}),
    Row(Verdict.NOT_ENOUGH, {**_DARK_START, "start": (UNKNOWN,)}, Confidence.LOW),
)
"""The table."""


def find_row(values: Mapping[str, str]) -> Row:
    """The row that a combination of signals meets.

    Args:
        values: Every signal's value.

    Examples:
        >>> values = {name: domain[-1] for name, domain in DOMAINS.items()}
        >>> find_row(values | {"queue": "some", "room": "full"}).verdict.value
        'memory-bound'
    """
    return next(row for row in ROWS if row.holds(values))


def overlaps() -> Iterator[tuple[Row, Row]]:
    """Pairs of rows that a combination could meet both of; there are none."""
    for one, two in combinations(ROWS, 2):
        if all(_allowed(one, name) & _allowed(two, name) for name in DOMAINS):
            yield one, two


def _allowed(row: Row, name: str) -> set[str]:
    return set(row.when.get(name, DOMAINS[name]))


def num_combinations() -> int:
    """How many combinations of signals there are."""
    return math.prod(len(values) for values in DOMAINS.values())


def num_covered() -> int:
    """How many of them the rows meet, if no two rows overlap."""
    return sum(math.prod(len(_allowed(row, name)) for name in DOMAINS) for row in ROWS)
