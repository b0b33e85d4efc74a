"""Set-ups under the same load, run in slices that give way to whoever wants to be heard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from kvdocs.playground.load import Load
from kvdocs.playground.moment import Moment, look
from kvdocs.playground.setup import Setup, Sized
from kvdocs.playground.trouble import Trouble
from kvdocs.server import Server, ServerRun, Simulation

MOST_MOMENTS: Final = 480
"""More are thinned out to every second one."""
_FIRST_MOMENTS: Final = 240
_SHORTEST_S: Final = 2.0**-5
_STRETCH_S: Final = 0.008
"""Seconds of our own time after which a stretch of simulated time is long enough."""


class Progress(NamedTuple):
    """How far a session has come.

    Attributes:
        ended: Requests that have ended, over all set-ups.
        total: Requests that come, over all set-ups.
        time_s: Simulated seconds.
        moments: Moments that can be looked at.
        is_done: Whether all is over.
    """

    ended: int
    total: int
    time_s: float
    moments: int
    is_done: bool


class Run:
    """One set-up under load.

    Args:
        sized: The set-up.
        load: What comes.

    Raises:
        StartError: The server does not start.
    """

    def __init__(self, sized: Sized, load: Load) -> None:
        self.sized = sized
        self.server: Server = sized.started()
        self.num_requests = load.num_requests
        self.trouble = Trouble()
        self.simulation = Simulation(
            self.server.config, self.server.timer, load.arrivals(), interval_s=None
        )
        self._stretch_s = 1.0

    def advance(self, target: float, is_over: Callable[[], bool]) -> bool:
        """Run on to a time, unless the slice is over before.

        Args:
            target: Simulated seconds.
            is_over: Whether to give way.

        Returns:
            Whether it is there.
        """
        simulation = self.simulation
        while simulation.now < target:
            if is_over():
                return False
            began = time.perf_counter()
            simulation.run_until(min(simulation.now + self._stretch_s, target))
            took = time.perf_counter() - began
            if took > _STRETCH_S:
                self._stretch_s = max(self._stretch_s / 2, 2.0**-10)
            elif took < _STRETCH_S / 4:
                self._stretch_s = min(self._stretch_s * 2, 2.0**12)
        return True

    def outcome(self) -> ServerRun:
        """What has come of it until now."""
        simulation = self.simulation
        records = tuple(sorted(simulation.records, key=lambda record: record.place))
        return ServerRun(
            config=self.server.config,
            requests=records,
            samples=(),
            log=(),
            counters=simulation.counters,
            tally=simulation.tally,
            end_s=max((record.finished_s for record in records), default=0.0),
            simulation=simulation,
            model_name=self.server.model_name,
            cache_config=self.server.cache_config,
            stories={},
        )


class Session:
    """One or two set-ups under the same load, moment by moment.

    Where the moments lie does not change what happens: a session run in slices of any length ends
    as `Server.simulate` does.

    Args:
        setups: The set-ups.
        load: What comes.

    Attributes:
        runs: The set-ups under way.
        interval_s: Simulated seconds between two moments.
        moments: What each set-up showed, moment by moment.

    Raises:
        StartError: A server that does not start.

    Examples:
        >>> from kvdocs.playground.load import Made
        >>> session = Session([Setup()], Made(num_requests=20))
        >>> session.step()
        >>> session.progress.moments
        2
        >>> session.finish()
        >>> session.outcomes[0].requests_per_s > 1
        True
    """

    def __init__(self, setups: Sequence[Setup], load: Load) -> None:
        self.load = load
        typical = load.typical_tokens
        self.runs = tuple(Run(setup.size(typical_tokens=typical), load) for setup in setups)
        self.interval_s = first_interval(load.span_s)
        self.moments: list[tuple[Moment, ...]] = [self._look()]
        self.is_done = False

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(
            sum(len(run.simulation.records) for run in self.runs),
            sum(run.num_requests for run in self.runs),
            min(run.simulation.now for run in self.runs),
            len(self.moments),
            self.is_done,
        )

    def work(self, is_over: Callable[[], bool]) -> None:
        """Run on until the slice is over, or all is done.

        Args:
            is_over: Whether to give way; asked every few milliseconds.

        Raises:
            LivelockError: Requests that take each other's blocks for ever.
        """
        while not self.is_done and self._to_next_moment(is_over):
            pass

    def step(self) -> None:
        """Run on to the next moment."""
        if not self.is_done:
            self._to_next_moment(lambda: False)

    def finish(self) -> None:
        """Run to the end."""
        self.work(lambda: False)

    def _to_next_moment(self, is_over: Callable[[], bool]) -> bool:
        target = len(self.moments) * self.interval_s
        for run in self.runs:
            if not run.advance(target, is_over):
                return False
        self.moments.append(self._look())
        self.is_done = all(run.simulation.is_done for run in self.runs)
        if len(self.moments) > MOST_MOMENTS:
            self.moments = self.moments[::2]
            self.interval_s *= 2
        return True

    def _look(self) -> tuple[Moment, ...]:
        for run in self.runs:
            run.trouble.watch(run.simulation)
        return tuple(look(run.simulation) for run in self.runs)

    @property
    def outcomes(self) -> tuple[ServerRun, ...]:
        """What has come of each set-up until now."""
        return self._outcomes if self.is_done else tuple(run.outcome() for run in self.runs)

    @cached_property
    def _outcomes(self) -> tuple[ServerRun, ...]:
        return tuple(run.outcome() for run in self.runs)


def first_interval(span_s: float) -> float:
    """Seconds between two moments to begin with: a power of two, so that times add up exactly.

    Args:
        span_s: About how long requests come.

    Examples:
        >>> first_interval(120.0), first_interval(0.0)
        (0.5, 0.03125)
    """
    wanted = max(span_s / _FIRST_MOMENTS, _SHORTEST_S)
    return 2.0 ** math.floor(math.log2(wanted))
