"""Catalogue models that have the same shapes as a config, and so the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvdocs.catalog import CatalogModel, models
from kvdocs.cli.parameters import is_quantized

_NO_SHAPE: Final = frozenset({"architectures", "dtype", "torch_dtype", "max_position_embeddings"})
"""Fields of a catalogue config that do not change the weights' size."""
_SIXTEEN_BIT: Final = frozenset({"bfloat16", "float16"})


def has_16_bit_weights(entry: CatalogModel) -> bool:
    """Whether a model is released in 16 bit.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> [has_16_bit_weights(get_model(name)) for name in ("llama-3.1-8b", "gpt-oss-20b")]
        [True, False]
    """
    return entry.weight_dtype in _SIXTEEN_BIT


def find_twin(config: Mapping[str, Any]) -> CatalogModel | None:
    """A catalogue model all of whose shapes a config repeats, stored in the same way.

    The catalogue keeps every field that decides the size of the weights, quantization included.

    Args:
        config: A `config.json`.

    Returns:
        The model; None when there is none, or several that differ in size.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> twin = find_twin({**get_model("gpt-oss-20b").config, "transformers_version": "4.55"})
        >>> twin.id
        'openai/gpt-oss-20b'
    """
    quantized = is_quantized(config)
    found = [
        entry
        for entry in models()
        if quantized != has_16_bit_weights(entry) and _repeats(config, entry.config)
    ]
    sizes = {entry.weight_bytes for entry in found}
    return found[0] if len(sizes) == 1 else None


def _repeats(config: Any, known: Any) -> bool:
    if isinstance(known, list):
        return (
            isinstance(config, list)
            and len(config) == len(known)
            and all(map(_repeats, config, known))
        )
    if not isinstance(known, Mapping):
        return bool(config == known)
    return isinstance(config, Mapping) and all(
        _repeats(config.get(key), value) for key, value in known.items() if key not in _NO_SHAPE
    )
