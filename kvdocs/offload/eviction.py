"""Hits of a cache that holds so many things: least recently used, and the best there can be."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from kvdocs.errors import FlagError


def lru_hits(accesses: Sequence[Hashable], capacity: int) -> int:
    """Hits when the least recently used makes room; everything asked for is kept.

    Args:
        accesses: What is asked for, in order.
        capacity: Things the cache holds, 0 or more.

    Raises:
        FlagError: A negative capacity.

    Examples:
        >>> lru_hits("abcabcabc", 3), lru_hits("abcabcabc", 2)  # a scan, one too many
        (6, 0)
    """
    _check(capacity)
    held: OrderedDict[Hashable, None] = OrderedDict()
    hits = 0
    for key in accesses:
        if key in held:
            hits += 1
            held.move_to_end(key)
        elif capacity:
            if len(held) == capacity:
                held.popitem(last=False)
            held[key] = None
    return hits


def optimal_hits(accesses: Sequence[Hashable], capacity: int) -> int:
    """Hits of the cache that knows the future: no policy has more.

    It lets go of what is asked for again last, be it the newcomer (L. A. Belady, IBM Systems
    Journal 5 (1966) 78; with a newcomer that may be passed by).

    Args:
        accesses: What is asked for, in order.
        capacity: Things the cache holds, 0 or more.

    Raises:
        FlagError: A negative capacity.

    Examples:
        >>> optimal_hits("abcabcabc", 2)  # keeps `a`, and one of the others
        4
    """
    _check(capacity)
    following = _next_uses(accesses)
    held: dict[Hashable, int] = {}
    farthest: list[tuple[int, int]] = []  # minus the next use, and where it was last asked for
    hits = 0
    for place, key in enumerate(accesses):
        hits += key in held
        held[key] = following[place]
        heapq.heappush(farthest, (-following[place], place))
        while len(held) > capacity:
            use, asked = heapq.heappop(farthest)
            if held.get(accesses[asked]) == -use:
                del held[accesses[asked]]
    return hits


def _next_uses(accesses: Sequence[Hashable]) -> list[int]:
    """Where each thing is asked for next; beyond the end, and apart, for those that are not."""
    end = len(accesses)
    seen: dict[Hashable, int] = {}
    following = [0] * end
    for place in range(end - 1, -1, -1):
        following[place] = seen.get(accesses[place], end + place)
        seen[accesses[place]] = place
    return following


def _check(capacity: int) -> None:
    if capacity < 0:
        raise FlagError(f"a cache of {capacity} things; 0 or more are possible")
