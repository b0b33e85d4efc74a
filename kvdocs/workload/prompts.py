"""Workloads of single questions: like no other, over shared contexts, or from waiting users."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, islice

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.lengths import Lengths
from kvdocs.workload.numbers import exp, ln
from kvdocs.workload.request import Part, Parts, Unshared, WorkloadRequest


def independent(
    rng: random.Random,
    *,
    arrivals: Iterable[float],
    num_requests: int,
    prompts: Lengths,
    outputs: Lengths,
) -> list[WorkloadRequest]:
    """Requests that share nothing.

    Args:
        rng: Where randomness comes from.
        arrivals: When they arrive, e.g. `poisson(rng, rate=4)`.
        num_requests: How many.
        prompts: Lengths of the prompts.
        outputs: Lengths of the outputs.

    Raises:
        WorkloadError: Fewer arrivals than requests.

    Examples:
        >>> from kvdocs.workload import Fixed, fixed_rate, independent
        >>> rng = random.Random(1)
        >>> requests = independent(rng, arrivals=fixed_rate(rate=2), num_requests=2,
        ...     prompts=Fixed(512), outputs=Fixed(128))
        >>> [(r.id, r.arrival_s, r.num_prompt_tokens, r.output_tokens) for r in requests]
        [('r0', 0.0, 512, 128), ('r1', 0.5, 512, 128)]
    """
    return [
        WorkloadRequest(
            id=f"r{index}",
            prompt=Unshared(prompts.draw(rng)),
            output_tokens=outputs.draw(rng),
            arrival_s=arrival,
        )
        for index, arrival in enumerate(take(arrivals, num_requests))
    ]


def shared_prefixes(
    rng: random.Random,
    *,
    arrivals: Iterable[float],
    num_requests: int,
    num_repositories: int,
    system_tokens: int,
    repository: Lengths,
    question: Lengths,
    outputs: Lengths,
    skew: float = 0.0,
) -> list[WorkloadRequest]:
    """A coding assistant: one system prompt, then a repository's context, then a question.

    Args:
        rng: Where randomness comes from.
        arrivals: When requests arrive.
        num_requests: How many.
        num_repositories: Repositories the questions are about.
        system_tokens: Length of the system prompt that all share; 0 for none.
        repository: Length of a repository's context, drawn once for each.
        question: Length of a question; no two are alike.
        outputs: Lengths of the outputs.
        skew: 0 asks about every repository as often; with s > 0 the k-th is asked about in
            proportion to k**-s (Zipf).

    Raises:
        WorkloadError: Fewer arrivals than requests, or no repository.

    Examples:
        >>> from kvdocs.workload import Fixed, fixed_rate, shared_prefixes
        >>> request, = shared_prefixes(random.Random(1), arrivals=fixed_rate(rate=1),
        ...     num_requests=1, num_repositories=1, system_tokens=100, repository=Fixed(2000),
        ...     question=Fixed(30), outputs=Fixed(10))
        >>> [tuple(part) for part in request.prompt.parts]
        [('system', 100, 0), ('repository 0', 2000, 0), ('r0 question', 30, 0)]
    """
    if num_repositories < 1:
        raise WorkloadError(f"num_repositories is {num_repositories}; it must be at least 1")
    if system_tokens < 0 or skew < 0:
        raise WorkloadError("system_tokens and skew must not be negative")
    contexts = [repository.draw(rng) for _ in range(num_repositories)]
    popularity = list(accumulate(exp(-skew * ln(rank + 1)) for rank in range(num_repositories)))
    requests = []
    for index, arrival in enumerate(take(arrivals, num_requests)):
        chosen = bisect_right(popularity, rng.random() * popularity[-1], hi=num_repositories - 1)
        parts = [Part("system", system_tokens)] if system_tokens else []
        parts.append(Part(f"repository {chosen}", contexts[chosen]))
        parts.append(Part(f"r{index} question", question.draw(rng)))
        requests.append(
            WorkloadRequest(
                id=f"r{index}",
                prompt=Parts(tuple(parts)),
                output_tokens=outputs.draw(rng),
                arrival_s=arrival,
            )
        )
    return requests


def closed_loop(
    rng: random.Random,
    *,
    num_users: int,
    requests_per_user: int,
    prompts: Lengths,
    outputs: Lengths,
    think_s: float = 0.0,
) -> list[WorkloadRequest]:
    """Users who wait for their answer, think, and ask again: concurrency is fixed, not the rate.

    Args:
        rng: Where randomness comes from.
        num_users: Users, all of whom start at once.
        requests_per_user: Requests of each.
        prompts: Lengths of the prompts; they share nothing.
        outputs: Lengths of the outputs.
        think_s: Seconds between an answer's end and the next request.

    Raises:
        WorkloadError: Negative time or counts below 1.

    Examples:
        >>> from kvdocs.workload import Fixed, closed_loop
        >>> requests = closed_loop(random.Random(1), num_users=2, requests_per_user=2,
        ...     prompts=Fixed(9), outputs=Fixed(5))
        >>> [(request.id, request.follows) for request in requests]
        [('u0r0', ''), ('u1r0', ''), ('u0r1', 'u0r0'), ('u1r1', 'u1r0')]
    """
    if num_users < 1 or requests_per_user < 1 or think_s < 0:
        raise WorkloadError(
            f"{num_users} users with {requests_per_user} requests each, thinking {think_s} s; "
            "there must be at least one of each, and the time must not be negative"
        )
    return [
        WorkloadRequest(
            id=f"u{user}r{index}",
            prompt=Unshared(prompts.draw(rng)),
            output_tokens=outputs.draw(rng),
            arrival_s=to_grid(index * think_s),
            follows=f"u{user}r{index - 1}" if index else "",
            think_s=to_grid(think_s) if index else 0.0,
        )
        for index in range(requests_per_user)
        for user in range(num_users)
    ]


def take(arrivals: Iterable[float], count: int) -> list[float]:
    """The first arrivals of a stream.

    Args:
        arrivals: Times in seconds.
        count: How many, 1 or more.

    Raises:
        WorkloadError: There are not as many.

    Examples:
        >>> take([1.0, 2.0, 3.0], 2)
        [1.0, 2.0]
    """
    if count < 1:
        raise WorkloadError(f"a workload of {count} requests; it must have at least 1")
    found = list(islice(arrivals, count))
    if len(found) < count:
        raise WorkloadError(f"only {len(found)} arrivals for {count} requests; give more")
    return found
