"""vLLM's start-up lines as version 0.33.0 prints them, from the figures of a sizing.

Only the lines about memory and capacity; pure functions, no clock and no randomness: the caller
gives the time of the first line, and each later line stands a plausible while after it. Templates,
file names and line numbers: vLLM 0.33.0, `logger.py`, `v1/worker/gpu_model_runner.py`,
`v1/worker/gpu_worker.py`, `v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`,
`v1/worker/utils.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kvdocs.units import MIB, format_gib_as_vllm

VERSION: Final = "0.33.0"
"""The version imitated."""
_DOCS: Final = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
_ADVICE_BUFFER: Final = 150 * MIB
_API_SERVER: Final = "APIServer pid=1"
_ENGINE: Final = "EngineCore pid=118"
_FIRST_WORKER_PID: Final = 153
_FIRST_LINE: Final = datetime(2026, 11, 30, 9, 0)  # noqa: DTZ001  # a log line names no zone


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """What one GPU of a starting server measures, in bytes.

    Attributes:
        total: The device's memory as CUDA reports it.
        free_at_start: Free before this server takes any.
        gpu_memory_utilization: `--gpu-memory-utilization`.
        weights: The model's weights.
        non_torch: CUDA context, NCCL and other memory outside PyTorch.
        activation_peak: Peak of the profiling run above what stays.
        cuda_graphs: Estimate for CUDA graphs, taken out of the budget; 0 with `--enforce-eager`.
        kv_cache_memory: `--kv-cache-memory-bytes`, or 0 when the budget decides.
    """

    total: int
    free_at_start: int
    gpu_memory_utilization: float
    weights: int
    non_torch: int = 0
    activation_peak: int = 0
    cuda_graphs: int = 0
    kv_cache_memory: int = 0

    @property
    def requested(self) -> int:
        """The share this server may use (`request_memory`: rounded up)."""
        return math.ceil(self.total * self.gpu_memory_utilization)

    @property
    def available(self) -> int:
        """What is left for KV cache; below zero when overdrawn."""
        if self.kv_cache_memory:
            return self.kv_cache_memory
        parts = self.weights + self.non_torch + self.activation_peak + self.cuda_graphs
        return self.requested - parts


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """How the engine split the KV memory.

    Attributes:
        max_model_len: Longest request, in tokens.
        num_gpu_blocks: Blocks in the pool, the null block included.
        blocks_per_request: Blocks one request of `max_model_len` takes, over all KV groups.
        needed: Bytes one such request takes.
        bytes_per_block: Bytes of one block on one GPU.
        estimated_max_model_len: Longest request that would fit; 0 when none does.
        block_size: Tokens in a block.
        profiled_gpu_blocks: Blocks before `--num-gpu-blocks-override`; 0 without that flag.
    """

    max_model_len: int
    num_gpu_blocks: int
    blocks_per_request: int
    needed: int
    bytes_per_block: int
    estimated_max_model_len: int = 0
    block_size: int = 16
    profiled_gpu_blocks: int = 0

    @property
    def max_concurrency(self) -> float:
        """Requests of maximum length the pool holds."""
        return self.num_gpu_blocks / self.blocks_per_request

    @property
    def pool_tokens(self) -> int:
        """The pool as printed (`get_kv_cache_capacity`)."""
        return int(self.max_concurrency * self.max_model_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupReport:
    """Everything the lines need.

    Attributes:
        model: Name as given to `vllm serve`.
        memory: The budget, per GPU.
        capacity: The pool.
        flags: Flags that are not at their default, as vLLM prints them.
        tensor_parallel_size: GPUs; above one, workers print under their own names.
        started: Time of the first line.
        load_seconds: How long the weights took.
    """

    model: str
    memory: MemoryReport
    capacity: CapacityReport
    flags: tuple[tuple[str, str | int | float | bool], ...] = ()
    tensor_parallel_size: int = 1
    started: datetime = _FIRST_LINE
    load_seconds: float = 12.5


@dataclass(frozen=True, slots=True)
class _Line:
    """A message with who says it, where, and how many seconds after the first."""

    process: str
    place: str
    text: str
    after: float
    level: str = "INFO"


def capacity_line(capacity: CapacityReport, *, device: str = "GPU") -> str:
    """The message that states the pool.

    Examples:
        >>> pool = CapacityReport(max_model_len=8192, num_gpu_blocks=25600,
        ...     blocks_per_request=512, needed=2**30, bytes_per_block=2**21)
        >>> print(*capacity_line(pool).split(", "), sep=chr(10))
        GPU KV cache size: 409,600 tokens
        Maximum concurrency for 8,192 tokens per request: 50.00x
    """
    return (
        f"{device} KV cache size: {capacity.pool_tokens:,} tokens, "
        f"Maximum concurrency for {capacity.max_model_len:,} tokens per request: "
        f"{capacity.max_concurrency:.2f}x"
    )


def available_line(memory: MemoryReport) -> str:
    """The message that states the KV memory.

    Examples:
        >>> available_line(MemoryReport(total=80 * 2**30, free_at_start=79 * 2**30,
        ...     gpu_memory_utilization=0.9, weights=16 * 2**30, activation_peak=6 * 2**30))
        'Available KV cache memory: 50.0 GiB'
    """
    return f"Available KV cache memory: {format_gib_as_vllm(memory.available)} GiB"


def no_memory_error() -> str:
    """The refusal when nothing is left for KV cache."""
    return (
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine (this flag also controls CPU memory reservation on the CPU "
        f"backend, despite its name). See {_DOCS} for more details."
    )


def too_long_error(capacity: CapacityReport, available: int) -> str:
    """The refusal when one request of maximum length does not fit.

    The opening bracket without a closing one is vLLM's own.

    Args:
        capacity: The pool.
        available: Bytes available on the GPU that binds; the null block is taken off here.

    Examples:
        >>> pool = CapacityReport(max_model_len=131072, num_gpu_blocks=4096, needed=16 * 2**30,
        ...     blocks_per_request=8192, bytes_per_block=2**21, estimated_max_model_len=65520)
        >>> print(too_long_error(pool, 8 * 2**30)[69:154])
        (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (8.0
    """
    estimate = capacity.estimated_max_model_len
    told = (
        f"Based on the available memory, the estimated maximum model length is {estimate}. "
        if estimate > 0
        else ""
    )
    usable = available - capacity.bytes_per_block
    return (
        f"To serve at least one request with the model's max seq len ({capacity.max_model_len}), "
        f"({format_gib_as_vllm(capacity.needed)} GiB KV cache is needed, which is larger than the "
        f"available KV cache memory ({format_gib_as_vllm(usable)} GiB). {told}Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        f"decreasing `max_model_len` when initializing the engine. See {_DOCS} for more details."
    )


def free_memory_error(memory: MemoryReport, *, device: int = 0) -> str:
    """The refusal when other processes hold too much of the GPU.

    Examples:
        >>> free_memory_error(MemoryReport(total=80 * 2**30, free_at_start=20 * 2**30,
        ...     gpu_memory_utilization=0.92, weights=2**34))[:71]
        'Free memory on device cuda:0 (20.0/80.0 GiB) on startup is less than de'
    """
    return (
        f"Free memory on device cuda:{device} ({format_gib_as_vllm(memory.free_at_start)}/"
        f"{format_gib_as_vllm(memory.total)} GiB) on startup is less than desired GPU memory "
        f"utilization ({memory.gpu_memory_utilization}, {format_gib_as_vllm(memory.requested)} "
        "GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )


def refusal(report: StartupReport) -> str:
    """Why this server would not start, in vLLM's words; empty if it does."""
    memory, capacity = report.memory, report.capacity
    if memory.free_at_start < memory.requested and not memory.kv_cache_memory:
        return free_memory_error(memory)
    forced = capacity.num_gpu_blocks * capacity.bytes_per_block
    available = forced if capacity.profiled_gpu_blocks else memory.available
    if available - capacity.bytes_per_block <= 0:
        return no_memory_error()
    if capacity.needed > available - capacity.bytes_per_block:
        return too_long_error(capacity, available)
    return ""


def write_startup(report: StartupReport) -> list[str]:
    """The start-up log, up to the refusal or to the server's first breath.

    Args:
        report: The figures.

    Returns:
        Lines without line ends, prefixes as a server with plain (uncoloured) logging prints them.

    Examples:
        >>> memory = MemoryReport(total=80 * 2**30, free_at_start=79 * 2**30, weights=16 * 2**30,
        ...     gpu_memory_utilization=0.9, activation_peak=6 * 2**30)
        >>> pool = CapacityReport(max_model_len=8192, num_gpu_blocks=25600,
        ...     blocks_per_request=512, needed=2**30, bytes_per_block=2**21)
        >>> lines = write_startup(StartupReport(model="m", memory=memory, capacity=pool))
        >>> print(lines[3][:59], lines[3][59:], sep=chr(10))
        (EngineCore pid=118) INFO 11-30 09:00:41 [gpu_worker.py:772
        ] Available KV cache memory: 50.0 GiB
    """
    lines = _opening(report)
    refused = refusal(report)
    if refused.startswith("Free memory"):
        return [_printed(line, report) for line in (*lines, *_failure(report, refused))]
    lines += _profiling(report)
    lines += _failure(report, refused) if refused else _running(report)
    return [_printed(line, report) for line in lines]


def _printed(line: _Line, report: StartupReport) -> str:
    """A line with vLLM's prefix (`logger.py`, `_FORMAT`)."""
    at = report.started + timedelta(seconds=line.after)
    prefix = f"({line.process}) {line.level} {at:%m-%d %H:%M:%S} [{line.place}] "
    return prefix + line.text


def _worker(report: StartupReport, rank: int = 0) -> str:
    """The process that measures memory: the engine itself with one GPU, else a worker."""
    if report.tensor_parallel_size == 1:
        return _ENGINE
    return f"Worker_TP{rank} pid={_FIRST_WORKER_PID + rank}"


def _opening(report: StartupReport) -> list[_Line]:
    flags = {"model": report.model, **dict(report.flags)}
    return [
        _Line(
            _API_SERVER,
            "startup.py:40",
            f"vLLM server version {VERSION}, serving model {report.model}",
            0,
        ),
        _Line(_API_SERVER, "startup.py:96", f"non-default args: {flags}", 0.2),
    ]


def _profiling(report: StartupReport) -> list[_Line]:
    """Weights, the profiling run, and what it leaves."""
    memory, worker = report.memory, _worker(report)
    loaded = 17 + report.load_seconds
    lines = [
        _Line(
            worker,
            "gpu_model_runner.py:5088",
            f"Model loading took {format_gib_as_vllm(memory.weights)} GiB memory and "
            f"{report.load_seconds:.6f} seconds",
            loaded,
        )
    ]
    if memory.kv_cache_memory:
        return [*lines, *_memory_by_flag(report, loaded + 12)]
    if memory.cuda_graphs:
        estimate = f"Estimated CUDA graph memory: {memory.cuda_graphs / 2**30:.2f} GiB total"
        lines.append(_Line(worker, "gpu_model_runner.py:6409", estimate, loaded + 11))
    lines.append(_Line(worker, "gpu_worker.py:772", available_line(memory), loaded + 12))
    if memory.cuda_graphs:
        lines += _graph_notes(report, loaded + 12)
    return lines


def _memory_by_flag(report: StartupReport, after: float) -> list[_Line]:
    """`--kv-cache-memory-bytes`: every worker says so."""
    memory = report.memory
    text = (
        f"Initial free memory {format_gib_as_vllm(memory.free_at_start)} GiB, reserved "
        f"{format_gib_as_vllm(memory.kv_cache_memory)} GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does not respect the "
        "gpu_memory_utilization config. Only use kv_cache_memory_bytes config when you want manual "
        "control of KV cache memory size. If OOM'ed, check the difference of initial free memory "
        "between the current run and the previous run where kv_cache_memory_bytes is suggested "
        "and update it correspondingly."
    )
    ranks = range(report.tensor_parallel_size)
    return [_Line(_worker(report, rank), "gpu_worker.py:676", text, after) for rank in ranks]


def _graph_notes(report: StartupReport, after: float) -> list[_Line]:
    """What counting CUDA graphs in the budget means for the flag; every worker says so."""
    memory = report.memory
    now, delta = memory.gpu_memory_utilization, memory.cuda_graphs / memory.total
    text = (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
        f"--gpu-memory-utilization={now:.4f} is equivalent to --gpu-memory-utilization="
        f"{now - delta:.4f} without CUDA graph memory profiling. To maintain the same effective KV "
        f"cache size as before, increase --gpu-memory-utilization to {min(now + delta, 1):.4f}. To "
        "disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."
    )
    ranks = range(report.tensor_parallel_size)
    return [_Line(_worker(report, rank), "gpu_worker.py:787", text, after) for rank in ranks]


def _running(report: StartupReport) -> list[_Line]:
    """Capacity, graphs, the budget once more, and the open port."""
    after = 30 + report.load_seconds
    lines = _overridden(report, after)
    lines.append(_Line(_ENGINE, "kv_cache_utils.py:1147", capacity_line(report.capacity), after))
    if report.memory.cuda_graphs:
        took = f"{report.memory.cuda_graphs / 2**30:.2f} GiB"
        text = f"Graph capturing finished in 7 secs, took {took}"
        lines.append(_Line(_worker(report), "gpu_model_runner.py:6516", text, after + 8))
    if not report.memory.kv_cache_memory:
        ranks = range(report.tensor_parallel_size)
        summary = _summary(report.memory)
        lines += [
            _Line(_worker(report, rank), "gpu_worker.py:1066", summary, after + 8) for rank in ranks
        ]
    took = "init engine (profile, create kv cache, warmup model) took"
    lines += [
        _Line(_ENGINE, "core.py:412", f"{took} {22 + report.load_seconds / 50:.2f} s", after + 9),
        _Line(
            _API_SERVER, "entry.py:139", "Starting vLLM server on http://0.0.0.0:8000", after + 10
        ),
    ]
    return lines


def _overridden(report: StartupReport, after: float) -> list[_Line]:
    capacity = report.capacity
    if not capacity.profiled_gpu_blocks:
        return []
    text = (
        f"Overriding num_gpu_blocks={capacity.profiled_gpu_blocks} with "
        f"num_gpu_blocks_override={capacity.num_gpu_blocks}"
    )
    return [_Line(_ENGINE, "kv_cache_planning.py:1525", text, after)]


def _summary(memory: MemoryReport) -> str:
    """The budget after CUDA graphs are captured, with the flag that would replace it."""
    consumed = memory.weights + memory.non_torch
    peak = memory.activation_peak + memory.cuda_graphs
    spent = consumed + peak + memory.cuda_graphs + _ADVICE_BUFFER
    within, whole = memory.requested - spent, memory.free_at_start - spent
    gib = format_gib_as_vllm
    return (
        f"Free memory on device ({gib(memory.free_at_start)}/{gib(memory.total)} GiB) on startup. "
        f"Desired GPU memory utilization is ({memory.gpu_memory_utilization}, "
        f"{gib(memory.requested)} GiB). Actual usage is {gib(consumed)} GiB for consumed memory "
        f"(weights + non-torch), {gib(peak)} GiB for peak activation, and "
        f"{gib(memory.cuda_graphs)} GiB for CUDAGraph memory. Replace gpu_memory_utilization "
        f"config with `--kv-cache-memory={within}` ({gib(within)} GiB) to fit into requested "
        f"memory, or `--kv-cache-memory={whole}` ({gib(whole)} GiB) to fully utilize gpu memory. "
        f"Current kv cache memory in use is {gib(memory.available)} GiB."
    )


def _failure(report: StartupReport, error: str) -> list[_Line]:
    """A start that ends in an error, as the engine and the server report it."""
    after = 31 + report.load_seconds
    return [
        _Line(_ENGINE, "core.py:1584", "EngineCore failed to start.", after, "ERROR"),
        _Line(_ENGINE, "core.py:1584", f"ValueError: {error}", after, "ERROR"),
        _Line(
            _API_SERVER,
            "utils.py:1474",
            "RuntimeError: Engine core initialization failed. See root cause above.",
            after + 1,
            "ERROR",
        ),
    ]
