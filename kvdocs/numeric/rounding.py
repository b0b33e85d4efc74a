"""What an fp8 cache does to keys, to values, and to what attention makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from kvdocs.numeric.attention import Array, Heads, Layer, Store, with_cache
from kvdocs.numeric.fp8 import calibrated_scale, per_tensor, per_token_head


@dataclass(frozen=True, slots=True)
class RoundingError:
    """Root-mean-square errors of a cache, each as a share of the exact numbers' own.

    Attributes:
        scheme: How keys and values are stored.
        keys: Error of the keys.
        values: Error of the values.
        output: Error of attention's output.
    """

    scheme: str
    keys: float
    values: float
    output: float


def relative_rms(approximate: Array, exact: Array) -> float:
    """Size of the error as a share of the size of the exact numbers.

    Args:
        approximate: Numbers.
        exact: What they should be.

    Examples:
        >>> relative_rms(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
        0.1
    """
    difference = np.asarray(approximate, np.float64) - np.asarray(exact, np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(np.asarray(exact, np.float64)))


def sample(
    heads: Heads, *, tokens: int, width: int, seed: int, key_size: float = 1.0
) -> tuple[Layer, Array]:
    """A layer and tokens to try a cache on.

    Args:
        heads: The layer's heads.
        tokens: Number of tokens.
        width: Elements of a token's vector.
        seed: The same seed draws the same.
        key_size: Root-mean-square size of a key's elements.
    """
    layer = Layer.random(heads, width=width, seed=seed)
    x = np.random.default_rng(seed + 1).standard_normal((tokens, width)).astype(np.float32)
    return Layer(heads, layer.w_q, layer.w_k * np.float32(key_size), layer.w_v), x


def _bf16(numbers: Array) -> Array:
    return np.asarray(numbers.astype(ml_dtypes.bfloat16).astype(np.float32))


def rounding_errors(layer: Layer, x: Array, *, prompt: int) -> tuple[RoundingError, ...]:
    """Errors of a bf16 cache and of fp8 caches with vLLM's kinds of scales, against float32.

    Queries and outputs stay in float32, so that the cache alone is to blame.

    Args:
        layer: The layer.
        x: The tokens: [tokens, width].
        prompt: How many of them are the prompt.

    Examples:
        >>> layer, x = sample(Heads(8, 2, 64), tokens=40, width=64, seed=7)
        >>> errors = rounding_errors(layer, x, prompt=30)
        >>> [error.scheme for error in errors]
        ['bf16', 'fp8, scale 1.0', 'fp8, calibrated scale', 'fp8, scale per token and head']
        >>> all(0.02 < error.keys < 0.03 for error in errors[1:])
        True
    """
    keys, values = layer.keys_values(x)
    key_scale, value_scale = calibrated_scale(keys), calibrated_scale(values)
    schemes: dict[str, tuple[Store, Store]] = {
        "bf16": (_bf16, _bf16),
        "fp8, scale 1.0": (lambda k: per_tensor(k).read(), lambda v: per_tensor(v).read()),
        "fp8, calibrated scale": (
            lambda k: per_tensor(k, scale=key_scale).read(),
            lambda v: per_tensor(v, scale=value_scale).read(),
        ),
        "fp8, scale per token and head": (
            lambda k: per_token_head(k).read(),
            lambda v: per_token_head(v).read(),
        ),
    }
    exact = with_cache(layer, x, prompt=prompt).outputs
    return tuple(
        RoundingError(
            scheme,
            relative_rms(on_keys(keys), keys),
            relative_rms(on_values(values), values),
            relative_rms(
                with_cache(
                    layer, x, prompt=prompt, store_keys=on_keys, store_values=on_values
                ).outputs,
                exact,
            ),
        )
        for scheme, (on_keys, on_values) in schemes.items()
    )
