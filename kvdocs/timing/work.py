"""What the layers of a model cost: seconds of memory and of arithmetic per token and per score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvdocs.model import LayerGroup, LayerKind, Model
from kvdocs.model.cost import group_token_bytes, layer_state_bytes, resolve_cache_dtype

_ATTENDS = frozenset({LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED, LayerKind.LATENT})


@dataclass(frozen=True, slots=True)
class AttentionWork:
    """All layers with the same window, on one GPU.

    Attributes:
        window: Tokens they look back; 0 is the whole context.
        bytes_per_token: Bytes of cache they read per token of context.
        flops_per_pair: Operations per query and key.
    """

    window: int
    bytes_per_token: float
    flops_per_pair: float


def attention_work(
    model: Model, *, kv_cache_dtype: str, tensor_parallel_size: int
) -> list[AttentionWork]:
    """The attention of a model by window, the whole context first.

    Layers that read an earlier layer's cache (`shared`) are not counted.

    Args:
        model: The model.
        kv_cache_dtype: A value of vLLM's `--kv-cache-dtype`.
        tensor_parallel_size: GPUs each layer is split over.

    Raises:
        FlagError: A dtype or a split that vLLM would not take for this model.
    """
    dtype = resolve_cache_dtype(model, kv_cache_dtype)
    by_window: dict[int, AttentionWork] = {}
    for group in _attending(model):
        size = group_token_bytes(model, group, dtype, tensor_parallel_size, group.positions)
        flops = group.count * _flops_per_pair(model, group) / tensor_parallel_size
        before = by_window.get(group.window, AttentionWork(group.window, 0, 0))
        by_window[group.window] = AttentionWork(
            group.window, before.bytes_per_token + size, before.flops_per_pair + flops
        )
    return [work for _, work in sorted(by_window.items())]


def state_bytes(model: Model, *, tensor_parallel_size: int) -> int:
    """Bytes of recurrent state of one sequence on one GPU.

    Args:
        model: The model.
        tensor_parallel_size: GPUs each layer is split over.
    """
    return sum(
        group.count * layer_state_bytes(group, tensor_parallel_size)
        for group in model.group(LayerKind.RECURRENT)
    )


def _attending(model: Model) -> Iterator[LayerGroup]:
    return (group for group in model.layers if group.kind in _ATTENDS)


def _flops_per_pair(model: Model, group: LayerGroup) -> int:
    """Multiply and add for every element of a key (the score) and of a value (the sum).

    A latent layer scores with the whole latent and sums its part without positions: the absorbed
    form that vLLM decodes with (`vllm/model_executor/layers/attention/mla_attention.py`). Prompts
    are computed with ordinary heads, which takes fewer operations per pair.
    """
    value = group.head_size_v or group.head_size - group.rope_head_size
    return 2 * model.num_attention_heads * (group.head_size + value)
