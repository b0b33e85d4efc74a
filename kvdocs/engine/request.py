"""A request: what the user asked for, and how far the engine has come with it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from kvdocs.blocks import ROOT_HASH
from kvdocs.engine.config import EngineConfig
from kvdocs.engine.prompt import Prompt


class Status(StrEnum):
    """Where a request is; the names are vLLM's (`vllm/v1/request.py` RequestStatus)."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PREEMPTED = "PREEMPTED"
    FINISHED_LENGTH_CAPPED = "FINISHED_LENGTH_CAPPED"
    FINISHED_ABORTED = "FINISHED_ABORTED"

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to the request."""
        return self is Status.FINISHED_LENGTH_CAPPED or self is Status.FINISHED_ABORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """One request as the user submits it.

    Attributes:
        id: Its name, unique in a run.
        prompt: What it asks with.
        max_tokens: Tokens to generate (an end-of-sequence token is not simulated).
        arrival: When it arrives, in seconds on the engine's clock.
        priority: Low numbers are more urgent; used by the priority policy only.
        salt: Requests with different salts never share blocks (vLLM: `cache_salt`).
        abort_at: When the user gives up, in seconds; None is never.
        received_tokens: Leading tokens whose keys and values another server computed and sent;
            the last token is computed here in any case.
    """

    id: str
    prompt: Prompt
    max_tokens: int
    arrival: float = 0.0
    priority: int = 0
    salt: str = ""
    abort_at: float | None = None
    received_tokens: int = 0


class Request:
    """A request inside the engine.

    There is no prefill and no decode state: every step moves `num_computed_tokens` towards
    `num_tokens` (vLLM 0.33.0 `vllm/v1/core/sched/scheduler.py` schedule, and `vllm/v1/request.py`).

    Args:
        spec: What was submitted.
        config: The engine's settings.

    Attributes:
        num_tokens: Tokens of the prompt and of the output so far.
        num_computed_tokens: Tokens whose keys and values are stored or scheduled to be.
        num_in_flight_tokens: Of these, tokens of steps whose output has not been processed.
        num_output_placeholders: Output tokens scheduled but not yet known (asynchronous only).
        num_stale_tokens: In-flight tokens of the time before a preemption.
        num_preemptions: How often it lost its blocks.
        num_lost_tokens: Tokens it had computed when it lost them, all preemptions together.
        num_recomputed_tokens: Of these, tokens it did not find again in the prefix cache when it
            was resumed.
        last_lost_tokens: Tokens lost in the last preemption.
        hit_tokens: Prefix hit of its first admission.
        admitted_at: When it first got to run, in seconds; None while it has not. Likewise
            `first_token_at`, `last_token_at` and `finished_at` (also when it was aborted).
        blocks: The block table: block ids, the null block where the window has passed.
        num_cached_blocks: Leading blocks already offered to the prefix cache.
    """

    __slots__ = (
        "_block_size",
        "_keys",
        "admitted_at",
        "arrival",
        "blocks",
        "finished_at",
        "first_token_at",
        "hit_tokens",
        "id",
        "last_lost_tokens",
        "last_token_at",
        "last_token_count",
        "max_tokens",
        "num_cached_blocks",
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_lost_tokens",
        "num_output_placeholders",
        "num_preemptions",
        "num_prompt_tokens",
        "num_recomputed_tokens",
        "num_shared_blocks",
        "num_stale_tokens",
        "num_tokens",
        "priority",
        "spec",
        "status",
    )

    def __init__(self, spec: RequestSpec, config: EngineConfig) -> None:
        self.spec = spec
        self.id = spec.id
        self.priority = spec.priority
        self.arrival = spec.arrival
        self.max_tokens = spec.max_tokens
        self.num_prompt_tokens = self.num_tokens = spec.prompt.num_tokens
        self.last_token_count = last_token_count(spec, config)
        self.status = Status.WAITING
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.num_output_placeholders = 0
        self.num_stale_tokens = 0
        self.num_preemptions = 0
        self.num_lost_tokens = 0
        self.num_recomputed_tokens = 0
        self.last_lost_tokens = 0
        self.hit_tokens = 0
        self.admitted_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at = 0.0
        self.finished_at: float | None = None
        self.blocks: list[int] = []
        self.num_cached_blocks = 0
        self.num_shared_blocks = spec.prompt.num_shared_blocks(config.block_size)
        self._block_size = config.block_size
        self._keys: list[Hashable] = []

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""
        return self.num_tokens - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to the request."""
        return self.status.is_finished

    @property
    def order(self) -> tuple[int, float, str]:
        """Sort key of the priority queue (vLLM: `Request.__lt__`)."""
        return (self.priority, self.arrival, self.id)

    def block_key(self, index: int) -> Hashable:
        """The chained key of one of the request's full blocks.

        Args:
            index: Which block, from 0.

        Returns:
            A key equal to another request's only where their tokens are equal from the start.
        """
        if index >= self.num_shared_blocks:
            return ("private", self.id, index)
        keys = self._keys
        while len(keys) <= index:
            key = self.spec.prompt.block_key(
                len(keys),
                block_size=self._block_size,
                parent=keys[-1] if keys else ROOT_HASH,
                salt=self.spec.salt,
            )
            keys.append(key)
        return keys[index]


def last_token_count(spec: RequestSpec, config: EngineConfig) -> int:
    """Tokens of prompt and output together when the request finishes.

    It finishes at `max_tokens` outputs or when prompt and output reach `max_model_len`, whichever
    comes first, and never before its first token (vLLM 0.33.0 `vllm/v1/core/sched/utils.py`
    check_stop).

    Args:
        spec: The request.
        config: The engine's settings.

    Returns:
        Tokens.
    """
    prompt = spec.prompt.num_tokens
    return max(prompt + 1, min(prompt + spec.max_tokens, config.max_model_len))
