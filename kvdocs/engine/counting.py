"""The KV cache by counts instead of block ids: the jumping engine's fast double.

With full attention no decision depends on which block is which. The free queue is always the
plain blocks in front (they are put back at the front, and evicted ones are held) and the cached
ones behind in order of release, so a number and an ordered list say it all:

* `plain` free blocks, and behind them
* free cached blocks, oldest release first. Blocks that somebody may ask for again are entries of
  their own; those of a finished request that nobody else can have are one number.

Private blocks (see `kvdocs.engine.prompt`) get a key only when their request is preempted: from
then on it may hit them itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, cast

from kvdocs.blocks import blocks_for
from kvdocs.engine.config import EngineConfig
from kvdocs.engine.kv_cache import Hit
from kvdocs.engine.request import Request, RequestSpec


class Entry:
    """A cached block that can be found.

    Attributes:
        key: Its chained key.
        ref_count: Requests that hold it.
        twin: The next block registered under the same key, if any.
    """

    __slots__ = ("key", "ref_count", "twin")

    def __init__(self, key: Hashable, ref_count: int) -> None:
        self.key = key
        self.ref_count = ref_count
        self.twin: Entry | None = None


class CountedRequest(Request):
    """A request whose blocks are counted.

    Attributes:
        num_blocks: Blocks it holds.
        entries: The first of them, as far as they can be found by others.
        admission: Place in the order of admissions; the running list is sorted by it.
        synced_turn: While it decodes: the turn at whose start its counters were right.
        due_turn: While it decodes: the turn at whose end it finishes.
    """

    __slots__ = ("admission", "due_turn", "entries", "num_blocks", "synced_turn")

    def __init__(self, spec: RequestSpec, config: EngineConfig) -> None:
        super().__init__(spec, config)
        self.num_blocks = 0
        self.entries: list[Entry] = []
        self.admission = 0
        self.synced_turn = 0
        self.due_turn = 0


class CountingKVCache:
    """A `KVCache` for full attention that decides like `PagedKVCache` without block ids.

    Args:
        config: The engine's settings, without a sliding window.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.num_free = config.usable_blocks
        self._num_usable = config.usable_blocks
        self._plain = config.usable_blocks
        self._block_size = config.block_size
        self._enable_caching = config.enable_prefix_caching
        self._first: dict[Hashable, Entry] = {}
        self._released: OrderedDict[Any, int] = OrderedDict()

    @property
    def num_free_cached(self) -> int:
        """Free blocks that still cache something.

        Blocks that only their finished request could have hit count until the first is taken.
        """
        return self.num_free - self._plain

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are held."""
        return 1.0 - self.num_free / self._num_usable

    def find_hit(self, request: Request) -> Hit:
        """The longest cached prefix that leaves at least the last token to compute."""
        if not self._enable_caching:
            return _NO_HIT
        max_blocks = (request.num_tokens - 1) // self._block_size
        if not request.num_preemptions:  # its private blocks were never released
            max_blocks = min(max_blocks, request.num_shared_blocks)
        entries = []
        for index in range(max_blocks):
            entry = self._first.get(request.block_key(index))
            if entry is None:
                break
            entries.append(entry)
        return Hit(len(entries) * self._block_size, tuple(entries)) if entries else _NO_HIT

    def blocks_to_admit(
        self, request: Request, hit: Hit, num_tokens: int, *, capped: bool = False
    ) -> int:
        """New blocks, and hit blocks that nobody holds."""
        del request, capped
        new = max(-(-num_tokens // self._block_size) - len(hit.blocks), 0)
        entries: tuple[Entry, ...] = hit.blocks
        return new + sum(entry.ref_count == 0 for entry in entries)

    def admit(self, request: Request, hit: Hit, num_tokens: int) -> list[int]:
        """Touch the hit entries, then count new blocks."""
        for entry in hit.blocks:
            if entry.ref_count == 0:
                del self._released[entry]
                self.num_free -= 1
            entry.ref_count += 1
        request = counted(request)
        request.entries = list(hit.blocks)
        request.num_blocks = request.num_cached_blocks = len(hit.blocks)
        return self.grow(request, num_tokens)

    def drop_skipped(self, request: Request) -> None:
        """Nothing: full attention skips no blocks."""

    def blocks_to_grow(self, request: Request, num_tokens: int) -> int:
        """Blocks for the tokens beyond what it already holds."""
        return max(blocks_for(num_tokens, self._block_size) - counted(request).num_blocks, 0)

    def grow(self, request: Request, num_tokens: int) -> list[int]:
        """Count new blocks; they have no ids to tell."""
        count = self.blocks_to_grow(request, num_tokens)
        self.take(count)
        counted(request).num_blocks += count
        self.cache_full_blocks(request, num_tokens)
        return []

    def take(self, count: int) -> None:
        """Take blocks from the front of the free queue, evicting what they cached.

        Args:
            count: At most `num_free`.
        """
        self.num_free -= count
        self._plain -= count
        while self._plain < 0:
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        """Make the oldest released blocks plain ones.

        Blocks that nobody can hit any more go all at once: at the head of the queue they are as
        good as plain already.
        """
        oldest, count = self._released.popitem(last=False)
        if isinstance(oldest, Entry):
            self._unregister(oldest)
        self._plain += count

    def cache_full_blocks(self, request: Request, num_tokens: int) -> None:
        """Offer the blocks that known tokens fill."""
        self.register(request, min(num_tokens, request.num_tokens) // self._block_size)

    def register(self, request: Request, num_full: int) -> None:
        """Register full shared blocks; of private ones only the number is kept.

        Args:
            request: A running request.
            num_full: Leading blocks of it that are full.
        """
        if not self._enable_caching or num_full <= request.num_cached_blocks:
            return
        shared = min(num_full, request.num_shared_blocks)
        for index in range(request.num_cached_blocks, shared):
            entry = self._register(request.block_key(index), 1)
            counted(request).entries.append(entry)
        request.num_cached_blocks = num_full

    def free(self, request: Request) -> int:
        """Let go of all blocks, the last first."""
        request, before = counted(request), self.num_free
        plain = request.num_blocks - request.num_cached_blocks
        self._plain += plain
        self.num_free += plain
        private = request.num_cached_blocks - len(request.entries)
        if private and request.is_finished:
            self._release(object(), private)
        else:
            for index in range(request.num_cached_blocks - 1, len(request.entries) - 1, -1):
                self._release(self._register(request.block_key(index), 0), 1)
        for entry in reversed(request.entries):
            entry.ref_count -= 1
            if entry.ref_count == 0:
                self._release(entry, 1)
        request.entries = []
        request.num_blocks = request.num_cached_blocks = 0
        return self.num_free - before

    def _release(self, blocks: object, count: int) -> None:
        self._released[blocks] = count
        self.num_free += count

    def _register(self, key: Hashable, ref_count: int) -> Entry:
        entry = Entry(key, ref_count)
        last = self._first.setdefault(key, entry)
        if last is not entry:
            while last.twin is not None:
                last = last.twin
            last.twin = entry
        return entry

    def _unregister(self, entry: Entry) -> None:
        first = self._first[entry.key]
        if first is entry:
            if entry.twin is None:
                del self._first[entry.key]
            else:
                self._first[entry.key] = entry.twin
            return
        while first.twin is not None and first.twin is not entry:
            first = first.twin
        first.twin = entry.twin


_NO_HIT = Hit(0)


def counted(request: Request) -> CountedRequest:
    """The request as the counting cache knows it.

    Args:
        request: One that the jumping engine made.

    Returns:
        The same object.
    """
    return cast("CountedRequest", request)
