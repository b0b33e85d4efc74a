"""What a catalogue entry is, and how the data files become entries."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvdocs.gpu import Gpu
from kvdocs.model import Model, parse_config


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A released checkpoint.

    Attributes:
        id: Its name on the Hugging Face hub.
        aliases: Other names that mean the same shapes.
        num_parameters: Parameters of the text model, counted: tied embeddings once, no vision
            tower, no draft layers.
        num_active_parameters: Parameters one token uses; fewer than all for a mixture of experts.
        weight_dtype: What the released weights are stored in.
        weight_bytes: Bytes of the weights in that dtype.
        weight_basis: How `weight_bytes` follows from the parameters.
        context_length: Tokens the checkpoint is released for.
        config: The fields of its `config.json` that decide the size of cache and weights.
        sources: Where the fields of `config` come from.
        parameters_source: Where the numbers of parameters come from.
    """

    id: str
    aliases: tuple[str, ...]
    num_parameters: int
    num_active_parameters: int
    weight_dtype: str
    weight_bytes: int
    weight_basis: str
    context_length: int
    config: Mapping[str, Any]
    sources: tuple[str, ...]
    parameters_source: str

    @property
    def model(self) -> Model:
        """The layers' cache layout, read from `config`.

        Raises:
            ConfigError: The config cannot be read right.
        """
        return _parsed(self.id, json.dumps(self.config))

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The part of `config` that describes the language model."""
        nested: Mapping[str, Any] = self.config.get("text_config", self.config)
        return nested

    @property
    def is_text_part(self) -> bool:
        """Whether the whole model has more than the text model that is counted, such as vision.

        Examples:
            >>> from kvdocs.catalog import get_model
            >>> get_model("gemma-3-12b-it").is_text_part, get_model("phi-4").is_text_part
            (True, False)
        """
        return "text_config" in self.config

    @property
    def num_parameters_rounded(self) -> int:
        """Parameters to three digits, as people quote them and as the lesson reckons.

        Examples:
            >>> from kvdocs.catalog import get_model
            >>> get_model("llama-3.1-8b").num_parameters_rounded
            8030000000
        """
        return int(float(f"{self.num_parameters:.2e}"))


@functools.lru_cache(maxsize=256)
def _parsed(name: str, config: str) -> Model:
    return parse_config(config, name=name)


@dataclass(frozen=True, slots=True)
class Link:
    """A way for bytes to travel between two places.

    Attributes:
        id: Short name, such as `pcie5`.
        name: What it is.
        bytes_per_s: Peak bytes per second in one direction.
        note: What to know about the figure.
        sources: Where it comes from.
    """

    id: str
    name: str
    bytes_per_s: float
    note: str
    sources: tuple[str, ...]


def _entries(kind: str) -> list[dict[str, Any]]:
    # pkgutil reads from plain files and from a zip alike; only who looks something up pays for it.
    import pkgutil  # noqa: PLC0415 - 4 ms that importing the package need not take

    data = pkgutil.get_data("kvdocs.catalog", f"{kind}.json")
    if data is None:
        raise FileNotFoundError(f"kvdocs/catalog/{kind}.json is missing from the package")
    entries: list[dict[str, Any]] = json.loads(data)[kind]
    return entries


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if key in {"aliases", "sources"} else value
        for key, value in entry.items()
    }


def load_models() -> tuple[CatalogModel, ...]:
    """Read the models of the data file, in its order (by id)."""
    return tuple(CatalogModel(**_with_tuples(entry)) for entry in _entries("models"))


def load_links() -> tuple[Link, ...]:
    """Read the links of the data file, in its order."""
    return tuple(Link(**_with_tuples(entry)) for entry in _entries("links"))


def load_gpus() -> tuple[tuple[str, tuple[str, ...], Gpu], ...]:
    """Read the GPUs of the data file: id, aliases and the GPU, in its order."""
    found = []
    for entry in _entries("gpus"):
        fields = _with_tuples(entry)
        found.append((fields.pop("id"), fields.pop("aliases"), Gpu(**fields)))
    return tuple(found)
