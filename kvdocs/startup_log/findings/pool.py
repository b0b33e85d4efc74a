"""The pool: what its printed size means, and what one token costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import (
    PoolMeaning,
    affine_need,
    agree,
    best_value,
    block_bytes_from_cpu,
    block_size,
    bytes_per_token,
    context_parallel,
    evidence,
    explicit_block_size,
    has_fixed_cost,
    pool_meaning,
    slots,
)
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import bytes_range, count, gib
from kvdocs.startup_log.interval import Interval, likely_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts

NEW_POOL_VERSION: Final = (0, 20)
"""First version that prints int(concurrency x max_model_len) (`get_kv_cache_capacity`)."""
MAX_GROUPS: Final = 64


def implied_bytes(facts: Facts) -> Iterator[Finding]:
    """Bytes per token per GPU with its rounding interval."""
    value = bytes_per_token(facts)
    if value is None:
        return
    found = evidence(facts)
    fitting = [piece.what for piece in found if piece.value.meets(value)]
    sources = " and ".join(fitting) or "the printed KV size"
    likely = likely_value(value)
    guess = f"; the likely value is {count(likely)}" if likely and value.width >= 1 else ""
    yield Finding(
        "implied-bytes-per-token",
        f"One token costs {bytes_range(value)} of KV cache on each GPU (from {sources}){guess}.",
    )
    if not agree(found):
        parts = "; ".join(f"{piece.what} gives {bytes_range(piece.value)}" for piece in found)
        yield Finding(
            "lines-disagree",
            f"The lines contradict each other on the bytes per token: {parts}. They come from "
            "different starts, a flag that is not in the log (--block-size, --swap-space) "
            "or a model whose layers do not all keep every token.",
            "warning",
        )


def cpu_pool(facts: Facts) -> Iterator[Finding]:
    """V0's CPU blocks give the block size in bytes without any other line."""
    per_block = block_bytes_from_cpu(facts)
    if per_block is None:
        return
    gpu, cpu = facts.lowest("num_gpu_blocks"), facts.last("num_cpu_blocks")
    rate = bytes_per_token(facts)
    if cpu and rate and not agree(evidence(facts)):
        swap = cpu.value * best_value(rate) * block_size(facts)
        yield Finding(
            "swap-space-differs",
            f"At these bytes per token the {count(cpu.value)} CPU blocks are {gib(swap)}: the "
            "server was started with that --swap-space, not V0's default of 4 GiB.",
        )
        return
    size = best_value(per_block)
    pool = f"; {count(gpu.value)} GPU blocks are then {gib(gpu.value * size)}" if gpu else ""
    assumed = "" if "swap_space" in facts.settings else " (the default of V0 is assumed)"
    yield Finding(
        "block-size-from-cpu-pool",
        f"The CPU pool{assumed} splits into blocks of {bytes_range(per_block)}, about "
        f"{count(size)}{pool}.",
    )


def concurrency(facts: Facts) -> Iterator[Finding]:
    """Whether pool, concurrency and max_model_len agree."""
    meaning = pool_meaning(facts)
    pool, rate = facts.lowest("printed_pool_tokens"), facts.lowest("max_concurrency")
    length = facts.max_model_len
    if meaning is PoolMeaning.UNKNOWN or pool is None or rate is None or not length:
        yield from _blocks_against_concurrency(facts)
        return
    product = rate.interval.scaled(length)
    sizes = f"{count(pool.value)} tokens, {rate.value:.2f} requests of {count(length)}"
    if meaning is PoolMeaning.LIKE_SLOTS:
        yield Finding("concurrency-consistent", f"Pool and concurrency agree: {sizes}.")
    elif meaning is PoolMeaning.CONTRADICTION:
        yield from _contradiction(facts, pool.value, product)
    elif meaning is PoolMeaning.ONE_GROUP:
        yield from _old_meaning(facts, pool.value, product)
    else:
        yield from _new_meaning(facts, pool.value, length)


def _blocks_against_concurrency(facts: Facts) -> Iterator[Finding]:
    """The same check for logs that count blocks."""
    blocks, rate = facts.lowest("num_gpu_blocks"), facts.lowest("max_concurrency")
    length = facts.max_model_len
    if blocks is None or rate is None or not length or not blocks.value:
        return
    product = rate.interval.scaled(length)
    size = explicit_block_size(facts) or round(product.middle / blocks.value)
    if blocks.value * size in product:
        yield Finding(
            "concurrency-consistent",
            f"{count(blocks.value)} blocks of {count(size)} tokens are "
            f"{count(blocks.value * size)} token slots, {rate.value:.2f} requests of "
            f"{count(length)}, as printed.",
        )
    else:
        yield Finding(
            "concurrency-contradicts-pool",
            f"{count(blocks.value)} blocks of {count(size)} tokens are not the "
            f"{count(product.low)} to {count(product.high)} tokens that {rate.value:.2f} requests "
            f"of {count(length)} need: the lines are not of one start.",
            "warning",
        )


def _contradiction(facts: Facts, pool: float, product: Interval) -> Iterator[Finding]:
    parallel = context_parallel(facts)
    if parallel > 1 and product.meets(Interval(pool / parallel - 1, pool / parallel + 1)):
        yield Finding(
            "concurrency-not-multiplied",
            f"The pool of {count(pool)} tokens counts all {count(parallel)} context-parallel GPUs, "
            f"the concurrency line only one: true concurrency is {count(parallel)} times as high.",
            "warning",
        )
        return
    yield Finding(
        "concurrency-contradicts-pool",
        f"The printed pool is {count(pool)} tokens, but concurrency x max_model_len is "
        f"{count(product.low)} to {count(product.high)}: lines of different starts, a block size "
        "settled after the pool line, or a pool counted over context-parallel GPUs.",
        "warning",
    )


def _old_meaning(facts: Facts, pool: float, product: Interval) -> Iterator[Finding]:
    """Up to 0.18 a hybrid's line counts the blocks of one group."""
    text = (
        f"The printed {count(pool)} tokens are the blocks of one KV group (blocks // groups x "
        "block size, vLLM up to 0.19), as the model keeps several kinds of layer. At the maximum "
        f"length the pool holds {count(product.middle)} tokens (concurrency x max_model_len), "
        f"{product.middle / pool:.1f} times the printed figure."
    )
    solved = _solve_groups(facts, pool)
    yield Finding("hybrid-pool-old-meaning", text + solved, "warning")


def _solve_groups(facts: Facts, pool: float) -> str:
    """Groups and blocks of a hybrid with one full-attention group and state groups of one block."""
    block, rate = explicit_block_size(facts), facts.lowest("max_concurrency")
    length = facts.max_model_len
    if not block or rate is None or not length or pool % block:
        return ""
    share = round(pool / block)
    full = -(-length // block)
    answers = [
        (groups, blocks)
        for groups in range(2, MAX_GROUPS)
        for blocks in range(share * groups, (share + 1) * groups)
        if blocks / (full + groups - 1) in rate.interval
    ]
    if not answers or len({groups for groups, _ in answers}) != 1:
        return ""
    groups, blocks = answers[-1]
    return (
        f" With blocks of {count(block)} tokens that is {groups} groups and {count(blocks)} blocks,"
        f" {count(full + groups - 1)} of them for one request of {count(length)}."
    )


def _new_meaning(facts: Facts, pool: float, length: float) -> Iterator[Finding]:
    """Since 0.20 the line is concurrency x max_model_len, whatever the layers keep."""
    memory = facts.lowest("kv_pool_bytes")
    average = (
        f" The {gib(memory.value)} over it, {count(memory.value / pool)} bytes, is the average of "
        "a request at full length, not the cost of one more token."
        if memory
        else ""
    )
    yield Finding(
        "hybrid-pool-new-meaning",
        f"The printed {count(pool)} tokens are no whole number of blocks: they are maximum "
        f"concurrency ({pool / length:.4f}) x max_model_len ({count(length)}), as vLLM prints "
        "since 0.20, and the model keeps several kinds of layer. The figure changes with "
        f"max_model_len and moves by a block's share of a request at a time.{average}",
        "warning",
    )


def fixed_cost(facts: Facts) -> Iterator[Finding]:
    """A request that costs memory before its first token."""
    need = affine_need(facts)
    if need is None or not has_fixed_cost(facts):
        return
    slope, fixed = need
    yield Finding(
        "fixed-cost-per-request",
        f"Need does not grow in proportion to length: a further token costs about "
        f"{count(slope.middle)} bytes, and a request {gib(fixed.middle)} before its first "
        f"({gib(fixed.low)} to {gib(fixed.high)}): windows, recurrent state or block rounding of "
        "a hybrid model. Shortening max_model_len frees little of it.",
        "warning",
    )


def layout_notes(facts: Facts) -> Iterator[Finding]:
    """Hybrid layouts announced by their own lines."""
    block = facts.last("attention_block_size_tokens")
    if block:
        yield Finding(
            "large-attention-blocks",
            f"Attention blocks were raised to {count(block.value)} tokens so that one is at least "
            "as large as a recurrent state: a request holds whole blocks, and a shared prompt "
            f"shorter than {count(block.value)} tokens is never found in the prefix cache.",
        )
    padding = facts.last("mamba_page_padding_percent")
    if padding:
        yield Finding(
            "state-page-padding",
            f"Each recurrent state is padded by {padding.value:g}% to the size of a block.",
        )
    layers = facts.last("padding_layers")
    waste = facts.last("padding_waste_percent")
    if layers and waste:
        yield Finding(
            "padding-layers",
            f"{count(layers.value)} layers of padding make the KV groups equal; up to "
            f"{waste.value:g}% of the pool is lost to them.",
        )


def override(facts: Facts) -> Iterator[Finding]:
    """Blocks set by hand instead of profiled."""
    profiled, forced = facts.last("profiled_gpu_blocks"), facts.last("num_gpu_blocks_override")
    if profiled is None or forced is None:
        return
    more = forced.value > profiled.value
    risk = "more than fits what was profiled: allocation may run out of memory"
    waste = f"{count(profiled.value - forced.value)} blocks that would fit are left out"
    yield Finding(
        "blocks-overridden",
        f"--num-gpu-blocks-override sets {count(forced.value)} blocks where {count(profiled.value)}"
        f" were profiled: {risk if more else waste}.",
        "warning" if more else "info",
    )


def slots_summary(facts: Facts) -> Iterator[Finding]:
    """The capacity in tokens, once."""
    held = slots(facts)
    if held is None or held.middle <= 0:
        return
    value = bytes_per_token(facts)
    memory = f", {gib(held.middle * best_value(value))} on each GPU" if value else ""
    size = block_size(facts)
    yield Finding(
        "pool-capacity",
        f"The pool holds {count(held.middle)} tokens of KV cache (blocks of {count(size)})"
        f"{memory}.",
    )


CHECKS: Final = (
    slots_summary,
    implied_bytes,
    cpu_pool,
    concurrency,
    fixed_cost,
    layout_notes,
    override,
)
