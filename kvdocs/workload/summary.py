"""What a workload amounts to, and the same one faster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.request import WorkloadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """Figures of a workload.

    Attributes:
        num_requests: Requests.
        first_arrival_s: When the first arrives, in seconds.
        last_arrival_s: When the last arrives.
        prompt_tokens: Tokens of all prompts.
        output_tokens: Tokens of all outputs.
        longest: Tokens of the longest prompt and output together.
    """

    num_requests: int
    first_arrival_s: float
    last_arrival_s: float
    prompt_tokens: int
    output_tokens: int
    longest: int

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean length of a prompt."""
        return self.prompt_tokens / self.num_requests

    @property
    def mean_output_tokens(self) -> float:
        """Mean length of an output."""
        return self.output_tokens / self.num_requests


def summarize(requests: Iterable[WorkloadRequest]) -> WorkloadSummary:
    """Add up a workload, in one pass.

    Args:
        requests: The requests, one or more.

    Raises:
        WorkloadError: There are none.

    Examples:
        >>> from kvdocs.workload import Unshared
        >>> request = WorkloadRequest(id="a", prompt=Unshared(512), output_tokens=128)
        >>> summarize([request, request]).prompt_tokens
        1024
    """
    count = prompts = outputs = longest = 0
    first, last = math.inf, 0.0
    for request in requests:
        count += 1
        prompts += request.num_prompt_tokens
        outputs += request.output_tokens
        longest = max(longest, request.num_prompt_tokens + request.output_tokens)
        first, last = min(first, request.arrival_s), max(last, request.arrival_s)
    if not count:
        raise WorkloadError("the workload has no requests")
    return WorkloadSummary(
        num_requests=count,
        first_arrival_s=first,
        last_arrival_s=last,
        prompt_tokens=prompts,
        output_tokens=outputs,
        longest=longest,
    )


def speed_up(requests: Iterable[WorkloadRequest], factor: float) -> Iterator[WorkloadRequest]:
    """The same requests, arriving faster (or slower, below 1). Thinking takes as long as before.

    Args:
        requests: The requests.
        factor: 2 halves all arrival times.

    Raises:
        WorkloadError: A factor that is not above 0.

    Examples:
        >>> from kvdocs.workload import Unshared
        >>> request = WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1, arrival_s=8.0)
        >>> [faster.arrival_s for faster in speed_up([request], 4)]
        [2.0]
    """
    if not 0 < factor < math.inf:
        raise WorkloadError(f"a workload cannot be {factor} times as fast; use a number above 0")
    return (
        dataclasses.replace(request, arrival_s=to_grid(request.arrival_s / factor))
        for request in requests
    )
