"""Count a model's parameters from its config, for the architectures where that is exact.

Everything else is refused: a wrong count would make a wrong pool. Source of the shapes:
transformers 5.24.0, the `modeling_*.py` of each type (linear layers, norms, embeddings).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.errors import ConfigError
from kvdocs.model.fields import Fields, show


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What an architecture has beside the matrices all of these have.

    Attributes:
        qkv_bias: Biases on Q, K and V whatever the file says.
        bias_flags: Whether `attention_bias` and `mlp_bias` of the file add biases.
        head_norms: A norm over one head each for Q and K.
        wide_norms: A norm over all heads each for Q and K.
        experts: Field with the number of experts; empty for one dense feed-forward network.
        expert_width: Field with the width of an expert.
    """

    qkv_bias: bool = False
    bias_flags: bool = False
    head_norms: bool = False
    wide_norms: bool = False
    experts: str = ""
    expert_width: str = "intermediate_size"


_SHAPES: Final = {
    "llama": _Shape(bias_flags=True),
    "mistral": _Shape(),
    "mixtral": _Shape(experts="num_local_experts"),
    "olmo2": _Shape(bias_flags=True, wide_norms=True),
    "phi3": _Shape(),
    "qwen2": _Shape(qkv_bias=True),
    "qwen3": _Shape(bias_flags=True, head_norms=True),
    "qwen3_moe": _Shape(
        bias_flags=True,
        head_norms=True,
        experts="num_experts",
        expert_width="moe_intermediate_size",
    ),
}
"""Architectures that are counted; all have gated feed-forward networks of three matrices."""


def count_parameters(config: Mapping[str, Any]) -> int:
    """Count the parameters of a model, tied embeddings once.

    Args:
        config: Its `config.json`.

    Raises:
        ConfigError: An architecture that is not counted, or a field that is needed and missing.

    Examples:
        >>> count_parameters({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
        ...     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "intermediate_size": 14336, "tie_word_embeddings": False})
        8030261248
    """
    fields = Fields(config)
    shape = _SHAPES.get(str(config.get("model_type")))
    if shape is None:
        fields.refuse(
            "model_type",
            f"is {show(config.get('model_type'))}, whose parameters kvdocs does not count",
        )
    _check_plain(fields, shape)
    hidden = fields.integer("hidden_size")
    layer = _attention(fields, shape, hidden) + _feed_forward(fields, shape, hidden) + 2 * hidden
    embeddings = fields.integer("vocab_size") * hidden
    tied = fields.flag("tie_word_embeddings")
    return fields.layer_count("num_hidden_layers") * layer + (2 - tied) * embeddings + hidden


def _check_plain(fields: Fields, shape: _Shape) -> None:
    """Refuse what changes single layers: not every layer is then like the first."""
    if shape.experts and (
        fields.items("mlp_only_layers")
        or fields.optional_integer("decoder_sparse_step") not in {None, 1}
    ):
        fields.refuse("mlp_only_layers", "(or decoder_sparse_step) mixes dense and expert layers")


def _attention(fields: Fields, shape: _Shape, hidden: int) -> int:
    heads = fields.integer("num_attention_heads")
    size = fields.optional_integer("head_dim") or hidden // heads
    kv = (fields.optional_integer("num_key_value_heads") or heads) * size
    query = heads * size
    total = hidden * (query + 2 * kv) + query * hidden
    if shape.qkv_bias or (shape.bias_flags and fields.flag("attention_bias")):
        total += query + 2 * kv
    if shape.bias_flags and fields.flag("attention_bias"):
        total += hidden
    if shape.head_norms:
        total += 2 * size
    if shape.wide_norms:
        total += query + kv
    return total


def _feed_forward(fields: Fields, shape: _Shape, hidden: int) -> int:
    width = fields.integer(shape.expert_width)
    one = 3 * hidden * width
    if shape.experts:
        experts = fields.integer(shape.experts)
        return experts * one + hidden * experts
    if shape.bias_flags and fields.flag("mlp_bias"):
        one += 2 * width + hidden
    return one


def is_quantized(config: Mapping[str, Any]) -> bool:
    """Whether a config says that its weights are not stored in 16 bit.

    Examples:
        >>> is_quantized({"quantization_config": {"quant_method": "awq"}}), is_quantized({})
        (True, False)
    """
    nested = config.get("text_config")
    inner = nested if isinstance(nested, Mapping) else {}
    names = ("quantization_config", "compression_config")
    return any(part.get(name) for part in (config, inner) for name in names)


def why_not_counted(config: Mapping[str, Any]) -> str:
    """Why `count_parameters` refuses a config; empty when it does not.

    Examples:
        >>> why_not_counted({"model_type": "mamba"})
        "model_type is 'mamba', whose parameters kvdocs does not count"
    """
    try:
        count_parameters(config)
    except ConfigError as error:
        return str(error)
    return ""
