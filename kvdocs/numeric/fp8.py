"""Rounding keys and values to fp8 e4m3, with the scales that vLLM has.

e4m3 has a sign, four bits of exponent with bias 7 and three of mantissa, no infinities, and 448 as
its largest number: Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433, table 1.
A number is divided by a scale, rounded, stored in a byte, and multiplied by the scale when read.

Sources in vLLM 0.33.0:

- Per tensor (`--kv-cache-dtype fp8`): one scale for the keys of a layer and one for its values, 1.0
  unless the checkpoint brings calibrated ones; `docs/features/quantization/quantized_kvcache.md`.
- Per token and head (`fp8_per_token_head`): largest size of the head's elements / 448, at least
  1e-6; `vllm/v1/attention/ops/triton_reshape_and_cache_flash.py`, `_reshape_cache_per_token_head`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np

from kvdocs.errors import ConfigError
from kvdocs.numeric.attention import Array

E4M3_MAX: Final = 448.0
"""The largest number of e4m3."""
SMALLEST_NORMAL: Final = 2.0**-6
"""Below it the spacing no longer shrinks, so the relative error grows."""
LEAST_SCALE: Final = 1e-6
"""The smallest scale per token and head."""
SCALE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Fp8Tensor:
    """Keys or values as an fp8 cache holds them.

    Attributes:
        codes: e4m3 numbers, a byte each: [tokens, KV heads, head size].
        scales: float32, of a shape that multiplies with the codes.
    """

    codes: Array
    scales: Array

    def read(self) -> Array:
        """The numbers as attention gets them, float32."""
        return np.asarray(self.codes.astype(np.float32) * self.scales)

    @property
    def num_bytes(self) -> int:
        """Bytes of codes and scales."""
        return int(self.codes.nbytes + self.scales.nbytes)


def round_e4m3(numbers: Array) -> Array:
    """Round to the nearest e4m3 number, ties to even; what is too large becomes 448.

    vLLM saturates too: its kernels clamp, or convert with CUDA's `__NV_SATFINITE`.

    Args:
        numbers: Of any shape.

    Returns:
        The same shape in e4m3.

    Examples:
        >>> round_e4m3(np.array([0.3, 1.0, 17.0, -1000.0])).astype(float)
        array([ 3.125e-01,  1.000e+00,  1.600e+01, -4.480e+02])
    """
    clipped = np.clip(np.asarray(numbers, np.float32), -E4M3_MAX, E4M3_MAX)
    return np.asarray(clipped.astype(ml_dtypes.float8_e4m3fn))


def calibrated_scale(numbers: Array) -> float:
    """The scale with which the largest number becomes 448.

    Args:
        numbers: What a calibration run has seen.

    Examples:
        >>> calibrated_scale(np.array([-3.5, 2.0]))
        0.0078125
    """
    return float(np.abs(numbers).max()) / E4M3_MAX


def per_tensor(numbers: Array, *, scale: float = 1.0) -> Fp8Tensor:
    """Store with one scale.

    Args:
        numbers: [tokens, KV heads, head size].
        scale: The scale; 1.0 is what vLLM takes without calibration.

    Raises:
        ConfigError: A scale that is not above 0.
    """
    if not 0 < scale < float("inf"):
        raise ConfigError(f"the scale is {scale}; it must be above 0")
    one = np.float32(scale)
    return Fp8Tensor(round_e4m3(numbers / one), np.asarray(one))


def per_token_head(numbers: Array) -> Fp8Tensor:
    """Store with a scale for each token and head.

    Args:
        numbers: [tokens, KV heads, head size].

    Examples:
        >>> stored = per_token_head(np.ones((10, 2, 128)))
        >>> stored.num_bytes, stored.scales.shape
        (2640, (10, 2, 1))
    """
    largest = np.abs(np.asarray(numbers, np.float32)).max(axis=-1, keepdims=True)
    scales = np.maximum(largest / np.float32(E4M3_MAX), np.float32(LEAST_SCALE))
    return Fp8Tensor(round_e4m3(numbers * (np.float32(1) / scales)), scales)
