"""The catalogue as rows of a table, for the command line and the site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvdocs.catalog.entries import CatalogModel
from kvdocs.catalog.lookup import gpu_ids, gpus, models
from kvdocs.model import LayerGroup, LayerKind, Model, kv_cost

_WORDS: Final = {
    LayerKind.FULL: "full",
    LayerKind.SLIDING: "sliding",
    LayerKind.CHUNKED: "chunked",
    LayerKind.LATENT: "latent",
    LayerKind.RECURRENT: "recurrent",
    LayerKind.SHARED: "shared",
    LayerKind.NONE: "no cache",
}
_HAS_HEADS: Final = (LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED, LayerKind.LATENT)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model of the table.

    Attributes:
        id: The model's id.
        num_layers: Decoder layers.
        num_kv_heads: KV heads of a layer that keeps the whole context (1 for a latent).
        head_size: Elements of K per head of such a layer.
        layers: What the layers keep, in words.
        bytes_per_token: KV bytes per token, bf16.
        window_bytes_per_token: KV bytes per token of windowed layers, for the last tokens only.
        window_tokens: How many tokens those keep; 0 without a window.
        constant_bytes_per_sequence: Bytes of recurrent state.
        context_length: Tokens the model is released for.
        num_parameters: Parameters of the text model.
        weight_bytes: Bytes of the released weights.
    """

    id: str
    num_layers: int
    num_kv_heads: int
    head_size: int
    layers: str
    bytes_per_token: int
    window_bytes_per_token: int
    window_tokens: int
    constant_bytes_per_sequence: int
    context_length: int
    num_parameters: int
    weight_bytes: int


def _describe_group(group: LayerGroup) -> str:
    window = f" ({group.window:,})" if group.window else ""
    return f"{group.count} {_WORDS[group.kind]}{window}"


def describe_layers(model: Model) -> str:
    """Say in words what the layers of a model keep.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> describe_layers(get_model("llama-3.1-8b").model)
        '32 full'
    """
    return " + ".join(_describe_group(group) for group in model.layers)


def _main_group(model: Model) -> LayerGroup:
    for kind in _HAS_HEADS:
        for group in model.group(kind):
            return group
    return model.layers[0]


def _row(entry: CatalogModel) -> ModelRow:
    model, cost, group = entry.model, kv_cost(entry.model), _main_group(entry.model)
    return ModelRow(
        id=entry.id,
        num_layers=model.num_layers,
        num_kv_heads=group.num_kv_heads,
        head_size=group.head_size,
        layers=describe_layers(model),
        bytes_per_token=cost.bytes_per_token,
        window_bytes_per_token=cost.window_bytes_per_token,
        window_tokens=cost.window_tokens,
        constant_bytes_per_sequence=cost.constant_bytes_per_sequence,
        context_length=entry.context_length,
        num_parameters=entry.num_parameters,
        weight_bytes=entry.weight_bytes,
    )


def model_rows() -> tuple[ModelRow, ...]:
    """One row for every model, ordered by id, for a cache in the model's own dtype.

    Examples:
        >>> rows = {row.id: row for row in model_rows()}
        >>> rows["meta-llama/Llama-3.1-8B"].bytes_per_token
        131072
    """
    return tuple(_row(entry) for entry in models())


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of the table; figures as in `kvdocs.gpu.Gpu`."""

    id: str
    name: str
    memory_bytes: int
    nvidia_smi_memory_bytes: int
    cuda_memory_bytes: int | None
    memory_bandwidth_bytes_per_s: float
    dense_bf16_flops: float
    dense_fp8_flops: float | None
    note: str


def gpu_rows() -> tuple[GpuRow, ...]:
    """One row for every GPU, in the order of `gpus`.

    Examples:
        >>> gpu_rows()[0].id
        'lesson-h100-80gb'
    """
    return tuple(
        GpuRow(
            id=gpu_id,
            name=gpu.name,
            memory_bytes=gpu.memory_bytes,
            nvidia_smi_memory_bytes=gpu.nvidia_smi_memory_bytes,
            cuda_memory_bytes=gpu.cuda_memory_bytes,
            memory_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
            dense_bf16_flops=gpu.dense_bf16_flops,
            dense_fp8_flops=gpu.dense_fp8_flops,
            note=gpu.note,
        )
        for gpu_id, gpu in zip(gpu_ids(), gpus(), strict=True)
    )
