"""Flags and config fields a log repeats: command lines, `non-default args`, engine configs."""

from __future__ import annotations

import re
from typing import Final

_NUMBERS: Final = {
    "tensor_parallel_size": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "tp": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "pp": "pipeline_parallel_size",
    "pipeline_parallel": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "dp_size": "data_parallel_size",
    "dp": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "dcp": "decode_context_parallel_size",
    "prefill_context_parallel_size": "prefill_context_parallel_size",
    "max_model_len": "max_model_len",
    "max_seq_len": "max_model_len",
    "context_length": "max_model_len",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "util": "gpu_memory_utilization",
    "mem_fraction_static": "mem_fraction_static",
    "block_size": "block_size",
    "page_size": "page_size",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "swap_space": "swap_space",
    "num_gpu_blocks_override": "num_gpu_blocks_override",
}
_WORDS: Final = {
    "kv_cache_dtype": "kv_cache_dtype",
    "dtype": "dtype",
    "model": "model",
    "model_tag": "model",
    "model_path": "model",
    "quantization": "quantization",
}
_KEYS: Final = "|".join(
    key.replace("_", "[-_]") for key in sorted((*_NUMBERS, *_WORDS), key=len, reverse=True)
)
_SETTING: Final = re.compile(
    rf"(?<![\w.])(?:--|['\"])?(?P<key>{_KEYS})['\"]?(?:\s*[=:]\s*|\s+)['\"]?"
    r"(?P<value>[\w./:@+-]+)"
)
_FIRST_WORD: Final = re.compile(r"vllm serve ([\w./:@+-]+)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def read_settings(text: str) -> dict[str, str]:
    """The flags this package understands, from any text that writes them as key and value.

    Args:
        text: A command line, a `non-default args` dictionary, an engine config, or just flags.

    Returns:
        Values as text by vLLM's own name (`tensor_parallel_size`, …); short forms such as `tp 8`
        are read too. A number that is no number is left out.

    Examples:
        >>> read_settings("vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2 --max-model-len=8192")
        {'tensor_parallel_size': '2', 'max_model_len': '8192', 'model': 'Qwen/Qwen3-14B'}
        >>> read_settings("{'max_model_len': 4096, 'kv_cache_dtype': 'fp8'}")
        {'max_model_len': '4096', 'kv_cache_dtype': 'fp8'}
    """
    found: dict[str, str] = {}
    for match in _SETTING.finditer(text):
        key = match["key"].replace("-", "_")
        value = match["value"].rstrip(".")
        if key in _WORDS:
            if value not in ("None", "auto"):
                found.setdefault(_WORDS[key], value.removeprefix("torch."))
        elif _NUMBER.fullmatch(value):
            found.setdefault(_NUMBERS[key], value)
    served = _FIRST_WORD.search(text)
    if served and not served[1].startswith("-"):
        found["model"] = served[1]
    return found
