"""Step 15: how many tokens of a second prompt are found in the cache."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvdocs.blocks import blocks_for
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.engine import EngineConfig, RequestSpec, Segment, SegmentPrompt, SteppingEngine
from kvdocs.html import Element
from kvdocs.scenario import LESSON

BLOCK: Final = LESSON.block_size
_QUESTION: Final = 30


class Case(StrEnum):
    """How the second prompt differs from the first."""

    OTHER_QUESTION = "other question"
    SAME = "same"
    STAMP = "stamp"
    MIDDLE = "middle"


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """Two prompts of equal length, the second sent when the first is being answered.

    Attributes:
        case: How they differ.
        shared: Tokens of system prompt and repository.
        changed_at: Tokens that are equal before the changed one, in the case `MIDDLE`.
    """

    case: Case
    shared: int
    changed_at: int = 0

    @property
    def length(self) -> int:
        """Tokens of each prompt."""
        return self.shared + _QUESTION

    @property
    def equal(self) -> int:
        """Tokens from the start that are equal in both."""
        return {
            Case.OTHER_QUESTION: self.shared,
            Case.SAME: self.length,
            Case.STAMP: 0,
            Case.MIDDLE: self.changed_at,
        }[self.case]

    @property
    def prompts(self) -> tuple[SegmentPrompt, SegmentPrompt]:
        """The two prompts."""
        shared, rest = Segment("repository", self.shared), Segment("first question", _QUESTION)
        first = SegmentPrompt([shared, rest])
        if self.case is Case.SAME:
            return first, first
        if self.case is Case.OTHER_QUESTION:
            return first, SegmentPrompt([shared, Segment("second question", _QUESTION)])
        before = Segment("repository", self.equal)
        after = Segment("repository", self.shared - self.equal - 1, start=self.equal + 1)
        kept = [before] if self.equal else []
        return first, SegmentPrompt([*kept, Segment("changed", 1), after, rest])

    @property
    def hit_tokens(self) -> int:
        """Tokens of the second prompt that the engine finds."""
        blocks = 4 * (self.length // BLOCK + 2)
        config = EngineConfig(num_blocks=blocks, max_num_batched_tokens=self.length + BLOCK)
        engine = SteppingEngine(config)
        for name, prompt in zip(("first", "second"), self.prompts, strict=True):
            engine.add(RequestSpec(id=name, prompt=prompt, max_tokens=8))
            engine.step()
        return engine.gauges().counters.prefix_cache_hits


def _draw(rng: random.Random) -> PrefixHits:
    case = rng.choice(tuple(Case))
    shared = rng.randint(20, 180) * 10 + rng.randint(1, 9)
    if case is Case.SAME and rng.random() < 0.5:
        shared += -(shared + _QUESTION) % BLOCK  # whole blocks: the last token's rule is seen
    return PrefixHits(case, shared, rng.randint(shared // 4, shared * 3 // 4))


def _question(p: PrefixHits) -> str:
    second = {
        Case.OTHER_QUESTION: f"another question of {_QUESTION} tokens after the same beginning",
        Case.SAME: "the very same prompt, word for word",
        Case.STAMP: "the same prompt, but for its first token: a time stamp that has moved on",
        Case.MIDDLE: f"the same prompt, but for one token: the one after the first {p.equal:,}",
    }[p.case]
    return (
        f"A prompt has {p.shared:,} tokens of system prompt and repository and {_QUESTION} of a "
        f"question. While it is being answered, a second one arrives: {second}. How many tokens of "
        f"the second prompt are found in the cache, in blocks of {BLOCK}?"
    )


def _misconceptions(p: PrefixHits) -> Iterator[Misconception]:
    if p.case is Case.SAME:
        yield from _last_token_misconceptions(p)
    if p.case in {Case.STAMP, Case.MIDDLE}:
        yield from _change_misconceptions(p)
    yield Misconception(
        "counted single tokens",
        p.equal,
        "So many are equal. But only full blocks can be found.",
    )
    yield Misconception(
        "shared the last block",
        blocks_for(p.equal, BLOCK) * BLOCK,
        "The block in which they begin to differ is another block, and so has another hash.",
    )
    yield Misconception(
        "counted blocks",
        p.hit_tokens // BLOCK,
        "Those are the blocks. Asked are the tokens in them.",
    )


def _last_token_misconceptions(p: PrefixHits) -> Iterator[Misconception]:
    yield Misconception(
        "forgot the last token",
        p.length // BLOCK * BLOCK,
        "All full blocks are there. But the last token is always computed, or nothing would "
        "produce an answer: the block it ends is not taken from the cache.",
    )
    yield Misconception(
        "all but the last token",
        p.length - 1,
        "The last token is always computed, that is right. But the others are found in full "
        "blocks only.",
    )


def _change_misconceptions(p: PrefixHits) -> Iterator[Misconception]:
    whole = p.length // BLOCK * BLOCK
    yield Misconception(
        "lost one block only",
        whole - BLOCK,
        "Not only the block of that token is lost. Each hash covers the one before it, so all the "
        "blocks after it have others too.",
    )
    yield Misconception(
        "lost one token only",
        p.length - 1,
        "One token differs, but blocks are found by hashes that cover everything before them.",
    )
    yield Misconception(
        "lost nothing",
        whole,
        "Those are all full blocks, as if nothing had changed.",
    )


def _hints(p: PrefixHits) -> tuple[str, ...]:
    last = (
        "The last token of a prompt is always computed."
        if p.case is Case.SAME
        else f"From the start, {p.equal:,} tokens are equal."
    )
    return ("How many tokens are equal from the very first on? What follows does not count.", last)


def _solution(p: PrefixHits) -> tuple[str | Element, ...]:
    hits = p.hit_tokens
    last = p.case is Case.SAME
    usable = p.equal - 1 if last else p.equal
    why = "equal from the start" + (", without the last: it is always computed" if last else "")
    return (
        working(
            (f"{usable:,}", why),
            (f"{usable:,} / {BLOCK} → {hits // BLOCK}", "full blocks"),
            (f"× {BLOCK} = {hits:,} tokens", "found, and neither stored nor computed again"),
        ),
        f"{p.length - hits:,} of the {p.length:,} tokens must be computed. {_moral(p)}",
    )


def _moral(p: PrefixHits) -> str:
    return {
        Case.OTHER_QUESTION: "What is shared stands first: that is all it takes.",
        Case.SAME: "A prompt is never found whole.",
        Case.STAMP: "One token at the front costs everything: put what varies at the end.",
        Case.MIDDLE: "Everything from the changed token on is other text to the cache.",
    }[p.case]


PREFIX_HITS: Final = Drill(
    id="prefix-hit-tokens",
    kind=Number(Count("tokens"), tolerance=0),
    first=PrefixHits(Case.OTHER_QUESTION, 1_000),
    draw=_draw,
    question=_question,
    answer=lambda p: p.hit_tokens,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Say how many tokens of a second prompt are found in the cache."""
