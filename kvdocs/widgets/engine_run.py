"""A small engine run step by step, with a picture of its blocks after each: for animations.

Frames are made when asked for and kept, so playing costs one engine step a frame, and a moment is
the same however it was reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvdocs.blocks import BlockPool
from kvdocs.engine import EngineConfig, RequestSpec, Status, Step, SteppingEngine, StepTimer
from kvdocs.engine.events import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The engine after a step.

    Attributes:
        step: What happened in it.
        ref_counts: Holders of each block, by block id; block 0 is the null block.
        tables: Blocks of each request that has any, in the order of its tokens.
        computed: Tokens of each such request whose keys and values are stored.
        cached: Blocks that a prefix lookup could find.
        free: Free blocks, the next to be taken first.
        status: Where each request that has arrived is.
        waiting: Ids of waiting requests, next first.
        counters: What has been counted so far.
        recomputed: Tokens computed again so far after a preemption.
    """

    step: Step
    ref_counts: tuple[int, ...]
    tables: dict[str, tuple[int, ...]]
    computed: dict[str, int]
    cached: frozenset[int]
    free: tuple[int, ...]
    status: dict[str, Status]
    waiting: tuple[str, ...]
    counters: Counters
    recomputed: int


class EngineRun:
    """Requests on a stepping engine.

    Args:
        config: The engine's settings.
        specs: The requests; each joins before the first step at or after its arrival.
        timer: The timing model; one second a step when None.

    Examples:
        >>> from kvdocs.engine import DistinctPrompt
        >>> spec = RequestSpec(id="A", prompt=DistinctPrompt(20), max_tokens=4)
        >>> run = EngineRun(EngineConfig(num_blocks=8), [spec])
        >>> run.frame(0).tables, run.frame(0).free
        ({'A': (1, 2)}, (3, 4, 5, 6, 7))
    """

    def __init__(
        self, config: EngineConfig, specs: Sequence[RequestSpec], timer: StepTimer | None = None
    ) -> None:
        self.config = config
        self._engine = SteppingEngine(config, timer)
        self._to_come = sorted(specs, key=lambda spec: spec.arrival)
        self._frames: list[Frame] = []
        self._recomputed = 0
        self._lost: dict[str, int] = {}

    def frame(self, index: int) -> Frame:
        """Return the engine after a step, from 0."""
        while len(self._frames) <= index:
            self._frames.append(self._take())
        return self._frames[index]

    def frames(self, count: int) -> list[Frame]:
        """Return the engine after each of the first steps."""
        self.frame(count - 1)
        return self._frames[:count]

    def _take(self) -> Frame:
        engine = self._engine
        while self._to_come and self._to_come[0].arrival <= engine.clock:
            engine.add(self._to_come.pop(0))
        step = engine.step()
        self._count_recomputed(step)
        pool = engine.cache.pool
        holding = [request for request in engine.requests.values() if request.blocks]
        return Frame(
            step=step,
            ref_counts=tuple(pool.ref_counts),
            tables={request.id: tuple(request.blocks) for request in holding},
            computed={request.id: request.num_computed_tokens for request in holding},
            cached=frozenset(block for block in range(1, pool.num_blocks) if _has_key(pool, block)),
            free=tuple(pool.free_queue),
            status={request.id: request.status for request in engine.requests.values()},
            waiting=step.after_update.waiting,
            counters=replace(engine.gauges().counters),
            recomputed=self._recomputed,
        )

    def _count_recomputed(self, step: Step) -> None:
        """A resumed request computes what it had lost, but for what the prefix cache still has."""
        for preemption in step.preemptions:
            lost = self._lost.get(preemption.request_id, 0)
            self._lost[preemption.request_id] = max(lost, preemption.lost_tokens)
        for admission in step.admissions:
            if admission.resumed:
                lost = self._lost.pop(admission.request_id)
                self._recomputed += max(0, lost - admission.hit_tokens)


def _has_key(pool: BlockPool, block: int) -> bool:
    try:
        pool.key_of(block)
    except KeyError:
        return False
    return True
