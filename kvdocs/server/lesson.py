"""The lesson's server, ready to take a workload."""

from __future__ import annotations

from dataclasses import replace

from kvdocs.flags import ServerFlags
from kvdocs.scenario import LESSON, size_lesson, weights_bytes
from kvdocs.server.server import Server
from kvdocs.server.start import start_server
from kvdocs.timing import Efficiency, Weights


def lesson_server(
    flags: ServerFlags | None = None,
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    efficiency: Efficiency | None = None,
) -> Server:
    """Start the lesson's server, in its round numbers, on one GPU.

    Args:
        flags: The server's flags; vLLM's defaults with the lesson's utilization when not given.
        model: Catalogue id.
        gpu: Catalogue id.
        efficiency: What of the GPU's peak figures is reached.

    Raises:
        StartError: The server would not start.
        KvdocsError: An unknown model or GPU, or a flag that vLLM would refuse.

    Examples:
        >>> server = lesson_server()
        >>> server.config.num_blocks, server.config.max_model_len
        (25482, 131072)
    """
    flags = flags or ServerFlags(gpu_memory_utilization=LESSON.utilization)
    size = size_lesson(model=model, gpu=gpu, utilization=flags.gpu_memory_utilization)
    entry = size.model
    weights = Weights.from_entry(entry, weight_bytes=weights_bytes(entry))
    return start_server(
        entry.model,
        size.gpu,
        replace(flags, model=flags.model or entry.id),
        available=size.budget,
        weights=weights,
        efficiency=efficiency,
    )
