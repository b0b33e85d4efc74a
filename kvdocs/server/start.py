"""Starting a server: from a model, a GPU and flags to an engine's settings, or to a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvdocs.engine import EngineConfig, Policy
from kvdocs.errors import FlagError, StartError
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.metrics import cache_config_info
from kvdocs.model import Model
from kvdocs.server.server import Server
from kvdocs.sizing import (
    Budget,
    Capacity,
    Limits,
    capacity,
    check_flags,
    default_max_num_batched_tokens,
    limits_of,
    stored_flags,
)
from kvdocs.sizing.engine import need_of
from kvdocs.sizing.plan import blocks_per_request
from kvdocs.sizing.specs import SpecKind
from kvdocs.timing import Efficiency, RooflineTimer, Weights


def start_server(
    model: Model,
    gpu: Gpu,
    flags: ServerFlags,
    *,
    available: Budget | float | Sequence[float],
    weights: Weights,
    efficiency: Efficiency | None = None,
    typical_tokens: int | None = None,
    model_name: str = "",
) -> Server:
    """Start a server, or refuse as vLLM does.

    Args:
        model: The model.
        gpu: The GPU.
        flags: The server's flags.
        available: Memory of each GPU: a budget, or bytes left for the cache.
        weights: The model's parameters, for the timing.
        efficiency: What of the GPU's peak figures is reached.
        typical_tokens: Length of a typical request, prompt and output, in tokens. It matters for
            models that mix kinds of layers only: their pool is counted in such requests. The
            longest request when not given.
        model_name: What the metrics page calls the model.

    Raises:
        StartError: The server would not start, in vLLM's words.
        FlagError: Flags that vLLM would refuse, or that are not simulated.

    Examples:
        >>> from kvdocs.scenario import LESSON, size_lesson
        >>> size = size_lesson()
        >>> entry = size.model
        >>> weights = Weights.from_config(entry.config, num_parameters=entry.num_parameters)
        >>> server = start_server(entry.model, size.gpu, ServerFlags(max_model_len=8192),
        ...     available=size.budget, weights=weights)
        >>> server.config.num_blocks, server.config.max_num_seqs
        (25482, 1024)
        >>> start_server(entry.model, size.gpu, ServerFlags(), available=1e9, weights=weights)
        Traceback (most recent call last):
        kvdocs.errors.StartError: To serve at least one request with the model's max seq len ...
    """
    _check_simulated(flags)
    check_flags(model, gpu, flags)
    flags = stored_flags(model, gpu, flags)
    plan = capacity(
        model,
        available,
        flags,
        max_num_batched_tokens=default_max_num_batched_tokens(gpu, flags),
    )
    if plan.refusal is not None:
        raise StartError(plan.refusal)
    config = _engine_config(gpu, flags, plan)
    config, notes = _with_blocks(config, model, flags, plan, typical_tokens or plan.max_model_len)
    timer = RooflineTimer(
        model=model,
        weights=weights,
        gpu=gpu,
        efficiency=efficiency,
        kv_cache_dtype=flags.kv_cache_dtype,
        tensor_parallel_size=flags.tensor_parallel_size,
    )
    return Server(
        config=config,
        timer=timer,
        model_name=model_name or flags.model or "model",
        capacity=plan,
        cache_config=_cache_config(flags, plan),
        notes=(*notes, *_not_simulated(flags)),
    )


def check_limits(config: EngineConfig) -> None:
    """Refuse limits that vLLM does not start with.

    Raises:
        FlagError: In vLLM's words.

    Examples:
        >>> check_limits(EngineConfig(max_num_seqs=8, max_num_batched_tokens=4))
        Traceback (most recent call last):
        kvdocs.errors.FlagError: max_num_batched_tokens (4) must be greater than or equal to ...
    """
    limits = Limits(config.max_num_seqs, config.max_num_batched_tokens, config.max_model_len)
    limits.check(
        enable_chunked_prefill=config.enable_chunked_prefill,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
    )


def _check_simulated(flags: ServerFlags) -> None:
    for name in ("pipeline_parallel_size", "data_parallel_size"):
        value = getattr(flags, name)
        if value > 1:
            flag = f"--{name.replace('_', '-')}"
            raise FlagError(
                f"{flag} {value} is not simulated; use {flag} 1 and, for copies of a server, the "
                "share of the load that one copy gets"
            )


def _engine_config(gpu: Gpu, flags: ServerFlags, plan: Capacity) -> EngineConfig:
    limits = limits_of(gpu, flags, plan.max_model_len)
    return EngineConfig(
        num_blocks=max(plan.num_gpu_blocks, 2),
        block_size=plan.block_size * flags.decode_context_parallel_size,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_model_len=limits.max_model_len,
        enable_prefix_caching=flags.enable_prefix_caching,
        enable_chunked_prefill=flags.enable_chunked_prefill,
        long_prefill_token_threshold=flags.long_prefill_token_threshold,
        watermark=flags.watermark,
        scheduler_reserve_full_isl=flags.scheduler_reserve_full_isl,
        policy=Policy(flags.scheduling_policy),
        async_scheduling=flags.async_scheduling,
    )


def _with_blocks(
    config: EngineConfig, model: Model, flags: ServerFlags, plan: Capacity, typical_tokens: int
) -> tuple[EngineConfig, tuple[str, ...]]:
    """Settings with the blocks that the engine, which knows one kind of layer, is to count with."""
    groups = plan.grouping.groups
    if not groups:
        raise FlagError("this model keeps nothing for a sequence: there is no cache to simulate")
    kinds = {part.spec.kind for group in groups for part in group.parts}
    if kinds <= {SpecKind.FULL, SpecKind.MLA} and len(groups) == 1:
        return config, ()
    if kinds == {SpecKind.SLIDING} and len(groups) == 1:
        return replace(config, sliding_window=groups[0].parts[0].spec.window), ()
    has_attention = any(group.num_kv_heads for group in model.layers)
    need = need_of(flags, config.max_num_batched_tokens, has_attention=has_attention)
    length = min(typical_tokens, config.max_model_len)
    per_request = blocks_per_request(groups, need, length)
    num_blocks = plan.num_gpu_blocks * -(-length // config.block_size) // per_request
    note = (
        "this model mixes kinds of layers; its pool is simulated as one of whole-context blocks "
        f"that holds as many requests of {length:,} tokens ({num_blocks:,} blocks)"
    )
    return replace(config, num_blocks=max(num_blocks, 2)), (note,)


def _cache_config(flags: ServerFlags, plan: Capacity) -> dict[str, str]:
    return cache_config_info(
        block_size=plan.block_size,
        cache_dtype=flags.kv_cache_dtype,
        enable_prefix_caching=flags.enable_prefix_caching,
        gpu_memory_utilization=flags.gpu_memory_utilization,
        kv_cache_max_concurrency=plan.max_concurrency,
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
        kv_cache_size_tokens=plan.kv_cache_size_tokens,
        num_gpu_blocks=plan.num_gpu_blocks,
        num_gpu_blocks_override=flags.num_gpu_blocks_override,
        user_specified_block_size=flags.block_size is not None,
    )


def _not_simulated(flags: ServerFlags) -> tuple[str, ...]:
    notes = []
    if flags.kv_offloading_size:
        notes.append(
            "--kv-offloading-size is not simulated here: evicted blocks are gone; "
            "kvdocs.offload.simulate_offload has the tiers"
        )
    if flags.cpu_offload_gb:
        notes.append("--cpu-offload-gb counts for the memory, not for the time of a step")
    return tuple(notes)
