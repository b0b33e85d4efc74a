"""Step 20: make the sheet of another server, and read a figure off it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.sheet.subject import Subject, read_subject
from kvdocs.units import format_bytes

_SERVERS: Final = (
    ("Qwen/Qwen3-32B", "h200-sxm-141gb", 1),
    ("Qwen/Qwen3-14B", "a100-sxm-80gb", 1),
    ("meta-llama/Llama-3.1-70B", "h100-sxm-80gb", 4),
    ("meta-llama/Llama-3.1-8B", "l40s-48gb", 1),
    ("mistralai/Mistral-Small-24B-Instruct-2501", "h100-sxm-80gb", 1),
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server with an fp8 cache, and how long its sequences are."""

    model: str
    gpu: str
    num_gpus: int
    tokens: int

    def subject(self, kv_cache_dtype: str = "fp8") -> Subject:
        """What its sheet is made from."""
        return read_subject(
            model=self.model,
            gpu=self.gpu,
            num_gpus=self.num_gpus,
            kv_cache_dtype=kv_cache_dtype,
            tokens=self.tokens,
        )

    @property
    def sequences(self) -> int:
        """Sequences at once."""
        return self.subject().at_once(self.tokens)

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one of them."""
        return self.subject().cost.sequence_bytes_at(self.tokens)


def _draw(rng: random.Random) -> Server:
    model, gpu, count = rng.choice(_SERVERS)
    return Server(model, gpu, count, rng.choice((16_384, 32_768)))


def _question(p: Server) -> str:
    cards = get_gpu(p.gpu).name
    cards = cards if p.num_gpus == 1 else f"{p.num_gpus} × {cards}"
    return (
        f"Make the sheet for {p.model} on {cards} with an fp8 cache. How many sequences of "
        f"{p.tokens:,} tokens fit at once?"
    )


def _misconceptions(p: Server) -> Iterator[Misconception]:
    subject = p.subject()
    yield Misconception(
        "left the cache in bf16",
        p.subject("auto").at_once(p.tokens),
        "That is the sheet of a 16-bit cache. Choose fp8 as the KV cache dtype.",
    )
    yield Misconception(
        "divided what vLLM claims",
        int(subject.budget.requested_bytes * p.num_gpus // p.sequence_bytes),
        "You divided all that vLLM claims. The weights and the workspace come first; the KV pool "
        "is what they leave.",
    )
    yield Misconception(
        "counted conversations of 8K",
        subject.at_once(8192),
        f"That many fit with 8,192 tokens each. Here they have {p.tokens:,}.",
    )


def _solution(p: Server) -> tuple[str | Element, ...]:
    subject = p.subject()
    pool, each = subject.held.kv_pool_bytes, subject.cost.bytes_per_token
    size = format_bytes(p.sequence_bytes, "GB")
    return (
        "The sheet has all three figures:",
        working(
            (format_bytes(pool, "GB"), "the KV pool"),
            (f"{each:,} B × {p.tokens:,} = {size}", "one sequence"),
            (f"{pool / p.sequence_bytes:.2f}, so {p.sequences}", "whole sequences at once"),
        ),
    )


READ_SHEET: Final = Drill(
    id="read-the-sheet",
    kind=Number(Count("sequences"), tolerance=0),
    first=Server("Qwen/Qwen3-32B", "h200-sxm-141gb", 1, 32_768),
    draw=_draw,
    question=_question,
    answer=lambda p: p.sequences,
    misconceptions=_misconceptions,
    hints=lambda p: (
        "Above the sheet's figures are its controls: model, GPU, cache dtype, tokens.",
        f"Under What fits: the line Sequences of {p.tokens:,}, once the slider says so.",
    ),
    solution=_solution,
)
"""Read how many sequences fit off a sheet of one's own."""
