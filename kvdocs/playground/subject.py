"""The model of a set-up: its layers, and what its weights weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvdocs.catalog import CatalogModel
from kvdocs.cli.parameters import count_parameters, is_quantized, why_not_counted
from kvdocs.cli.twins import find_twin
from kvdocs.errors import ParameterError
from kvdocs.model import Model, parse_config
from kvdocs.model.fields import load
from kvdocs.scenario import weights_bytes
from kvdocs.timing import Weights

_EXPERTS = ("num_local_experts", "num_experts")


@dataclass(frozen=True, slots=True)
class Subject:
    """A model as a server needs it.

    Attributes:
        name: What it is called.
        model: Its layers' cache layout.
        weights: Its parameters, for the timing.
        weight_bytes: Bytes of all weights.
        notes: What to know about these figures.
    """

    name: str
    model: Model
    weights: Weights
    weight_bytes: float
    notes: tuple[str, ...]


def catalogue_subject(
    entry: CatalogModel, *, weight_bytes: float | None = None, name: str = ""
) -> Subject:
    """A model of the catalogue.

    Args:
        entry: The model.
        weight_bytes: Bytes of its weights, where they are not as released.
        name: What it is called, if not by its id.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> catalogue_subject(get_model("llama-3.1-8b")).weight_bytes
        16060000000
    """
    size = weights_bytes(entry) if weight_bytes is None else weight_bytes
    weights = Weights.from_entry(entry, weight_bytes=size)
    notes: tuple[str, ...] = ()
    if entry.is_text_part and weight_bytes is None:
        notes = ("the weights are the language model's; a vision or audio part comes on top",)
    return Subject(name or entry.id, entry.model, weights, size, notes)


def config_subject(text: str, *, name: str, weight_bytes: float | None = None) -> Subject:
    """A model read from its `config.json`.

    Its parameters are counted where that is exact, else taken from a catalogue model of the same
    shapes, else by the bytes of its weights at 2 bytes a parameter.

    Args:
        text: The text of the file.
        name: What it is called.
        weight_bytes: Bytes of its weights.

    Raises:
        ConfigError: It cannot be read right.
        ParameterError: Its weights are not known, and not given.

    Examples:
        >>> config_subject('{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, '
        ...     '"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, '
        ...     '"intermediate_size": 14336}', name="mine").weights.num_parameters
        8030261248
    """
    config = load(text)
    model = parse_config(config, name=name)
    twin = find_twin(config)
    if twin is not None:
        found = catalogue_subject(twin, weight_bytes=weight_bytes, name=name)
        note = f"weights as of {twin.id}, which has the same shapes"
        return Subject(name, model, found.weights, found.weight_bytes, (*model.notes, note))
    weights, note = _counted(config, weight_bytes)
    size = 2.0 * weights.num_parameters if weight_bytes is None else weight_bytes
    return Subject(name, model, weights, size, (*model.notes, note))


def _counted(config: Mapping[str, Any], size: float | None) -> tuple[Weights, str]:
    why_not = why_not_counted(config)
    if size is None and (why_not or is_quantized(config)):
        reason = why_not or "they are quantized"
        raise ParameterError(
            f"the weights of this model cannot be counted ({reason}); enter their size, the sum of "
            "its .safetensors files",
            name="weights",
        )
    if why_not:
        half = int((size or 0) // 2)
        note = "the timing takes every parameter as 2 bytes, and all as active"
        return Weights(num_parameters=half, num_active_parameters=half), note
    total = count_parameters(config)
    weights = Weights.from_config(
        config,
        num_parameters=total,
        num_active_parameters=_active(config, total),
        weight_bytes=size,
    )
    return weights, f"{total:,} parameters, counted from the config"


def _active(config: Mapping[str, Any], total: int) -> int:
    """Parameters one token uses: those of the model with only its chosen experts."""
    chosen = config.get("num_experts_per_tok")
    experts = {name: chosen for name in _EXPERTS if chosen and name in config}
    return count_parameters({**config, **experts}) if experts else total
