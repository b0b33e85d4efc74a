"""How long a step takes: the hook for a timing model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class StepLoad(NamedTuple):
    """The work in one batch, as far as a timing model may depend on it.

    Attributes:
        num_tokens: Tokens computed: rows of every matrix product.
        num_seqs: Requests in the batch.
        kv_tokens: Tokens of KV cache read: each request's context, up to its sliding window.
        query_key_pairs: Scores attention computes: each token with all before it and itself.
    """

    num_tokens: int = 0
    num_seqs: int = 0
    kv_tokens: int = 0
    query_key_pairs: int = 0


NO_LOAD = StepLoad()
"""The load of a turn in which nothing ran."""


class StepTimer(Protocol):
    """A timing model: seconds for the work in a batch.

    It must be a pure function of the load. The stepping engine asks it once per turn, with an empty
    load when the turn had nothing to run. With asynchronous scheduling a turn lasts as long as the
    batch whose output it waits for.

    The jumping engine calls `decode` for a stretch of steps in which every request of the batch
    computes one token, none starts and none finishes: from one step to the next `num_tokens` and
    `num_seqs` stay, `kv_tokens` and `query_key_pairs` grow by `growth`. Inherit from
    `SteppedTimer` to get it from `seconds`. A model may override it with something faster if it
    adds up to the same floating-point number, to the last digit.
    """

    def seconds(self, load: StepLoad) -> float:
        """Duration of one step.

        Args:
            load: The batch.

        Returns:
            Seconds, not negative.
        """

    def decode(
        self, load: StepLoad, *, growth: int, clock: float, max_steps: int, until: float
    ) -> tuple[int, float]:
        """Run decode steps until `max_steps` are done or one would start at or after `until`.

        Args:
            load: The first step's batch.
            growth: Tokens by which the load's KV grows from step to step.
            clock: When the first step starts, in seconds.
            max_steps: Steps to run at most.
            until: Time at or after which no more step may start, in seconds.

        Returns:
            Steps run and the clock after them.
        """


class SteppedTimer:
    """The plain way to run a stretch of decode steps: one after the other."""

    def seconds(self, load: StepLoad) -> float:
        """Duration of one step; to be overridden."""
        raise NotImplementedError

    def decode(
        self, load: StepLoad, *, growth: int, clock: float, max_steps: int, until: float
    ) -> tuple[int, float]:
        """Add the steps up one by one."""
        num_tokens, num_seqs, kv_tokens, pairs = load
        seconds = self.seconds
        steps = 0
        while steps < max_steps and clock < until:
            clock += seconds(StepLoad(num_tokens, num_seqs, kv_tokens, pairs))
            kv_tokens += growth
            pairs += growth
            steps += 1
        return steps, clock


@dataclass(frozen=True, slots=True)
class ConstantTimer(SteppedTimer):
    """Every turn takes the same time.

    Attributes:
        step_seconds: That time.

    Examples:
        >>> timer = ConstantTimer(0.5)
        >>> timer.decode(StepLoad(8, 8), growth=8, clock=0.0, max_steps=100, until=2.0)
        (4, 2.0)
    """

    step_seconds: float = 1.0

    def seconds(self, load: StepLoad) -> float:
        """The constant."""
        del load
        return self.step_seconds

    def decode(
        self, load: StepLoad, *, growth: int, clock: float, max_steps: int, until: float
    ) -> tuple[int, float]:
        """Add the constant up."""
        del load, growth
        steps, step_seconds = 0, self.step_seconds
        while steps < max_steps and clock < until:
            clock += step_seconds
            steps += 1
        return steps, clock
