"""SGLang, TensorRT-LLM and llama.cpp: their pools in their own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import SGLANG_PAGE, best_value, pool_bytes
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import bytes_range, count, gib
from kvdocs.startup_log.interval import Interval, exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.reader import Row

INDEXER_BYTES: Final = 132
"""DeepSeek-V3.2's sparse indexer, per layer and token: 128 fp8 + a 4-byte scale."""
FP8_MLA_BYTES: Final = 656
"""MLA in vLLM's and SGLang's fp8 layout, per layer and token: 512 + 16 scales + 128 rope."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One allocation.

    Attributes:
        rank: Who printed it.
        tokens: Slots.
        size: Bytes, K and V together.
        per_token: Bytes per token.
    """

    rank: str
    tokens: float
    size: Interval
    per_token: Interval


def sglang_pools(facts: Facts) -> list[Pool]:
    """SGLang's allocations in order, every rank's."""
    page = facts.setting("page_size") or SGLANG_PAGE
    pools = []
    for row in facts.rows("sglang-pool"):
        size, tokens = pool_bytes(row), row.numbers["pool_tokens"].value
        if size and tokens:
            per_token = size.over(Interval(tokens, tokens + page))
            pools.append(Pool(row.source.label(), tokens, size, per_token))
    return pools


def first_rank(pools: list[Pool]) -> list[Pool]:
    """The allocations of one rank; all have the same."""
    return [pool for pool in pools if pool.rank == pools[0].rank]


def sglang(facts: Facts) -> Iterator[Finding]:
    """Bytes per token of each SGLang pool, and what a second one is."""
    pools = sglang_pools(facts)
    for pool in first_rank(pools) if pools else []:
        yield Finding(
            "implied-bytes-per-token",
            f"{count(pool.tokens)} tokens in {gib(pool.size.middle)}: "
            f"{bytes_range(pool.per_token)} per token on each GPU.",
        )
    if len(pools) > 1:
        yield from _second_pool(facts, first_rank(pools))
    if facts.has("sglang-no-memory"):
        yield Finding(
            "no-memory-for-kv",
            "SGLang found no memory for the pool: raise --mem-fraction-static, which is a share of "
            "the whole card, weights included.",
            "error",
        )


def _second_pool(facts: Facts, pools: list[Pool]) -> Iterator[Finding]:
    if len(pools) < 2:
        return
    first, second = pools[0], pools[1]
    if first.tokens == second.tokens:
        share = second.size.middle / first.size.middle
        yield Finding(
            "draft-kv-cache",
            f"A second pool of the same {count(first.tokens)} tokens is the draft model's: "
            f"{gib(second.size.middle)} on each GPU, {share:.0%} on top of the target's "
            f"{gib(first.size.middle)}.",
        )
    elif facts.has("sglang-windows"):
        yield Finding(
            "window-pool",
            f"Full-attention and sliding-window layers have separate pools: {count(first.tokens)} "
            f"and {count(second.tokens)} tokens.",
        )
    elif not first.per_token.meets(second.per_token):
        yield from _different_rates(first, second)


def _different_rates(first: Pool, second: Pool) -> Iterator[Finding]:
    more, less = sorted((first, second), key=_rate, reverse=True)
    gap = 1 - less.per_token.middle / more.per_token.middle
    why = _indexer(more, less)
    yield Finding(
        "pool-rates-differ",
        f"The two pools differ in bytes per token: {count(more.per_token.middle)} and "
        f"{count(less.per_token.middle)}, {gap:.0%} less. One counts something the other leaves "
        f"out.{why}",
        "warning",
    )


def _indexer(more: Pool, less: Pool) -> str:
    """Whether the gap is DeepSeek-V3.2's sparse indexer."""
    layers = round(less.per_token.middle / FP8_MLA_BYTES)
    with_indexer = layers * (FP8_MLA_BYTES + INDEXER_BYTES)
    if layers * FP8_MLA_BYTES not in less.per_token or with_indexer not in more.per_token:
        return ""
    real = less.tokens * with_indexer
    return (
        f" It fits {layers} layers of fp8 MLA ({FP8_MLA_BYTES} bytes each) without and with the "
        f"sparse indexer's {INDEXER_BYTES}: the pool of {count(less.tokens)} tokens really takes "
        f"{gib(real)}, not {gib(less.size.middle)}."
    )


def _rate(pool: Pool) -> float:
    return pool.per_token.middle


def sglang_capacity(facts: Facts) -> Iterator[Finding]:
    """SGLang starts even when one request of maximum length does not fit."""
    total, length = facts.last("max_total_num_tokens"), facts.max_model_len
    if total is None or not length:
        return
    if total.value < length:
        yield Finding(
            "context-exceeds-pool",
            f"SGLang starts with a pool of {count(total.value)} tokens although one request may "
            f"have {count(length)}: a request longer than the pool is refused when it comes.",
            "warning",
        )
    else:
        yield Finding(
            "pool-capacity",
            f"The pool holds {count(total.value)} tokens, {total.value / length:.2f} requests of "
            f"{count(length)}.",
        )


def tensorrt(facts: Facts) -> Iterator[Finding]:
    """TensorRT-LLM's pool: bytes per token, and that it takes what is free."""
    sizes, tokens = tensorrt_pool(facts)
    if sizes is None or not tokens:
        return
    if facts.last("kv_bytes_per_token") is None:
        yield Finding(
            "implied-bytes-per-token",
            f"{count(tokens)} tokens in {gib(sizes.middle)}: "
            f"{bytes_range(sizes.scaled(1 / tokens))} per token.",
        )
    yield Finding(
        "preallocated-not-needed",
        f"{gib(sizes.middle)} ({sizes.middle / 1e9:.2f} GB) is what TensorRT-LLM claims in advance "
        "of the memory left free (kv_cache_free_gpu_mem_fraction, 0.9 by default), not what the "
        "requests need. --max_tokens_in_paged_kv_cache or a lower fraction limits it.",
    )


def tensorrt_pool(facts: Facts) -> tuple[Interval | None, float]:
    """Bytes and tokens of TensorRT-LLM's pool."""
    exact, tokens = facts.last("kv_bytes_exact"), facts.last("pool_tokens")
    if tokens is None or facts.engine != "tensorrt-llm":
        return None, 0
    if exact and exact.value > 0:
        return exactly(exact.value), tokens.value
    rows = facts.rows("trt-pool")
    return (pool_bytes(rows[-1]), tokens.value) if rows else (None, 0)


def llama(facts: Facts) -> Iterator[Finding]:
    """llama.cpp and its kin: size over cells."""
    if facts.has("llama-no-memory"):
        yield Finding(
            "no-memory-for-kv",
            "llama.cpp could not allocate the KV cache: lower the context (-c), quantise the cache "
            "(-ctk, -ctv), or keep fewer layers on the GPU (-ngl).",
            "error",
        )
    size, cells = llama_pool(facts)
    if size is not None and not cells:
        yield Finding(
            "bytes-per-token-unknown",
            f"{gib(size.middle)} of KV cache ({size.middle / 2**20:,.2f} MiB), but the context is "
            "not in this log: the line `n_ctx = …`, or the model's config, would give the bytes "
            "per token.",
            "warning",
        )
        return
    caches = [row for row in facts.rows("llama-pool") if "cells" in row.numbers]
    for row in caches:
        held, layers = row.numbers["cells"].value, row.numbers["layers"].value
        kept = pool_bytes(row)
        if kept and held:
            yield _cache(kept, held, f" over {count(layers)} layers")
    if size is not None and not caches:
        yield _cache(size, cells, "")


def _cache(size: Interval, cells: float, layers: str) -> Finding:
    return Finding(
        "implied-bytes-per-token",
        f"{count(cells)} cells in {gib(size.middle)}: {bytes_range(size.scaled(1 / cells))} per "
        f"token{layers}.",
    )


def llama_pool(facts: Facts) -> tuple[Interval | None, float]:
    """Bytes and cells of llama.cpp's largest KV cache.

    Without a line for the whole, the buffers of all devices are added up.
    """
    rows = [row for row in facts.rows("llama-pool", "llama-pool-mb") if pool_bytes(row)]
    context = facts.last("cells") or facts.last("n_ctx")
    if rows:
        row = max(rows, key=_cells_then_bytes)
        cells = row.numbers.get("cells") or context
        return pool_bytes(row), cells.value if cells else 0
    buffers = [reading.interval for _, reading in facts.readings("kv_buffer_bytes")]
    if not buffers or sum(buffer.low for buffer in buffers) <= 0:
        return None, 0
    return sum(buffers, start=exactly(0)), context.value if context else 0


def _cells_then_bytes(row: Row) -> tuple[bool, float]:
    return "cells" in row.numbers, row.numbers["kv_bytes"].value


def llama_window(facts: Facts) -> Iterator[Finding]:
    """Cells of the sliding-window cache."""
    cells = facts.last("swa_cells")
    if cells is None:
        return
    full = facts.last("full_cells") or facts.last("n_ctx")
    beside = f" instead of {count(full.value)}" if full else ""
    share = f", {cells.value / full.value:.1%} of the memory" if full and full.value else ""
    yield Finding(
        "window-cells",
        f"Sliding-window layers keep {count(cells.value)} cells{beside}{share}: the window plus "
        "one batch (n_swa + n_ubatch), rounded up to 256, never more than the context.",
    )


def mamba_slots(facts: Facts) -> Iterator[Finding]:
    """SGLang's recurrent states."""
    held = facts.last("mamba_slots")
    conv, ssm = facts.last("mamba_conv_bytes"), facts.last("mamba_ssm_bytes")
    if held is None or conv is None or ssm is None:
        return
    per_slot = (conv.value + ssm.value) / held.value if held.value else 0
    yield Finding(
        "recurrent-state",
        f"{count(held.value)} recurrent states take {gib(conv.value + ssm.value)}, "
        f"{per_slot / 2**20:,.1f} MiB each whatever the length of the request.",
    )


def summary_bytes(facts: Facts) -> Interval | None:
    """Bytes of the main pool of these engines."""
    pools = sglang_pools(facts)
    if pools:
        return pools[0].size
    return tensorrt_pool(facts)[0] or llama_pool(facts)[0]


def summary_rate(facts: Facts) -> Interval | None:
    """Bytes per token of the main pool of these engines."""
    pools = sglang_pools(facts)
    if pools:
        return pools[0].per_token
    size, tokens = tensorrt_pool(facts)
    if size is None:
        size, tokens = llama_pool(facts)
    return size.scaled(1 / tokens) if size and tokens else None


def summary_tokens(facts: Facts) -> float:
    """Tokens of the main pool of these engines; zero when unknown."""
    total = facts.last("max_total_num_tokens")
    if total:
        return total.value
    pools = sglang_pools(facts)
    if pools:
        return pools[0].tokens
    return tensorrt_pool(facts)[1] or llama_pool(facts)[1]


def likely_rate(facts: Facts) -> float:
    """The likeliest bytes per token of these engines; zero when unknown."""
    rate = summary_rate(facts)
    return best_value(rate) if rate else 0.0


CHECKS: Final = (sglang, sglang_capacity, mamba_slots, tensorrt, llama, llama_window)
