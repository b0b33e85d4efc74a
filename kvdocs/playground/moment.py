"""What a server shows at one moment: its figures, and who holds its pool."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from kvdocs.blocks import NULL_BLOCK
from kvdocs.engine import JumpingEngine
from kvdocs.engine.counting import CountedRequest, Entry, counted
from kvdocs.server import Simulation


class Holder(NamedTuple):
    """A running request.

    Attributes:
        id: Which.
        num_blocks: Blocks it holds and shares with nobody.
        shared: Blocks it holds together with others.
        prefill: Whether its prompt is still being computed.
    """

    id: str
    num_blocks: int
    shared: int
    prefill: bool


class Moment(NamedTuple):
    """A server at one time, after all turns begun before it.

    Attributes:
        running: Requests running.
        waiting: Requests waiting.
        held: Blocks held.
        cached: Free blocks that still cache something.
        preemptions: Preemptions since the start.
        ended: Requests ended since the start, refused ones included.
        prompt_tokens: Prompt tokens since the start, cached ones included.
        hit_tokens: Those of them that were found in the prefix cache.
        generation_tokens: Tokens generated since the start.
        holders: The running requests, in order of admission.
    """

    running: int
    waiting: int
    held: int
    cached: int
    preemptions: int
    ended: int
    prompt_tokens: int
    hit_tokens: int
    generation_tokens: int
    holders: tuple[Holder, ...]

    @property
    def shared(self) -> int:
        """Blocks that several hold: all held ones but those with one holder."""
        return max(0, self.held - sum(holder.num_blocks for holder in self.holders))


def look(simulation: Simulation) -> Moment:
    """Look at a server now.

    Args:
        simulation: The server.

    Examples:
        >>> from kvdocs.server import lesson_server
        >>> from kvdocs.workload import Unshared, WorkloadRequest
        >>> request = WorkloadRequest(id="a", prompt=Unshared(100), output_tokens=50)
        >>> simulation = lesson_server().open([request])
        >>> simulation.run_until(0.1)
        >>> look(simulation).holders
        (Holder(id='a', num_blocks=8, shared=0, prefill=False),)
    """
    scheduler, counters = simulation.engine.scheduler, simulation.counters
    cache, usable = scheduler.cache, simulation.config.usable_blocks
    return Moment(
        len(scheduler.running),
        len(scheduler.waiting),
        usable - cache.num_free,
        cache.num_free_cached,
        counters.preemptions,
        len(simulation.records),
        counters.prompt_tokens,
        counters.prompt_tokens_cached,
        counters.generation_tokens,
        tuple(_holders(simulation)),
    )


def _holders(simulation: Simulation) -> Iterator[Holder]:
    engine = simulation.engine
    if isinstance(engine, JumpingEngine):
        for request in engine.scheduler.running:
            yield _counted(engine, counted(request))
        return
    counts = engine.cache.pool.ref_counts
    for request in engine.scheduler.running:
        held = [block for block in request.blocks if block != NULL_BLOCK]
        shared = sum(counts[block] > 1 for block in held)
        yield Holder(request.id, len(held) - shared, shared, request.first_token_at is None)


def _counted(engine: JumpingEngine, request: CountedRequest) -> Holder:
    num_blocks = request.num_blocks
    if request in engine.scheduler.decoding.requests:  # its own count is of when it joined
        tokens = request.num_computed_tokens + engine.scheduler.turn - request.synced_turn
        num_blocks = max(num_blocks, -(-tokens // engine.config.block_size))
    shared = bisect_left(request.entries, 1, key=_is_private)
    return Holder(request.id, num_blocks - shared, shared, request.first_token_at is None)


def _is_private(entry: Entry) -> int:
    """1 where one request holds a block, else 0; who shares a block shares all before it."""
    return int(entry.ref_count < 2)
