"""A server under way: requests arrive, the engine runs, somebody looks at the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from kvdocs.engine import EngineConfig, JumpingEngine, SteppingEngine, StepTimer
from kvdocs.engine.events import Counters
from kvdocs.engine.tally import Tally
from kvdocs.errors import FlagError, NeverFitsError
from kvdocs.server.adapt import to_spec
from kvdocs.server.arrivals import Arrivals
from kvdocs.server.records import FinishReason, RequestRecord, Sample, record_of
from kvdocs.stats_log import StatsLine

LOG_INTERVAL_S: Final = 10.0
"""Seconds between statistics lines (vLLM 0.33.0 `vllm/envs.py`, VLLM_LOG_STATS_INTERVAL)."""

AnyEngine: TypeAlias = SteppingEngine | JumpingEngine


class EngineKind(StrEnum):
    """How to run: step by step, or from decision to decision. The results are the same."""

    STEPPING = "stepping"
    JUMPING = "jumping"


def make_engine(kind: EngineKind | AnyEngine, config: EngineConfig, timer: StepTimer) -> AnyEngine:
    """An engine; a sliding window is always stepped.

    Args:
        kind: Which is wanted, or one made already.
        config: The settings.
        timer: The timing model.
    """
    if not isinstance(kind, EngineKind):
        return kind
    if kind is EngineKind.STEPPING or config.sliding_window is not None:
        return SteppingEngine(config, timer)
    return JumpingEngine(config, timer)


class Simulation:
    """A server under way. It can be run on, looked at, and given other limits.

    Args:
        config: The engine's settings.
        timer: The timing model.
        arrivals: The requests to come.
        engine: How to run, or a fresh engine with these settings and this timing model.
        interval_s: Seconds between samples; None takes none.
        priorities: Priorities of requests by id; 0 where not named.
        keep_log: Whether to note a statistics line every 10 s.

    Attributes:
        engine: The engine, for a look at its requests and blocks.
        now: Up to when it has run, in seconds.
        records: Requests that have ended, in order of their end.
        samples: Metrics over time.
        log: Statistics lines with their times.
        on_end: Called with the number of requests that have ended, whenever some have.
        on_join: Called with the id of a request when it has joined the queue.

    Examples:
        >>> from kvdocs.engine import ConstantTimer
        >>> from kvdocs.server.arrivals import ListedArrivals
        >>> from kvdocs.workload import Unshared, WorkloadRequest
        >>> request = WorkloadRequest(id="a", prompt=Unshared(20), output_tokens=6, arrival_s=2.0)
        >>> simulation = Simulation(EngineConfig(), ConstantTimer(0.5), ListedArrivals([request]))
        >>> simulation.run_until(4.0)
        >>> simulation.engine.gauges().running, simulation.samples[-1].generation_tokens_per_s
        (1, 2.0)
        >>> simulation.run_until(100.0)
        >>> simulation.records[0].finished_s
        5.0
    """

    def __init__(
        self,
        config: EngineConfig,
        timer: StepTimer,
        arrivals: Arrivals,
        *,
        engine: EngineKind | AnyEngine = EngineKind.JUMPING,
        interval_s: float | None = 1.0,
        priorities: Mapping[str, int] | None = None,
        keep_log: bool = False,
    ) -> None:
        if interval_s is not None and interval_s <= 0:
            raise FlagError(f"interval_s is {interval_s}; it must be above 0")
        self.engine = make_engine(engine, config, timer)
        self.arrivals = arrivals
        self.now = 0.0
        self.records: list[RequestRecord] = []
        self.samples: list[Sample] = []
        self.log: list[tuple[float, StatsLine]] = []
        self.on_end: Callable[[int], None] | None = None
        self.on_join: Callable[[str], None] | None = None
        self._places: dict[str, int] = {}
        self._priorities = dict(priorities or {})
        self._interval_s = interval_s
        self._keep_log = keep_log
        self._num_samples = self._num_lines = 0
        self._mark = self._next_mark()
        self._sampled = Counters()
        self._logged = Counters()
        self._was_idle = True

    @property
    def config(self) -> EngineConfig:
        """The settings in force."""
        return self.engine.config

    @property
    def counters(self) -> Counters:
        """What has been counted since the start."""
        return self.engine.scheduler.counters

    @property
    def tally(self) -> Tally:
        """Gaps between tokens, and tokens per turn."""
        return self.engine.scheduler.tally

    @property
    def is_done(self) -> bool:
        """Whether all requests have ended and none is known to come."""
        return not self.engine.has_unfinished and self.arrivals.next_time() == math.inf

    def reconfigure(self, config: EngineConfig) -> None:
        """Give the server other limits from now on.

        Args:
            config: Settings; those of the cache and the queue must be the same as before.
        """
        self.engine.reconfigure(config)

    # Running ----------------------------------------------------------------------------------

    def run_until(self, until: float) -> None:
        """Take every turn that begins before a time, and the samples up to it.

        Args:
            until: Seconds; infinite runs to the end.
        """
        engine, arrivals, ended = self.engine, self.arrivals, self.engine.scheduler.ended
        while True:
            busy, due = engine.has_unfinished, arrivals.next_time()
            begin = engine.clock if busy else max(engine.clock, due)
            if begin == math.inf == until:
                break
            if self._mark <= begin and self._mark <= until:
                self._take_mark()
                continue
            if begin >= until:
                break
            engine.clock = begin
            while due <= begin:
                self._admit_next()
                due = arrivals.next_time()
            if engine.has_unfinished:
                engine.advance(min(until, self._mark, due))
                if ended:
                    self._take_ended()
        if until < math.inf:
            self.now = max(self.now, until)
        else:
            self.now = max(self.now, engine.clock)

    def run_to_end(self) -> None:
        """Run until all requests have ended, then take a sample, and lines until one is idle."""
        self.run_until(math.inf)
        if self._interval_s is not None:
            self._take_sample(self._num_samples * self._interval_s)
        while self._keep_log and not (self._was_idle and _is_idle(self.stats_line())):
            self._take_line()

    def _admit_next(self) -> None:
        arrival = self.arrivals.pop()
        request = arrival.request
        priority = self._priorities.get(request.id, 0) if self._priorities else 0
        try:
            spec = to_spec(request, self.config, arrival=arrival.time, priority=priority)
        except NeverFitsError as error:
            self.records.append(
                RequestRecord(
                    id=request.id,
                    place=arrival.place,
                    arrival_s=arrival.time,
                    admitted_s=None,
                    first_token_s=None,
                    finished_s=arrival.time,
                    reason=FinishReason.REFUSED,
                    num_prompt_tokens=request.num_prompt_tokens,
                    max_tokens=request.output_tokens,
                    num_output_tokens=0,
                    refusal=str(error),
                )
            )
            self.arrivals.ended(request.id, arrival.time)
        else:
            self._places[request.id] = arrival.place
            self.engine.add(spec)
            if self.on_join is not None:
                self.on_join(request.id)

    def _take_ended(self) -> None:
        ended = self.engine.scheduler.ended
        for request in ended:
            record = record_of(request, self._places.pop(request.id))
            del self.engine.requests[request.id]
            self.records.append(record)
            self.arrivals.ended(request.id, record.finished_s)
        ended.clear()
        if self.on_end is not None:
            self.on_end(len(self.records))

    # Looking ----------------------------------------------------------------------------------

    def _next_mark(self) -> float:
        """When the next sample or line is due."""
        sample = math.inf if self._interval_s is None else self._num_samples * self._interval_s
        line = (self._num_lines + 1) * LOG_INTERVAL_S if self._keep_log else math.inf
        return min(sample, line)

    def _take_mark(self) -> None:
        if self._interval_s is not None and self._mark == self._num_samples * self._interval_s:
            self._take_sample(self._mark)
        if self._keep_log and self._mark == (self._num_lines + 1) * LOG_INTERVAL_S:
            self._take_line()
        self._mark = self._next_mark()

    def _take_sample(self, time: float) -> None:
        scheduler, counters = self.engine.scheduler, self.counters
        before, interval = self._sampled, self._interval_s or 1.0
        new_prompt_tokens = counters.prompt_tokens - before.prompt_tokens
        new_tokens = counters.generation_tokens - before.generation_tokens
        self.samples.append(
            Sample(
                time,
                len(scheduler.running),
                len(scheduler.waiting),
                scheduler.cache.usage,
                counters.preemptions,
                len(self.records),
                self.prefix_hit_rate,
                new_prompt_tokens / interval,
                new_tokens / interval,
            )
        )
        self._num_samples += 1
        before.prompt_tokens = counters.prompt_tokens
        before.generation_tokens = counters.generation_tokens

    @property
    def prefix_hit_rate(self) -> float:
        """Share of looked-up tokens found, over about the last 1,000 requests; 0 without any."""
        lookups = self.tally.lookups
        return lookups.hits / lookups.queries if lookups.queries else 0.0

    def _take_line(self) -> None:
        """Note a line, as vLLM prints it; an idle server says so once, then nothing."""
        self._num_lines += 1
        line = self.stats_line()
        idle = _is_idle(line)
        if not (idle and self._was_idle):
            self.log.append((self._num_lines * LOG_INTERVAL_S, line))
        self._was_idle = idle
        counters, logged = self.counters, self._logged
        logged.prompt_tokens = counters.prompt_tokens
        logged.prompt_tokens_cached = counters.prompt_tokens_cached
        logged.generation_tokens = counters.generation_tokens
        logged.preemptions = counters.preemptions

    def stats_line(self) -> StatsLine:
        """The statistics line of the last 10 s, if they ended now."""
        scheduler, counters, logged = self.engine.scheduler, self.counters, self._logged
        prompt_tokens = counters.prompt_tokens - logged.prompt_tokens
        prompt_tokens -= counters.prompt_tokens_cached - logged.prompt_tokens_cached
        new_tokens = counters.generation_tokens - logged.generation_tokens
        return StatsLine(
            prompt_tokens_per_s=prompt_tokens / LOG_INTERVAL_S,
            generation_tokens_per_s=new_tokens / LOG_INTERVAL_S,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_cache_usage=scheduler.cache.usage,
            engine=0,
            preemptions=counters.preemptions - logged.preemptions,
            prefix_hit_rate=self.prefix_hit_rate,
        )


def _is_idle(line: StatsLine) -> bool:
    return not (line.prompt_tokens_per_s or line.generation_tokens_per_s)
