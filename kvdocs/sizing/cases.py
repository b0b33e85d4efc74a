"""Running a capacity case: workers described layer by layer, in the form of the golden files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvdocs.errors import ConfigError
from kvdocs.sizing.groups import Group, group_layers, merge
from kvdocs.sizing.plan import Plan, Worker, plan_cache
from kvdocs.sizing.specs import LayerSpec, Need, SpecKind

_KINDS: Final = {
    "full": SpecKind.FULL,
    "mla": SpecKind.MLA,
    "swa": SpecKind.SLIDING,
    "sliding": SpecKind.SLIDING,
    "chunked": SpecKind.CHUNKED,
    "mamba": SpecKind.MAMBA,
}
_ELEMENT_BYTES: Final = {
    "bfloat16": 2,
    "float16": 2,
    "half": 2,
    "auto": 2,
    "float32": 4,
    "float": 4,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "uint8": 1,
    "int8": 1,
}
_SCALED: Final = {"int8_per_token_head": 1.0, "fp8_per_token_head": 1.0, "int4_per_token_head": 0.5}
_DEFAULT_BATCHED_TOKENS: Final = 2048


def capacity_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM answers to one case.

    Args:
        case: `name`, `max_model_len`, `workers` (each with `available_bytes`, `layers` and
            optionally `tp_peer`), and overrides of vLLM's config (`num_gpu_blocks_override`,
            `auto_fit`, `max_num_batched_tokens`, `block_size`, ...). A layer entry has `type`
            (full, mla, swa), `n`, `kv_heads` on this GPU, `head_size`, `dtype`, `block_size`, and
            optionally `head_size_v`, `window`, `state_content_bytes`.

    Returns:
        `num_blocks`, `kv_cache_size_tokens`, `max_concurrency`, `max_model_len`, `groups`,
        `tensor_bytes` and `log`, or `error` and `log`.

    Examples:
        >>> layers = [{"type": "full", "n": 32, "kv_heads": 8, "head_size": 128,
        ...     "dtype": "bfloat16", "block_size": 16}]
        >>> case = {"name": "8b", "max_model_len": 8192,
        ...     "workers": [{"available_bytes": 50 * 2**30, "layers": layers}]}
        >>> capacity_case(case)["num_blocks"]
        25600
    """
    specs: list[LayerSpec] = []
    workers: list[Worker] = []
    for entry in case["workers"]:
        if not (entry.get("tp_peer") and workers):
            held = _add_layers(entry["layers"], specs, case)
        workers.append(Worker(entry["available_bytes"], held))
    hybrid = not (case.get("disable_hybrid_kv_cache_manager") or case.get("disable_hybrid"))
    plan = plan_cache(
        group_layers(
            merge((spec, (layer,)) for layer, spec in enumerate(specs)), hybrid_manager=hybrid
        ),
        workers,
        _need_of(case),
        max_model_len=case["max_model_len"],
        num_gpu_blocks_override=case.get("num_gpu_blocks_override"),
        auto_fit=bool(case.get("auto_fit")),
    )
    return {"name": case["name"], **_answer(plan)}


def _need_of(case: Mapping[str, Any]) -> Need:
    batches = int(case.get("pipeline_parallel_size", 1)) + bool(case.get("async_scheduling"))
    tokens = int(case.get("max_num_batched_tokens", _DEFAULT_BATCHED_TOKENS))
    return Need(
        max_in_flight_tokens=tokens * batches,
        decode_context_parallel_size=int(case.get("decode_context_parallel_size", 1)),
        state_blocks=2 if case.get("mamba_cache_mode") == "align" else 1,
    )


def _add_layers(
    layers: list[Mapping[str, Any]], specs: list[LayerSpec], case: Mapping[str, Any]
) -> frozenset[int]:
    first = len(specs)
    for layer in layers:
        spec = _spec_of(layer, case)
        specs += [spec] * layer.get("n", 1)
    return frozenset(range(first, len(specs)))


def _spec_of(layer: Mapping[str, Any], case: Mapping[str, Any]) -> LayerSpec:
    kind = _KINDS.get(layer["type"])
    if kind is None:
        raise ConfigError(f"a layer of type {layer['type']!r} is not known; use full, mla or swa")
    size = layer["head_size"]
    size_v = layer.get("head_size_v", 0 if kind == SpecKind.MLA else size)
    heads = layer.get("kv_heads", 1)
    content = layer.get("state_content_bytes") or _content_bytes(layer["dtype"], size, size_v)
    return LayerSpec(
        kind,
        token_bytes=heads * content,
        block_size=layer.get("block_size") or case.get("block_size", 16),
        shape=(heads, size, size_v, layer["dtype"], layer.get("state_content_bytes") or 0),
        window=layer.get("window") or 0,
    )


def _content_bytes(dtype: str, size: int, size_v: int) -> int:
    if dtype in _SCALED:
        return int(size * _SCALED[dtype]) + int(size_v * _SCALED[dtype]) + 8
    if dtype not in _ELEMENT_BYTES:
        raise ConfigError(f"dtype {dtype!r} is not known; use one of {', '.join(_ELEMENT_BYTES)}")
    return (size + size_v) * _ELEMENT_BYTES[dtype]


def _answer(plan: Plan) -> dict[str, Any]:
    if plan.refusal is not None:
        return {"error": f"ValueError: {plan.refusal}", "log": list(plan.log)}
    return {
        "num_blocks": plan.num_blocks,
        "kv_cache_size_tokens": plan.kv_cache_size_tokens,
        "max_concurrency": plan.max_concurrency,
        "max_model_len": plan.max_model_len,
        "groups": [_group_row(group) for group in plan.grouping.groups],
        "tensor_bytes": [block * plan.num_blocks for block in plan.bytes_per_block],
        "log": list(plan.log),
    }


def _group_row(group: Group) -> list[Any]:
    return [group.name, group.num_layers, group.block_size, group.page_bytes]
