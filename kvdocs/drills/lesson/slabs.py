"""Step 12: slabs that fit, and how much of the pool then holds a token."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.allocators import ContiguousAllocator
from kvdocs.blocks import blocks_for
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, size_lesson

_LIMITS: Final = (4_096, 8_192, 16_384, 32_768)
_USED: Final = (900, 1_200, 1_500, 1_800, 2_400, 3_000)


@dataclass(frozen=True, slots=True)
class Slabs:
    """A server of the lesson that reserves a slab of the limit for each request.

    Attributes:
        limit: Longest request allowed, in tokens.
        used: Tokens a request really holds.
    """

    limit: int
    used: int

    @property
    def pool(self) -> int:
        """Tokens of the pool."""
        return size_lesson().pool_tokens

    @property
    def filled(self) -> tuple[int, float]:
        """Requests that get a slab, and the percentage of the pool that holds a token then."""
        memory = ContiguousAllocator(self.pool, max_model_len=self.limit)
        requests = 0
        while memory.can_allocate(self.used):
            memory.allocate(str(requests), self.used)
            requests += 1
        usage = memory.usage()
        return requests, 100 * usage.used / usage.capacity

    @property
    def fit(self) -> int:
        """Requests that get a slab."""
        return self.filled[0]

    @property
    def percent(self) -> float:
        """Percentage of the pool that holds a token when no slab is free."""
        return self.filled[1]

    @property
    def paged(self) -> int:
        """Requests that the same pool takes in blocks."""
        size = LESSON.block_size
        return self.pool // size // blocks_for(self.used, size)


def _draw(rng: random.Random) -> Slabs:
    return Slabs(rng.choice(_LIMITS), rng.choice(_USED))


def _story(p: Slabs) -> str:
    return (
        f"The pool holds {p.pool:,} tokens. The server reserves a slab of {p.limit:,} tokens, the "
        f"limit, for each request, and a typical request holds {p.used:,} tokens."
    )


def _count_misconceptions(p: Slabs) -> Iterator[Misconception]:
    yield Misconception(
        "divided by what is used",
        p.pool // p.used,
        "That is how many would fit if each took what it uses. Each reserves the limit.",
    )
    yield Misconception(
        "rounded up",
        p.fit + 1,
        "One too many: what is left over is too short for a whole slab.",
    )
    yield Misconception(
        "reserved the limit on top",
        p.pool // (p.limit + p.used),
        "You reserved the limit and the use besides. What is used lies inside the slab.",
    )
    yield Misconception(
        "reserved what is left",
        p.pool // (p.limit - p.used),
        "You took only the empty part of each slab. The written part takes room as well.",
    )


def _count_hints(p: Slabs) -> tuple[str, ...]:
    return (
        "Which of the three numbers does a slab have: pool, limit or use?",
        f"How often do {p.limit:,} tokens go into {p.pool:,}?",
    )


def _count_solution(p: Slabs) -> tuple[str | Element, ...]:
    return (
        working(
            (f"{p.pool:,} / {p.limit:,} = {p.pool / p.limit:.2f}", f"so {p.fit} whole slabs"),
        ),
        (
            f"In blocks of {LESSON.block_size}, handed out as they are needed, the same pool takes "
            f"{p.paged:,} such requests."
        ),
    )


SLAB_COUNT: Final = Drill(
    id="slabs-at-the-limit",
    kind=Number(Count("requests", ("slabs", "sequences")), tolerance=0),
    first=Slabs(16_384, 1_500),
    draw=_draw,
    question=lambda p: f"{_story(p)} How many requests run at once?",
    answer=lambda p: p.fit,
    misconceptions=_count_misconceptions,
    hints=_count_hints,
    solution=_count_solution,
)
"""Say how many slabs of the limit fit."""


def _share_misconceptions(p: Slabs) -> Iterator[Misconception]:
    yield Misconception(
        "took the empty part",
        100 - p.percent,
        "That is the part that holds nothing. Asked is the part that holds a token.",
    )
    yield Misconception(
        "took the reserved part",
        100 * p.fit * p.limit / p.pool,
        "So much is reserved. Most of it is never written.",
    )
    yield Misconception(
        "one request",
        round(100 * p.used / p.pool, 1),
        f"That is one request. {p.fit} run at once.",
    )
    yield Misconception(
        "turned it round",
        round(p.limit / p.used, 1),
        "That is how many times its use a slab is. Asked is a part of the pool, in percent.",
    )


def _share_hints(p: Slabs) -> tuple[str, ...]:
    return (
        "First how many run, then how many tokens they hold together.",
        f"{p.fit} slabs fit, each with {p.used:,} tokens in it.",
    )


def _share_solution(p: Slabs) -> tuple[str | Element, ...]:
    held = p.fit * p.used
    return (
        working(
            (f"{p.pool:,} / {p.limit:,} → {p.fit}", "whole slabs"),
            (f"{p.fit} × {p.used:,} = {held:,}", "tokens that are there"),
            (f"{held:,} / {p.pool:,} = {p.percent:.1f} %", "of the pool"),
        ),
        "The rest is reserved and never written, or too short for one more slab.",
    )


SLAB_SHARE: Final = Drill(
    id="slabs-that-hold-a-token",
    kind=Number(Count("%", ("percent",), digits=1), tolerance=0.02),
    first=Slabs(16_384, 1_500),
    draw=_draw,
    question=lambda p: (
        f"{_story(p)} When no more requests get in, which part of the pool holds a token?"
    ),
    answer=lambda p: p.percent,
    misconceptions=_share_misconceptions,
    hints=_share_hints,
    solution=_share_solution,
)
"""Say which part of a pool of slabs holds tokens."""
