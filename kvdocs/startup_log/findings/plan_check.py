"""A hybrid's log against the blocks its config would be planned in.

Windows and recurrent states make several KV groups, which share one pool. How many blocks a request
takes depends on flags a log may not show (prefix caching, batch size, asynchronous scheduling), so
every combination of them is tried, and the one that reproduces all printed figures is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from kvdocs.errors import KvdocsError
from kvdocs.flags import ServerFlags
from kvdocs.sizing import capacity
from kvdocs.startup_log.arithmetic import explicit_block_size
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import count, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.model import Model
    from kvdocs.startup_log.facts import Facts

_BATCHES: Final = (2048, 8192, 16384, 512, 4096, 32768)
"""Tokens per step to try when the log does not say: vLLM's defaults first."""
AMPLE_BLOCKS: Final = 10**7
"""More blocks than any request takes."""
MAX_BLOCKS_TRIED: Final = 10_000


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How one combination of flags would split the pool.

    Attributes:
        groups: KV groups.
        block_size: Tokens in a block (the smallest, if they differ).
        bytes_per_block: Bytes of a block on one GPU.
        per_request: Blocks one request of maximum length takes.
        cache: The cache dtype assumed.
    """

    groups: int
    block_size: int
    bytes_per_block: int
    per_request: int
    cache: str


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan and a number of blocks that give every printed figure.

    Attributes:
        plan: The plan.
        num_blocks: Blocks in the pool.
    """

    plan: BlockPlan
    num_blocks: int

    @property
    def pool_bytes(self) -> int:
        """Bytes of all blocks on one GPU."""
        return self.plan.bytes_per_block * self.num_blocks

    @property
    def concurrency(self) -> float:
        """Requests of maximum length."""
        return self.num_blocks / self.plan.per_request


def block_plans(model: Model, facts: Facts, max_model_len: int) -> list[BlockPlan]:
    """Every plan that the flags the log does not show could lead to."""
    plans: dict[BlockPlan, None] = {}
    batch = facts.last("max_num_batched_tokens")
    stated = int(batch.value) if batch else int(facts.setting("max_num_batched_tokens") or 0)
    batches = (stated,) if stated else _BATCHES
    known = facts.settings.get("kv_cache_dtype")
    dtypes = (known,) if known else ("auto", "fp8")
    switches = (True, False)
    for dtype, prefix, overlap, tokens in product(dtypes, switches, switches, batches):
        flags = replace(
            _flags(facts),
            max_model_len=max_model_len,
            kv_cache_dtype=dtype,
            enable_prefix_caching=prefix,
            async_scheduling=overlap,
            max_num_batched_tokens=tokens,
        )
        try:
            plans[_plan(model, flags)] = None
        except KvdocsError:
            continue
    return list(plans)


def _flags(facts: Facts) -> ServerFlags:
    """The flags the log shows."""
    size = explicit_block_size(facts)
    return ServerFlags(
        tensor_parallel_size=facts.parallel("tensor"),
        pipeline_parallel_size=facts.parallel("pipeline"),
        decode_context_parallel_size=max(
            1, int(facts.setting("decode_context_parallel_size") or 1)
        ),
        block_size=int(size) if size else None,
        disable_hybrid_kv_cache_manager=facts.has("hybrid-manager-off"),
    )


def _plan(model: Model, flags: ServerFlags) -> BlockPlan:
    """How these flags split a pool, read off a pool with more than enough blocks."""
    pool = capacity(model, 0, replace(flags, num_gpu_blocks_override=AMPLE_BLOCKS))
    return BlockPlan(
        groups=len(pool.grouping.groups),
        block_size=min(group.block_size for group in pool.grouping.groups),
        bytes_per_block=pool.bytes_per_block,
        per_request=round(AMPLE_BLOCKS / pool.max_concurrency) if pool.max_concurrency else 0,
        cache=flags.kv_cache_dtype,
    )


def solve(facts: Facts, plans: list[BlockPlan], max_model_len: int) -> Solution | None:
    """The first plan with a number of blocks that gives every figure the log prints."""
    for plan in plans:
        if not plan.per_request:
            continue
        for blocks in _possible_blocks(facts, plan):
            if _prints_the_pool(facts, plan, blocks, max_model_len):
                return Solution(plan, blocks)
    return None


def _possible_blocks(facts: Facts, plan: BlockPlan) -> range:
    """Numbers of blocks that memory and concurrency allow.

    None if fewer than two figures are printed: any plan would do then.
    """
    memory, rate = facts.lowest("kv_pool_bytes"), facts.lowest("max_concurrency")
    pool = facts.lowest("printed_pool_tokens")
    if sum(reading is not None for reading in (memory, rate, pool)) < 2:
        return range(0)
    low, high = 1, MAX_BLOCKS_TRIED * 1000
    if memory:
        low = max(low, math.floor(memory.interval.low / plan.bytes_per_block))
        high = min(high, math.floor(memory.interval.high / plan.bytes_per_block))
    if rate:
        low = max(low, math.ceil(rate.interval.low * plan.per_request - 1e-9))
        high = min(high, math.floor(rate.interval.high * plan.per_request + 1e-9))
    return range(low, min(high, low + MAX_BLOCKS_TRIED) + 1)


def _prints_the_pool(facts: Facts, plan: BlockPlan, blocks: int, max_model_len: int) -> bool:
    """Whether a version of vLLM prints the pool size of the log for this number of blocks."""
    pool = facts.lowest("printed_pool_tokens")
    if pool is None:
        return True
    old = blocks // plan.groups * plan.block_size
    new = int(blocks / plan.per_request * max_model_len)
    return old in pool.interval or new in pool.interval


def solution_of(facts: Facts) -> Solution | None:
    """The blocks of a hybrid start, if its config is known and reproduces the log."""
    length = facts.max_model_len
    if facts.model is None or facts.layout is None or not facts.layout.is_hybrid or not length:
        return None
    return solve(facts, block_plans(facts.model, facts, int(length)), int(length))


def hybrid_blocks(facts: Facts) -> Iterator[Finding]:
    """Groups, blocks and bytes that reproduce a hybrid's printed figures."""
    length, pool = facts.max_model_len, facts.lowest("printed_pool_tokens")
    solution = solution_of(facts)
    if solution is None or not length:
        yield from _unsolved(facts)
        return
    plan = solution.plan
    held = int(solution.concurrency * length)
    apart = pool is not None and held not in pool.interval
    beside = (
        f", {held / pool.value:.2f} times the printed {count(pool.value)}"
        if (pool and apart)
        else ""
    )
    cache = "" if plan.cache == "auto" else f" with --kv-cache-dtype {plan.cache}"
    yield Finding(
        "hybrid-blocks",
        f"The config reproduces the log{cache}: {plan.groups} KV groups, blocks of "
        f"{count(plan.block_size)} tokens and {count(plan.bytes_per_block)} bytes, "
        f"{count(plan.per_request)} of them for a request of {count(length)}. "
        f"{count(solution.num_blocks)} blocks are {gib(solution.pool_bytes)} on each GPU, "
        f"{solution.concurrency:.2f} requests, {count(held)} tokens at that length{beside}.",
    )


def _unsolved(facts: Facts) -> Iterator[Finding]:
    layout, printed = facts.layout, facts.lowest("printed_pool_tokens")
    if layout is None or not layout.is_hybrid or printed is None or not facts.max_model_len:
        return
    if facts.lowest("max_concurrency") is None:
        return
    yield Finding(
        "plan-differs-from-log",
        f"No number of blocks that this config is planned in prints {count(printed.value)} tokens "
        "with that concurrency: another model, a draft model beside it, another cache dtype, or "
        "flags that are not in the log.",
        "warning",
    )


def hybrid_refusal(facts: Facts) -> Iterator[Finding]:
    """A hybrid's refusal against its config."""
    needed, length = facts.last("refusal_needed_bytes"), facts.max_model_len
    if facts.model is None or facts.layout is None or needed is None or not length:
        return
    if not facts.layout.is_hybrid:
        return
    plans = block_plans(facts.model, facts, int(length))
    for plan in plans:
        if plan.bytes_per_block * plan.per_request in needed.interval:
            yield Finding(
                "refusal-matches-config",
                f"The config reproduces the need: {count(plan.per_request)} blocks of "
                f"{count(plan.bytes_per_block)} bytes in {plan.groups} KV groups are "
                f"{gib(needed.value)}.",
            )
            return
    if plans:
        sizes = sorted({plan.bytes_per_block * plan.per_request for plan in plans})
        yield Finding(
            "need-contradicts-config",
            f"The refusal needs {gib(needed.value)} for {count(length)} tokens; by the config it "
            f"is {gib(sizes[0])} to {gib(sizes[-1])} on each GPU.",
            "warning",
        )


CHECKS: Final = (hybrid_blocks, hybrid_refusal)
