"""A server with tiers: run a workload, and see what moved and what it did to the latencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kvdocs.offload.config import Offload
from kvdocs.offload.engine import OffloadEngine
from kvdocs.offload.eviction import lru_hits, optimal_hits
from kvdocs.offload.store import Load, Shelf, TieredStore
from kvdocs.server import Server, ServerRun
from kvdocs.workload import WorkloadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTraffic:
    """What went in and out of one tier.

    Attributes:
        name: The tier.
        hit_tokens: Tokens of the chunks that came from it.
        loaded_bytes: Bytes to the GPU.
        stored_bytes: Bytes taken in.
        evicted_bytes: Bytes that made room.
        refused_bytes: Bytes for which there was no room at all.
        held_bytes: Bytes it holds at the end.
        in_busy_s: Seconds the way to the GPU was in use.
        out_busy_s: Seconds the way from it was.
    """

    name: str
    hit_tokens: int
    loaded_bytes: float
    stored_bytes: float
    evicted_bytes: float
    refused_bytes: float
    held_bytes: float
    in_busy_s: float
    out_busy_s: float


@dataclass(frozen=True, kw_only=True)
class OffloadRun:
    """What came of a workload on a server with tiers.

    Attributes:
        run: The server's run: records, latencies, log.
        tiers: What moved, tier by tier, nearest first.
        loads: Every load, in order.
        asked_tokens: Tokens of full chunks that the tiers were asked for.
        store: The tiers at the end.
    """

    run: ServerRun
    tiers: tuple[TierTraffic, ...]
    loads: tuple[Load, ...]
    asked_tokens: int
    store: TieredStore

    @property
    def tier_hit_tokens(self) -> int:
        """Tokens found in some tier."""
        return sum(tier.hit_tokens for tier in self.tiers)

    @property
    def tier_hit_rate(self) -> float:
        """Share of the tokens asked for that some tier had."""
        return self.tier_hit_tokens / self.asked_tokens if self.asked_tokens else 0.0

    @property
    def gpu_hit_tokens(self) -> int:
        """Prompt tokens that the GPU's own prefix cache had at first admissions."""
        return self.run.hit_tokens

    @property
    def computed_tokens(self) -> int:
        """Tokens the GPU computed."""
        return self.run.tally.work.num_tokens

    @cached_property
    def optimal_hit_tokens(self) -> int:
        """Tokens that tiers of this size could have had, had they known the future.

        A bound: for the chunks asked for in this run, and all tiers as one.
        """
        return optimal_hits(self.store.accesses, self._capacity) * self.store.chunk_tokens

    @cached_property
    def lru_hit_tokens(self) -> int:
        """Tokens that one cache of this size with plain LRU would have had, timing apart."""
        return lru_hits(self.store.accesses, self._capacity) * self.store.chunk_tokens

    @property
    def _capacity(self) -> int:
        return sum(shelf.capacity for shelf in self.store.shelves)


def simulate_offload(
    server: Server,
    requests: Iterable[WorkloadRequest],
    offload: Offload,
    *,
    interval_s: float | None = None,
) -> OffloadRun:
    """Run a workload on a server that keeps KV in tiers.

    Without tiers, or with tiers that hold nothing, the records are those of `server.simulate`.

    Args:
        server: The server.
        requests: The workload.
        offload: The settings of offloading.
        interval_s: Seconds between samples; None takes none.

    Raises:
        WorkloadError: Ids that are used twice, or requests that follow none.
        FlagError: A server with a sliding window.

    Examples:
        >>> from kvdocs.offload.tier import Tier, get_route
        >>> from kvdocs.scenario import size_lesson
        >>> from kvdocs.server import lesson_server
        >>> from kvdocs.workload import Part, Parts
        >>> cost = size_lesson().cost.bytes_per_token
        >>> cpu = Tier.over(get_route("pcie5"), capacity_bytes=200e9, name="cpu")
        >>> files = [WorkloadRequest(id=f"{turn}.{file}", prompt=Parts((Part(f"{file}", 50_000),)),
        ...     output_tokens=20, arrival_s=20.0 * (9 * turn + file))
        ...     for turn in range(2) for file in range(9)]  # 450,000 tokens: the pool has 407,712
        >>> with_cpu = simulate_offload(lesson_server(), files, Offload(
        ...     tiers=(cpu,), bytes_per_token=cost))
        >>> without = lesson_server().simulate(files)
        >>> round(without.latency("ttft").p50, 2), round(with_cpu.run.latency("ttft").p50, 2)
        (2.62, 1.45)
    """
    engine = OffloadEngine(server.config, server.timer, offload)
    run = server.simulate(requests, engine=engine, interval_s=interval_s)
    store = engine.store
    return OffloadRun(
        run=run,
        tiers=tuple(_traffic(shelf, store) for shelf in store.shelves),
        loads=tuple(store.loads),
        asked_tokens=store.asked * store.chunk_tokens,
        store=store,
    )


def _traffic(shelf: Shelf, store: TieredStore) -> TierTraffic:
    size = store.chunk_bytes
    return TierTraffic(
        name=shelf.tier.name,
        hit_tokens=shelf.loaded * store.chunk_tokens,
        loaded_bytes=shelf.loaded * size,
        stored_bytes=shelf.stored * size,
        evicted_bytes=shelf.evicted * size,
        refused_bytes=shelf.refused * size,
        held_bytes=len(shelf.held) * size,
        in_busy_s=shelf.in_busy_s,
        out_busy_s=shelf.out_busy_s,
    )
