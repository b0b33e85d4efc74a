"""Step 16: whose blocks are taken when there are none left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.blocks import blocks_for
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Option
from kvdocs.engine import DistinctPrompt, EngineConfig, RequestSpec, SteppingEngine
from kvdocs.engine.events import Preemption
from kvdocs.html import Element
from kvdocs.scenario import LESSON
from kvdocs.widgets.view import Table

BLOCK: Final = LESSON.block_size
_NAMES: Final = ("A", "B", "C", "D")
_PLACES: Final = ("first", "second", "third", "last")
_PROMPTS: Final = (30, 60, 90, 140, 200, 260, 340, 420)
_LONG: Final = 400
"""Output tokens of each: more than the pool has room for."""


@dataclass(frozen=True, slots=True)
class Pressed:
    """Running requests in order of admission, and blocks beyond their prompts.

    Attributes:
        names: Who was admitted, the first to the last.
        prompts: Tokens of each one's prompt, in the same order.
        spare: Blocks that are free after the prompts.
    """

    names: tuple[str, ...]
    prompts: tuple[int, ...]
    spare: int

    @property
    def num_blocks(self) -> int:
        """Blocks that requests can hold."""
        return sum(blocks_for(tokens, BLOCK) for tokens in self.prompts) + self.spare

    @property
    def moment(self) -> Moment:
        """The step in which the pool is first too small."""
        config = EngineConfig(num_blocks=self.num_blocks + 1, enable_prefix_caching=False)
        engine = SteppingEngine(config)
        for name, tokens in zip(self.names, self.prompts, strict=True):
            engine.add(RequestSpec(id=name, prompt=DistinctPrompt(tokens), max_tokens=_LONG))
        while True:
            held = {name: request.num_computed_tokens for name, request in engine.requests.items()}
            step = engine.step()
            if step.preemptions:
                return Moment(held, step.preemptions[0])


@dataclass(frozen=True, slots=True)
class Moment:
    """A server whose blocks have run out.

    Attributes:
        held: Tokens that each request had stored before.
        lost: Who lost blocks, and for whom.
    """

    held: dict[str, int]
    lost: Preemption

    @property
    def victim(self) -> str:
        """Who lost its blocks."""
        return self.lost.request_id

    @property
    def needy(self) -> str:
        """Who needed one."""
        return self.lost.for_request_id

    def blocks(self, name: str) -> int:
        """Blocks a request held."""
        return blocks_for(self.held[name], BLOCK)


def _draw(rng: random.Random) -> Pressed:
    """Draw requests of which one alone needs a block when the pool is full to the last."""
    while True:
        names, prompts = rng.sample(_NAMES, len(_NAMES)), rng.sample(_PROMPTS, len(_NAMES))
        drawn = Pressed(tuple(names), tuple(prompts), rng.randint(1, 3))
        if sum(map(drawn.moment.blocks, drawn.names)) == drawn.num_blocks:
            return drawn


def _question(p: Pressed) -> str:
    return (
        f"Four requests run, and all {p.num_blocks} blocks are taken. In this step "
        f"{p.moment.needy} needs one more. Whose blocks does vLLM take (`--scheduling-policy "
        "fcfs`, the default)?"
    )


def _given(p: Pressed) -> tuple[Element, ...]:
    moment = p.moment
    rows = tuple(
        (name, f"{moment.held[name]:,}", str(moment.blocks(name)), _PLACES[p.names.index(name)])
        for name in sorted(p.names)
    )
    return (Table(("Request", "Tokens stored", "Blocks", "Admitted"), rows).element(),)


def _reason(p: Pressed, name: str) -> str:
    """Say why somebody is spared."""
    moment = p.moment
    blocks = {each: moment.blocks(each) for each in p.names}
    if name == p.names[0]:
        return f"{name} was admitted first. First come, first served: it is the last to lose."
    if name == moment.needy:
        return f"{name} asks for a block. It pays itself only when nobody came after it."
    if blocks[name] == max(blocks.values()):
        return f"{name} holds most blocks, and would free most. But size is not asked."
    if blocks[name] == min(blocks.values()):
        return f"{name} would be cheapest to compute again. But cost is not asked."
    return f"Somebody was admitted after {name}."


def _misconceptions(p: Pressed) -> Iterator[Misconception]:
    for name in sorted(p.names):
        if name != p.moment.victim:
            yield Misconception(f"took {name}", name, _reason(p, name))


def _solution(p: Pressed) -> tuple[str | Element, ...]:
    lost = p.moment.lost
    own = (
        " That it needs the block itself changes nothing: it waits until others have ended."
        if p.moment.victim == p.moment.needy
        else ""
    )
    return (
        (
            f"{lost.request_id}: it was admitted last, so it is the end of the running list, and "
            f"that is where vLLM takes.{own}"
        ),
        (
            f"{lost.freed_blocks} blocks become free and the KV of {lost.lost_tokens:,} tokens is "
            "lost: it is computed again, but for blocks still in the prefix cache by then. "
            f"{lost.request_id} goes to the front of the waiting queue. Only with "
            "`--scheduling-policy priority` are others chosen: the least urgent."
        ),
    )


VICTIM: Final = Drill(
    id="who-is-preempted",
    kind=Choice(lambda p: tuple(Option(name, f"{name}") for name in sorted(p.names))),
    first=Pressed(("C", "A", "D", "B"), (200, 60, 420, 140), 2),
    draw=_draw,
    question=_question,
    given=_given,
    answer=lambda p: p.moment.victim,
    misconceptions=_misconceptions,
    hints=lambda _: (
        "Neither size nor need decides. What is first come, first served, turned round?",
        "Look at the order of admission.",
    ),
    solution=_solution,
)
"""Say who is preempted."""
