"""The lesson's one server: every page and test takes its numbers from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.gpu import Gpu
from kvdocs.model import kv_cost
from kvdocs.units import GB, format_bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """The server the story is about.

    Attributes:
        machine: Its host name.
        model: Catalogue id of the model it serves.
        gpu: Catalogue id of its GPU.
        utilization: `--gpu-memory-utilization`.
        activation_bytes: Workspace: the activation peak of a forward pass.
        non_torch_bytes: The CUDA context.
        block_size: Tokens per block.
    """

    machine: str = "dgx-1"
    model: str = "meta-llama/Llama-3.1-8B"
    gpu: str = "lesson-h100-80gb"
    utilization: float = 0.9
    activation_bytes: float = 1.5 * GB
    non_torch_bytes: float = 1.0 * GB
    block_size: int = 16


LESSON: Final = Scenario()
"""The one scenario of all 21 steps."""
