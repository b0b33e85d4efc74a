"""The pool of KV cache blocks: free queue, reference counts, prefix hashes.

Block 0 is the *null block*: it stands in block tables where a sliding window has moved past, is
never handed out and never freed. The other blocks are in exactly one of three places:

* held: one or more requests have it in their block table (`ref_count` > 0);
* free and plain: nobody holds it and it has no hash, so nobody can ever ask for its content;
* free and cached: nobody holds it, but its hash is known, so a new request with the same prefix
  can take it back. It counts as free, and is evicted when an allocation reaches it.

The rules follow vLLM 0.33.0, `vllm/v1/core/block_pool.py` (class BlockPool) and
`vllm/v1/core/kv_cache_utils.py` (class FreeKVCacheBlockQueue, hash_block_tokens).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from kvdocs.errors import AllocationError

NULL_BLOCK: Final = 0
"""Block id of the null block (vLLM: `BlockPool.null_block`)."""

ROOT_HASH: Final = b""
"""Parent hash of a first block (vLLM: `NONE_HASH`)."""


def blocks_for(num_tokens: int, block_size: int) -> int:
    """How many blocks hold `num_tokens` tokens.

    Args:
        num_tokens: Tokens to store.
        block_size: Tokens in a block.

    Returns:
        Blocks, the last one maybe partly filled.

    Examples:
        >>> blocks_for(37, 16)
        3
    """
    return -(-num_tokens // block_size)


def hash_block(parent: bytes, content: Hashable, extra_keys: Sequence[str] = ()) -> bytes:
    """Hash one full block, chained to everything before it.

    Equal hashes mean equal tokens *and* equal history, so a prefix is found by walking the chain.
    vLLM 0.33.0 `kv_cache_utils.py` hash_block_tokens hashes the same three things with sha256.

    Args:
        parent: Hash of the block before, `ROOT_HASH` for the first.
        content: The block's tokens (a tuple), or anything that stands for them one to one.
        extra_keys: What else must agree: a cache salt (first block only), a LoRA name.

    Returns:
        32 bytes.

    Examples:
        >>> first = hash_block(ROOT_HASH, (1, 2, 3, 4))
        >>> hash_block(first, (5, 6, 7, 8)) == hash_block(ROOT_HASH, (5, 6, 7, 8))
        False
        >>> hash_block(ROOT_HASH, (1, 2, 3, 4), ["tenant-a"]) == first
        False
    """
    return hashlib.sha256(repr((parent, content, tuple(extra_keys))).encode()).digest()


class FreeQueue:
    """The free blocks in the order in which they will be taken.

    A doubly linked list held in two lists of ids, so that a block in the middle (a prefix hit) can
    leave in constant time. The null block is never free, so slot 0 serves as both ends.

    Args:
        num_blocks: Blocks in the pool, the null block included. All others start in the queue,
            in order of their id.

    Examples:
        >>> queue = FreeQueue(6)
        >>> queue.popleft(), list(queue)
        (1, [2, 3, 4, 5])
        >>> queue.remove(3)
        >>> queue.prepend([1])
        >>> queue.append([3])
        >>> list(queue), len(queue)
        ([1, 2, 4, 5, 3], 5)
    """

    def __init__(self, num_blocks: int) -> None:
        self._next: list[int] = [*range(1, num_blocks), NULL_BLOCK]
        self._previous: list[int] = [num_blocks - 1, *range(num_blocks - 1)]
        self._length = num_blocks - 1

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        block = self._next[NULL_BLOCK]
        while block != NULL_BLOCK:
            yield block
            block = self._next[block]

    def popleft(self) -> int:
        """Take the block at the front.

        Returns:
            Its id.

        Raises:
            IndexError: The queue is empty.
        """
        block = self._next[NULL_BLOCK]
        if block == NULL_BLOCK:
            raise IndexError("the free queue is empty: ask can_take before take")
        self.remove(block)
        return block

    def remove(self, block: int) -> None:
        """Take a block out, wherever it stands.

        Args:
            block: Its id; it must be in the queue.
        """
        before, after = self._previous[block], self._next[block]
        self._next[before] = after
        self._previous[after] = before
        self._length -= 1

    def prepend(self, blocks: Sequence[int]) -> None:
        """Put blocks at the front; the first of them will be taken next.

        Args:
            blocks: Ids not in the queue.
        """
        for block in reversed(blocks):
            self._insert_after(NULL_BLOCK, block)

    def append(self, blocks: Iterable[int]) -> None:
        """Put blocks at the back, in order.

        Args:
            blocks: Ids not in the queue.
        """
        for block in blocks:
            self._insert_after(self._previous[NULL_BLOCK], block)

    def _insert_after(self, before: int, block: int) -> None:
        after = self._next[before]
        self._next[before] = self._previous[after] = block
        self._previous[block] = before
        self._next[block] = after
        self._length += 1


class BlockPool:
    """All blocks, who may use them, and which prefixes they hold.

    Args:
        num_blocks: Blocks, the null block included (vLLM's `num_gpu_blocks`).

    Attributes:
        ref_counts: For each block, how many block tables hold it.
        evicted: Blocks that lost their hash, in order, since the list was last cleared.

    Examples:
        >>> pool = BlockPool(5)
        >>> pool.take(2)
        [1, 2]
        >>> pool.register(1, "prefix")
        >>> pool.release([2, 1])  # tail first; 2 has no hash, so it is taken first again
        >>> list(pool.free_queue)
        [2, 3, 4, 1]
        >>> pool.find("prefix")
        1
        >>> pool.usage
        0.0
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.free_queue = FreeQueue(num_blocks)
        self.ref_counts = [0] * num_blocks
        self.evicted: list[int] = []
        self._key_of: dict[int, Hashable] = {}
        self._blocks_of: dict[Hashable, dict[int, None]] = {}

    @property
    def num_usable(self) -> int:
        """Blocks that requests can hold: all but the null block."""
        return self.num_blocks - 1

    @property
    def num_free(self) -> int:
        """Blocks nobody holds, cached ones included."""
        return len(self.free_queue)

    @property
    def num_free_cached(self) -> int:
        """Free blocks that still cache something."""
        return sum(block in self._key_of for block in self.free_queue)

    @property
    def num_cached(self) -> int:
        """Distinct prefixes that can be hit, held or free."""
        return len(self._blocks_of)

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are held (vLLM: `BlockPool.get_usage`)."""
        return 1.0 - self.num_free / self.num_usable if self.num_usable else 0.0

    def can_take(self, count: int) -> bool:
        """Whether `count` blocks are free.

        Args:
            count: Blocks wanted.

        Returns:
            True if `take(count)` will succeed.
        """
        return count <= self.num_free

    def take(self, count: int) -> list[int]:
        """Take blocks from the front of the free queue, evicting what they cached.

        Args:
            count: Blocks wanted; ask `can_take` first.

        Returns:
            Their ids.

        Raises:
            AllocationError: Too few blocks are free.
        """
        if not self.can_take(count):
            raise AllocationError(f"{count} blocks asked for, but only {self.num_free} are free")
        blocks = [self.free_queue.popleft() for _ in range(count)]
        for block in blocks:
            self._evict(block)
            self.ref_counts[block] = 1
        return blocks

    def touch(self, blocks: Iterable[int]) -> None:
        """Hold cached blocks once more: a prefix hit.

        Args:
            blocks: Their ids; null blocks are passed over.
        """
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            if self.ref_counts[block] == 0:
                self.free_queue.remove(block)
            self.ref_counts[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Let go of blocks; those that nobody else holds become free.

        Blocks without a hash go to the front of the queue (they hold nothing anybody could ask
        for), blocks with a hash to the back. vLLM 0.33.0 `BlockPool.free_blocks`; up to 0.23 all
        went to the back.

        Args:
            blocks: Their ids, first to be evicted first; null blocks are passed over.
        """
        plain: list[int] = []
        cached: list[int] = []
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            self.ref_counts[block] -= 1
            if self.ref_counts[block] == 0:
                (cached if block in self._key_of else plain).append(block)
        self.free_queue.prepend(plain)
        self.free_queue.append(cached)

    def register(self, block: int, key: Hashable) -> None:
        """Make a full block findable.

        One key may have several blocks: vLLM does not merge blocks with equal content.

        Args:
            block: Its id.
            key: Its chained hash.
        """
        self._key_of[block] = key
        self._blocks_of.setdefault(key, {})[block] = None

    def is_cached(self, key: Hashable) -> bool:
        """Whether some block holds this prefix.

        Args:
            key: A chained hash.

        Returns:
            True if `find` will succeed.
        """
        return key in self._blocks_of

    def find(self, key: Hashable) -> int:
        """The block that holds a prefix; of several, the one registered first.

        Args:
            key: A chained hash.

        Returns:
            The block's id.

        Raises:
            KeyError: No block holds it.
        """
        return next(iter(self._blocks_of[key]))

    def key_of(self, block: int) -> Hashable:
        """The hash a block is registered under.

        Args:
            block: Its id.

        Returns:
            The key.

        Raises:
            KeyError: The block is not cached.
        """
        return self._key_of[block]

    def _evict(self, block: int) -> None:
        if block not in self._key_of:
            return
        key = self._key_of.pop(block)
        holders = self._blocks_of[key]
        del holders[block]
        if not holders:
            del self._blocks_of[key]
        self.evicted.append(block)
