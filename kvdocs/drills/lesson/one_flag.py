"""Step 21: the one flag that takes the queue from a server, found in the playground."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds.playground import Playground, Tried
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.playground.differences import Difference, differences
from kvdocs.playground.fields import MORE_MEMORY
from kvdocs.playground.load import Made
from kvdocs.playground.setup import DEFAULT_FLAGS, Setup
from kvdocs.server import ServerRun
from kvdocs.units import format_seconds

_FOLLOWS: Final = frozenset({"KV of a token", "tokens in the pool"})
"""What differs because something else does."""
_FLAG: Final = "--kv-cache-dtype fp8"


@lru_cache(maxsize=64)
def outcome(setup: Setup, load: Made) -> ServerRun:
    """Run a load on a set-up; the same again costs nothing.

    Args:
        setup: The set-up.
        load: The load.
    """
    return setup.simulate(load)


@dataclass(frozen=True, slots=True)
class Limit:
    """How long requests may wait under a load.

    Attributes:
        load: What comes.
        seconds: 99 in 100 must wait less.
    """

    load: Made
    seconds: float

    def run(self, flags: str) -> ServerRun:
        """The lesson's server under the load with some flags."""
        return outcome(Setup(flags=flags), self.load)


_LIMITS: Final = (
    Limit(Made(), 5.0),
    Limit(Made(rate=3.0, prompt_tokens=6000), 2.0),
    Limit(Made(rate=2.0), 2.0),
)


def waited(run: ServerRun) -> float:
    """Seconds that 99 in 100 requests waited at most.

    Args:
        run: The run.
    """
    queue = run.latency("queue")
    return queue.p99 if queue else 0.0


def changed(tried: Tried) -> tuple[Difference, ...]:
    """What the reader changed of the lesson's server.

    Args:
        tried: What was tried.
    """
    found = differences(Setup().size(), tried.sized)
    return tuple(one for one in found if one.what not in _FOLLOWS)


def _draw(rng: random.Random) -> Limit:
    return rng.choice(_LIMITS)


def _question(p: Limit) -> str:
    load = p.load
    return (
        f"The lesson's server gets {load.num_requests:,} requests at {load.rate:g} a second, with "
        f"prompts of {load.prompt_tokens:,} tokens and answers of {load.output_tokens:,} in the "
        "median (seed 1). Change one flag of set-up A, and only one, so that 99 in 100 wait less "
        f"than {format_seconds(p.seconds)} in the queue. Model, GPU and load stay, it stays one "
        "GPU, and no request may be refused."
    )


def _reached(p: Limit, tried: Tried) -> bool:
    return len(changed(tried)) == 1 and _is_served(p, tried) and _is_one_gpu(tried)


def _is_served(p: Limit, tried: Tried) -> bool:
    run = outcome(tried.sized.setup, p.load)
    return waited(run) < p.seconds and not run.refused


def _is_one_gpu(tried: Tried) -> bool:
    names = {one.what for one in changed(tried)}
    return tried.sized.flags.world_size == 1 and all(name.startswith("--") for name in names)


def _describe(p: Limit, tried: Tried) -> str:
    run = outcome(tried.sized.setup, p.load)
    refused = f", and {len(run.refused):,} are refused" if run.refused else ""
    told = (
        f"With this set-up 99 in 100 wait up to {format_seconds(waited(run))}, with "
        f"{run.num_preemptions:,} preemptions{refused}."
    )
    if _reached(p, tried):
        return f"{told} Half the bytes a token, so twice as many requests fit at once."
    return told


def _misconceptions(p: Limit) -> Iterator[Misconception]:
    def untouched(tried: Tried) -> bool:
        return not changed(tried)

    def more_gpus(tried: Tried) -> bool:
        return not _is_one_gpu(tried)

    def several(tried: Tried) -> bool:
        return len(changed(tried)) > 1

    def refuses(tried: Tried) -> bool:
        return bool(outcome(tried.sized.setup, p.load).refused)

    def fewer(tried: Tried) -> bool:
        return any(one.what == "--max-num-seqs" for one in changed(tried))

    yield Misconception(
        "left it",
        {},
        "That is the server as the page shows it. Which figure is at its limit?",
        untouched,
    )
    yield Misconception(
        "bought a GPU",
        {"a_flags": f"{DEFAULT_FLAGS} --tensor-parallel-size 2"},
        "It helps, but that is another machine. There is a way on this one.",
        more_gpus,
    )
    yield Misconception(
        "changed much",
        {"a_flags": f"{DEFAULT_FLAGS} {_FLAG} --max-num-seqs 512"},
        "More than one thing is changed, so nobody knows which of them helped. Take one back.",
        several,
    )
    yield Misconception(
        "refused the long ones",
        {"a_flags": DEFAULT_FLAGS.replace("32768", "8192")},
        "A shorter limit shortens the queue by sending requests away.",
        refuses,
    )
    yield Misconception(
        "ran fewer",
        {"a_flags": f"{DEFAULT_FLAGS} --max-num-seqs 32"},
        "Fewer run at once, so fewer are preempted, but then they wait at the door. The pool holds "
        "no more than before.",
        fewer,
    )
    yield Misconception(
        "took the rest of the GPU",
        {"a_flags": MORE_MEMORY},
        "Not enough: whatever this flag gives, the pool needs far more tokens than that.",
        lambda _: True,
    )


def _hints(_: Limit) -> tuple[str, ...]:
    return (
        "Run it and look at the pool and the queue together: what is full while requests wait?",
        "The pool has to hold more tokens in the same bytes.",
        "More of the GPU (set-up B) gives a few percent. Which flag makes each token smaller?",
    )


def _solution(p: Limit) -> tuple[str | Element, ...]:
    plain, mended = p.run(DEFAULT_FLAGS), p.run(f"{DEFAULT_FLAGS} {_FLAG}")
    return (
        f"`{_FLAG}`: a token takes 64 KiB in place of 128, so the pool holds twice as many.",
        working(
            (
                format_seconds(waited(plain)),
                f"99 in 100 wait so long, {plain.num_preemptions} preemptions",
            ),
            (format_seconds(waited(mended)), f"with {_FLAG}, {mended.num_preemptions} preemptions"),
        ),
        (
            "A little less precision is the price. More of the GPU's memory, fewer sequences or "
            "larger batches change far less: the pool is short, and nothing else doubles it."
        ),
    )


ONE_FLAG: Final = Drill(
    id="one-flag-that-mends-it",
    kind=Playground(_reached, _describe),
    first=_LIMITS[0],
    draw=_draw,
    question=_question,
    answer=lambda _: {"a_flags": f"{DEFAULT_FLAGS} {_FLAG}"},
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Find the one flag that ends the queue."""
