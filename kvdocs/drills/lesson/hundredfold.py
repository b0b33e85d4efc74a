"""Step 3: where recomputing has done a hundred times the work of caching."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.widgets.recompute import (
    TIMES,
    first_output,
    tokens_with_cache,
    tokens_without_cache,
    work_reaches,
)

_PROMPTS: Final = (128, 256, 1024, 2048)
"""Lengths that the picture offers, so that it can be asked, but for the one it starts with."""


@dataclass(frozen=True, slots=True)
class Hundredfold:
    """An answer to a prompt of so many tokens."""

    prompt: int

    @property
    def output(self) -> int:
        """Output tokens at which recomputing has done `TIMES` times the work."""
        return work_reaches(TIMES, self.prompt)

    @property
    def with_cache(self) -> int:
        """Tokens computed until there with the cache."""
        return tokens_with_cache(self.prompt, self.output)

    @property
    def without_cache(self) -> int:
        """Tokens computed until there without it."""
        return tokens_without_cache(self.prompt, self.output)

    @property
    def against_prompt(self) -> int:
        """Where recomputing has done `TIMES` times the work of the prompt alone."""

        def reached(output: int) -> bool:
            return tokens_without_cache(self.prompt, output) >= TIMES * self.prompt

        return first_output(reached, self.output)


def _draw(rng: random.Random) -> Hundredfold:
    return Hundredfold(rng.choice(_PROMPTS))


def _question(p: Hundredfold) -> str:
    return (
        f"A prompt of {p.prompt:,} tokens, and an answer that grows. Without a cache every output "
        "token computes all tokens before it again. After how many output tokens has that made "
        f"{TIMES} times the work of the cache, counted in tokens computed?"
    )


def _misconceptions(p: Hundredfold) -> Iterator[Misconception]:
    yield Misconception(
        "grew with the length",
        TIMES * p.prompt,
        f"You made the answer {TIMES} times as long as the prompt. But the work without a cache "
        "grows with the square of the length, so it is there far sooner.",
    )
    yield Misconception(
        "one prefill a token",
        TIMES,
        f"{TIMES} output tokens are {TIMES} prefills, and a little more each time. But the cache "
        "has computed the answer's tokens as well: it did more than one prefill.",
    )
    yield Misconception(
        "forgot the prompt",
        work_reaches(TIMES, 1),
        "That is so without a prompt. The prompt is computed again for every token too.",
    )
    yield Misconception(
        "compared with the prompt",
        p.against_prompt,
        f"There it is {TIMES} times the work of the prompt. The cache has computed the answer's "
        "tokens too, so it takes some more.",
    )
    yield Misconception(
        "took the square root",
        int(TIMES**0.5),
        f"Ten squared is {TIMES}, but ten output tokens are no more than about ten prefills.",
    )


def _hints(p: Hundredfold) -> tuple[str, ...]:
    return (
        "With the cache each token is computed once: the prompt, and the answer but for its last.",
        f"Without: {p.prompt} + {p.prompt + 1} + {p.prompt + 2} + …, a term an output token.",
        f"Move the picture above: where is the upper curve {TIMES} times the lower?",
    )


def _solution(p: Hundredfold) -> tuple[str | Element, ...]:
    n, prompt = p.output, p.prompt
    return (
        f"At {n:,} output tokens:",
        working(
            (f"{prompt:,} + {n:,} − 1 = {p.with_cache:,}", "tokens computed with the cache"),
            (
                f"{n:,} × {prompt:,} + {n:,} × {n - 1:,} / 2 = {p.without_cache:,}",
                "without: a prefill for each, a token longer each time",
            ),
            (
                f"{p.without_cache:,} / {p.with_cache:,} = {p.without_cache / p.with_cache:.1f}",
                "times",
            ),
        ),
        (
            "An answer of a few sentences. A longer prompt brings it nearer, and never below "
            f"{TIMES} tokens: each of them can add one prefill, no more."
        ),
    )


HUNDREDFOLD: Final = Drill(
    id="recompute-hundredfold",
    kind=Prediction(Count("tokens")),
    first=Hundredfold(256),
    draw=_draw,
    question=_question,
    answer=lambda p: p.output,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Predict where recomputing costs a hundred times the work."""
