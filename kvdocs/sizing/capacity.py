"""How many tokens and requests a server holds, and whether it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.model.cost import kv_cost
from kvdocs.model.layers import LayerKind, Model
from kvdocs.sizing.budget import Budget, default_max_num_batched_tokens
from kvdocs.sizing.engine import Engine, build_engine, need_of, stored_flags
from kvdocs.sizing.groups import NO_GROUPS, Grouping, group_layers
from kvdocs.sizing.plan import Plan, Worker, plan_cache

DEFAULT_MAX_NUM_BATCHED_TOKENS: Final = 8192
"""Tokens per step that `capacity` assumes when neither flag nor caller names one: what `vllm serve`
takes on GPUs of 70 to 160 GiB. It matters for windowed layers only."""
DEFAULT_MAX_MODEL_LEN: Final = 2048
"""The length vLLM assumes for a config that names none (`_get_and_verify_max_len`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The cache of one server (one data-parallel replica).

    Attributes:
        kv_pool_bytes: Cache bytes of the replica, all its GPUs together; 0 when nothing is left.
        kv_pool_bytes_per_gpu: Cache bytes of the GPU that has the least.
        kv_pool_tokens: Tokens the pool holds before blocks: pool over bytes per token, rounded
            down; for a model with windows or states, tokens in requests of `max_model_len`.
        num_gpu_blocks: Whole blocks, as the start-up log counts them; 0 when it does not start.
        block_size: Tokens per block.
        bytes_per_block: Bytes of one block on the GPU that binds.
        kv_block_tokens: Tokens in whole blocks: blocks times block size, over the groups, times the
            GPUs a sequence is spread over (the size vLLM printed before 0.20).
        kv_cache_size_tokens: The size vLLM prints since 0.20: concurrency times length.
        max_concurrency: Requests of `max_model_len` at once, as vLLM prints it.
        blocks_by_group: Blocks that vLLM counts for one of them, in each group of `grouping`.
        max_model_len: The longest request (after auto-fit).
        max_model_len_that_fits: The longest request that would fit, at most the model's.
        starts: Whether the server would start.
        refusal: vLLM's own text when it would not, else None.
        replicas: Data-parallel copies, each with a pool like this one.
        grouping: How the layers share the blocks.
        log: Lines vLLM prints when it plans the cache.
        worker_log: Lines each worker prints before, about the size of blocks.
        notes: What to know about the figures.
    """

    kv_pool_bytes: int
    kv_pool_bytes_per_gpu: int
    kv_pool_tokens: int
    num_gpu_blocks: int
    block_size: int
    bytes_per_block: int
    kv_block_tokens: int
    kv_cache_size_tokens: int
    max_concurrency: float
    blocks_by_group: tuple[int, ...]
    max_model_len: int
    max_model_len_that_fits: int
    starts: bool
    refusal: str | None
    replicas: int = 1
    grouping: Grouping = NO_GROUPS
    log: tuple[str, ...] = ()
    worker_log: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def max_requests(self) -> int:
        """Whole requests of `max_model_len` that fit at once in one replica."""
        return math.floor(self.max_concurrency)

    @property
    def total_max_concurrency(self) -> float:
        """Requests of `max_model_len` at once over all replicas."""
        return self.max_concurrency * self.replicas

    def refused(self, refusal: str) -> Capacity:
        """The same cache for a server that ends before it plans one.

        Args:
            refusal: The server's own text.
        """
        return replace(
            self,
            num_gpu_blocks=0,
            kv_block_tokens=0,
            kv_cache_size_tokens=0,
            max_concurrency=0.0,
            starts=False,
            refusal=refusal,
        )


def capacity_on(
    gpu: Gpu, model: Model, available: Budget | float | Sequence[float], flags: ServerFlags
) -> Capacity:
    """Return `capacity` with what follows from the GPU: how it stores the cache, and its batch.

    Args:
        gpu: The GPU the model is served on.
        model: The model.
        available: As `capacity` takes it.
        flags: The flags as given.

    Examples:
        >>> from kvdocs.catalog import get_gpu, get_model
        >>> llama = get_model("llama-3.1-8b").model
        >>> flags = ServerFlags(max_model_len=8192)
        >>> capacity_on(get_gpu("h100"), llama, 53_440_000_000, flags).num_gpu_blocks
        25482
    """
    return capacity(
        model,
        available,
        stored_flags(model, gpu, flags),
        max_num_batched_tokens=default_max_num_batched_tokens(gpu, flags),
    )


def capacity(
    model: Model,
    available: Budget | float | Sequence[float],
    flags: ServerFlags | None = None,
    *,
    max_num_batched_tokens: int | None = None,
) -> Capacity:
    """What a server of `model` does with the memory left for its cache.

    Args:
        model: The model.
        available: Cache bytes of each GPU: one budget or figure for all, or one figure per GPU in
            vLLM's order (stage by stage, tensor-parallel ranks inside).
        flags: The server's flags; vLLM's defaults when not given.
        max_num_batched_tokens: Tokens per step when no flag names one.

    Raises:
        FlagError: A flag that vLLM would refuse for this model.
        ConfigError: A cache dtype that cannot store this model's heads.

    Examples:
        >>> from kvdocs.model import parse_config
        >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "max_position_embeddings": 131072})
        >>> pool = capacity(llama, 53.44e9, ServerFlags(max_model_len=8192))
        >>> pool.kv_pool_tokens, pool.num_gpu_blocks, pool.kv_block_tokens, pool.max_requests
        (407714, 25482, 407712, 49)
    """
    flags = flags or ServerFlags()
    length = requested_length(model, flags)
    engine = build_engine(model, flags, length)
    per_worker = _available_bytes(available, flags)
    if not engine.parts:
        return _no_cache(length, flags, engine)
    batch = flags.max_num_batched_tokens or max_num_batched_tokens
    has_attention = any(group.num_kv_heads for group in model.layers)
    need = need_of(flags, batch or DEFAULT_MAX_NUM_BATCHED_TOKENS, has_attention=has_attention)
    grouping = group_layers(engine.parts, hybrid_manager=engine.hybrid_manager)
    ranks = flags.tensor_parallel_size
    workers = [Worker(size, engine.stages[i // ranks]) for i, size in enumerate(per_worker)]
    plan = plan_cache(
        grouping,
        workers,
        need,
        max_model_len=length,
        num_gpu_blocks_override=flags.num_gpu_blocks_override,
        auto_fit=flags.auto_fit_max_model_len,
        longest_of_interest=model.max_model_len or 0,
    )
    return _capacity(model, flags, engine, plan)


def requested_length(model: Model, flags: ServerFlags) -> int:
    """The longest request the server is asked to take.

    Source: vLLM 0.33.0 `vllm/config/model.py`, `_get_and_verify_max_len`.

    Raises:
        FlagError: More than the model's own limit.

    Examples:
        >>> from kvdocs.model import parse_config
        >>> model = parse_config({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
        ...     "n_positions": 1024})
        >>> requested_length(model, ServerFlags())
        1024
    """
    limit = model.max_model_len
    if flags.max_model_len is None:
        return limit or DEFAULT_MAX_MODEL_LEN
    if limit is not None and flags.max_model_len > limit:
        raise FlagError(too_long_for_model(flags.max_model_len, limit))
    return flags.max_model_len


def too_long_for_model(max_model_len: int, limit: int) -> str:
    """The text vLLM has for a length above the model's own (`_get_and_verify_max_len`).

    Examples:
        >>> too_long_for_model(200000, 131072)[:62]
        'User-specified max_model_len (200000) is greater than the deri'
    """
    return (
        f"User-specified max_model_len ({max_model_len}) is greater than the derived "
        f"max_model_len (max_position_embeddings={float(limit)} or model_max_length=None in "
        "model's config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme "
        "caution. If the model uses relative position encoding (RoPE), positions exceeding "
        "derived_max_model_len lead to nan. If the model uses absolute position encoding, "
        "positions exceeding derived_max_model_len will cause a CUDA array out-of-bounds error."
    )


def _available_bytes(
    available: Budget | float | Sequence[float], flags: ServerFlags
) -> tuple[int, ...]:
    """Cache bytes per GPU; `--kv-cache-memory-bytes` replaces what profiling would leave."""
    gpus = flags.world_size
    if flags.kv_cache_memory_bytes is not None:
        return (flags.kv_cache_memory_bytes,) * gpus
    if isinstance(available, Budget):
        return (available.kv_bytes,) * gpus
    if isinstance(available, (int, float)):
        return (math.floor(available),) * gpus
    if len(available) != gpus:
        raise FlagError(
            f"{len(available)} figures of available memory for {gpus} GPUs; one per GPU is needed"
        )
    return tuple(math.floor(size) for size in available)


def _no_cache(length: int, flags: ServerFlags, engine: Engine) -> Capacity:
    """A model whose layers keep nothing: vLLM plans one block, the reserved one."""
    return Capacity(
        kv_pool_bytes=0,
        kv_pool_bytes_per_gpu=0,
        kv_pool_tokens=0,
        num_gpu_blocks=1,
        block_size=engine.block_size,
        bytes_per_block=0,
        kv_block_tokens=0,
        kv_cache_size_tokens=0,
        max_concurrency=0.0,
        blocks_by_group=(),
        max_model_len=length,
        max_model_len_that_fits=length,
        starts=True,
        refusal=None,
        replicas=flags.data_parallel_size,
        notes=("no layer keeps anything for a sequence",),
    )


def _capacity(model: Model, flags: ServerFlags, engine: Engine, plan: Plan) -> Capacity:
    groups = plan.grouping.groups
    shares = [
        have / block for have, block in zip(plan.available_bytes, plan.bytes_per_block, strict=True)
    ]
    binding = shares.index(min(shares))
    # A block spans that many tokens on each GPU a sequence is spread over (0.18, `kv_cache_utils`).
    tokens_of_block = min(group.block_size for group in groups) * flags.decode_context_parallel_size
    return Capacity(
        kv_pool_bytes=sum(max(size, 0) for size in plan.available_bytes),
        kv_pool_bytes_per_gpu=max(min(plan.available_bytes), 0),
        kv_pool_tokens=_pool_tokens(model, flags, plan),
        num_gpu_blocks=plan.num_blocks,
        block_size=engine.block_size,
        bytes_per_block=plan.bytes_per_block[binding],
        kv_block_tokens=plan.num_blocks // len(groups) * tokens_of_block,
        kv_cache_size_tokens=plan.kv_cache_size_tokens,
        max_concurrency=plan.max_concurrency,
        blocks_by_group=plan.blocks_by_group,
        max_model_len=plan.max_model_len,
        max_model_len_that_fits=plan.max_model_len_that_fits,
        starts=plan.refusal is None,
        refusal=plan.refusal,
        replicas=flags.data_parallel_size,
        grouping=plan.grouping,
        log=plan.log,
        worker_log=engine.log,
        notes=(*engine.notes, *_notes(model, flags, plan)),
    )


def _pool_tokens(model: Model, flags: ServerFlags, plan: Plan) -> int:
    """Tokens before blocks.

    For a model with windows or states the only such figure is the one in requests of the maximum
    length.
    """
    plain = all(group.kind in _WHOLE for group in model.layers)
    if not plain:
        return plan.kv_cache_size_tokens
    cost = kv_cost(
        model,
        kv_cache_dtype=flags.kv_cache_dtype,
        tensor_parallel_size=flags.tensor_parallel_size,
        pipeline_parallel_size=flags.pipeline_parallel_size,
    )
    held = max(min(plan.available_bytes), 0) // cost.bytes_per_token_per_gpu
    return held * flags.decode_context_parallel_size


_WHOLE: Final = frozenset({LayerKind.FULL, LayerKind.LATENT, LayerKind.NONE, LayerKind.SHARED})


def _notes(model: Model, flags: ServerFlags, plan: Plan) -> tuple[str, ...]:
    notes = []
    if plan.grouping.padding_bytes:
        notes.append("the last group of a kind is padded to the size of the others")
    if model.group(LayerKind.CHUNKED):
        notes.append(
            "vLLM keeps the whole context in chunked layers, too, unless "
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is set"
        )
    if model.max_model_len is None and flags.max_model_len is None:
        notes.append(f"the config names no length; vLLM assumes {DEFAULT_MAX_MODEL_LEN:,}")
    unread = [flag for flag in flags.others if flag.lstrip("-").partition(".")[0] in _CHANGES_CACHE]
    if unread:
        notes.append(f"{', '.join(unread)} can change the cache and is not counted")
    return tuple(notes)


_CHANGES_CACHE: Final = frozenset(
    {
        "speculative-config",
        "sc",
        "spec-method",
        "hf-overrides",
        "kv-cache-dtype-skip-layers",
        "prefill-context-parallel-size",
        "attention-config",
        "disable-sliding-window",
        "mamba-cache-dtype",
        "enable-mamba-shared-prefix-checkpoint",
    }
)
