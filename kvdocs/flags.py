"""vLLM's start-up flags, as far as they bear on the KV cache.

Names, spellings and defaults are vLLM's (0.33.0, `vllm/engine/arg_utils.py`,
`vllm/config/cache.py`, `vllm/config/scheduler.py`); where a default changed,
`ServerFlags.for_version` gives the older one.
A flag vLLM has but the cache does not depend on is accepted and listed in `ServerFlags.others`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from kvdocs.errors import FlagError
from kvdocs.flag_names import OTHER_SWITCHES, OTHER_VALUES
from kvdocs.model.dtypes import check_cache_dtype

CURRENT_VERSION: Final = "0.33.0"
"""The vLLM version kvdocs mirrors when none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFlags:
    """The flags of one `vllm serve`, under vLLM's own names.

    Attributes:
        model: The positional argument, or empty.
        max_model_len: Longest request in tokens; None takes the model's own limit.
        auto_fit_max_model_len: `--max-model-len -1` or `auto`: the longest that fits.
        gpu_memory_utilization: Share of the GPU's total memory the server may use, above 0 to 1.
        kv_cache_memory_bytes: Cache bytes per GPU, in place of what profiling leaves.
        num_gpu_blocks_override: Number of blocks, in place of what memory gives.
        block_size: Tokens per block; None takes 16, or what the attention backend prefers.
        kv_cache_dtype: A value of `kvdocs.model.CACHE_DTYPES`.
        tensor_parallel_size: GPUs each layer is split over.
        pipeline_parallel_size: Stages the layers are spread over.
        data_parallel_size: Whole copies of the server.
        decode_context_parallel_size: GPUs a sequence's blocks are spread over.
        max_num_seqs: Requests running at once; None takes the GPU's default.
        max_num_batched_tokens: Tokens per step; None takes the GPU's default.
        enable_prefix_caching: Whether equal leading blocks are shared.
        enable_chunked_prefill: Whether a prompt may be computed over several steps.
        disable_hybrid_kv_cache_manager: Whether windowed layers keep the whole context too.
        async_scheduling: Whether the next step is scheduled before the last one's output is known.
        watermark: Share of blocks kept free at admission.
        scheduler_reserve_full_isl: Whether a request is admitted only when all its blocks fit.
        long_prefill_token_threshold: Most prompt tokens per step and request; 0 is no limit.
        scheduling_policy: `fcfs` or `priority`.
        kv_offloading_size: GiB of host memory for copies of blocks, all tensor-parallel ranks
            together, or None.
        kv_offloading_backend: Who moves them.
        dtype: What the model is served in, `auto` or a 16-bit dtype.
        mamba_ssm_cache_dtype: Dtype of a recurrent state, or `auto`.
        quantization: Weight quantization, or None.
        enforce_eager: Whether CUDA graphs are left out.
        cpu_offload_gb: GiB of weights kept in host memory per GPU.
        swap_space: GiB of host memory for swapped requests (vLLM V0 only).
        vllm_version: The version the defaults are of.
        others: Flags given that the cache does not depend on.
    """

    model: str = ""
    max_model_len: int | None = None
    auto_fit_max_model_len: bool = False
    gpu_memory_utilization: float = 0.92
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    block_size: int | None = None
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    disable_hybrid_kv_cache_manager: bool = False
    async_scheduling: bool = True
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    long_prefill_token_threshold: int = 0
    scheduling_policy: str = "fcfs"
    kv_offloading_size: float | None = None
    kv_offloading_backend: str = "native"
    dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    quantization: str | None = None
    enforce_eager: bool = False
    cpu_offload_gb: float = 0.0
    swap_space: float = 4.0
    vllm_version: str = CURRENT_VERSION
    others: tuple[str, ...] = ()

    @classmethod
    def for_version(cls, vllm_version: str) -> ServerFlags:
        """The defaults of a vLLM release.

        Source: the release's own `config/cache.py` and `engine/arg_utils.py`. A change seen between
        two releases is dated to the later one.

        Raises:
            FlagError: Not a version number.

        Examples:
            >>> ServerFlags.for_version("0.18.1").gpu_memory_utilization
            0.9
            >>> ServerFlags.for_version("0.20.2").gpu_memory_utilization
            0.92
        """
        version = version_tuple(vllm_version)
        return cls(
            vllm_version=vllm_version,
            gpu_memory_utilization=0.92 if version >= (0, 20, 2) else 0.9,
            enable_prefix_caching=version >= (0, 8),
            enable_chunked_prefill=version >= (0, 8),
            async_scheduling=version >= (0, 14),
            scheduler_reserve_full_isl=version >= (0, 20, 2),
        )

    @property
    def world_size(self) -> int:
        """GPUs of one copy of the server.

        Examples:
            >>> ServerFlags(tensor_parallel_size=4, pipeline_parallel_size=2).world_size
            8
        """
        return self.tensor_parallel_size * self.pipeline_parallel_size


def version_tuple(vllm_version: str) -> tuple[int, ...]:
    """A version as numbers that compare.

    Raises:
        FlagError: Not a version number.

    Examples:
        >>> version_tuple("0.9.2") < version_tuple("0.33.0") < version_tuple("1.0rc1")
        True
    """
    match = re.match(r"v?(\d+(?:\.\d+){0,3})", vllm_version.strip())
    if match is None or len(match[1]) > 30:
        raise FlagError(f"{vllm_version[:40]!r} is not a vLLM version; write it like 0.33.0")
    return tuple(int(part) for part in match[1].split("."))


_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")


def human_readable_int(text: str) -> int:
    """A whole number as vLLM reads it: `32k` is 32,000 and `32K` is 32,768.

    Source: vLLM 0.33.0 `vllm/utils/argparse_utils.py`, `human_readable_int`.

    Raises:
        FlagError: Not such a number, or a fraction of a power of two.

    Examples:
        >>> human_readable_int("32k"), human_readable_int("32K"), human_readable_int("25.6k")
        (32000, 32768, 25600)
    """
    match = _HUMAN.fullmatch(text.strip()) if len(text) <= 30 else None
    if match is None:
        raise FlagError(f"{text[:30]!r} is not a whole number; write it like 32768, 32k or 32K")
    number, suffix = match[1], match[2]
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    if "." in number:
        hint = f"; did you mean {number}{suffix.lower()}?" if suffix else ""
        raise FlagError(f"{text[:30]!r} is not a whole number{hint}")
    return int(number) * _BINARY.get(suffix, 1)


def _positive(text: str) -> int:
    return _at_least(text, 1)


def _not_negative(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, least: int) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise FlagError(f"{text[:30]!r} is not a whole number")
    value = int(text)
    if value < least:
        raise FlagError(f"{value} is below {least}, the least allowed")
    return value


def _human_positive(text: str) -> int:
    value = human_readable_int(text)
    if value < 1:
        raise FlagError(f"{value} is below 1, the least allowed")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise FlagError(f"{text[:30]!r} is not a number") from None
    if not 0 <= value < 10**9:
        raise FlagError(f"{text[:30]!r} is out of range; 0 or more is needed")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1:
        raise FlagError(f"{text[:30]!r} must be above 0 and at most 1: it is a share of the memory")
    return value


def _fraction(text: str) -> float:
    value = _number(text)
    if value >= 1:
        raise FlagError(f"{text[:30]!r} must be below 1: it is a share of the blocks")
    return value


def _policy(text: str) -> str:
    if text not in {"fcfs", "priority"}:
        raise FlagError(f"{text[:30]!r} is not a policy; allowed are fcfs and priority")
    return text


def _served_dtype(text: str) -> str:
    if text in {"float", "float32"}:
        raise FlagError(
            f"{text!r} doubles the cache, which kvdocs does not size; use a 16-bit dtype"
        )
    if text not in {"auto", "half", "float16", "bfloat16"}:
        raise FlagError(f"{text[:30]!r} is not allowed; use auto, half, float16 or bfloat16")
    return text


def _state_dtype(text: str) -> str:
    if text not in {"auto", "float32", "float16", "bfloat16"}:
        raise FlagError(f"{text[:30]!r} is not allowed; use auto, float32, float16 or bfloat16")
    return text


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "gpu_memory_utilization": _share,
    "kv_cache_memory_bytes": _human_positive,
    "num_gpu_blocks_override": _positive,
    "block_size": _positive,
    "kv_cache_dtype": check_cache_dtype,
    "tensor_parallel_size": _positive,
    "pipeline_parallel_size": _positive,
    "data_parallel_size": _positive,
    "decode_context_parallel_size": _positive,
    "max_num_seqs": _positive,
    "max_num_batched_tokens": _human_positive,
    "watermark": _fraction,
    "long_prefill_token_threshold": _not_negative,
    "scheduling_policy": _policy,
    "kv_offloading_size": _number,
    "kv_offloading_backend": str,
    "dtype": _served_dtype,
    "mamba_ssm_cache_dtype": _state_dtype,
    "quantization": str,
    "cpu_offload_gb": _number,
    "swap_space": _number,
}
"""How the value of each flag is read."""

_SWITCHES: Final = frozenset(
    {
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "disable_hybrid_kv_cache_manager",
        "async_scheduling",
        "scheduler_reserve_full_isl",
        "enforce_eager",
    }
)
_SHORT: Final = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "q": "quantization",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "device_memory_utilization": "gpu_memory_utilization",
}
_SINCE: Final = {
    "kv_cache_memory_bytes": "0.10.2",
    "kv_offloading_size": "0.12",
    "kv_offloading_backend": "0.12",
    "watermark": "0.26",
    "scheduler_reserve_full_isl": "0.20.2",
    "decode_context_parallel_size": "0.10.2",
}
_UNTIL: Final = {"swap_space": "0.18"}
"""First release without the flag."""

_ALL_NAMES: Final = tuple(
    sorted({*_READERS, *_SWITCHES, "max_model_len", "model", *OTHER_VALUES, *OTHER_SWITCHES})
)


def parse_flags(tokens: Sequence[str], *, vllm_version: str = CURRENT_VERSION) -> ServerFlags:
    """Read the words of a command line as vLLM does.

    `--flag value` and `--flag=value`, dashes or underscores, and `--no-flag` for switches. A
    leading `vllm serve` is skipped; one positional word is the model.

    Args:
        tokens: The words, as a shell would split them.
        vllm_version: The release whose defaults and flags apply.

    Raises:
        FlagError: A flag or a value the server would not take; the nearest flag is named.

    Examples:
        >>> flags = parse_flags("meta-llama/Llama-3.1-8B --max-model-len 32K -tp 2".split())
        >>> flags.model, flags.max_model_len, flags.tensor_parallel_size
        ('meta-llama/Llama-3.1-8B', 32768, 2)
        >>> parse_flags(["--gpu-memory-utilisation", "0.9"])
        Traceback (most recent call last):
        kvdocs.errors.FlagError: --gpu-memory-utilisation is not a flag of vllm serve; did you ...
    """
    words = list(tokens)
    while words and words[0] in {"vllm", "serve"}:
        words.pop(0)
    values: dict[str, Any] = {}
    others: list[str] = []
    while words:
        word = words.pop(0)
        if word.startswith("-") and len(word) > 1:
            _read_flag(word, words, values, others)
        elif "model" in values:
            raise FlagError(
                f"{word[:60]!r} stands alone; a flag starts with --, and there is a model"
            )
        else:
            values["model"] = word
    _check_versions(values, vllm_version)
    return replace(ServerFlags.for_version(vllm_version), **values, others=tuple(others))


def _read_flag(word: str, rest: list[str], values: dict[str, Any], others: list[str]) -> None:
    shown, equals, inline = word.partition("=")
    name = shown.lstrip("-").replace("-", "_")
    name = _SHORT.get(name, name)
    if name in _SWITCHES or name in OTHER_SWITCHES:
        _switch(name, shown, values, others, value=True)
    elif _switch_off(name) in _SWITCHES | OTHER_SWITCHES:
        _switch(_switch_off(name), shown, values, others, value=False)
    elif name in OTHER_VALUES or name.partition(".")[0] in OTHER_VALUES:
        others.append(shown)
        if not equals:
            _skip_values(rest)
    elif name in _READERS or name in {"max_model_len", "model"}:
        text = inline if equals else _next_value(shown, rest)
        _store(name, shown, text, values)
    else:
        raise FlagError(f"{shown[:60]} is not a flag of vllm serve{_nearest(name)}")


def _switch(
    name: str, shown: str, values: dict[str, Any], others: list[str], *, value: bool
) -> None:
    if name in _SWITCHES:
        values[name] = value
    else:
        others.append(shown)


def _switch_off(name: str) -> str:
    """The switch that `--no-x` (or `--disable-x` for `--enable-x`) turns off."""
    if name.startswith("no_"):
        return name.removeprefix("no_")
    if name.startswith("disable_"):
        return "enable_" + name.removeprefix("disable_")
    return ""


def _next_value(shown: str, rest: list[str]) -> str:
    is_flag = rest and rest[0].startswith("-") and not re.fullmatch(r"-[\d.]+", rest[0])
    if not rest or is_flag:
        raise FlagError(f"{shown} needs a value")
    return rest.pop(0)


def _skip_values(rest: list[str]) -> None:
    while rest and not rest[0].startswith("-"):
        rest.pop(0)


def _store(name: str, shown: str, text: str, values: dict[str, Any]) -> None:
    try:
        if name == "max_model_len":
            _store_length(text, values)
        else:
            values[name] = text if name == "model" else _READERS[name](text)
    except FlagError as error:
        if str(error).startswith("--"):
            raise
        raise FlagError(f"{shown} {error}") from None


def _store_length(text: str, values: dict[str, Any]) -> None:
    if text.strip().lower() in {"-1", "auto"}:
        values |= {"auto_fit_max_model_len": True, "max_model_len": None}
    else:
        values |= {"auto_fit_max_model_len": False, "max_model_len": _human_positive(text)}


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name[:80], _ALL_NAMES, n=2, cutoff=0.6)
    if not near:
        return ""
    return "; did you mean " + " or ".join(f"--{match.replace('_', '-')}" for match in near) + "?"


def _check_versions(values: dict[str, Any], vllm_version: str) -> None:
    version = version_tuple(vllm_version)
    for name in values:
        since, until = _SINCE.get(name), _UNTIL.get(name)
        flag = f"--{name.replace('_', '-')}"
        if since and version < version_tuple(since):
            raise FlagError(f"{flag} came with vLLM {since}; this is {vllm_version}")
        if until and version >= version_tuple(until):
            raise FlagError(f"{flag} is gone since vLLM {until}; this is {vllm_version}")


def flag_names() -> tuple[str, ...]:
    """The flags that bear on the cache, as vLLM spells them.

    Examples:
        >>> "--max-model-len" in flag_names()
        True
    """
    names = {field.name for field in fields(ServerFlags)}
    hidden = {"model", "others", "vllm_version", "auto_fit_max_model_len"}
    return tuple(f"--{name.replace('_', '-')}" for name in sorted(names - hidden))
