"""What a calculator got wrong: the known mistakes, each computed and compared with what it said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kvdocs.errors import DiagnosisError
from kvdocs.model import KVCost, kv_cost, parse_config
from kvdocs.naive import naive_bytes_per_token, naive_bytes_per_token_query_heads
from kvdocs.units import GB, GIB

_SAME: Final = 0.003
_WEIGHT_BITS: Final = (4, 5, 6, 8)


class Mistake(NamedTuple):
    """A way to get the bytes of a token wrong, or right.

    Attributes:
        name: What was done.
        bytes_per_token: What comes out.
    """

    name: str
    bytes_per_token: float


def explain_estimate(
    bytes_per_token: float, config: Mapping[str, Any], *, tensor_parallel_size: int = 1
) -> tuple[str, ...]:
    """Which mistakes give a figure; none when it is not known, the first of equals first.

    Args:
        bytes_per_token: What a calculator said of one token on one GPU, in bytes.
        config: The model's `config.json`.
        tensor_parallel_size: GPUs that each layer is split over.

    Raises:
        DiagnosisError: A figure that is not above 0.
        ConfigError: A config that cannot be read right.

    Examples:
        >>> config = {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 2560,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
        >>> explain_estimate(92_160, config)[:1]
        ('head width taken as hidden size / query heads',)
        >>> explain_estimate(147_456, config)
        ('right',)
    """
    if not 0 < bytes_per_token < float("inf"):
        raise DiagnosisError(f"{bytes_per_token} bytes per token; it must be above 0")
    found = dict.fromkeys(
        name
        for name, value in mistakes(config, tensor_parallel_size)
        if abs(value - bytes_per_token) <= _SAME * value
    )
    return ("right",) if "right" in found else tuple(found)


def mistakes(config: Mapping[str, Any], tensor_parallel_size: int = 1) -> Iterator[Mistake]:
    """Every known way to compute the bytes of a token, the right one first.

    Args:
        config: The model's `config.json`.
        tensor_parallel_size: GPUs that each layer is split over.
    """
    cost = kv_cost(parse_config(config), tensor_parallel_size=tensor_parallel_size)
    right = float(cost.bytes_per_token_per_gpu + cost.window_bytes_per_token_per_gpu)
    yield Mistake("right", right)
    yield from _with_parts(cost, right)
    yield from _all_layers(config, right)
    yield Mistake("GB and GiB mixed up (too large)", right * GIB / GB)
    yield Mistake("GB and GiB mixed up (too small)", right * GB / GIB)
    yield from _by_formula(config)


def _with_parts(cost: KVCost, right: float) -> Iterator[Mistake]:
    if cost.tensor_parallel_size > 1:
        whole = cost.bytes_per_token + cost.window_bytes_per_token
        yield Mistake("not divided by tensor parallelism", float(whole))
    if cost.window_bytes_per_token:
        yield Mistake("layers with a window left out", float(cost.bytes_per_token_per_gpu))
    yield Mistake("only keys, or only values", right / 2)
    yield Mistake("32 bit for each element", 2 * right)
    yield Mistake("8 bit for each element", right / 2)


def _all_layers(config: Mapping[str, Any], right: float) -> Iterator[Mistake]:
    """Hybrid models keep K and V in a few layers only."""
    try:
        layers, heads = config["num_hidden_layers"], config["num_key_value_heads"]
        width = config.get("head_dim") or config["hidden_size"] / config["num_attention_heads"]
        every = 4.0 * layers * heads * width
    except (KeyError, TypeError, ZeroDivisionError):
        return
    if every > right:
        yield Mistake("every layer counted as attention", every)


def _by_formula(config: Mapping[str, Any]) -> Iterator[Mistake]:
    try:
        plain, old = naive_bytes_per_token(config), naive_bytes_per_token_query_heads(config)
        heads = int(config["num_attention_heads"])
    except (KeyError, TypeError, ValueError):
        return
    yield Mistake("head width taken as hidden size / query heads", float(plain))
    yield Mistake("query heads taken for KV heads", float(old))
    for bits in _WEIGHT_BITS:
        name = f"hidden size taken for K and V, at the weights' {bits} bits"
        yield Mistake(name, float(old * Fraction(bits, 16)))
    yield Mistake("heads x hidden size x 4 bits", float(old * heads * Fraction(4, 16)))
