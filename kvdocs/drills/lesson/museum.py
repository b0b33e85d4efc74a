"""The bug museum: a published mistake as a short wrong function, and a drill to mend it.

The functions are written for the lesson; each makes the mistake that its source reports. What is
right is computed by `kvdocs.model`, `kvdocs.blocks` and `kvdocs.units`, never typed in.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Code, CodeCase
from kvdocs.drills.prose import fields
from kvdocs.drills.run_code import run_code
from kvdocs.html import Element, h


@dataclass(frozen=True, slots=True)
class Source:
    """Where a mistake was reported.

    Attributes:
        name: Project and number.
        url: Its address.
        told: What it says, in a sentence.
    """

    name: str
    url: str
    told: str

    def link(self) -> Element:
        """The name as a link."""
        return h("a", self.name, href=self.url)


@dataclass(frozen=True, slots=True)
class Visit:
    """What the function is tried on.

    Attributes:
        harmless: A subject that it gets right.
        exposing: A subject that shows the mistake.
    """

    harmless: Any
    exposing: Any


@dataclass(frozen=True, slots=True)
class Slip:
    """A mend that falls short.

    Attributes:
        name: The mistake in a few words.
        code: The function with it.
        message: What its author is told.
    """

    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A published mistake.

    Attributes:
        id: The drill's id; it begins with `bug-`, which tells that the drill is an extra.
        title: The mistake in a few words.
        story: What the function is for, in a sentence.
        function: Its name.
        unit: What it returns, as a word after the number.
        wrong: The function as it was.
        right: The function mended.
        slips: Mends that fall short.
        case: From a subject to a call and what it must return.
        harmless: Subjects that the wrong function gets right.
        exposing: Subjects that show the mistake; the lesson's own comes first.
        hints: One to three.
        why: What is true, in a sentence or two.
        source: Where it was reported.
    """

    id: str
    title: str
    story: str
    function: str
    unit: str
    wrong: str
    right: str
    slips: tuple[Slip, ...] = ()
    case: Callable[[Any], CodeCase]
    harmless: tuple[Any, ...]
    exposing: tuple[Any, ...]
    hints: tuple[str, ...]
    why: str
    source: Source

    def says(self, code: str, *subjects: Any) -> tuple[Any, ...]:
        """What a version of the function returns for subjects.

        Args:
            code: The function.
            *subjects: What it is called for.
        """
        cases = [self.case(subject) for subject in subjects]
        calls = {case.name: case.arguments for case in cases}
        return run_code(code, self.function, calls).returned


def museum_drill(exhibit: Exhibit) -> Drill[Visit]:
    """Make the drill that lets a reader mend an exhibit.

    Args:
        exhibit: The exhibit.
    """

    def draw(rng: random.Random) -> Visit:
        return Visit(rng.choice(exhibit.harmless), rng.choice(exhibit.exposing))

    def cases(p: Visit) -> tuple[CodeCase, ...]:
        return exhibit.case(p.harmless), exhibit.case(p.exposing)

    def given(p: Visit) -> tuple[Element, ...]:
        case = exhibit.case(p.exposing)
        configs = (each for each in case.arguments if isinstance(each, dict))
        return tuple(fields(f"config for {case.name}", each) for each in configs)

    def question(p: Visit) -> str:
        right, wrong = (case.name for case in cases(p))
        return f"{exhibit.story} It is right for {right}, and wrong for {wrong}. Mend it."

    def misconceptions(p: Visit) -> Iterator[Misconception]:
        untouched = Slip(
            "left as it was", exhibit.wrong, f"The mistake is still there. {exhibit.hints[0]}"
        )
        for slip in (untouched, *exhibit.slips):
            returned = exhibit.says(slip.code, p.harmless, p.exposing)
            yield Misconception(slip.name, slip.code, slip.message, returned.__eq__)

    return Drill(
        id=exhibit.id,
        kind=Code(exhibit.function, lambda _: exhibit.wrong, cases),
        first=Visit(exhibit.harmless[0], exhibit.exposing[0]),
        draw=draw,
        question=question,
        answer=lambda _: exhibit.right,
        misconceptions=misconceptions,
        hints=lambda _: exhibit.hints,
        given=given,
        solution=lambda _: (
            exhibit.why,
            h("pre", h("code", exhibit.right), class_="kv-python", tabindex=0),
            h("p", f"{exhibit.source.told} ", exhibit.source.link(), "."),
        ),
    )
