"""Requests that are made as they arrive: a hundred thousand begin as fast as one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvdocs.server.arrivals import Arrival
from kvdocs.workload import WorkloadRequest


class Stream:
    """Requests in order of arrival, none of which waits for another.

    Args:
        requests: The requests.

    Examples:
        >>> from kvdocs.workload import Unshared
        >>> request = WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1, arrival_s=1.0)
        >>> stream = Stream(iter([request]))
        >>> stream.next_time(), stream.pop().place, stream.next_time()
        (1.0, 0, inf)
    """

    def __init__(self, requests: Iterator[WorkloadRequest]) -> None:
        self._requests = enumerate(requests)
        self._next: tuple[int, WorkloadRequest] | None = next(self._requests, None)

    def next_time(self) -> float:
        """When the next arrives; infinite when none will."""
        return math.inf if self._next is None else self._next[1].arrival_s

    def pop(self) -> Arrival:
        """Take the next.

        Raises:
            IndexError: There is none.
        """
        if self._next is None:
            raise IndexError("no more requests arrive")
        place, request = self._next
        self._next = next(self._requests, None)
        return Arrival(request.arrival_s, place, request)

    def ended(self, request_id: str, time: float) -> None:
        """Nobody waits for an answer."""
