"""What drills about the picture `startup` ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kvdocs.widgets.registry import get_widget
from kvdocs.widgets.startup import Server, start


def server_of(params: Mapping[str, str]) -> Server:
    """Start the server that the picture's controls say.

    Args:
        params: Values of the picture's controls, as texts; defaults for those not given.

    Examples:
        >>> server_of({"max_model_len": "8192"}).capacity.max_requests
        49
    """
    return _started(tuple(get_widget("startup").complete(params).items()))


@lru_cache(maxsize=512)
def _started(params: tuple[tuple[str, str], ...]) -> Server:
    quick = dict(params)
    command, gpu = quick.pop("command"), quick.pop("gpu")
    quick["gpu_memory_utilization"] = f"{float(quick['gpu_memory_utilization']):g}"
    return start(command, gpu=gpu, quick=quick)


def command_for(model: str) -> str:
    """Return the command line that serves a model and says nothing else."""
    return f"vllm serve {model}"


def too_long(server: Server) -> bool:
    """Whether a server refuses because one request of maximum length does not fit."""
    held = server.capacity
    return (
        server.report.share_is_free
        and server.report.weights_load
        and not held.starts
        and held.kv_pool_bytes_per_gpu > 0
        and held.max_model_len_that_fits > 0
    )


def short_name(model: str) -> str:
    """Return a model's name without its maker."""
    return model.rpartition("/")[2].removesuffix("-Instruct")
