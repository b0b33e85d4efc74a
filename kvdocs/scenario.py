"""The lesson's one server: every page and test takes its numbers from here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.model import KVCost, kv_cost, parse_config
from kvdocs.sizing import Budget, Capacity, capacity, lesson_budget, stored_flags
from kvdocs.sizing.budget import LESSON_TENSOR_PARALLEL_BYTES
from kvdocs.timing import RooflineTimer, Weights
from kvdocs.units import GIB, format_bytes


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
    asked = ServerFlags(kv_cache_dtype=kv_cache_dtype, max_model_len=max_model_len)
    flags = stored_flags(entry.model, card, asked)
    return LessonSize(
        model=entry,
        gpu=card,
        budget=budget,
        cost=kv_cost(entry.model, kv_cache_dtype=flags.kv_cache_dtype),
        capacity=capacity(entry.model, budget, flags),
    )


CONVERSATION_TOKENS: Final = 8192
"""A long conversation of the lesson, in tokens."""
LESSON_70B: Final = "meta-llama/Llama-3.1-70B"
TP_SIZE: Final = 4
"""GPUs that the lesson spreads the 70B model over."""
TP_RESERVE_BYTES: Final = LESSON_TENSOR_PARALLEL_BYTES
"""Bytes per GPU for NCCL and CUDA-graph buffers: this lesson's assumption, not a measurement."""


@dataclass(frozen=True, slots=True)
class LessonSize70B:
    """What fits on four GPUs that share one 70B model, in the lesson's round numbers.

    Attributes:
        weights_bytes: Weights on all four together.
        reserved_bytes: Workspace, CUDA context and tensor-parallel buffers on all four together.
        requested_bytes: What vLLM may use of all four.
        total_bytes: The memory of all four.
        pool_bytes: Left for keys and values on all four; below 0 when nothing is.
        bytes_per_token: Bytes of keys and values a token, all layers and heads, over all four.
        conversation_bytes: Bytes of a conversation of `CONVERSATION_TOKENS`.
        conversations: Whole conversations that fit at once.
    """

    weights_bytes: float
    reserved_bytes: float
    requested_bytes: float
    total_bytes: float
    pool_bytes: float
    bytes_per_token: int
    conversation_bytes: int
    conversations: int


def size_lesson_70b(
    *, num_kv_heads: int = 8, reserve_bytes: float = TP_RESERVE_BYTES
) -> LessonSize70B:
    """Size Llama 3.1 70B on four of the lesson's GPUs (`--tensor-parallel-size 4`), in bf16.

    Args:
        num_kv_heads: KV heads of each layer: the model's own 8, or 64 as if it were MHA.
        reserve_bytes: Bytes per GPU for NCCL and CUDA-graph buffers.

    Raises:
        KvdocsError: KV heads that cannot be shared out evenly, or a reserve that is none.

    Examples:
        >>> gqa, mha = size_lesson_70b(), size_lesson_70b(num_kv_heads=64)
        >>> gqa.pool_bytes, gqa.conversations, mha.conversations
        (130800000000, 48, 6)
        >>> gqa.bytes_per_token, mha.bytes_per_token
        (327680, 2621440)
    """
    entry = get_model(LESSON_70B)
    config = {**entry.text_config, "num_key_value_heads": num_kv_heads}
    cost = kv_cost(parse_config(config, name=LESSON_70B))
    budget = lesson_budget(
        get_gpu(LESSON.gpu),
        weights_bytes=weights_bytes(entry),
        tensor_parallel_size=TP_SIZE,
        tensor_parallel_bytes=reserve_bytes,
    )
    pool = TP_SIZE * budget.kv_bytes
    conversation = cost.bytes_per_token * CONVERSATION_TOKENS
    return LessonSize70B(
        weights_bytes=weights_bytes(entry),
        reserved_bytes=TP_SIZE
        * (budget.activation_bytes + budget.non_torch_bytes + budget.cuda_graph_bytes),
        requested_bytes=TP_SIZE * budget.requested_bytes,
        total_bytes=TP_SIZE * budget.total_bytes,
        pool_bytes=pool,
        bytes_per_token=cost.bytes_per_token,
        conversation_bytes=conversation,
        conversations=max(0, int(pool // conversation)),
    )


def lesson_timer(
    *, model: str = LESSON.model, gpu: str = LESSON.gpu, kv_cache_dtype: str = "auto"
) -> RooflineTimer:
    """Return the timing model of the lesson's server.

    Args:
        model: Catalogue id.
        gpu: Catalogue id.
        kv_cache_dtype: `--kv-cache-dtype`.

    Raises:
        KvdocsError: An unknown model or GPU, or a cache dtype the model does not have.

    Examples:
        >>> from kvdocs.timing import SequenceWork
        >>> step = lesson_timer().step_time([SequenceWork(new_tokens=1, context=4096)])
        >>> str(step.binds)
        'weights'
    """
    entry = get_model(model)
    weights = Weights.from_entry(entry)
    return RooflineTimer(
        model=entry.model, weights=weights, gpu=get_gpu(gpu), kv_cache_dtype=kv_cache_dtype
    )


def started_budget(entry: CatalogModel, card: Gpu, flags: ServerFlags) -> Budget:
    """The lesson's budget of a server that is started with these flags.

    Args:
        entry: The model.
        card: Each of its GPUs; vLLM takes its share of the memory CUDA reports.
        flags: The server's flags.

    Raises:
        FlagError: More weights are to be offloaded than there are.

    Examples:
        >>> flags = ServerFlags(gpu_memory_utilization=0.9)
        >>> started_budget(get_model(LESSON.model), get_gpu(LESSON.gpu), flags).kv_bytes
        53440000000
    """
    lesson = lesson_budget(
        card,
        weights_bytes=weights_bytes(entry),
        tensor_parallel_size=flags.world_size,
        utilization=flags.gpu_memory_utilization,
    )
    weights = lesson.weights_bytes - flags.cpu_offload_gb * GIB
    if weights < 0:
        raise FlagError(
            f"--cpu-offload-gb {flags.cpu_offload_gb:g} is more than the weights on each GPU, "
            f"{format_bytes(lesson.weights_bytes, 'GiB')}"
        )
    return replace(
        lesson,
        total_bytes=card.total_memory_bytes,
        weights_bytes=weights,
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
    )
