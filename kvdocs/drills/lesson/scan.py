"""Step 19: what a tier is worth that is a little too small."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Option
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.offload.eviction import lru_hits, optimal_hits
from kvdocs.scenario import size_lesson
from kvdocs.units import GB

_ROUNDS: Final = 3
_PIECE: Final = 256
"""Tokens that go in and out of the tier together: some blocks, so that it is soon computed."""
_PER_TOKEN: Final = size_lesson().cost.bytes_per_token


@dataclass(frozen=True, slots=True)
class Scan:
    """Documents that are read in turn, again and again.

    Attributes:
        documents: How many.
        tokens: Tokens of each.
        tier_gb: What the tier holds, in GB.
    """

    documents: int
    tokens: int
    tier_gb: int

    @property
    def working_set(self) -> int:
        """Bytes of all documents."""
        return self.documents * self.tokens * _PER_TOKEN

    @property
    def room(self) -> int:
        """Whole documents the tier holds."""
        return self.tier_gb * GB // (self.tokens * _PER_TOKEN)

    @property
    def hit_rate(self) -> float:
        """Share of the blocks found, from the second round on."""
        return self._share_of(lru_hits)

    @property
    def best(self) -> float:
        """The same for a tier that knows what comes, and may let blocks pass by."""
        return self._share_of(optimal_hits)

    @property
    def share(self) -> float:
        """Share of the documents that fits."""
        return min(1.0, self.tier_gb * GB / self.working_set)

    @property
    def answer(self) -> str:
        """What the tier finds."""
        return {0.0: "none", 1.0: "all"}.get(self.hit_rate, "part")

    def _share_of(self, hits: Callable[[Sequence[int], int], int]) -> float:
        pieces = self.documents * self.tokens // _PIECE
        room = self.tier_gb * GB // (_PIECE * _PER_TOKEN)
        return hits(list(range(pieces)) * _ROUNDS, room) / (pieces * (_ROUNDS - 1))


def _draw(rng: random.Random) -> Scan:
    """Draw a tier that lacks two documents or more, or has room for all."""
    while True:
        documents, tokens = rng.randint(8, 20), rng.choice((16_384, 24_576, 32_768, 40_960))
        share = rng.choice((0.6, 0.7, 0.8, 0.85, 1.1, 1.2))
        drawn = Scan(documents, tokens, round(share * documents * tokens * _PER_TOKEN / GB / 5) * 5)
        if drawn.room <= documents - 2 or drawn.room >= documents:
            return drawn


def _question(p: Scan) -> str:
    return (
        f"Every night a job asks about {p.documents} repositories of {p.tokens:,} tokens each, one "
        f"after the other, round and round: {p.working_set / GB:.1f} GB of KV. Others need the "
        f"GPU's pool, so only the CPU tier keeps anything: {p.tier_gb} GB, least recently used out "
        "first. From the second round on, how much does the job find there?"
    )


def _part(p: Scan) -> str:
    return f"about {min(p.share, 0.95):.0%}, what fits"


def _options(p: Scan) -> tuple[Option, ...]:
    return (
        Option("none", "nothing"),
        Option("part", _part(p)),
        Option("all", "everything"),
    )


def _reason(p: Scan, value: str) -> str:
    if value == "part":
        return (
            "A share of room is not a share of hits. Which repository goes out when there is no "
            "room: one that is needed late, or the one that is needed next?"
            if p.answer == "none"
            else "Is there anything that must go out?"
        )
    if value == "all":
        return f"{p.working_set / GB:.1f} GB do not fit into {p.tier_gb} GB."
    return f"{p.working_set / GB:.1f} GB fit into {p.tier_gb} GB: nothing ever goes out."


def _misconceptions(p: Scan) -> Iterator[Misconception]:
    for option in _options(p):
        if option.value != p.answer:
            yield Misconception(f"took {option.value}", option.value, _reason(p, option.value))


def _solution(p: Scan) -> tuple[str | Element, ...]:
    sums = working(
        (f"{p.tier_gb} GB / {p.tokens * _PER_TOKEN / GB:.2f} GB = {p.room}", "repositories fit"),
        (f"{p.documents} − 1 = {p.documents - 1}", "others come before the first comes again"),
    )
    if p.answer == "all":
        return (sums, "Everything: all of them fit, so from the second round on each is found.")
    return (
        sums,
        (
            "Nothing. When a repository comes again, the others have passed through, and the one "
            "used longest ago, this very one, has gone out. Each arrival throws out the next to "
            "come. A policy that knew the future would keep the blocks that fit, let the others "
            f"pass by, and find {p.best:.0%} with the same room."
        ),
    )


SCAN: Final = Drill(
    id="scan-through-a-tier",
    kind=Choice(_options),
    first=Scan(12, 40_960, 50),
    draw=_draw,
    question=_question,
    answer=lambda p: p.answer,
    misconceptions=_misconceptions,
    hints=lambda p: (
        f"How many repositories fit into {p.tier_gb} GB?",
        "Follow the first one: what has come in by the time it is asked for again?",
    ),
    solution=_solution,
)
"""Say what a scan finds in a tier."""
