"""Evidence from whatever was pasted: pages, log lines, queries, and what the reader knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvdocs.diagnose.diagnosis import Diagnosis, gravest, judge
from kvdocs.diagnose.evidence import Evidence, Prompts
from kvdocs.diagnose.from_log import evidence_of_log, settings_of
from kvdocs.diagnose.from_pages import evidence_of_pages
from kvdocs.diagnose.gather import Gathered, gather
from kvdocs.diagnose.queries import misreadings
from kvdocs.errors import DiagnosisError
from kvdocs.startup_log.reader import LogInput

_RANDOM: Final = re.compile(r"\bbench\b.{0,200}\brandom\b|--dataset-name[= ]random\b", re.DOTALL)
_NOTHING: Final = "nothing known was found"


def read_evidence(
    *sources: LogInput,
    seconds: float | None = None,
    flags: str = "",
    told: Mapping[str, Any] | None = None,
) -> tuple[Evidence, ...]:
    """Read one server's figures, or those of each engine that is there.

    Args:
        *sources: Texts, files or pieces of any size: one scrape of `/metrics`, two in their order,
            log lines, queries of a dashboard.
        seconds: Time between two scrapes.
        flags: The server's command line, or flags of the load (`vllm bench serve … random`).
        told: Figures that the reader knows, by field of `Evidence`.

    Raises:
        DiagnosisError: A figure told that is none, or a time that is not above 0.

    Examples:
        >>> read_evidence("vllm:num_requests_waiting 3", told={"running": 2})[0].running
        2.0
    """
    if seconds is not None and not 0 < seconds < 1e9:
        raise DiagnosisError(f"{seconds} s between two scrapes; it must be above 0")
    found = gather(*sources)
    from_pages = evidence_of_pages(found.pages, seconds=seconds) if found.pages else ()
    from_log, facts = evidence_of_log(found.log)
    servers = from_pages or from_log or (Evidence(source=_source(found, facts, told or {})),)
    wrong = tuple(misreadings(found.queries))
    knows = facts | settings_of(flags)
    return tuple(
        _with_all(server, knows, tuple(found.notes), wrong, flags).told(told or {})
        for server in servers
    )


def _source(found: Gathered, facts: Mapping[str, float], told: Mapping[str, Any]) -> str:
    if facts:
        return "lines of a log"
    if found.queries:
        return "a query"
    return "figures as told" if told and not found.num_bytes else _NOTHING


def _with_all(
    server: Evidence,
    facts: Mapping[str, float],
    notes: tuple[str, ...],
    wrong: tuple[str, ...],
    flags: str,
) -> Evidence:
    """Evidence with what holds for all engines; a page's own figures count more than a log's."""
    known = server.figures()
    added: dict[str, Any] = {name: value for name, value in facts.items() if name not in known}
    if "preemptions" in added:
        share = added["preemptions"] / max(server.running or 0, 1)
        added["preemptions_per_request"] = share
    if _RANDOM.search(flags):
        added["prompts"] = Prompts.UNRELATED
    return replace(
        server, **added, notes=(*server.notes, *notes), misread=(*server.misread, *wrong)
    )


def diagnose(
    *sources: LogInput,
    seconds: float | None = None,
    flags: str = "",
    **told: Any,
) -> Diagnosis:
    """Say what is wrong with a server.

    Args:
        *sources: As for `read_evidence`.
        seconds: Time between two scrapes.
        flags: The server's command line, or flags of the load.
        **told: Figures that the reader knows, by field of `Evidence`.

    Returns:
        The diagnosis; of several engines the gravest.

    Raises:
        DiagnosisError: A figure told that is none, or a time that is not above 0.

    Examples:
        >>> told = diagnose("Running: 21 reqs, Waiting: 23 reqs, GPU KV cache usage: 95.9%")
        >>> told.verdict.value, told.confidence.value
        ('memory-bound', 'medium')
        >>> diagnose(running=20, waiting=40, kv_cache_usage=0.32, prompt_per_output=3000).verdict
        <Verdict.PREFILL_BOUND: 'prefill-bound'>
    """
    servers = read_evidence(*sources, seconds=seconds, flags=flags, told=told)
    return gravest(tuple(judge(server) for server in servers))
