"""A server to play with: load and limits change while it runs, and time goes both ways.

What the server looks like at a time follows from the settings, the changes made until then and
that time alone. Copies of the state kept on the way make going back fast.
"""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from typing import Any, Final, TypeAlias

from kvdocs.engine import EngineConfig, StepTimer
from kvdocs.errors import WorkloadError
from kvdocs.server.arrivals import Arrival
from kvdocs.server.simulation import EngineKind, Simulation
from kvdocs.server.start import check_limits
from kvdocs.timing import to_grid
from kvdocs.workload import Fixed, Lengths, Part, Parts, Unshared, WorkloadRequest
from kvdocs.workload.numbers import draw_exponential

LIMITS: Final = frozenset(
    {
        "max_num_seqs",
        "max_num_batched_tokens",
        "long_prefill_token_threshold",
        "watermark",
        "scheduler_reserve_full_isl",
    }
)
"""Settings of the engine that can change while it runs; the others need another server."""


_PROMPTS: Final = Fixed(512)
_OUTPUTS: Final = Fixed(128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests that keep coming, at random.

    Attributes:
        rate: Requests per second on average; 0 for none.
        prompts: Lengths of the prompts' own parts.
        outputs: Lengths of the outputs.
        system_tokens: Length of the system prompt they all begin with; 0 for none.
    """

    rate: float = 1.0
    prompts: Lengths = _PROMPTS
    outputs: Lengths = _OUTPUTS
    system_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no load."""
        if not 0 <= self.rate < math.inf or self.system_tokens < 0:
            raise WorkloadError(
                f"rate {self.rate} and system_tokens {self.system_tokens}; both must be 0 or more"
            )


@dataclass(frozen=True, slots=True)
class Change:
    """Something that becomes different at a time.

    Attributes:
        at: The time, in seconds.
        name: A field of `Load`, or one of `LIMITS`.
        value: Its value from then on.
    """

    at: float
    name: str
    value: Any


class LiveArrivals:
    """Arrivals whose rate and lengths can change.

    What is drawn does not depend on when the rate changes: the waiting time left is stretched.

    Args:
        load: The load at the start.
        seed: Of the random numbers.
    """

    def __init__(self, load: Load, seed: int) -> None:
        self.load = load
        self._gaps = random.Random(seed)  # noqa: S311 - a simulation, not a secret
        self._lengths = random.Random(seed + 2**32)  # noqa: S311 - likewise
        self._count = 0
        self._clock = 0.0
        self._left = draw_exponential(self._gaps, 1.0)

    def set_load(self, load: Load, at: float) -> None:
        """Change the load.

        Args:
            load: The load from then on.
            at: When, in seconds; not before an earlier change.
        """
        self._left = max(self._left - max(at - self._clock, 0.0) * self.load.rate, 0.0)
        self._clock = max(self._clock, at)
        self.load = load

    def next_time(self) -> float:
        """When the next request arrives, if the load stays as it is."""
        rate = self.load.rate
        return to_grid(self._clock + self._left / rate) if rate else math.inf

    def pop(self) -> Arrival:
        """Take the next."""
        time, index = self.next_time(), self._count
        self._count += 1
        self._clock, self._left = time, draw_exponential(self._gaps, 1.0)
        return Arrival(time, index, self._request(f"r{index}"))

    def _request(self, name: str) -> WorkloadRequest:
        load = self.load
        own = load.prompts.draw(self._lengths)
        prompt: Unshared | Parts = Unshared(own)
        if load.system_tokens:
            prompt = Parts((Part("system", load.system_tokens), Part(name, own)))
        return WorkloadRequest(
            id=name, prompt=prompt, output_tokens=load.outputs.draw(self._lengths)
        )

    def ended(self, request_id: str, time: float) -> None:
        """Nobody waits for an answer."""


@dataclass(slots=True)
class _Checkpoint:
    """The state at a time, and the changes it has seen."""

    time: float
    changes: tuple[Change, ...]
    state: bytes


_MOST_KEPT: Final = 128
_Timeline: TypeAlias = list[_Checkpoint]


class LiveServer:
    """A server that can be looked at any time, in any order.

    Args:
        config: The engine's settings at the start.
        timer: The timing model.
        load: The load at the start.
        seed: Of the load.
        engine: How to run; stepping has block ids.
        interval_s: Seconds between samples.
        checkpoint_s: Simulated seconds between kept states.

    Examples:
        >>> from kvdocs.engine import ConstantTimer
        >>> live = LiveServer(EngineConfig(), ConstantTimer(0.125), Load(rate=2.0), seed=1)
        >>> later = live.at(20.0).counters.generation_tokens
        >>> live.at(5.0).now, live.at(20.0).counters.generation_tokens == later
        (5.0, True)
        >>> busier = live.at(20.0, [Change(5.0, "rate", 8.0)])
        >>> len(busier.engine.scheduler.waiting) > len(live.at(20.0).engine.scheduler.waiting)
        True
    """

    def __init__(
        self,
        config: EngineConfig,
        timer: StepTimer,
        load: Load,
        *,
        seed: int = 0,
        engine: EngineKind = EngineKind.STEPPING,
        interval_s: float = 1.0,
        checkpoint_s: float = 2.0,
    ) -> None:
        check_limits(config)
        if checkpoint_s <= 0:
            raise WorkloadError(f"checkpoint_s is {checkpoint_s}; it must be above 0")
        self._timer = timer
        self._checkpoint_s = checkpoint_s
        first = Simulation(
            config, timer, LiveArrivals(load, seed), engine=engine, interval_s=interval_s
        )
        self._kept: _Timeline = [self._keep(first, 0.0, ())]
        self._current: tuple[Simulation, float, tuple[Change, ...]] = (first, 0.0, ())

    def at(self, time: float, changes: Sequence[Change] = ()) -> Simulation:
        """The server at a time.

        Args:
            time: Seconds, 0 or more.
            changes: What becomes different and when, in order of time; later ones are ignored.

        Returns:
            The simulation, after all turns begun before that time. It is only to be looked at, and
            only until the next call.

        Raises:
            WorkloadError: Changes out of order, or of something that cannot change.
            FlagError: Limits that vLLM would not take.
        """
        wanted = tuple(change for change in changes if change.at < time)
        if any(one.at > two.at for one, two in pairwise(wanted)):
            raise WorkloadError("the changes are not in order of time")
        simulation, now, seen = self._nearest(time, wanted)
        for change in wanted[len(seen) :]:
            now = self._run(simulation, now, change.at, seen)
            _apply(simulation, change)
            seen = (*seen, change)
            self._current = (simulation, now, seen)
        self._run(simulation, now, time, seen)
        return simulation

    def _run(
        self, simulation: Simulation, now: float, until: float, seen: tuple[Change, ...]
    ) -> float:
        """Run on, keeping the state now and then."""
        every = self._checkpoint_s
        stop = (math.floor(now / every) + 1) * every
        while stop < until:
            simulation.run_until(stop)
            if not any(kept.time == stop and kept.changes == seen for kept in self._kept):
                self._kept.append(self._keep(simulation, stop, seen))
                self._thin_out(seen)
            stop += every
        simulation.run_until(until)
        self._current = (simulation, until, seen)
        return until

    def _thin_out(self, seen: tuple[Change, ...]) -> None:
        """Forget states off the present path when there are too many, then every second one."""
        if len(self._kept) <= _MOST_KEPT:
            return
        path = [kept for kept in self._kept if seen[: len(kept.changes)] == kept.changes]
        self._kept = path if len(path) <= _MOST_KEPT // 2 else path[::2]

    def _nearest(
        self, time: float, wanted: tuple[Change, ...]
    ) -> tuple[Simulation, float, tuple[Change, ...]]:
        """The latest known state on the way to the wanted one."""

        def is_on_the_way(at: float, seen: tuple[Change, ...]) -> bool:
            missing = wanted[len(seen) :]
            same = wanted[: len(seen)] == seen
            return at <= time and same and (not missing or missing[0].at >= at)

        best = max(
            (kept for kept in self._kept if is_on_the_way(kept.time, kept.changes)),
            key=lambda kept: (kept.time, len(kept.changes)),
        )
        simulation, now, seen = self._current
        if is_on_the_way(now, seen) and (now, len(seen)) >= (best.time, len(best.changes)):
            return simulation, now, seen
        return self._restore(best.state), best.time, best.changes

    def _keep(
        self, simulation: Simulation, time: float, changes: tuple[Change, ...]
    ) -> _Checkpoint:
        buffer = BytesIO()
        _Pickler(buffer, self._timer).dump(simulation)
        return _Checkpoint(time, changes, buffer.getvalue())

    def _restore(self, state: bytes) -> Simulation:
        simulation: Simulation = _Unpickler(BytesIO(state), self._timer).load()
        return simulation


class _Pickler(pickle.Pickler):
    """Leaves the timing model out: it never changes."""

    def __init__(self, file: BytesIO, timer: StepTimer) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._timer = timer

    def persistent_id(self, obj: Any) -> str | None:
        return "timer" if obj is self._timer else None


class _Unpickler(pickle.Unpickler):
    """Puts the timing model back."""

    def __init__(self, file: BytesIO, timer: StepTimer) -> None:
        super().__init__(file)
        self._timer = timer

    def persistent_load(self, pid: Any) -> StepTimer:
        del pid
        return self._timer


def _apply(simulation: Simulation, change: Change) -> None:
    arrivals = simulation.arrivals
    if change.name in LIMITS:
        config = replace(simulation.config, **{change.name: change.value})
        check_limits(config)
        simulation.reconfigure(config)
    elif isinstance(arrivals, LiveArrivals) and change.name in Load.__dataclass_fields__:
        arrivals.set_load(replace(arrivals.load, **{change.name: change.value}), change.at)
    else:
        raise WorkloadError(
            f"{change.name!r} cannot change while the server runs; allowed are "
            f"{', '.join(sorted(LIMITS | set(Load.__dataclass_fields__)))}"
        )
