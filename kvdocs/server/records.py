"""What became of each request, and what the metrics were over time."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kvdocs.engine.request import Request, Status


class FinishReason(StrEnum):
    """Why a request ended; `length` and `abort` are vLLM's words (`vllm/v1/engine/__init__.py`)."""

    LENGTH = "length"
    ABORT = "abort"
    REFUSED = "refused"


class RequestRecord(NamedTuple):
    """One request that has ended. Times are seconds on the server's clock.

    Attributes:
        id: Which request.
        place: Its place in the workload.
        arrival_s: When it arrived.
        admitted_s: When it first got to run; None if it never did.
        first_token_s: When its first token came out; None if none did.
        finished_s: When it ended; of a refused one, its arrival.
        reason: Why it ended.
        num_prompt_tokens: Length of its prompt.
        max_tokens: Tokens it asked for.
        num_output_tokens: Tokens it got.
        hit_tokens: Prompt tokens found in the prefix cache at its first admission.
        num_preemptions: How often it lost its blocks.
        recomputed_tokens: Tokens computed again because of that.
        refusal: What a refused one was told.
    """

    id: str
    place: int
    arrival_s: float
    admitted_s: float | None
    first_token_s: float | None
    finished_s: float
    reason: FinishReason
    num_prompt_tokens: int
    max_tokens: int
    num_output_tokens: int
    hit_tokens: int = 0
    num_preemptions: int = 0
    recomputed_tokens: int = 0
    refusal: str = ""

    @property
    def queue_s(self) -> float | None:
        """Time from arrival to first being scheduled."""
        return None if self.admitted_s is None else self.admitted_s - self.arrival_s

    @property
    def ttft_s(self) -> float | None:
        """Time from arrival to the first token."""
        return None if self.first_token_s is None else self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float | None:
        """Time from arrival to the end; None for a request that was refused."""
        return None if self.reason is FinishReason.REFUSED else self.finished_s - self.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; None with fewer than two.

        Examples:
            >>> RequestRecord("a", 0, 1.0, 1.5, 2.0, 5.0, FinishReason.LENGTH, 9, 4, 4).tpot_s
            1.0
        """
        if self.first_token_s is None or self.num_output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.num_output_tokens - 1)


class Sample(NamedTuple):
    """What the server's metrics showed at one time: the state after all turns begun before it.

    A turn that is under way counts as done, as both engines stop between turns only.

    Attributes:
        time_s: The time, in seconds.
        running: Requests running.
        waiting: Requests waiting.
        kv_cache_usage: Share of the blocks in use, 0 to 1.
        preemptions: Preemptions since the start.
        finished: Requests finished since the start.
        prefix_hit_rate: Share of tokens found in the cache, over about the last 1,000 requests.
        prompt_tokens_per_s: Prompt tokens since the sample before, cached ones included.
        generation_tokens_per_s: Tokens generated since the sample before.
    """

    time_s: float
    running: int
    waiting: int
    kv_cache_usage: float
    preemptions: int
    finished: int
    prefix_hit_rate: float
    prompt_tokens_per_s: float
    generation_tokens_per_s: float


_REASONS = {
    Status.FINISHED_LENGTH_CAPPED: FinishReason.LENGTH,
    Status.FINISHED_ABORTED: FinishReason.ABORT,
}


def record_of(request: Request, place: int) -> RequestRecord:
    """The record of a request that the engine has ended.

    Args:
        request: The request.
        place: Its place in the workload.
    """
    return RequestRecord(
        request.id,
        place,
        request.arrival,
        request.admitted_at,
        request.first_token_at,
        request.finished_at or 0.0,
        _REASONS[request.status],
        request.num_prompt_tokens,
        request.max_tokens,
        request.num_output_tokens,
        request.hit_tokens,
        request.num_preemptions,
        request.num_recomputed_tokens,
    )
