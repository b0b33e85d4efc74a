"""The lesson's one server: every page and test takes its numbers from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.gpu import Gpu
from kvdocs.model import kv_cost
from kvdocs.units import GB, format_bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """The server the story is about.

    Attributes:
        machine: Its host name.
        model: Catalogue id of the model it serves.
        gpu: Catalogue id of its GPU.
        utilization: `--gpu-memory-utilization`.
        activation_bytes: Workspace: the activation peak of a forward pass.
        non_torch_bytes: The CUDA context.
        block_size: Tokens per block.
    """

    machine: str = "dgx-1"
    model: str = "meta-llama/Llama-3.1-8B"
    gpu: str = "lesson-h100-80gb"
    utilization: float = 0.9
    activation_bytes: float = 1.5 * GB
    non_torch_bytes: float = 1.0 * GB
    block_size: int = 16


LESSON: Final = Scenario()
"""The one scenario of all 21 steps."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How vLLM divides one GPU when it starts, in bytes.

    Attributes:
        total_bytes: The whole GPU.
        utilization: Share of it that vLLM may use.
        weights_bytes: Model weights.
        activation_bytes: Workspace of a forward pass.
        non_torch_bytes: CUDA context.
    """

    total_bytes: float
    utilization: float
    weights_bytes: float
    activation_bytes: float
    non_torch_bytes: float

    @property
    def requested_bytes(self) -> float:
        """What vLLM claims."""
        return self.total_bytes * self.utilization

    @property
    def kv_bytes(self) -> float:
        """What is left for the KV pool; negative when the rest does not fit."""
        return (
            self.requested_bytes - self.weights_bytes - self.activation_bytes - self.non_torch_bytes
        )

    def lines(self) -> tuple[str, ...]:
        """Print the subtraction, a term a line."""
        terms = (
            (
                "",
                self.requested_bytes,
                f"{self.utilization:g} of {format_bytes(self.total_bytes, 'GB')}",
            ),
            ("-", self.weights_bytes, "weights"),
            ("-", self.activation_bytes, "workspace"),
            ("-", self.non_torch_bytes, "CUDA context"),
            ("=", self.kv_bytes, "KV pool"),
        )
        return tuple(f"{sign:1} {value / GB:6.2f} GB  {name}" for sign, value, name in terms)


@dataclass(frozen=True, slots=True)
class LessonSize:
    """What fits on a GPU, in the lesson's round numbers.

    Attributes:
        model: The model.
        gpu: The GPU.
        budget: How its memory is divided.
        bytes_per_token: KV bytes of one token.
    """

    model: CatalogModel
    gpu: Gpu
    budget: Budget
    bytes_per_token: int

    @property
    def starts(self) -> bool:
        """Whether anything is left for the pool."""
        return self.budget.kv_bytes > 0

    @property
    def pool_tokens(self) -> int:
        """Tokens the pool holds, before rounding to blocks."""
        return max(0, int(self.budget.kv_bytes // self.bytes_per_token))

    @property
    def num_blocks(self) -> int:
        """Whole blocks in the pool."""
        return self.pool_tokens // LESSON.block_size


def size_lesson(
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    utilization: float = LESSON.utilization,
    kv_cache_dtype: str = "auto",
) -> LessonSize:
    """Size a server with the lesson's round numbers.

    Examples:
        >>> size_lesson().pool_tokens
        407714
    """
    entry, card = get_model(model), get_gpu(gpu)
    budget = Budget(
        total_bytes=card.total_memory_bytes,
        utilization=utilization,
        weights_bytes=2 * entry.num_parameters_rounded,
        activation_bytes=LESSON.activation_bytes,
        non_torch_bytes=LESSON.non_torch_bytes,
    )
    cost = kv_cost(entry.model, kv_cache_dtype=kv_cache_dtype)
    return LessonSize(entry, card, budget, cost.bytes_per_token)
