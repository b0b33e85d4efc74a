"""Step 10: what becomes of a queue that nobody does anything about."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction
from kvdocs.drills.lesson.drain import CHANGED_S
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.server import Sample
from kvdocs.widgets.load_run import LAST_S, LIVE, History, moment
from kvdocs.widgets.registry import get_widget

_NOW_S: Final = 140
"""Where the page's picture stands."""


@lru_cache(maxsize=32)
def _at(second: int, rate: float) -> Sample:
    """The page's server, whose requests come at a rate since `CHANGED_S`, at a second."""
    widget = get_widget("server-load")
    sent = {name: text for name, text in widget.complete({}).items() if name in LIVE}
    history = History.read(widget.start, sent)
    if rate != float(sent["rate"]):
        history = history.follow(CHANGED_S, sent | {"rate": f"{rate:g}"})
    return moment(second, kv_cache_dtype="auto", history=history).now


def _come(sample: Sample) -> int:
    """Requests that have come so far."""
    return sample.finished + sample.running + sample.waiting


@dataclass(frozen=True, slots=True)
class QueueAhead:
    """Requests a second."""

    rate: float

    @property
    def now(self) -> Sample:
        """The server where the picture stands."""
        return _at(_NOW_S, self.rate)

    @property
    def end(self) -> Sample:
        """The server at the end of the picture."""
        return _at(LAST_S, self.rate)

    @property
    def arrivals(self) -> int:
        """Requests that come until the end."""
        return _come(self.end) - _come(self.now)


def _draw(rng: random.Random) -> QueueAhead:
    return QueueAhead(rng.choice((2.0, 2.5, 3.0, 4.0)))


def _question(p: QueueAhead) -> str:
    waiting = f"At second {_NOW_S} of the picture {p.now.waiting} wait."
    if p.rate == 2:
        load = f"2 requests a second come, with whole files. {waiting}"
    else:
        load = (
            f"Suppose {p.rate:g} requests a second come from second {CHANGED_S} on, with whole "
            f"files: then {p.now.waiting} wait at second {_NOW_S}."
        )
    return f"{load} Nobody changes anything. How many wait at second {LAST_S}?"


def _misconceptions(p: QueueAhead) -> Iterator[Misconception]:
    yield Misconception(
        "takes it for stable",
        p.now.waiting,
        "As many as now: that would be a queue out of which as many go as come in. This one has "
        "been growing since whole files came.",
    )
    yield Misconception(
        "nobody leaves",
        p.now.waiting + p.arrivals,
        f"That adds all {p.arrivals} that still come. But some are served meanwhile.",
    )
    yield Misconception(
        "waits for it to drain",
        0,
        "It cannot drain by itself: more come than leave, and that does not change.",
    )


def _solution(p: QueueAhead) -> tuple[str | Element, ...]:
    served = p.now.waiting + p.arrivals - p.end.waiting
    return (
        working(
            (f"{p.now.waiting}", f"wait at second {_NOW_S}"),
            (
                f"+ {p.arrivals}",
                f"come in {LAST_S - _NOW_S} s, at {p.rate:g} a second and by chance",
            ),
            (f"− {served}", "are admitted meanwhile"),
            (f"= {p.end.waiting} requests", f"wait at second {LAST_S}, as the simulation has it"),
        ),
        (
            "Play the picture to its end. A queue whose arrivals outrun the server has no end of "
            "its own; what ends it is a time-out, or you."
        ),
    )


QUEUE_AHEAD: Final = Drill(
    id="queue-left-alone",
    kind=Prediction(Count("requests"), tolerance=0.3),
    first=QueueAhead(2),
    draw=_draw,
    question=_question,
    answer=lambda p: p.end.waiting,
    misconceptions=_misconceptions,
    hints=lambda p: (
        f"In the last 60 s before second {_NOW_S}, how fast did the red curve grow?",
        (
            f"About {p.rate * (LAST_S - _NOW_S):g} more come until second {LAST_S}. How many "
            "leave, by the picture's figure for the last minute?"
        ),
    ),
    solution=_solution,
)
"""Predict a queue that is left alone."""
