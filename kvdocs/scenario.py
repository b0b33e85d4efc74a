"""The lesson's one server: every page and test takes its numbers from here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.model import KVCost, kv_cost
from kvdocs.sizing import Budget, Capacity, capacity, lesson_budget


@dataclass(frozen=True, slots=True)
class Scenario:
    """The server the story is about.

    Attributes:
        machine: Its host name.
        model: Catalogue id of the model it serves.
        gpu: Catalogue id of its GPU.
        utilization: `--gpu-memory-utilization`.
        block_size: Tokens per block.
    """

    machine: str = "dgx-1"
    model: str = "meta-llama/Llama-3.1-8B"
    gpu: str = "lesson-h100-80gb"
    utilization: float = 0.9
    block_size: int = 16


LESSON: Final = Scenario()
"""The one scenario of all 21 steps."""


@dataclass(frozen=True, slots=True)
class LessonSize:
    """What fits on one GPU, in the lesson's round numbers.

    Attributes:
        model: The model.
        gpu: The GPU.
        budget: How its memory is divided.
        cost: What one token and one sequence cost.
        capacity: What the pool holds, and whether the server starts.
    """

    model: CatalogModel
    gpu: Gpu
    budget: Budget
    cost: KVCost
    capacity: Capacity

    @property
    def has_pool(self) -> bool:
        """Whether anything is left for the pool."""
        return self.budget.kv_bytes > 0

    @property
    def pool_tokens(self) -> int:
        """Tokens the pool holds, before rounding to blocks; 0 without a pool."""
        return self.capacity.kv_pool_tokens if self.has_pool else 0

    @property
    def num_blocks(self) -> int:
        """Whole blocks in the pool."""
        return self.pool_tokens // LESSON.block_size


def weights_bytes(entry: CatalogModel) -> float:
    """Bytes of the weights as the lesson reckons: parameters to three digits, 2 bytes each.

    A checkpoint that is not released in 16 bit keeps its own size.

    Examples:
        >>> weights_bytes(get_model("meta-llama/Llama-3.1-8B"))
        16060000000
    """
    if entry.weight_dtype in {"bfloat16", "float16"}:
        return 2 * entry.num_parameters_rounded
    return entry.weight_bytes


def size_lesson(
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    utilization: float = LESSON.utilization,
    kv_cache_dtype: str = "auto",
    max_model_len: int | None = None,
) -> LessonSize:
    """Size a server on one GPU with the lesson's round numbers.

    Args:
        model: Catalogue id.
        gpu: Catalogue id; vLLM takes its share of the memory CUDA reports.
        utilization: `--gpu-memory-utilization`.
        kv_cache_dtype: `--kv-cache-dtype`.
        max_model_len: Longest request in tokens; the model's own limit when None.

    Raises:
        KvdocsError: An unknown model or GPU, or a flag that vLLM would refuse.

    Examples:
        >>> size = size_lesson()
        >>> size.budget.kv_bytes, size.pool_tokens, size.num_blocks
        (53440000000, 407714, 25482)
    """
    entry, card = get_model(model), get_gpu(gpu)
    lesson = lesson_budget(card, weights_bytes=weights_bytes(entry), utilization=utilization)
    budget = replace(lesson, total_bytes=card.total_memory_bytes)
    flags = ServerFlags(kv_cache_dtype=kv_cache_dtype, max_model_len=max_model_len)
    return LessonSize(
        model=entry,
        gpu=card,
        budget=budget,
        cost=kv_cost(entry.model, kv_cache_dtype=kv_cache_dtype),
        capacity=capacity(entry.model, budget, flags),
    )
