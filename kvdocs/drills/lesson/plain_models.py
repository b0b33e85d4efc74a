"""The catalogue's models that the whiteboard formula fits, and what drills ask of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kvdocs.catalog import CatalogModel, get_model
from kvdocs.model import LayerGroup, kv_cost

PLAIN_MODELS: Final = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-405B",
    "meta-llama/Llama-3.2-3B",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-235B-A22B",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    "mistralai/Mistral-Large-Instruct-2407",
    "HuggingFaceTB/SmolLM3-3B",
    "microsoft/phi-4",
    "zai-org/GLM-4.5-Air",
)
"""Grouped-query attention in every layer, no window, no state."""

_FIELDS: Final = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)


@dataclass(frozen=True, slots=True)
class PlainModel:
    """A model of `PLAIN_MODELS`, by its catalogue id."""

    id: str

    @property
    def entry(self) -> CatalogModel:
        """Its catalogue entry."""
        return get_model(self.id)

    @property
    def name(self) -> str:
        """Its name without its maker."""
        return self.id.rpartition("/")[2].removesuffix("-Instruct").removesuffix("-Base")

    @property
    def layers(self) -> LayerGroup:
        """Its layers, which are all alike."""
        return self.entry.model.layers[0]

    @property
    def query_heads(self) -> int:
        """Attention heads that ask."""
        return int(self.entry.text_config["num_attention_heads"])

    @property
    def hidden_over_heads(self) -> int:
        """Hidden size divided by query heads: the head dim, where the file names no other."""
        return int(self.entry.text_config["hidden_size"]) // self.query_heads

    @property
    def shown_config(self) -> dict[str, Any]:
        """The fields of its `config.json` that the formula needs."""
        config = self.entry.text_config
        return {field: config[field] for field in _FIELDS if config.get(field) is not None}

    def bytes_per_token(self, kv_cache_dtype: str = "auto") -> int:
        """KV bytes of one token."""
        return kv_cost(self.entry.model, kv_cache_dtype=kv_cache_dtype).bytes_per_token

    def query_head_bytes(self, kv_cache_dtype: str = "auto") -> int:
        """The same with query heads in the place of KV heads."""
        return self.bytes_per_token(kv_cache_dtype) // self.layers.num_kv_heads * self.query_heads
