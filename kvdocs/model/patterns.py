"""Which layer keeps what: the rules `kvdocs.model.families` names.

A rule gets the config's fields, the number of layers and the family's row, and returns one tuple of
kinds per layer. Most layers keep one thing; a tuple of two is attention beside a Mamba state
(Falcon-H1), or two attentions in one layer (LongCat-Flash).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kvdocs.model.families import Family
from kvdocs.model.fields import Fields, show
from kvdocs.model.layers import LayerKind

Kinds = list[tuple[LayerKind, ...]]
Rule = Callable[[Fields, int, Family], Kinds]

_FULL: Final = (LayerKind.FULL,)
_SLIDING: Final = (LayerKind.SLIDING,)
_CHUNKED: Final = (LayerKind.CHUNKED,)
_RECURRENT: Final = (LayerKind.RECURRENT,)
_NONE: Final = (LayerKind.NONE,)

LAYER_WORDS: Final = {
    "full_attention": LayerKind.FULL,
    "attention": LayerKind.FULL,
    "sliding_attention": LayerKind.SLIDING,
    "chunked_attention": LayerKind.CHUNKED,
    "linear_attention": LayerKind.RECURRENT,
    "mamba": LayerKind.RECURRENT,
    "conv": LayerKind.RECURRENT,
    "moe": LayerKind.NONE,
    "mlp": LayerKind.NONE,
}
"""Words of `layer_types` (transformers 5.24.0 `configuration_utils.py`, legacy names included)."""


def listed_kinds(text: Fields, num_layers: int, *keys: str) -> Kinds | None:
    """The kinds that `layer_types` lists, or None when the file has no such list.

    Raises:
        ConfigError: A word that is not known, or not one word per layer.

    Examples:
        >>> listed_kinds(Fields({"layer_types": ["mamba", "attention"]}), 2)
        [(<LayerKind.RECURRENT: 'recurrent'>,), (<LayerKind.FULL: 'full'>,)]
    """
    for key in keys or ("layer_types",):
        words = _words(text, key, num_layers)
        if words is not None:
            return [(_kind_of(text, key, word),) for word in words]
    return None


def _words(text: Fields, key: str, num_layers: int) -> list[Any] | None:
    """One word per layer; some files list their multi-token-prediction layers behind them."""
    words = text.items(key)
    extra = text.optional_integer("num_nextn_predict_layers", least=0) or 0
    if words is not None and extra and len(words) == num_layers + extra:
        return words[:num_layers]
    return text.items(key, length=num_layers)


def _kind_of(text: Fields, key: str, word: object) -> LayerKind:
    kind = LAYER_WORDS.get(word) if isinstance(word, str) else None
    if kind is None:
        text.refuse(
            key,
            f"holds {show(word)}, a layer kind kvdocs does not know; known are "
            f"{', '.join(LAYER_WORDS)}",
        )
    return kind


def window_of(text: Fields) -> int:
    """Tokens of the sliding window, or 0 when the model has none.

    `use_sliding_window: false` switches a window off that the file still names; 0 and null mean
    none (vLLM 0.33.0 `vllm/config/model.py`, `ModelConfig.__post_init__`).

    Examples:
        >>> window_of(Fields({"sliding_window": 4096, "use_sliding_window": False}))
        0
    """
    if text.has("use_sliding_window") and not text.flag("use_sliding_window"):
        return 0
    return text.optional_integer("sliding_window", "sliding_window_size", least=0) or 0


def _full(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None and any(kind != _FULL for kind in kinds):
        text.refuse(
            "layer_types",
            f"lists layers that model_type {show(text.data.get('model_type'))} does not have: its "
            "layers all keep the whole context",
        )
    window = window_of(text)
    limit = text.optional_integer("max_position_embeddings") or 0
    if window and not (limit and window >= limit):
        text.refuse(
            "sliding_window",
            f"is {window:,}, but layers of model_type {show(text.data.get('model_type'))} have no "
            "window in transformers while vLLM would give one to each; set it to null if the model "
            "keeps the whole context",
        )
    return [_FULL] * num_layers


def _window(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    return [_SLIDING if window_of(text) else _FULL] * num_layers


def _window_if_used(text: Fields, num_layers: int, family: Family) -> Kinds:
    if not text.flag("use_sliding_window"):
        return _only_full_listed(text, num_layers)
    return _window(text, num_layers, family)


def _only_full_listed(text: Fields, num_layers: int) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None and any(kind != _FULL for kind in kinds):
        text.refuse("layer_types", "lists windowed layers while use_sliding_window is not true")
    return [_FULL] * num_layers


def _late_window(text: Fields, num_layers: int, _family: Family) -> Kinds:
    if not text.flag("use_sliding_window") or not window_of(text):
        return _only_full_listed(text, num_layers)
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    first = text.optional_integer("max_window_layers", least=0) or 0
    return [_SLIDING if layer >= first else _FULL for layer in range(num_layers)]


def _interleaved(text: Fields, num_layers: int, family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    if not window_of(text):
        return [_FULL] * num_layers
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, str):
        return _letters(text, pattern, num_layers)
    period = text.optional_integer(
        "sliding_window_pattern", "global_attn_every_n_layers", "layer_switch"
    )
    return every(period or family.period, num_layers)


def every(period: int, num_layers: int) -> Kinds:
    """Sliding layers with a full one at the end of every `period`.

    Examples:
        >>> [str(kind) for (kind,) in every(3, 4)]
        ['sliding', 'sliding', 'full', 'sliding']
    """
    return [_FULL if (layer + 1) % period == 0 else _SLIDING for layer in range(num_layers)]


def _letters(text: Fields, pattern: str, num_layers: int) -> Kinds:
    """EXAONE's `LLLG`: L is a window, G the whole context, and the last layer is always whole."""
    if not pattern or set(pattern) - {"L", "G"}:
        text.refuse("sliding_window_pattern", f"is {show(pattern)}; letters L and G are needed")
    kinds = [_FULL if pattern[i % len(pattern)] == "G" else _SLIDING for i in range(num_layers)]
    return [*kinds[:-1], _FULL]


def _first_full(text: Fields, num_layers: int, family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    if not window_of(text):
        return [_FULL] * num_layers
    return [_SLIDING if layer % family.period else _FULL for layer in range(num_layers)]


def _gemma4(text: Fields, num_layers: int, family: Family) -> Kinds:
    """As interleaved; the class makes the last layer full whatever the list says."""
    return [*_interleaved(text, num_layers, family)[:-1], _FULL]


def _listed(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers, "layer_types", "layers_block_type")
    if kinds is None:
        text.refuse("layer_types", "is missing; one word per layer is needed for this model_type")
    return kinds


def _llama4(text: Fields, num_layers: int, family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    if text.optional_integer("attention_chunk_size") is None:
        return [_FULL] * num_layers
    flags = text.items("no_rope_layers")
    if flags:
        flags = text.items("no_rope_layers", length=num_layers)
        return [_CHUNKED if flag else _FULL for flag in flags or ()]
    period = text.optional_integer("no_rope_layer_interval") or family.period
    return [_FULL if (layer + 1) % period == 0 else _CHUNKED for layer in range(num_layers)]


def _smollm3(text: Fields, num_layers: int, _family: Family) -> Kinds:
    if not text.flag("use_sliding_window") or not window_of(text):
        return _only_full_listed(text, num_layers)
    kinds = listed_kinds(text, num_layers)
    if kinds is None:
        text.refuse("layer_types", "is missing while use_sliding_window is true; it is needed")
    return kinds


def _mimo_v2(text: Fields, num_layers: int, _family: Family) -> Kinds:
    flags = text.items("hybrid_layer_pattern", length=num_layers)
    if flags is None:
        return _listed(text, num_layers, _family)
    if any(flag not in (0, 1) for flag in flags):
        text.refuse("hybrid_layer_pattern", "must hold 0 (whole context) and 1 (window) only")
    return [_SLIDING if flag else _FULL for flag in flags]


def _cross_attention_layers(text: Fields, num_layers: int, _family: Family) -> Kinds:
    cross = indices(text, "cross_attention_layers", num_layers)
    return [_NONE if layer in cross else _FULL for layer in range(num_layers)]


def indices(text: Fields, key: str, num_layers: int, *, first: int = 0) -> frozenset[int]:
    """A list of layer numbers as a set of indices counted from 0.

    Raises:
        ConfigError: No list, or a number that names no layer.

    Examples:
        >>> sorted(indices(Fields({"kda_layers": [1, 3]}), "kda_layers", 4, first=1))
        [0, 2]
    """
    values = text.items(key)
    if values is None:
        text.refuse(key, "is missing; the list of layers is needed")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            text.refuse(key, f"holds {show(value)}; layer numbers are needed")
        if not first <= value < num_layers + first:
            text.refuse(key, f"names layer {value}, but there are {num_layers} layers")
    return frozenset(value - first for value in values)


def _hunyuan(text: Fields, num_layers: int, family: Family) -> Kinds:
    if text.flag("use_cla"):
        text.refuse(
            "use_cla",
            "is true: layers share their cache across layers, which vLLM 0.33 does not serve",
        )
    if text.flag("use_mla"):
        text.refuse("use_mla", "is true, which kvdocs does not know for this model_type")
    return _full(text, num_layers, family)


def _latent(text: Fields, num_layers: int, _family: Family) -> Kinds:
    has_latent = text.optional_integer("kv_lora_rank") is not None
    if not has_latent and text.data.get("use_mla") is False:
        return [_FULL] * num_layers
    if not has_latent:
        text.refuse("kv_lora_rank", "is missing; this model_type caches a latent of that rank")
    return [(LayerKind.LATENT,)] * num_layers


def _double_latent(text: Fields, num_layers: int, _family: Family) -> Kinds:
    text.integer("kv_lora_rank")
    return [(LayerKind.LATENT, LayerKind.LATENT)] * num_layers


def _kimi_linear(text: Fields, num_layers: int, _family: Family) -> Kinds:
    nested = text.mapping("linear_attn_config")
    if nested is None:
        text.refuse("linear_attn_config", "is missing; it lists the linear and the full layers")
    linear = indices(nested, "kda_layers", num_layers, first=1)
    full = indices(nested, "full_attn_layers", num_layers, first=1)
    if linear & full or len(linear) + len(full) != num_layers:
        nested.refuse(
            "kda_layers", f"and full_attn_layers must name each of {num_layers} layers once"
        )
    return [_RECURRENT if layer in linear else (LayerKind.LATENT,) for layer in range(num_layers)]


def _recurrent(_text: Fields, num_layers: int, _family: Family) -> Kinds:
    return [_RECURRENT] * num_layers


def _parallel(_text: Fields, num_layers: int, _family: Family) -> Kinds:
    return [(LayerKind.FULL, LayerKind.RECURRENT)] * num_layers


def _interval(text: Fields, num_layers: int, family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    period = text.optional_integer("full_attention_interval") or family.period
    return [_FULL if (layer + 1) % period == 0 else _RECURRENT for layer in range(num_layers)]


def _jamba(text: Fields, num_layers: int, _family: Family) -> Kinds:
    period = text.integer("attn_layer_period")
    offset = text.integer("attn_layer_offset", least=0)
    if offset >= period:
        text.refuse("attn_layer_offset", f"is {offset}; it must be below the period, {period}")
    return [_FULL if layer % period == offset else _RECURRENT for layer in range(num_layers)]


def _at(full: Iterable[int], num_layers: int) -> Kinds:
    chosen = frozenset(full)
    return [_FULL if layer in chosen else _RECURRENT for layer in range(num_layers)]


def _attn_layer_indices(text: Fields, num_layers: int, _family: Family) -> Kinds:
    return _at(indices(text, "attn_layer_indices", num_layers), num_layers)


def _lfm2(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    return _at(indices(text, "full_attn_idxs", num_layers), num_layers)


def _minimax(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers)
    if kinds is not None:
        return kinds
    flags = text.items("attn_type_list", length=num_layers)
    if flags is None or any(flag not in (0, 1) for flag in flags):
        text.refuse(
            "attn_type_list",
            "must hold 0 (linear) or 1 (full) for each layer; it is missing or not",
        )
    return [_FULL if flag else _RECURRENT for flag in flags]


_NEMOTRON_LETTERS: Final = {"M": _RECURRENT, "*": _FULL, "-": _NONE, "E": _NONE}


def _nemotron_h(text: Fields, num_layers: int, _family: Family) -> Kinds:
    kinds = listed_kinds(text, num_layers, "layers_block_type", "layer_types")
    if kinds is not None:
        return kinds
    pattern = text.text("hybrid_override_pattern")
    if pattern is None:
        text.refuse("hybrid_override_pattern", "is missing (or layers_block_type); it is needed")
    if len(pattern) != num_layers or set(pattern) - set(_NEMOTRON_LETTERS):
        text.refuse(
            "hybrid_override_pattern",
            f"must be {num_layers} letters out of M, *, - and E; it is {show(pattern)}",
        )
    return [_NEMOTRON_LETTERS[letter] for letter in pattern]


_ZAMBA_WORDS: Final = {
    "mamba": _RECURRENT,
    "linear_attention": _RECURRENT,
    "m": _RECURRENT,
    "hybrid": (LayerKind.FULL, LayerKind.RECURRENT),
    "g": (LayerKind.FULL, LayerKind.RECURRENT),
}


def _zamba2(text: Fields, num_layers: int, _family: Family) -> Kinds:
    words = text.items("layers_block_type", length=num_layers)
    if words is None:
        text.refuse("layers_block_type", "is missing; one word per layer is needed")
    for word in words:
        if not isinstance(word, str) or word not in _ZAMBA_WORDS:
            text.refuse("layers_block_type", f"holds {show(word)}; mamba and hybrid are known")
    return [_ZAMBA_WORDS[word] for word in words]


def _block_configs(text: Fields, num_layers: int, _family: Family) -> Kinds:
    blocks = text.items("block_configs", length=num_layers)
    if blocks is None:
        text.refuse("block_configs", "is missing; it says which layers have attention")
    return [_block_kind(text, layer, block) for layer, block in enumerate(blocks)]


def _block_kind(text: Fields, layer: int, block: object) -> tuple[LayerKind, ...]:
    attention = block_attention(text, layer, block)
    if attention.has("window_length"):
        attention.refuse("window_length", "is set; a window in this model_type is not known")
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return _NONE
    return _FULL


def block_attention(text: Fields, layer: int, block: object) -> Fields:
    """The `attention` object of one entry of `block_configs`.

    Examples:
        >>> block = {"attention": {"no_op": True}}
        >>> block_attention(Fields({}), 0, block).flag("no_op")
        True
    """
    inner = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        text.refuse("block_configs", f"entry {layer} has no attention object; it is needed")
    return Fields(inner, path=text.name(f"block_configs[{layer}].attention"))


PATTERNS: Final[dict[str, Rule]] = {
    "attn_layer_indices": _attn_layer_indices,
    "block_configs": _block_configs,
    "cross_attention_layers": _cross_attention_layers,
    "double_latent": _double_latent,
    "first_full": _first_full,
    "full": _full,
    "gemma4": _gemma4,
    "hunyuan": _hunyuan,
    "interleaved": _interleaved,
    "interval": _interval,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "late_window": _late_window,
    "latent": _latent,
    "lfm2": _lfm2,
    "listed": _listed,
    "llama4": _llama4,
    "mimo_v2": _mimo_v2,
    "minimax": _minimax,
    "nemotron_h": _nemotron_h,
    "parallel": _parallel,
    "recurrent": _recurrent,
    "smollm3": _smollm3,
    "window": _window,
    "window_if_used": _window_if_used,
    "zamba2": _zamba2,
}
"""The rules by the name a family's row uses."""
