"""The scheduler's rules where KV can come back from elsewhere.

After the lookup on the GPU the tiers are asked for more. With asynchronous loading the request
gets its blocks and waits; with synchronous loading it runs at once and the step waits. Source:
vLLM 0.33.0 `vllm/v1/core/sched/scheduler.py` (schedule: get_num_new_matched_tokens,
WAITING_FOR_REMOTE_KVS, _update_waiting_for_remote_kv).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdocs.engine.config import EngineConfig
from kvdocs.engine.events import Admission, Finish, WaitReason
from kvdocs.engine.kv_cache import Hit, PagedKVCache
from kvdocs.engine.request import Request, Status
from kvdocs.engine.scheduler import Batch, Scheduler, limit
from kvdocs.offload.config import Loading, Offload
from kvdocs.offload.store import Found, Key, TieredStore


@dataclass(slots=True)
class Loaded:
    """A request that holds its blocks while KV comes into them.

    Attributes:
        request: Which.
        known: Tokens it will have.
        hit: What of them the GPU had.
        ready_s: When they are there.
    """

    request: Request
    known: int
    hit: Hit
    ready_s: float


class OffloadScheduler(Scheduler):
    """The scheduler's rules, with tiers behind the KV cache.

    Args:
        config: The engine's settings.
        cache: The KV cache.
        offload: The settings of offloading.

    Attributes:
        store: The tiers.
        loading: Requests that wait for KV on its way, in the order they were let in.
    """

    def __init__(self, config: EngineConfig, cache: PagedKVCache, offload: Offload) -> None:
        super().__init__(config, cache)
        self.store = TieredStore(offload, config.block_size)
        self.loading: list[Loaded] = []
        self._blocks = cache
        self._offload = offload
        self._progress: dict[Request, tuple[int, int]] = {}  # chunks offered, chunks stored

    @property
    def has_unfinished(self) -> bool:
        """Whether any request is running, waiting or loading."""
        return bool(self.loading) or super().has_unfinished

    @property
    def next_ready_s(self) -> float:
        """When the next load is complete; infinite when none is under way."""
        return min((one.ready_s for one in self.loading), default=math.inf)

    def abort(self, request: Request) -> None:
        """End a request, also one whose KV is still coming."""
        for one in self.loading:
            if one.request is request:
                self.loading.remove(one)
                self.waiting.add(request)
                break
        super().abort(request)
        self._progress.pop(request, None)

    # Coming in --------------------------------------------------------------------------------

    def _keys(self, request: Request, num_tokens: int) -> list[Key]:
        """Keys of a request's full chunks."""
        blocks = self._offload.blocks_per_chunk
        count = num_tokens // self.store.chunk_tokens
        return [request.block_key((index + 1) * blocks - 1) for index in range(count)]

    def _find(self, request: Request, hit: Hit) -> Found:
        return self.store.find(
            self._keys(request, request.num_tokens),
            num_tokens=request.num_tokens,
            known=hit.num_tokens,
            now=self.clock,
        )

    def _received(self, request: Request, hit: Hit) -> int:
        """With synchronous loading, what the tiers have beyond the hit."""
        if self._offload.loading is Loading.ASYNC:
            return 0
        return self._find(request, hit).num_tokens

    def _admit(self, request: Request, hit: Hit, num_tokens: int, batch: Batch) -> None:
        found = self._find(request, hit) if self._offload.loading is Loading.SYNC else Found()
        super()._admit(request, hit, num_tokens, batch)
        ready = self._ask(request, hit, found)
        batch.stall_s = max(batch.stall_s, ready - self.clock)

    def _ask(self, request: Request, hit: Hit, found: Found) -> float:
        """Ask the tiers, and fetch what they have; return when it is there."""
        keys = self._keys(request, request.num_tokens)
        self.store.ask(keys, hit.num_tokens)
        if not found.num_tokens:
            return self.clock
        first = hit.num_tokens // self.store.chunk_tokens
        fetched = keys[first : first + len(found.chunks)]
        return self.store.load(request.id, fetched, found, self.clock).end_s

    def _try_admit(self, request: Request, batch: Batch) -> None:
        if self._offload.loading is Loading.SYNC:
            super()._try_admit(request, batch)
            return
        hit = self.cache.find_hit(request)
        found = self._find(request, hit)
        if not found.num_tokens:
            super()._try_admit(request, batch)
            return
        slots = self._slots(hit.num_tokens + found.num_tokens)
        needed = self._blocks_to_load(request, hit, slots)
        if needed > self.cache.num_free:
            batch.wait = self._wait(request, WaitReason.BLOCKS, needed, self.cache.num_free)
        else:
            self._start_load(request, hit, found)

    def _blocks_to_load(self, request: Request, hit: Hit, slots: int) -> int:
        """Blocks for the whole request, and those that requests let in before still need."""
        whole = self.cache.blocks_to_admit(request, hit, self._slots(request.num_tokens))
        promised = sum(
            self.cache.blocks_to_grow(one.request, one.request.num_tokens) for one in self.loading
        )
        return max(self._blocks_to_admit(request, hit, slots), whole) + promised

    def _start_load(self, request: Request, hit: Hit, found: Found) -> None:
        """Take the blocks; they are offered to others only once the KV is in them."""
        self.waiting.pop_next()
        self._count_lookup(request, hit)
        known = hit.num_tokens + found.num_tokens
        self.cache.admit(request, hit, hit.num_tokens)
        missing = self.cache.blocks_to_grow(request, self._slots(known))
        request.blocks += self._blocks.pool.take(missing)
        ready = self._ask(request, hit, found)
        self.loading.append(Loaded(request, known, hit, ready))

    def _schedule_waiting(self, batch: Batch) -> None:
        """Serve those whose KV has come before all others that wait."""
        for one in tuple(self.loading):
            if one.ready_s <= self.clock and batch.wait is None:
                self._run_loaded(one, batch)
        super()._schedule_waiting(batch)

    def _run_loaded(self, one: Loaded, batch: Batch) -> None:
        request = one.request
        reason = self._closed(batch)
        num_tokens = limit(request.num_tokens - one.known, batch.threshold)
        if num_tokens > batch.budget and not self.config.enable_chunked_prefill:
            reason = reason or WaitReason.UNSPLIT
        num_tokens = min(num_tokens, batch.budget)
        slots = self._slots(one.known + num_tokens)
        needed = self.cache.blocks_to_grow(request, slots)
        if reason is None and needed > self.cache.num_free:
            reason = WaitReason.BLOCKS
        if reason is not None:
            batch.wait = self._wait(request, reason, needed, self.cache.num_free)
            return
        self.loading.remove(one)
        self._let_run(one, self.cache.grow(request, slots), num_tokens, batch)

    def _let_run(self, one: Loaded, new_blocks: list[int], num_tokens: int, batch: Batch) -> None:
        request = one.request
        resumed = request.status is Status.PREEMPTED
        request.status = Status.RUNNING
        request.num_computed_tokens = one.known
        if request.admitted_at is None:
            request.admitted_at = self.clock
            request.hit_tokens = one.hit.num_tokens
        if resumed:
            request.num_recomputed_tokens += max(request.last_lost_tokens - one.known, 0)
        self.running.append(request)
        batch.give(request, num_tokens, new_blocks)
        batch.admissions.append(
            Admission(
                request_id=request.id,
                hit_tokens=one.hit.num_tokens,
                resumed=resumed,
                hit_blocks=one.hit.blocks,
            )
        )

    # Going out --------------------------------------------------------------------------------

    def update(self, batch: Batch) -> list[Finish]:
        """Take the model's output, and store the chunks that this batch completed."""
        for request, num_tokens in batch.num_tokens.items():
            in_flight = request.num_in_flight_tokens - num_tokens
            self._store(request, request.num_computed_tokens - in_flight)
        finished = super().update(batch)
        for request in batch.num_tokens:
            if request.is_finished:
                self._progress.pop(request, None)
        return finished

    def _store(self, request: Request, num_computed: int) -> None:
        most = request.num_prompt_tokens if self._offload.prompt_only else request.num_tokens
        count = min(num_computed, most) // self.store.chunk_tokens
        offered, stored = self._progress.get(request, (0, 0))
        if count > offered:
            keys = self._keys(request, count * self.store.chunk_tokens)[stored:]
            if self.store.put(keys, self.clock):
                stored = count
            self._progress[request] = count, stored
