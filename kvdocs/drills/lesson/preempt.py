"""Step 16: into preemption and out of it, in the picture of a small server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Reached, State
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.widgets.preemption import LAST_STEP, run
from kvdocs.widgets.registry import get_widget

_END: Final = {"step": str(LAST_STEP)}
_FEWEST: Final = 24
"""The smallest pool the picture offers, in blocks."""


def _number(reached: Reached, name: str) -> int:
    """Return a control's value."""
    return int(float(reached.params[name]))


def _counted(reached: Reached, figure: str) -> int:
    """Return a figure of the picture."""
    return int(reached.view.figure(figure).value.replace(",", ""))


def _default(name: str) -> int:
    """Return the value with which the picture starts."""
    return int(get_widget("preemption").complete({})[name])


def _setup(reached: Reached) -> str:
    blocks, seqs = _number(reached, "num_blocks"), _number(reached, "max_num_seqs")
    return f"{blocks} blocks and `--max-num-seqs {seqs}`"


def _victims(reached: Reached) -> str:
    times = _counted(reached, "preemptions")
    again = _counted(reached, "recomputed_tokens")
    named = f"{times} preemption{'' if times == 1 else 's'}"
    return f"{named} so far, and {again:,} tokens computed again"


def _describe(_: object, reached: Reached) -> str:
    step = _number(reached, "step")
    return f"At step {step}, with {_setup(reached)}: {_victims(reached)}."


# Into it --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DriveIn:
    """Tokens that must have been computed again."""

    tokens: int


def _reached_in(p: DriveIn, reached: Reached) -> bool:
    return _counted(reached, "recomputed_tokens") >= p.tokens


def _misconceptions_in(p: DriveIn) -> Iterator[Misconception]:
    def fewer_blocks(reached: Reached) -> bool:
        return _number(reached, "num_blocks") < _default("num_blocks")

    def more_blocks(reached: Reached) -> bool:
        return _number(reached, "num_blocks") > _default("num_blocks")

    def fewer_run(reached: Reached) -> bool:
        return _number(reached, "max_num_seqs") < _default("max_num_seqs")

    yield Misconception(
        "gave it more blocks",
        {"num_blocks": "80", **_END},
        "More blocks keep it out of preemption. Take some away.",
        more_blocks,
    )
    yield Misconception(
        "let fewer run",
        {"max_num_seqs": "3", **_END},
        "The fewer run, the fewer want a block at the same time. Let more of them in.",
        fewer_run,
    )
    yield Misconception(
        "stopped too early",
        {"num_blocks": str(_FEWEST), "step": "20"},
        "The direction is right. Let it run on, or take more away.",
        fewer_blocks,
    )
    yield Misconception(
        "played it to the end",
        _END,
        f"To the end of the run is not enough for {p.tokens:,}: make the pool tighter.",
        lambda reached: not fewer_blocks(reached),
    )


def _solution_in(p: DriveIn) -> tuple[str | Element, ...]:
    frame = run(_FEWEST, 8).frame(LAST_STEP)
    return (
        f"The smallest pool with all eight in it, played to the end, passes {p.tokens:,}:",
        working(
            (f"{frame.counters.preemptions}", f"preemptions with {_FEWEST} blocks"),
            (f"{frame.recomputed:,} tokens", "computed again"),
        ),
        (
            "Each was admitted because its prompt fitted. Nothing was kept for its answer, and the "
            "answers grew at the same time."
        ),
    )


DRIVE_IN: Final = Drill(
    id="drive-into-preemption",
    kind=State("preemption", _reached_in, _describe),
    first=DriveIn(350),
    draw=lambda rng: DriveIn(rng.choice((320, 330, 340, 350, 360, 370, 380, 390, 400))),
    question=lambda p: (
        f"Drive the server above into preemption, until {p.tokens:,} tokens have had to be "
        "computed a second time."
    ),
    answer=lambda _: {"num_blocks": str(_FEWEST), **_END},
    misconceptions=_misconceptions_in,
    hints=lambda _: (
        "Preemption begins when running requests want more blocks than there are.",
        "Fewer blocks, or more requests at once; then play on.",
        f"Try {_FEWEST} blocks, and go to step {LAST_STEP}.",
    ),
    solution=_solution_in,
)
"""Bring the small server into preemption."""


# Out of it ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DriveOut:
    """What may not be exceeded or fallen short of on the way out.

    Attributes:
        most_blocks: Largest pool allowed.
        least_seqs: Smallest `--max-num-seqs` allowed.
    """

    most_blocks: int
    least_seqs: int

    def allows(self, reached: Reached) -> bool:
        """Whether the way is allowed."""
        return (
            _number(reached, "num_blocks") <= self.most_blocks
            and _number(reached, "max_num_seqs") >= self.least_seqs
        )

    @property
    def controls(self) -> dict[str, str]:
        """The controls at the very limit of what is allowed."""
        limits = {"num_blocks": str(self.most_blocks), "max_num_seqs": str(self.least_seqs)}
        return {**limits, **_END}


_WAYS_OUT: Final = (
    DriveOut(64, 4),
    DriveOut(64, 8),
    DriveOut(56, 7),
    DriveOut(48, 6),
    DriveOut(40, 4),
    DriveOut(32, 3),
    DriveOut(24, 2),
    DriveOut(48, 5),
)


def _draw_out(rng: random.Random) -> DriveOut:
    return rng.choice(_WAYS_OUT)


def _is_over(reached: Reached) -> bool:
    return _number(reached, "step") == LAST_STEP


def _reached_out(p: DriveOut, reached: Reached) -> bool:
    return p.allows(reached) and _is_over(reached) and _counted(reached, "preemptions") == 0


def _describe_out(p: DriveOut, reached: Reached) -> str:
    now = _describe(p, reached)
    if not _reached_out(p, reached):
        return now
    more = _number(reached, "num_blocks") > _default("num_blocks")
    fewer = _number(reached, "max_num_seqs") < _default("max_num_seqs")
    way = {
        (True, True): "More blocks and fewer requests at once: each helps.",
        (True, False): "More blocks: everybody runs at once, for the price of memory.",
        (False, True): "Fewer at once: no memory, and those outside wait before they begin.",
    }[more, fewer]
    return f"{now} {way}"


def _misconceptions_out(p: DriveOut) -> Iterator[Misconception]:
    def not_allowed(reached: Reached) -> bool:
        return not p.allows(reached)

    def not_over(reached: Reached) -> bool:
        return not _is_over(reached)

    yield Misconception(
        "went beyond what is allowed",
        {"num_blocks": "80", "max_num_seqs": "1", **_END},
        f"Allowed are at most {p.most_blocks} blocks, and `--max-num-seqs` of at least "
        f"{p.least_seqs}.",
        not_allowed,
    )
    yield Misconception(
        "looked too early",
        {**p.controls, "step": "10"},
        f"The run is not over: a calm beginning proves nothing. Go to step {LAST_STEP}.",
        not_over,
    )
    yield Misconception(
        "still too many for the pool",
        {"num_blocks": str(p.most_blocks - 8), "max_num_seqs": "8", **_END},
        "Still too many want blocks at the same time. Either more blocks, or fewer requests.",
        lambda reached: _counted(reached, "preemptions") > 0,
    )


def _ways(p: DriveOut) -> list[tuple[int, int]]:
    """Return the picture's pool and the largest, where allowed, with the most requests for it."""
    pools = sorted({min(_default("num_blocks"), p.most_blocks), p.most_blocks})
    allowed = range(_default("max_num_seqs"), p.least_seqs - 1, -1)
    most = ((blocks, next((n for n in allowed if _is_calm(blocks, n)), 0)) for blocks in pools)
    return [(blocks, seqs) for blocks, seqs in most if seqs]


@lru_cache(maxsize=64)
def _is_calm(blocks: int, seqs: int) -> bool:
    return run(blocks, seqs).frame(LAST_STEP).counters.preemptions == 0


def _solution_out(p: DriveOut) -> tuple[str | Element, ...]:
    ways = [f"{blocks} blocks and `--max-num-seqs {seqs}`" for blocks, seqs in _ways(p)]
    told = (
        f"{ways[-1]}: nobody is preempted."
        if len(ways) == 1
        else f"{ways[-1]}, or {ways[0]}: nobody is preempted in either."
    )
    return (
        told,
        (
            "More blocks cost memory. A lower `--max-num-seqs` costs waiting, but before the work "
            "and not in the middle of it. That is why steady preemption is read as: more cache, or "
            "fewer at once."
        ),
    )


def _last_hint_out(p: DriveOut) -> str:
    lower = "lower `--max-num-seqs` step by step."
    blocks = _default("num_blocks")
    if blocks in dict(_ways(p)):
        return f"Or leave the pool at {blocks} and {lower}"
    return f"If that is not enough, {lower}"


DRIVE_OUT: Final = Drill(
    id="drive-out-of-preemption",
    kind=State("preemption", _reached_out, _describe_out),
    first=_WAYS_OUT[0],
    draw=_draw_out,
    question=lambda p: (
        f"Now out of it: at step {LAST_STEP} nobody may have been preempted. The pool may have at "
        f"most {p.most_blocks} blocks, and `--max-num-seqs` must be at least {p.least_seqs}."
    ),
    answer=lambda p: p.controls,
    misconceptions=_misconceptions_out,
    hints=lambda p: (
        "Either there is a block for everyone who asks, or fewer ask at the same time.",
        f"Try the largest pool that is allowed, {p.most_blocks} blocks, at step {LAST_STEP}.",
        _last_hint_out(p),
    ),
    solution=_solution_out,
)
"""Bring the small server out of preemption."""
