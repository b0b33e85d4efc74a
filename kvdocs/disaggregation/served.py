"""What became of requests, on workers that share the work and on workers that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvdocs.engine.tally import Tally
from kvdocs.errors import FlagError
from kvdocs.server.run import Latency, gap_latency, latency


class Served(NamedTuple):
    """One request's way. Times are seconds from the start.

    On a mixed worker nothing is sent: `prefill_end_s`, `sent_s`, `received_s` and `admitted_s` are
    all the time of the first token.

    Attributes:
        id: Which request.
        arrival_s: When it arrived.
        prefill_start_s: When its prompt was begun.
        prefill_end_s: When its prompt was through.
        sent_s: When its KV began to leave.
        received_s: When all of it had arrived.
        admitted_s: When the decode worker let it run.
        first_token_s: When the user got a token.
        finished_s: When the user had all.
        num_prompt_tokens: Tokens of the prompt.
        num_output_tokens: Tokens generated.
        prefill_worker: Number of the worker that computed its prompt.
        decode_worker: Number of the worker that generated.
        num_bytes: Bytes sent.
    """

    id: str
    arrival_s: float
    prefill_start_s: float
    prefill_end_s: float
    sent_s: float
    received_s: float
    admitted_s: float
    first_token_s: float
    finished_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    prefill_worker: int
    decode_worker: int
    num_bytes: float = 0.0

    @property
    def ttft_s(self) -> float:
        """Time from arrival to the first token."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """Time from arrival to the end."""
        return self.finished_s - self.arrival_s

    @property
    def queue_s(self) -> float:
        """Time before the prompt was begun."""
        return self.prefill_start_s - self.arrival_s

    @property
    def transfer_s(self) -> float:
        """Time from the end of the prompt to the arrival of its KV: what sending adds."""
        return self.received_s - self.prefill_end_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first; None with fewer than two."""
        if self.num_output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.num_output_tokens - 1)


class PromptStep(NamedTuple):
    """A step in which a worker computed prompt tokens: all it decodes waits for the end.

    Attributes:
        worker: Number of the decode worker, or of the mixed one.
        start_s: When it began.
        end_s: When it ended.
        num_tokens: Prompt tokens in it.
    """

    worker: int
    start_s: float
    end_s: float
    num_tokens: int


_TIMES: Final[dict[str, Callable[[Served], float | None]]] = {
    "ttft": lambda one: one.ttft_s,
    "tpot": lambda one: one.tpot_s,
    "e2el": lambda one: one.e2e_s,
    "queue": lambda one: one.queue_s,
    "transfer": lambda one: one.transfer_s,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRun:
    """What came of a workload on some GPUs.

    Attributes:
        name: The deployment: `mixed`, or `2 prefill + 2 decode`.
        workers: Workers in use.
        requests: What became of each request, in the order of the workload.
        tally: Gaps between the tokens that users saw.
        num_preemptions: Requests that lost their blocks.
        prompt_steps: Steps that computed prompt tokens on workers that also decode. Exact without
            asynchronous scheduling; with it they are named one step early.
    """

    name: str
    workers: int
    requests: tuple[Served, ...]
    tally: Tally
    num_preemptions: int
    prompt_steps: tuple[PromptStep, ...] = ()

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last end."""
        last = max((one.finished_s for one in self.requests), default=0.0)
        return last - min((one.arrival_s for one in self.requests), default=last)

    @property
    def output_tokens_per_s(self) -> float:
        """Tokens generated per second, all workers together."""
        tokens = sum(one.num_output_tokens for one in self.requests)
        return tokens / self.duration_s if self.duration_s else 0.0

    @property
    def sent_bytes(self) -> float:
        """Bytes of KV sent."""
        return sum(one.num_bytes for one in self.requests)

    def latency(self, name: str) -> Latency | None:
        """How some time is distributed.

        Args:
            name: `ttft`, `tpot`, `itl`, `e2el`, `queue` or `transfer`.

        Returns:
            The distribution; None when nothing was measured.
        """
        if name == "itl":
            return gap_latency(self.tally)
        return latency(map(_TIMES[name], self.requests))

    def goodput(self, *, ttft_s: float, tpot_s: float) -> float:
        """Requests per second that kept both promises (DistServe, arXiv 2401.09670).

        Args:
            ttft_s: Longest time to the first token.
            tpot_s: Longest mean time per token after it.
        """
        kept = sum(one.ttft_s <= ttft_s and (one.tpot_s or 0.0) <= tpot_s for one in self.requests)
        return kept / self.duration_s if self.duration_s else 0.0


def merge(tallies: Sequence[Tally]) -> Tally:
    """The gaps of several workers together.

    Args:
        tallies: What each counted.

    Examples:
        >>> one, two = Tally(), Tally()
        >>> one.add_gaps(0.25, 3)
        >>> two.add_gaps(0.25)
        >>> merge([one, two]).gaps
        {8192: 4}
    """
    both = Tally()
    for tally in tallies:
        for length, count in tally.gaps.items():
            both.gaps[length] = both.gaps.get(length, 0) + count
        both.gap_seconds += tally.gap_seconds
        both.num_gaps += tally.num_gaps
    return both


def check_workers(**numbers: int) -> None:
    """Refuse a deployment without workers.

    Raises:
        FlagError: A number below 1.
    """
    for name, number in numbers.items():
        if number < 1:
            raise FlagError(f"{name} is {number}; it must be at least 1")
