"""KV heads and head sizes: the rules `kvdocs.model.families` names.

A rule gets the config's fields and the kind of a layer, and returns KV heads, elements of K and
elements of V per head. `per_layer` rules also see the layer's index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvdocs.model.fields import Fields, show
from kvdocs.model.layers import LayerKind
from kvdocs.model.patterns import block_attention

HEADS: Final = ("num_attention_heads", "n_head", "num_heads", "n_heads")
KV_HEADS: Final = ("num_key_value_heads", "n_head_kv", "num_kv_heads")
HEAD_SIZES: Final = ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels")
HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
PER_LAYER_CONFIG: Final = "per_layer_config"
"""Field of transformers 5 that overrides others for single layers
(`integrations/heterogeneity/configuration_utils.py`)."""
_OVERRIDABLE: Final = frozenset({"head_dim", *KV_HEADS})
_NO_MATTER: Final = ("expert", "intermediate", "mlp", "moe", "rope", "partial_rotary")
LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


@dataclass(frozen=True, slots=True)
class Shape:
    """What one layer keeps per token.

    Attributes:
        num_kv_heads: KV heads.
        head_size: Elements of K per head.
        head_size_v: Elements of V per head.
        rope_head_size: The part of a latent that carries the position.
        indexer_bytes_per_token: Bytes of a sparse-attention indexer.
    """

    num_kv_heads: int
    head_size: int
    head_size_v: int
    rope_head_size: int = 0
    indexer_bytes_per_token: int = 0


Rule = Callable[[Fields, LayerKind, int], Shape]


def num_query_heads(text: Fields) -> int:
    """Query heads.

    Raises:
        ConfigError: The field is missing.

    Examples:
        >>> num_query_heads(Fields({"n_head": 12}))
        12
    """
    return text.integer(*HEADS, most=100_000)


def kv_heads_of(text: Fields, *keys: str) -> int:
    """KV heads: as the file says, else one per query head.

    Raises:
        ConfigError: Not a divisor of the query heads.

    Examples:
        >>> kv_heads_of(Fields({"num_attention_heads": 32, "num_key_value_heads": 8}))
        8
    """
    heads = num_query_heads(text)
    kv_heads = text.optional_integer(*(keys or KV_HEADS))
    if kv_heads is None:
        _check_may_be_missing(text)
        return heads
    if heads % kv_heads:
        text.refuse(
            (keys or KV_HEADS)[0],
            f"is {kv_heads}, which does not divide the {heads} query heads (num_attention_heads)",
        )
    return kv_heads


def _check_may_be_missing(text: Fields) -> None:
    """Where the class would fill in a fixed number, a file without one is likely cut short."""
    fixed = text.withheld.get("num_key_value_heads")
    if fixed is not None and "num_key_value_heads" not in text.data:
        text.refuse(
            "num_key_value_heads",
            f"is missing; the class would take {fixed}, which is right by chance only: write it",
        )


def head_size_of(text: Fields, *keys: str) -> int:
    """Elements per head: as the file or class says, else hidden size over query heads.

    Raises:
        ConfigError: Neither there nor computable.

    Examples:
        >>> head_size_of(Fields({"hidden_size": 4096, "num_attention_heads": 32}))
        128
    """
    size = text.optional_integer(*(keys or HEAD_SIZES), least=0)
    if size:
        return size
    hidden = text.integer(*HIDDEN)
    heads = num_query_heads(text)
    if hidden % heads:
        text.refuse(
            "head_dim",
            f"is missing, and hidden_size {hidden} is not a multiple of the {heads} query heads "
            "(num_attention_heads)",
        )
    return hidden // heads


def _plain(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text)
    return Shape(kv_heads_of(text), size, size)


def _latent(text: Fields, _kind: LayerKind, layer: int) -> Shape:
    rank = text.integer("kv_lora_rank")
    rope = text.integer("qk_rope_head_dim")
    indexer = _indexer_bytes(text) if has_indexer(text, layer) else 0
    return Shape(1, rank + rope, 0, rope, indexer)


def _indexer_bytes(text: Fields) -> int:
    """fp8 keys and one float32 scale per 128 of them.

    Source: vLLM 0.33.0 `vllm/model_executor/models/deepseek_v2.py`, `Indexer.__init__`.
    """
    size = text.integer("index_head_dim")
    return size + size // 128 * 4


def has_indexer(text: Fields, layer: int) -> bool:
    """Whether a layer has an indexer of its own; others reuse an earlier layer's choice.

    Source: vLLM 0.33.0 `vllm/models/deepseek_v32/attention.py` (`index_topk_freq`,
    `index_topk_pattern`); transformers 5.24.0 `configuration_glm_moe_dsa.py` (`indexer_types`).

    Examples:
        >>> fields = Fields({"index_topk": 2048, "index_topk_freq": 4})
        >>> [layer for layer in range(12) if has_indexer(fields, layer)]
        [0, 1, 5, 9]
    """
    if text.optional_integer("index_topk") is None:
        return False
    listed = text.get("indexer_types") or text.get("index_topk_pattern")
    if listed is not None:
        return _listed_indexer(text, listed, layer)
    period = text.optional_integer("index_topk_freq", least=0) or 1
    offset = text.optional_integer("index_skip_topk_offset", least=0)
    return max(layer - (2 if offset is None else offset) + 1, 0) % period == 0


def _listed_indexer(text: Fields, listed: object, layer: int) -> bool:
    words = {"F": True, "full": True, "S": False, "shared": False}
    if not isinstance(listed, (str, list, tuple)) or layer >= len(listed):
        text.refuse("indexer_types", "must have one entry per layer")
    word = listed[layer]
    if not isinstance(word, str) or word not in words:
        text.refuse("indexer_types", f"holds {show(word)}; full and shared are known")
    return words[word]


def _expanded_latent(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = text.integer("qk_nope_head_dim") + text.integer("qk_rope_head_dim")
    return Shape(num_query_heads(text), size, size)


def _falcon(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text)
    hidden = text.optional_integer(*HIDDEN)
    old_name = text.data.get("model_type") in {"RefinedWeb", "RefinedWebModel"}
    new = text.flag("new_decoder_architecture") or (old_name and hidden == 8192)
    if text.flag("multi_query") and not new:
        return Shape(1, size, size)
    return Shape(kv_heads_of(text, "num_kv_heads", "n_head_kv"), size, size)


def _multi_query(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text)
    return Shape(1 if text.flag("multi_query") else num_query_heads(text), size, size)


def _single_kv_head(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text)
    return Shape(1, size, size)


def _attn_config(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text)
    heads = num_query_heads(text)
    attention = text.mapping("attn_config")
    if attention is None:
        return Shape(heads, size, size)
    if attention.text("attn_type") == "multiquery_attention":
        return Shape(1, size, size)
    kv_heads = attention.optional_integer("kv_n_heads") or heads
    if heads % kv_heads:
        attention.refuse("kv_n_heads", f"is {kv_heads}, which does not divide {heads} query heads")
    return Shape(kv_heads, size, size)


def _chatglm(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    size = head_size_of(text, "kv_channels")
    heads = num_query_heads(text)
    if not text.flag("multi_query_attention"):
        return Shape(heads, size, size)
    return Shape(text.integer("multi_query_group_num"), size, size)


def _gemma4(text: Fields, kind: LayerKind, _layer: int) -> Shape:
    if kind != LayerKind.FULL or text.has(PER_LAYER_CONFIG):
        return _plain(text, kind, 0)
    size = text.integer("global_head_dim")
    kv_heads = kv_heads_of(text)
    if text.flag("attention_k_eq_v"):
        kv_heads = text.optional_integer("num_global_key_value_heads") or kv_heads
    return Shape(kv_heads, size, size)


def _mimo_v2(text: Fields, kind: LayerKind, _layer: int) -> Shape:
    prefix = "swa_" if kind == LayerKind.SLIDING else ""
    kv_heads = text.integer(f"{prefix}num_key_value_heads")
    size = text.integer(f"{prefix}head_dim")
    return Shape(kv_heads, size, text.optional_integer(f"{prefix}v_head_dim") or size)


def _step3p5(text: Fields, kind: LayerKind, _layer: int) -> Shape:
    groups = text.integer("num_attention_groups", "num_key_value_heads")
    size = head_size_of(text)
    other = text.mapping("attention_other_setting")
    if other is not None and kind == LayerKind.SLIDING:
        _check_same(other, "num_attention_groups", groups)
        _check_same(other, "head_dim", size)
    return Shape(groups, size, size)


def _check_same(other: Fields, key: str, value: int) -> None:
    """VLLM reads both only from the top (`vllm/model_executor/models/step3p5.py`)."""
    found = other.optional_integer(key)
    if found not in (None, value):
        other.refuse(key, f"is {found}, but the full layers have {value}; vLLM has one for both")


def _block_configs(text: Fields, _kind: LayerKind, layer: int) -> Shape:
    attention = block_attention(text, layer, text.data["block_configs"][layer])
    heads = num_query_heads(text)
    kv_heads = attention.optional_integer("num_key_value_heads")
    if kv_heads is None:
        group = attention.integer("n_heads_in_group")
        if heads % group:
            attention.refuse("n_heads_in_group", f"is {group}, which does not divide {heads} heads")
        kv_heads = heads // group
    size = head_size_of(text)
    return Shape(kv_heads, size, size)


def _zamba2(text: Fields, _kind: LayerKind, _layer: int) -> Shape:
    """The shared attention works on twice the hidden size."""
    heads = num_query_heads(text)
    size = text.optional_integer("attention_head_dim") or 2 * text.integer(*HIDDEN) // heads
    return Shape(kv_heads_of(text), size, size)


SHAPES: Final[dict[str, Rule]] = {
    "attn_config": _attn_config,
    "block_configs": _block_configs,
    "chatglm": _chatglm,
    "expanded_latent": _expanded_latent,
    "falcon": _falcon,
    "gemma4": _gemma4,
    "mimo_v2": _mimo_v2,
    "multi_query": _multi_query,
    "plain": _plain,
    "single_kv_head": _single_kv_head,
    "step3p5": _step3p5,
    "zamba2": _zamba2,
}
"""The rules by the name a family's row uses."""


def _block_key(text: Fields, layer: int) -> object:
    attention = block_attention(text, layer, text.data["block_configs"][layer]).data
    return attention.get("num_key_value_heads"), attention.get("n_heads_in_group")


def _same_key(_text: Fields, _layer: int) -> object:
    return None


def _changes_key(text: Fields, layer: int) -> object:
    changes = overrides_of(text, layer)
    return tuple((key, changes[key]) for key in sorted(_OVERRIDABLE & changes.keys()))


def layer_key(text: Fields) -> Callable[[Fields, int], object]:
    """What tells layers of one kind apart: nothing, unless the file says so layer by layer.

    Examples:
        >>> layer_key(Fields({"head_dim": 64}))(Fields({}), 3) is None
        True
    """
    if text.has(PER_LAYER_CONFIG):
        return _changes_key
    sometimes = ("indexer_types", "index_topk_pattern", "index_topk_freq")
    if any(text.has(key) for key in sometimes):
        return has_indexer
    return _same_key


PER_LAYER: Final[dict[str, Callable[[Fields, int], object]]] = {"block_configs": _block_key}
"""Rules whose answer depends on the layer, and what it depends on."""


def overrides_of(text: Fields, layer: int) -> dict[str, object]:
    """What `per_layer_config` changes for one layer.

    Raises:
        ConfigError: It changes something whose effect on the cache is not known.

    Examples:
        >>> overrides_of(Fields({"per_layer_config": {"05": {"head_dim": 512}}}), 5)
        {'head_dim': 512}
    """
    table = text.data.get(PER_LAYER_CONFIG)
    if table is None:
        return {}
    if not isinstance(table, dict):
        text.refuse(PER_LAYER_CONFIG, f"is {show(table)}; an object by layer number is needed")
    named = [key for key in table if str(key).isdecimal() and int(key) == layer]
    changes = table[named[0]] if named else {}
    if not isinstance(changes, dict):
        text.refuse(
            PER_LAYER_CONFIG, f"holds {show(changes)} for layer {layer}; an object is needed"
        )
    for key in changes:
        if key not in _OVERRIDABLE and not any(part in str(key) for part in _NO_MATTER):
            text.refuse(
                PER_LAYER_CONFIG, f"changes {show(key)} in layer {layer}, which is not known"
            )
    return changes


def shape_of(rule: str, text: Fields, kind: LayerKind, layer: int) -> Shape:
    """The shape of one layer; a latent layer has the same one in every family.

    Examples:
        >>> fields = Fields({"hidden_size": 4544, "num_attention_heads": 71, "multi_query": True})
        >>> shape_of("falcon", fields, LayerKind.FULL, 0).num_kv_heads
        1
    """
    changes = overrides_of(text, layer)
    if changes:
        text = text.changed(changes)
    if kind == LayerKind.LATENT:
        return _latent(text, kind, layer)
    shape = SHAPES[rule](text, kind, layer)
    heads = num_query_heads(text)
    if heads % shape.num_kv_heads:
        text.refuse(
            "num_key_value_heads",
            f"comes to {shape.num_kv_heads} in a {kind} layer, which does not divide the {heads} "
            "query heads (num_attention_heads)",
        )
    return shape
