"""Bytes of KV cache for one sequence: per token, within a window, and constant.

The result is three parts, never one number: a model may keep some layers for the whole context,
some for a window and some as a state of fixed size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvdocs.errors import FlagError
from kvdocs.model.dtypes import (
    STATE_DTYPE_BYTES,
    check_cache_dtype,
    element_bits,
    head_bytes,
    latent_bytes,
)
from kvdocs.model.layers import LayerGroup, LayerKind, Model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvdocs.gpu import Gpu

_WINDOWED: Final = frozenset({LayerKind.SLIDING, LayerKind.CHUNKED})
_KEEPS_HEADS: Final = frozenset({LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED})
_BOUNDARY_LAYERS: Final = 2
_PACKED: Final = "fp8_ds_mla"
_PACKED_LATENT: Final = 576


@dataclass(frozen=True, slots=True)
class WindowPart:
    """Layers that keep the last `tokens` tokens.

    Attributes:
        tokens: Tokens kept.
        bytes_per_token: Bytes of one kept token over all these layers.
    """

    tokens: int
    bytes_per_token: int

    def bytes_at(self, tokens: int) -> int:
        """Bytes for a sequence of `tokens` tokens.

        Examples:
            >>> WindowPart(tokens=128, bytes_per_token=10).bytes_at(1000)
            1280
        """
        return self.bytes_per_token * min(tokens, self.tokens)


@dataclass(frozen=True, slots=True)
class KVCost:
    """What one sequence costs in cache memory, batch 1, without block rounding.

    Attributes:
        kv_cache_dtype: The cache dtype used (`auto` already resolved by the checkpoint).
        element_bytes: Bytes of one stored K element, scales apart.
        bytes_per_token: Bytes per token of the layers that keep every token, whole model.
        window_bytes_per_token: Bytes per token of the windowed layers, whole model; it applies to
            the last tokens only.
        window_tokens: Tokens a windowed layer keeps (the largest window if they differ), else 0.
        windows: One part per distinct window.
        constant_bytes_per_sequence: Bytes of recurrent state, whole model.
        bytes_per_token_per_gpu: As `bytes_per_token` on one GPU of the pipeline stage that binds.
        window_bytes_per_token_per_gpu: As `window_bytes_per_token`, on that GPU.
        constant_bytes_per_sequence_per_gpu: As `constant_bytes_per_sequence`, on that GPU.
        tensor_parallel_size: GPUs each layer is split over.
        pipeline_parallel_size: Stages the layers are spread over.
        binding_stage: Index of the pipeline stage that holds the most.
        is_copied: Whether the GPUs that a layer is split over hold some of it more than once.
        notes: What to know about these figures.
    """

    kv_cache_dtype: str
    element_bytes: float
    bytes_per_token: int
    window_bytes_per_token: int
    window_tokens: int
    windows: tuple[WindowPart, ...]
    constant_bytes_per_sequence: int
    bytes_per_token_per_gpu: int
    window_bytes_per_token_per_gpu: int
    constant_bytes_per_sequence_per_gpu: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    binding_stage: int
    is_copied: bool
    notes: tuple[str, ...] = ()

    def bytes_at(self, tokens: int) -> int:
        """Bytes of K and V for a sequence of `tokens` tokens, recurrent state apart.

        Add `constant_bytes_per_sequence` for the state, or use `sequence_bytes_at`.

        Args:
            tokens: Length of the sequence, 0 or more.

        Raises:
            FlagError: A negative length.

        Examples:
            >>> from kvdocs.model.parse import parse_config
            >>> model = parse_config({"model_type": "llama", "num_hidden_layers": 32,
            ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
            >>> kv_cost(model).bytes_at(8192) == 8192 * 131072
            True
        """
        if tokens < 0:
            raise FlagError(f"a sequence cannot have {tokens} tokens; 0 or more are allowed")
        return self.bytes_per_token * tokens + sum(part.bytes_at(tokens) for part in self.windows)

    def sequence_bytes_at(self, tokens: int) -> int:
        """All bytes a sequence of `tokens` tokens holds: K, V and recurrent state.

        Examples:
            >>> from kvdocs.model.parse import parse_config
            >>> model = parse_config({"model_type": "mamba", "num_hidden_layers": 2,
            ...     "hidden_size": 1024})
            >>> kv_cost(model).sequence_bytes_at(8192)
            155648
        """
        return self.bytes_at(tokens) + self.constant_bytes_per_sequence


@dataclass(frozen=True, slots=True)
class StageCost:
    """The three parts on one GPU of one pipeline stage."""

    bytes_per_token: int
    window_bytes_per_token: int
    constant_bytes: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of a token's K and V in all layers that keep them."""
        return self.bytes_per_token + self.window_bytes_per_token


def kv_cost(
    model: Model,
    *,
    kv_cache_dtype: str = "auto",
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
) -> KVCost:
    """What one sequence of `model` costs in cache memory.

    Source: vLLM 0.33.0 `vllm/v1/kv_cache_interface.py` (page of a layer),
    `vllm/config/model.py` `get_num_kv_heads` (heads per GPU), `vllm/distributed/utils.py`
    `get_pp_indices` (layers per stage).

    Args:
        model: The model.
        kv_cache_dtype: A value of vLLM's `--kv-cache-dtype`.
        tensor_parallel_size: GPUs each layer is split over.
        pipeline_parallel_size: Stages the layers are spread over.

    Raises:
        FlagError: A dtype or a split that vLLM would not take for this model.
        ConfigError: The dtype cannot store this model's heads.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
        >>> kv_cost(llama).bytes_per_token
        131072
        >>> kv_cost(llama, kv_cache_dtype="fp8", tensor_parallel_size=16).bytes_per_token_per_gpu
        8192
    """
    dtype = resolve_cache_dtype(model, kv_cache_dtype)
    stages = stage_bounds(model.num_layers, pipeline_parallel_size)
    whole = _stage_cost(model, dtype, 1, (0, model.num_layers))
    split = _stage_cost(model, dtype, tensor_parallel_size, (0, model.num_layers))
    per_stage = [_stage_cost(model, dtype, tensor_parallel_size, stage) for stage in stages]
    sizes = [(s.bytes_per_token, s.window_bytes_per_token, s.constant_bytes) for s in per_stage]
    binding = sizes.index(max(sizes))
    windows = _window_parts(model, dtype)
    return KVCost(
        kv_cache_dtype=dtype,
        element_bytes=element_bits(dtype) / 8,
        bytes_per_token=whole.bytes_per_token,
        window_bytes_per_token=whole.window_bytes_per_token,
        window_tokens=max((part.tokens for part in windows), default=0),
        windows=windows,
        constant_bytes_per_sequence=whole.constant_bytes,
        bytes_per_token_per_gpu=per_stage[binding].bytes_per_token,
        window_bytes_per_token_per_gpu=per_stage[binding].window_bytes_per_token,
        constant_bytes_per_sequence_per_gpu=per_stage[binding].constant_bytes,
        tensor_parallel_size=tensor_parallel_size,
        pipeline_parallel_size=pipeline_parallel_size,
        binding_stage=binding,
        is_copied=split.kv_bytes_per_token * tensor_parallel_size > whole.kv_bytes_per_token,
        notes=cost_notes(model, dtype),
    )


def resolve_cache_dtype(model: Model, kv_cache_dtype: str) -> str:
    """The cache dtype vLLM ends up with: `auto` becomes what the checkpoint asks for.

    Source: vLLM 0.33.0 `vllm/utils/torch_utils.py`, `resolve_kv_cache_dtype_string`.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> model = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
        >>> resolve_cache_dtype(model, "auto"), resolve_cache_dtype(model, "fp8")
        ('auto', 'fp8')
    """
    name = check_cache_dtype(kv_cache_dtype)
    return model.kv_cache_dtype if name == "auto" else name


def stored_cache_dtype(model: Model, gpu: Gpu, kv_cache_dtype: str) -> str:
    """The cache dtype a GPU stores when `kv_cache_dtype` is asked for.

    Hopper's backend for sparse attention over a latent (FLASHMLA_SPARSE) packs every fp8 kind as
    `fp8_ds_mla`; the rest is stored as asked. Source: vLLM 0.33.0
    `vllm/model_executor/layers/attention/mla_attention.py`, MLAAttention.

    Args:
        model: The model.
        gpu: The GPU it is served on.
        kv_cache_dtype: A value of vLLM's `--kv-cache-dtype`.

    Examples:
        >>> from kvdocs.catalog import get_gpu, get_model
        >>> sparse = get_model("deepseek-ai/DeepSeek-V3.2").model
        >>> [stored_cache_dtype(sparse, get_gpu(name), "fp8") for name in ("h200", "b200")]
        ['fp8_ds_mla', 'fp8']
    """
    packs = gpu.is_hopper and _is_sparse(model)
    packs = packs and all(
        group.head_size == _PACKED_LATENT for group in model.group(LayerKind.LATENT)
    )
    if packs and resolve_cache_dtype(model, kv_cache_dtype).startswith("fp8"):
        return _PACKED
    return kv_cache_dtype


def _is_sparse(model: Model) -> bool:
    """Whether an indexer picks the tokens that are attended to."""
    return any(group.indexer_bytes_per_token for group in model.group(LayerKind.LATENT))


def stage_bounds(num_layers: int, pipeline_parallel_size: int) -> list[tuple[int, int]]:
    """First layer and end of every pipeline stage.

    What does not divide goes one layer each to the stages before the last, from the back.
    Source: vLLM 0.33.0 `vllm/distributed/utils.py`, `get_pp_indices`.

    Raises:
        FlagError: No stage, or more stages than layers.

    Examples:
        >>> stage_bounds(32, 2), stage_bounds(30, 4)
        ([(0, 16), (16, 32)], [(0, 7), (7, 15), (15, 23), (23, 30)])
    """
    if not 1 <= pipeline_parallel_size <= num_layers:
        raise FlagError(
            f"--pipeline-parallel-size {pipeline_parallel_size} is not possible; this model has "
            f"{num_layers} layers, so 1 to {num_layers}"
        )
    share, rest = divmod(num_layers, pipeline_parallel_size)
    sizes = [share] * pipeline_parallel_size
    for back in range(2, rest + 2):
        sizes[-back] += 1
    ends = [sum(sizes[: stage + 1]) for stage in range(pipeline_parallel_size)]
    return [(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def kv_heads_per_gpu(num_kv_heads: int, tensor_parallel_size: int) -> int:
    """KV heads one GPU holds: divided, or one copied when there are more GPUs than heads.

    Source: vLLM 0.33.0 `vllm/config/model.py`, `get_num_kv_heads`; the divisibility is asserted
    in the model's attention class (e.g. `vllm/model_executor/models/llama.py`).

    Raises:
        FlagError: The heads can be neither divided nor copied evenly.

    Examples:
        >>> kv_heads_per_gpu(8, 4), kv_heads_per_gpu(8, 16)
        (2, 1)
    """
    if tensor_parallel_size < 1:
        raise FlagError(
            f"--tensor-parallel-size {tensor_parallel_size} is not possible; use 1 or more"
        )
    larger, smaller = sorted((num_kv_heads, tensor_parallel_size), reverse=True)
    if larger % smaller:
        raise FlagError(
            f"--tensor-parallel-size {tensor_parallel_size} does not go with {num_kv_heads} KV "
            "heads; one must be a multiple of the other"
        )
    return max(1, num_kv_heads // tensor_parallel_size)


def layer_token_bytes(group: LayerGroup, dtype: str, tensor_parallel_size: int) -> int:
    """Bytes one layer of `group` keeps per token on one GPU.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> model = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
        >>> layer_token_bytes(model.layers[0], "auto", 4)
        1024
    """
    if group.kind == LayerKind.LATENT:
        return latent_bytes(dtype, group.head_size) + group.indexer_bytes_per_token
    if group.kind not in _KEEPS_HEADS:
        return 0
    heads = kv_heads_per_gpu(group.num_kv_heads, tensor_parallel_size)
    per_head = head_bytes(dtype, group.head_size, group.head_size_v)
    return heads * per_head + group.indexer_bytes_per_token


def layer_state_bytes(group: LayerGroup, tensor_parallel_size: int) -> int:
    """Bytes of one recurrent layer's state on one GPU.

    Raises:
        FlagError: Tensor parallelism does not divide the state.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> model = parse_config({"model_type": "mamba", "num_hidden_layers": 2,
        ...     "hidden_size": 1024})
        >>> layer_state_bytes(model.layers[0], 1) == 2048 * (3 + 16) * 2
        True
    """
    total = 0
    for piece in group.state:
        if piece.width % tensor_parallel_size:
            raise FlagError(
                f"--tensor-parallel-size {tensor_parallel_size} does not divide the recurrent "
                f"state of this model ({piece.name}: {piece.width} wide)"
            )
        total += piece.elements(tensor_parallel_size) * STATE_DTYPE_BYTES[piece.dtype]
    return total


def boundary_layers(model: Model, dtype: str) -> frozenset[int]:
    """Layers a TurboQuant cache leaves in 16 bit: the first and last two, hybrids excepted.

    Source: vLLM 0.33.0 `vllm/model_executor/layers/quantization/turboquant/config.py`,
    `get_boundary_skip_layers`.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> model = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
        >>> sorted(boundary_layers(model, "turboquant_4bit_nc"))
        [0, 1, 30, 31]
    """
    if not dtype.startswith("turboquant_") or model.has_recurrent_state:
        return frozenset()
    edge = min(_BOUNDARY_LAYERS, model.num_layers // 2)
    return frozenset((*range(edge), *range(model.num_layers - edge, model.num_layers)))


def group_token_bytes(
    model: Model, group: LayerGroup, dtype: str, tensor_parallel_size: int, positions: Iterable[int]
) -> int:
    """Bytes per token of those layers of `group` that stand at `positions`.

    Examples:
        >>> from kvdocs.model.parse import parse_config
        >>> model = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8})
        >>> group_token_bytes(model, model.layers[0], "auto", 1, range(16))
        65536
    """
    wide = boundary_layers(model, dtype)
    chosen = list(positions)
    num_wide = sum(position in wide for position in chosen) if wide else 0
    narrow = layer_token_bytes(group, dtype, tensor_parallel_size) * (len(chosen) - num_wide)
    if not num_wide:
        return narrow
    return narrow + num_wide * layer_token_bytes(group, "auto", tensor_parallel_size)


def _stage_cost(
    model: Model, dtype: str, tensor_parallel_size: int, stage: tuple[int, int]
) -> StageCost:
    full = window = constant = 0
    for group in model.layers:
        inside = [p for p in group.positions if stage[0] <= p < stage[1]]
        if group.kind == LayerKind.RECURRENT:
            constant += len(inside) * layer_state_bytes(group, tensor_parallel_size)
            continue
        size = group_token_bytes(model, group, dtype, tensor_parallel_size, inside)
        if group.window:
            window += size
        else:
            full += size
    return StageCost(full, window, constant)


def _window_parts(model: Model, dtype: str) -> tuple[WindowPart, ...]:
    parts: dict[int, int] = {}
    for group in model.layers:
        if group.kind in _WINDOWED or group.window:
            size = group_token_bytes(model, group, dtype, 1, group.positions)
            parts[group.window] = parts.get(group.window, 0) + size
    return tuple(WindowPart(tokens, size) for tokens, size in sorted(parts.items()))


def cost_notes(model: Model, dtype: str) -> tuple[str, ...]:
    """What to know about the bytes of a cache dtype.

    Args:
        model: The model.
        dtype: The cache dtype, not `auto` where the checkpoint asks for one.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> cost_notes(get_model("deepseek-ai/DeepSeek-V3.2").model, "fp8")[0][:30]
        'on Hopper GPUs vLLM stores thi'
    """
    notes = []
    if _is_sparse(model) and dtype.startswith("fp8"):
        notes.append(
            "on Hopper GPUs vLLM stores this sparse latent as fp8_ds_mla (656 bytes a layer) "
            "whatever fp8 kind is asked for"
        )
    if boundary_layers(model, dtype):
        notes.append(f"{dtype} leaves the first and last two layers in 16 bit")
    return tuple(notes)
