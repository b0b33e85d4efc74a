"""Step 11: how often the average promises too much."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction, Slider
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.units import format_number
from kvdocs.widgets.length_tail import FILLINGS, Answer, answer, fillings

_SHAPES: Final = tuple(
    (median, tail, longest)
    for median in (1024, 2048, 4096)
    for tail in (4, 8, 16)
    for longest in (32_768, 65_536, 131_072)
)


@dataclass(frozen=True, slots=True)
class BadFillings:
    """A distribution of lengths: median in tokens, tail in medians, longest in tokens."""

    median: int
    tail: int
    longest: int

    @property
    def found(self) -> Answer:
        """What happened in all fillings."""
        return _found(self.median, self.tail, self.longest)

    @property
    def percent(self) -> float:
        """Percent of the fillings in which fewer fitted than the average promises."""
        return 100 * self.found.too_few / FILLINGS


@lru_cache(maxsize=len(_SHAPES))
def _found(median: int, tail: int, longest: int) -> Answer:
    return answer(fillings(median, tail, longest), FILLINGS)


def _draw(rng: random.Random) -> BadFillings:
    return BadFillings(*rng.choice(_SHAPES))


def _question(p: BadFillings) -> str:
    return (
        f"Half of the requests have up to {p.median:,} tokens, one in 20 more than "
        f"{p.median * p.tail:,}, none more than {p.longest:,}. By the average, "
        f"{p.found.by_average} fit. The pool is filled {FILLINGS} times: in which share of these "
        "fillings do fewer fit?"
    )


def _misconceptions(_: BadFillings) -> Iterator[Misconception]:
    yield Misconception(
        "trusts the average",
        0.0,
        "The average is no floor. Whenever a few long requests come together, fewer fit.",
    )
    yield Misconception(
        "takes it for the worst case",
        100.0,
        "Not always: some fillings happen to draw fewer long requests than usual, and then more "
        "fit than the average says.",
    )


def _solution(p: BadFillings) -> tuple[str | Element, ...]:
    found = p.found
    return (
        working(
            (f"{found.by_average}", "promised by the average"),
            (f"{min(found.counts)} to {max(found.counts)}", f"really fitted, {FILLINGS} times"),
            (
                f"{found.too_few} of {FILLINGS} = {format_number(p.percent, 1)} %",
                "of the fillings had fewer",
            ),
        ),
        (
            "The average is a middle, not a floor: now fewer fit than it says, now more, and "
            "nobody knows beforehand."
        ),
    )


BAD_FILLINGS: Final = Drill(
    id="fillings-below-the-average",
    kind=Prediction(Count("%", ("percent",)), points=10, slider=Slider(0, 100, 5, 0)),
    first=BadFillings(2048, 8, 32_768),
    draw=_draw,
    question=_question,
    answer=lambda p: p.percent,
    misconceptions=_misconceptions,
    hints=lambda p: (
        "If the average were a promise, fewer would never fit. Play the picture to its end.",
        f"The fewest that fitted were {min(p.found.counts)}, the most {max(p.found.counts)}.",
    ),
    solution=_solution,
)
"""Predict how often fewer fit than the average says."""
