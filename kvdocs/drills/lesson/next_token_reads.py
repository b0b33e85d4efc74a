"""Step 2: what one decode pass reads from the cache."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import get_model
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Bytes
from kvdocs.html import Element
from kvdocs.model import LayerGroup
from kvdocs.scenario import LESSON
from kvdocs.units import format_bytes
from kvdocs.widgets.decode_reads import Moment, moment

_PROMPTS: Final = (600, 1_000, 1_500, 2_000, 3_000, 6_000)
_PERCENT_WRITTEN: Final = (10, 15, 20, 25, 40, 60)


@dataclass(frozen=True, slots=True)
class NextToken:
    """A request of the lesson's model: tokens of its prompt, and of its answer so far."""

    prompt: int
    written: int

    @property
    def step(self) -> Moment:
        """The pass that puts out the next token; it takes in the last one written."""
        return moment(step=self.written, prompt=self.prompt)

    @property
    def tokens(self) -> int:
        """All tokens so far."""
        return self.prompt + self.written

    @property
    def layers(self) -> LayerGroup:
        """The model's layers, which are all alike."""
        return get_model(LESSON.model).model.layers[0]

    @property
    def query_heads(self) -> int:
        """The model's query heads."""
        return int(get_model(LESSON.model).text_config["num_attention_heads"])

    def read_of(self, tokens: int) -> int:
        """Bytes of keys and values of so many tokens."""
        return tokens * self.step.bytes_per_token


def _draw(rng: random.Random) -> NextToken:
    prompt = rng.choice(_PROMPTS)
    return NextToken(prompt, prompt * rng.choice(_PERCENT_WRITTEN) // 100)


def _question(p: NextToken) -> str:
    return (
        f"Llama 3.1 8B keeps {p.step.bytes_per_token:,} bytes of keys and values a token, over all "
        f"its {p.layers.count} layers. After a prompt of {p.prompt:,} tokens it has written "
        f"{p.written:,}. The last of them, token {p.tokens:,} of all, now goes in; its own keys "
        "and values are only being computed. How much does this pass read from the cache?"
    )


def _misconceptions(p: NextToken) -> Iterator[Misconception]:
    whole = p.step.read_bytes
    yield Misconception(
        "only the last token",
        p.read_of(1),
        "That is one token. The next one looks back at all of them, not only at the last.",
    )
    yield Misconception(
        "only the prompt",
        p.read_of(p.prompt),
        "That is the prompt alone. What was written since is in the cache too, and is read.",
    )
    yield Misconception(
        "only the answer",
        p.read_of(p.written),
        "That is the answer alone. The prompt is never finished with: every pass reads it again.",
    )
    yield Misconception(
        "one layer",
        whole // p.layers.count,
        "That is one layer. Every layer attends, to keys and values of its own.",
    )
    yield Misconception(
        "forgot key or value",
        whole // 2,
        "Half of it: the key says how much a token matters, the value is what it hands over. Both "
        "are read, and both are in the figure given.",
    )
    yield Misconception(
        "doubled for key and value",
        whole * 2,
        "Twice too much: key and value are both in the figure given.",
    )
    yield Misconception(
        "took query heads",
        whole // p.layers.num_kv_heads * p.query_heads,
        "That is with the query heads. A query is used once and is never kept.",
    )
    yield Misconception(
        "all passes so far",
        p.step.read_so_far_bytes,
        "That is what all passes of the answer have read, one after the other. Asked is one pass.",
    )


def _hints(p: NextToken) -> tuple[str, ...]:
    return (
        f"Which tokens are in the cache when token {p.tokens:,} goes in?",
        (
            f"The {p.tokens - 1:,} before it: its own keys and values are computed in this very "
            f"pass. Those of the others are read, {p.step.bytes_per_token:,} bytes each."
        ),
        "1 MB is 1,000,000 bytes.",
    )


def _solution(p: NextToken) -> tuple[str | Element, ...]:
    step = p.step
    written = format_bytes(step.written_bytes, "KiB")
    return (
        working(
            (
                f"{p.prompt:,} + {p.written:,} − 1 = {step.stored_before:,}",
                "tokens in the cache; the last one is computed in this very pass",
            ),
            (
                f"× {step.bytes_per_token:,} B = {format_bytes(step.read_bytes, 'MB')}",
                "read, key and value, all layers",
            ),
        ),
        (
            f"And it adds one token to the cache, {written}. That is decode: it reads "
            "much and writes little, and one token more to read each time."
        ),
    )


NEXT_TOKEN_READS: Final = Drill(
    id="reads-of-the-next-token",
    kind=Number(Bytes("MB")),
    first=NextToken(1_000, 200),
    draw=_draw,
    question=_question,
    answer=lambda p: p.step.read_bytes,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Compute what the next token reads from the cache."""
