"""Any Hugging Face `config.json` to what its layers keep for a sequence, and what that costs.

Examples:
    >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    ...     "num_attention_heads": 32, "num_key_value_heads": 8}, name="Llama 3.1 8B")
    >>> kv_cost(llama).bytes_per_token
    131072
"""

from kvdocs.errors import ConfigError
from kvdocs.model.cost import KVCost, WindowPart, kv_cost
from kvdocs.model.dtypes import CACHE_DTYPES
from kvdocs.model.layers import LayerGroup, LayerKind, Model, StatePiece
from kvdocs.model.parse import parse_config

__all__ = [
    "CACHE_DTYPES",
    "ConfigError",
    "KVCost",
    "LayerGroup",
    "LayerKind",
    "Model",
    "StatePiece",
    "WindowPart",
    "kv_cost",
    "parse_config",
]
