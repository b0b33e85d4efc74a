"""From evidence to a diagnosis: look the signals up in the table, and say how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.diagnose.evidence import Evidence
from kvdocs.diagnose.figures import derived
from kvdocs.diagnose.signals import UNKNOWN, Reading, read_signals
from kvdocs.diagnose.table import Confidence, Row, find_row
from kvdocs.diagnose.verdicts import Gravity, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is wrong with a server, or that nothing is.

    Attributes:
        verdict: The verdict.
        confidence: How sure it is.
        evidence: Figures it goes by, and what follows from them, by name.
        actions: What to change, the cheapest first.
        tell_more: What would make it surer.
        also: What holds besides.
        signals: Every signal's value, by name.
        notes: Old names, converted units, what could not be read.
        who: The engine, where several were read.
        source: What was read.
    """

    verdict: Verdict
    confidence: Confidence
    evidence: Mapping[str, float]
    actions: tuple[str, ...]
    tell_more: tuple[str, ...]
    also: tuple[Verdict, ...] = ()
    signals: Mapping[str, str]
    notes: tuple[str, ...] = ()
    who: str = ""
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return {
            "verdict": str(self.verdict),
            "title": self.verdict.advice.title,
            "confidence": str(self.confidence),
            "evidence": dict(self.evidence),
            "actions": list(self.actions),
            "tell_more": list(self.tell_more),
            "also": [str(verdict) for verdict in self.also],
            "signals": dict(self.signals),
            "notes": list(self.notes),
            "engine": self.who,
            "source": self.source,
        }


_WEAKER: Final = {
    Confidence.HIGH: Confidence.MEDIUM,
    Confidence.MEDIUM: Confidence.LOW,
    Confidence.LOW: Confidence.LOW,
}
_SET_ASIDE: Final = {
    Verdict.PREFIX_SHARING_DEFEATED: ("sharing", "fine"),
    Verdict.OFFLOAD_SLOWER: ("tier", UNKNOWN),
    Verdict.OFFLOAD_FULL: ("tier", UNKNOWN),
    Verdict.OFFLOAD_UNNEEDED: ("tier", UNKNOWN),
    Verdict.SLOW_LINK: ("tier", UNKNOWN),
    Verdict.NEVER_FITS: ("start", UNKNOWN),
    Verdict.METRIC_MISREAD: ("metric", "sound"),
}
"""Signals that say nothing about the rest: what else holds is looked up without them."""
_SHORT_OF_MEMORY: Final = frozenset({Verdict.HITS_ARE_PREEMPTIONS, Verdict.THRASHING})
"""Verdicts that say that the cache is too small as well."""
_ONE_MOMENT_WILL_DO: Final = frozenset(
    {
        Verdict.NEVER_FITS,
        Verdict.PREFIX_SHARING_DEFEATED,
        Verdict.PROFILING_RESERVE,
        Verdict.FULL_AT_START,
        Verdict.OFFLOAD_SLOWER,
        Verdict.OFFLOAD_FULL,
        Verdict.OFFLOAD_UNNEEDED,
        Verdict.OFFLOAD_PAYS,
        Verdict.METRIC_MISREAD,
        Verdict.NOT_ENOUGH,
    }
)
_DECIDES_NOTHING: Final = frozenset(
    {Verdict.HEALTHY, Verdict.HEALTHY_FULL, Verdict.NOT_ENOUGH, Verdict.FULL_AT_START}
)


def judge(evidence: Evidence) -> Diagnosis:
    """Diagnose one server.

    Args:
        evidence: Its figures.

    Examples:
        >>> told = judge(Evidence(running=18, waiting=43, kv_cache_usage=0.959, moments=1))
        >>> told.verdict.value, told.confidence.value, told.evidence["waiting"]
        ('memory-bound', 'medium', 43)
    """
    readings = read_signals(evidence)
    values = {name: reading.value for name, reading in readings.items()}
    row = find_row(values)
    advice = row.verdict.advice
    return Diagnosis(
        verdict=row.verdict,
        confidence=_confidence(row, readings, evidence),
        evidence=_used(row, readings, evidence),
        actions=advice.actions,
        tell_more=advice.tell_more,
        also=tuple(_also(row.verdict, values, evidence)),
        signals=values,
        notes=(*evidence.misread, *evidence.old_names, *evidence.notes),
        who=evidence.who,
        source=evidence.source,
    )


def _confidence(row: Row, readings: Mapping[str, Reading], evidence: Evidence) -> Confidence:
    sure = row.confidence
    if any(readings[name].near for name in row.when):
        sure = _WEAKER[sure]
    if evidence.moments < 2 and row.verdict not in _ONE_MOMENT_WILL_DO:
        sure = _WEAKER[sure]
    return sure


def _used(row: Row, readings: Mapping[str, Reading], evidence: Evidence) -> dict[str, float]:
    names = dict.fromkeys(name for signal in row.when for name in readings[signal].used)
    figures = evidence.figures()
    used = {name: figures[name] for name in names if name in figures}
    return used | dict(derived(evidence))


def _also(verdict: Verdict, values: dict[str, str], evidence: Evidence) -> list[Verdict]:
    """What the table says when the deciding signal is set aside, as often as that goes."""
    found: list[Verdict] = []
    if evidence.old_names or values["metric"] == "misread":
        found.append(Verdict.METRIC_MISREAD)
    if verdict in _SHORT_OF_MEMORY:
        found.append(Verdict.MEMORY_BOUND)
    current = verdict
    while current in _SET_ASIDE:
        name, value = _SET_ASIDE[current]
        values = values | {name: value}
        current = find_row(values).verdict
        if current not in _DECIDES_NOTHING:
            found.append(current)
    if values["sharing"] == "defeated":
        found.append(Verdict.PREFIX_SHARING_DEFEATED)
    return [each for each in dict.fromkeys(found) if each is not verdict]


def gravest(diagnoses: tuple[Diagnosis, ...]) -> Diagnosis:
    """Of several servers' diagnoses the one that matters most; the first of equals.

    Args:
        diagnoses: At least one.
    """
    return max(diagnoses, key=lambda told: Gravity(told.verdict.advice.gravity))
