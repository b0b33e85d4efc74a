"""Move or recompute: from which prompt length is fetching KV faster than computing it again?

Moving costs a latency and so much per token. Recomputing costs a step's fixed part (weights are
read, however short the prompt), so much per token, and attention, which grows with the square of
the length. So there may be three stretches: moving wins at very short prompts, where the fixed part
decides, and at long ones, where attention does; in between recomputing wins if the link is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kvdocs.engine import StepLoad
from kvdocs.errors import FlagError
from kvdocs.model import KVCost
from kvdocs.offload.tier import Route
from kvdocs.timing import Efficiency, RooflineTimer

_GROWTH: Final = 1.06
"""Ratio of neighbouring lengths among which a change of the winner is looked for."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both ways to have the KV of a prompt on the GPU.

    Attributes:
        tokens: Tokens of the prompt.
        num_bytes: Bytes of its KV on one GPU.
        move_s: Seconds to fetch it.
        recompute_s: Seconds to compute it.
    """

    tokens: int
    num_bytes: float
    move_s: float
    recompute_s: float

    @property
    def moves(self) -> bool:
        """Whether moving is faster."""
        return self.move_s < self.recompute_s

    @property
    def speedup(self) -> float:
        """How many times as fast moving is; below 1, the tier is slower than recomputing.

        Examples:
            >>> Comparison(10_000, 0, 29.0, 8.46).speedup < 0.3  # kvcache-ai/Mooncake issue 467
            True
        """
        return self.recompute_s / self.move_s


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lengths over which one way is the faster.

    Attributes:
        first: Shortest, in tokens.
        last: Longest, in tokens.
        moves: Whether moving is faster there.
    """

    first: int
    last: int
    moves: bool


class MoveOrRecompute:
    """Compares fetching KV over a route with computing it, for one model on one kind of GPU.

    The whole prompt is computed in one step that nothing else is in, and moved over a link that
    nothing else uses. With tensor parallelism each GPU fetches its share over a link of its own.

    Args:
        timer: The timing model.
        cost: What the model keeps per token; on as many GPUs as the timer's.
        route: Where the KV comes from.
        efficiency: What is reached of the route's peak; the timer's when not given.
        batch: Prompts of this length at once: one step computes them, one link moves them.

    Raises:
        FlagError: No prompt, or a cost and a timer of different numbers of GPUs.

    Examples:
        >>> from kvdocs.offload.tier import get_route
        >>> from kvdocs.scenario import lesson_timer, size_lesson
        >>> over = lambda name: MoveOrRecompute(
        ...     lesson_timer(), size_lesson().cost, get_route(name))
        >>> both = over("pcie5").at(32768)
        >>> both.num_bytes, round(both.move_s, 3), round(both.recompute_s, 2)
        (4294967296.0, 0.112, 1.49)
        >>> over("pcie5").moves_from(131072), over("ethernet-25").moves_from(131072)
        (1, 78646)
    """

    def __init__(
        self,
        timer: RooflineTimer,
        cost: KVCost,
        route: Route,
        *,
        efficiency: Efficiency | None = None,
        batch: int = 1,
    ) -> None:
        if batch < 1:
            raise FlagError(f"a batch of {batch} prompts; 1 or more are possible")
        if cost.tensor_parallel_size != timer.tensor_parallel_size:
            raise FlagError(
                f"the cost is for {cost.tensor_parallel_size} GPUs and the timer for "
                f"{timer.tensor_parallel_size}; give both the same tensor_parallel_size"
            )
        self.route = route
        self.batch = batch
        self._timer = timer
        self._cost = cost
        reached = efficiency or timer.efficiency
        self._bytes_per_s = route.bytes_per_s * reached.link
        self._share = reached.link
        self._latency_s = max(route.latency_s, reached.link_latency_s)

    def num_bytes(self, tokens: int) -> float:
        """Bytes that one GPU fetches, all prompts together.

        Args:
            tokens: Tokens of each prompt.
        """
        cost = self._cost
        whole = cost.bytes_per_token + cost.window_bytes_per_token
        on_one = cost.bytes_per_token_per_gpu + cost.window_bytes_per_token_per_gpu
        share = on_one / whole if whole else 1 / cost.tensor_parallel_size
        return self.batch * cost.sequence_bytes_at(tokens) * share

    def at(self, tokens: int) -> Comparison:
        """Compare at one length.

        Args:
            tokens: Tokens of the prompt, 1 or more.

        Raises:
            FlagError: No tokens.
        """
        if tokens < 1:
            raise FlagError(f"a prompt of {tokens} tokens; 1 or more are possible")
        count = self.batch
        load = StepLoad(count * tokens, count, count * tokens, count * tokens * (tokens + 1) // 2)
        num_bytes = self.num_bytes(tokens)
        return Comparison(
            tokens,
            num_bytes,
            self._latency_s + num_bytes / self._bytes_per_s,
            self._timer.seconds(load),
        )

    def stretches(self, max_tokens: int) -> tuple[Stretch, ...]:
        """Who wins where, from 1 token up.

        Args:
            max_tokens: Longest prompt looked at.

        Raises:
            FlagError: No tokens.
        """
        if max_tokens < 1:
            raise FlagError(f"prompts up to {max_tokens} tokens; 1 or more are possible")
        changes = [self._change(*near) for near in self._changes(max_tokens)]
        firsts = [1, *changes]
        lasts = [*(change - 1 for change in changes), max_tokens]
        return tuple(
            Stretch(first, last, self.at(first).moves)
            for first, last in zip(firsts, lasts, strict=True)
        )

    def _changes(self, max_tokens: int) -> Iterator[tuple[int, int]]:
        """Neighbouring lengths between which the winner changes."""
        for low, high in pairwise(_lengths(max_tokens)):
            if self.at(low).moves != self.at(high).moves:
                yield low, high

    def _change(self, low: int, high: int) -> int:
        """The first length that `high`'s winner wins."""
        winner = self.at(high).moves
        while high - low > 1:
            middle = (low + high) // 2
            if self.at(middle).moves == winner:
                high = middle
            else:
                low = middle
        return high

    def moves_from(self, max_tokens: int) -> int:
        """The crossing point: from this length on, moving is faster, up to `max_tokens`.

        Args:
            max_tokens: Longest prompt looked at.

        Returns:
            Tokens; 1 where moving always wins, `max_tokens` + 1 where it does not win at the end.
        """
        last = self.stretches(max_tokens)[-1]
        return last.first if last.moves else max_tokens + 1

    def break_even_bytes_per_s(self, tokens: int) -> float:
        """Peak bandwidth of a route over which moving takes as long as recomputing.

        Args:
            tokens: Tokens of the prompt.

        Returns:
            Bytes per second in one direction; infinite where even the latency is longer.

        Examples:
            >>> from kvdocs.offload.tier import get_route
            >>> from kvdocs.scenario import lesson_timer, size_lesson
            >>> both = MoveOrRecompute(lesson_timer(), size_lesson().cost, get_route("pcie5"))
            >>> f"{both.break_even_bytes_per_s(8192) / 1e9:.1f} GB/s"
            '6.7 GB/s'
        """
        both = self.at(tokens)
        left = both.recompute_s - self._latency_s
        return both.num_bytes / left / self._share if left > 0 else float("inf")


def _lengths(max_tokens: int) -> Iterator[int]:
    length = 1
    while length < max_tokens:
        yield length
        length = max(length + 1, int(length * _GROWTH))
    yield max_tokens
