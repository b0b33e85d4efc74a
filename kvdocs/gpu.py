"""A GPU as far as its memory and its speed are concerned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_HOPPER: Final = re.compile(r"\bG?H(?:20|100|200|800)\b")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Speeds are the maker's peak figures; what a server sustains is lower.

    Attributes:
        name: The maker's name.
        memory_bytes: What the maker says it has (80 GB is 80e9).
        nvidia_smi_memory_bytes: What `nvidia-smi` lists as total.
        cuda_memory_bytes: What CUDA reports as total, or None where no measurement is at hand.
            vLLM takes its share of this figure.
        memory_bandwidth_bytes_per_s: Peak bytes per second between memory and chip.
        dense_bf16_flops: Peak operations per second in bf16, without sparsity.
        dense_fp8_flops: The same in fp8, or None where the GPU has no fp8.
        pcie_bytes_per_s: Peak bytes per second to the host, one direction.
        nvlink_bytes_per_s: Peak bytes per second to other GPUs, one direction, or None.
        note: What to know about the figures.
        sources: Where they come from.
    """

    name: str
    memory_bytes: int
    nvidia_smi_memory_bytes: int
    cuda_memory_bytes: int | None
    memory_bandwidth_bytes_per_s: float
    dense_bf16_flops: float
    dense_fp8_flops: float | None
    pcie_bytes_per_s: float
    nvlink_bytes_per_s: float | None
    note: str = ""
    sources: tuple[str, ...] = ()

    @property
    def total_memory_bytes(self) -> int:
        """The total vLLM sees: CUDA's where known, else `nvidia-smi`'s (a little larger).

        Examples:
            >>> Gpu("X", 80, 79, None, 1.0, 1.0, None, 1.0, None).total_memory_bytes
            79
        """
        return self.cuda_memory_bytes or self.nvidia_smi_memory_bytes

    @property
    def is_hopper(self) -> bool:
        """Whether its name is of NVIDIA's Hopper (compute capability 9), which has its own kernels.

        Examples:
            >>> Gpu("H200-SXM-141GB", 1, 1, None, 1.0, 1.0, None, 1.0, None).is_hopper
            True
        """
        return _HOPPER.search(self.name) is not None
