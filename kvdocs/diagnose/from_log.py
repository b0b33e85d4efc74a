"""Evidence from the lines that a server, or what moves its KV, writes to its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from kvdocs.diagnose.evidence import Evidence
from kvdocs.diagnose.log_lines import (
    Moment,
    read_facts,
    read_hit_rate,
    read_moment,
    read_retractions,
    read_sums,
)
from kvdocs.diagnose.thresholds import LOG_INTERVAL_S
from kvdocs.startup_log.settings import read_settings
from kvdocs.startup_log.text import is_someones_prompt

WINDOW: Final = 30
"""Statistics lines of an engine that are read, the last ones: five minutes of vLLM's."""
_MOST_ENGINES: Final = 256
_DAY_S: Final = 86_400.0
_SETTINGS: Final = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "pipeline_parallel_size",
    "block_size",
)


def evidence_of_log(lines: Iterable[str]) -> tuple[tuple[Evidence, ...], dict[str, float]]:
    """Evidence of every engine of a log, and the figures that hold for all of them.

    Args:
        lines: The log's lines.

    Returns:
        One record per engine with statistics lines; start-up and transfer figures by field.

    Examples:
        >>> (found,), _ = evidence_of_log(["Running: 0 reqs, Waiting: 5 reqs, GPU KV cache usage: "
        ...     "0.0%"])
        >>> found.running, found.waiting
        (0.0, 5.0)
    """
    reader = _Reader()
    for line in lines:
        reader.take(line)
    facts = reader.facts
    return tuple(
        evidence_of_moments(tuple(moments), who=name if len(reader.engines) > 1 else "")
        for name, moments in reader.engines.items()
    ), facts


class _Reader:
    """Takes lines in their order."""

    def __init__(self) -> None:
        self.engines: dict[str, deque[Moment]] = {}
        self.facts: dict[str, float] = {}
        self._last: deque[Moment] | None = None

    def take(self, line: str) -> None:
        if is_someones_prompt(line):
            return
        moment = read_moment(line)
        if moment is not None:
            self._keep(moment)
        elif self._last and (rate := read_hit_rate(line)) is not None:
            self._last[-1] = replace(self._last[-1], hit_rate=rate)
        elif (count := read_retractions(line)) is not None:
            self._retract(count)
        else:
            self._fact(line)

    def _keep(self, moment: Moment) -> None:
        if moment.engine not in self.engines and len(self.engines) >= _MOST_ENGINES:
            return
        self._last = self.engines.setdefault(moment.engine, deque(maxlen=WINDOW))
        self._last.append(moment)

    def _retract(self, count: int) -> None:
        if self._last:
            last = self._last[-1]
            self._last[-1] = replace(last, preemptions=(last.preemptions or 0) + count)

    def _fact(self, line: str) -> None:
        facts = read_facts(line)
        if "pool_tokens" in facts and "Worker" in line:  # all ranks get as many as the smallest
            known = self.facts.get("pool_tokens", facts["pool_tokens"])
            facts["pool_tokens"] = min(known, facts["pool_tokens"])
        self.facts |= facts
        for name, value in read_sums(line).items():
            self.facts[name] = self.facts.get(name, 0.0) + value
        if "args" in line or "--max-num" in line or "max_num_" in line:
            self.facts |= settings_of(line)


def settings_of(text: str) -> dict[str, float]:
    """Flags that a diagnosis goes by, by field of `Evidence`.

    Args:
        text: A command line, or the log's line of the flags that were given.

    Examples:
        >>> settings_of("vllm serve m --max-num-seqs 64 --gpu-memory-utilization 0.9")
        {'max_num_seqs': 64.0, 'gpu_memory_utilization': 0.9}
    """
    read = read_settings(text)
    return {name: float(read[name]) for name in _SETTINGS if name in read}


def evidence_of_moments(moments: Sequence[Moment], *, who: str = "") -> Evidence:
    """Evidence from statistics lines of one engine.

    Args:
        moments: What the lines say, at least one, in their order.
        who: The engine's name, where there are several.
    """
    first, last = moments[0], moments[-1]
    seconds = _span(moments)
    running = _known(moments, "running")
    is_steady = len(set(running)) == 1 if len(moments) > 1 else None
    usages = _known(moments, "usage")
    usage = usages[-1] if is_steady and usages else _median(usages)
    growth = (
        last.usage - first.usage if last.usage is not None and first.usage is not None else None
    )
    return Evidence(
        who=f"engine {who}" if who else "",
        source=f"{len(moments)} statistics line{'s' if len(moments) > 1 else ''} of a log",
        moments=len(moments),
        seconds=seconds,
        running=_median(running),
        waiting=_median(_known(moments, "waiting")),
        deferred=_median(_known(moments, "deferred")),
        has_connector=bool(_known(moments, "connector")),
        kv_cache_usage=usage,
        usage_growth=growth if len(moments) > 1 else None,
        running_steady=is_steady,
        **_rates(moments, seconds),
        **_preemptions(moments),
        prefix_hit_rate=_hit_rate(moments),
    )


def _known(moments: Sequence[Moment], name: str) -> list[float]:
    values = (getattr(moment, name) for moment in moments)
    return [value for value in values if value is not None]


def _median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _span(moments: Sequence[Moment]) -> float | None:
    """Seconds from the first line to the last; vLLM writes one every ten."""
    first, last = moments[0], moments[-1]
    if first.clock_s is not None and last.clock_s is not None and len(moments) > 1:
        return (last.clock_s - first.clock_s) % _DAY_S
    if any(moment.new_tokens is not None for moment in moments):
        return None
    return (len(moments) - 1) * LOG_INTERVAL_S


def _rates(moments: Sequence[Moment], seconds: float | None) -> dict[str, Any]:
    """Rates between the first line and the last: a line's own are of the time before it."""
    moments = moments[1:] or moments
    prompt, output = (
        _mean(_known(moments, name)) for name in ("prompt_tokens_per_s", "generation_tokens_per_s")
    )
    new = _known(moments, "new_tokens")
    if prompt is None and new and seconds:
        prompt = sum(new) / seconds
    fastest = max(_known(moments, "prompt_tokens_per_s"), default=None)
    return {
        "prompt_tokens_per_s": prompt,
        "generation_tokens_per_s": output,
        "prompt_per_output": prompt / max(output, 0.1) if prompt and output is not None else None,
        "output_tokens": output * seconds if output is not None and seconds else None,
        "recompute_tokens_per_s": fastest or None,
    }


def _preemptions(moments: Sequence[Moment]) -> dict[str, Any]:
    """Lines name preemptions only when there were some, and old ones never do."""
    counts = _known(moments, "preemptions")
    if not counts:
        return {}
    running = _mean(_known(moments, "running")) or 1.0
    return {
        "preemptions": sum(counts),
        "preemptions_per_request": sum(counts) / max(running, 1.0),
        "preempting_lines": sum(count > 0 for count in counts) / len(moments),
    }


def _hit_rate(moments: Sequence[Moment]) -> float | None:
    shown = _known(moments, "hit_rate")
    if shown:
        return shown[-1]
    new, cached = (sum(_known(moments, name)) for name in ("new_tokens", "cached_tokens"))
    return cached / (new + cached) if new + cached else None
