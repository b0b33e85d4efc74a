"""Step 13: blocks that requests take, and what stays empty in them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.allocators import PagedAllocator, Usage
from kvdocs.blocks import blocks_for
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON

BLOCK: Final = LESSON.block_size
_LIMIT: Final = 8_192


@dataclass(frozen=True, slots=True)
class Blocks:
    """Requests that hold so many tokens each."""

    lengths: tuple[int, int, int]

    @property
    def usage(self) -> Usage:
        """Where they lie in a paged memory of ample size."""
        memory = PagedAllocator(len(self.lengths) * _LIMIT, block_size=BLOCK)
        for number, tokens in enumerate(self.lengths):
            memory.allocate(str(number), tokens)
        return memory.usage()

    @property
    def count(self) -> int:
        """Blocks they take."""
        return self.usage.reserved // BLOCK

    @property
    def empty(self) -> int:
        """Token places in those blocks that hold nothing."""
        return self.usage.wasted

    @property
    def listed(self) -> str:
        """Their lengths in words."""
        first, second, third = (f"{tokens:,}" for tokens in self.lengths)
        return f"{first}, {second} and {third} tokens"

    @property
    def count_added_first(self) -> int:
        """Blocks that one request of all the tokens would take."""
        return blocks_for(sum(self.lengths), BLOCK)


def _draw(rng: random.Random) -> Blocks:
    """Draw lengths of which one makes whole blocks now and then, and that tell who adds first."""
    while True:
        some, other = rng.randint(20, 3_000), rng.randint(20, 3_000)
        last = rng.choice((BLOCK * rng.randint(2, 100), rng.randint(20, 400)))
        drawn = Blocks((some, other, last))
        if drawn.count_added_first < drawn.count:
            return drawn


def _count_misconceptions(p: Blocks) -> Iterator[Misconception]:
    yield Misconception(
        "rounded down",
        sum(tokens // BLOCK for tokens in p.lengths),
        "The last tokens of a request need a block too, if only a part of it.",
    )
    yield Misconception(
        "added first",
        p.count_added_first,
        "You added first. Each request rounds up for itself.",
    )
    yield Misconception(
        "always one more",
        sum(tokens // BLOCK + 1 for tokens in p.lengths),
        "One too many where the tokens fill their blocks exactly: the next is taken when a token "
        "needs it.",
    )
    yield Misconception(
        "gave each the limit",
        len(p.lengths) * blocks_for(_LIMIT, BLOCK),
        "That reserves the limit for each. Blocks are taken for tokens that are there.",
    )
    yield Misconception(
        "counted tokens",
        p.usage.reserved,
        "Those are the token places in the blocks. Asked are the blocks.",
    )


def _each(p: Blocks) -> Iterator[tuple[str, str]]:
    for tokens in p.lengths:
        blocks = blocks_for(tokens, BLOCK)
        empty = blocks * BLOCK - tokens
        yield (
            f"{tokens:,} / {BLOCK} = {tokens / BLOCK:g} → {blocks}",
            f"blocks, {empty} {'place' if empty == 1 else 'places'} empty in the last",
        )


def _count_solution(p: Blocks) -> tuple[str | Element, ...]:
    return (
        working(*_each(p), (f"{p.count:,}", "blocks together")),
        "Each request rounds up for itself, to the next whole block.",
    )


BLOCK_COUNT: Final = Drill(
    id="blocks-of-three-requests",
    kind=Number(Count("blocks"), tolerance=0),
    first=Blocks((1_000, 250, 66)),
    draw=_draw,
    question=lambda p: (
        f"Three requests hold {p.listed}, and nothing is shared. How many blocks of {BLOCK} tokens "
        "do they take together?"
    ),
    answer=lambda p: p.count,
    misconceptions=_count_misconceptions,
    hints=lambda p: (
        "A request never gets a part of a block: round up, for each of them.",
        f"{p.lengths[0]:,} / {BLOCK} = {p.lengths[0] / BLOCK:g}.",
    ),
    solution=_count_solution,
)
"""Count the blocks of a few requests."""


def _waste_misconceptions(p: Blocks) -> Iterator[Misconception]:
    yield Misconception(
        "took what is in the last blocks",
        sum(tokens % BLOCK for tokens in p.lengths),
        "Those are the tokens in the last blocks. Empty is what they leave of a block.",
    )
    yield Misconception(
        "a whole block for a full one",
        sum(BLOCK - tokens % BLOCK for tokens in p.lengths),
        "Where the tokens fill their blocks exactly nothing is empty: no block is taken ahead.",
    )
    yield Misconception(
        "added up first",
        -sum(p.lengths) % BLOCK,
        "You added first. Each request has a last block of its own.",
    )
    yield Misconception(
        "reserved the limit",
        len(p.lengths) * _LIMIT - sum(p.lengths),
        "That is what slabs of the limit would leave empty. Blocks are taken as they are needed.",
    )
    yield Misconception(
        "half a block each",
        len(p.lengths) * BLOCK // 2,
        "Half a block each is so on average. Here the lengths are known.",
    )
    yield Misconception(
        "counted blocks",
        p.count,
        "Those are the blocks. Asked are the token places in them that hold nothing.",
    )


def _waste_solution(p: Blocks) -> tuple[str | Element, ...]:
    used = sum(p.lengths)
    return (
        working(
            *_each(p),
            (f"{p.count:,} × {BLOCK} − {used:,} = {p.empty}", "places empty together"),
        ),
        (
            f"Of {p.usage.reserved:,} places that is {p.empty / p.usage.reserved:.1%}. Never more "
            f"than {BLOCK - 1} a request, however long it gets."
        ),
    )


BLOCK_WASTE: Final = Drill(
    id="blocks-and-waste",
    kind=Number(Count("tokens", ("places",)), tolerance=0),
    first=Blocks((1_000, 246, 64)),
    draw=_draw,
    question=lambda p: (
        f"Three requests hold {p.listed} in blocks of {BLOCK}, and nothing is shared. For how many "
        "more tokens is there room in the blocks they have?"
    ),
    answer=lambda p: p.empty,
    misconceptions=_waste_misconceptions,
    hints=lambda p: (
        "Only the last block of each can have room.",
        (
            f"The request of {p.lengths[0]:,} tokens has {blocks_for(p.lengths[0], BLOCK)} blocks, "
            f"so places for {blocks_for(p.lengths[0], BLOCK) * BLOCK:,}."
        ),
    ),
    solution=_waste_solution,
)
"""Count the empty places in the blocks of a few requests."""
