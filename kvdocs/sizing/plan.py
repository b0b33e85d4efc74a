"""From available bytes to blocks, concurrency and refusals, as vLLM plans them.

Source: vLLM 0.33.0 `vllm/v1/core/kv_cache_planning.py` (`get_kv_cache_configs`) and
`vllm/v1/core/kv_cache_utils.py` (`get_kv_cache_capacity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvdocs.sizing.groups import Group, Grouping
from kvdocs.sizing.specs import Need
from kvdocs.units import format_gib_as_vllm

_SEE: Final = (
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)
NO_MEMORY: Final = (
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
    "initializing the engine (this flag also controls CPU memory reservation on the CPU backend, "
    f"despite its name). {_SEE}"
)
"""vLLM's text when nothing is left for the cache (`_check_enough_kv_cache_memory`)."""
CANNOT_AUTO_FIT: Final = (
    "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. "
    "Try increasing `gpu_memory_utilization`."
)
"""vLLM's text when auto-fit finds no length (`_auto_fit_max_model_len`)."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One GPU.

    Attributes:
        available_bytes: What profiling left for the cache; may be 0 or less.
        layers: The layers it holds.
    """

    available_bytes: int
    layers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the server would do with the memory.

    Attributes:
        grouping: The groups.
        num_blocks: Blocks on every GPU, the reserved one included; 0 when it does not start.
        bytes_per_block: Bytes of one block per GPU.
        available_bytes: Cache bytes per GPU that the plan counts with.
        blocks_by_group: Blocks a request of `max_model_len` takes in each group.
        max_model_len: The length planned for (after auto-fit).
        max_model_len_that_fits: The longest request that would fit, up to the length asked for.
        refusal: vLLM's text, or None when it starts.
        log: Lines vLLM prints.
    """

    grouping: Grouping
    num_blocks: int
    bytes_per_block: tuple[int, ...]
    available_bytes: tuple[int, ...]
    blocks_by_group: tuple[int, ...]
    max_model_len: int
    max_model_len_that_fits: int
    refusal: str | None
    log: tuple[str, ...]

    @property
    def blocks_per_request(self) -> int:
        """Blocks a request of `max_model_len` takes."""
        return sum(self.blocks_by_group)

    @property
    def max_concurrency(self) -> float:
        """Requests of `max_model_len` that fit at once, as vLLM prints it."""
        return self.num_blocks / self.blocks_per_request if self.blocks_per_request else 0.0

    @property
    def kv_cache_size_tokens(self) -> int:
        """The size vLLM prints since 0.20: concurrency times length, rounded down."""
        return int(self.max_concurrency * self.max_model_len)


def plan_cache(
    grouping: Grouping,
    workers: Sequence[Worker],
    need: Need,
    *,
    max_model_len: int,
    num_gpu_blocks_override: int | None = None,
    auto_fit: bool = False,
    longest_of_interest: int = 0,
) -> Plan:
    """Plan the cache of one engine.

    Args:
        grouping: The model's groups.
        workers: The engine's GPUs.
        need: What decides how many blocks a request takes.
        max_model_len: Longest request, in tokens; with `auto_fit` the most it may become.
        num_gpu_blocks_override: `--num-gpu-blocks-override`.
        auto_fit: `--max-model-len -1`.
        longest_of_interest: Up to which length to look for the longest that fits; at least
            `max_model_len`.

    Examples:
        >>> from kvdocs.sizing.groups import Part, group_layers
        >>> from kvdocs.sizing.specs import LayerSpec, SpecKind
        >>> layers = tuple(range(32))
        >>> spec = LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16)
        >>> grouping = group_layers([Part(spec, layers)])
        >>> plan = plan_cache(grouping, [Worker(2**30, frozenset(layers))],
        ...     Need(max_in_flight_tokens=8192), max_model_len=4096)
        >>> plan.num_blocks, plan.max_concurrency, plan.refusal is None
        (512, 2.0, True)
    """
    log = list(grouping.log)
    per_block = tuple(_bytes_per_block(grouping.groups, worker) for worker in workers)
    available = tuple(worker.available_bytes for worker in workers)
    if num_gpu_blocks_override is not None:
        log += [
            f"Overriding num_gpu_blocks={have // block} with "
            f"num_gpu_blocks_override={num_gpu_blocks_override}"
            for have, block in zip(available, per_block, strict=True)
        ]
        available = tuple(num_gpu_blocks_override * block for block in per_block)
    # One block is never handed out (the null block), so the checks count without it.
    usable = [have - block for have, block in zip(available, per_block, strict=True)]
    most = max(max_model_len, longest_of_interest)
    fits = [
        _longest(grouping.groups, need, have // block, most)
        for have, block in zip(usable, per_block, strict=True)
    ]
    length = max_model_len
    refusal = None
    if auto_fit:
        shorter = [min(fit, max_model_len) for fit in fits]
        length, refusal = _auto_fit(shorter, usable, max_model_len, log)
    refusal = refusal or _refusal(grouping.groups, need, usable, per_block, length)
    num_blocks = 0
    if refusal is None:
        num_blocks = min(have // block for have, block in zip(available, per_block, strict=True))
    request = blocks_by_group(grouping.groups, need, length)
    if refusal is None:
        log.append(capacity_line(num_blocks / sum(request), length))
    return Plan(
        grouping=grouping,
        num_blocks=num_blocks,
        bytes_per_block=per_block,
        available_bytes=available,
        blocks_by_group=request,
        max_model_len=length,
        max_model_len_that_fits=min(fits),
        refusal=refusal,
        log=tuple(log),
    )


def capacity_line(max_concurrency: float, max_model_len: int) -> str:
    """The line vLLM prints since 0.29 when it starts (`update_kv_cache_capacity`).

    Examples:
        >>> capacity_line(50.0, 8192)
        'GPU KV cache size: 409,600 tokens, Maximum concurrency for 8,192 tokens per request: ...
    """
    return (
        f"GPU KV cache size: {int(max_concurrency * max_model_len):,} tokens, Maximum concurrency "
        f"for {max_model_len:,} tokens per request: {max_concurrency:.2f}x"
    )


def blocks_per_request(groups: Sequence[Group], need: Need, max_model_len: int) -> int:
    """Blocks one request of `max_model_len` tokens takes, over all groups.

    Examples:
        >>> from kvdocs.sizing.groups import Group, Part
        >>> from kvdocs.sizing.specs import LayerSpec, SpecKind
        >>> spec = LayerSpec(SpecKind.SLIDING, token_bytes=4096, block_size=16, window=128)
        >>> need = Need(max_in_flight_tokens=2048)
        >>> blocks_per_request([Group((Part(spec, (0,)),))], need, 32768)
        137
    """
    return sum(blocks_by_group(groups, need, max_model_len))


def blocks_by_group(groups: Sequence[Group], need: Need, max_model_len: int) -> tuple[int, ...]:
    """Blocks one request of `max_model_len` tokens takes in each group.

    Examples:
        >>> from kvdocs.sizing.groups import Group, Part
        >>> from kvdocs.sizing.specs import LayerSpec, SpecKind
        >>> kinds = ((SpecKind.SLIDING, 128), (SpecKind.FULL, 0))
        >>> specs = [LayerSpec(kind, token_bytes=4096, block_size=16, window=window)
        ...     for kind, window in kinds]
        >>> groups = [Group((Part(spec, (0,)),)) for spec in specs]
        >>> blocks_by_group(groups, Need(max_in_flight_tokens=2048), 32768)
        (137, 2048)
    """
    return tuple(
        max(need.blocks(part.spec, max_model_len) for part in group.parts) for group in groups
    )


def _bytes_per_block(groups: Sequence[Group], worker: Worker) -> int:
    """The widest group on this worker; a worker without cached layers still holds its share."""
    return max(1, *(group.bytes_on(worker.layers) for group in groups))


def _needed(groups: Sequence[Group], need: Need, per_block: int, max_model_len: int) -> int:
    return per_block * blocks_per_request(groups, need, max_model_len)


def _longest(groups: Sequence[Group], need: Need, blocks: int, most: int) -> int:
    """Binary search, as vLLM's `_estimate_max_model_len_from_groups`."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_per_request(groups, need, middle) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low


def _auto_fit(
    fits: Sequence[int], usable: Sequence[int], most: int, log: list[str]
) -> tuple[int, str | None]:
    best = min(fits)
    if best <= 0:
        return most, CANNOT_AUTO_FIT
    limiting = usable[list(fits).index(best)] if best < most else usable[0]
    memory = f"available KV cache memory ({format_gib_as_vllm(limiting)} GiB GPU)"
    if best >= most:
        log.append(f"Auto-fit max_model_len: full model context length {most} fits in {memory}")
    else:
        log.append(f"Auto-fit max_model_len: reduced from {most} to {best} to fit in {memory}")
    return best, None


def _refusal(
    groups: Sequence[Group],
    need: Need,
    usable: Sequence[int],
    per_block: Sequence[int],
    max_model_len: int,
) -> str | None:
    """VLLM's text for the first worker that has too little, or None."""
    for have, block in zip(usable, per_block, strict=True):
        if have <= 0:
            return NO_MEMORY
        needed = _needed(groups, need, block, max_model_len)
        if needed > have:
            longest = _longest(groups, need, have // block, max_model_len)
            return too_long(max_model_len, needed, have, longest)
    return None


def too_long(max_model_len: int, needed: int, have: int, longest: int) -> str:
    """VLLM's refusal of a length that does not fit (the open bracket is vLLM's own).

    Examples:
        >>> "estimated maximum model length is 16368" in too_long(16384, 2**31, 2**31 - 1, 16368)
        True
    """
    estimate = ""
    if longest > 0:
        estimate = (
            f"Based on the available memory, the estimated maximum model length is {longest}. "
        )
    return (
        f"To serve at least one request with the model's max seq len ({max_model_len}), "
        f"({format_gib_as_vllm(needed)} GiB KV cache is needed, which is larger than the available "
        f"KV cache memory ({format_gib_as_vllm(have)} GiB). {estimate}Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        f"decreasing `max_model_len` when initializing the engine. {_SEE}"
    )
