"""A log against the model's config: what matches, what contradicts, what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import (
    block_size,
    bytes_per_token,
    context_parallel,
    has_fixed_cost,
    layout_rate,
    slots,
)
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.engines import llama_pool, sglang_pools, summary_rate
from kvdocs.startup_log.findings.wording import bytes_range, count, gib
from kvdocs.startup_log.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts, KnownLayout

UNEVEN_RANKS: Final = 1.1
"""How much more memory a tensor-parallel rank may have than the one that binds: more would be
another model, not another process on one GPU."""
TOLERANCE: Final = 0.002
"""Relative slack for figures that are rounded more than once on their way into a log."""


def implied_rate(facts: Facts) -> Interval | None:
    """Bytes per token per GPU from the log, whoever printed it."""
    return bytes_per_token(facts) or summary_rate(facts)


def rate(facts: Facts) -> Iterator[Finding]:
    """The implied bytes per token against the config's."""
    layout, value = facts.layout, implied_rate(facts)
    if layout is None or value is None or layout.is_hybrid or has_fixed_cost(facts):
        return
    expected = layout.bytes_per_token_per_gpu / context_parallel(facts)
    if expected in _slack(value):
        yield Finding(
            "matches-config",
            f"The log's {bytes_range(value)} per token and GPU fit the config's {count(expected)}.",
        )
        return
    pools = sglang_pools(facts)
    if any(expected in _slack(pool.per_token) for pool in pools):
        yield Finding(
            "matches-config",
            f"One of the pools fits the config's {count(expected)} bytes per token and GPU.",
        )
        return
    if _other_rank(facts, value, expected):
        yield Finding(
            "binding-rank-not-shown",
            f"The log's {bytes_range(value)} per token and GPU are {value.middle / expected:.3f} "
            f"times the config's {count(expected)}: the memory printed is not of the rank that "
            "binds. Another rank, whose line is not in this log, had less or holds more layers.",
            "warning",
        )
        return
    yield Finding("contradicts-config", _contradiction(layout, value, expected), "warning")


def _other_rank(facts: Facts, value: Interval, expected: float) -> bool:
    """Whether the memory printed can be of a rank that does not bind."""
    several = facts.settings.get("tensor_parallel_size", "several") != "1"
    ratio = value.middle / expected
    if facts.parallel("pipeline") > 1 and ratio < 1:
        return True
    return several and 1 < ratio <= UNEVEN_RANKS


def _slack(value: Interval) -> Interval:
    return Interval(value.low * (1 - TOLERANCE), value.high * (1 + TOLERANCE))


def _contradiction(layout: KnownLayout, value: Interval, expected: float) -> str:
    reasons = [why for why, other in layout.alternatives.items() if other in _slack(value)]
    text = (
        f"The log implies {bytes_range(value)} per token and GPU, the config {count(expected)}: "
        f"{value.middle / expected:.3g} times that."
    )
    if reasons:
        return f"{text} It would fit with {'; or '.join(reasons)}."
    return f"{text} This log cannot be of that model with those flags."


def pool_from_config(facts: Facts) -> Iterator[Finding]:
    """Memory of the pool where only tokens are printed."""
    layout, held = facts.layout, slots(facts)
    if layout is None or held is None or layout.is_hybrid or bytes_per_token(facts):
        return
    per_token = layout_rate(facts)
    block = per_token * block_size(facts)
    yield Finding(
        "pool-from-config",
        f"With the config's {count(per_token)} bytes per token and GPU ({count(block)} a block), "
        f"{count(held.middle)} tokens are {gib(held.middle * per_token)} of KV cache on each GPU.",
    )
    if per_token != layout.bytes_per_token_per_gpu:
        yield Finding(
            "latent-cache-as-full-heads",
            f"vLLM before 0.7.1 keeps this model's latent cache (MLA) as full heads: "
            f"{count(per_token)} bytes per token and GPU instead of "
            f"{count(layout.bytes_per_token_per_gpu)}. A newer version holds "
            f"{per_token / layout.bytes_per_token_per_gpu:.1f} times the tokens in this memory.",
            "warning",
        )


def tokens_from_config(facts: Facts) -> Iterator[Finding]:
    """Tokens of the pool where only memory is printed."""
    layout, memory = facts.layout, facts.lowest("kv_pool_bytes")
    if layout is None or memory is None or memory.value <= 0 or layout.is_hybrid:
        return
    if slots(facts) or not layout.bytes_per_token_per_gpu:
        return
    size = block_size(facts)
    blocks = memory.value // (layout.bytes_per_token_per_gpu * size)
    yield Finding(
        "tokens-from-config",
        f"With the config's {count(layout.bytes_per_token_per_gpu)} bytes per token and GPU, "
        f"{gib(memory.value)} hold about {count(blocks * size)} tokens.",
    )


def context_from_config(facts: Facts) -> Iterator[Finding]:
    """llama.cpp's context where only the size is printed."""
    layout, (size, cells) = facts.layout, llama_pool(facts)
    if layout is None or size is None or cells or not layout.bytes_per_token_per_gpu:
        return
    tokens = size.middle / layout.bytes_per_token_per_gpu
    yield Finding(
        "context-from-config",
        f"{gib(size.middle)} at the config's {count(layout.bytes_per_token_per_gpu)} bytes a token "
        f"are {count(tokens)} tokens of context.",
    )


def hybrid_request(facts: Facts) -> Iterator[Finding]:
    """A hybrid's request in the config's three parts, beside the pool it is printed for."""
    layout, length = facts.layout, facts.max_model_len
    if layout is None or not layout.is_hybrid:
        return
    parts = f"{count(layout.bytes_per_token_per_gpu)} bytes per token"
    if layout.window_bytes_per_token:
        parts += f", {count(layout.window_bytes_per_token)} more within a window"
    if layout.constant_bytes_per_sequence:
        parts += f", {gib(layout.constant_bytes_per_sequence)} of state per sequence"
    text = f"By its config a request costs on each GPU {parts}."
    memory, concurrency = facts.lowest("kv_pool_bytes"), facts.lowest("max_concurrency")
    if memory and concurrency and concurrency.value and length:
        request = memory.value / concurrency.value
        text += (
            f" The log gives {gib(request)} for one of {count(length)} tokens, whole blocks, "
            "windows and padding included."
        )
    yield Finding("hybrid-request-cost", text)


def need(facts: Facts) -> Iterator[Finding]:
    """A refusal's need against the config."""
    layout, length = facts.layout, facts.max_model_len
    needed = facts.last("refusal_needed_bytes")
    if layout is None or needed is None or not length or layout.is_hybrid:
        return
    expected = layout.bytes_per_token_per_gpu * length / context_parallel(facts)
    if abs(expected - needed.value) <= 0.01 * needed.value or facts.parallel("pipeline") > 1:
        return
    yield Finding(
        "need-contradicts-config",
        f"The refusal needs {gib(needed.value)} for {count(length)} tokens; by the config it is "
        f"{gib(expected)} on each GPU.",
        "warning",
    )


CHECKS: Final = (
    rate,
    pool_from_config,
    tokens_from_config,
    context_from_config,
    hybrid_request,
    need,
)
