"""Step 6: what other numbers of KV heads would do, and when one head is held by every GPU."""

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
from kvdocs.scenario import CONVERSATION_TOKENS, TP_SIZE, size_lesson_70b
from kvdocs.units import KIB, format_bytes

_RELEASED: Final = 8


@dataclass(frozen=True, slots=True)
class FewerHeads:
    """The 70B model as if it had so many KV heads in each layer."""

    num_kv_heads: int

    @property
    def head_bytes(self) -> int:
        """Bytes of one token's keys and values in one KV head of all layers."""
        return size_lesson_70b().bytes_per_token // _RELEASED

    @property
    def heads_per_gpu(self) -> int:
        """KV heads that each GPU holds: at least one, for each computes its query heads.

        Source: vLLM 0.33.0, `vllm/config/model.py`, `get_num_kv_heads`.
        """
        return max(1, self.num_kv_heads // TP_SIZE)

    @property
    def token_bytes_per_gpu(self) -> int:
        """Bytes of one token on each GPU."""
        return self.heads_per_gpu * self.head_bytes

    @property
    def pool_bytes_per_gpu(self) -> float:
        """Pool of each GPU, taken to be as large as with the released heads."""
        return size_lesson_70b().pool_bytes / TP_SIZE

    @property
    def fit(self) -> int:
        """Conversations at once."""
        return int(self.pool_bytes_per_gpu // (CONVERSATION_TOKENS * self.token_bytes_per_gpu))

    @property
    def undivided(self) -> int:
        """What the whole pool would hold if nothing had to be held twice."""
        token = self.num_kv_heads * self.head_bytes
        return int(size_lesson_70b().pool_bytes // (CONVERSATION_TOKENS * token))


def _draw(rng: random.Random) -> FewerHeads:
    return FewerHeads(rng.choice((1, 2, 4, 16, 32)))


def _question(p: FewerHeads) -> str:
    heads = "one KV head" if p.num_kv_heads == 1 else f"{p.num_kv_heads} KV heads"
    return (
        f"With its {_RELEASED} KV heads, {size_lesson_70b().conversations} conversations of "
        f"{CONVERSATION_TOKENS:,} tokens fit on the four GPUs. Suppose it had {heads} in each "
        "layer, and the pool stayed as large. How many conversations then?"
    )


def _misconceptions(p: FewerHeads) -> Iterator[Misconception]:
    yield Misconception(
        "divided what cannot be divided",
        p.undivided,
        "That is by the formula alone. But a KV head is never cut: each of the four GPUs keeps a "
        "whole one for its query heads, so with fewer heads than GPUs some are kept more than "
        "once.",
    )
    yield Misconception(
        "the cache does not depend on it",
        size_lesson_70b().conversations,
        "KV heads are a factor of the formula, so the number moves with them.",
    )
    yield Misconception(
        "the wrong way round",
        size_lesson_70b().conversations * p.num_kv_heads // _RELEASED,
        "The other way round: fewer heads are smaller tokens, and more conversations.",
    )


def _solution(p: FewerHeads) -> tuple[str | Element, ...]:
    conversation = CONVERSATION_TOKENS * p.token_bytes_per_gpu
    heads = f"{p.heads_per_gpu} KV head{'s' if p.heads_per_gpu > 1 else ''}"
    whole = "" if p.num_kv_heads >= TP_SIZE else "; it cannot hold less"
    return (
        working(
            (heads, f"on each GPU{whole}"),
            (f"{p.token_bytes_per_gpu / KIB:g} KiB", "of a token on each GPU"),
            (format_bytes(conversation, "GB", 3), f"of {CONVERSATION_TOKENS:,} tokens"),
            (
                (
                    f"{format_bytes(p.pool_bytes_per_gpu, 'GB')} / "
                    f"{format_bytes(conversation, 'GB', 3)} = {p.fit} conversations"
                ),
                "rounded down",
            ),
        ),
        (
            "With fewer KV heads than GPUs nothing more is saved: each GPU keeps a whole head, "
            "several the same one."
        ),
    )


FEWER_HEADS: Final = Drill(
    id="conversations-with-other-heads",
    kind=Prediction(Count("conversations")),
    first=FewerHeads(1),
    draw=_draw,
    question=_question,
    answer=lambda p: p.fit,
    misconceptions=_misconceptions,
    hints=lambda p: (
        f"With {_RELEASED} heads each of the {TP_SIZE} GPUs holds {_RELEASED // TP_SIZE} of them.",
        f"How many KV heads does each GPU hold of {p.num_kv_heads}? It cannot hold less than one.",
    ),
    solution=_solution,
)
"""Predict the conversations with fewer KV heads, or more."""
