"""The settings of the serving engine, with vLLM's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdocs.errors import FlagError


class Policy(StrEnum):
    """Order of the waiting queue and choice of the preemption victim (`--scheduling-policy`)."""

    FCFS = "fcfs"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings that decide what the scheduler does.

    vLLM 0.33.0 `vllm/config/scheduler.py` and `vllm/config/cache.py`. The defaults here are small
    ones for teaching; asynchronous scheduling is vLLM's own default, and off here because a step
    is easier to read when its output comes back in the same step.

    Attributes:
        num_blocks: KV cache blocks, the null block included.
        block_size: Tokens in a block.
        max_num_seqs: Requests running at once, at most.
        max_num_batched_tokens: Token budget of one step.
        max_model_len: Tokens of prompt and output together, at most.
        enable_prefix_caching: Whether full blocks stay findable by content.
        enable_chunked_prefill: Whether a prompt may be split over steps.
        long_prefill_token_threshold: Largest prefill chunk while others are there; 0 is no limit.
        watermark: Share of the blocks an admission must leave free while something runs.
        scheduler_reserve_full_isl: Whether admission asks for room for the whole prompt, not only
            for its first chunk.
        policy: First come first served, or by priority.
        async_scheduling: Whether a step is scheduled before the output of the last has arrived.
        sliding_window: Window of all layers, in tokens; None is full attention.

    Examples:
        >>> EngineConfig(num_blocks=64).usable_blocks
        63
    """

    num_blocks: int = 100
    block_size: int = 16
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    policy: Policy = Policy.FCFS
    async_scheduling: bool = False
    sliding_window: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that no server would start with."""
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise FlagError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_blocks < 2:
            raise FlagError(
                f"num_blocks is {self.num_blocks}; it must be at least 2: block 0 holds no tokens"
            )
        if self.long_prefill_token_threshold < 0 or self.watermark < 0:
            raise FlagError("long_prefill_token_threshold and watermark must not be negative")
        if self.sliding_window is not None and self.sliding_window < 1:
            raise FlagError(f"sliding_window is {self.sliding_window}; it must be at least 1")

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold."""
        return self.num_blocks - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks an admission leaves free while something runs (vLLM: `KVCacheManager`)."""
        return int(self.watermark * self.num_blocks)

    @property
    def max_in_flight_tokens(self) -> int:
        """Tokens scheduled but not yet settled, at most.

        One batch, or two with asynchronous scheduling (vLLM 0.33.0 `vllm/config/vllm.py`
        max_in_flight_tokens).
        """
        return (1 + self.async_scheduling) * self.max_num_batched_tokens
