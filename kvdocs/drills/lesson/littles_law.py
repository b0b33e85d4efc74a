"""Step 10: tokens needed in flight, by Little's law.

J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (1961).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.scenario import size_lesson

_PER_MINUTE: Final = (60, 90, 120, 180, 240, 300, 360)
_SECONDS: Final = (4, 6, 9, 12, 15, 20, 25)
_TOKENS: Final = (1_500, 2_500, 4_000, 6_000, 9_000, 12_000)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests a minute, the seconds each stays, and the tokens each holds."""

    per_minute: int
    seconds: int
    tokens: int

    @property
    def in_flight(self) -> float:
        """Requests in flight."""
        return self.per_minute / 60 * self.seconds

    @property
    def tokens_in_flight(self) -> float:
        """Tokens that the requests in flight hold together."""
        return self.in_flight * self.tokens


def _draw(rng: random.Random) -> Load:
    return Load(rng.choice(_PER_MINUTE), rng.choice(_SECONDS), rng.choice(_TOKENS))


def _question(p: Load) -> str:
    return (
        f"{p.per_minute} requests a minute reach the assistant. Each stays {p.seconds} "
        f"seconds and holds {p.tokens:,} tokens while it stays. How many tokens do they hold "
        "at once, on average, if none has to wait?"
    )


def _misconceptions(p: Load) -> Iterator[Misconception]:
    whole = p.tokens_in_flight
    yield Misconception(
        "forgot that it was a minute",
        whole * 60,
        "That is with so many requests a second. They come in a minute.",
    )
    yield Misconception(
        "forgot how long they stay",
        whole / p.seconds,
        "That is what arrives in one second. But each stays for longer, so they add up.",
    )
    yield Misconception(
        "took all of a minute",
        p.per_minute * p.tokens,
        "That is what arrives in a minute. Those of its beginning have left by its end.",
    )
    yield Misconception(
        "one request",
        p.tokens,
        "That is one request. How many are there at the same time?",
    )
    yield Misconception(
        "counted requests",
        round(p.in_flight),
        "That is how many requests are in flight. Asked are the tokens that they hold.",
    )
    yield Misconception(
        "divided by the time",
        p.per_minute / 60 / p.seconds * p.tokens,
        "You divided by the seconds. The longer each stays, the more are there at once: multiply.",
    )


def _hints(p: Load) -> tuple[str, ...]:
    return (
        "In flight = arrivals a second × seconds each stays.",
        f"{p.per_minute} a minute are {p.per_minute / 60:g} a second.",
        f"{p.in_flight:g} requests are in flight, with {p.tokens:,} tokens each.",
    )


def _solution(p: Load) -> tuple[str | Element, ...]:
    needed, pool = p.tokens_in_flight, size_lesson().pool_tokens
    share = f"That is {needed / pool:.0%} of them."
    verdict = (
        f"{share} A minute with twice the requests would still fit."
        if needed <= pool / 2
        else f"{share} A minute with twice the requests would not fit."
        if needed <= pool
        else "They do not fit: the rest queues, whatever the arithmetic units do."
    )
    return (
        working(
            (f"{p.per_minute} / 60 = {p.per_minute / 60:g}", "requests a second"),
            (f"× {p.seconds} s = {p.in_flight:g}", "requests in flight"),
            (f"× {p.tokens:,} = {needed:,.0f}", "tokens in flight"),
        ),
        f"The server of `dgx-1` holds {pool:,} tokens. {verdict}",
    )


LITTLES_LAW: Final = Drill(
    id="littles-law",
    kind=Number(Count("tokens")),
    first=Load(180, 15, 12_000),
    draw=_draw,
    question=_question,
    answer=lambda p: p.tokens_in_flight,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Compute the tokens in flight."""
