"""The longest sequence a config names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kvdocs.model.fields import Fields

_LENGTH_FIELDS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_ALREADY_SCALED: Final = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default"}
)


def max_model_len(top: Fields, text: Fields) -> int | None:
    """The length vLLM derives when `--max-model-len` is not given, or None when none is named.

    The smallest of the length fields, times the factor of a linear or dynamic RoPE scaling (YaRN
    and others are already in the field); a LongRoPE model starts at its original length.
    Source: vLLM 0.33.0 `vllm/config/model.py`, `_get_and_verify_max_len`.

    Examples:
        >>> from kvdocs.model.fields import Fields
        >>> config = Fields({"max_position_embeddings": 4096,
        ...     "rope_scaling": {"rope_type": "linear", "factor": 4.0}})
        >>> max_model_len(config, config)
        16384
    """
    lengths = [text.optional_integer(key) for key in _LENGTH_FIELDS]
    known = [length for length in lengths if length is not None]
    if not known:
        return None
    length = text.optional_integer("model_max_length") or min(known)
    scaling = _scaling(text)
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind == "longrope":
        return (
            text.optional_integer("original_max_position_embeddings")
            or top.optional_integer("original_max_position_embeddings")
            or length
        )
    factor = scaling.get("factor")
    gemma3 = "gemma3" in str(top.data.get("model_type"))
    if kind in _ALREADY_SCALED or gemma3 or not isinstance(factor, (int, float)) or factor < 1:
        return length
    return int(length * factor)


def _scaling(text: Fields) -> dict[str, Any]:
    for key in ("rope_scaling", "rope_parameters"):
        value = text.data.get(key)
        if isinstance(value, dict):
            return value
    return {}
