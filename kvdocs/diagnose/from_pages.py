"""Evidence from one page of `/metrics`, or from two for what happened in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kvdocs.diagnose.evidence import Evidence
from kvdocs.metrics import MetricsPage, Rates, ServerMetrics, compare, read_metrics
from kvdocs.metrics.histogram import HistogramReading

_OLD: Final = "old name"
_UNITS: Final = ("read as percent", "more than 100 percent")


def evidence_of_pages(
    pages: Sequence[Sequence[str]], *, seconds: float | None = None
) -> tuple[Evidence, ...]:
    """Evidence of every engine on the last page.

    Args:
        pages: The lines of one page, or of two of the same server.
        seconds: Time from the first to the last, if it is known.

    Examples:
        >>> found, = evidence_of_pages([["vllm:num_requests_waiting 3"]])
        >>> found.waiting, found.moments
        (3.0, 1)
    """
    read = [read_metrics(page) for page in pages]
    before = {server.key: server for server in read[0].servers} if len(read) > 1 else {}
    return tuple(
        _evidence(server, before.get(server.key), seconds, read[-1]) for server in read[-1].servers
    )


def _evidence(
    now: ServerMetrics, before: ServerMetrics | None, seconds: float | None, page: MetricsPage
) -> Evidence:
    words = [note for note in now.notes if not any(unit in note for unit in _UNITS)]
    problems = [f"a line could not be read: {problem}" for problem in page.problems[:3]]
    return Evidence(
        who=_who(now, page),
        moments=1 if before is None else 2,
        seconds=seconds if before is not None else None,
        source=f"{'one scrape' if before is None else 'two scrapes'} of /metrics ({now.server})",
        running=now.running,
        waiting=now.waiting,
        deferred=now.waiting_deferred,
        has_connector=bool(now.external_queries),
        kv_cache_usage=now.kv_cache_usage,
        pool_tokens=now.tokens_in_cache,
        block_size=now.block_size,
        prompt_tokens=_mean(now.prompt_lengths) or _length(now),
        prefix_hits=now.prefix_hits,
        misread=tuple(note for note in now.notes if any(unit in note for unit in _UNITS)),
        old_names=tuple(note for note in words if _OLD in note),
        notes=(*(note for note in words if _OLD not in note), *problems),
        **(_since_start(now) if before is None else _in_between(before, now, seconds)),
    )


def _who(server: ServerMetrics, page: MetricsPage) -> str:
    if len(page.servers) < 2:
        return ""
    names = (server.instance, server.model_name, server.engine and f"engine {server.engine}")
    return ", ".join(name for name in names if name)


def _mean(lengths: HistogramReading | None) -> float | None:
    return lengths.mean if lengths is not None else None


def _length(now: ServerMetrics) -> float | None:
    """Prompt length on average from totals, where no histogram says it."""
    return _ratio(now.prompt_tokens, now.requests_finished)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _computed(now: ServerMetrics) -> float | None:
    if now.prompt_tokens_computed is not None:
        return now.prompt_tokens_computed
    if now.prompt_tokens is None or now.prefix_hits is None:
        return now.prompt_tokens
    return max(now.prompt_tokens - now.prefix_hits, 0.0)


def _since_start(now: ServerMetrics) -> dict[str, Any]:
    computed = _computed(now)
    return {
        "prompt_per_output": _ratio(computed, now.generation_tokens),
        "generation_tokens_per_s": now.shown_generation_tokens_per_s,
        "prompt_tokens_per_s": now.shown_prompt_tokens_per_s,
        "requests_finished": now.requests_finished,
        "prefix_hit_rate": now.prefix_hit_rate,
        "lookups_per_prompt_token": _ratio(now.prefix_queries, now.prompt_tokens),
        **_preemptions(now.preemptions, now.requests_finished, now.running),
        **_offload(now),
    }


def _preemptions(
    count: float | None, finished: float | None, running: float | None
) -> dict[str, float]:
    if count is None:
        return {}
    share = count / max(finished or 0, running or 0, 1)
    return {"preemptions": count, "preemptions_per_request": share}


def _offload(now: ServerMetrics) -> dict[str, float | None]:
    prefill = now.prefill.total if now.prefill is not None else None
    return {
        "tier_tokens": now.external_hits if now.offload_load_seconds else None,
        "tier_bytes": now.offload_load_bytes if now.offload_load_seconds else None,
        "tier_seconds": now.offload_load_seconds or None,
        "recompute_tokens_per_s": _ratio(now.prompt_tokens_computed, prefill),
    }


def _in_between(before: ServerMetrics, now: ServerMetrics, seconds: float | None) -> dict[str, Any]:
    rates = compare(before, now, seconds=seconds or 1.0)
    output, finished = rates.generation_tokens_per_s, rates.requests_per_s
    unit = rates.seconds
    found: dict[str, Any] = {
        "prompt_per_output": _prompt_per_output(before, now, rates),
        "output_tokens": None if output is None else output * unit,
        "requests_finished": None if finished is None else finished * unit,
        "usage_growth": _less(now.kv_cache_usage, before.kv_cache_usage),
        "running_steady": None
        if now.running is None or before.running is None
        else now.running == before.running,
        "prefix_hit_rate": rates.prefix_hit_rate,
        "lookups_per_prompt_token": _grown_ratio(before, now, "prefix_queries", "prompt_tokens"),
        "generation_tokens_per_s": output if seconds else None,
        "prompt_tokens_per_s": _prompt_rate(rates) if seconds else None,
        **_offload(now),
    }
    if rates.preemptions_per_s is not None:
        done = found["requests_finished"]
        found |= _preemptions(rates.preemptions_per_s * unit, done, now.running)
    return found | _stillness(rates, found)


def _prompt_rate(rates: Rates) -> float | None:
    computed = rates.computed_tokens_per_s
    return rates.prompt_tokens_per_s if computed is None else computed


def _stillness(rates: Rates, found: dict[str, Any]) -> dict[str, float]:
    """Without a time between two scrapes, at least whether anything came out."""
    if rates.generation_tokens_per_s == 0 and found["generation_tokens_per_s"] is None:
        return {"generation_tokens_per_s": 0.0} | (
            {"prompt_tokens_per_s": 0.0} if rates.prompt_tokens_per_s == 0 else {}
        )
    return {}


def _less(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else now - then


def _prompt_per_output(before: ServerMetrics, now: ServerMetrics, rates: Rates) -> float | None:
    computed = rates.computed_tokens_per_s
    if computed is None:
        computed = _less(_computed(now), _computed(before))
        computed = None if computed is None else max(computed, 0.0) / rates.seconds
    return _ratio(computed, rates.generation_tokens_per_s)


def _grown_ratio(before: ServerMetrics, now: ServerMetrics, part: str, whole: str) -> float | None:
    grown = (_less(getattr(now, name), getattr(before, name)) for name in (part, whole))
    top, bottom = grown
    return _ratio(top, bottom) if (bottom or 0) > 0 and (top or 0) >= 0 else None
