"""From a Hugging Face `config.json` to the layers' cache layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvdocs.model.fields import Fields, load
from kvdocs.model.layers import LayerGroup, LayerKind, Model


def parse_config(config: Mapping[str, Any] | str | bytes, *, name: str | None = None) -> Model:
    """Read a `config.json`.

    Args:
        config: The file's text, or the object it holds.
        name: What to call the model; its `model_type` when not given.

    Raises:
        ConfigError: The config cannot be read right; the error names the field.

    Examples:
        >>> parse_config('{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12}').layers
        (LayerGroup(kind=<LayerKind.FULL: 'full'>, positions=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), ...
    """
    top = Fields(load(config))
    model_type = top.text("model_type") or top.refuse("model_type", "is missing")
    num_layers = top.layer_count("num_hidden_layers", "n_layer", "num_layers")
    hidden_size = top.integer("hidden_size", "n_embd", "d_model")
    heads = top.integer("num_attention_heads", "n_head", "num_heads")
    kv_heads = top.optional_integer("num_key_value_heads") or heads
    head_size = top.optional_integer("head_dim") or hidden_size // heads
    group = LayerGroup(LayerKind.FULL, tuple(range(num_layers)), kv_heads, head_size, head_size)
    return Model(
        name=name or model_type,
        model_type=model_type,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        max_model_len=top.optional_integer("max_position_embeddings", "n_positions"),
        dtype=top.text("dtype") or top.text("torch_dtype"),
        layers=(group,),
    )
