"""Block tables of requests: what fits, what hits, what is freed.

One object serves all layers of a model whose attention is of one kind, full or sliding window.
The rules follow vLLM 0.33.0: `vllm/v1/core/kv_cache_manager.py` (KVCacheManager.allocate_slots) and
`vllm/v1/core/single_type_kv_cache_manager.py` (FullAttentionManager, SlidingWindowManager).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kvdocs.blocks import NULL_BLOCK, BlockPool, blocks_for
from kvdocs.engine.config import EngineConfig
from kvdocs.engine.request import Request


@dataclass(frozen=True, slots=True)
class Hit:
    """What the prefix cache has of a request.

    Attributes:
        num_tokens: Tokens found, a multiple of the block size.
        blocks: Their blocks, in the terms of the cache that found them.
    """

    num_tokens: int
    blocks: tuple[Any, ...] = ()


class KVCache(Protocol):
    """What the scheduler asks of the KV cache: questions (`blocks_to_...`) and acts."""

    @property
    def num_free(self) -> int:
        """Blocks that an allocation could take."""

    @property
    def num_free_cached(self) -> int:
        """Those of them that still cache something."""

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are held."""

    def find_hit(self, request: Request) -> Hit:
        """Look up the longest cached prefix of a request that is to be admitted.

        Args:
            request: A waiting request.

        Returns:
            The hit; always at least one token is left to compute.
        """

    def blocks_to_admit(
        self, request: Request, hit: Hit, num_tokens: int, *, capped: bool = False
    ) -> int:
        """Free blocks an admission takes.

        Args:
            request: A waiting request.
            hit: Its prefix hit.
            num_tokens: Tokens to have room for, the hit included.
            capped: Whether a sliding window limits what counts (the full-sequence gate).

        Returns:
            New blocks, and hit blocks that are free now and would not be any more.
        """

    def admit(self, request: Request, hit: Hit, num_tokens: int) -> list[int]:
        """Give a waiting request its blocks and offer the full ones to the prefix cache.

        Args:
            request: A waiting request.
            hit: Its prefix hit.
            num_tokens: Tokens to have room for, the hit included.

        Returns:
            The new blocks.
        """

    def drop_skipped(self, request: Request) -> None:
        """Free blocks of a running request that its sliding window has passed.

        Args:
            request: A running request.
        """

    def blocks_to_grow(self, request: Request, num_tokens: int) -> int:
        """New blocks a running request needs.

        Args:
            request: A running request.
            num_tokens: Tokens to have room for.

        Returns:
            Blocks.
        """

    def grow(self, request: Request, num_tokens: int) -> list[int]:
        """Give a running request room, and offer newly full blocks to the prefix cache.

        Args:
            request: A running request.
            num_tokens: Tokens to have room for.

        Returns:
            The new blocks.
        """

    def cache_full_blocks(self, request: Request, num_tokens: int) -> None:
        """Offer full blocks to the prefix cache.

        Args:
            request: A running request.
            num_tokens: Tokens whose keys and values are stored, or will be this step.
        """

    def free(self, request: Request) -> int:
        """Let go of all blocks of a request, the last first.

        Args:
            request: A request that finished or was preempted.

        Returns:
            Blocks that became free.
        """


class PagedKVCache:
    """The reference KV cache, block by block.

    Args:
        config: The engine's settings.

    Attributes:
        pool: The blocks.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.pool = BlockPool(config.num_blocks)
        self._block_size = config.block_size
        self._enable_caching = config.enable_prefix_caching
        self._window = config.sliding_window
        self._max_gate_blocks = max_gate_blocks(config)

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under settings with other limits; blocks and window stay.

        Args:
            config: The settings.
        """
        self._max_gate_blocks = max_gate_blocks(config)

    @property
    def num_free(self) -> int:
        """Blocks that an allocation could take."""
        return self.pool.num_free

    @property
    def num_free_cached(self) -> int:
        """Those of them that still cache something."""
        return self.pool.num_free_cached

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are held."""
        return self.pool.usage

    def find_hit(self, request: Request) -> Hit:
        """The longest cached prefix that leaves at least the last token to compute.

        A prompt cached to its last token still recomputes its whole last block.
        """
        if not self._enable_caching:
            return Hit(0)
        max_blocks = (request.num_tokens - 1) // self._block_size
        if self._window is None:
            blocks = self._find_chain(request, max_blocks)
        else:
            blocks = self._find_window(request, max_blocks, self._window)
        return Hit(len(blocks) * self._block_size, tuple(blocks))

    def _find_chain(self, request: Request, max_blocks: int) -> list[int]:
        blocks = []
        for index in range(max_blocks):
            key = request.block_key(index)
            if not self.pool.is_cached(key):
                break
            blocks.append(self.pool.find(key))
        return blocks

    def _find_window(self, request: Request, max_blocks: int, window: int) -> list[int]:
        """Search from the right for as many neighbours as the window spans.

        Blocks before the window are not needed: null blocks stand for them. A shorter run counts
        only when it starts at the first block.
        """
        needed = blocks_for(window - 1, self._block_size)
        run = 0
        blocks = [NULL_BLOCK] * max_blocks
        for index in range(max_blocks - 1, -1, -1):
            key = request.block_key(index)
            if not self.pool.is_cached(key):
                run = 0
                continue
            blocks[index] = self.pool.find(key)
            run += 1
            if run >= needed:
                return blocks[: index + run]
        return blocks[:run]

    def _num_skipped_blocks(self, num_tokens: int) -> int:
        """Leading blocks that the token after `num_tokens` tokens no longer attends to."""
        if self._window is None:
            return 0
        return max(0, num_tokens - self._window + 1) // self._block_size

    def blocks_to_admit(
        self, request: Request, hit: Hit, num_tokens: int, *, capped: bool = False
    ) -> int:
        """New blocks, and hit blocks that nobody holds: taking them uses them up too."""
        del request
        required = blocks_for(num_tokens, self._block_size)
        if capped:
            required = min(required, self._max_gate_blocks)
        skipped = self._num_skipped_blocks(hit.num_tokens)
        new = max(required - max(skipped, len(hit.blocks)), 0)
        blocks: tuple[int, ...] = hit.blocks[skipped:]
        ref_counts = self.pool.ref_counts
        return new + sum(block != NULL_BLOCK and ref_counts[block] == 0 for block in blocks)

    def admit(self, request: Request, hit: Hit, num_tokens: int) -> list[int]:
        """Touch the hit blocks, then take new ones."""
        skipped = self._num_skipped_blocks(hit.num_tokens)
        kept = hit.blocks[skipped:]
        self.pool.touch(kept)
        request.blocks = [NULL_BLOCK] * skipped + list(kept)
        request.num_cached_blocks = len(request.blocks)
        return self._extend(request, num_tokens)

    def drop_skipped(self, request: Request) -> None:
        """Replace blocks the window has passed by the null block and free them, last first.

        Tokens in flight do not count as done: their attention still reads the window's old edge.
        """
        if self._window is None:
            return
        done = request.num_computed_tokens - request.num_in_flight_tokens
        dropped = []
        for index in range(min(self._num_skipped_blocks(done), len(request.blocks)) - 1, -1, -1):
            if request.blocks[index] == NULL_BLOCK:
                break
            dropped.append(request.blocks[index])
            request.blocks[index] = NULL_BLOCK
        self.pool.release(dropped)

    def blocks_to_grow(self, request: Request, num_tokens: int) -> int:
        """Blocks for the tokens beyond what the block table already holds."""
        return max(blocks_for(num_tokens, self._block_size) - len(request.blocks), 0)

    def grow(self, request: Request, num_tokens: int) -> list[int]:
        """Take the blocks that `blocks_to_grow` counts."""
        return self._extend(request, num_tokens)

    def _extend(self, request: Request, num_tokens: int) -> list[int]:
        new_blocks = self.pool.take(self.blocks_to_grow(request, num_tokens))
        request.blocks += new_blocks
        self.cache_full_blocks(request, num_tokens)
        return new_blocks

    def cache_full_blocks(self, request: Request, num_tokens: int) -> None:
        """Register full blocks, at allocation: before the model has written them.

        Only tokens that are known count. A sliding window registers only the blocks that a resend
        of the same prompt would need (vLLM's `--prefix-cache-retention-interval 0`).
        """
        num_full = min(num_tokens, request.num_tokens) // self._block_size
        if not self._enable_caching or num_full <= request.num_cached_blocks:
            return
        stop = min(num_full, len(request.blocks))
        for index in self._reachable(request, request.num_cached_blocks, stop):
            if request.blocks[index] != NULL_BLOCK:
                self.pool.register(request.blocks[index], request.block_key(index))
        request.num_cached_blocks = num_full

    def _reachable(self, request: Request, start: int, stop: int) -> range:
        if self._window is None:
            return range(start, stop)
        boundary = (request.num_prompt_tokens - 1) // self._block_size
        first = boundary - blocks_for(self._window - 1, self._block_size)
        return range(max(start, first), min(stop, boundary))

    def free(self, request: Request) -> int:
        """Release the block table in reverse, so that a chain's tail is evicted before its head."""
        before = self.pool.num_free
        self.pool.release(reversed(request.blocks))
        request.blocks = []
        request.num_cached_blocks = 0
        return self.pool.num_free - before


def max_gate_blocks(config: EngineConfig) -> int:
    """Blocks that the full-sequence gate asks for at most.

    A window holds its last W - 1 tokens and what is in flight, wherever in a block it begins
    (vLLM 0.33.0 `vllm/v1/kv_cache_interface.py`, class SlidingWindowSpec,
    max_admission_blocks_per_request).

    Args:
        config: The engine's settings.

    Returns:
        Blocks; without a window, those of a request of `max_model_len` tokens.
    """
    if config.sliding_window is None:
        return blocks_for(config.max_model_len, config.block_size)
    tokens = config.sliding_window - 1 + config.max_in_flight_tokens
    return blocks_for(min(tokens, config.max_model_len), config.block_size) + 1
