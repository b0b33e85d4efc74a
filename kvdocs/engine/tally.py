"""What a metrics page shows beyond counters: gaps between tokens, tokens per turn, recent hits."""

from __future__ import annotations

from collections import deque
from typing import Final

from kvdocs.engine.timer import NO_LOAD, StepLoad, StepTimer

GAP_RESOLUTION: Final = 2.0**-15
"""Gaps are counted to this many seconds (31 µs)."""
_RECENT_REQUESTS: Final = 1000
"""vLLM 0.33.0 `vllm/v1/metrics/stats.py`, CachingMetrics."""


class RecentLookups:
    """Prefix-cache lookups of about the last 1,000 requests.

    Turns are forgotten whole, the oldest first, and the newest never (vLLM 0.33.0
    `vllm/v1/metrics/stats.py`, CachingMetrics.observe).

    Attributes:
        queries: Tokens looked up.
        hits: Of these, tokens found.
    """

    __slots__ = ("_num_requests", "_turns", "hits", "queries")

    def __init__(self) -> None:
        self.queries = 0
        self.hits = 0
        self._num_requests = 0
        self._turns: deque[list[float]] = deque()

    def add(self, time: float, queries: int, hits: int) -> None:
        """Count the lookup of one request.

        Args:
            time: When its turn began; lookups of one time are forgotten together.
            queries: Tokens looked up.
            hits: Of these, tokens found.
        """
        turns = self._turns
        if turns and turns[-1][0] == time:
            turn = turns[-1]
            turn[1] += 1
            turn[2] += queries
            turn[3] += hits
        else:
            turns.append([time, 1, queries, hits])
        self._num_requests += 1
        self.queries += queries
        self.hits += hits
        while self._num_requests > _RECENT_REQUESTS and len(turns) > 1:
            self._forget(turns.popleft())

    def _forget(self, turn: list[float]) -> None:
        _, requests, queries, hits = map(int, turn)
        self._num_requests -= requests
        self.queries -= queries
        self.hits -= hits


class Tally:
    """Gaps between the tokens of a request, and how many tokens a turn brings.

    Attributes:
        gaps: Gaps by length, in whole `GAP_RESOLUTION`.
        gap_seconds: Sum of all gaps.
        num_gaps: Number of all gaps.
        turns: Turns by the tokens they brought: prompts whose first token came, and outputs.
        lookups: Recent prefix-cache lookups.
        work: The loads of all turns, summed up.

    Examples:
        >>> tally = Tally()
        >>> tally.add_gaps(0.25, 3)
        >>> tally.gaps, tally.gap_seconds
        ({8192: 3}, 0.75)
    """

    __slots__ = ("gap_seconds", "gaps", "lookups", "num_gaps", "turns", "work")

    def __init__(self) -> None:
        self.gaps: dict[int, int] = {}
        self.gap_seconds = 0.0
        self.num_gaps = 0
        self.turns: dict[int, int] = {}
        self.lookups = RecentLookups()
        self.work = NO_LOAD

    def add_gaps(self, seconds: float, count: int = 1) -> None:
        """Count gaps of one length.

        Args:
            seconds: Their length.
            count: How many.
        """
        if not count:
            return
        self.gap_seconds += seconds * count
        self.num_gaps += count
        self._put(int(seconds / GAP_RESOLUTION), count)

    def _put(self, length: int, count: int) -> None:
        self.gaps[length] = self.gaps.get(length, 0) + count

    def add_turns(self, tokens: int, count: int = 1) -> None:
        """Count turns; those without a token do not count.

        Args:
            tokens: Tokens each brought.
            count: How many.
        """
        if tokens and count:
            self.turns[tokens] = self.turns.get(tokens, 0) + count

    def add_work(self, load: StepLoad, steps: int = 1) -> None:
        """Count the load of turns; from one to the next each request's context grows by a token.

        Args:
            load: The first turn's load.
            steps: Number of turns.

        Examples:
            >>> tally = Tally()
            >>> tally.add_work(StepLoad(2, 2, 100, 100), steps=3)  # 100, 102 and 104 tokens read
            >>> tally.work
            StepLoad(num_tokens=6, num_seqs=6, kv_tokens=306, query_key_pairs=306)
        """
        grown = load.num_seqs * (steps * (steps - 1) // 2)
        work = self.work
        self.work = StepLoad(
            work.num_tokens + steps * load.num_tokens,
            work.num_seqs + steps * load.num_seqs,
            work.kv_tokens + steps * load.kv_tokens + grown,
            work.query_key_pairs + steps * load.query_key_pairs + grown,
        )

    def add_stretch(self, timer: StepTimer, load: StepLoad, steps: int, elapsed: float) -> None:
        """Count the gaps and the work of decode steps, in each of which every request gets a token.

        Args:
            timer: What the steps were timed by; a longer context never takes it less time.
            load: The first step's batch.
            steps: Number of steps.
            elapsed: What they took together, in seconds.
        """
        count = load.num_seqs
        self.add_work(load, steps)
        if steps < 2:
            self.add_gaps(elapsed, count * steps)
            self.add_turns(count, steps)
            return
        self.gap_seconds += elapsed * count
        self.num_gaps += steps * count
        self.add_turns(count, steps)

        def length(step: int) -> int:
            grown = count * step
            kv_tokens, pairs = load.kv_tokens + grown, load.query_key_pairs + grown
            return int(
                timer.seconds(StepLoad(load.num_tokens, count, kv_tokens, pairs)) / GAP_RESOLUTION
            )

        parts = [(0, length(0), steps - 1, length(steps - 1))]
        while parts:
            first, shortest, last, longest = parts.pop()
            if shortest == longest:
                self._put(shortest, (last - first + 1) * count)
            else:
                middle = (first + last) // 2
                parts.append((first, shortest, middle, length(middle)))
                parts.append((middle + 1, length(middle + 1), last, longest))
