"""Step 6: conversations with a 70B model on four GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import get_model
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON_70B, TP_SIZE, LessonSize70B, size_lesson_70b
from kvdocs.units import GB, KIB, format_bytes

_KV_HEADS: Final = 8
_LENGTHS: Final = (2_048, 4_096, 6_000, 10_000, 12_000, 16_384, 20_000, 24_000)
_BUFFERS: Final = (1 * GB, int(1.5 * GB), 2 * GB)


@dataclass(frozen=True, slots=True)
class FourGpus:
    """Conversations of so many tokens, and what each GPU keeps for buffers, in bytes."""

    tokens: int
    buffer_bytes: int

    def size(self, num_kv_heads: int = _KV_HEADS) -> LessonSize70B:
        """How the four GPUs are divided."""
        return size_lesson_70b(num_kv_heads=num_kv_heads, reserve_bytes=self.buffer_bytes)

    @property
    def query_heads(self) -> int:
        """The model's query heads."""
        return int(get_model(LESSON_70B).text_config["num_attention_heads"])

    @property
    def conversation_bytes(self) -> int:
        """Bytes of one conversation, over all four."""
        return self.tokens * self.size().bytes_per_token

    def in_pool(self, num_bytes: float) -> int:
        """Whole conversations in an amount of memory."""
        return int(num_bytes // self.conversation_bytes)

    @property
    def fit(self) -> int:
        """Conversations at once."""
        return self.in_pool(self.size().pool_bytes)

    @property
    def reserve_bytes(self) -> float:
        """What one GPU keeps for itself."""
        return self.size().reserved_bytes / TP_SIZE


def _draw(rng: random.Random) -> FourGpus:
    return FourGpus(rng.choice(_LENGTHS), rng.choice(_BUFFERS))


def _question(p: FourGpus) -> str:
    size = p.size()
    return (
        f"Llama 3.1 70B in bf16 ({format_bytes(size.weights_bytes, 'GB')} of weights, {_KV_HEADS} "
        f"KV heads, {size.bytes_per_token // KIB} KiB a token) on four GPUs with "
        f"`--tensor-parallel-size {TP_SIZE}`. vLLM may use 0.9 of each one's 80 GB; each keeps "
        f"{format_bytes(p.reserve_bytes, 'GB')} for workspace, CUDA context and buffers. How many "
        f"conversations of {p.tokens:,} tokens fit at once?"
    )


def _misconceptions(p: FourGpus) -> Iterator[Misconception]:
    size = p.size()
    yield Misconception(
        "took query heads",
        int(size.pool_bytes // (p.tokens * p.size(p.query_heads).bytes_per_token)),
        f"That is as if it were MHA, with {p.query_heads} heads. It has {_KV_HEADS} KV heads.",
    )
    yield Misconception(
        "one GPU's pool",
        p.in_pool(size.pool_bytes / TP_SIZE),
        "That is the pool of one GPU against a whole token. Each GPU stores only its own KV heads, "
        "a quarter of each token: take a quarter of both, or all of both.",
    )
    yield Misconception(
        "a quarter of a token",
        p.in_pool(size.pool_bytes * TP_SIZE),
        "That is the pool of all four against a quarter of a token. Take all of both, or a quarter "
        "of both.",
    )
    yield Misconception(
        "forgot the reserve",
        p.in_pool(size.requested_bytes - size.weights_bytes),
        "That leaves out what each GPU keeps for workspace, CUDA context and buffers.",
    )
    yield Misconception(
        "took the reserve once",
        p.in_pool(size.requested_bytes - size.weights_bytes - p.reserve_bytes),
        "You took the reserve once. Each of the four GPUs keeps its own.",
    )
    yield Misconception(
        "took the whole GPUs",
        p.in_pool(size.total_bytes - size.weights_bytes - size.reserved_bytes),
        "That is with the whole of each GPU. vLLM may use 0.9 of it.",
    )
    yield Misconception(
        "forgot the weights",
        p.in_pool(size.requested_bytes),
        "That divides all that vLLM may use. The weights come first.",
    )
    yield Misconception(
        "rounded up",
        p.fit + 1,
        "One too many: the last would not fit whole. Round down.",
    )


def _hints(p: FourGpus) -> tuple[str, ...]:
    size = p.size()
    return (
        "Add up the four GPUs first: what may be used, less weights, less four reserves.",
        f"That leaves {format_bytes(size.pool_bytes, 'GB')} for keys and values.",
        f"A conversation takes {p.tokens:,} × {size.bytes_per_token:,} bytes.",
    )


def _solution(p: FourGpus) -> tuple[str | Element, ...]:
    size = p.size()
    conversation = format_bytes(p.conversation_bytes, "GB")
    return (
        working(
            (f"4 × 0.9 × 80 GB = {format_bytes(size.requested_bytes, 'GB')}", "may be used"),
            (f"− {format_bytes(size.weights_bytes, 'GB')}", "weights, once over all four"),
            (f"− 4 × {format_bytes(p.reserve_bytes, 'GB')}", "each GPU's own"),
            (f"= {format_bytes(size.pool_bytes, 'GB')}", "the four pools together"),
            (f"{p.tokens:,} × {size.bytes_per_token:,} B = {conversation}", "a conversation"),
            (
                f"{size.pool_bytes / p.conversation_bytes:.2f}",
                f"so {p.fit} whole conversations",
            ),
        ),
        (
            f"With {p.query_heads} KV heads, as if it were MHA, each would take eight times "
            f"as much, and {p.fit} would be {int(size.pool_bytes // (8 * p.conversation_bytes))}."
        ),
    )


FOUR_GPUS: Final = Drill(
    id="conversations-on-four-gpus",
    kind=Number(Count("conversations", ("sequences", "requests")), tolerance=0),
    first=FourGpus(12_000, int(1.5 * GB)),
    draw=_draw,
    question=_question,
    answer=lambda p: p.fit,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Say how many conversations fit on four GPUs."""
