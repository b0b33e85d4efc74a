"""Step 10: drain the queue of a server that is sent whole files.

The picture is a run with a history of changes. So that the same settings always get the same
verdict, they are judged as if made at one moment of the run the page begins with.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Reached, State
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.server import Sample
from kvdocs.units import format_number
from kvdocs.widgets.load_run import LAST_S, LIVE, History, moment
from kvdocs.widgets.registry import get_widget

CHANGED_S: Final = 60
"""Second at which the reader's settings are taken to be made."""
DRAINED: Final = 5
"""Requests that may still wait at the end."""
_END: Final = {"second": str(LAST_S)}
_FILES: Final = "files"


@lru_cache(maxsize=128)
def outcome(kv_cache_dtype: str, sent: tuple[tuple[str, str], ...]) -> Sample:
    """Return the metrics at the end of the page's run with other settings from `CHANGED_S` on.

    Args:
        kv_cache_dtype: `--kv-cache-dtype`.
        sent: Name and text of each parameter that may change while the server runs.
    """
    widget = get_widget("server-load")
    defaults = {name: text for name, text in widget.complete({}).items() if name in LIVE}
    history = History.read(widget.start, defaults).follow(CHANGED_S, dict(sent))
    return moment(LAST_S, kv_cache_dtype=kv_cache_dtype, history=history).now


def outcome_of(params: Mapping[str, str]) -> Sample:
    """Return the metrics at the end with the picture's controls, defaults for those not given."""
    complete = get_widget("server-load").complete(params)
    complete["rate"] = format_number(float(complete["rate"]), 2)
    sent = tuple((name, complete[name]) for name in LIVE)
    return outcome(complete["kv_cache_dtype"], sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What must stay as it is.

    Attributes:
        keeps_files: Whether the assistant goes on sending whole files.
        least_rate: Requests a second that must still be served.
        least_output: Tokens an answer must still have.
        way: Controls that do it.
        other_way: Controls that do it as well.
    """

    keeps_files: bool
    least_rate: float
    least_output: int
    way: tuple[tuple[str, str], ...]
    other_way: tuple[tuple[str, str], ...]

    @property
    def controls(self) -> dict[str, str]:
        """The controls of that way, at the end of the run."""
        return {**dict(self.way), **_END}

    def allows(self, params: Mapping[str, str]) -> bool:
        """Whether settings leave alone what must stay."""
        return (
            (params["prompts"] == _FILES or not self.keeps_files)
            and float(params["rate"]) >= self.least_rate
            and int(params["output"]) >= self.least_output
        )

    @property
    def conditions(self) -> str:
        """What must stay, in words."""
        files = "Whole files must stay. " if self.keeps_files else ""
        return (
            f"{files}Do not go below {self.least_rate:g} requests a second, or below answers of "
            f"{self.least_output} tokens."
        )


_FP8: Final = ("kv_cache_dtype", "fp8")
_DRAINS: Final = (
    Drain(
        keeps_files=False,
        least_rate=1,
        least_output=800,
        way=(("prompts", "snippets"),),
        other_way=(("rate", "1.5"), _FP8),
    ),
    Drain(
        keeps_files=True,
        least_rate=1,
        least_output=800,
        way=(("rate", "1"),),
        other_way=(("rate", "1.5"), _FP8),
    ),
    Drain(
        keeps_files=True,
        least_rate=1.5,
        least_output=400,
        way=(("rate", "1.5"), _FP8),
        other_way=(("rate", "1.5"), ("output", "400")),
    ),
    Drain(
        keeps_files=True,
        least_rate=2,
        least_output=200,
        way=(("output", "400"), _FP8),
        other_way=(("output", "200"),),
    ),
)


def _named(way: tuple[tuple[str, str], ...]) -> str:
    """Say a way in the words that stand on the picture's controls."""
    labels = {control.name: control.label for control in get_widget("server-load").controls}
    return " and ".join(f"“{labels[name]}” at {value}" for name, value in way)


def _draw(rng: random.Random) -> Drain:
    return rng.choice(_DRAINS)


def _question(p: Drain) -> str:
    return (
        f"Whole files have come since second 40, and a queue grows. Go back to second {CHANGED_S}, "
        f"change what helps, and let it run to second {LAST_S}: no more than {DRAINED} requests "
        f"may wait there. {p.conditions} The cache dtype may change too: the server then starts "
        "anew with it, under the same load."
    )


def _at_end(reached: Reached) -> bool:
    return reached.params["second"] == str(LAST_S)


def _reached(p: Drain, reached: Reached) -> bool:
    params = reached.params
    return _at_end(reached) and p.allows(params) and outcome_of(params).waiting <= DRAINED


def _describe(p: Drain, reached: Reached) -> str:
    if not _at_end(reached):
        return f"The picture shows second {reached.params['second']}."
    end = outcome_of(reached.params)
    told = (
        f"With these settings from second {CHANGED_S} on: at second {LAST_S}, {end.running} run, "
        f"{end.waiting} wait, and {end.kv_cache_usage:.0%} of the cache is held."
    )
    if not _reached(p, reached):
        return told
    shown = reached.view.figure("waiting").value
    late = (
        f" In your picture they came later, so {shown} still wait." if int(shown) > DRAINED else ""
    )
    return f"{told}{late} {_ways(reached)}"


def _ways(reached: Reached) -> str:
    """Name what was done, and what it costs."""
    params, before = reached.params, get_widget("server-load").complete({})
    taken = {
        "Less context: each holds fewer tokens, and for less time.": params["prompts"] != _FILES,
        "Fewer arrivals: a second server takes the rest.": float(params["rate"])
        < float(before["rate"]),
        "Shorter answers: each leaves sooner.": int(params["output"]) < int(before["output"]),
        "Smaller tokens: the same pool holds twice as many.": params["kv_cache_dtype"] == "fp8",
    }
    return " ".join(words for words, is_taken in taken.items() if is_taken)


def _misconceptions(p: Drain) -> Iterator[Misconception]:
    def fp8(reached: Reached) -> bool:
        return reached.params["kv_cache_dtype"] == "fp8"

    def fewer_run(reached: Reached) -> bool:
        return int(reached.params["max_num_seqs"]) < outcome_of(reached.params).waiting

    yield Misconception(
        "looked too early",
        {**p.controls, "second": "100"},
        f"Let it run to second {LAST_S}: a queue shows only with time.",
        lambda reached: not _at_end(reached),
    )
    yield Misconception(
        "gave up the load",
        {"rate": "0.25", "output": "100", **_END},
        f"But too much was given up. {p.conditions}",
        lambda reached: not p.allows(reached.params),
    )
    yield Misconception(
        "limited the batch",
        {"max_num_seqs": "32", **_END},
        "With a lower `--max-num-seqs` fewer run, and the rest waits all the same: that is another "
        "door, not more room.",
        fewer_run,
    )
    yield Misconception(
        "fp8 alone",
        {"kv_cache_dtype": "fp8", **_END},
        "fp8 has doubled the room, and still more come in than leave. It needs help.",
        fp8,
    )
    yield Misconception(
        "let it run",
        _END,
        "More come in than leave, so it never drains by itself. Which factor of Little's law can "
        "you make smaller, or what each request holds?",
        lambda _: True,
    )


def _hints(p: Drain) -> tuple[str, ...]:
    return (
        "Tokens in flight = requests a second × seconds each stays × tokens each holds.",
        "Make one of the three smaller, or make tokens smaller, so that the pool holds more.",
        f"Try {_named(p.way)}.",
    )


def _solution(p: Drain) -> tuple[str | Element, ...]:
    def waiting(way: tuple[tuple[str, str], ...]) -> str:
        return f"{outcome_of(dict(way)).waiting:,} wait"

    return (
        working(
            (waiting(()), f"at second {LAST_S}, if nothing is changed"),
            (waiting(p.way), f"with {_named(p.way)} from second {CHANGED_S} on"),
            (waiting(p.other_way), f"with {_named(p.other_way)}"),
        ),
        (
            "A queue drains only when more leave than come. Whatever makes requests smaller or "
            "rarer does it, and whatever lets them leave sooner."
        ),
    )


DRAIN: Final = Drill(
    id="drain-the-queue",
    kind=State("server-load", _reached, _describe),
    first=_DRAINS[0],
    draw=_draw,
    question=_question,
    answer=lambda p: p.controls,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Bring a server under load to drain its queue."""
