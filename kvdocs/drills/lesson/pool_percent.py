"""Step 1: which share of the GPU is KV pool, guessed with a slider."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction, Slider
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import format_bytes

_MODELS: Final = (
    LESSON.model,
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "mistralai/Mistral-Small-24B-Instruct-2501",
)
_SHARES: Final = (0.8, 0.85, 0.9)


@dataclass(frozen=True, slots=True)
class PoolPercent:
    """A model on the lesson's GPU."""

    model: str
    utilization: float

    @property
    def size(self) -> LessonSize:
        """How the GPU is divided."""
        return size_lesson(model=self.model, utilization=self.utilization)

    def percent(self, num_bytes: float) -> float:
        """Say how much of the whole GPU an amount is."""
        return 100 * num_bytes / self.size.budget.total_bytes

    @property
    def rest_bytes(self) -> float:
        """Workspace and CUDA context."""
        return self.size.budget.activation_bytes + self.size.budget.non_torch_bytes

    @property
    def name(self) -> str:
        """The model's name without its maker."""
        return self.model.rpartition("/")[2].removesuffix("-Instruct")


def _draw(rng: random.Random) -> PoolPercent:
    return PoolPercent(rng.choice(_MODELS), rng.choice(_SHARES))


def _question(p: PoolPercent) -> str:
    parameters = f"{p.size.model.num_parameters_rounded / 1e9:,.10g} billion parameters"
    return (
        f"{p.name} ({parameters}, in bf16) starts on the lesson's GPU with "
        f"`--gpu-memory-utilization {p.utilization:g}`. How much of the whole GPU becomes KV pool?"
    )


def _misconceptions(p: PoolPercent) -> Iterator[Misconception]:
    budget = p.size.budget
    yield Misconception(
        "took all that is claimed",
        p.percent(budget.requested_bytes),
        "That is all that vLLM claims. Weights, workspace and CUDA context are in it too.",
    )
    yield Misconception(
        "took the share of what is claimed",
        100 * budget.kv_bytes / budget.requested_bytes,
        "That is the pool's share of what vLLM claims; asked was its share of the whole GPU.",
    )
    yield Misconception(
        "took the weights",
        p.percent(budget.weights_bytes),
        "That is the share of the weights. The pool is what they leave.",
    )


def _hints(p: PoolPercent) -> tuple[str, ...]:
    return (
        "bf16 takes 2 bytes a parameter: how many GB are the weights?",
        (
            "Workspace and CUDA context take "
            f"{format_bytes(p.rest_bytes, 'GB')} more. All of "
            f"{format_bytes(p.size.budget.requested_bytes, 'GB')} that is left is pool."
        ),
    )


def _solution(p: PoolPercent) -> tuple[str | Element, ...]:
    budget = p.size.budget
    return (
        working(
            (format_bytes(budget.requested_bytes, "GB"), "claimed"),
            (f"− {format_bytes(budget.weights_bytes, 'GB')}", "weights"),
            (f"− {format_bytes(p.rest_bytes, 'GB')}", "workspace and CUDA context"),
            (f"= {format_bytes(budget.kv_bytes, 'GB')}", "KV pool"),
            (
                f"/ {format_bytes(budget.total_bytes, 'GB')} = {p.percent(budget.kv_bytes):.1f} %",
                "of the whole GPU",
            ),
        ),
    )


POOL_PERCENT: Final = Drill(
    id="share-of-the-pool",
    kind=Prediction(Count("%", ("percent",), digits=1), points=5, slider=Slider(0, 100, 1, 0)),
    first=PoolPercent(LESSON.model, LESSON.utilization),
    draw=_draw,
    question=_question,
    answer=lambda p: p.percent(p.size.budget.kv_bytes),
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Predict which share of the GPU becomes KV pool."""
