"""Facts about models, as data: the fields of their configs that matter, and the bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PATH = Path(__file__).parent / "data" / "model_facts.json"
_WORDS = {"f": "full_attention", "s": "sliding_attention"}


def model_facts() -> list[dict[str, Any]]:
    facts = json.loads(_PATH.read_text())["models"]
    for fact in facts:
        fact["config"] = _unpacked(fact["config"])
    return facts


def _unpacked(config: dict[str, Any]) -> dict[str, Any]:
    config = dict(config)
    if "text_config" in config:
        config["text_config"] = _unpacked(config["text_config"])
    if "layer_types" in config:
        config["layer_types"] = [_WORDS[letter] for letter in config["layer_types"][0]]
    if "no_attention_layers" in config:
        absent = set(config.pop("no_attention_layers"))
        group = config.pop("n_heads_in_group")
        config["block_configs"] = [
            {
                "attention": {
                    "no_op": i in absent,
                    "n_heads_in_group": None if i in absent else group,
                }
            }
            for i in range(config["num_hidden_layers"])
        ]
    return config


def config_of(model_id: str) -> dict[str, Any]:
    return next(fact["config"] for fact in model_facts() if fact["id"] == model_id)
