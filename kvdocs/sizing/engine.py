"""From a model and flags to the specs and workers that vLLM would plan with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kvdocs.errors import FlagError
from kvdocs.model.cost import (
    boundary_layers,
    cost_notes,
    kv_heads_per_gpu,
    layer_state_bytes,
    layer_token_bytes,
    resolve_cache_dtype,
    stage_bounds,
    stored_cache_dtype,
)
from kvdocs.model.layers import LayerGroup, LayerKind, Model
from kvdocs.sizing.groups import Part, merge
from kvdocs.sizing.specs import LayerSpec, Need, SpecKind

if TYPE_CHECKING:
    from kvdocs.flags import ServerFlags
    from kvdocs.gpu import Gpu

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens per block (vLLM 0.33.0 `vllm/config/cache.py`, `DEFAULT_BLOCK_SIZE`)."""
_FLASHMLA_BLOCK_SIZE: Final = 64
"""Tokens per block of the backends that Hopper has for an fp8 or a sparse latent."""
_SIXTEEN_BIT: Final = ("auto", "float16", "bfloat16")
_MLA_ALIGNMENT: Final = 128
_SPEC_KINDS: Final = {
    LayerKind.FULL: SpecKind.FULL,
    LayerKind.LATENT: SpecKind.MLA,
    LayerKind.SLIDING: SpecKind.SLIDING,
    LayerKind.CHUNKED: SpecKind.CHUNKED,
    LayerKind.RECURRENT: SpecKind.MAMBA,
}


@dataclass(frozen=True, slots=True)
class Engine:
    """A model as one engine caches it.

    Attributes:
        parts: The cache layers by spec. A layer's number tells its place in the model.
        stages: The numbers of the layers in each pipeline stage.
        block_size: Tokens per block of the whole-context layers.
        hybrid_manager: Whether windowed layers are kept by their window.
        notes: What to know about the figures.
        log: Lines each worker prints when blocks are made to hold a recurrent state.
    """

    parts: tuple[Part, ...]
    stages: tuple[frozenset[int], ...]
    block_size: int
    hybrid_manager: bool
    notes: tuple[str, ...]
    log: tuple[str, ...] = ()


def build_engine(
    model: Model, flags: ServerFlags, max_model_len: int = DEFAULT_BLOCK_SIZE
) -> Engine:
    """Lay out the caches of one engine.

    Args:
        model: The model.
        flags: The server's flags.
        max_model_len: Longest request in tokens: the block size of a model that has nothing but
            recurrent states.

    Raises:
        FlagError: A split that vLLM would refuse for this model.
        ConfigError: A cache dtype that cannot store this model's heads.

    Examples:
        >>> from kvdocs.flags import ServerFlags
        >>> from kvdocs.model import parse_config
        >>> model = parse_config({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12})
        >>> build_engine(model, ServerFlags(), 1024).parts[0].spec.page_bytes
        49152
    """
    _check_split(model, flags)
    dtype = resolve_cache_dtype(model, flags.kv_cache_dtype)
    ranks = flags.tensor_parallel_size
    groups = [
        _with_state_dtype(group, flags) for group in model.layers if group.kind in _SPEC_KINDS
    ]
    specs = [_group_spec(group, dtype, ranks) for group in groups]
    block_size, notes, log = _block_size(model, specs, flags)
    if specs and all(spec.kind == SpecKind.MAMBA for spec in specs):
        block_size = max_model_len
    wide = boundary_layers(model, dtype)
    pieces: list[tuple[LayerSpec, tuple[int, ...]]] = []
    for number, (group, spec) in enumerate(zip(groups, specs, strict=True)):
        layers = _numbers(group, number, len(groups))
        narrow = tuple(layer for layer in layers if layer // len(groups) not in wide)
        pieces.append((replace(spec, block_size=block_size), narrow))
        if len(narrow) < len(layers):
            in_16_bit = replace(_group_spec(group, "auto", ranks), block_size=block_size)
            pieces.append((in_16_bit, tuple(sorted(set(layers) - set(narrow)))))
    parts = sorted(merge(piece for piece in pieces if piece[1]), key=lambda part: part.layers[0])
    return Engine(
        parts=tuple(parts),
        stages=_stages(model, flags, parts, len(groups)),
        block_size=block_size,
        hybrid_manager=_hybrid_manager(model, flags),
        notes=(*notes, *cost_notes(model, dtype)),
        log=log,
    )


def stored_flags(model: Model, gpu: Gpu, flags: ServerFlags) -> ServerFlags:
    """The flags with the cache dtype that this GPU stores, to size or time a server with.

    Args:
        model: The model.
        gpu: The GPU it is served on.
        flags: The flags as given.

    Examples:
        >>> from kvdocs.catalog import get_gpu, get_model
        >>> from kvdocs.flags import ServerFlags
        >>> sparse = get_model("deepseek-ai/DeepSeek-V3.2").model
        >>> stored_flags(sparse, get_gpu("h200"), ServerFlags(kv_cache_dtype="fp8")).kv_cache_dtype
        'fp8_ds_mla'
    """
    dtype = stored_cache_dtype(model, gpu, flags.kv_cache_dtype)
    return replace(flags, kv_cache_dtype=dtype)


def _numbers(group: LayerGroup, index: int, num_groups: int) -> tuple[int, ...]:
    """Numbers for a group's layers that keep the model's order and never collide.

    A layer with two attentions of one kind (LongCat-Flash) keeps its number twice: both are on one
    stage, and both count.
    """
    return tuple(position * num_groups + index for position in group.positions)


def _stages(
    model: Model, flags: ServerFlags, parts: list[Part], num_groups: int
) -> tuple[frozenset[int], ...]:
    bounds = stage_bounds(model.num_layers, flags.pipeline_parallel_size)
    numbers = [layer for part in parts for layer in part.layers]
    return tuple(
        frozenset(number for number in numbers if first <= number // num_groups < end)
        for first, end in bounds
    )


def _check_split(model: Model, flags: ServerFlags) -> None:
    heads, size = model.num_attention_heads, flags.tensor_parallel_size
    if heads % size:
        raise FlagError(
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel size "
            f"({size})."
        )
    for group in model.layers:
        if group.num_kv_heads and group.kind != LayerKind.LATENT:
            kv_heads_per_gpu(group.num_kv_heads, size)
    _check_context_split(model, flags)


def _check_context_split(model: Model, flags: ServerFlags) -> None:
    """Decode context parallelism spreads tokens over GPUs that would hold copies of a KV head.

    Source: vLLM 0.33.0 `vllm/config/parallel.py` (`_validate_parallel_config`) and
    `vllm/config/model.py` (`verify_with_parallel_config`), in this order.
    """
    size, spread = flags.tensor_parallel_size, flags.decode_context_parallel_size
    if size % spread:
        raise FlagError(f"tp_size={size} must be divisible by dcp_size={spread}.")
    heads = max((group.num_kv_heads for group in model.layers), default=0)
    if spread == 1 or not heads or model.group(LayerKind.LATENT):
        return
    if size <= heads:
        raise FlagError(
            f"tensor parallel size {size} must be greater than total num kv heads {heads} when "
            "enable decode context parallel for GQA/MQA"
        )
    if spread > size // heads:
        raise FlagError(
            "decode context parallel size must less than or equal to (tensor parallel size "
            f"{size} // total num kv heads {heads}) = {size // heads}, but got {spread}"
        )
    per_head = model.num_attention_heads // heads
    if per_head % spread:
        raise FlagError(
            f"Total number of q per kv attn heads ({per_head}) must be divisible by dcp world size "
            f"when enable decode context parallel for GQA ({spread})."
        )


def _with_state_dtype(group: LayerGroup, flags: ServerFlags) -> LayerGroup:
    """`--mamba-ssm-cache-dtype` wins over the model's own."""
    if flags.mamba_ssm_cache_dtype == "auto" or group.kind != LayerKind.RECURRENT:
        return group
    state = tuple(
        replace(piece, dtype=flags.mamba_ssm_cache_dtype) if piece.name == "state" else piece
        for piece in group.state
    )
    return replace(group, state=state)


def _group_spec(group: LayerGroup, dtype: str, tensor_parallel_size: int) -> LayerSpec:
    """The spec of one layer of a group, for blocks of one token."""
    kind = _SPEC_KINDS[group.kind]
    if kind == SpecKind.MAMBA:
        state_bytes = layer_state_bytes(group, tensor_parallel_size)
        return LayerSpec(kind, 0, 1, state_bytes=state_bytes)
    return LayerSpec(
        kind,
        token_bytes=layer_token_bytes(group, dtype, tensor_parallel_size),
        block_size=1,
        shape=(group.num_kv_heads, group.head_size, group.head_size_v, dtype),
        window=group.window,
    )


def _block_size(
    model: Model, specs: list[LayerSpec], flags: ServerFlags
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Tokens per block: as asked, else the backend's; raised for recurrent states. Notes, and log.

    Source: vLLM 0.33.0 `vllm/platforms/interface.py`, `update_block_size_for_backend` and
    `_align_hybrid_block_size`.
    """
    latent = bool(model.group(LayerKind.LATENT))
    notes: list[str] = []
    size = flags.block_size
    if size is None:
        size = _latent_block_size(model, flags) if latent else DEFAULT_BLOCK_SIZE
        if latent:
            notes.append(_latent_note(size))
    state = max((spec.state_bytes for spec in specs), default=0)
    attention = [spec.token_bytes for spec in specs if spec.kind != SpecKind.MAMBA]
    if not state or not attention:
        return size, tuple(notes), ()
    step = max(size, _MLA_ALIGNMENT) if latent else size
    raised = step * -(-state // (step * attention[0]))
    if raised > size:
        notes.append(
            f"block size raised from {size} to {raised} tokens so that a page of attention is no "
            "smaller than a recurrent state"
        )
    log = _alignment_log(size, raised, page=max(size, raised) * attention[0], state=state)
    return max(size, raised), tuple(notes), log


def _alignment_log(size: int, raised: int, *, page: int, state: int) -> tuple[str, ...]:
    """What vLLM prints when it brings a page of attention and a recurrent state to one size."""
    log = []
    if raised > size:
        log.append(
            f"Setting attention block size to {raised} tokens to ensure that attention page size "
            "is >= mamba page size."
        )
    if page > state:
        log.append(
            f"Padding mamba page size by {100 * (page - state) / state:.2f}% to ensure that mamba "
            "page size and attention page size are exactly equal."
        )
    return tuple(log)


def _latent_block_size(model: Model, flags: ServerFlags) -> int:
    """Tokens per block of a latent cache on Hopper.

    Source: vLLM 0.33.0 `vllm/platforms/cuda.py`, `_get_backend_priorities`: FLASH_ATTN_MLA comes
    first and keeps the default, of which it takes every multiple of 16
    (`vllm/v1/attention/backends/mla/flashattn_mla.py`; `vllm/v1/attention/backend.py`,
    `get_preferred_block_size`). It takes neither an fp8 cache, which falls to FLASHMLA, nor a
    sparse one, which falls to FLASH_ATTN_MLA_SPARSE or FLASHMLA_SPARSE: all three take 64.
    """
    sparse = any(group.indexer_bytes_per_token for group in model.group(LayerKind.LATENT))
    plain = resolve_cache_dtype(model, flags.kv_cache_dtype) in _SIXTEEN_BIT
    return DEFAULT_BLOCK_SIZE if plain and not sparse else _FLASHMLA_BLOCK_SIZE


def _latent_note(size: int) -> str:
    """What other GPUs would take (the same source, for models without sparse attention)."""
    backend = "FLASH_ATTN_MLA" if size == DEFAULT_BLOCK_SIZE else "FlashMLA and its kin"
    return (
        f"block size {size} is what {backend} takes on Hopper; a B200 takes 32 (FLASHINFER_MLA), "
        "other GPUs 16 (TRITON_MLA)"
    )


def _hybrid_manager(model: Model, flags: ServerFlags) -> bool:
    """Chunked attention switches the hybrid manager off.

    Source: vLLM 0.33.0 `vllm/config/vllm.py` (`attention_chunk_size`; the environment variable
    `VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE` turns it on again).
    """
    return not flags.disable_hybrid_kv_cache_manager and not model.group(LayerKind.CHUNKED)


def need_of(flags: ServerFlags, max_num_batched_tokens: int, *, has_attention: bool = True) -> Need:
    """What decides the blocks of a request.

    Batches in flight: one per pipeline stage, and one more with asynchronous scheduling (vLLM
    0.33.0 `vllm/config/vllm.py`, `max_concurrent_batches`). A recurrent state takes a second block
    with prefix caching, which models without attention do not have (`MambaSpec`;
    `vllm/config/model.py`, `is_prefix_caching_supported`).

    Examples:
        >>> from kvdocs.flags import ServerFlags
        >>> need_of(ServerFlags(), 2048).max_in_flight_tokens
        4096
    """
    batches = flags.pipeline_parallel_size + bool(flags.async_scheduling)
    return Need(
        max_in_flight_tokens=max_num_batched_tokens * batches,
        decode_context_parallel_size=flags.decode_context_parallel_size,
        state_blocks=2 if flags.enable_prefix_caching and has_attention else 1,
    )
