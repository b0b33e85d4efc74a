"""Step 8: a token and a conversation with an fp8 cache."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.lesson.plain_models import PLAIN_MODELS, PlainModel
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Bytes
from kvdocs.html import Element
from kvdocs.units import format_bytes

_FIRST: Final = PlainModel("meta-llama/Llama-3.1-70B")
_LENGTHS: Final = (8_192, 16_384, 32_768, 65_536, 131_072)


def _draw_model(rng: random.Random) -> PlainModel:
    return PlainModel(rng.choice(PLAIN_MODELS))


def _factors(model: PlainModel) -> str:
    layers = model.layers
    return f"2 × {layers.count} × {layers.num_kv_heads} × {layers.head_size}"


def _token_question(p: PlainModel) -> str:
    layers = p.layers
    return (
        f"{p.name} has {layers.count} layers, {p.query_heads} query heads, {layers.num_kv_heads} "
        f"KV heads and head dim {layers.head_size}. With `--kv-cache-dtype fp8`, what does one "
        "token take?"
    )


def _token_misconceptions(p: PlainModel) -> Iterator[Misconception]:
    fp8 = p.bytes_per_token("fp8")
    yield Misconception(
        "reckoned in bf16",
        p.bytes_per_token(),
        "That is the figure in bf16. fp8 takes 1 byte a number.",
    )
    yield Misconception(
        "forgot key or value",
        fp8 // 2,
        "Half of it: a token leaves a key and a value. fp8 alone already makes it 1 byte a number.",
    )
    yield Misconception(
        "took query heads",
        p.query_head_bytes("fp8"),
        f"That is with the {p.query_heads} query heads. Only the {p.layers.num_kv_heads} KV "
        "heads leave keys and values.",
    )
    yield Misconception(
        "took query heads in bf16",
        p.query_head_bytes(),
        f"That is with the {p.query_heads} query heads, and in bf16. KV heads leave keys and "
        "values, and fp8 takes 1 byte a number.",
    )


def _token_hints(p: PlainModel) -> tuple[str, ...]:
    return (
        "The formula stays; one factor of it changes.",
        f"In bf16 it is {format_bytes(p.bytes_per_token(), 'KiB')}.",
    )


def _token_solution(p: PlainModel) -> tuple[str | Element, ...]:
    bf16, fp8 = p.bytes_per_token(), p.bytes_per_token("fp8")
    return (
        working(
            (f"{_factors(p)} × 2 B = {format_bytes(bf16, 'KiB')}", "in bf16"),
            (f"{_factors(p)} × 1 B = {format_bytes(fp8, 'KiB')}", "in fp8"),
        ),
        "Half of it, whatever dtype the weights have: the cache's dtype is a flag of its own.",
    )


FP8_BYTES_PER_TOKEN: Final = Drill(
    id="fp8-bytes-per-token",
    kind=Number(Bytes("KiB")),
    first=_FIRST,
    draw=_draw_model,
    question=_token_question,
    answer=lambda p: p.bytes_per_token("fp8"),
    misconceptions=_token_misconceptions,
    hints=_token_hints,
    solution=_token_solution,
)
"""Compute a token's bytes in an fp8 cache."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One long conversation with a model."""

    model: PlainModel
    tokens: int

    @property
    def fp8_bytes(self) -> int:
        """What it takes in an fp8 cache."""
        return self.tokens * self.model.bytes_per_token("fp8")

    @property
    def bf16_bytes(self) -> int:
        """What it takes in a bf16 cache."""
        return self.tokens * self.model.bytes_per_token()


def _draw_conversation(rng: random.Random) -> Conversation:
    return Conversation(_draw_model(rng), rng.choice(_LENGTHS))


def _conversation_question(p: Conversation) -> str:
    return (
        f"One conversation of {p.tokens:,} tokens with {p.model.name}, which takes "
        f"{format_bytes(p.model.bytes_per_token(), 'KiB')} a token in bf16. How many GB does it "
        "take in an fp8 cache?"
    )


def _conversation_misconceptions(p: Conversation) -> Iterator[Misconception]:
    yield Misconception(
        "reckoned in bf16",
        p.bf16_bytes,
        "That is what it takes in bf16. fp8 takes half of that a token.",
    )
    yield Misconception(
        "halved twice",
        p.fp8_bytes // 2,
        "Halved once too often: fp8 makes 1 byte of 2, and key and value are both in the "
        "figure given.",
    )
    yield Misconception(
        "took K for a thousand",
        p.fp8_bytes * 1000 // 1024,
        f"That is with a thousand tokens for a K, or 1,000 bytes for a KiB. It is {p.tokens:,} "
        "tokens, and a KiB is 1,024 bytes.",
    )
    yield Misconception(
        "gave one token",
        p.model.bytes_per_token("fp8"),
        f"That is one token. The conversation has {p.tokens:,}.",
    )


def _conversation_hints(p: Conversation) -> tuple[str, ...]:
    return (
        "First one token in fp8, then all of them.",
        f"One token takes {p.model.bytes_per_token('fp8'):,} bytes in fp8.",
        "1 GB is 1,000,000,000 bytes.",
    )


def _conversation_solution(p: Conversation) -> tuple[str | Element, ...]:
    token = p.model.bytes_per_token("fp8")
    return (
        working(
            (f"{p.model.bytes_per_token():,} B / 2 = {token:,} B", "one token in fp8"),
            (
                f"× {p.tokens:,} = {format_bytes(p.fp8_bytes, 'GB', 3)}",
                f"the conversation, {format_bytes(p.fp8_bytes, 'GiB')}",
            ),
        ),
        (
            f"In bf16 it would take {format_bytes(p.bf16_bytes, 'GB', 3)}: the same pool takes "
            "twice as many conversations in fp8."
        ),
    )


FP8_CONVERSATION: Final = Drill(
    id="fp8-long-conversation",
    kind=Number(Bytes("GB", digits=3)),
    first=Conversation(_FIRST, 32_768),
    draw=_draw_conversation,
    question=_conversation_question,
    answer=lambda p: p.fp8_bytes,
    misconceptions=_conversation_misconceptions,
    hints=_conversation_hints,
    solution=_conversation_solution,
)
"""Compute what a long conversation takes in an fp8 cache."""
