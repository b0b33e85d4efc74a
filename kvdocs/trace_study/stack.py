"""The LRU stack of a prefix cache: one pass gives the hits of every cache size.

A cache of C blocks that evicts the least recently used one always holds the first C blocks of the
same list, the *stack*: all blocks ever used, most recent first. So a block is hit in every cache
that is at least as large as its place in the stack, its *stack distance* (R. L. Mattson, J. Gecsei,
D. R. Slutz, I. L. Traiger, *Evaluation techniques for storage hierarchies*, IBM Systems Journal
9(2), 1970).

Prefix caching asks for more than that: a block counts as hit only when all blocks before it are.
That holds by itself if two things do, and vLLM sees to both:

1. A block is used together with all blocks before it: its key stands for its content and its whole
   history (`kvdocs.blocks.hash_block`).
2. Of one request's blocks, the first count as most recently used: vLLM frees a request's blocks
   from the last to the first (0.33.0 `single_type_kv_cache_manager.py`, free).

Then a block is never above the one before it in the stack, so what a cache of any size holds is
closed under "the block before", and distances only grow along a request. Whether a request hits
or not, it uses all its blocks, so the stack does not depend on the cache's size.

It also means that the blocks a request was the last to use are the end of its path, in order and
with nobody's in between. The stack is kept as one number a request - how many blocks it was the
last to use - and a distance is a sum over later requests plus a place in the own one: work grows
with runs of blocks, not with blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kvdocs.trace_study.fenwick import Fenwick


class Run(NamedTuple):
    """Blocks next to each other in the stack that a request uses again.

    Attributes:
        owner: The request, from 0, that used them last.
        above: Blocks above the first of them. Its stack distance is one more.
        num_blocks: How many there are.
    """

    owner: int
    above: int
    num_blocks: int


class Chains:
    """Numbers for blocks: equal for equal keys with equal keys before them.

    Traces promise keys that stand for all that came before. One that breaks the promise does no
    harm: the same key after another history is another block.

    Examples:
        >>> chains = Chains()
        >>> chains.numbers(["a", "b", "c"]), chains.numbers(["a", "b", "x", "c"])
        ([0, 1, 2], [0, 1, 3, 4])
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, keys: Iterable[Hashable]) -> list[int]:
        """The numbers of a request's blocks.

        Args:
            keys: The keys, first block first.
        """
        known, number, found = self._numbers, -1, []
        for key in keys:
            number = known.setdefault((number, key), len(known))
            found.append(number)
        return found


class PrefixStack:
    """The stack, and who was the last to use its blocks.

    Examples:
        >>> stack = PrefixStack()
        >>> stack.use(["system", "ann"]), stack.use(["system", "bob"])
        ([], [Run(owner=0, above=0, num_blocks=1)])
        >>> stack.use(["system", "ann"])  # above "ann": "system" and "bob"
        [Run(owner=1, above=0, num_blocks=1), Run(owner=0, above=2, num_blocks=1)]
        >>> stack.num_blocks
        3
    """

    def __init__(self) -> None:
        self._chains = Chains()
        self._owners: list[int] = []
        self._last_used = Fenwick()
        self.num_blocks = 0

    def use(self, keys: Sequence[Hashable], num_private: int = 0) -> list[Run]:
        """Let the next request use its blocks.

        Args:
            keys: Keys of its blocks, first block first.
            num_private: Blocks behind those that nobody will ask for.

        Returns:
            The blocks used before, as they lay in the stack when the request came.
        """
        numbers = self._chains.numbers(keys)
        runs = [self._run(owner, count) for owner, count in self._known(numbers)]
        for run in runs:
            self._last_used.add(run.owner, -run.num_blocks)
        request = len(self._last_used)
        self._take(numbers, request)
        self._last_used.append(len(numbers) + num_private)
        self.num_blocks += len(numbers) + num_private - sum(run.num_blocks for run in runs)
        return runs

    def last_used_by(self, request: int) -> int:
        """How many blocks a request is still the last to have used.

        Args:
            request: Which, from 0.
        """
        return self._last_used.sum_of(request + 1) - self._last_used.sum_of(request)

    def _known(self, numbers: list[int]) -> list[tuple[int, int]]:
        """Owners of the leading blocks that were used before, each with its count, in order."""
        owners, found = self._owners, []
        end = len(owners)
        owner, count = -1, 0
        for number in numbers:
            if number >= end:
                break
            if owners[number] == owner:
                count += 1
                continue
            if count:
                found.append((owner, count))
            owner, count = owners[number], 1
        if count:
            found.append((owner, count))
        return found

    def _run(self, owner: int, count: int) -> Run:
        return Run(owner, self.num_blocks - self._last_used.sum_of(owner + 1), count)

    def _take(self, numbers: list[int], request: int) -> None:
        owners = self._owners
        owners.extend([request] * (len(self._chains) - len(owners)))
        for number in numbers:
            if owners[number] == request:
                break  # new from here on
            owners[number] = request
