"""A drill, the same with its numbers drawn, and the verdict on an answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from kvdocs.html import Element

P = TypeVar("P")
"""A drill's parameters: a frozen dataclass of its own."""

MAX_HINTS: Final = 3
_SEEDS_TRIED: Final = 1000


class Outcome(StrEnum):
    """What became of an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to an answer.

    Attributes:
        outcome: Right, wrong, or not readable.
        message: What the reader is told; `code` stands in backticks.
        guess: What the reader predicted, as printed, once the truth is revealed; else "".
        truth: The truth, as printed, where the verdict reveals it; else "".
        ruled_out: The option this answer rules out; "" for none.
        printed: What the reader's code printed.
    """

    outcome: Outcome
    message: str
    guess: str = ""
    truth: str = ""
    ruled_out: str = ""
    printed: str = ""

    @property
    def done(self) -> bool:
        """Whether the drill is over: answered right, or a prediction that was compared.

        Examples:
            >>> Verdict(Outcome.WRONG, "Too high.").done
            False
        """
        return self.outcome is Outcome.RIGHT or self.truth != ""


@dataclass(frozen=True, slots=True)
class Misconception:
    """A wrong answer that comes from a known mistake.

    Attributes:
        name: The mistake in a few words, unique in its drill; never shown.
        answer: What somebody who makes it answers, computed from the same parameters.
        message: What that reader is told, without giving the answer away.
        seen: Tells the mistake from what the kind of drill found out (a state, what code
            returned), where the answer itself is one of many; unused by the other kinds.
    """

    name: str
    answer: Any
    message: str
    seen: Callable[[Any], bool] | None = None


class Kind(Protocol):
    """How a drill is answered: its controls on the page, and how an answer is judged."""

    @property
    def word(self) -> str:
        """What the reader is to do, in a word or two; stands above the question."""

    def requirement(self, posed: Posed[Any]) -> str:
        """Say what is accepted, and how exactly."""

    def fields(self, posed: Posed[Any]) -> Element:
        """Return native, labelled controls."""

    def written(self, answer: Any) -> object:
        """Return an answer as the page sends it: a text, a list of texts, or texts by name."""

    def same(self, some: Any, other: Any) -> bool:
        """Whether two answers are equal as far as this drill is concerned."""

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Judge what the page sent, whatever it is."""


@dataclass(frozen=True, slots=True)
class Drill(Generic[P]):
    """One question of the lesson.

    Attributes:
        id: Kebab-case name; saved answers and links are kept under it.
        kind: How it is answered.
        first: The lesson's own case: the parameters of seed 0.
        draw: Draws other parameters.
        question: The question.
        answer: The answer, computed when it is asked for.
        misconceptions: The wrong answers that known mistakes lead to.
        hints: At most three, the gentlest first.
        solution: The worked solution: paragraphs, and elements such as `working`.
        given: What the question refers to, shown below it.
    """

    id: str
    kind: Kind
    first: P
    draw: Callable[[random.Random], P]
    question: Callable[[P], str]
    answer: Callable[[P], Any]
    misconceptions: Callable[[P], Iterable[Misconception]]
    hints: Callable[[P], tuple[str, ...]]
    solution: Callable[[P], tuple[str | Element, ...]]
    given: Callable[[P], tuple[Element, ...]] = lambda _: ()

    def parameters(self, seed: int) -> P:
        """Return the parameters of a seed; the same seed always gives the same.

        Examples:
            >>> from kvdocs.drills.registry import get_drill
            >>> get_drill("pool-at-another-utilization").parameters(0).utilization
            0.6
        """
        return self.draw(random.Random(seed)) if seed else self.first  # noqa: S311 - no secret

    def pose(self, seed: int = 0) -> Posed[P]:
        """Return the drill with its numbers."""
        return Posed(self, seed, self.parameters(seed))


@dataclass(frozen=True, slots=True)
class Posed(Generic[P]):
    """A drill with its numbers drawn.

    Attributes:
        drill: The drill.
        seed: The seed.
        params: The parameters of that seed.
    """

    drill: Drill[P]
    seed: int
    params: P

    @property
    def question(self) -> str:
        """The question."""
        return self.drill.question(self.params)

    @property
    def answer(self) -> Any:
        """The right answer."""
        return self.drill.answer(self.params)

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints."""
        return self.drill.hints(self.params)

    @property
    def solution(self) -> tuple[str | Element, ...]:
        """The worked solution."""
        return self.drill.solution(self.params)

    @property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """The mistakes that lead to a wrong answer with these numbers.

        A mistake that happens to hit the right answer cannot be told from knowing it, nor two
        mistakes that give the same: of those the first is kept.
        """
        return tuple(self._telling())

    def _telling(self) -> Iterator[Misconception]:
        answer = self.answer
        told: list[Any] = []
        for mistake in self.drill.misconceptions(self.params):
            if mistake.answer not in told and not self.drill.kind.same(mistake.answer, answer):
                told.append(mistake.answer)
                yield mistake

    def check(self, raw: object) -> Verdict:
        """Judge an answer as the page sends it.

        Examples:
            >>> from kvdocs.drills.registry import get_drill
            >>> get_drill("fp8-bytes-per-token").pose().check("160 KiB").outcome.value
            'right'
        """
        return self.drill.kind.check(self, raw)

    def next_seed(self) -> int:
        """Return the next seed that draws other numbers."""
        after = range(self.seed + 1, self.seed + _SEEDS_TRIED)
        return next(
            (seed for seed in after if self.drill.parameters(seed) != self.params), self.seed + 1
        )
