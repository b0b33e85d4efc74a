"""Who arrives when: a list of requests, some of which wait for the answers to others."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from kvdocs.errors import WorkloadError
from kvdocs.workload import WorkloadRequest


class Arrival(NamedTuple):
    """A request on its way.

    Attributes:
        time: When it arrives, in seconds.
        place: Its place in the workload; of two that arrive at once the first goes first.
        request: What was asked for.
    """

    time: float
    place: int
    request: WorkloadRequest


class Arrivals(Protocol):
    """Requests on their way to a server."""

    def next_time(self) -> float:
        """When the next arrives, as far as is known now; infinite when none will."""

    def pop(self) -> Arrival:
        """Take the next."""

    def ended(self, request_id: str, time: float) -> None:
        """Hear that a request has ended: another may follow it.

        Args:
            request_id: Which.
            time: When, in seconds.
        """


class ListedArrivals:
    """The requests of a list. One that follows another arrives `think_s` after that one has ended.

    Args:
        requests: The requests, in any order.

    Raises:
        WorkloadError: An id that is used twice, or a request that follows none of the list.

    Examples:
        >>> from kvdocs.workload import Unshared
        >>> first = WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1, arrival_s=1.0)
        >>> second = WorkloadRequest(id="b", prompt=Unshared(9), output_tokens=1, follows="a",
        ...     think_s=5.0)
        >>> arrivals = ListedArrivals([second, first])
        >>> arrivals.pop().request.id, arrivals.next_time()
        ('a', inf)
        >>> arrivals.ended("a", 3.0)
        >>> arrivals.next_time()
        8.0
    """

    def __init__(self, requests: Iterable[WorkloadRequest]) -> None:
        self.requests = tuple(requests)
        self._coming: list[Arrival] = []
        self._followers: dict[str, list[Arrival]] = {}
        for place, request in enumerate(self.requests):
            arrival = Arrival(request.arrival_s, place, request)
            if request.follows:
                self._followers.setdefault(request.follows, []).append(arrival)
            else:
                self._coming.append(arrival)
        self._check()
        heapq.heapify(self._coming)

    def _check(self) -> None:
        ids = {request.id for request in self.requests}
        if len(ids) < len(self.requests):
            raise WorkloadError(f"two requests have the id {_twice(self.requests)!r}; ids differ")
        for followed, followers in self._followers.items():
            if followed not in ids:
                raise WorkloadError(
                    f"request {followers[0].request.id!r} follows {followed!r}, which is not there"
                )
        reached = [arrival.request.id for arrival in self._coming]
        for request_id in reached:  # grows while it is gone through
            reached += [one.request.id for one in self._followers.get(request_id, ())]
        if len(reached) < len(ids):
            lost = min(ids.difference(reached))
            raise WorkloadError(f"request {lost!r} waits for itself: follows goes in a circle")

    def next_time(self) -> float:
        """When the next arrives, as far as is known now."""
        return self._coming[0].time if self._coming else math.inf

    def pop(self) -> Arrival:
        """Take the next."""
        return heapq.heappop(self._coming)

    def ended(self, request_id: str, time: float) -> None:
        """Let the followers of a request come."""
        for arrival in self._followers.pop(request_id, ()):
            due = max(arrival.time, time + arrival.request.think_s)
            heapq.heappush(self._coming, arrival._replace(time=due))


def _twice(requests: Iterable[WorkloadRequest]) -> str:
    return next(_repeated(request.id for request in requests))


def _repeated(ids: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            yield name
        seen.add(name)
