"""The line a vLLM server logs every ten seconds: written as 0.33 prints it, read from any version.

Source: vLLM 0.33.0 `vllm/v1/metrics/loggers.py`, `LoggingStatLogger.log`; for V0
`vllm/engine/metrics.py` of 0.4 to 0.10.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

_FILE: Final = "loggers.py:335"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsLine:
    """What one line says. Shares are 0 to 1 (the log prints percent); None is what it leaves out.

    Attributes:
        prompt_tokens_per_s: Prompt tokens computed per second since the line before (V0 and
            earlier V1: all prompt tokens).
        generation_tokens_per_s: Tokens generated per second since the line before.
        running: Requests in the batch at that moment.
        waiting: Requests waiting at that moment (V0: `Pending`).
        kv_cache_usage: Share of the cache in use at that moment.
        engine: Index of the engine; None in V0, in vLLM 0.7 and over all engines.
        num_engines: Engines added up in an `Engines Aggregated` line, else 1.
        deferred: Waiting requests that wait for something other than room; printed when above 0.
        preemptions: Preemptions since the line before; printed when above 0, since vLLM 0.12.
        prefix_hit_rate: Hits of tokens looked up, over about the last 1,000 requests.
        external_hit_rate: The same beyond the GPU.
        mm_hit_rate: The same for images and the like.
        swapped: Requests moved to CPU memory (V0).
        cpu_cache_usage: Share of the swap space in use (V0).
        line_number: Where the line stood, from 1; 0 for one that was not read.
    """

    prompt_tokens_per_s: float
    generation_tokens_per_s: float
    running: int
    waiting: int
    kv_cache_usage: float
    engine: int | None = None
    num_engines: int = 1
    deferred: int = 0
    preemptions: int = 0
    prefix_hit_rate: float | None = None
    external_hit_rate: float | None = None
    mm_hit_rate: float | None = None
    swapped: int | None = None
    cpu_cache_usage: float | None = None
    line_number: int = 0


def write_stats_line(line: StatsLine, *, time: str = "") -> str:
    """A line as vLLM 0.33.0 prints it.

    Args:
        line: What it says; what only V0 had is left out.
        time: Month, day and time, such as `11-30 12:00:10`; with it the line gets the prefix that
            every line of a server's log has.

    Examples:
        >>> line = StatsLine(prompt_tokens_per_s=1200, generation_tokens_per_s=850.04, running=48,
        ...     waiting=3, kv_cache_usage=0.9876, engine=0, preemptions=2)
        >>> write_stats_line(line).split(", ")[3:]
        ['Waiting: 3 reqs', 'Preemptions: 2', 'GPU KV cache usage: 98.8%']
    """
    parts = [
        f"Avg prompt throughput: {line.prompt_tokens_per_s:.1f} tokens/s",
        f"Avg generation throughput: {line.generation_tokens_per_s:.1f} tokens/s",
        f"Running: {line.running} reqs",
        f"Waiting: {line.waiting} reqs",
    ]
    if line.deferred > 0:
        parts.append(f"Deferred: {line.deferred} reqs")
    if line.preemptions > 0:
        parts.append(f"Preemptions: {line.preemptions}")
    parts.append(f"GPU KV cache usage: {line.kv_cache_usage * 100:.1f}%")
    for name, share in (
        ("Prefix cache hit rate", line.prefix_hit_rate),
        ("External prefix cache hit rate", line.external_hit_rate),
        ("MM cache hit rate", line.mm_hit_rate),
    ):
        if share is not None:
            parts.append(f"{name}: {share * 100:.1f}%")
    prefix = f"INFO {time} [{_FILE}] " if time else ""
    return prefix + _engine_prefix(line) + ", ".join(parts)


def _engine_prefix(line: StatsLine) -> str:
    if line.num_engines > 1:
        return f"{line.num_engines} Engines Aggregated: "
    return f"Engine {line.engine or 0:03d}: "


_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_COUNT: Final = r"([0-9]{1,15})"
_START: Final = re.compile(rf"Avg prompt throughput: {_NUMBER} tokens/s")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_ENGINE: Final = re.compile(r"Engine ([0-9]{1,6}): Avg prompt")
_ENGINES: Final = re.compile(r"([0-9]{1,6}) Engines Aggregated: ")
_V0_HIT_RATE: Final = re.compile(
    rf"Prefix cache hit rate: GPU: {_NUMBER}%(?:, CPU: {_NUMBER}%)?", re.ASCII
)
_V0_PREEMPTION: Final = re.compile(rf"total_num_cumulative_preemption={_COUNT}")


def _field(name: str, value: str, unit: str = "") -> re.Pattern[str]:
    return re.compile(rf"\b{name}: {value}{unit}", re.ASCII)


_GENERATION: Final = re.compile(rf"Avg generation throughput: {_NUMBER} tokens/s")
_RUNNING: Final = _field("Running", _COUNT, " reqs")
_WAITING: Final = _field("(?:Waiting|Pending)", _COUNT, " reqs")
_DEFERRED: Final = _field("Deferred", _COUNT, " reqs")
_SWAPPED: Final = _field("Swapped", _COUNT, " reqs")
_PREEMPTIONS: Final = _field("Preemptions", _COUNT)
# The device comes first: GPU, or since 0.31 its own name in capitals. V0 adds the swap space.
_USAGE: Final = re.compile(
    rf"\b[A-Z]+ KV cache usage: {_NUMBER}%(?:, CPU KV cache usage: {_NUMBER}%)?"
)
_HIT_RATE: Final = re.compile(rf", Prefix cache hit rate: {_NUMBER}%")
_EXTERNAL: Final = re.compile(rf"External prefix cache hit rate: {_NUMBER}%")
_MM: Final = re.compile(rf"MM cache hit rate: {_NUMBER}%")


@dataclass(frozen=True, slots=True)
class StatsLog:
    """All statistics lines of a log.

    Attributes:
        lines: In order.
        cumulative_preemptions: What the last of V0's preemption warnings counts; None without one
            (V1 warns of none).
        unreadable: Numbers of lines that begin like a statistics line and go on otherwise.
    """

    lines: tuple[StatsLine, ...]
    cumulative_preemptions: int | None
    unreadable: tuple[int, ...]


def read_stats_log(source: str | Iterable[str]) -> StatsLog:
    """Find the statistics lines in a log, of whatever version and behind whatever prefix.

    Args:
        source: The log's text, or its lines.

    Examples:
        >>> text = ("INFO 08-01 12:00:00 metrics.py:396] Avg prompt throughput: 10.0 tokens/s, "
        ...     "Avg generation throughput: 5.5 tokens/s, Running: 2 reqs, Swapped: 1 reqs, "
        ...     "Pending: 7 reqs, GPU KV cache usage: 99.1%, CPU KV cache usage: 4.0%.")
        >>> line, = read_stats_log(text).lines
        >>> line.waiting, line.swapped, line.kv_cache_usage
        (7, 1, 0.991)
    """
    found: list[StatsLine] = []
    unreadable: list[int] = []
    preemptions: int | None = None
    for number, text in _relevant(source):
        if _START.search(text):
            line = _read_line(text, number)
            if line is None:
                unreadable.append(number)
            else:
                found.append(line)
        elif found and (match := _V0_HIT_RATE.search(text)):
            found[-1] = replace(found[-1], prefix_hit_rate=_share(match[1]))
        elif match := _V0_PREEMPTION.search(text):
            preemptions = int(match[1])
    return StatsLog(tuple(found), preemptions, tuple(unreadable))


def _relevant(source: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    lines = io.StringIO(source, newline=None) if isinstance(source, str) else source
    for number, line in enumerate(lines, 1):
        if "cache hit rate" in line or "throughput" in line or "cumulative_preemption" in line:
            yield number, _ANSI.sub("", line)


def _read_line(text: str, number: int) -> StatsLine | None:
    prompt = _START.search(text)
    generation, running = _GENERATION.search(text), _RUNNING.search(text)
    waiting, usage = _WAITING.search(text), _USAGE.search(text)
    if not (prompt and generation and running and waiting and usage):
        return None
    engine, engines = _ENGINE.search(text), _ENGINES.search(text)
    return StatsLine(
        prompt_tokens_per_s=float(prompt[1]),
        generation_tokens_per_s=float(generation[1]),
        running=int(running[1]),
        waiting=int(waiting[1]),
        kv_cache_usage=_share(usage[1]),
        engine=int(engine[1]) if engine else None,
        num_engines=int(engines[1]) if engines else 1,
        deferred=_whole(_DEFERRED, text) or 0,
        preemptions=_whole(_PREEMPTIONS, text) or 0,
        prefix_hit_rate=_percent(_HIT_RATE, text),
        external_hit_rate=_percent(_EXTERNAL, text),
        mm_hit_rate=_percent(_MM, text),
        swapped=_whole(_SWAPPED, text),
        cpu_cache_usage=_share(usage[2]) if usage[2] else None,
        line_number=number,
    )


def _whole(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _percent(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return _share(match[1]) if match else None


def _share(text: str) -> float:
    """Percent as printed to a share, by moving the point: 99.1 is 0.991, not 0.9909999."""
    return float(f"{text}e-2")
