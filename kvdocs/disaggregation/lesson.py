"""The lesson's server as a worker among others."""

from __future__ import annotations

from kvdocs.disaggregation.deployment import Worker
from kvdocs.flags import ServerFlags
from kvdocs.scenario import LESSON, size_lesson
from kvdocs.server import Server, lesson_server
from kvdocs.timing import Efficiency


def lesson_worker(
    flags: ServerFlags | None = None,
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    efficiency: Efficiency | None = None,
) -> Worker:
    """One GPU of the lesson.

    Args:
        flags: The server's flags; vLLM's defaults with the lesson's utilization when not given.
        model: Catalogue id.
        gpu: Catalogue id.
        efficiency: What of the peaks, the links' included, is reached.

    Raises:
        StartError: The server would not start.
        KvdocsError: An unknown model or GPU, or a flag that vLLM would refuse.

    Examples:
        >>> worker = lesson_worker()
        >>> worker.num_layers, worker.bytes_per_token
        (32, 131072)
    """
    server: Server = lesson_server(flags, model=model, gpu=gpu, efficiency=efficiency)
    dtype = flags.kv_cache_dtype if flags else "auto"
    size = size_lesson(model=model, gpu=gpu, kv_cache_dtype=dtype)
    return Worker(
        config=server.config,
        timer=server.timer,
        num_layers=size.model.model.num_layers,
        bytes_per_token=size.cost.bytes_per_token,
        efficiency=efficiency,
    )
