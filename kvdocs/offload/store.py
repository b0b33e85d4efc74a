"""What lies in which tier, and what moves: the connector's side of offloading.

Chunks of whole blocks go out to every tier as soon as they are computed (write-through), and come
in from the nearest tier that has them. Within a tier the least recently used chunks make room; of
one request the last ones first, as a chunk is of no use without those before it.

Source: vLLM 0.33.0 `vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`
(get_num_new_matched_tokens, _get_reqs_to_store) and `vllm/v1/kv_offload/cpu/manager.py`
(prepare_store) with `cpu/policies/lru.py` (touch goes through the chunks from the last).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kvdocs.offload.config import Offload
from kvdocs.offload.tier import Tier

Key: TypeAlias = Hashable
"""Stands for a chunk and all before it: the chained key of its last block."""


@dataclass(slots=True)
class Shelf:
    """One tier's contents and traffic.

    Attributes:
        tier: The tier.
        capacity: Chunks it holds.
        held: When each chunk is (or was) completely there, the least recently used first.
        in_free_s: When the way in (to the GPU) is free again.
        out_free_s: When the way out is.
        loaded: Chunks brought to the GPU.
        stored: Chunks taken from the GPU.
        evicted: Chunks that made room.
        refused: Chunks that found no room.
        in_busy_s: Seconds the way in was in use.
        out_busy_s: Seconds the way out was.
    """

    tier: Tier
    capacity: int
    held: OrderedDict[Key, float] = field(default_factory=OrderedDict)
    in_free_s: float = 0.0
    out_free_s: float = 0.0
    loaded: int = 0
    stored: int = 0
    evicted: int = 0
    refused: int = 0
    in_busy_s: float = 0.0
    out_busy_s: float = 0.0

    def has(self, key: Key, now: float) -> bool:
        """Whether a chunk can be fetched: it is there, not only on its way.

        Args:
            key: The chunk.
            now: The time, in seconds.
        """
        return key in self.held and self.held[key] <= now

    def touch(self, keys: Sequence[Key]) -> None:
        """Note that chunks were asked for; the first of them will be kept longest.

        Args:
            keys: A request's chunks, in order.
        """
        for key in reversed(keys):
            if key in self.held:
                self.held.move_to_end(key)

    def put(self, keys: Sequence[Key], num_bytes: float, now: float) -> bool:
        """Take chunks in, evicting what was used longest ago; those of this call stay.

        Args:
            keys: Chunks in order; those that are there already are passed over.
            num_bytes: Bytes of a chunk.
            now: When they are ready to leave the GPU, in seconds.

        Returns:
            False if there is no room for all that are new: then none is taken.
        """
        new = [key for key in keys if key not in self.held]
        kept = len(keys) - len(new)
        if len(new) + kept > self.capacity:
            self.refused += len(new)
            return False
        if new:
            self._evict(len(self.held) + len(new) - self.capacity, set(keys))
            seconds = self.tier.write_time(len(new) * num_bytes)
            self.out_free_s = max(self.out_free_s, now) + seconds
            self.out_busy_s += seconds
            self.stored += len(new)
            self.held.update(dict.fromkeys(new, self.out_free_s))
        return True

    def _evict(self, count: int, spared: set[Key]) -> None:
        victims = (key for key in list(self.held) if key not in spared)
        for _ in range(count):
            del self.held[next(victims)]
            self.evicted += 1

    def fetch(self, count: int, num_bytes: float, now: float) -> float:
        """Bring chunks to the GPU, after what is on the way already.

        Args:
            count: Chunks.
            num_bytes: Bytes of a chunk.
            now: When it is asked for, in seconds.

        Returns:
            When the last byte is there.
        """
        seconds = self.tier.read_time(count * num_bytes)
        self.in_free_s = max(self.in_free_s, now) + seconds
        self.in_busy_s += seconds
        self.loaded += count
        return self.in_free_s


@dataclass(frozen=True, slots=True)
class Found:
    """Chunks of a request that can be fetched, beyond what the GPU has.

    Attributes:
        num_tokens: Tokens they spare from being computed; the request's last is never among them.
        chunks: For each chunk its place among the tiers, nearest first.
    """

    num_tokens: int = 0
    chunks: tuple[int, ...] = ()


_NOTHING: Final = Found()
_MOST: Final = 2**53
"""Chunks of a tier without an end."""


@dataclass(frozen=True, slots=True)
class Load:
    """KV that came to the GPU for a request.

    Attributes:
        request_id: Whose.
        num_tokens: Tokens it spared from being computed.
        chunks: Chunks by tier, in the order of the tiers.
        start_s: When it was asked for.
        end_s: When the last byte was there.
    """

    request_id: str
    num_tokens: int
    chunks: tuple[int, ...]
    start_s: float
    end_s: float


class TieredStore:
    """All tiers together.

    Args:
        offload: The settings.
        block_size: Tokens in the engine's block.

    Attributes:
        shelves: The tiers' contents, nearest first.
        loads: What came to the GPU, in order.
        accesses: Every chunk that was asked for, or stored without having been.
        asked: Chunks asked for.
    """

    def __init__(self, offload: Offload, block_size: int) -> None:
        self.chunk_tokens = offload.blocks_per_chunk * block_size
        self.chunk_bytes = self.chunk_tokens * offload.bytes_per_token
        self.shelves = tuple(
            Shelf(tier, _capacity(tier, self.chunk_bytes)) for tier in offload.tiers
        )
        self.loads: list[Load] = []
        self.accesses: list[Key] = []
        self.asked = 0
        self._seen: set[Key] = set()

    def find(self, keys: Sequence[Key], *, num_tokens: int, known: int, now: float) -> Found:
        """Look for chunks that continue what the GPU has.

        Args:
            keys: The request's full chunks.
            num_tokens: Its tokens.
            known: Leading tokens the GPU has.
            now: The time, in seconds.
        """
        places = []
        first = known // self.chunk_tokens
        for key in keys[first:]:
            place = self._nearest(key, now)
            if place == len(self.shelves):
                break
            places.append(place)
        end = min((first + len(places)) * self.chunk_tokens, num_tokens - 1)
        return Found(end - known, tuple(places)) if end > known else _NOTHING

    def _nearest(self, key: Key, now: float) -> int:
        for place, shelf in enumerate(self.shelves):
            if shelf.has(key, now):
                return place
        return len(self.shelves)

    def ask(self, keys: Sequence[Key], known: int) -> None:
        """Note that a request that is let in looks for its chunks.

        Args:
            keys: Its full chunks.
            known: Leading tokens the GPU has.
        """
        wanted = keys[known // self.chunk_tokens :]
        self.asked += len(wanted)
        self._note(wanted)
        for shelf in self.shelves:
            shelf.touch(keys)

    def load(self, request_id: str, keys: Sequence[Key], found: Found, now: float) -> Load:
        """Bring found chunks to the GPU, and into the tiers before the one they came from.

        Args:
            request_id: Whose they are.
            keys: The chunks found.
            found: Where each is.
            now: The time, in seconds.
        """
        counts = tuple(found.chunks.count(place) for place in range(len(self.shelves)))
        end = max(
            shelf.fetch(count, self.chunk_bytes, now)
            for shelf, count in zip(self.shelves, counts, strict=True)
            if count
        )
        for place in range(max(found.chunks)):
            self.shelves[place].put(keys, self.chunk_bytes, end)
        load = Load(request_id, found.num_tokens, counts, now, end)
        self.loads.append(load)
        return load

    def put(self, keys: Sequence[Key], now: float) -> bool:
        """Store chunks in every tier.

        Args:
            keys: Chunks in order.
            now: When they are computed, in seconds.

        Returns:
            Whether all tiers had room.
        """
        self._note(key for key in keys if key not in self._seen)
        taken = [shelf.put(keys, self.chunk_bytes, now) for shelf in self.shelves]
        return all(taken)

    def _note(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.accesses.append(key)
            self._seen.add(key)


def _capacity(tier: Tier, chunk_bytes: float) -> int:
    return int(min(tier.capacity_bytes, _MOST * chunk_bytes) // chunk_bytes)
