"""What load comes: made from a few figures and a seed, or a trace."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from kvdocs.playground.stream import Stream
from kvdocs.server import ListedArrivals
from kvdocs.server.arrivals import Arrivals
from kvdocs.timing import to_grid
from kvdocs.workload import (
    Fixed,
    Lengths,
    LogNormal,
    Part,
    Parts,
    Unshared,
    WorkloadRequest,
    fixed_rate,
    gamma,
    poisson,
    speed_up,
    summarize,
)
from kvdocs.workload.numbers import draw_integer

MOST_REQUESTS: Final = 100_000
SPREADS: Final = {"alike": 1.0, "some": 2.0, "tail": 5.0}
"""How many times the median the 95th percentile of a length is."""
COMINGS: Final = ("poisson", "even", "bunches", "at once")
"""How requests come: at random, evenly, in bunches (`--burstiness 0.25`), or all at once."""
_BURSTINESS: Final = 0.25
_SECOND_SEED: Final = 2**32


class Load(Protocol):
    """Requests that come to a server."""

    @property
    def num_requests(self) -> int:
        """How many."""

    @property
    def typical_tokens(self) -> int:
        """Tokens of a typical request, prompt and output."""

    @property
    def span_s(self) -> float:
        """About how long they come, in seconds."""

    def requests(self) -> Iterable[WorkloadRequest]:
        """The requests, by arrival."""

    def arrivals(self) -> Arrivals:
        """The same as a server takes them; made as they come, so that starting takes no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Requests made from a few figures.

    Attributes:
        num_requests: How many.
        rate: Requests per second on average.
        coming: One of `COMINGS`.
        prompt_tokens: Median length of a prompt's own part.
        prompt_spread: One of `SPREADS`.
        output_tokens: Median length of an answer.
        output_spread: One of `SPREADS`.
        prefix_tokens: Length of the beginning that prompts share; 0 for none.
        num_prefixes: How many such beginnings there are, asked for equally often.
        seed: Of the random numbers.

    Examples:
        >>> first = next(iter(Made(prefix_tokens=1000, prompt_spread="alike").requests()))
        >>> [part.num_tokens for part in first.prompt.parts]
        [1000, 8000]
    """

    num_requests: int = 600
    rate: float = 2.5
    coming: str = "poisson"
    prompt_tokens: int = 8000
    prompt_spread: str = "some"
    output_tokens: int = 400
    output_spread: str = "some"
    prefix_tokens: int = 0
    num_prefixes: int = 1
    seed: int = 1

    @property
    def typical_tokens(self) -> int:
        """Tokens of the median request."""
        return self.prefix_tokens + self.prompt_tokens + self.output_tokens

    @property
    def span_s(self) -> float:
        """About how long they come, in seconds."""
        return 0.0 if self.coming == "at once" else self.num_requests / self.rate

    def requests(self) -> Iterator[WorkloadRequest]:
        """The requests, by arrival; each is made when it is asked for."""
        gaps = random.Random(self.seed)  # noqa: S311 - a simulation, not a secret
        rng = random.Random(self.seed + _SECOND_SEED)  # noqa: S311 - likewise
        prompts = lengths(self.prompt_tokens, self.prompt_spread)
        outputs = lengths(self.output_tokens, self.output_spread)
        for index, time in enumerate(itertools.islice(self._times(gaps), self.num_requests)):
            name = f"r{index}"
            prompt: Unshared | Parts = Unshared(prompts.draw(rng))
            if self.prefix_tokens:
                which = draw_integer(rng, 0, self.num_prefixes - 1) if self.num_prefixes > 1 else 0
                parts = (Part(f"prefix {which}", self.prefix_tokens), Part(name, prompt.num_tokens))
                prompt = Parts(parts)
            output = outputs.draw(rng)
            yield WorkloadRequest(id=name, prompt=prompt, output_tokens=output, arrival_s=time)

    def _times(self, rng: random.Random) -> Iterator[float]:
        if self.coming == "at once":
            return itertools.repeat(0.0)
        if self.coming == "even":
            return fixed_rate(rate=self.rate)
        if self.coming == "bunches":
            return gamma(rng, rate=self.rate, burstiness=_BURSTINESS)
        return poisson(rng, rate=self.rate)

    def arrivals(self) -> Arrivals:
        """The requests as a server takes them."""
        return Stream(self.requests())


def lengths(tokens: int, spread: str) -> Lengths:
    """A distribution of lengths.

    Args:
        tokens: The median.
        spread: One of `SPREADS`.

    Examples:
        >>> lengths(100, "alike"), lengths(100, "some").p95
        (Fixed(tokens=100), 200.0)
    """
    ratio = SPREADS[spread]
    return Fixed(tokens) if ratio == 1 else LogNormal(median=tokens, p95=ratio * tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace, or its beginning, played at some speed.

    Attributes:
        name: The file's name.
        read: Its requests.
        most: At most so many of them come.
        speed: How many times as fast they come.

    Examples:
        >>> request = WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1, arrival_s=8.0)
        >>> [one.arrival_s for one in Trace(name="t", read=(request,), speed=2.0).requests()]
        [4.0]
    """

    name: str
    read: tuple[WorkloadRequest, ...]
    most: int = MOST_REQUESTS
    speed: float = 1.0

    @property
    def num_requests(self) -> int:
        """How many come."""
        return min(len(self.read), self.most)

    @property
    def typical_tokens(self) -> int:
        """Tokens of a request on average."""
        summary = summarize(self.read[: self.most])
        return (summary.prompt_tokens + summary.output_tokens) // summary.num_requests

    @property
    def span_s(self) -> float:
        """When the last one comes, in seconds."""
        last = max(request.arrival_s for request in self.read[: self.most])
        return to_grid(last / self.speed)

    def requests(self) -> list[WorkloadRequest]:
        """The requests, by arrival; of two at once the first in the file goes first."""
        chosen = speed_up(self.read[: self.most], self.speed)
        return sorted(chosen, key=lambda request: request.arrival_s)

    def arrivals(self) -> Arrivals:
        """The requests as a server takes them."""
        requests = self.requests()
        if any(request.follows for request in requests):
            return ListedArrivals(requests)
        return Stream(iter(requests))
