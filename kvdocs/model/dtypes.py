"""Bytes per token and head for every `--kv-cache-dtype` vLLM takes.

Source: vLLM 0.33.0 `vllm/config/cache.py` (`CacheDType`) for the names. Layout per name:

- 16-bit and fp8: `vllm/v1/kv_cache_interface.py`, `AttentionSpec.state_content_size_bytes`. The
  fp8 scales are per tensor and not in the page.
- `*_per_token_head`: one float32 scale beside each K and each V of each token and head;
  `vllm/v1/attention/backends/triton_attn.py`, `TritonAttentionBackend.customize_spec`, and
  `vllm/model_executor/layers/attention/mla_attention.py`, `MLACommonBackend.customize_spec`.
- `nvfp4`, `nvfp4_4over6`: half a byte per element and one fp8 scale per 16;
  `vllm/utils/torch_utils.py`, `nvfp4_kv_cache_full_dim`.
- `fp8_ds_mla`, `nvfp4_ds_mla`: DeepSeek's packed latent, 656 and 352 bytes;
  `vllm/model_executor/layers/attention/mla_attention.py`, `MLAAttention.get_kv_cache_spec`.
- `turboquant_*`: `vllm/model_executor/layers/quantization/turboquant/config.py`.
- `ultraquant_4bit`: `vllm/v1/attention/ops/ultraquant/format.py`, `slot_size`.
"""

from __future__ import annotations

import difflib
from typing import Final

from kvdocs.errors import ConfigError, FlagError

CACHE_DTYPES: Final = (
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "octave_k3v4",
    "octave_k3v3",
    "octave_k3v3_compact",
    "ultraquant_4bit",
    "int4_per_token_head",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
)
"""Every value vLLM 0.33.0 takes for `--kv-cache-dtype`."""

_SIXTEEN_BIT: Final = frozenset({"auto", "float16", "bfloat16"})
_FP8: Final = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"})
_PER_TOKEN_HEAD: Final = {
    "int4_per_token_head": 4,
    "int8_per_token_head": 8,
    "fp8_per_token_head": 8,
}
_NVFP4: Final = frozenset({"nvfp4", "nvfp4_4over6"})
_DS_MLA_BYTES: Final = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
_DS_MLA_LATENT: Final = 576
_TURBOQUANT_BITS: Final = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
_SCALE_BYTES: Final = 4

STATE_DTYPE_BYTES: Final = {
    "auto": 2,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float32": 4,
    "float": 4,
}
"""Bytes per element of a recurrent state. vLLM serves in 16 bit even when the file is float32:
`vllm/config/model.py`, `_resolve_auto_dtype`."""


def check_cache_dtype(name: str) -> str:
    """Return `name` if vLLM takes it for `--kv-cache-dtype`.

    Raises:
        FlagError: It does not; the nearest names are offered.

    Examples:
        >>> check_cache_dtype("fp8_e4m3")
        'fp8_e4m3'
        >>> check_cache_dtype("fp8e4m3")
        Traceback (most recent call last):
        kvdocs.errors.FlagError: --kv-cache-dtype 'fp8e4m3' is not one vLLM takes; did you mean ...
    """
    if name in CACHE_DTYPES:
        return name
    near = difflib.get_close_matches(str(name)[:40], CACHE_DTYPES, n=2)
    hint = f"did you mean {' or '.join(near)}" if near else f"allowed are {', '.join(CACHE_DTYPES)}"
    raise FlagError(f"--kv-cache-dtype {str(name)[:40]!r} is not one vLLM takes; {hint}")


def element_bits(cache_dtype: str) -> float:
    """Bits per stored K element, scales apart.

    Examples:
        >>> element_bits("auto"), element_bits("fp8"), element_bits("nvfp4")
        (16, 8, 4)
    """
    if cache_dtype in _SIXTEEN_BIT:
        return 16
    if cache_dtype in _PER_TOKEN_HEAD:
        return _PER_TOKEN_HEAD[cache_dtype]
    if cache_dtype in _TURBOQUANT_BITS:
        return _TURBOQUANT_BITS[cache_dtype][0]
    if cache_dtype in _NVFP4 or cache_dtype in {"nvfp4_ds_mla", "ultraquant_4bit"}:
        return 4
    return 8


def head_bytes(cache_dtype: str, head_size: int, head_size_v: int) -> int:
    """Bytes of K and V for one token and one KV head.

    Args:
        cache_dtype: One of `CACHE_DTYPES`.
        head_size: Elements of K.
        head_size_v: Elements of V.

    Raises:
        ConfigError: The head size is one this dtype cannot pack, or the dtype is for latents.

    Examples:
        >>> head_bytes("auto", 128, 128), head_bytes("fp8", 128, 128)
        (512, 256)
        >>> head_bytes("int8_per_token_head", 128, 128), head_bytes("nvfp4", 128, 128)
        (264, 144)
    """
    total = head_size + head_size_v
    if cache_dtype in _SIXTEEN_BIT:
        return 2 * total
    if cache_dtype in _FP8:
        return total
    if cache_dtype in _PER_TOKEN_HEAD:
        bits = _PER_TOKEN_HEAD[cache_dtype]
        return head_size * bits // 8 + head_size_v * bits // 8 + 2 * _SCALE_BYTES
    return _packed_head_bytes(cache_dtype, head_size, head_size_v)


def _packed_head_bytes(cache_dtype: str, head_size: int, head_size_v: int) -> int:
    if head_size != head_size_v:
        raise ConfigError(
            f"--kv-cache-dtype {cache_dtype} needs K and V of one width; this model has "
            f"{head_size} and {head_size_v}",
            field="head_dim",
        )
    if cache_dtype in _NVFP4:
        _check_multiple(cache_dtype, head_size, 16)
        return 2 * (head_size // 2 + head_size // 16)
    if cache_dtype in _TURBOQUANT_BITS:
        return _turboquant_bytes(cache_dtype, head_size)
    if cache_dtype == "ultraquant_4bit":
        _check_multiple(cache_dtype, head_size, 32)
        return 2 * (head_size // 2 + head_size // 32)
    raise ConfigError(
        f"--kv-cache-dtype {cache_dtype} is not one kvdocs can size for layers that keep K and V "
        "heads: " + _REASONS.get(cache_dtype, "its layout depends on the rotary width and the GPU"),
        field=None,
    )


_REASONS: Final = {
    "fp8_ds_mla": "it packs the latent of DeepSeek-style attention (MLA)",
    "nvfp4_ds_mla": "it packs the latent of DeepSeek-style attention (MLA)",
}


def _turboquant_bytes(cache_dtype: str, head_size: int) -> int:
    key_bits, value_bits = _TURBOQUANT_BITS[cache_dtype]
    key = head_size if key_bits == 8 else -(-head_size * key_bits // 8) + 2
    slot = key + -(-head_size * value_bits // 8) + 4
    return slot + slot % 2


def _check_multiple(cache_dtype: str, head_size: int, multiple: int) -> None:
    if head_size % multiple:
        raise ConfigError(
            f"--kv-cache-dtype {cache_dtype} needs a head size that is a multiple of {multiple}; "
            f"this model has {head_size}",
            field="head_dim",
        )


def latent_bytes(cache_dtype: str, latent_size: int) -> int:
    """Bytes of one token's latent in one layer.

    Args:
        cache_dtype: One of `CACHE_DTYPES`.
        latent_size: Elements, e.g. 512 + 64.

    Raises:
        ConfigError: vLLM has no MLA backend for the dtype, or the latent is not one it packs.

    Examples:
        >>> latent_bytes("auto", 576), latent_bytes("fp8", 576), latent_bytes("fp8_ds_mla", 576)
        (1152, 576, 656)
    """
    if cache_dtype in _SIXTEEN_BIT:
        return 2 * latent_size
    if cache_dtype in _FP8:
        return latent_size
    if cache_dtype in _PER_TOKEN_HEAD:
        return latent_size * _PER_TOKEN_HEAD[cache_dtype] // 8 + 2 * _SCALE_BYTES
    if cache_dtype in _DS_MLA_BYTES and latent_size == _DS_MLA_LATENT:
        return _DS_MLA_BYTES[cache_dtype]
    raise ConfigError(
        f"--kv-cache-dtype {cache_dtype} does not store a latent of {latent_size} elements; use "
        "auto, fp8 or, for a latent of 576, fp8_ds_mla",
        field="kv_lora_rank",
    )
