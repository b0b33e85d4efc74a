"""From a Hugging Face `config.json` to the layers' cache layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvdocs.model.families import (
    ALIASES,
    CORE_FIELDS,
    FAMILIES,
    MULTI_HEAD_TYPES,
    TEXT_TYPE_OF,
    Family,
)
from kvdocs.model.fields import Fields, load, show
from kvdocs.model.layers import LayerGroup, LayerKind, Model
from kvdocs.model.lengths import max_model_len
from kvdocs.model.patterns import PATTERNS, Kinds, window_of
from kvdocs.model.quantization import checkpoint_cache_dtype
from kvdocs.model.shapes import (
    HEAD_SIZES,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    PER_LAYER,
    Shape,
    layer_key,
    shape_of,
)
from kvdocs.model.states import STATES
from kvdocs.model.unknown import unknown_family

if TYPE_CHECKING:
    from collections.abc import Mapping

_NESTED: Final = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "language_model_config",
)
_PREFIX_IS_CACHED: Final = frozenset({"paligemma"})
"""Containers whose prompt sees itself in both directions, and is cached all the same."""
_NO_HEADS: Final = frozenset({LayerKind.NONE, LayerKind.SHARED, LayerKind.RECURRENT})


def parse_config(config: Mapping[str, Any] | str | bytes, *, name: str | None = None) -> Model:
    """Read a `config.json`.

    A container (vision, audio) is read through its nested language model. What the file leaves out
    and the model class fixes comes from `kvdocs.model.families` and is said in the notes.

    Args:
        config: The file's text, or the object it holds.
        name: What to call the model; its `model_type` when not given.

    Raises:
        ConfigError: The config cannot be read right; the error names the field.

    Examples:
        >>> text = '{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12}'
        >>> gpt2 = parse_config(text)
        >>> gpt2.layers[0].num_kv_heads, gpt2.layers[0].head_size, gpt2.layers[0].count
        (12, 64, 12)
    """
    top = Fields(load(config))
    text, model_type = _language_model(top)
    family = _family_of(text, model_type)
    _set_defaults(text, family)
    _check_decoder(top)
    _check_decoder(text)
    if top.data.get("model_type") not in _PREFIX_IS_CACHED:
        _check_causal(top)
        _check_causal(text)
    num_layers = _num_layers(text, model_type)
    kinds = _with_sharing(text, PATTERNS[family.pattern](text, num_layers, family))
    layers = _groups(text, family, kinds)
    return Model(
        name=name or model_type,
        model_type=model_type,
        num_layers=num_layers,
        hidden_size=text.optional_integer(*HIDDEN) or 0,
        num_attention_heads=_query_heads(text, layers),
        max_model_len=max_model_len(top, text),
        dtype=_dtype(top, text),
        layers=layers,
        kv_cache_dtype=checkpoint_cache_dtype(top, text),
        notes=_notes(text, family, model_type, layers),
    )


def _language_model(top: Fields) -> tuple[Fields, str]:
    """The object that describes the language model, and its type."""
    container = top.text("model_type")
    text = top
    for _depth in range(3):
        inner = next((text.mapping(key) for key in _NESTED if text.has(key)), None)
        if inner is None:
            break
        container = text.text("model_type") or container
        text = inner
    model_type = text.text("model_type")
    if model_type is None and text is not top:
        model_type = TEXT_TYPE_OF.get(container or "")
    if model_type is None:
        text.refuse("model_type", "is missing; it says what the layers keep")
    return text, ALIASES.get(model_type, model_type)


def _family_of(text: Fields, model_type: str) -> Family:
    family = FAMILIES.get(model_type)
    if family is None:
        return unknown_family(text)
    if family.refused:
        text.refuse("model_type", f"is {show(model_type)}: {family.refused}")
    return family


def _set_defaults(text: Fields, family: Family) -> None:
    """A nested config is saved as the difference from its class; a whole file names its core."""
    if text.path:
        text.defaults = family.defaults
        return
    text.defaults = {key: value for key, value in family.defaults.items() if key not in CORE_FIELDS}
    text.withheld = {key: value for key, value in family.defaults.items() if key in CORE_FIELDS}


def _check_decoder(fields: Fields) -> None:
    if fields.flag("is_encoder_decoder"):
        fields.refuse(
            "is_encoder_decoder",
            "is true: such a model also caches its encoder's keys and values, whose length the "
            "config does not fix; a decoder-only config.json is needed",
        )


def _check_causal(fields: Fields) -> None:
    both_ways = fields.data.get("use_bidirectional_attention") is True
    if both_ways or fields.data.get("is_causal") is False:
        fields.refuse(
            "use_bidirectional_attention",
            "(or is_causal) says that every token sees every other: no cache is kept between steps",
        )


def _num_layers(text: Fields, model_type: str) -> int:
    if model_type == "longcat_flash":
        return text.layer_count("num_layers")
    listed = text.data.get("layers_block_type")
    if (
        model_type == "nemotron_h"
        and not text.has("num_hidden_layers")
        and isinstance(listed, list)
    ):
        return max(1, len(listed))
    return text.layer_count(*LAYERS)


def _with_sharing(text: Fields, kinds: Kinds) -> Kinds:
    """Mark the last layers that read an earlier layer's cache (Gemma-3n, Gemma-4)."""
    shared = text.optional_integer("num_kv_shared_layers", least=0) or 0
    if not shared:
        return kinds
    first = len(kinds) - shared
    if first <= 0:
        text.refuse("num_kv_shared_layers", f"is {shared}, but there are {len(kinds)} layers")
    if set(kinds[first:]) - set(kinds[:first]):
        text.refuse(
            "num_kv_shared_layers",
            f"is {shared}: no earlier layer of the same kind is left to share",
        )
    return [*kinds[:first], *[(LayerKind.SHARED,)] * shared]


def _groups(text: Fields, family: Family, kinds: Kinds) -> tuple[LayerGroup, ...]:
    """Layers of one kind and shape together, in the order they first appear."""
    places: dict[tuple[LayerKind, Shape | None], list[int]] = {}
    shapes: dict[tuple[LayerKind, object], Shape] = {}
    per_layer = PER_LAYER.get(family.shape) or layer_key(text)
    for layer, of_layer in enumerate(kinds):
        for kind in of_layer:
            if kind in _NO_HEADS:
                places.setdefault((kind, None), []).append(layer)
                continue
            known = (kind, per_layer(text, layer))
            if known not in shapes:
                shapes[known] = shape_of(family.shape, text, kind, layer)
            places.setdefault((kind, shapes[known]), []).append(layer)
    return tuple(
        _group(text, family, kind, shape, tuple(layers)) for (kind, shape), layers in places.items()
    )


def _group(
    text: Fields, family: Family, kind: LayerKind, shape: Shape | None, layers: tuple[int, ...]
) -> LayerGroup:
    if kind == LayerKind.RECURRENT:
        if not family.state:
            text.refuse(
                "layer_types", "lists recurrent layers, whose state this model_type does not define"
            )
        return LayerGroup(kind, layers, state=STATES[family.state](text))
    if shape is None:
        return LayerGroup(kind, layers)
    return LayerGroup(
        kind,
        layers,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        head_size_v=shape.head_size_v,
        rope_head_size=shape.rope_head_size,
        window=_window(text, kind),
        indexer_bytes_per_token=shape.indexer_bytes_per_token,
    )


def _window(text: Fields, kind: LayerKind) -> int:
    if kind == LayerKind.CHUNKED:
        return text.integer("attention_chunk_size")
    if kind != LayerKind.SLIDING:
        return 0
    window = window_of(text)
    if not window:
        text.refuse("sliding_window", "is missing or 0, but some layers slide; its size is needed")
    return window


def _query_heads(text: Fields, layers: tuple[LayerGroup, ...]) -> int:
    if all(group.kind in _NO_HEADS for group in layers):
        return 0
    return text.integer(*HEADS)


def _dtype(top: Fields, text: Fields) -> str | None:
    for fields in (text, top):
        for key in ("dtype", "torch_dtype"):
            value = fields.data.get(key)
            if isinstance(value, str):
                return value.removeprefix("torch.")
    return None


def _notes(
    text: Fields, family: Family, model_type: str, groups: tuple[LayerGroup, ...]
) -> tuple[str, ...]:
    notes = []
    layers = [group for group in groups if group.kind not in _NO_HEADS | {LayerKind.LATENT}]
    if model_type not in FAMILIES:
        notes.append(
            f"model_type {model_type!r} is not one kvdocs knows; no field hints at anything but "
            "plain attention in every layer, so that is assumed"
        )
    if text.used:
        filled = ", ".join(f"{key} = {show(value)}" for key, value in text.used.items())
        notes.append(f"not in the file, taken from the model class: {filled} ({family.source})")
    if layers and _one_kv_head_per_query_head(text, family, model_type):
        notes.append("num_key_value_heads is not in the file: one KV head per query head")
    if layers and text.get(*HEAD_SIZES) is None and family.shape == "plain":
        size = layers[0].head_size
        notes.append(f"head_dim is not in the file: hidden_size over query heads, {size}")
    if family.pattern == "window" and text.get("sliding_window", "layer_types") is None:
        notes.append("no sliding_window in the file: every layer keeps the whole context")
    if family.period and not text.has("layer_types"):
        notes.append(f"which layers keep the whole context is fixed by the class ({family.source})")
    if family.note:
        notes.append(family.note)
    if text.optional_integer("num_nextn_predict_layers", least=0):
        notes.append("the multi-token-prediction layers count only with speculative decoding")
    return tuple(notes)


def _one_kv_head_per_query_head(text: Fields, family: Family, model_type: str) -> bool:
    if family.shape != "plain":
        return False
    return text.get(*KV_HEADS) is None and model_type not in MULTI_HEAD_TYPES
