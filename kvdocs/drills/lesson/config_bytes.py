"""Step 4: bytes per token, read from a `config.json`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.lesson.plain_models import PLAIN_MODELS, PlainModel
from kvdocs.drills.prose import file, working
from kvdocs.drills.quantities import Bytes
from kvdocs.html import Element
from kvdocs.units import format_bytes, format_number


def _draw(rng: random.Random) -> PlainModel:
    return PlainModel(rng.choice(PLAIN_MODELS))


def _question(p: PlainModel) -> str:
    return (
        f"These are the fields of {p.name} that matter. How much KV cache does one token take, "
        "in bf16?"
    )


def _misconceptions(p: PlainModel) -> Iterator[Misconception]:
    truth, heads = p.bytes_per_token(), p.query_heads // p.layers.num_kv_heads
    factor = format_number(p.query_heads / p.layers.num_kv_heads, 1)
    yield Misconception(
        "took query heads",
        p.query_head_bytes(),
        f"{factor} times too high: that is with the {p.query_heads} query heads "
        "(`num_attention_heads`). Only KV heads (`num_key_value_heads`) leave keys and values.",
    )
    yield Misconception(
        "took hidden size over query heads",
        truth * p.hidden_over_heads // p.layers.head_size,
        "That is with hidden size ÷ query heads as the head dim. This file names another: "
        "`head_dim` wins.",
    )
    yield Misconception(
        "forgot a factor of two",
        truth // 2,
        "Half of it. Either the value beside the key is missing, or a bf16 number's second byte.",
    )
    yield Misconception(
        "forgot two factors of two",
        truth // 4,
        "A quarter of it. A token leaves a key and a value, and bf16 takes 2 bytes a number.",
    )
    yield Misconception(
        "took one layer",
        truth // p.layers.count,
        f"That is one layer. There are {p.layers.count}, and each keeps its own keys and values.",
    )
    if heads > 1:
        yield Misconception(
            "took one KV head",
            truth // p.layers.num_kv_heads,
            f"That is one KV head. There are {p.layers.num_kv_heads} in every layer.",
        )


def _hints(p: PlainModel) -> tuple[str, ...]:
    named = "stands in the file" if "head_dim" in p.shown_config else "is hidden size ÷ query heads"
    return (
        "2 × layers × KV heads × head dim × bytes per value.",
        f"The head dim {named}: {p.layers.head_size}. bf16 takes 2 bytes a value.",
        "1 KiB is 1,024 bytes.",
    )


def _solution(p: PlainModel) -> tuple[str | Element, ...]:
    layers, total = p.layers, p.bytes_per_token()
    head = (
        (f"{layers.head_size}", "head dim, named in the file")
        if "head_dim" in p.shown_config
        else (
            f"{p.shown_config['hidden_size']:,} / {p.query_heads} = {layers.head_size}",
            "head dim: hidden size ÷ query heads",
        )
    )
    return (
        working(
            head,
            (
                (
                    f"2 × {layers.count} × {layers.num_kv_heads} × {layers.head_size} × 2 B = "
                    f"{total:,} B"
                ),
                "key and value, layers, KV heads, head dim, bf16",
            ),
            (f"{total:,} / 1,024 = {format_bytes(total, 'KiB')}", "one token"),
        ),
        (
            f"`num_attention_heads` is not in it: the {p.query_heads} query heads share "
            f"{layers.num_kv_heads} KV heads."
        ),
    )


CONFIG_BYTES: Final = Drill(
    id="bytes-per-token-from-a-config",
    kind=Number(Bytes("KiB")),
    first=PlainModel("Qwen/Qwen3-32B"),
    draw=_draw,
    question=_question,
    given=lambda p: (file(f"{p.name} · config.json, in part", p.shown_config),),
    answer=lambda p: p.bytes_per_token(),
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Compute a model's KV bytes per token from the fields of its `config.json`."""
