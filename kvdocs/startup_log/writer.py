"""vLLM's start-up lines as version 0.33.0 prints them, from the result of a sizing.

Only the lines about memory and capacity; pure, without clock or chance: the caller gives the time
of the first line, and each later line stands a plausible while after it. Templates, file names and
line numbers: vLLM 0.33.0, `logger.py`, `entrypoints/common/startup.py`, `config/cache.py`,
`platforms/interface.py`, `v1/worker/gpu/model_runner.py` (Model Runner V2, the default:
`config/vllm.py`, `use_v2_model_runner`), `v1/worker/gpu_worker.py`, `v1/worker/utils.py`,
`v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`, `v1/engine/core.py`.

Where the context stands: 0.33.0 looks at the free memory after the CUDA context and NCCL are there
(`gpu_worker.py`, `init_device`), so that a context is missing from the free memory and in no other
figure; a share above what is free is refused, 1.0 always. A `Budget` counts the context inside the
share, as older versions did. So the lines say: free on start-up is the GPU without its context,
consumed are the weights and what is outside PyTorch, the context with it, and the peak is the
workspace alone. The two suggestions are what the share and what the whole GPU have left after all
of these, the context counted once.

CUDA graphs: their lines stand where the budget counts graphs. A budget with none is that of a
server with `--enforce-eager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kvdocs.sizing import Budget, Capacity
from kvdocs.sizing.budget import early_refusal, free_memory_refusal, out_of_memory
from kvdocs.units import MIB, format_gib_as_vllm

VERSION: Final = "0.33.0"
"""The version imitated."""
DEFAULT_MODEL: Final = "Qwen/Qwen3-0.6B"
"""What vLLM 0.33.0 serves when no model is named (`vllm/config/model.py`, ModelConfig)."""
_ADVICE_BUFFER: Final = 150 * MIB
_API_SERVER: Final = "APIServer pid=1"
_ENGINE: Final = "EngineCore pid=118"
_FIRST_WORKER_PID: Final = 153
_NOT_QUANTIZED: Final = ("auto", "float16", "bfloat16")
"""Cache dtypes of which vLLM says nothing (`v1/kv_cache_interface.py`, `get_kv_quant_mode`)."""
_FIRST_LINE: Final = datetime(2026, 11, 30, 9, 0)  # noqa: DTZ001  # a log line names no zone
_PLACES: Final = {
    # These two numbers: public logs of a release after 0.28, the file being the same.
    "Setting attention block size": "interface.py:926",
    "Padding mamba page size": "interface.py:950",
    "Add ": "kv_cache_planning.py:537",
    "Hybrid KV cache": "kv_cache_planning.py:870",
    "Auto-fit": "kv_cache_planning.py:1404",
    "Overriding": "kv_cache_planning.py:1525",
    "GPU KV cache size": "kv_cache_utils.py:1147",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupReport:
    """Everything the lines need.

    Attributes:
        model: Name as given to `vllm serve`.
        budget: How one GPU is divided.
        capacity: What the pool then holds, or why the server refuses.
        flags: Flags that are not at their default, by vLLM's field names.
        kv_cache_dtype: The cache dtype in use, a checkpoint's own in the place of `auto`.
        tensor_parallel_size: GPUs; above one, workers print under their own names.
        data_parallel_size: Engines, and as many API servers.
        free_bytes: Free on the GPU when vLLM looks; all but the CUDA context when None.
        started: Time of the first line.
        load_seconds: How long the weights took.
    """

    model: str
    budget: Budget
    capacity: Capacity
    flags: Mapping[str, object] = field(default_factory=dict)
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    free_bytes: float | None = None
    started: datetime = _FIRST_LINE
    load_seconds: float = 12.5

    @property
    def free_at_start(self) -> float:
        """Free before the weights are loaded, in bytes."""
        return self.budget.free_bytes if self.free_bytes is None else self.free_bytes

    @property
    def share_is_free(self) -> bool:
        """Whether the share asked for is free, where vLLM asks for one."""
        budget = self.budget
        return (
            budget.kv_cache_memory_bytes is not None
            or free_memory_refusal(budget, self.free_at_start) is None
        )

    @property
    def weights_load(self) -> bool:
        """Whether there is room for the weights."""
        return out_of_memory(self.budget, self.free_at_start) is None


@dataclass(frozen=True, slots=True)
class _Line:
    """A message with who says it, where, and how many seconds after the first.

    What is said nowhere is the end of a traceback, which has no time and no level.
    """

    process: str
    place: str
    text: str
    after: float
    level: str = "INFO"


def refusal(report: StartupReport) -> str | None:
    """The error with which this server would not start, in the words of who raises it, or None.

    In the order of vLLM: free memory, loading the weights, planning the cache.
    """
    error = early_refusal(report.budget, report.free_at_start) or report.capacity.refusal
    if error is None or error.startswith("torch."):
        return error
    return f"ValueError: {error}"


def write_startup(report: StartupReport) -> tuple[str, ...]:
    """The start-up log, up to the refusal or to the open port.

    Args:
        report: The figures.

    Returns:
        Lines without line ends, prefixes as a server with plain (uncoloured) logging prints them.

    Examples:
        >>> from kvdocs.flags import ServerFlags
        >>> from kvdocs.model import parse_config
        >>> from kvdocs.sizing import capacity
        >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "max_position_embeddings": 131072})
        >>> budget = Budget(total_bytes=80 * 2**30, utilization=0.9, weights_bytes=16 * 2**30,
        ...     activation_bytes=5 * 2**30, non_torch_bytes=2**30)
        >>> pool = capacity(llama, budget, ServerFlags(max_model_len=8192))
        >>> lines = write_startup(StartupReport(model="llama", budget=budget, capacity=pool))
        >>> print(lines[4][:59], lines[4][59:], sep=chr(10))
        (EngineCore pid=118) INFO 11-30 09:00:41 [gpu_worker.py:772
        ] Available KV cache memory: 50.0 GiB
    """
    lines = _opening(report)
    refused = refusal(report)
    if refused is None:
        lines += [*_profiling(report), *_running(report)]
    elif report.share_is_free and report.weights_load:
        lines += [*_profiling(report), *_planned(report), *_failure(report, refused)]
    else:
        lines += _failure(report, refused)
    return tuple(_printed(line, report) for line in lines)


def _printed(line: _Line, report: StartupReport) -> str:
    """A line with vLLM's prefix (`logger.py`, `_FORMAT`)."""
    if not line.place:
        return f"({line.process}) {line.text}"
    at = report.started + timedelta(seconds=line.after)
    return f"({line.process}) {line.level} {at:%m-%d %H:%M:%S} [{line.place}] {line.text}"


def _worker(report: StartupReport, rank: int = 0) -> str:
    """The process that measures memory: the engine itself with one GPU, else a worker."""
    if report.tensor_parallel_size == 1:
        return _ENGINE
    return f"Worker_TP{rank} pid={_FIRST_WORKER_PID + rank}"


def _all_workers(report: StartupReport, place: str, text: str, after: float) -> list[_Line]:
    """A line that every worker prints for itself."""
    ranks = range(report.tensor_parallel_size)
    return [_Line(_worker(report, rank), place, text, after) for rank in ranks]


def _opening(report: StartupReport) -> list[_Line]:
    """What is said before the weights are loaded."""
    served = f"vLLM server version {VERSION}, serving model {report.model}"
    lines = [
        _Line(_API_SERVER, "startup.py:40", served, 0),
        _Line(_API_SERVER, "startup.py:96", f"non-default args: {_arguments(report)}", 0.2),
    ]
    if report.kv_cache_dtype not in _NOT_QUANTIZED:
        lines.append(_Line(_API_SERVER, *_cache_dtype(report.kv_cache_dtype), 3))
    return [*lines, _Line(_worker(report), "gpu_worker.py:513", "Using V2 Model Runner", 14)]


def _arguments(report: StartupReport) -> dict[str, object]:
    """The arguments that differ from their defaults, in vLLM's order of the first three.

    `vllm serve` puts the model, which is given by its place, under its flag too. It fills in the
    number of API servers, and clears it again where there is one
    (`entrypoints/cli/serve.py`, `ServeSubcommand.cmd`).
    """
    servers = {"api_server_count": report.data_parallel_size}
    return {
        "model_tag": report.model,
        **(servers if report.data_parallel_size > 1 else {}),
        **({"model": report.model} if report.model != DEFAULT_MODEL else {}),
        **report.flags,
    }


def _cache_dtype(dtype: str) -> tuple[str, str]:
    """Place and text of the line about a quantised cache (`config/cache.py`)."""
    text = (
        f"Using {dtype} data type to store kv cache. It reduces the GPU memory footprint and "
        "boosts the performance. "
    )
    if dtype.endswith("_per_token_head"):
        scales = "Dynamic per-token-head scales will be computed at runtime."
        return "cache.py:477", text + scales
    warning = "Meanwhile, it may cause accuracy drop without a proper scaling factor"
    return "cache.py:484", text + warning


def _profiling(report: StartupReport) -> list[_Line]:
    """Weights, the profiling run, and what it leaves."""
    budget, worker = report.budget, _worker(report)
    loaded = 17 + report.load_seconds
    took = (
        f"Model loading took {format_gib_as_vllm(budget.weights_bytes)} GiB memory and "
        f"{report.load_seconds:.6f} seconds"
    )
    lines = _all_workers(report, "model_runner.py:428", took, loaded)
    for text in report.capacity.worker_log:
        lines += _all_workers(report, _place(text), text, loaded)
    if budget.kv_cache_memory_bytes is not None:
        text = _memory_by_flag(report, budget.kv_cache_memory_bytes)
        return [*lines, *_all_workers(report, "gpu_worker.py:676", text, loaded + 12)]
    text = f"Available KV cache memory: {format_gib_as_vllm(budget.kv_bytes)} GiB"
    lines.append(_Line(worker, "gpu_worker.py:772", text, loaded + 12))
    if budget.cuda_graph_bytes:
        lines += _all_workers(report, "gpu_worker.py:787", _graph_note(budget), loaded + 12)
    return lines


def _memory_by_flag(report: StartupReport, size: int) -> str:
    """What `--kv-cache-memory-bytes` makes every worker say."""
    return (
        f"Initial free memory {format_gib_as_vllm(report.free_at_start)} GiB, reserved "
        f"{format_gib_as_vllm(size)} GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does not respect the "
        "gpu_memory_utilization config. Only use kv_cache_memory_bytes config when you want manual "
        "control of KV cache memory size. If OOM'ed, check the difference of initial free memory "
        "between the current run and the previous run where kv_cache_memory_bytes is suggested "
        "and update it correspondingly."
    )


def _graph_note(budget: Budget) -> str:
    """What counting CUDA graphs in the budget means for the flag."""
    now, delta = budget.utilization, budget.cuda_graph_bytes / budget.total_bytes
    return (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
        f"--gpu-memory-utilization={now:.4f} is equivalent to --gpu-memory-utilization="
        f"{now - delta:.4f} without CUDA graph memory profiling. To maintain the same effective KV "
        f"cache size as before, increase --gpu-memory-utilization to {min(now + delta, 1):.4f}. To "
        "disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0."
    )


def _planned(report: StartupReport) -> list[_Line]:
    """The lines of the block planner, as the sizing has them."""
    after = 30 + report.load_seconds
    return [
        _Line(_ENGINE, _place(text), text, after, "WARNING" if text.startswith("Add ") else "INFO")
        for text in report.capacity.log
    ]


def _place(text: str) -> str:
    """Where in vLLM a line about the cache is printed."""
    known = (place for start, place in _PLACES.items() if text.startswith(start))
    return next(known, "kv_cache_planning.py:1525")


def _running(report: StartupReport) -> list[_Line]:
    """Capacity, graphs, the budget once more, and the open port."""
    after = 30 + report.load_seconds
    lines = _planned(report)
    graphs = report.budget.cuda_graph_bytes
    if graphs:
        text = f"Graph capturing finished in 7 secs, took {graphs / 2**30:.2f} GiB"
        lines += _all_workers(report, "model_runner.py:1163", text, after + 8)
        lines += _all_workers(report, "gpu_worker.py:1003", _graph_pool(graphs), after + 8)
    if report.budget.kv_cache_memory_bytes is None:
        lines += _all_workers(report, "gpu_worker.py:1066", _summary(report), after + 8)
    took = (
        "init engine (profile, create kv cache, warmup model) took "
        f"{22 + report.load_seconds / 50:.2f} s"
    )
    port = "Starting vLLM server on http://0.0.0.0:8000"
    lines += [
        _Line(_ENGINE, "core.py:412", took, after + 9),
        _Line(_API_SERVER, "entry.py:139", port, after + 10),
    ]
    return lines


def _graph_pool(graphs: float) -> str:
    """What the graphs took beside what was expected: the budget knows one figure for both."""
    size = format_gib_as_vllm(graphs)
    return (
        f"CUDA graph pool memory: {size} GiB (actual), {size} GiB (estimated), difference: 0.0 GiB "
        "(0.0%)."
    )


def _summary(report: StartupReport) -> str:
    """The budget after CUDA graphs are captured, with the flag that would replace it."""
    budget, gib = report.budget, format_gib_as_vllm
    consumed = budget.weights_bytes + budget.non_torch_bytes
    peak = budget.activation_bytes
    spent = consumed + peak + budget.cuda_graph_bytes + _ADVICE_BUFFER
    within = round(budget.requested_bytes - spent)
    whole = round(report.free_at_start + budget.non_torch_bytes - spent)
    return (
        f"Free memory on device ({gib(report.free_at_start)}/{gib(budget.total_bytes)} GiB) on "
        f"startup. Desired GPU memory utilization is ({budget.utilization}, "
        f"{gib(budget.requested_bytes)} GiB). Actual usage is {gib(consumed)} GiB for consumed "
        f"memory (weights + non-torch), {gib(peak)} GiB for peak activation, and "
        f"{gib(budget.cuda_graph_bytes)} GiB for CUDAGraph memory. Replace gpu_memory_utilization "
        f"config with `--kv-cache-memory={within}` ({gib(within)} GiB) to fit into requested "
        f"memory, or `--kv-cache-memory={whole}` ({gib(whole)} GiB) to fully utilize gpu memory. "
        f"Current kv cache memory in use is {gib(budget.kv_bytes)} GiB."
    )


def _failure(report: StartupReport, error: str) -> list[_Line]:
    """A start that ends in an error: the engine logs it, the server ends with its own exception.

    The exception: `vllm/v1/engine/utils.py`, `wait_for_engine_startup`.
    """
    after = 31 + report.load_seconds
    server = (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}"
    )
    return [
        _Line(_ENGINE, "core.py:1584", "EngineCore failed to start.", after, "ERROR"),
        _Line(_ENGINE, "core.py:1584", error, after, "ERROR"),
        _Line(_API_SERVER, "", server, after + 1),
    ]
