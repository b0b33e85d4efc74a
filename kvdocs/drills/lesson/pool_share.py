"""Step 1: how large the pool is at another share of the GPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import format_bytes

_SHARES: Final = (0.5, 0.55, 0.6, 0.65, 0.7)
"""Far enough from the lesson's share for the pool to differ from one scaled with the share."""


@dataclass(frozen=True, slots=True)
class PoolShare:
    """The lesson's server at another `--gpu-memory-utilization`."""

    utilization: float

    @property
    def before(self) -> LessonSize:
        """The lesson's own server."""
        return size_lesson()

    @property
    def after(self) -> LessonSize:
        """The same server at the other share."""
        return size_lesson(utilization=self.utilization)

    @property
    def scaled_tokens(self) -> int:
        """The pool, had it shrunk in proportion to the share."""
        return int(self.before.pool_tokens * self.utilization / LESSON.utilization)


def _draw(rng: random.Random) -> PoolShare:
    return PoolShare(rng.choice(_SHARES))


def _question(p: PoolShare) -> str:
    return (
        f"At {LESSON.utilization:g} the KV pool holds {p.before.pool_tokens:,} tokens. You "
        f"lower `--gpu-memory-utilization` to {p.utilization:g}. How many tokens does the KV "
        "pool hold then?"
    )


def _misconceptions(p: PoolShare) -> Iterator[Misconception]:
    yield Misconception(
        "scaled the pool with the share",
        p.scaled_tokens,
        f"That is the pool scaled with the share, {p.before.pool_tokens:,} × {p.utilization:g} "
        f"/ {LESSON.utilization:g}: too many. Weights, workspace and context stay as large "
        "as they were, so the pool alone takes the change.",
    )
    yield Misconception(
        "forgot that weights come first",
        int(p.after.budget.requested_bytes // p.after.cost.bytes_per_token),
        "That would be the pool if it had the whole share to itself. Weights, workspace and "
        "CUDA context are in that share too.",
    )
    yield Misconception(
        "left the pool as it was",
        p.before.pool_tokens,
        f"That is the pool at {LESSON.utilization:g}. What the share loses, the pool loses.",
    )
    yield Misconception(
        "took the change for the pool",
        p.before.pool_tokens - p.after.pool_tokens,
        "That is about what the pool loses, not what it holds afterwards.",
    )


def _hints(p: PoolShare) -> tuple[str, ...]:
    return (
        "Which of the parts in the bar above change with the share, and which do not?",
        (
            f"The share falls by {LESSON.utilization - p.utilization:.2g} of the whole GPU, "
            f"{format_bytes(p.before.budget.total_bytes, 'GB')}. All of that is taken from the "
            "pool."
        ),
        f"A token takes {p.before.cost.bytes_per_token:,} bytes.",
    )


def _solution(p: PoolShare) -> tuple[str | Element, ...]:
    before, after = p.before, p.after
    held = before.budget.requested_bytes - before.budget.kv_bytes
    change = 1 - after.pool_tokens / before.pool_tokens
    share = 1 - p.utilization / LESSON.utilization
    return (
        working(
            (
                (
                    f"{p.utilization:g} × {format_bytes(after.budget.total_bytes, 'GB')} = "
                    f"{format_bytes(after.budget.requested_bytes, 'GB')}"
                ),
                "what vLLM may use",
            ),
            (
                f"− {format_bytes(held, 'GB')} = {format_bytes(after.budget.kv_bytes, 'GB')}",
                "without weights, workspace and CUDA context",
            ),
            (f"/ {after.cost.bytes_per_token:,} B = {after.pool_tokens:,} tokens", "the KV pool"),
        ),
        (
            f"In proportion to the share it would have been {p.scaled_tokens:,}. But weights, "
            "workspace and context stay as large as they were, so the pool alone takes the "
            f"change: it loses {change:.0%}, where the share loses {share:.0%}."
        ),
    )


POOL_SHARE: Final = Drill(
    id="pool-at-another-utilization",
    kind=Prediction(Count("tokens")),
    first=PoolShare(0.6),
    draw=_draw,
    question=_question,
    answer=lambda p: p.after.pool_tokens,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Predict the pool at another `--gpu-memory-utilization`."""
