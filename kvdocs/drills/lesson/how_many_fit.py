"""Step 11: how many requests fit at once, sized from the longest."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import format_bytes

_MODELS: Final = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen2.5-7B-Instruct",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "mistralai/Mistral-Small-24B-Instruct-2501",
)
_LONGEST: Final = (4_096, 8_192, 16_384, 32_768)
_SHARE_OF_LONGEST: Final = (0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class HowManyFit:
    """A server on the lesson's GPU, and the lengths of its requests in tokens."""

    model: str
    longest: int
    average: int

    @property
    def size(self) -> LessonSize:
        """How the GPU is divided."""
        return size_lesson(model=self.model)

    @property
    def fit(self) -> int:
        """Requests of the longest kind that fit at once: each takes whole blocks."""
        blocks_each = -(-self.longest // LESSON.block_size)
        return self.size.num_blocks // blocks_each

    def without(self, num_bytes: float) -> int:
        """How many would fit in some other amount of memory."""
        return int(num_bytes // self.size.cost.bytes_per_token) // self.longest

    @property
    def name(self) -> str:
        """The model's name without its maker."""
        return self.model.rpartition("/")[2].removesuffix("-Instruct")


def _draw(rng: random.Random) -> HowManyFit:
    longest = rng.choice(_LONGEST)
    average = int(longest * rng.choice(_SHARE_OF_LONGEST)) // 100 * 100
    return HowManyFit(rng.choice(_MODELS), longest, average)


def _question(p: HowManyFit) -> str:
    return (
        f"{p.name} on the lesson's GPU has a KV pool of {p.size.pool_tokens:,} tokens. Requests "
        f"are {p.average:,} tokens long on average, and you accept up to {p.longest:,}. Whatever "
        "comes, nobody may wait for memory: how many requests can you promise at once?"
    )


def _misconceptions(p: HowManyFit) -> Iterator[Misconception]:
    pool = p.size.pool_tokens
    yield Misconception(
        "sized from the average",
        pool // p.average,
        "That is how many fit if each is of average length. You promised room for the longest, "
        "and they may all come at once.",
    )
    yield Misconception(
        "rounded up",
        p.fit + 1,
        "One too many: the last would not fit whole. Round down.",
    )
    yield Misconception(
        "forgot the weights",
        p.without(p.size.budget.requested_bytes),
        "That divides all that vLLM may use. The pool is what weights, workspace and CUDA "
        "context leave of it.",
    )
    yield Misconception(
        "took the whole GPU",
        p.without(p.size.budget.total_bytes),
        "That divides the whole GPU. The pool is only a part of it.",
    )


def _hints(p: HowManyFit) -> tuple[str, ...]:
    return (
        "A promise is kept on the worst day, not on the average one.",
        f"How often do {p.longest:,} tokens go into {p.size.pool_tokens:,}?",
    )


def _solution(p: HowManyFit) -> tuple[str | Element, ...]:
    size = p.size
    token, pool = size.cost.bytes_per_token, size.pool_tokens
    return (
        working(
            (
                f"{format_bytes(size.budget.kv_bytes, 'GB')} / {token:,} B = {pool:,} tokens",
                "the pool",
            ),
            (
                f"{pool:,} / {p.longest:,} = {pool / p.longest:.2f}",
                f"so {p.fit} whole requests of the longest kind",
            ),
        ),
        (
            f"With the average you would have promised {pool // p.average:,}, and on "
            "a day of whole files most of them would queue. In practice vLLM admits requests as "
            "they come and takes blocks as they grow, so more run at once on most days; the "
            "promise is what this number is for."
        ),
    )


HOW_MANY_FIT: Final = Drill(
    id="how-many-fit",
    kind=Number(Count("requests", ("sequences", "conversations")), tolerance=0),
    first=HowManyFit(LESSON.model, 8_192, 1_600),
    draw=_draw,
    question=_question,
    answer=lambda p: p.fit,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Say how many of the longest requests fit at once."""
