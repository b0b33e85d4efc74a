"""The log lines a diagnosis reads: what each says, as fields of `Evidence` or as a moment.

Statistics lines are vLLM's of any version (0.33.0 `vllm/v1/metrics/loggers.py`; V0
`vllm/engine/metrics.py`), also cut or quoted in part, and SGLang's batch lines (its scheduler's,
0.4 on). LMCache's lines are those of its vLLM connector (0.2 to 0.3); `KV Transfer metrics` is
vLLM's NIXL connector. LMCache writes gb, NIXL MB, and both mean powers of 1024.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from kvdocs.units import GIB, MIB

_N: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_C: Final = r"([0-9]{1,12}(?:,[0-9]{3}){0,4})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What one statistics line says. None is what it leaves out.

    Attributes:
        engine: Which engine.
        clock_s: Seconds since midnight.
        running: Requests in the batch.
        waiting: Requests waiting.
        deferred: Of those, requests that wait for something other than room.
        connector: A figure that is printed only where a connector fetches KV.
        usage: Share of the cache in use.
        prompt_tokens_per_s: Prompt tokens computed per second.
        generation_tokens_per_s: Tokens generated per second.
        preemptions: Preemptions since the line before.
        hit_rate: Prefix hit rate.
        new_tokens: Prompt tokens of a batch that were computed (SGLang).
        cached_tokens: Prompt tokens of a batch that were found (SGLang).
    """

    engine: str = ""
    clock_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    deferred: float | None = None
    connector: float | None = None
    usage: float | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    preemptions: float | None = None
    hit_rate: float | None = None
    new_tokens: float | None = None
    cached_tokens: float | None = None


_CLOCK: Final = re.compile(r"(?<![\d:])([0-2]?\d):([0-5]\d):([0-5]\d)(\.\d{1,6})?(?![\d:])")
_ENGINE: Final = re.compile(r"\bEngine (\d{1,6}): |\b(DP\d{1,4})\b")
_VLLM: Final = {
    "running": re.compile(rf"\bRunning: {_N} reqs"),
    "waiting": re.compile(rf"\b(?:Waiting|Pending): {_N} reqs"),
    "deferred": re.compile(rf"\bDeferred: {_N} reqs"),
    "connector": re.compile(rf"\b(?:KV fetch|External prefix cache hit rate): {_N}"),
    "usage": re.compile(rf"\b(?!CPU)[A-Z]+ KV cache usage: {_N}%"),
    "prompt_tokens_per_s": re.compile(rf"\bAvg prompt throughput: {_N} tokens/s"),
    "generation_tokens_per_s": re.compile(rf"\bAvg generation throughput: {_N} tokens/s"),
    "preemptions": re.compile(rf"\bPreemptions: {_N}"),
    "hit_rate": re.compile(rf"(?<!External )(?<!MM )\b[Pp]refix cache hit rate: (?:GPU: )?{_N}%"),
}
_SGLANG: Final = {
    "running": re.compile(rf"#running-req: {_N}"),
    "waiting": re.compile(rf"#queue-req: {_N}"),
    "usage": re.compile(rf"token usage: {_N}"),
    "generation_tokens_per_s": re.compile(rf"gen throughput \(token/s\): {_N}"),
    "new_tokens": re.compile(rf"#new-token: {_N}"),
    "cached_tokens": re.compile(rf"#cached-token: {_N}"),
}
_PERCENT: Final = frozenset({"usage", "hit_rate"})
_RETRACTED: Final = re.compile(rf"#retracted_reqs: {_N}")


def read_moment(line: str) -> Moment | None:
    """What a statistics line says, however much of it is there.

    Args:
        line: A line of a log.

    Examples:
        >>> moment = read_moment("Running: 2 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache "
        ...     "usage: 82.1%, CPU KV cache usage: 0.0%")
        >>> moment.waiting, moment.usage
        (3.0, 0.821)
        >>> read_moment("[10:00:07 DP1 TP0] Decode batch, #running-req: 5, #token: 900, "
        ...     "token usage: 0.98, gen throughput (token/s): 210.5, #queue-req: 9").engine
        'DP1'
    """
    is_sglang = "#running-req" in line
    if not is_sglang and not ("Running: " in line and " reqs" in line):
        return None
    found: dict[str, float] = {}
    for name, pattern in (_SGLANG if is_sglang else _VLLM).items():
        match = pattern.search(line)
        if match:
            text = match[1]
            in_percent = name in _PERCENT and not is_sglang
            found[name] = float(f"{text}e-2") if in_percent else float(text)
    if found.get("usage", 0) > 1.5 or "running" not in found:
        return None
    engine = _ENGINE.search(line[:400])
    name = (engine[1] or engine[2]) if engine else ""
    return Moment(engine=name, clock_s=read_clock(line), **found)


def read_clock(line: str) -> float | None:
    """Seconds since midnight at which a line was written, if it says so.

    Args:
        line: A line of a log.

    Examples:
        >>> read_clock("INFO 11-30 10:00:30 [loggers.py:335] Engine 000: …")
        36030.0
    """
    match = _CLOCK.search(line[:200])
    if match is None:
        return None
    hours, minutes, seconds = (float(part) for part in match.groups()[:3])
    return hours * 3600 + minutes * 60 + seconds + float(match[4] or 0)


def read_hit_rate(line: str) -> float | None:
    """The hit rate that V0 prints in a line of its own.

    Args:
        line: A line of a log.

    Examples:
        >>> read_hit_rate("Prefix cache hit rate: GPU: 12.50%, CPU: 0.00%")
        0.125
    """
    match = _VLLM["hit_rate"].search(line)
    return float(f"{match[1]}e-2") if match else None


def read_retractions(line: str) -> int | None:
    """Requests that SGLang took out of the batch for lack of room.

    Args:
        line: A line of a log.

    Examples:
        >>> read_retractions("KV cache pool is full. Retract requests. #retracted_reqs: 2, #new")
        2
    """
    match = _RETRACTED.search(line) if "etract" in line else None
    return int(float(match[1])) if match else None


_FACTS: Final[tuple[tuple[str, re.Pattern[str], dict[str, float]], ...]] = (
    ("block size to", re.compile(rf"block size to {_C}"), {"block_size": 1}),
    ("cache size", re.compile(rf"KV cache size: {_C} tokens"), {"pool_tokens": 1}),
    ("blocks: ", re.compile(rf"# ?[A-Za-z]+ blocks: {_C}"), {"gpu_blocks": 1}),
    ("KV cache mem", re.compile(rf"Available KV cache memory: {_N} GiB"), {"kv_memory_bytes": GIB}),
    ("too long", re.compile(rf"Input prompt \({_C} tokens\)"), {"refused_tokens": 1}),
    (
        "MiB / ",
        re.compile(rf"{_N}MiB / +{_N}MiB"),
        {"gpu_used_bytes": MIB, "gpu_total_bytes": MIB},
    ),
    ("preemption", re.compile(rf"total_num_cumulative_preemption={_N}"), {"preemptions": 1}),
)
_SUMS: Final[tuple[tuple[str, re.Pattern[str], dict[str, float]], ...]] = (
    (
        "Retrieved ",
        re.compile(rf"Retrieved {_C} out of .{{0,120}}?size: {_N} gb, cost {_N} ms", re.IGNORECASE),
        {"tier_tokens": 1, "tier_bytes": GIB, "tier_seconds": 1e-3},
    ),
    (
        "hit tokens",
        re.compile(rf"LMCache hit tokens: {_C}, need to load: -?{_C}"),
        {"tier_hit_tokens": 1, "tier_needed_tokens": 1},
    ),
)
_ELEMENT: Final = {
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
_TENSOR: Final = re.compile(r"tensor\(torch\.Size\(\[([\d, ]{1,80})\]\), torch\.(\w{1,20})\)")
_TRANSFER: Final = {
    "transfers": (re.compile(rf"uccessful transfers[= ]{_N}"), 1.0),
    "transfer_s": (
        re.compile(rf"[Aa]vg (?:xfer time|transfer duration)(?: \(ms\))?[= ]{_N}"),
        1e-3,
    ),
    "transfer_bytes": (re.compile(rf"MB per transfer={_N}|{_N} MB per transfer"), float(MIB)),
    "printed_bytes_per_s": (
        re.compile(rf"[Tt]hroughput(?: \(MB/s\))?[= ]{_N}"),
        float(MIB),
    ),
    "transfer_parts": (re.compile(rf"[Aa]vg (?:number of )?descriptors[= ]{_N}"), 1.0),
}


def read_facts(line: str) -> dict[str, float]:
    """Figures of a start-up line or of a transfer, by field of `Evidence`.

    Args:
        line: A line of a log.

    Examples:
        >>> read_facts("Setting attention block size to 528 tokens to ensure that attention page")
        {'block_size': 528.0}
        >>> read_facts("GPU KV cache size: 356,667 tokens")
        {'pool_tokens': 356667.0}
    """
    found: dict[str, float] = {}
    for needle, pattern, units in _FACTS:
        if needle in line:
            found |= _groups(pattern, line, units)
    if "Failed to allocate memory" in line and (tensor := _TENSOR.search(line)):
        found |= _chunk(tensor[1], tensor[2])
    if "uccessful transfers" in line:
        found |= _transfer(line)
    return found


def read_sums(line: str) -> dict[str, float]:
    """Figures that add up from line to line: what LMCache loaded.

    Args:
        line: A line of a log.

    Examples:
        >>> read_sums("Total tokens 2036, LMCache hit tokens: 2036, need to load: 3")
        {'tier_hit_tokens': 2036.0, 'tier_needed_tokens': 3.0}
    """
    found: dict[str, float] = {}
    for needle, pattern, units in _SUMS:
        if needle in line:
            found |= _groups(pattern, line, units)
    return found


def _groups(pattern: re.Pattern[str], line: str, units: dict[str, float]) -> dict[str, float]:
    match = pattern.search(line)
    if match is None:
        return {}
    numbers = (float(text.replace(",", "")) for text in match.groups())
    return {
        name: number * unit for (name, unit), number in zip(units.items(), numbers, strict=True)
    }


def _chunk(shape: str, dtype: str) -> dict[str, float]:
    sizes = [int(text) for text in shape.split(",") if text.strip()]
    element = _ELEMENT.get(dtype)
    if element is None or not sizes or max(sizes) > 10**9:
        return {}
    return {"tier_short_of_bytes": float(math.prod(sizes) * element)}


def _transfer(line: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (pattern, unit) in _TRANSFER.items():
        match = pattern.search(line)
        if match:
            text = next(group for group in match.groups() if group)
            found[name] = float(text) * unit
    return found
