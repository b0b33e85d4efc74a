"""Waiting queues: first come first served, and by priority.

vLLM 0.33.0 `vllm/v1/core/sched/request_queue.py`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from kvdocs.engine.config import Policy
from kvdocs.engine.request import Request


class WaitingQueue(Protocol):
    """What the scheduler asks of a waiting queue."""

    def add(self, request: Request) -> None:
        """Enqueue a new request.

        Args:
            request: A request that just arrived.
        """

    def put_back(self, request: Request) -> None:
        """Enqueue a preempted request.

        Args:
            request: A request that had been running.
        """

    def peek(self) -> Request:
        """The request that is next in line."""

    def pop_next(self) -> Request:
        """Take out the request that is next in line."""

    def remove(self, request: Request, /) -> None:
        """Take out any request.

        Args:
            request: It must be in the queue.
        """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...


class FcfsQueue(deque[Request]):
    """First come, first served; preempted requests go to the front."""

    def add(self, request: Request) -> None:
        """Append."""
        self.append(request)

    def put_back(self, request: Request) -> None:
        """Prepend: several victims of one step end up in their original order."""
        self.appendleft(request)

    def peek(self) -> Request:
        """The front."""
        return self[0]

    def pop_next(self) -> Request:
        """Take the front."""
        return self.popleft()


class PriorityQueue:
    """Lowest (priority, arrival, id) first; a preempted request goes to its sorted place."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float, str], Request]] = []

    def add(self, request: Request) -> None:
        """Push."""
        heapq.heappush(self._heap, (request.order, request))

    put_back = add

    def peek(self) -> Request:
        """The most urgent."""
        return self._heap[0][1]

    def pop_next(self) -> Request:
        """Take the most urgent."""
        return heapq.heappop(self._heap)[1]

    def remove(self, request: Request) -> None:
        """Take out wherever it stands."""
        self._heap.remove((request.order, request))
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return (request for _, request in sorted(self._heap, key=lambda item: item[0]))


def make_queue(policy: Policy) -> WaitingQueue:
    """The queue of a policy.

    Args:
        policy: The scheduling policy.

    Returns:
        An empty queue.
    """
    return PriorityQueue() if policy is Policy.PRIORITY else FcfsQueue()
