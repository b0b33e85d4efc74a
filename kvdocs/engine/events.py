"""What happened in a step, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdocs.engine.request import Status


class WaitReason(StrEnum):
    """Why the head of the waiting queue was not admitted."""

    BLOCKS = "not enough free blocks"
    SEQS = "max_num_seqs requests are running"
    BUDGET = "the token budget of the step is used up"
    UNSPLIT = "chunked prefill is off and the prompt exceeds the rest of the token budget"
    PREEMPTION = "a request was preempted in this step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A waiting request started to run.

    Attributes:
        request_id: Which.
        hit_tokens: Tokens found in the prefix cache.
        resumed: Whether it had been preempted before.
        hit_blocks: The blocks found (the null block where the window has passed).
    """

    request_id: str
    hit_tokens: int
    resumed: bool
    hit_blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running request lost its blocks and went back to waiting.

    Attributes:
        request_id: The victim.
        for_request_id: Who needed the blocks; the victim itself when nobody was left to take from.
        freed_blocks: Blocks that became free.
        lost_tokens: Tokens whose keys and values must be computed again (or found in the cache).
    """

    request_id: str
    for_request_id: str
    freed_blocks: int
    lost_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The head of the waiting queue was not admitted; all others wait behind it.

    Attributes:
        request_id: The head of the queue.
        reason: What it waits for.
        needed: Blocks (or tokens, for UNSPLIT) it needs, a watermark included; else 0.
        available: Blocks (or tokens) there were; else 0.
        num_behind: Requests waiting behind it.
    """

    request_id: str
    reason: WaitReason
    needed: int = 0
    available: int = 0
    num_behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A request ended.

    Attributes:
        request_id: Which.
        status: How.
        num_output_tokens: Tokens it had generated.
    """

    request_id: str
    status: Status
    num_output_tokens: int


@dataclass(slots=True, kw_only=True)
class Counters:
    """What an engine has counted since its start; the names are those of vLLM's metrics.

    Attributes:
        preemptions: Running requests that lost their blocks.
        prompt_tokens: Prompt tokens of the requests whose first token is out.
        prompt_tokens_cached: Of these, tokens found in the prefix cache at first admission.
        generation_tokens: Tokens generated.
        prefix_cache_queries: Tokens looked up in the prefix cache by first admissions.
        prefix_cache_hits: Of these, tokens found.
    """

    preemptions: int = 0
    prompt_tokens: int = 0
    prompt_tokens_cached: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What an engine shows at one moment.

    Attributes:
        clock: The moment, in seconds.
        running: Requests running.
        waiting: Requests waiting.
        usage: Share of the usable blocks that are held.
        counters: What has been counted until then.
    """

    clock: float
    running: int
    waiting: int
    usage: float
    counters: Counters


@dataclass(slots=True, kw_only=True)
class PrefixStats:
    """Prefix-cache lookups of admissions, in tokens (vLLM: `PrefixCacheStats`).

    Attributes:
        queries: Tokens looked up by first admissions.
        hits: Of these, tokens found.
        preempted_queries: Tokens looked up by re-admissions.
        preempted_hits: Of these, tokens found.
    """

    queries: int = 0
    hits: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
