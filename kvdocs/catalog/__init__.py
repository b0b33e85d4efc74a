"""Models, GPUs and links as data files, each fact with its source.

Nothing is read until it is asked for. A model's `config` holds the fields of its `config.json` that
decide the size of cache and weights; `kvdocs.model` computes from them like from any other file.

Examples:
    >>> get_model("llama-3.1-8b").id
    'meta-llama/Llama-3.1-8B'
    >>> get_gpu("4090").nvidia_smi_memory_bytes // 2**20
    24564
    >>> get_link("nvlink4").bytes_per_s
    450000000000.0
"""

from kvdocs.catalog.entries import CatalogModel, Link
from kvdocs.catalog.lookup import (
    get_gpu,
    get_link,
    get_model,
    gpu_ids,
    gpus,
    links,
    model_ids,
    models,
)
from kvdocs.catalog.rows import GpuRow, ModelRow, describe_layers, gpu_rows, model_rows
from kvdocs.errors import CatalogError

__all__ = [
    "CatalogError",
    "CatalogModel",
    "GpuRow",
    "Link",
    "ModelRow",
    "describe_layers",
    "get_gpu",
    "get_link",
    "get_model",
    "gpu_ids",
    "gpu_rows",
    "gpus",
    "links",
    "model_ids",
    "model_rows",
    "models",
]
