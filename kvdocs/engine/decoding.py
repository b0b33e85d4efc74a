"""The requests that compute one token every turn, counted as a group.

Between two decisions such a request is an arithmetic progression: so many tokens more, a new block
every `block_size` turns, done at a known turn.
"""

from __future__ import annotations

import heapq

from kvdocs.engine.counting import CountedRequest
from kvdocs.engine.prompt import ALL_BLOCKS

_NEVER = 2**62


class Decoding:
    """The requests that compute one token every turn, as a group.

    Args:
        block_size: Tokens in a block.

    Attributes:
        requests: They, in no order that matters.
        count: How many they are.
        context: Tokens they have computed at the start of the current turn, all together.
        num_shared: How many of them fill blocks that others may hit.
    """

    def __init__(self, block_size: int) -> None:
        self.requests: set[CountedRequest] = set()
        self.count = 0
        self.context = 0
        self.num_shared = 0
        self._block_size = block_size
        self._needing: list[set[CountedRequest]] = [set() for _ in range(block_size)]
        self._due: dict[int, set[CountedRequest]] = {}
        self._due_turns: list[int] = []

    def join(self, request: CountedRequest, turn: int) -> None:
        """Let a request decode from a turn on.

        Args:
            request: Its counters are right at the start of that turn.
            turn: The turn.
        """
        request.synced_turn = turn
        request.due_turn = turn + request.last_token_count - request.num_tokens - 1
        self.requests.add(request)
        self.count += 1
        self.context += request.num_computed_tokens
        self._needing[self._phase(request)].add(request)
        self.num_shared += request.num_shared_blocks == ALL_BLOCKS
        if request.due_turn not in self._due:
            self._due[request.due_turn] = set()
            heapq.heappush(self._due_turns, request.due_turn)
        self._due[request.due_turn].add(request)

    def leave(self, request: CountedRequest, turn: int) -> None:
        """Bring a request's counters up to date and let it go.

        Args:
            request: One of the group.
            turn: The current turn.
        """
        self._needing[self._phase(request)].remove(request)
        self.num_shared -= request.num_shared_blocks == ALL_BLOCKS
        self.requests.remove(request)
        self.count -= 1
        self._due[request.due_turn].remove(request)
        gone = turn - request.synced_turn
        request.num_computed_tokens += gone
        request.num_tokens += gone
        self.context -= request.num_computed_tokens
        request.num_blocks = -(-request.num_computed_tokens // self._block_size)

    def _phase(self, request: CountedRequest) -> int:
        """The turns, modulo the block size, in which it needs a new block."""
        return (request.synced_turn - request.num_computed_tokens) % self._block_size

    def due(self, turn: int) -> list[CountedRequest]:
        """Requests that finish at the end of a turn.

        Args:
            turn: The current turn.

        Returns:
            They, in no order that matters.
        """
        return list(self._due.get(turn, ()))

    def forget_before(self, turn: int) -> None:
        """Drop finishing dates that have passed.

        Args:
            turn: The current turn.
        """
        while self._due_turns and self._due_turns[0] < turn:
            del self._due[heapq.heappop(self._due_turns)]

    def next_due(self) -> int:
        """The next turn in which one may finish (none will before)."""
        return self._due_turns[0] if self._due_turns else _NEVER

    def needing_block(self, turn: int) -> set[CountedRequest]:
        """Requests whose next token begins a block.

        Args:
            turn: The current turn.

        Returns:
            They, in no order that matters.
        """
        return self._needing[turn % self._block_size]

    def blocks_needed(self, turn: int, num_turns: int) -> int:
        """Blocks that the group takes in some turns.

        Args:
            turn: The first.
            num_turns: How many.

        Returns:
            Blocks.
        """
        rounds, rest = divmod(num_turns, self._block_size)
        first = turn % self._block_size
        wrapped = max(0, first + rest - self._block_size)
        needing = self._needing[first : first + rest] + self._needing[:wrapped]
        return rounds * self.count + sum(map(len, needing))
