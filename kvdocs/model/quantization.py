"""What a checkpoint's quantization config says about the cache."""

from __future__ import annotations

from typing import Final

from kvdocs.model.fields import Fields

_MODELOPT: Final = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_cache_dtype(top: Fields, text: Fields) -> str:
    """The cache dtype `auto` becomes for this checkpoint.

    Weights in 8 or 4 bit say nothing about the cache; a KV cache scheme does. Source: vLLM 0.33.0
    `vllm/utils/torch_utils.py`, `get_kv_cache_quant_algo_string` (ModelOpt), and
    `vllm/model_executor/layers/attention/attention.py`, `Attention.__init__` (compressed-tensors).

    Examples:
        >>> scheme = {"num_bits": 8, "type": "float"}
        >>> quantized = {"quantization_config": {"quant_method": "compressed-tensors",
        ...     "kv_cache_scheme": scheme}}
        >>> checkpoint_cache_dtype(Fields(quantized), Fields(quantized))
        'fp8'
    """
    for fields in (top, text):
        for key in ("quantization_config", "compression_config"):
            quantization = fields.data.get(key)
            if isinstance(quantization, dict):
                return _cache_dtype(Fields(quantization, path=fields.name(key)))
    return "auto"


def _cache_dtype(quantization: Fields) -> str:
    method = quantization.data.get("quant_method")
    method = method if isinstance(method, str) else ""
    if "quantization" in quantization.data or method.startswith("modelopt"):
        return _modelopt_dtype(quantization)
    if method.replace("_", "-") == "compressed-tensors":
        return "fp8" if quantization.data.get("kv_cache_scheme") else "auto"
    return "auto"


def _modelopt_dtype(quantization: Fields) -> str:
    inner = quantization.data.get("quantization")
    places = [inner if isinstance(inner, dict) else {}, quantization.data]
    found = [
        place.get(key) for key in ("kv_cache_scheme", "kv_cache_quant_algo") for place in places
    ]
    algorithm = next((value for value in found if value), None)
    if isinstance(algorithm, dict):
        algorithm = _scheme_name(algorithm)
    return _MODELOPT.get(algorithm.lower(), "auto") if isinstance(algorithm, str) else "auto"


def _scheme_name(scheme: dict[str, object]) -> str:
    if scheme.get("type") != "float":
        return "auto"
    if scheme.get("num_bits") == 8 and scheme.get("dynamic") is False:
        return "fp8"
    return "nvfp4" if scheme.get("num_bits") == 4 else "auto"
