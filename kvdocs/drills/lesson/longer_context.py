"""Step 9: how many sequences are left when the context grows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import size_lesson

_BEFORE: Final = 8_192
_AFTER: Final = (12_288, 16_384, 20_480, 24_576, 49_152, 65_536)


@dataclass(frozen=True, slots=True)
class LongerContext:
    """Tokens that each sequence has now."""

    tokens: int

    @property
    def fit(self) -> int:
        """Sequences at once."""
        return self.sequences(self.tokens)

    def sequences(self, tokens: int) -> int:
        """How many sequences of a length the lesson's pool holds."""
        return int(size_lesson().pool_tokens // tokens)


def _draw(rng: random.Random) -> LongerContext:
    return LongerContext(rng.choice(_AFTER))


def _question(p: LongerContext) -> str:
    return (
        f"The lesson's pool takes {p.sequences(_BEFORE)} sequences of {_BEFORE:,} tokens. The "
        f"plug-in now sends {p.tokens:,} tokens each time. How many sequences fit at once?"
    )


def _misconceptions(p: LongerContext) -> Iterator[Misconception]:
    yield Misconception(
        "the context is free",
        p.sequences(_BEFORE),
        "As many as before: but each of them now holds more tokens of the same pool.",
    )
    yield Misconception(
        "only the added tokens",
        p.sequences(p.tokens - _BEFORE),
        "That counts only what was added. Each sequence holds all its tokens.",
    )
    yield Misconception(
        "grew with the square",
        max(1, int(p.sequences(_BEFORE) * (_BEFORE / p.tokens) ** 2)),
        "Work grows with the square of the length, and memory does not: a token takes the same "
        "bytes wherever it stands.",
    )


def _solution(p: LongerContext) -> tuple[str | Element, ...]:
    pool, factor = size_lesson().pool_tokens, p.tokens / _BEFORE
    common = math.gcd(_BEFORE, p.tokens)
    share = "half" if factor == 2 else f"{_BEFORE // common}/{p.tokens // common} of"
    return (
        working((f"{pool:,} / {p.tokens:,} = {p.fit} sequences", "rounded down")),
        f"{factor:g} times the context leaves {share} the sequences.",
    )


LONGER_CONTEXT: Final = Drill(
    id="sequences-of-a-longer-context",
    kind=Prediction(Count("sequences")),
    first=LongerContext(16_384),
    draw=_draw,
    question=_question,
    answer=lambda p: p.fit,
    misconceptions=_misconceptions,
    hints=lambda p: (
        "The pool has not changed, and holds the same number of tokens.",
        f"Divide {size_lesson().pool_tokens:,} by {p.tokens:,}.",
    ),
    solution=_solution,
)
"""Predict how context length divides concurrency."""
