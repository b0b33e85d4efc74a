"""What two set-ups differ in, named."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, NamedTuple

from kvdocs.flags import ServerFlags
from kvdocs.playground.setup import Sized
from kvdocs.units import format_bytes, format_number

_HIDDEN: Final = frozenset({"model", "others", "vllm_version", "auto_fit_max_model_len"})


class Difference(NamedTuple):
    """One thing that differs.

    Attributes:
        what: What it is.
        a: In set-up A, as printed.
        b: In set-up B.
    """

    what: str
    a: str
    b: str


def differences(a: Sized, b: Sized) -> tuple[Difference, ...]:
    """Name what two set-ups differ in, the memory that follows from it last.

    Args:
        a: Set-up A.
        b: Set-up B.

    Examples:
        >>> from kvdocs.playground.setup import DEFAULT_FLAGS, Setup
        >>> one, other = Setup(), Setup(flags=f"{DEFAULT_FLAGS} --kv-cache-dtype fp8")
        >>> for difference in differences(one.size(), other.size()):
        ...     print(*difference, sep=" | ")
        --kv-cache-dtype | auto | fp8
        KV of a token | 128 KiB | 64 KiB
        tokens in the pool | 407,712 | 815,424
    """
    theirs = described(b)
    pairs = ((what, one, theirs[what]) for what, one in described(a).items())
    return tuple(Difference(what, one, other) for what, one, other in pairs if one != other)


def described(sized: Sized) -> dict[str, str]:
    """All that sets a set-up apart, by what it is.

    Args:
        sized: The set-up.
    """
    gpu, budget = sized.gpu, sized.budget
    flags = (field.name for field in fields(ServerFlags) if field.name not in _HIDDEN)
    return {
        "model": sized.subject.name,
        "GPU": gpu.name,
        "GPU memory": format_bytes(budget.total_bytes, "GB"),
        "memory bandwidth": f"{gpu.memory_bandwidth_bytes_per_s / 1e12:g} TB/s",
        "arithmetic": f"{gpu.dense_bf16_flops / 1e12:g} TFLOP/s",
        "weights on a GPU": format_bytes(budget.weights_bytes, "GB"),
        "workspace": format_bytes(budget.activation_bytes, "GB"),
        "CUDA context": format_bytes(budget.non_torch_bytes, "GB"),
        **{f"--{name.replace('_', '-')}": _value(sized, name) for name in flags},
        "KV of a token": format_bytes(sized.token_bytes, "KiB"),
        "tokens in the pool": f"{sized.capacity.kv_block_tokens:,}",
    }


def _value(sized: Sized, name: str) -> str:
    """A flag as it counts: a default that follows from the GPU is named as such."""
    value: Any = getattr(sized.flags, name)
    if name == "max_model_len" and sized.flags.auto_fit_max_model_len:
        return f"auto: {sized.capacity.max_model_len:,}"
    if value is None:
        config = sized.server.config if sized.server else None
        in_force = getattr(config, name, None)
        return f"default: {in_force:,}" if isinstance(in_force, int) else "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_number(value, 4) if isinstance(value, (int, float)) else str(value)
