"""The state a recurrent layer keeps: the rules `kvdocs.model.families` names.

Sources: vLLM 0.33.0 `vllm/model_executor/layers/mamba/mamba_utils.py`
(`MambaStateShapeCalculator`, `MambaStateDtypeCalculator`), and per model the file's
`get_mamba_state_shape_from_config`. vLLM keeps kernel - 1 taps of a convolution, and both tensors
in the dtype the model is served in unless the config names another for the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvdocs.model.dtypes import STATE_DTYPE_BYTES
from kvdocs.model.fields import Fields, show
from kvdocs.model.layers import StatePiece
from kvdocs.model.shapes import HIDDEN, head_size_of, num_query_heads

State = tuple[StatePiece, ...]
Rule = Callable[[Fields], State]


def state_dtype(text: Fields, default: str = "auto") -> str:
    """Dtype of the recurrent state: named in the config, else the class's or the model's.

    Source: vLLM 0.33.0 `vllm/model_executor/models/config.py` (`mamba_ssm_cache_dtype` for
    Nemotron-H, `mamba_ssm_dtype` for Qwen3.5).

    Raises:
        ConfigError: A dtype kvdocs does not know.

    Examples:
        >>> state_dtype(Fields({"mamba_ssm_dtype": "float32"})), state_dtype(Fields({}))
        ('float32', 'auto')
    """
    for key in ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"):
        name = text.text(key)
        if name is not None:
            if name not in STATE_DTYPE_BYTES:
                text.refuse(key, f"is {show(name)}; known are {', '.join(STATE_DTYPE_BYTES)}")
            return name
    return default


def _mamba1(text: Fields) -> State:
    expand = text.integer("mamba_expand", "expand")
    width = expand * text.integer(*HIDDEN)
    width = text.optional_integer("mamba_intermediate_size") or width
    taps = text.integer("mamba_d_conv", "conv_kernel") - 1
    size = text.integer("mamba_d_state", "state_size")
    return (
        StatePiece("conv", rows=taps, width=width),
        StatePiece("state", rows=1, width=width * size, dtype=state_dtype(text)),
    )


_MAMBA2_HEADS: Final = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
_MAMBA2_GROUPS: Final = ("n_groups", "mamba_n_groups", "mamba_ngroups")
_MAMBA2_STATE: Final = ("ssm_state_size", "mamba_d_state", "state_size")
_MAMBA2_KERNEL: Final = ("conv_kernel", "mamba_d_conv")


def _mamba2(text: Fields) -> State:
    heads = text.integer(*_MAMBA2_HEADS)
    head_size = _mamba2_head_size(text, heads)
    size = text.integer(*_MAMBA2_STATE)
    return (
        StatePiece(
            "conv",
            rows=text.integer(*_MAMBA2_KERNEL) - 1,
            width=heads * head_size,
            num_groups=text.integer(*_MAMBA2_GROUPS),
            group_width=2 * size,
        ),
        StatePiece("state", rows=1, width=heads * head_size * size, dtype=state_dtype(text)),
    )


def _mamba2_head_size(text: Fields, heads: int) -> int:
    """Elements per Mamba head: stated, or `auto` (inner width over heads)."""
    for key in ("mamba_head_dim", "mamba_d_head"):
        if text.has(key) and text.data[key] != "auto":
            size = text.integer(key)
            _check_inner_width(text, key, heads * size)
            return size
    if text.has("num_heads") and text.data.get("model_type") == "mamba2":
        return text.integer("head_dim")
    inner = text.optional_integer("mamba_d_ssm")
    if inner is None:
        inner = text.integer("mamba_expand", "expand") * text.integer(*HIDDEN)
    if inner % heads:
        text.refuse("mamba_n_heads", f"is {heads}, which does not divide the inner width {inner}")
    return inner // heads


def _check_inner_width(text: Fields, key: str, width: int) -> None:
    """The class demands heads times head size to equal the inner width, where it has both."""
    if key != "mamba_d_head" or not (text.has("mamba_expand") or text.has("mamba_d_ssm")):
        return
    inner = text.optional_integer("mamba_d_ssm")
    inner = inner or text.integer("mamba_expand") * text.integer(*HIDDEN)
    if inner != width:
        text.refuse(key, f"times mamba_n_heads is {width}, but the inner width is {inner}")


def _gated_delta(text: Fields) -> State:
    key_heads = text.integer("linear_num_key_heads")
    value_heads = text.integer("linear_num_value_heads")
    key_size = text.integer("linear_key_head_dim")
    value_size = text.integer("linear_value_head_dim")
    conv_width = 2 * key_heads * key_size + value_heads * value_size
    return (
        StatePiece("conv", rows=text.integer("linear_conv_kernel_dim") - 1, width=conv_width),
        StatePiece(
            "state", rows=1, width=value_heads * value_size * key_size, dtype=state_dtype(text)
        ),
    )


def _kda(text: Fields) -> State:
    """Kimi delta attention: the recurrent state is float32 unless said otherwise."""
    linear = text.mapping("linear_attn_config")
    if linear is None:
        text.refuse("linear_attn_config", "is missing; it gives the state's shape")
    heads = linear.integer("num_heads")
    size = linear.integer("head_dim")
    return (
        StatePiece(
            "conv", rows=linear.integer("short_conv_kernel_size") - 1, width=3 * heads * size
        ),
        StatePiece("state", rows=1, width=heads * size * size, dtype=state_dtype(text, "float32")),
    )


def _lightning(text: Fields) -> State:
    heads = num_query_heads(text)
    size = head_size_of(text)
    return (StatePiece("state", rows=1, width=heads * size * size, dtype=state_dtype(text)),)


def _short_conv(text: Fields) -> State:
    width = text.optional_integer("conv_dim") or text.integer(*HIDDEN)
    return (StatePiece("conv", rows=text.integer("conv_L_cache") - 1, width=width),)


STATES: Final[dict[str, Rule]] = {
    "gated_delta": _gated_delta,
    "kda": _kda,
    "lightning": _lightning,
    "mamba1": _mamba1,
    "mamba2": _mamba2,
    "short_conv": _short_conv,
}
"""The rules by the name a family's row uses."""
