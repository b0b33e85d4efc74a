"""The memory budget of one GPU, as named terms: what a server asks for, spends, and has left.

Source of the terms: vLLM 0.33.0 `vllm/v1/worker/utils.py` `request_memory`, and
`vllm/v1/worker/gpu_worker.py` `determine_available_memory`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags, version_tuple
from kvdocs.units import GB, GIB, format_bytes, format_gib_as_vllm

if TYPE_CHECKING:
    from kvdocs.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How a server divides one GPU when it starts, in bytes.

    Attributes:
        total_bytes: The GPU's memory as the server sees it.
        utilization: Share of the total it may use (`--gpu-memory-utilization`).
        weights_bytes: Model weights on this GPU.
        activation_bytes: Peak workspace of the profiling forward pass.
        non_torch_bytes: CUDA context, and communication buffers with several GPUs.
        cuda_graph_bytes: Captured CUDA graphs.
        kv_cache_memory_bytes: `--kv-cache-memory-bytes`, which replaces the subtraction, or None.
    """

    total_bytes: float
    utilization: float
    weights_bytes: float
    activation_bytes: float
    non_torch_bytes: float
    cuda_graph_bytes: float = 0.0
    kv_cache_memory_bytes: int | None = None

    @property
    def requested_bytes(self) -> int:
        """What the server claims: a share of the total, rounded up to a byte."""
        return math.ceil(self.total_bytes * self.utilization)

    @property
    def spent_bytes(self) -> float:
        """What goes before the cache gets its turn."""
        return (
            self.weights_bytes
            + self.activation_bytes
            + self.non_torch_bytes
            + self.cuda_graph_bytes
        )

    @property
    def kv_bytes(self) -> int:
        """What is left for the cache, in whole bytes; 0 or less when nothing is.

        Examples:
            >>> lesson = Budget(total_bytes=80e9, utilization=0.9, weights_bytes=16.06e9,
            ...     activation_bytes=1.5e9, non_torch_bytes=1e9)
            >>> lesson.kv_bytes
            53440000000
        """
        if self.kv_cache_memory_bytes is not None:
            return self.kv_cache_memory_bytes
        return math.floor(self.requested_bytes - self.spent_bytes)

    @property
    def free_bytes(self) -> float:
        """What a server finds free on a GPU that is its own: all but the CUDA context."""
        return self.total_bytes - self.non_torch_bytes

    def lines(self, unit: str = "GB") -> tuple[str, ...]:
        """The budget printed as a subtraction, a term a line.

        Args:
            unit: A unit of `kvdocs.units.BYTE_UNITS`.

        Examples:
            >>> lesson = Budget(total_bytes=80e9, utilization=0.9, weights_bytes=16.06e9,
            ...     activation_bytes=1.5e9, non_torch_bytes=1e9)
            >>> for line in lesson.lines():
            ...     print(line)
                  72 GB  0.9 of 80 GB
            -  16.06 GB  weights
            -    1.5 GB  workspace
            -      1 GB  CUDA context
            =  53.44 GB  KV pool
        """
        if self.kv_cache_memory_bytes is not None:
            pool = format_bytes(self.kv_bytes, unit)
            return (f"= {pool:>9}  KV pool, set by --kv-cache-memory-bytes",)
        total = format_bytes(self.total_bytes, unit)
        terms = [
            (" ", self.requested_bytes, f"{self.utilization:g} of {total}"),
            ("-", self.weights_bytes, "weights"),
            ("-", self.activation_bytes, "workspace"),
            ("-", self.non_torch_bytes, "CUDA context"),
        ]
        if self.cuda_graph_bytes:
            terms.append(("-", self.cuda_graph_bytes, "CUDA graphs and buffers"))
        terms.append(("=", self.kv_bytes, "KV pool"))
        return tuple(f"{sign} {format_bytes(size, unit):>9}  {name}" for sign, size, name in terms)


def free_memory_refusal(budget: Budget, free_bytes: float, *, device: str = "cuda:0") -> str | None:
    """The text vLLM has when other processes hold too much of the GPU, or None.

    Source: vLLM 0.33.0 `vllm/v1/worker/utils.py`, `request_memory`: what is free before the weights
    are loaded must cover the whole share asked for.

    Args:
        budget: The GPU's budget.
        free_bytes: Bytes free when the server starts.
        device: How vLLM names the GPU.

    Examples:
        >>> lesson = Budget(total_bytes=80e9, utilization=0.9, weights_bytes=16.06e9,
        ...     activation_bytes=1.5e9, non_torch_bytes=1e9)
        >>> free_memory_refusal(lesson, 79e9) is None
        True
        >>> free_memory_refusal(lesson, 10e9)[:64]
        'Free memory on device cuda:0 (9.31/74.51 GiB) on startup is less'
    """
    if free_bytes >= budget.requested_bytes:
        return None
    return (
        f"Free memory on device {device} ({format_gib_as_vllm(free_bytes)}/"
        f"{format_gib_as_vllm(budget.total_bytes)} GiB) on startup is less than desired GPU memory "
        f"utilization ({budget.utilization}, {format_gib_as_vllm(budget.requested_bytes)} GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )


def out_of_memory(budget: Budget, free_bytes: float) -> str | None:
    """PyTorch's error when the weights do not load, which nothing checks before; or None.

    Args:
        budget: The GPU's budget.
        free_bytes: Bytes free when the server starts.
    """
    if budget.weights_bytes <= free_bytes:
        return None
    total = format_gib_as_vllm(budget.total_bytes)
    return f"torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of {total} GiB."


def early_refusal(budget: Budget, free_bytes: float | None = None) -> str | None:
    """The error that ends a start before the cache is planned, or None, in vLLM's order.

    Args:
        budget: The GPU's budget.
        free_bytes: Bytes free when the server starts; all but the CUDA context when None.

    Examples:
        >>> lesson = Budget(total_bytes=80e9, utilization=1.0, weights_bytes=16.06e9,
        ...     activation_bytes=1.5e9, non_torch_bytes=1e9)
        >>> early_refusal(lesson)[:66]
        'Free memory on device cuda:0 (73.57/74.51 GiB) on startup is less '
    """
    free = budget.free_bytes if free_bytes is None else free_bytes
    in_use = None
    if budget.kv_cache_memory_bytes is None:
        in_use = free_memory_refusal(budget, free)
    return in_use or out_of_memory(budget, free)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a server needs on each GPU beside weights and cache, in bytes.

    Attributes:
        activation_bytes: Peak workspace.
        non_torch_bytes: CUDA context and communication buffers.
        cuda_graph_bytes: CUDA graphs.
    """

    activation_bytes: float
    non_torch_bytes: float
    cuda_graph_bytes: float = 0.0


LESSON_OVERHEAD: Final = Overhead(activation_bytes=1.5 * GB, non_torch_bytes=1.0 * GB)
"""The lesson's round numbers for one GPU."""
LESSON_TENSOR_PARALLEL_BYTES: Final = 1.5 * GB
"""The lesson's assumption for NCCL and CUDA-graph buffers on each of several GPUs."""
LESSON_UTILIZATION: Final = 0.9
"""The share of the GPU the lesson's server may use."""

_LARGE_BATCH: Final = 8192
_LOG_TABLE: Final = (
    "llm-d/llm-d-benchmark config_explorer/empirical-vllm-memory-results.md (vLLM logs, H100 80 GB)"
)
_SMALL_GPU_LOGS: Final = (
    "vllm-project/vllm#10517 (RTX 3090: peak 17.06 GiB with 14.99 GiB of weights, non-torch 0.35)",
    "LLMServingSim's recorded server (Llama 3.1 8B, RTX 4090, vLLM 0.19: 41,408 tokens)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRange:
    """A budget whose overhead is known only between two bounds.

    Attributes:
        low: The budget with the least left for the cache.
        high: The budget with the most left.
        basis: What the bounds rest on, in a sentence.
        sources: Where the measurements stand.
    """

    low: Budget
    high: Budget
    basis: str
    sources: tuple[str, ...]


def lesson_budget(
    gpu: Gpu,
    *,
    weights_bytes: float,
    tensor_parallel_size: int = 1,
    utilization: float = LESSON_UTILIZATION,
    overhead: Overhead = LESSON_OVERHEAD,
    tensor_parallel_bytes: float = LESSON_TENSOR_PARALLEL_BYTES,
) -> Budget:
    """The lesson's budget of each GPU: round numbers, and the GPU's size as it is sold.

    Args:
        gpu: The GPU; its `memory_bytes` counts.
        weights_bytes: Bytes of all weights (2 per parameter in bf16); tensor parallelism divides
            them.
        tensor_parallel_size: GPUs each layer is split over.
        utilization: Share of the GPU.
        overhead: Workspace and context.
        tensor_parallel_bytes: Communication and graph buffers, when there are several GPUs.

    Examples:
        >>> from kvdocs.gpu import Gpu
        >>> h100 = Gpu("H100", 80 * 10**9, 85520809984, None, 3.35e12, 989e12, 1979e12, 64e9, 450e9)
        >>> lesson_budget(h100, weights_bytes=2 * 8.03e9).kv_bytes
        53440000000
        >>> lesson_budget(h100, weights_bytes=2 * 70.6e9, tensor_parallel_size=4).kv_bytes * 4
        130800000000
    """
    return Budget(
        total_bytes=gpu.memory_bytes,
        utilization=utilization,
        weights_bytes=weights_bytes / tensor_parallel_size,
        activation_bytes=overhead.activation_bytes,
        non_torch_bytes=overhead.non_torch_bytes,
        cuda_graph_bytes=overhead.cuda_graph_bytes
        + (tensor_parallel_bytes if tensor_parallel_size > 1 else 0.0),
    )


def real_budget(
    gpu: Gpu, *, weights_bytes: float, flags: ServerFlags, overhead: Overhead | None = None
) -> BudgetRange:
    """A realistic budget of each GPU: CUDA's total, vLLM's default share, and a range.

    The activation peak depends on the model, the batch size and the version, and cannot be computed
    from a config. Without a measured `overhead` the range of public logs is used.

    Args:
        gpu: The GPU; CUDA's total counts, or `nvidia-smi`'s where CUDA's is not known.
        weights_bytes: Bytes of all weights; the flags' parallelism divides them.
        flags: The server's flags.
        overhead: What a start-up log of this very server says, if there is one.

    Raises:
        FlagError: More weights are to be offloaded than there are.

    Examples:
        >>> from kvdocs.gpu import Gpu
        >>> h100 = Gpu("H100 SXM", 80 * 10**9, 85520809984, 85018877624, 3.35e12, 989e12, 1979e12,
        ...     64e9, 450e9)
        >>> span = real_budget(h100, weights_bytes=16.06e9, flags=ServerFlags())
        >>> round(span.low.kv_bytes / 2**30), round(span.high.kv_bytes / 2**30)
        (49, 53)
    """
    share = weights_bytes / flags.world_size - flags.cpu_offload_gb * GIB
    if share < 0:
        raise FlagError(
            f"--cpu-offload-gb {flags.cpu_offload_gb:g} is more than the weights on each GPU, "
            f"{format_bytes(weights_bytes / flags.world_size, 'GiB')}"
        )
    base = Budget(
        total_bytes=gpu.total_memory_bytes,
        utilization=flags.gpu_memory_utilization,
        weights_bytes=share,
        activation_bytes=0,
        non_torch_bytes=0,
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
    )
    if overhead is not None:
        budget = _with(base, overhead)
        return BudgetRange(low=budget, high=budget, basis="measured on this server", sources=())
    most, least, basis, sources = _measured_range(gpu, flags)
    return BudgetRange(low=_with(base, most), high=_with(base, least), basis=basis, sources=sources)


def _with(budget: Budget, overhead: Overhead) -> Budget:
    return replace(
        budget,
        activation_bytes=overhead.activation_bytes,
        non_torch_bytes=overhead.non_torch_bytes,
        cuda_graph_bytes=overhead.cuda_graph_bytes,
    )


def _measured_range(
    gpu: Gpu, flags: ServerFlags
) -> tuple[Overhead, Overhead, str, tuple[str, ...]]:
    """The most and the least overhead in public logs, their basis, and where they stand."""
    several = flags.tensor_parallel_size > 1
    context = (0.55 * GIB, 0.55 * GIB) if several else (0.35 * GIB, 0.13 * GIB)
    # Until 0.20.2 graphs came on top of the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS).
    counted = version_tuple(flags.vllm_version) >= (0, 20, 2) and not flags.enforce_eager
    graphs = 1.03 * GIB if counted else 0.0
    batch = default_max_num_batched_tokens(gpu, flags)
    if batch >= _LARGE_BATCH:
        activation = (7.38 * GIB, 4.76 * GIB)
        basis = (
            "activation peaks of 4.76 to 7.38 GiB that vLLM logged on an H100 for five models from "
            f"0.6B to 120B at its default batch of {_LARGE_BATCH:,} tokens"
        )
        sources: tuple[str, ...] = (_LOG_TABLE,)
    else:
        activation = (2.07 * GIB, 0.6 * GIB)
        basis = (
            "overheads of about 1 to 2.4 GiB that an 8B model left on 24 GB GPUs with batches of "
            "2,048 tokens and more"
        )
        sources = (*_SMALL_GPU_LOGS, _LOG_TABLE)
    most = Overhead(
        activation_bytes=activation[0], non_torch_bytes=context[0], cuda_graph_bytes=graphs
    )
    least = Overhead(activation_bytes=activation[1], non_torch_bytes=context[1])
    return most, least, basis, sources


_TIERS: Final = ((160 * GIB, 16384, (0, 29)), (70 * GIB, 8192, (0, 8, 5)))
_SMALL_TIER: Final = 2048


def default_max_num_batched_tokens(gpu: Gpu, flags: ServerFlags) -> int:
    """Tokens per step: as the flag says, else the default `vllm serve` takes for this GPU.

    Source: vLLM 0.33.0 `vllm/engine/arg_utils.py`, `get_batch_defaults`. The cap by
    `max_num_seqs * max_model_len` is left out: it binds only for tiny lengths.

    Examples:
        >>> from kvdocs.gpu import Gpu
        >>> l4 = Gpu("L4", 24 * 10**9, 24152899584, None, 3e11, 1.2e14, None, 3.2e10, None)
        >>> default_max_num_batched_tokens(l4, ServerFlags())
        2048
    """
    if flags.max_num_batched_tokens is not None:
        return flags.max_num_batched_tokens
    version = version_tuple(flags.vllm_version)
    for least_bytes, tokens, since in _TIERS:
        excluded = tokens == 8192 and _is_small_tier(gpu)
        if gpu.total_memory_bytes >= least_bytes and version >= since and not excluded:
            return tokens
    return _SMALL_TIER


def default_max_num_seqs(gpu: Gpu, flags: ServerFlags) -> int:
    """Requests running at once: as the flag says, else the default for this GPU.

    Source: as `default_max_num_batched_tokens`.

    Examples:
        >>> from kvdocs.gpu import Gpu
        >>> l4 = Gpu("L4", 24 * 10**9, 24152899584, None, 3e11, 1.2e14, None, 3.2e10, None)
        >>> default_max_num_seqs(l4, ServerFlags())
        256
    """
    if flags.max_num_seqs is not None:
        return flags.max_num_seqs
    large = gpu.total_memory_bytes >= 70 * GIB and not _is_small_tier(gpu)
    new_enough = version_tuple(flags.vllm_version) >= (0, 8, 5)
    return 1024 if large and new_enough else 256


def _is_small_tier(gpu: Gpu) -> bool:
    """A100 and GB10 keep the small defaults whatever their memory."""
    return "a100" in gpu.name.lower() or "gb10" in gpu.name.lower()
