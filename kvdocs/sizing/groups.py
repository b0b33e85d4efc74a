"""How vLLM puts layers into KV cache groups that share one pool of blocks.

Source: vLLM 0.33.0 `vllm/v1/core/kv_cache_planning.py`, `get_kv_cache_groups`. A group has one
block table; every layer in it has the same page size, and a block id belongs to one group at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class Part:
    """Layers with one spec.

    Attributes:
        spec: What each of them caches.
        layers: Their numbers, ascending.
    """

    spec: LayerSpec
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Layers under one block table.

    Attributes:
        parts: Its layers by spec. More than one where vLLM makes one group of layers that need the
            same number of token slots though their pages differ (`UniformTypeKVCacheSpecs`).
    """

    parts: tuple[Part, ...]

    @property
    def num_layers(self) -> int:
        """Layers in the group."""
        return sum(len(part.layers) for part in self.parts)

    @property
    def name(self) -> str:
        """VLLM's class of the group's spec."""
        return "UniformTypeKVCacheSpecs" if len(self.parts) > 1 else self.parts[0].spec.kind.value

    @property
    def block_size(self) -> int:
        """Tokens per block."""
        return self.parts[0].spec.block_size

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over all layers of the group."""
        return sum(part.spec.page_bytes * len(part.layers) for part in self.parts)

    @property
    def page_bytes(self) -> int:
        """VLLM's page size of the group's spec: one layer's, or all layers' when they differ."""
        return self.block_bytes if len(self.parts) > 1 else self.parts[0].spec.page_bytes

    def bytes_on(self, layers: frozenset[int]) -> int:
        """Bytes of one block on a worker that holds `layers`.

        Examples:
            >>> full = LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16)
            >>> Group((Part(full, (0, 1, 2)),)).bytes_on(frozenset({0, 1}))
            131072
        """
        return sum(
            part.spec.page_bytes * sum(layer in layers for layer in part.layers)
            for part in self.parts
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
        sizes = [group.block_bytes for group in self.groups]
        return max(sizes) * len(sizes) - sum(sizes)


NO_GROUPS: Final = Grouping(())
"""The grouping of a model that caches nothing."""


def group_layers(parts: Sequence[Part], *, hybrid_manager: bool = True) -> Grouping:
    """Group the layers of a whole model.

    Args:
        parts: The layers by spec, in the order in which the specs first appear.
        hybrid_manager: False for `--disable-hybrid-kv-cache-manager`.

    Raises:
        ConfigError: Page sizes that vLLM cannot bring to one.

    Examples:
        >>> full = LayerSpec(SpecKind.FULL, token_bytes=2048, block_size=16)
        >>> local = LayerSpec(SpecKind.SLIDING, token_bytes=2048, block_size=16, window=128)
        >>> grouping = group_layers([Part(full, (0,)), Part(local, (1, 2, 3))])
        >>> [(group.name, group.num_layers) for group in grouping.groups]
        [('FullAttentionSpec', 1), ('SlidingWindowSpec', 1), ('SlidingWindowSpec', 1), ...
    """
    log: list[str] = []
    parts = list(parts)
    if not hybrid_manager:
        parts = _promote_local(parts, log)
    if _one_type([part.spec for part in parts]):
        return Grouping((Group(tuple(parts)),), tuple(log))
    return Grouping(_split(_one_page_size(parts), log), tuple(log))


def _promote_local(parts: list[Part], log: list[str]) -> list[Part]:
    kinds = {part.spec.kind for part in parts}
    if _one_type([part.spec for part in parts]) or not (kinds & _LOCAL and kinds & _WHOLE_CONTEXT):
        return parts
    log.append(DISABLED_MESSAGE)
    sizes = {part.spec.block_size for part in parts if part.spec.kind in _WHOLE_CONTEXT}
    only = sizes.pop() if len(sizes) == 1 else 0
    return merge(
        (part.spec.as_full(only or part.spec.block_size), part.layers)
        if part.spec.kind in _LOCAL
        else (part.spec, part.layers)
        for part in parts
    )


def merge(pieces: Iterable[tuple[LayerSpec, tuple[int, ...]]]) -> list[Part]:
    """Put layers with equal specs together.

    Examples:
        >>> full = LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16)
        >>> [part.layers for part in merge([(full, (0, 2)), (full, (1,))])]
        [(0, 1, 2)]
    """
    found: dict[LayerSpec, list[int]] = {}
    for spec, layers in pieces:
        found.setdefault(spec, []).extend(layers)
    return [Part(spec, tuple(sorted(layers))) for spec, layers in found.items()]


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


def _one_page_size(parts: list[Part]) -> list[Part]:
    largest = max(part.spec.page_bytes for part in parts)
    try:
        return merge((part.spec.scaled_to(largest), part.layers) for part in parts)
    except ValueError as error:
        raise ConfigError(
            f"vLLM cannot give the layers of this model one page size: {error}"
        ) from None


def _split(parts: list[Part], log: list[str]) -> tuple[Group, ...]:
    """Cut each kind of layer into groups of one size, padding the last."""
    counts = [len(part.layers) for part in parts]
    size = max(counts) if max(counts) < min(counts) * 1.5 else min(counts)
    groups: list[Group] = []
    for part in parts:
        padding = -len(part.layers) % size
        if padding:
            log.append(
                f"Add {padding} padding layers, may waste at most "
                f"{padding / len(part.layers) * 100:.2f}% KV cache memory"
            )
        num_groups = -(-len(part.layers) // size)
        groups += [
            Group((Part(part.spec, part.layers[first::num_groups]),)) for first in range(num_groups)
        ]
    return tuple(groups)
