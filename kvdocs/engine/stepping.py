"""The stepping engine: one step at a time, everything recorded. The reference."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from kvdocs.engine.config import EngineConfig
from kvdocs.engine.events import Admission, Finish, Gauges, Preemption, PrefixStats, Wait
from kvdocs.engine.kv_cache import PagedKVCache
from kvdocs.engine.request import Request, RequestSpec
from kvdocs.engine.scheduler import Batch, Scheduler
from kvdocs.engine.timer import ConstantTimer, StepTimer

_BATCHES_IN_FLIGHT = 2
"""Length of the batch queue of asynchronous scheduling (vLLM: `max_concurrent_batches`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The engine as its gauges show it.

    Attributes:
        running: Ids of running requests, in order of admission.
        waiting: Ids of waiting requests, next first.
        free_blocks: Blocks nobody holds.
        cached_prefixes: Distinct blocks that a prefix lookup could find.
        usage: Share of the usable blocks that are held.
    """

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    free_blocks: int
    cached_prefixes: int
    usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of the engine: what was decided, why, and what came of it.

    Attributes:
        start: When the turn began, in seconds.
        end: When it ended.
        scheduled: Id and number of tokens of each request in the batch, in scheduling order.
        new_blocks: Blocks each request newly got, by id.
        admissions: Waiting requests that started.
        preemptions: Running requests that lost their blocks, and to whom.
        wait: Why the head of the queue is still waiting, if somebody is.
        evicted: Blocks that lost what they cached, in order.
        after_schedule: The engine once the batch was decided.
        finished: Requests that ended with the output that came back in this turn.
        after_update: The engine at the end of the turn.
        updated: Whether any output came back (not in the first turn of asynchronous scheduling).
        prefix_stats: Lookups since the last turn with output.
    """

    start: float
    end: float
    scheduled: tuple[tuple[str, int], ...]
    new_blocks: dict[str, tuple[int, ...]]
    admissions: tuple[Admission, ...]
    preemptions: tuple[Preemption, ...]
    wait: Wait | None
    evicted: tuple[int, ...]
    after_schedule: Snapshot
    finished: tuple[Finish, ...]
    after_update: Snapshot
    updated: bool
    prefix_stats: PrefixStats


class SteppingEngine:
    """A serving engine driven from outside: add, abort, step.

    Args:
        config: The settings.
        timer: The timing model; by default every turn takes one second.

    Attributes:
        clock: Time now, in seconds.
        cache: The KV cache, for a look at its blocks.
        scheduler: The scheduler, for a look at its queues.
        requests: Every request ever added, by id.

    Examples:
        >>> from kvdocs.engine.prompt import DistinctPrompt
        >>> engine = SteppingEngine(EngineConfig(num_blocks=8))
        >>> engine.add(RequestSpec(id="a", prompt=DistinctPrompt(20), max_tokens=2))
        >>> step = engine.step()
        >>> step.scheduled, step.new_blocks, step.after_update.free_blocks
        ((('a', 20),), {'a': (1, 2)}, 5)
        >>> engine.step().finished[0].num_output_tokens
        2
    """

    def __init__(self, config: EngineConfig, timer: StepTimer | None = None) -> None:
        self.config = config
        self.clock = 0.0
        self._timer = timer or ConstantTimer()
        self.cache = PagedKVCache(config)
        self.scheduler = self._make_scheduler()
        self.requests: dict[str, Request] = {}
        self._in_flight: deque[Batch] = deque()
        self._ended_unreported = False

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(self.config, self.cache)

    def add(self, spec: RequestSpec) -> None:
        """Hand a request to the engine.

        Args:
            spec: What the user asks for.
        """
        request = Request(spec, self.config)
        self.requests[spec.id] = request
        self.scheduler.add(request)

    def abort(self, request_id: str) -> bool:
        """Give up on a request.

        Args:
            request_id: Its id.

        Returns:
            False if there was nothing to end: unknown, or finished already.
        """
        request = self.requests.get(request_id)
        if request is None or request.is_finished:
            return False
        self.scheduler.clock = self.clock
        self.scheduler.abort(request)
        self._ended_unreported = True
        return True

    @property
    def has_unfinished(self) -> bool:
        """Whether any request is running or waiting."""
        return self.scheduler.has_unfinished

    @property
    def must_schedule(self) -> bool:
        """Whether the engine would schedule, be it only to report ended requests to the worker."""
        return self.has_unfinished or self._ended_unreported

    @property
    def must_step(self) -> bool:
        """Whether a turn would do anything, be it only to collect the last batch."""
        return self.must_schedule or bool(self._in_flight)

    def step(self) -> Step:
        """Take one turn: schedule a batch, then process the oldest output there is.

        Synchronous scheduling waits for the output of the batch just scheduled; asynchronous
        scheduling for that of the batch before. vLLM 0.33.0 `vllm/v1/engine/core.py` step and
        step_with_batch_queue.

        Returns:
            What happened.
        """
        start = self.scheduler.clock = self.clock
        self.cache.pool.evicted.clear()
        batch = self._schedule() if self.must_schedule else Batch(0, 0)
        after_schedule = self.snapshot()
        evicted = tuple(self.cache.pool.evicted)
        updated = self._output_is_due(batch)
        due = self._in_flight.popleft() if updated else Batch(0, 0)
        self.clock += self._seconds(due)
        self.scheduler.tally.add_work(due.load)
        self.scheduler.clock = self.clock
        finished = self._update(due)
        self._ended_unreported |= bool(finished)
        return Step(
            start=start,
            end=self.clock,
            scheduled=tuple((request.id, count) for request, count in batch.num_tokens.items()),
            new_blocks={r.id: tuple(blocks) for r, blocks in batch.new_blocks.items()},
            admissions=tuple(batch.admissions),
            preemptions=tuple(batch.preemptions),
            wait=batch.wait,
            evicted=evicted,
            after_schedule=after_schedule,
            finished=tuple(finished),
            after_update=self.snapshot() if updated else after_schedule,
            updated=updated,
            prefix_stats=self.scheduler.take_prefix_stats() if updated else PrefixStats(),
        )

    def _seconds(self, due: Batch) -> float:
        """How long the turn takes that brings a batch's output."""
        return self._timer.seconds(due.load) + due.stall_s

    def _update(self, due: Batch) -> list[Finish]:
        counters = self.scheduler.counters
        before = counters.prompt_tokens + counters.generation_tokens
        finished = self.scheduler.update(due)
        brought = counters.prompt_tokens + counters.generation_tokens - before
        self.scheduler.tally.add_turns(brought)
        return finished

    def _schedule(self) -> Batch:
        batch = self.scheduler.schedule()
        self._in_flight.append(batch)
        self._ended_unreported = False
        return batch

    def _output_is_due(self, batch: Batch) -> bool:
        """The batch queue is filled first; only a full one, or an idle engine, waits for output."""
        if not self._in_flight:
            return False
        if not self.config.async_scheduling or len(self._in_flight) == _BATCHES_IN_FLIGHT:
            return True
        return not batch.num_tokens and not self.has_unfinished

    def advance(self, until: float) -> None:
        """Take one turn, which must not start at or after `until`.

        Args:
            until: Seconds on the engine's clock.
        """
        if self.clock < until:
            self.step()

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other settings.

        Args:
            config: Settings that differ in limits only.
        """
        self.config = config
        self.cache.reconfigure(config)
        self.scheduler.reconfigure(config)

    def gauges(self) -> Gauges:
        """What the engine shows now.

        Returns:
            Time, queues, cache usage and counters.
        """
        return self.scheduler.gauges()

    def snapshot(self) -> Snapshot:
        """The engine as its gauges show it now.

        Returns:
            Queues and cache.
        """
        return Snapshot(
            running=_ids(self.scheduler.running),
            waiting=_ids(list(self.scheduler.waiting)),
            free_blocks=self.cache.num_free,
            cached_prefixes=self.cache.pool.num_cached,
            usage=self.cache.usage,
        )


def _ids(requests: Sequence[Request]) -> tuple[str, ...]:
    return tuple(request.id for request in requests)
