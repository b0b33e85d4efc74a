"""Step 1: which part of a full GPU is the largest."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Option
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import format_bytes

_MODELS: Final = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen2.5-7B-Instruct",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    "allenai/OLMo-2-0325-32B",
    "Qwen/Qwen3-32B",
)
_SHARES: Final = (0.85, 0.9, 0.95)
_PARTS: Final = ("weights", "workspace", "CUDA context", "KV pool")


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """A model on the lesson's GPU, and the order in which the parts are offered."""

    model: str
    utilization: float
    order: tuple[str, ...]

    @property
    def size(self) -> LessonSize:
        """How the GPU is divided."""
        return size_lesson(model=self.model, utilization=self.utilization)

    @property
    def parts(self) -> Mapping[str, float]:
        """Bytes of each part."""
        budget = self.size.budget
        sizes = (
            budget.weights_bytes,
            budget.activation_bytes,
            budget.non_torch_bytes,
            budget.kv_bytes,
        )
        return dict(zip(_PARTS, sizes, strict=True))

    @property
    def largest(self) -> str:
        """The part that takes most."""
        return max(self.parts, key=self.parts.__getitem__)

    @property
    def short_name(self) -> str:
        """The model's name without its maker."""
        return self.model.rpartition("/")[2]


def _draw(rng: random.Random) -> MemoryParts:
    order = rng.sample(_PARTS, len(_PARTS))
    return MemoryParts(rng.choice(_MODELS), rng.choice(_SHARES), tuple(order))


def _question(p: MemoryParts) -> str:
    taken = format_bytes(p.size.budget.requested_bytes, "GiB")
    return (
        f"{p.short_name} in bf16 has just started on the lesson's "
        f"{format_bytes(p.size.budget.total_bytes, 'GB')} GPU with `--gpu-memory-utilization "
        f"{p.utilization:g}`. Nobody has sent a request, and {taken} are taken. What took most "
        "of them?"
    )


def _options(p: MemoryParts) -> tuple[Option, ...]:
    texts = {
        "weights": "The weights of the model",
        "workspace": "The workspace of a forward pass",
        "CUDA context": "The CUDA context",
        "KV pool": "The KV pool, still empty",
    }
    return tuple(Option(part, texts[part]) for part in p.order)


def _why(p: MemoryParts, part: str) -> str:
    parameters = f"{p.size.model.num_parameters_rounded / 1e9:,.10g} billion parameters"
    size = format_bytes(p.parts[part], "GB")
    return {
        "weights": f"{parameters} at 2 bytes each are {size}. That is less than half.",
        "workspace": f"The workspace is there, but small: {size}, enough for one forward pass.",
        "CUDA context": f"The CUDA context is the driver's own share, about {size}.",
        "KV pool": (
            f"The pool gets what the others leave. {parameters} at 2 bytes each leave less than "
            "half for it."
        ),
    }[part]


def _misconceptions(p: MemoryParts) -> Iterator[Misconception]:
    for part in _PARTS:
        if part != p.largest:
            yield Misconception(f"took it for the {part}", part, _why(p, part))


def _hints(p: MemoryParts) -> tuple[str, ...]:
    return (
        "bf16 is 2 bytes a parameter. Compute the weights first.",
        (
            "Workspace and CUDA context together are "
            f"{format_bytes(p.parts['workspace'] + p.parts['CUDA context'], 'GB')}. What is "
            f"left of {format_bytes(p.size.budget.requested_bytes, 'GB')}?"
        ),
    )


def _solution(p: MemoryParts) -> tuple[str | Element, ...]:
    lines = ((format_bytes(size, "GB"), part) for part, size in p.parts.items())
    whole = (format_bytes(p.size.budget.requested_bytes, "GB"), "taken at start-up, together")
    return (
        working(*lines, whole),
        (
            f"So it is the {p.largest}. The pool is always what the rest leaves of the share, "
            "and vLLM claims it when it starts: a GPU that looks full before the first request "
            "is healthy."
        ),
    )


MEMORY_PARTS: Final = Drill(
    id="where-the-memory-went",
    kind=Choice(_options),
    first=MemoryParts(LESSON.model, LESSON.utilization, ("weights", "KV pool", *_PARTS[1:3])),
    draw=_draw,
    question=_question,
    answer=lambda p: p.largest,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Say which part of a GPU that has served nobody is the largest."""
