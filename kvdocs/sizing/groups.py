"""How vLLM puts layers into KV cache groups that share one pool of blocks.

Source: vLLM 0.33.0 `vllm/v1/core/kv_cache_planning.py`, `get_kv_cache_groups`. A group has one block
table; every layer in it has the same page size, and a block id belongs to one group at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvdocs.errors import ConfigError
from kvdocs.sizing.specs import LayerSpec, SpecKind

_WHOLE_CONTEXT: Final = frozenset({SpecKind.FULL})
_LOCAL: Final = frozenset({SpecKind.SLIDING, SpecKind.CHUNKED})
DISABLED_MESSAGE: Final = (
    "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any "
    "optimizations for saving KV cache memory (e.g., dropping the KV cache outside the sliding "
    "window). The compute of layers like sliding window is still saved."
)
"""What vLLM 0.33.0 prints then (`unify_hybrid_kv_cache_specs`)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers under one block table.

    Attributes:
        layers: Names (here: numbers) of the layers.
        specs: The layers' specs, in the same order. They differ only where vLLM makes one group of
            layers that need the same number of token slots (`UniformTypeKVCacheSpecs`).
    """

    layers: tuple[int, ...]
    specs: tuple[LayerSpec, ...]

    @property
    def is_uniform_type(self) -> bool:
        """Whether the layers' pages differ."""
        return len(set(self.specs)) > 1

    @property
    def name(self) -> str:
        """vLLM's class of the group's spec."""
        return "UniformTypeKVCacheSpecs" if self.is_uniform_type else self.specs[0].kind.value

    @property
    def page_bytes(self) -> int:
        """vLLM's page size of the group's spec: one layer's, or all layers' when they differ."""
        if self.is_uniform_type:
            return sum(spec.page_bytes for spec in self.specs)
        return self.specs[0].page_bytes

    def bytes_on(self, layers: frozenset[int]) -> int:
        """Bytes of one block on a worker that holds `layers`."""
        return sum(
            spec.page_bytes
            for layer, spec in zip(self.layers, self.specs, strict=True)
            if layer in layers
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of a model.

    Attributes:
        groups: In vLLM's order.
        log: Lines vLLM prints while grouping.
    """

    groups: tuple[Group, ...]
    log: tuple[str, ...] = ()

    @property
    def padding_bytes(self) -> int:
        """Bytes of each set of blocks (one per group) that no layer uses."""
        widest = max(sum(spec.page_bytes for spec in group.specs) for group in self.groups)
        used = sum(sum(spec.page_bytes for spec in group.specs) for group in self.groups)
        return widest * len(self.groups) - used


def group_layers(specs: dict[int, LayerSpec], *, hybrid_manager: bool = True) -> Grouping:
    """Group the layers of a whole model.

    Args:
        specs: The spec of each layer, in model order.
        hybrid_manager: False for `--disable-hybrid-kv-cache-manager`.

    Raises:
        ConfigError: Page sizes that vLLM cannot bring to one.

    Examples:
        >>> full = LayerSpec(SpecKind.FULL, token_bytes=2048, block_size=16)
        >>> local = LayerSpec(SpecKind.SLIDING, token_bytes=2048, block_size=16, window=128)
        >>> grouping = group_layers({0: full, 1: local, 2: local, 3: local})
        >>> [(group.name, len(group.layers)) for group in grouping.groups]
        [('FullAttentionSpec', 1), ('SlidingWindowSpec', 1), ('SlidingWindowSpec', 1), ...
    """
    log: list[str] = []
    if not hybrid_manager:
        specs = _promote_local(specs, log)
    if _one_type(list(specs.values())):
        return Grouping((Group(tuple(specs), tuple(specs.values())),), tuple(log))
    unified = _one_page_size(specs)
    return Grouping(_split(unified, log), tuple(log))


def _promote_local(specs: dict[int, LayerSpec], log: list[str]) -> dict[int, LayerSpec]:
    has_full = any(spec.kind in _WHOLE_CONTEXT for spec in specs.values())
    has_local = any(spec.kind in _LOCAL for spec in specs.values())
    if _one_type(list(specs.values())) or not (has_full and has_local):
        return specs
    log.append(DISABLED_MESSAGE)
    sizes = {spec.block_size for spec in specs.values() if spec.kind in _WHOLE_CONTEXT}
    only = sizes.pop() if len(sizes) == 1 else 0
    return {
        layer: spec.as_full(only or spec.block_size) if spec.kind in _LOCAL else spec
        for layer, spec in specs.items()
    }


def _one_type(specs: list[LayerSpec]) -> bool:
    """Whether all layers need the same number of token slots and go into one group."""
    first = specs[0]
    if len({spec.block_size for spec in specs}) > 1:
        return False
    if first.kind == SpecKind.MAMBA:
        return all(
            spec.kind == first.kind and spec.page_bytes == first.page_bytes for spec in specs
        )
    if first.kind in _LOCAL:
        return all(spec.kind == first.kind and spec.window == first.window for spec in specs)
    return all(spec.kind in {SpecKind.FULL, SpecKind.MLA} for spec in specs)


def _one_page_size(specs: dict[int, LayerSpec]) -> dict[int, LayerSpec]:
    largest = max(spec.page_bytes for spec in specs.values())
    try:
        return {layer: spec.scaled_to(largest) for layer, spec in specs.items()}
    except ValueError as error:
        raise ConfigError(
            f"vLLM cannot give the layers of this model one page size: {error}"
        ) from None


def _split(specs: dict[int, LayerSpec], log: list[str]) -> tuple[Group, ...]:
    """Cut each kind of layer into groups of one size, padding the last."""
    buckets = _buckets(specs)
    counts = [len(bucket) for bucket in buckets]
    size = max(counts) if max(counts) < min(counts) * 1.5 else min(counts)
    groups = []
    for bucket in buckets:
        padding = -len(bucket) % size
        if padding:
            log.append(
                f"Add {padding} padding layers, may waste at most "
                f"{padding / len(bucket) * 100:.2f}% KV cache memory"
            )
        num_groups = -(-len(bucket) // size)
        for first in range(num_groups):
            layers = bucket[first::num_groups]
            groups.append(Group(tuple(layers), tuple(specs[layer] for layer in layers)))
    return tuple(groups)


def _buckets(specs: dict[int, LayerSpec]) -> list[list[int]]:
    """Layers with equal specs, in order of first appearance.

    Whole-context layers that differ only in the window they compute with merge, too.
    """
    buckets: dict[LayerSpec, list[int]] = {}
    for layer, spec in specs.items():
        buckets.setdefault(spec, []).append(layer)
    return list(buckets.values())
