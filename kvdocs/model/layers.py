"""What the layers of a model keep for a sequence: the layout `parse_config` produces.

A layer is described by what it keeps, not by what it computes. Widths are in elements, not bytes:
bytes come from the cache dtype (`kvdocs.model.dtypes`) and from the split over GPUs
(`kvdocs.model.cost`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class LayerKind(StrEnum):
    """What a layer keeps for a sequence of n tokens.

    Examples:
        >>> LayerKind("latent") is LayerKind.LATENT
        True
    """

    FULL = "full"
    """K and V of every token."""
    SLIDING = "sliding"
    """K and V of the last `window` tokens."""
    CHUNKED = "chunked"
    """K and V of the current chunk of `window` tokens (Llama 4)."""
    LATENT = "latent"
    """One compressed vector per token instead of K and V (MLA)."""
    RECURRENT = "recurrent"
    """A state of fixed size (Mamba, gated delta net, linear attention, short convolution)."""
    SHARED = "shared"
    """Nothing of its own: it reads the cache of an earlier layer."""
    NONE = "none"
    """Nothing: no attention in this layer."""


@dataclass(frozen=True, slots=True)
class StatePiece:
    """One tensor of a recurrent layer's state, in elements.

    The tensor has `rows` rows, each of `width` elements plus `num_groups` groups of `group_width`
    elements. Tensor parallelism divides a row; groups are first repeated until every GPU has one.

    Attributes:
        name: `conv` (the last inputs of the short convolution) or `state` (the recurrent state).
        rows: Rows per sequence.
        width: Elements per row that tensor parallelism divides evenly.
        dtype: Element type, or `auto` for the dtype the model is served in.
        num_groups: Mamba-2 B/C groups; 0 when there are none.
        group_width: Elements per row of one group.
    """

    name: str
    rows: int
    width: int
    dtype: str = "auto"
    num_groups: int = 0
    group_width: int = 0

    def elements(self, tensor_parallel_size: int = 1) -> int:
        """Elements one GPU holds of this tensor.

        Source: vLLM 0.33.0 `vllm/model_executor/layers/mamba/mamba_utils.py`,
        `MambaStateShapeCalculator.mamba2_state_shape` and `extra_groups_for_head_shards`.

        Args:
            tensor_parallel_size: GPUs the layer is split over; must divide the row.

        Examples:
            >>> StatePiece("conv", rows=3, width=4096, num_groups=8, group_width=256).elements()
            18432
            >>> StatePiece("conv", rows=3, width=4096, num_groups=1, group_width=256).elements(2)
            6912
        """
        groups = self.num_groups
        if groups % tensor_parallel_size:
            groups = tensor_parallel_size
        return self.rows * (self.width + groups * self.group_width) // tensor_parallel_size


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one model that keep the same thing.

    Attributes:
        kind: What each of the layers keeps.
        positions: Index of each layer in the model, ascending. An index may stand in two groups
            when one layer keeps two things (attention beside a Mamba state), and twice in one
            group when a layer has two attentions.
        num_kv_heads: KV heads of one layer; 1 for a latent layer, 0 where no K and V are kept.
        head_size: Elements of K per head; for a latent layer the whole latent, e.g. 512 + 64.
        head_size_v: Elements of V per head; 0 for a latent layer.
        rope_head_size: The part of a latent vector that carries the position (e.g. 64), else 0.
        window: Tokens kept by a sliding or chunked layer, else 0.
        indexer_bytes_per_token: Bytes a sparse-attention indexer keeps beside each token, whatever
            the cache dtype; 0 when there is none.
        state: The state of a recurrent layer.
    """

    kind: LayerKind
    positions: tuple[int, ...]
    num_kv_heads: int = 0
    head_size: int = 0
    head_size_v: int = 0
    rope_head_size: int = 0
    window: int = 0
    indexer_bytes_per_token: int = 0
    state: tuple[StatePiece, ...] = ()

    @property
    def count(self) -> int:
        """Number of layers (or of attentions, where a layer has two)."""
        return len(self.positions)

    @property
    def elements_per_token(self) -> int:
        """Elements of K and V (or latent) that one layer keeps per token.

        Examples:
            >>> LayerGroup(LayerKind.FULL, (0,), 8, 128, 128).elements_per_token
            2048
        """
        return self.num_kv_heads * (self.head_size + self.head_size_v)


@dataclass(frozen=True, slots=True)
class Model:
    """A model as far as its KV cache is concerned.

    Attributes:
        name: What the caller calls it.
        model_type: The config's `model_type` (of the language model when nested).
        num_layers: Decoder layers.
        hidden_size: Width of the residual stream, in elements; 0 when the config does not say and
            the cache does not need it.
        num_attention_heads: Query heads; 0 for a model without attention.
        max_model_len: Largest position the config names, or None when it names none.
        dtype: The checkpoint's dtype as the config spells it, or None when it does not say.
        layers: The layers, grouped by what they keep.
        kv_cache_dtype: Cache dtype that `auto` means for this checkpoint: `auto` (the dtype the
            model is served in), or what its quantization config asks for.
        notes: Assumptions made, and rules read from the model class instead of the file.
    """

    name: str
    model_type: str
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    max_model_len: int | None
    dtype: str | None
    layers: tuple[LayerGroup, ...]
    kv_cache_dtype: str = "auto"
    notes: tuple[str, ...] = field(default=())

    def group(self, kind: LayerKind) -> tuple[LayerGroup, ...]:
        """The groups of one kind (more than one when their shapes differ).

        Examples:
            >>> Model("m", "llama", 1, 8, 1, None, None, ()).group(LayerKind.FULL)
            ()
        """
        return tuple(group for group in self.layers if group.kind == kind)

    def count(self, kind: LayerKind) -> int:
        """How many layers are of one kind."""
        return sum(group.count for group in self.group(kind))

    @property
    def num_key_value_heads(self) -> int:
        """KV heads of the layers that keep the whole context, else of the windowed ones."""
        for kind in (LayerKind.FULL, LayerKind.LATENT, LayerKind.SLIDING, LayerKind.CHUNKED):
            for group in self.group(kind):
                return group.num_kv_heads
        return 0

    @property
    def has_recurrent_state(self) -> bool:
        """Whether any layer keeps a state of fixed size."""
        return any(group.kind == LayerKind.RECURRENT for group in self.layers)

    @property
    def is_hybrid(self) -> bool:
        """Whether layers differ in how much of the context they keep."""
        kinds = {group.kind for group in self.layers} - {LayerKind.SHARED, LayerKind.NONE}
        windows = {group.window for group in self.layers if group.window}
        return len(kinds) > 1 or len(windows) > 1
