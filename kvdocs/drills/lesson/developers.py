"""Step 9: the longest context with which so many developers fit at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.lesson.plain_models import PlainModel
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import format_bytes

_MODELS: Final = (
    LESSON.model,
    "Qwen/Qwen3-14B",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "Qwen/Qwen2.5-7B-Instruct",
)
_GPUS: Final = (LESSON.gpu, "h200-sxm-141gb", "a100-sxm-80gb")
_DEVELOPERS: Final = (40, 50, 60, 80, 100, 120, 150, 200)


@dataclass(frozen=True, slots=True)
class Developers:
    """So many developers on a server of one GPU."""

    count: int
    model: str
    gpu: str

    @property
    def size(self) -> LessonSize:
        """How the GPU is divided."""
        return size_lesson(model=self.model, gpu=self.gpu)

    @property
    def context(self) -> int:
        """The longest context, in whole blocks."""
        return self.size.num_blocks // self.count * LESSON.block_size

    def share_of(self, num_bytes: float) -> int:
        """Tokens for each in an amount of memory."""
        return int(num_bytes // self.size.cost.bytes_per_token) // self.count

    @property
    def name(self) -> str:
        """The model's name without its maker."""
        return PlainModel(self.model).name

    @property
    def place(self) -> str:
        """The GPU in words."""
        return "the lesson's GPU" if self.gpu == LESSON.gpu else f"one {get_gpu(self.gpu).name}"


def _draw(rng: random.Random) -> Developers:
    return Developers(rng.choice(_DEVELOPERS), rng.choice(_MODELS), rng.choice(_GPUS))


def _question(p: Developers) -> str:
    size = p.size
    return (
        f"{p.name} on {p.place}: of {format_bytes(size.budget.requested_bytes, 'GB')} that vLLM "
        f"may use, {format_bytes(size.budget.spent_bytes, 'GB')} go to weights, workspace and CUDA "
        f"context, and a token takes {size.cost.bytes_per_token // 1024} KiB. {p.count} developers "
        "want to use it at once. How long may the context of each be?"
    )


def _misconceptions(p: Developers) -> Iterator[Misconception]:
    size = p.size
    yield Misconception(
        "forgot the weights",
        p.share_of(size.budget.requested_bytes),
        "That divides all that vLLM may use. Weights, workspace and CUDA context come first.",
    )
    yield Misconception(
        "took the whole GPU",
        p.share_of(size.budget.total_bytes - size.budget.spent_bytes),
        "That is with the whole GPU. vLLM may use only its share of it.",
    )
    yield Misconception(
        "gave each the pool",
        size.pool_tokens,
        "That is the whole pool, and a context for one. All of them share it.",
    )
    yield Misconception(
        "halved the bytes",
        p.share_of(2 * size.budget.kv_bytes),
        "Twice too long: is a byte missing, of bf16, or the value beside the key? The KiB given "
        "have both.",
    )
    yield Misconception(
        "took query heads",
        p.share_of(size.budget.kv_bytes)
        * size.cost.bytes_per_token
        // PlainModel(p.model).query_head_bytes(),
        "That is with query heads. The KiB given are all that a token leaves.",
    )
    yield Misconception(
        "mixed up GB and GiB",
        p.share_of(size.budget.kv_bytes / 1e9 * 2**30),
        "A little too long: the memory is in GB of 1,000,000,000 bytes, the token in KiB of 1,024.",
    )


def _hints(p: Developers) -> tuple[str, ...]:
    size = p.size
    return (
        "How many tokens does the pool hold? Then divide by the developers.",
        f"{format_bytes(size.budget.kv_bytes, 'GB')} are left for the pool.",
        f"The pool holds {size.pool_tokens:,} tokens.",
    )


def _solution(p: Developers) -> tuple[str | Element, ...]:
    size = p.size
    budget, token = size.budget, size.cost.bytes_per_token
    pool = format_bytes(budget.kv_bytes, "GB")
    return (
        working(
            (
                (
                    f"{format_bytes(budget.requested_bytes, 'GB')} − "
                    f"{format_bytes(budget.spent_bytes, 'GB')} = {pool}"
                ),
                "the pool",
            ),
            (f"/ {token:,} B = {size.pool_tokens:,} tokens", "the same in tokens"),
            (f"/ {p.count} = {size.pool_tokens / p.count:,.1f}", "tokens for each"),
            (f"{p.context:,} tokens", f"in whole blocks of {LESSON.block_size}"),
        ),
        (
            f"Twice as many developers, half the context. With {p.context:,} as `--max-model-len` "
            "none of them ever waits for memory."
        ),
    )


DEVELOPERS: Final = Drill(
    id="context-for-n-developers",
    kind=Number(Count("tokens")),
    first=Developers(100, LESSON.model, LESSON.gpu),
    draw=_draw,
    question=_question,
    answer=lambda p: p.context,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Compute the longest context with which so many fit."""
