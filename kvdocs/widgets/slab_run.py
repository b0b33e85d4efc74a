"""One seeded workload on two allocators, step by step: what the widget `slabs-vs-blocks` shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kvdocs.allocators import Allocator, Usage
from kvdocs.workload import Uniform

NUM_REQUESTS: Final = 24
ARRIVAL_STEPS: Final = 2
"""A request arrives every so many steps."""
SEED: Final = 7
PROMPTS: Final = Uniform(6, 72)
OUTPUTS: Final = Uniform(12, 96)


class Asked(NamedTuple):
    """A request of the workload.

    Attributes:
        prompt: Tokens it comes with.
        output: Tokens it will generate.
        arrival: Step in which it arrives.
    """

    prompt: int
    output: int
    arrival: int


def workload(max_model_len: int, seed: int = SEED) -> tuple[Asked, ...]:
    """Return the requests; none is longer than the limit.

    Args:
        max_model_len: Tokens of prompt and output together, at most.
        seed: Where randomness comes from.

    Examples:
        >>> max(sum(asked[:2]) for asked in workload(128)) <= 128
        True
    """
    rng = random.Random(seed)  # noqa: S311 - a workload, not a secret
    asked = []
    for index in range(NUM_REQUESTS):
        prompt, output = PROMPTS.draw(rng), OUTPUTS.draw(rng)
        asked.append(Asked(prompt, min(output, max_model_len - prompt), index * ARRIVAL_STEPS))
    return tuple(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The memory after a step.

    Attributes:
        running: Numbers of the requests that have memory, in order of admission.
        tokens: Tokens of each stored, by number.
        extents: Where each one's memory lies, in token places, by number.
        waiting: Numbers of the requests that have arrived and have none.
        finished: Requests done.
        admitted: Requests admitted so far.
        preempted: Times a running request lost its memory.
        usage: Where the memory went.
    """

    running: tuple[int, ...]
    tokens: dict[int, int]
    extents: dict[int, tuple[range, ...]]
    waiting: tuple[int, ...]
    finished: int
    admitted: int
    preempted: int
    usage: Usage


@dataclass(slots=True)
class SlabRun:
    """A workload on one allocator; frames are made when asked for.

    Each step admits waiting requests in order of arrival while there is room, then gives every
    running one a token. One that cannot grow takes the memory of the last admitted, which waits
    again. The memory of a request that ends is free in the next step.

    Attributes:
        make: Makes the allocator.
        asked: The workload.
    """

    make: Callable[[], Allocator]
    asked: tuple[Asked, ...]
    frames: list[Frame] = field(default_factory=list)
    _memory: Allocator = field(init=False)
    _running: dict[int, int] = field(default_factory=dict)
    _waiting: list[int] = field(default_factory=list)
    _counts: dict[str, int] = field(
        default_factory=lambda: {"finished": 0, "admitted": 0, "preempted": 0}
    )

    def __post_init__(self) -> None:
        """Make the memory."""
        self._memory = self.make()

    def frame(self, step: int) -> Frame:
        """Return the memory after a step, from 0."""
        while len(self.frames) <= step:
            self._step(len(self.frames))
            self.frames.append(self._frame())
        return self.frames[step]

    def _step(self, step: int) -> None:
        self._waiting += [i for i, asked in enumerate(self.asked) if asked.arrival == step]
        for number, tokens in list(self._running.items()):
            if tokens == sum(self.asked[number][:2]):
                self._memory.free(str(number))
                del self._running[number]
                self._counts["finished"] += 1
        self._admit()
        for number in list(self._running):
            if number in self._running and self._has_room(number):
                self._memory.grow(str(number))
                self._running[number] += 1

    def _admit(self) -> None:
        while self._waiting and self._memory.can_allocate(self.asked[self._waiting[0]].prompt):
            number = self._waiting.pop(0)
            self._memory.allocate(str(number), self.asked[number].prompt)
            self._running[number] = self.asked[number].prompt
            self._counts["admitted"] += 1

    def _has_room(self, number: int) -> bool:
        """Make room for a token; the last admitted gives way, at worst the request itself."""
        while not self._memory.can_grow(str(number)):
            victim = next(reversed(self._running))
            self._memory.free(str(victim))
            del self._running[victim]
            self._waiting.insert(0, victim)
            self._counts["preempted"] += 1
            self._counts["admitted"] -= 1
            if victim == number:
                return False
        return True

    def _frame(self) -> Frame:
        return Frame(
            running=tuple(self._running),
            tokens=dict(self._running),
            extents={number: self._memory.extents(str(number)) for number in self._running},
            waiting=tuple(self._waiting),
            usage=self._memory.usage(),
            **self._counts,
        )
