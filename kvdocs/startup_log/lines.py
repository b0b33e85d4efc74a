"""Every start-up line the reader knows: one table, with the versions that print each.

A template is the line's own words with `{figure:kind}` where a number stands and `…` where any
words may stand. A line is matched phrase by phrase rather than whole, so that a wrapped, cut or
re-typed line still gives what it has. `needle` is the phrase's cheapest tell-tale substring: the
reader looks at a line only if it holds one.

Sources of the vLLM templates: `v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py`,
`v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`, `platforms/interface.py`,
`config/compilation.py` (0.33.0), the same files and `worker/worker.py`, `executor/gpu_executor.py`,
`worker/model_runner.py` of 0.5.4, 0.6.3, 0.10.2 and 0.18.1. SGLang: `mem_cache/memory_pool.py` and
`model_executor/model_runner.py`. TensorRT-LLM: `batch_manager/kvCacheManager.cpp` and
`_torch/pyexecutor/_util.py`. llama.cpp: `src/llama-kv-cache*.cpp`, `src/llama-context.cpp`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final, Literal

from kvdocs.startup_log.interval import Interval
from kvdocs.units import BYTE_UNITS, GIB, MIB

Engine = Literal["vllm", "sglang", "tensorrt-llm", "llama.cpp", "any"]


class Phase(IntEnum):
    """When in a start a line is printed; going backwards means that a new start began."""

    ANY = -1
    CONFIG = 0
    WEIGHTS = 1
    BUDGET = 2
    CAPACITY = 3
    AFTER = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """One printed number.

    Attributes:
        value: In the unit its name says (bytes, tokens, …).
        interval: Every value that prints the same.
    """

    value: float
    interval: Interval


_NUMBER: Final = r"(?<![\d.,])~?-?\d{1,16}(?:,\d{3}){0,5}(?:\.\d{1,9})?"
_KINDS: Final = {
    "gib": _NUMBER,
    "mib": _NUMBER,
    "bytes": r"(?<!\d)-?\d{1,18}",
    "count": r"(?<![\d.,-])~?\d{1,16}(?:,\d{3}){0,5}(?:(?:\.\d{1,3})?[kKM])?",
    "number": _NUMBER,
    "size": rf"{_NUMBER} ?[kKMGT]?i?B",
    "word": r"[\w.+^/-]{0,80}\w",
    "text": r"[^()]{0,400}",
}
_ANYTHING: Final = ".{0,160}?"
"""As far as any two phrases of one line are apart; bounded, so that no line takes long."""
_PLACE: Final = re.compile(r"\{(\w+):(\w+)\}|(\s*…\s*)|(\s+)")
_SUFFIX: Final = {"k": 1e3, "K": 1e3, "M": 1e6}
_SIZE_UNIT: Final = {"KB": 1024, "MB": MIB, "GB": GIB, "TB": 1024 * GIB}


def _rounded(text: str, unit: float, *, least_decimals: int) -> Reading:
    """A printed decimal number in some unit, with half a unit of its last digit either side."""
    approximate = text.startswith("~")
    digits = text.lstrip("~").replace(",", "")
    decimals = len(digits.partition(".")[2])
    if not approximate:
        decimals = max(decimals, least_decimals)
    half = 0.5 * 10.0**-decimals
    number = float(digits)
    return Reading(number * unit, Interval((number - half) * unit, (number + half) * unit))


def _whole(text: str) -> Reading:
    """A count: exact, unless written with `~` or `k`."""
    if text[-1] in _SUFFIX or text.startswith("~"):
        unit = _SUFFIX.get(text[-1], 1.0)
        return _rounded("~" + text.strip("~kKM"), unit, least_decimals=0)
    value = float(text.replace(",", ""))
    return Reading(value, Interval(value, value))


def _size(text: str) -> Reading:
    """A number with its unit; PyTorch prints powers of 1024 under either name."""
    number = text.rstrip("KMGTiB ")
    unit = text[len(number) :].strip()
    factor = _SIZE_UNIT.get(unit, BYTE_UNITS.get(unit, 1))
    return _rounded(number, factor, least_decimals=2)


def _read_number(text: str, kind: str) -> Reading:
    """A placeholder's text as a number. vLLM prints sizes with two decimals ("50.0" is 50.00)."""
    if kind == "gib":
        return _rounded(text, GIB, least_decimals=2)
    if kind == "mib":
        return _rounded(text, MIB, least_decimals=0)
    if kind == "number":
        return _rounded(text, 1, least_decimals=2)
    if kind == "size":
        return _size(text)
    return _whole(text)


@cache
def _kinds(template: str) -> dict[str, str]:
    """The kind of each placeholder of a template."""
    return {place[1]: place[2] for place in _PLACE.finditer(template) if place[1]}


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """A template as a regular expression with one named group per placeholder.

    Compiled when a line first needs it: most logs need a dozen of the hundred.
    """
    parts: list[str] = []
    at = 0
    for place in _PLACE.finditer(template):
        parts.append(re.escape(template[at : place.start()]))
        at = place.end()
        name, kind, anything, _space = place.groups()
        if name:
            parts.append(rf"(?P<{name}>{_KINDS[kind]})")
        else:
            parts.append(_ANYTHING if anything else r"\s{1,40}")
    return re.compile("".join(parts) + re.escape(template[at:]))


@dataclass(frozen=True, slots=True)
class LinePattern:
    """One phrase of a start-up line.

    Attributes:
        name: What the phrase tells.
        engine: Who prints it.
        phase: When.
        versions: Which versions.
        template: Its words (see the module).
        needle: A substring every such line has; the template's longest run of words if empty.
        settings: Whether the line also carries flags or config fields as key and value.

    Examples:
        >>> line = LinePattern("pool", "vllm", Phase.CAPACITY, "0.8 on", "size: {tokens:count} tok")
        >>> line.read("INFO GPU KV cache size: 42,656 tokens")
        ({'tokens': Reading(value=42656.0, interval=Interval(low=42656.0, high=42656.0))}, {})
    """

    name: str
    engine: Engine
    phase: Phase
    versions: str
    template: str
    needle: str = ""
    settings: bool = False

    def __post_init__(self) -> None:
        if not self.needle:
            literals = re.split(r"\{\w+:\w+\}|…", self.template)
            object.__setattr__(self, "needle", max(literals, key=len))

    def read(self, text: str) -> tuple[dict[str, Reading], dict[str, str]] | None:
        """The numbers and the words of the phrase in a line, or None if it is not there."""
        match = _pattern(self.template).search(text)
        if match is None:
            return None
        numbers: dict[str, Reading] = {}
        words: dict[str, str] = {}
        kinds = _kinds(self.template)
        for name, printed in match.groupdict().items():
            kind = kinds[name]
            if kind in ("word", "text"):
                words[name] = printed
            else:
                numbers[name] = _read_number(printed, kind)
        return numbers, words


def _vllm(name: str, phase: Phase, versions: str, template: str, needle: str = "") -> LinePattern:
    return LinePattern(name, "vllm", phase, versions, template, needle)


def _flags(name: str, engine: Engine, versions: str, template: str) -> LinePattern:
    return LinePattern(name, engine, Phase.CONFIG, versions, template, settings=True)


_CONFIG: Final = (
    _vllm("version", Phase.CONFIG, "0.4 on", "vLLM API server version {vllm_version:word}"),
    _vllm("version", Phase.CONFIG, "0.21 on", "vLLM server version {vllm_version:word}, serving"),
    _vllm("version", Phase.CONFIG, "0.19 on", "█ version {vllm_version:word}", "█  version "),
    _vllm("version", Phase.CONFIG, "0.2 on", "LLM engine (v{vllm_version:word}) with config:"),
    _flags("engine-config", "vllm", "all", "with config: "),
    _flags("arguments", "vllm", "0.6 on", "non-default args: "),
    _flags("arguments", "vllm", "0.2 to 0.8", "args: Namespace("),
    _flags("command", "vllm", "all", "vllm serve "),
    _flags("command", "vllm", "all", "vllm.entrypoints."),
    _flags("arguments", "sglang", "all", "server_args=ServerArgs("),
    _flags("command", "sglang", "all", "sglang.launch_server"),
    _vllm(
        "chunked-prefill",
        Phase.ANY,
        "0.5 on",
        "hunked prefill is enabled with max_num_batched_tokens={max_num_batched_tokens:count}",
    ),
    _vllm(
        "kv-block-size",
        Phase.ANY,
        "0.11 on",
        "Setting kv cache block size to {block_size_tokens:count} for",
    ),
    _vllm(
        "attention-block-size",
        Phase.ANY,
        "0.10 on",
        "Setting attention block size to {attention_block_size_tokens:count} tokens",
    ),
    _vllm(
        "mamba-padding",
        Phase.ANY,
        "0.10 on",
        "Padding mamba page size by {mamba_page_padding_percent:number}%",
    ),
    _vllm(
        "group-block-sizes",
        Phase.ANY,
        "0.2x on",
        "kv cache group sizes ({group_block_sizes:text})",
    ),
    _vllm(
        "padding-layers",
        Phase.ANY,
        "0.10.2 on",
        "Add {padding_layers:count} padding layers, may waste at most"
        " {padding_waste_percent:number}% KV cache memory",
    ),
    _vllm(
        "hybrid-manager-off",
        Phase.ANY,
        "0.11 on",
        "Hybrid KV cache manager is disabled for this hybrid model",
    ),
)

_WEIGHTS: Final = (
    _vllm(
        "weights-gb", Phase.WEIGHTS, "to 0.7", "oading model weights took {weights_bytes:gib} GB"
    ),
    _vllm("weights-gb", Phase.WEIGHTS, "0.8", "Model loading took {weights_bytes:gib} GB"),
    _vllm("weights", Phase.WEIGHTS, "forks", "oading model weights took {weights_bytes:gib} GiB"),
    _vllm("weights", Phase.WEIGHTS, "0.8.5 on", "Model loading took {weights_bytes:gib} GiB"),
    LinePattern(
        "sglang-weights",
        "sglang",
        Phase.WEIGHTS,
        "all",
        "Load weight end. … avail mem={free_after_weights_bytes:gib} GB",
        "Load weight end",
    ),
    LinePattern(
        "sglang-weights",
        "sglang",
        Phase.WEIGHTS,
        "0.4 on",
        "Load weight end. … mem usage={weights_bytes:gib} GB",
        "Load weight end",
    ),
)

_BUDGET: Final = (
    _vllm(
        "kv-available",
        Phase.BUDGET,
        "0.9.2 on",
        "vailable KV cache memory: {kv_pool_bytes:gib} GiB",
    ),
    _vllm(
        "profile-0.6",
        Phase.BUDGET,
        "0.6",
        "total_gpu_memory={total_memory_bytes:gib}GiB…peak_torch_memory="
        "{peak_torch_bytes:gib}GiB…non_torch_memory={non_torch_bytes:gib}GiB…"
        "kv_cache_size={kv_pool_bytes:gib}GiB … gpu_memory_utilization="
        "{gpu_memory_utilization:number}",
        "total_gpu_memory=",
    ),
    _vllm(
        "profile-total",
        Phase.BUDGET,
        "0.6.5 to 0.10.2 (V0)",
        "total_gpu_memory ({total_memory_bytes:gib}GiB) x gpu_memory_utilization "
        "({gpu_memory_utilization:number}) = {requested_memory_bytes:gib}GiB",
        "x gpu_memory_utilization (",
    ),
    _vllm(
        "profile-parts",
        Phase.BUDGET,
        "0.6.5 to 0.10.2 (V0)",
        "model weights take {weights_bytes:gib}GiB; non_torch_memory takes "
        "{non_torch_bytes:gib}GiB; PyTorch activation peak memory takes "
        "{activation_peak_bytes:gib}GiB; the rest of the memory reserved for KV Cache is "
        "{kv_pool_bytes:gib}GiB",
        "model weights take ",
    ),
    _vllm(
        "cuda-graph-estimate",
        Phase.BUDGET,
        "0.18 on",
        "Estimated CUDA graph memory: {cuda_graph_estimate_bytes:gib} GiB total",
    ),
    _vllm(
        "kv-cache-memory-flag",
        Phase.BUDGET,
        "0.10.2 on",
        "Initial free memory {free_memory_bytes:gib} GiB, reserved {kv_pool_bytes:gib} GiB memory "
        "for KV Cache as specified by kv_cache_memory_bytes",
        "Initial free memory ",
    ),
    _vllm(
        "gaudi-budget",
        Phase.BUDGET,
        "Gaudi",
        "Free device memory: {free_memory_bytes:gib} GiB, {requested_memory_bytes:gib} GiB usable "
        "(gpu_memory_utilization={gpu_memory_utilization:number}) … "
        "{kv_pool_bytes:gib} GiB reserved for KV cache",
        "Free device memory: ",
    ),
    _vllm(
        "ascend-budget",
        Phase.BUDGET,
        "Ascend to 0.11",
        "vailable memory: {kv_pool_bytes:bytes}, total memory: {total_memory_bytes:bytes}",
    ),
    _vllm(
        "free-below-desired",
        Phase.BUDGET,
        "0.9.2 on",
        "is less than desired GPU memory utilization ({gpu_memory_utilization:number}, "
        "{requested_memory_bytes:gib} GiB)",
        "is less than desired GPU memory",
    ),
)

_CAPACITY: Final = (
    _vllm(
        "pool",
        Phase.CAPACITY,
        "0.8 on",
        "KV cache size: {printed_pool_tokens:count} tokens",
    ),
    _vllm("pool", Phase.CAPACITY, "retyped", "GPU KV cache: {printed_pool_tokens:count} tokens"),
    _vllm(
        "concurrency",
        Phase.CAPACITY,
        "0.5.5 on",
        "Maximum concurrency for {max_model_len:count} tokens per request: "
        "{max_concurrency:number}x",
        "Maximum concurrency ",
    ),
    _vllm(
        "concurrency",
        Phase.CAPACITY,
        "retyped",
        "Maximum concurrency {max_concurrency:number}x",
    ),
    _vllm(
        "blocks",
        Phase.CAPACITY,
        "to 0.11 (V0)",
        "{device:word} blocks: {num_gpu_blocks:count}, # CPU blocks: {num_cpu_blocks:count}",
        " # CPU blocks: ",
    ),
    _vllm("blocks", Phase.CAPACITY, "0.7.3 (V1)", "# GPU blocks: {num_gpu_blocks:count}"),
    _vllm(
        "context-parallel",
        Phase.CAPACITY,
        "0.10.2 to 0.18",
        "Multiplying the GPU KV cache size by the {parallel:word} {context_parallel_size:count}",
    ),
    _vllm(
        "blocks-override",
        Phase.ANY,
        "all",
        "Overriding num_gpu_blocks={profiled_gpu_blocks:count} with "
        "num_gpu_blocks_override={num_gpu_blocks_override:count}",
    ),
    _vllm(
        "auto-fit",
        Phase.ANY,
        "0.14 on",
        "Auto-fit max_model_len: reduced from {max_model_len_wanted:count} to "
        "{max_model_len_that_fits:count} to fit in available … memory ({kv_pool_bytes:gib} GiB",
        "Auto-fit max_model_len",
    ),
    _vllm(
        "auto-fit",
        Phase.ANY,
        "0.14 on",
        "Auto-fit max_model_len: full model context length {max_model_len:count} fits in",
        "Auto-fit max_model_len",
    ),
)

_REFUSAL: Final = (
    _vllm("refused-length", Phase.CAPACITY, "all", "max seq len ({max_model_len:count})"),
    _vllm(
        "refused-tokens",
        Phase.CAPACITY,
        "0.2.6 to 0.10 (V0)",
        "stored in KV cache ({refusal_pool_tokens:count})",
    ),
    _vllm(
        "refused-need",
        Phase.CAPACITY,
        "0.8.5 on",
        "{refusal_needed_bytes:gib} GiB KV cache is needed",
        "KV cache is needed",
    ),
    _vllm(
        "refused-need-gb",
        Phase.CAPACITY,
        "0.7.3 (V1)",
        "{refusal_needed_bytes:gib} GB KV cache is needed",
        "KV cache is needed",
    ),
    _vllm(
        "refused-available",
        Phase.CAPACITY,
        "0.7.3 on",
        "available KV cache memory ({refusal_available_bytes:gib} G",
    ),
    _vllm(
        "refused-estimate",
        Phase.CAPACITY,
        "0.8.5 on",
        "estimated maximum model length is {max_model_len_that_fits:count}",
    ),
    _vllm(
        "refused-no-memory",
        Phase.CAPACITY,
        "all",
        "No available memory for the cache blocks",
    ),
    _vllm(
        "refused-mamba-blocks",
        Phase.CAPACITY,
        "0.18 on",
        "max_num_seqs ({max_num_seqs:count}) exceeds available Mamba cache blocks "
        "({num_mamba_blocks:count})",
        "exceeds available Mamba",
    ),
)

_AFTER: Final = (
    _vllm(
        "free-at-start",
        Phase.ANY,
        "0.9.2 on",
        "Free memory on device …({free_memory_bytes:gib}/{total_memory_bytes:gib} GiB) on startup",
        "Free memory on device",
    ),
    _vllm(
        "desired",
        Phase.ANY,
        "0.10.2 on",
        "Desired GPU memory utilization is ({gpu_memory_utilization:number}, "
        "{requested_memory_bytes:gib} GiB)",
        "Desired GPU memory utilization is",
    ),
    _vllm(
        "usage-parts",
        Phase.ANY,
        "0.10.2 to 0.26",
        "Actual usage is {weights_bytes:gib} GiB for weight, {activation_peak_bytes:gib} GiB for "
        "peak activation, {non_torch_bytes:gib} GiB for non-torch memory, and "
        "{cuda_graph_bytes:gib} GiB for CUDAGraph memory",
        "Actual usage is ",
    ),
    _vllm(
        "usage-consumed",
        Phase.ANY,
        "0.29 on",
        "Actual usage is {consumed_bytes:gib} GiB for consumed memory (weights + non-torch), "
        "{activation_peak_bytes:gib} GiB for peak activation, and {cuda_graph_bytes:gib} GiB for "
        "CUDAGraph memory",
        "Actual usage is ",
    ),
    _vllm(
        "kv-cache-memory-advice",
        Phase.ANY,
        "0.10.2 on",
        "--kv-cache-memory={kv_cache_memory_within_request_bytes:bytes}`… to fit into requested "
        "memory, or `--kv-cache-memory={kv_cache_memory_whole_gpu_bytes:bytes}`",
        "--kv-cache-memory=",
    ),
    _vllm(
        "kv-in-use",
        Phase.ANY,
        "0.11 on",
        "kv cache memory in use is {kv_pool_bytes:gib} GiB",
        "kv cache memory in use is",
    ),
    _vllm(
        "kv-in-use",
        Phase.ANY,
        "0.10.2",
        "kv cache memory in use is {kv_pool_bytes:bytes} bytes",
        "kv cache memory in use is",
    ),
    _vllm(
        "cuda-graph-pool",
        Phase.AFTER,
        "0.18 on",
        "CUDA graph pool memory: {cuda_graph_bytes:gib} GiB (actual), "
        "{cuda_graph_estimate_bytes:gib} GiB (estimated)",
    ),
    _vllm(
        "cuda-graph-took",
        Phase.AFTER,
        "0.5 on",
        "raph capturing finished in … took {cuda_graph_bytes:gib} GiB",
        "raph capturing finished in ",
    ),
    _vllm(
        "cuda-graph-share",
        Phase.ANY,
        "0.20 on",
        "current --gpu-memory-utilization={gpu_memory_utilization:number} is equivalent to "
        "--gpu-memory-utilization={gpu_memory_utilization_without_graphs:number} without … "
        "increase --gpu-memory-utilization to {gpu_memory_utilization_suggested:number}",
        "is equivalent to --gpu-memory",
    ),
)


def _any(name: str, template: str, needle: str = "") -> LinePattern:
    return LinePattern(name, "any", Phase.ANY, "all", template, needle)


_DEVICE: Final = (
    _any("out-of-memory", "out of memory. Tried to allocate {oom_request_bytes:size}"),
    _any(
        "out-of-memory",
        "out of memory. … total capacity of {oom_total_bytes:size} of which "
        "{oom_free_bytes:size} is free",
        "out of memory. Tried to allocate ",
    ),
    _any(
        "out-of-memory",
        "out of memory. … {oom_total_bytes:size} total capacity; {oom_allocated_bytes:size} already"
        " allocated; {oom_free_bytes:size} free",
        "out of memory. Tried to allocate ",
    ),
    _any(
        "nvidia-smi",
        "{smi_used_bytes:mib}MiB / {smi_total_bytes:mib}MiB",
        "MiB / ",
    ),
)


def _sglang(
    name: str, template: str, needle: str = "", phase: Phase = Phase.CAPACITY
) -> LinePattern:
    return LinePattern(name, "sglang", phase, "all", template, needle)


_SGLANG: Final = (
    _sglang(
        "sglang-pool",
        "KV Cache is allocated. …#tokens: {pool_tokens:count}, K size: {k_bytes:gib} GB, "
        "V size: {v_bytes:gib} GB",
        "KV Cache is allocated",
    ),
    _sglang(
        "sglang-pool",
        "KV Cache is allocated. …#tokens: {pool_tokens:count}, KV size: {kv_bytes:gib} GB",
        "KV Cache is allocated",
    ),
    _sglang(
        "sglang-pool-end",
        "Memory pool end. avail mem={free_after_pool_bytes:gib} GB",
        "Memory pool end",
    ),
    _sglang(
        "sglang-total",
        "max_total_num_tokens={max_total_num_tokens:count}",
        "max_total_num_tokens=",
        Phase.AFTER,
    ),
    _sglang(
        "sglang-total",
        "max_total_num_tokens=… context_len={max_model_len:count}",
        "max_total_num_tokens=",
        Phase.AFTER,
    ),
    _sglang(
        "sglang-total",
        "max_total_num_tokens=… max_running_requests={max_running_requests:count}",
        "max_total_num_tokens=",
        Phase.AFTER,
    ),
    _sglang(
        "sglang-windows",
        "full_layer_tokens={full_layer_tokens:count}, swa_layer_tokens={swa_layer_tokens:count}",
    ),
    _sglang(
        "sglang-mamba",
        "Mamba Cache is allocated. max_mamba_cache_size: {mamba_slots:count}, conv_state size: "
        "{mamba_conv_bytes:gib}GB, ssm_state size: {mamba_ssm_bytes:gib}GB",
        "Mamba Cache is allocated",
    ),
    _sglang("sglang-no-memory", "Not enough memory. Please try to increase --mem-fraction-static"),
)


def _tensorrt(name: str, template: str, needle: str = "") -> LinePattern:
    return LinePattern(name, "tensorrt-llm", Phase.CAPACITY, "all", template, needle)


_TENSORRT: Final = (
    _tensorrt("trt-bytes", "Allocate {kv_bytes_exact:bytes} bytes for k/v cache"),
    _tensorrt("trt-tokens", "Using {pool_tokens:count} tokens in paged KV cache"),
    _tensorrt(
        "trt-bytes",
        "Max tokens in paged KV cache: {pool_tokens:count}. Allocating {kv_bytes_exact:bytes} "
        "bytes",
        "okens in paged KV cache: ",
    ),
    _tensorrt(
        "trt-pool",
        "Allocated {kv_bytes:gib} GiB for max tokens in paged KV cache ({pool_tokens:count})",
        "GiB for max tokens",
    ),
    _tensorrt(
        "trt-pool",
        "Allocated {kv_bytes:gib} GiB for max tokens ({pool_tokens:count})",
        "GiB for max tokens",
    ),
    _tensorrt(
        "trt-blocks",
        "okens per block={block_size_tokens:count}, primary blocks={num_gpu_blocks:count}",
        "primary blocks=",
    ),
    _tensorrt("trt-block-size", "umber of tokens per block: {block_size_tokens:count}"),
    _tensorrt(
        "trt-block-count",
        "blocks in KV cache primary pool: {num_gpu_blocks:count}",
    ),
    _tensorrt(
        "trt-budget",
        "when calculating max tokens in paged kv cache: total: {total_memory_bytes:gib} GiB, "
        "available: {free_memory_bytes:gib} GiB",
        "when calculating max tokens in ",
    ),
    _tensorrt(
        "trt-profile",
        "available KV cache memory when calculating max tokens: {trt_kv_budget_bytes:gib} GiB",
        "when calculating max tokens: ",
    ),
    _tensorrt(
        "trt-profile",
        "fraction is set {free_memory_fraction:number}, kv size … is {kv_bytes_per_token:count}",
        "when calculating max tokens: ",
    ),
    _tensorrt(
        "trt-profile",
        "fraction is set {free_memory_fraction:number}, kv size is {kv_bytes_per_token:count}",
        "when calculating max tokens: ",
    ),
    _tensorrt(
        "trt-profile",
        "device total memory {total_memory_bytes:gib} GiB",
        "when calculating max tokens: ",
    ),
)


def _llama(name: str, template: str, needle: str = "", phase: Phase = Phase.ANY) -> LinePattern:
    return LinePattern(name, "llama.cpp", phase, "all", template, needle)


_LLAMA: Final = (
    _llama(
        "llama-pool",
        "self size = {kv_bytes:mib} MiB, K ({k_type:word}): {k_bytes:mib} MiB, "
        "V ({v_type:word}): {v_bytes:mib} MiB",
        "KV self size",
    ),
    _llama("llama-pool", "KV self size = {kv_bytes:mib} MiB", "KV self size"),
    _llama("llama-pool-mb", "kv self size = {kv_bytes:mib} MB", "kv self size"),
    _llama(
        "llama-pool",
        "size = {kv_bytes:mib} MiB ( {cells:count} cells, {layers:count} layers",
        " cells, ",
    ),
    _llama(
        "llama-pool",
        "size = {kv_bytes:mib} MiB ({cells:count} cells, {layers:count} layers",
        " cells, ",
    ),
    _llama(
        "llama-buffer",
        "{device:word} KV buffer size = {kv_buffer_bytes:mib} MiB",
        " KV buffer size ",
    ),
    _llama("llama-no-memory", "ailed to allocate buffer for kv cache"),
    _llama(
        "llama-window-cells",
        "creating SWA KV cache, size = {swa_cells:count} cells",
        "SWA KV cache, size",
    ),
    _llama(
        "llama-full-cells",
        "creating non-SWA KV cache, size = {full_cells:count} cells",
        "SWA KV cache, size",
    ),
    _llama(
        "llama-cells",
        "kv_size = {cells:count}, offload … n_layer = {layers:count}",
        "kv_size = ",
    ),
    _llama("llama-context", "n_ctx = {n_ctx:count}", "n_ctx "),
    _llama("llama-batch", "n_ubatch = {n_ubatch:count}", "n_ubatch "),
    _llama("llama-window", "n_swa = {n_swa:count}", "n_swa "),
    _llama("llama-new-model", "llama_model_loader: loaded meta data", phase=Phase.CONFIG),
)

PATTERNS: Final = (
    *_CONFIG,
    *_WEIGHTS,
    *_BUDGET,
    *_CAPACITY,
    *_REFUSAL,
    *_AFTER,
    *_DEVICE,
    *_SGLANG,
    *_TENSORRT,
    *_LLAMA,
)
"""Every phrase, in the order they are tried on a line."""

MISLABELLED: Final = frozenset({"weights-gb", "refused-need-gb", "llama-pool-mb"})
"""Lines that print "GB" or "MB" for powers of 1024, apart from SGLang, whose every "GB" is GiB."""
