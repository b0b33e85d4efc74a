"""The jumping engine: the stepping engine's decisions without its steps.

Most turns decide nothing: every running request computes one token and the queue stays as it is.
A stretch of such turns is one jump; a turn that decides something is taken by the scheduler.
Sliding windows are left to the stepping engine: their blocks come and go all the time.
"""

from __future__ import annotations

from kvdocs.engine.config import EngineConfig
from kvdocs.engine.counting import CountedRequest, CountingKVCache
from kvdocs.engine.events import Gauges
from kvdocs.engine.jumping_scheduler import JumpingScheduler
from kvdocs.engine.loop import Engine
from kvdocs.engine.request import Request, RequestSpec
from kvdocs.engine.stepping import SteppingEngine
from kvdocs.engine.timer import ConstantTimer, StepTimer
from kvdocs.errors import FlagError


class JumpingEngine:
    """A serving engine that skips what is not a decision.

    Args:
        config: The settings.
        timer: The timing model; by default every turn takes one second.

    Attributes:
        clock: Time now, in seconds.
        requests: Every request ever added, by id.
        scheduler: The scheduler, for a look at its queues.

    Raises:
        FlagError: The settings have a sliding window; see `fast_engine`.

    Examples:
        >>> from kvdocs.engine.prompt import DistinctPrompt
        >>> engine = JumpingEngine(EngineConfig())
        >>> engine.add(RequestSpec(id="a", prompt=DistinctPrompt(20), max_tokens=1000))
        >>> engine.advance(until=500.0)
        >>> engine.clock
        500.0
        >>> engine.advance(until=float("inf"))
        >>> engine.clock, engine.has_unfinished
        (1000.0, False)
    """

    def __init__(self, config: EngineConfig, timer: StepTimer | None = None) -> None:
        if config.sliding_window is not None:
            raise FlagError(
                f"sliding_window is {config.sliding_window}: the jumping engine has full attention "
                "only; fast_engine picks the right one"
            )
        self.config = config
        self.clock = 0.0
        self.requests: dict[str, Request] = {}
        self._timer = timer or ConstantTimer()
        self._cache = CountingKVCache(config)
        self.scheduler = JumpingScheduler(config, self._cache)

    def add(self, spec: RequestSpec) -> None:
        """Hand a request to the engine.

        Args:
            spec: What the user asks for.
        """
        request = CountedRequest(spec, self.config)
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
        return True

    @property
    def has_unfinished(self) -> bool:
        """Whether any request is running or waiting."""
        return self.scheduler.has_unfinished

    def gauges(self) -> Gauges:
        """What the engine shows now.

        Returns:
            Time, queues, cache usage and counters.
        """
        return self.scheduler.gauges()

    def advance(self, until: float) -> None:
        """Take one turn by the rules, then all the uneventful ones that follow.

        It never passes the end of a request: whoever waits for that can act on it.

        Args:
            until: Seconds on the engine's clock; no turn starts then or later.
        """
        finished = False
        if self.clock < until and not self.scheduler.num_uneventful_turns():
            finished = self._take_turn()
        if self.clock < until and not finished:
            num_turns = self.scheduler.num_uneventful_turns()
            if num_turns:
                self._jump(num_turns, until)

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other settings.

        Args:
            config: Settings that differ in limits only.
        """
        self.config = config
        self.scheduler.reconfigure(config)

    def _take_turn(self) -> bool:
        scheduler = self.scheduler
        scheduler.clock = self.clock
        batch = due = scheduler.schedule()
        if self.config.async_scheduling:
            due, scheduler.pending = scheduler.pending, batch
        seconds = self._timer.seconds(due.load)
        scheduler.tally.add_work(due.load)
        self.clock += seconds
        scheduler.clock = self.clock
        finished = bool(scheduler.update_all(due, seconds))
        scheduler.end_turn(batch, finished=finished)
        return finished

    def _jump(self, num_turns: int, until: float) -> None:
        """Jump, or stop on the way where `until` is passed.

        A turn lasts as long as the batch whose output it brings: with asynchronous scheduling the
        one before.
        """
        scheduler, late = self.scheduler, int(self.config.async_scheduling)
        first = scheduler.pending.load if late else scheduler.decode_load()
        seconds = self._timer.seconds(first)
        scheduler.tally.add_work(first)
        start = self.clock = scheduler.clock = self.clock + seconds
        scheduler.tally_first_turn(seconds)
        load = scheduler.decode_load(1 - late)
        more, self.clock = self._timer.decode(
            load, growth=load.num_seqs, clock=start, max_steps=num_turns - 1, until=until
        )
        scheduler.clock = self.clock
        scheduler.tally.add_stretch(self._timer, load, more, self.clock - start)
        scheduler.jump(1 + more)


def fast_engine(config: EngineConfig, timer: StepTimer | None = None) -> Engine:
    """The fastest engine for some settings.

    Args:
        config: The settings.
        timer: The timing model; by default every turn takes one second.

    Returns:
        A jumping engine, or a stepping one where a sliding window asks for it.
    """
    if config.sliding_window is None:
        return JumpingEngine(config, timer)
    return SteppingEngine(config, timer)
