"""A model's config as the findings compare it with a log."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kvdocs.catalog import get_model
from kvdocs.errors import CatalogError, KvdocsError
from kvdocs.model import LayerKind, Model, kv_cost, parse_config
from kvdocs.startup_log.facts import KnownLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvdocs.catalog import CatalogModel
    from kvdocs.model import KVCost

PADDED_HEAD: Final = 256
"""V0 before 0.7.1 kept MLA as full heads, K and V padded to this size (`model_executor/models/
deepseek_v2.py`)."""
_HUB_CACHE: Final = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
_TP_SIZES: Final = (1, 2, 4, 8, 16)


def known_layout(config: Mapping[str, Any] | Model, settings: Mapping[str, str]) -> KnownLayout:
    """What a config and the flags say of the cache.

    Args:
        config: A Hugging Face `config.json`, or a model already parsed from one.
        settings: Flags by name; parallel sizes and `kv_cache_dtype` are used.

    Raises:
        ConfigError: The config cannot be read right.
        FlagError: The flags cannot be those of this model.

    Examples:
        >>> llama = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}
        >>> known_layout(llama, {"tensor_parallel_size": "2"}).bytes_per_token_per_gpu
        65536
    """
    model = config if isinstance(config, Model) else parse_config(config)
    cost = _cost(model, settings)
    whole = _cost(model, {**settings, "pipeline_parallel_size": "1"})
    return KnownLayout(
        bytes_per_token_per_gpu=cost.bytes_per_token_per_gpu,
        bytes_per_token_all_layers=whole.bytes_per_token_per_gpu,
        window_bytes_per_token=cost.window_bytes_per_token_per_gpu,
        constant_bytes_per_sequence=cost.constant_bytes_per_sequence_per_gpu,
        layers=model.num_layers,
        full_heads_bytes_per_token=_latent_as_full_heads(model, settings),
        alternatives=dict(_alternatives(model, settings, cost)),
    )


def served_model(settings: Mapping[str, str]) -> CatalogModel | None:
    """The catalogue's entry for the model a log names, or None if it names none that is there."""
    return _find(settings.get("model", ""))


@lru_cache(maxsize=256)
def _find(model: str) -> CatalogModel | None:
    for name in _names(model):
        try:
            return get_model(name)
        except CatalogError:
            continue
    return None


def _names(model: str) -> list[str]:
    """What a model may be called: as given, by its folder, or by its place in the hub's cache."""
    if not model:
        return []
    cached = _HUB_CACHE.search(model)
    if cached:
        return [f"{cached[1]}/{cached[2]}"]
    return [model, model.rstrip("/").rpartition("/")[2]] if "/" in model else [model]


def _cost(model: Model, settings: Mapping[str, str]) -> KVCost:
    return kv_cost(
        model,
        kv_cache_dtype=settings.get("kv_cache_dtype", "auto"),
        tensor_parallel_size=int(float(settings.get("tensor_parallel_size", "1"))),
        pipeline_parallel_size=int(float(settings.get("pipeline_parallel_size", "1"))),
    )


def _alternatives(
    model: Model, settings: Mapping[str, str], cost: KVCost
) -> Iterator[tuple[str, float]]:
    """Other flags, and known mistakes, with the bytes per token and GPU they would give."""
    for dtype in ("fp8", "bfloat16"):
        yield from _other(model, f"a {dtype} cache", {**settings, "kv_cache_dtype": dtype})
    for size in _TP_SIZES:
        flag = {"tensor_parallel_size": str(size)}
        yield from _other(model, f"--tensor-parallel-size {size}", {**settings, **flag})
        both = {**settings, **flag, "kv_cache_dtype": "fp8"}
        yield from _other(model, f"--tensor-parallel-size {size} and an fp8 cache", both)
    yield from _as_full_heads(model, settings, cost)


def _other(model: Model, what: str, settings: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    try:
        yield what, _cost(model, settings).bytes_per_token_per_gpu
    except KvdocsError:
        return


def _latent_as_full_heads(model: Model, settings: Mapping[str, str]) -> float:
    """Bytes per token and GPU of a latent cache kept as full 16-bit heads; 0 without one."""
    if not model.group(LayerKind.LATENT):
        return 0
    gpus = int(float(settings.get("tensor_parallel_size", "1")))
    return model.num_layers * 2 * max(1, model.num_attention_heads // gpus) * PADDED_HEAD * 2


def _as_full_heads(
    model: Model, settings: Mapping[str, str], cost: KVCost
) -> Iterator[tuple[str, float]]:
    """Query heads stored instead of KV heads or of the latent vector."""
    latent = _latent_as_full_heads(model, settings)
    if latent:
        yield "the latent cache kept as full heads (vLLM before 0.7.1)", latent
    full = model.group(LayerKind.FULL)
    if len(full) == 1 and full[0].num_kv_heads:
        share = model.num_attention_heads / full[0].num_kv_heads
        what = "all query heads stored, as for a model without grouped-query attention"
        yield what, cost.bytes_per_token_per_gpu * share
