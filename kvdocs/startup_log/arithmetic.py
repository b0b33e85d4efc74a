"""What the printed figures imply together: token slots, blocks, bytes per token, fixed cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.facts import DEFAULT_BLOCK_SIZE
from kvdocs.startup_log.interval import Interval, exactly, likely_value
from kvdocs.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.reader import Row

SWAP_SPACE_GIB: Final = 4
"""V0's default CPU pool per GPU (`--swap-space`, vLLM 0.1 to 0.10, `config.py`)."""
BLOCK_SIZES: Final = (16, 32, 64, 128)
"""Block sizes that vLLM's attention backends choose by themselves (`platforms/interface.py`)."""
LATENT_CACHE_VERSION: Final = (0, 7, 1)
"""First version that stores MLA's latent vector instead of full heads
(`model_executor/models/deepseek_v2.py`); a V0 log without a version counts as older."""
STAGE_SUM_TOLERANCE: Final = 0.02
"""How near a need must be to that of all stages to count as their sum."""
LARGEST_BLOCK: Final = 256
"""Largest block size in use for models whose layers all keep every token (TPU)."""
AMBIGUOUS_RATIO: Final = 1.5
"""Two pool figures further apart than this are not two ranks of one engine."""
SGLANG_PAGE: Final = 64
"""Tokens by which SGLang's pool may exceed the count it prints: one page, at most this size for
the backends it picks itself (`mem_cache/memory_pool.py` allocates size + page_size)."""


class PoolMeaning(Enum):
    """What the printed pool size counts.

    Up to 0.18, vLLM prints blocks // groups x block size; since 0.20, int(maximum concurrency x
    max_model_len) (`v1/core/kv_cache_utils.py`). They agree with the token slots only for models
    whose layers all keep every token.
    """

    UNKNOWN = "unknown"
    LIKE_SLOTS = "like-slots"
    ONE_GROUP = "one-group"
    CONCURRENCY = "concurrency"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Bytes per token per GPU, as implied by some lines.

    Attributes:
        what: Which lines.
        value: Bytes.
    """

    what: str
    value: Interval


def printed_pool(facts: Facts) -> Interval | None:
    """The pool size printed for the rank that binds, in tokens."""
    reading = facts.lowest("printed_pool_tokens")
    return reading.interval if reading else None


def pool_meaning(facts: Facts) -> PoolMeaning:
    """Compare the printed pool with printed concurrency x max_model_len."""
    pool = facts.lowest("printed_pool_tokens")
    concurrency = facts.lowest("max_concurrency")
    length = facts.max_model_len
    if pool is None or concurrency is None or not length:
        return PoolMeaning.UNKNOWN
    product = concurrency.interval.scaled(length)
    if product.meets(Interval(pool.interval.low - 1, pool.interval.high + 1)):
        known = explicit_block_size(facts)
        sizes = (known,) if known else BLOCK_SIZES
        fits = any(_whole_blocks(pool.value, length, size) for size in sizes)
        return PoolMeaning.LIKE_SLOTS if fits else PoolMeaning.CONCURRENCY
    if pool.interval.high < product.low:
        return PoolMeaning.ONE_GROUP
    return PoolMeaning.CONTRADICTION


def _whole_blocks(pool: float, length: float, block: float) -> bool:
    """Whether some number of blocks of a one-group model would print this pool size."""
    if pool % block == 0:
        return True
    per_request = math.ceil(length / block)
    near = pool * per_request / length
    return any(
        int(blocks / per_request * length) == pool for blocks in (math.floor(near), math.ceil(near))
    )


def explicit_block_size(facts: Facts) -> float | None:
    """The block size if the log or a flag states it, in tokens."""
    for figure in ("attention_block_size_tokens", "block_size_tokens"):
        reading = facts.last(figure)
        if reading:
            return reading.value
    return facts.setting("block_size") or _block_size_from_refusal(facts)


def _block_size_from_refusal(facts: Facts) -> float | None:
    """V0's refusal counts tokens and its capacity line blocks of the same pool."""
    tokens, blocks = facts.last("refusal_pool_tokens"), facts.last("num_gpu_blocks")
    if tokens and blocks and blocks.value and tokens.value % blocks.value == 0:
        return tokens.value / blocks.value
    return None


def block_size(facts: Facts) -> float:
    """The block size stated, or vLLM's default."""
    return explicit_block_size(facts) or DEFAULT_BLOCK_SIZE


def context_parallel(facts: Facts) -> float:
    """Over how many GPUs one sequence's tokens are spread."""
    reading = facts.last("context_parallel_size")
    if reading:
        return max(1.0, reading.value)
    sizes = ("decode_context_parallel_size", "prefill_context_parallel_size")
    return math.prod(max(1.0, facts.setting(name) or 1) for name in sizes)


def slots(facts: Facts) -> Interval | None:
    """Token slots of the pool, where the log tells them; None for a hybrid's derived figure."""
    blocks = facts.lowest("num_gpu_blocks")
    if facts.engine == "vllm" and blocks:
        return blocks.interval.scaled(block_size(facts))
    refused = facts.last("refusal_pool_tokens")
    if refused:
        return refused.interval
    if pool_meaning(facts) in (PoolMeaning.CONCURRENCY, PoolMeaning.ONE_GROUP):
        return None
    if ambiguous_pool(facts) or (facts.layout and facts.layout.is_hybrid):
        return None
    pool = printed_pool(facts)
    return _slots_printed_as(pool, facts) if pool else None


def _slots_printed_as(pool: Interval, facts: Facts) -> Interval:
    """Token slots of a one-group pool from its printed size.

    Since 0.20 that is blocks / blocks per request x max_model_len, a little less than blocks x
    block size when max_model_len does not fill its last block.
    """
    length, block = facts.max_model_len, block_size(facts)
    if not length or length % block == 0 or pool.width:
        return pool
    per_request = math.ceil(length / block)
    scale = per_request * block / length
    if pool.low % block == 0:
        return Interval(pool.low, pool.low * scale + block)
    return exactly(round(pool.low * per_request / length + 0.5 / length) * block)


def ambiguous_pool(facts: Facts) -> bool:
    """Whether the log has pool figures too far apart that nothing tells apart."""
    values = [
        reading.value
        for source, reading in facts.readings("printed_pool_tokens")
        if not (source.engine or source.rank)
    ]
    return bool(values) and min(values) * AMBIGUOUS_RATIO < max(values)


def cpu_pool_bytes(facts: Facts) -> float:
    """V0's CPU pool per GPU, in bytes."""
    gib = facts.setting("swap_space")
    return (SWAP_SPACE_GIB if gib is None else gib) * GIB


def block_bytes_from_cpu(facts: Facts) -> Interval | None:
    """Bytes of a block from V0's CPU pool: that many whole blocks fit into the swap space."""
    reading = facts.last("num_cpu_blocks")
    if reading is None or reading.value < 1:
        return None
    pool = cpu_pool_bytes(facts)
    return Interval(pool / (reading.value + 1), pool / reading.value) if pool else None


def affine_need(facts: Facts) -> tuple[Interval, Interval] | None:
    """From a refusal: bytes per further token and bytes a request costs before its first.

    The refusal gives two points of the same line: `needed` at max_model_len and `available` at the
    estimated maximum, which is rounded down to a block.
    """
    needed, available = (
        facts.interval("refusal_needed_bytes"),
        facts.interval("refusal_available_bytes"),
    )
    fits, length = facts.last("max_model_len_that_fits"), facts.max_model_len
    if needed is None or available is None or fits is None or not length:
        return None
    block = explicit_block_size(facts) or _largest_block(fits.value)
    if length - fits.value - block <= 0:
        return None
    gap = needed - available
    slope = Interval(gap.low / (length - fits.value), gap.high / (length - fits.value - block))
    return slope, needed - slope.scaled(length)


def _largest_block(tokens: float) -> float:
    """The largest usual block size a rounded-down length can be a multiple of."""
    whole = int(tokens)
    return float(max(DEFAULT_BLOCK_SIZE, min(whole & -whole, LARGEST_BLOCK)))


def has_fixed_cost(facts: Facts) -> bool:
    """Whether a refusal shows that a request costs memory before its first token."""
    need = affine_need(facts)
    return need is not None and need[1].low > 0


def sums_stages(facts: Facts) -> bool:
    """Whether a refusal adds up all pipeline stages, as the config tells (a bug of vLLM 0.14)."""
    layout, needed = facts.layout, facts.last("refusal_needed_bytes")
    length = facts.max_model_len
    if layout is None or needed is None or not length or facts.parallel("pipeline") == 1:
        return False
    whole = layout.bytes_per_token_all_layers * length
    return (
        layout.bytes_per_token_per_gpu * length < whole
        and abs(needed.value - whole) <= STAGE_SUM_TOLERANCE * whole
    )


def pool_bytes(row: Row) -> Interval | None:
    """Bytes of a pool row of SGLang, TensorRT-LLM or llama.cpp: K and V together."""
    numbers = row.numbers
    parts = ("kv_bytes",) if "kv_bytes" in numbers else ("k_bytes", "v_bytes")
    if any(part not in numbers or numbers[part].interval.low <= 0 for part in parts):
        return None
    return sum((numbers[part].interval for part in parts), start=exactly(0))


def evidence(facts: Facts) -> list[Evidence]:
    """Every way this log tells the bytes per token per GPU of a vLLM start.

    What is not surely above zero (a cut or damaged line) tells nothing.
    """
    ways = (*_from_pool(facts), *_from_cpu_blocks(facts), *_from_refusal(facts))
    return [way for way in ways if way.value.low > 0]


def _from_pool(facts: Facts) -> Iterator[Evidence]:
    memory = facts.lowest("kv_pool_bytes")
    if memory is None or memory.value <= 0:
        return
    block = block_size(facts)
    profiled = facts.lowest("profiled_gpu_blocks")
    tokens = profiled.interval.scaled(block) if profiled else slots(facts)
    if tokens is None or tokens.low <= 0:
        return
    block *= context_parallel(facts)
    spare = Interval(tokens.low, tokens.high + block)
    yield Evidence("KV memory over token slots", memory.interval.over(spare))


def _from_cpu_blocks(facts: Facts) -> Iterator[Evidence]:
    per_block = block_bytes_from_cpu(facts)
    if per_block:
        yield Evidence(
            f"{cpu_pool_bytes(facts) / GIB:g} GiB swap space over CPU blocks",
            per_block.scaled(1 / block_size(facts)),
        )


def _from_refusal(facts: Facts) -> Iterator[Evidence]:
    needed, length = facts.last("refusal_needed_bytes"), facts.max_model_len
    if needed is None or not length or has_fixed_cost(facts) or sums_stages(facts):
        return
    block = block_size(facts)
    whole = math.ceil(length / block) * block
    yield Evidence(
        "memory needed over max_model_len", needed.interval.over(Interval(length, whole))
    )
    available = facts.last("refusal_available_bytes")
    fits = facts.last("max_model_len_that_fits")
    if available and fits and explicit_block_size(facts):
        spare = Interval(fits.value, fits.value + block)
        yield Evidence("available over estimated length", available.interval.over(spare))


def combined(found: list[Evidence]) -> Interval | None:
    """The values all evidence allows; the first piece when they contradict each other.

    The first rests on two printed figures, the others on an assumed swap space or block size.
    """
    if not found:
        return None
    common = found[0].value
    for piece in found[1:]:
        if not common.meets(piece.value):
            return found[0].value
        common = common.common(piece.value)
    return common


def agree(found: list[Evidence]) -> bool:
    """Whether some value is allowed by every piece of evidence."""
    if not found:
        return True
    low = max(piece.value.low for piece in found)
    return low <= min(piece.value.high for piece in found)


def best_value(interval: Interval) -> float:
    """The likeliest number of an interval: a far rounder one than chance allows, or its middle."""
    return float(likely_value(interval) or interval.middle)


def layout_rate(facts: Facts) -> float:
    """The config's bytes per token and GPU for the version at hand; 0 without a config."""
    layout = facts.layout
    if layout is None:
        return 0
    full = layout.full_heads_bytes_per_token
    if full and facts.is_v0 and facts.version < LATENT_CACHE_VERSION:
        return full
    return layout.bytes_per_token_per_gpu


def bytes_per_token(facts: Facts) -> Interval | None:
    """Bytes per token per GPU that this start implies, from all its lines together."""
    exact = facts.last("kv_bytes_per_token")
    if exact and exact.value > 0:
        return exactly(exact.value)
    return combined(evidence(facts))
