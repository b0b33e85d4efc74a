"""The lesson's server under a load that changes while it runs: what `server-load` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from kvdocs.engine import JumpingEngine, StepLoad
from kvdocs.engine.counting import counted
from kvdocs.engine.request import Request
from kvdocs.engine.timer import NO_LOAD
from kvdocs.errors import KvdocsError
from kvdocs.flags import ServerFlags
from kvdocs.scenario import lesson_timer, size_lesson
from kvdocs.server import Change, EngineKind, LiveServer, Load, Sample, Simulation, start_server
from kvdocs.timing import RooflineTimer
from kvdocs.workload import Fixed, Lengths, LogNormal

LAST_S: Final = 240
"""Seconds that the picture covers."""
SEED: Final = 4
MAX_MODEL_LEN: Final = 32768
PROMPTS: Final[dict[str, Lengths]] = {
    "snippets": LogNormal(median=1000, p95=2500, low=100, high=8000),
    "files": LogNormal(median=10_000, p95=20_000, low=2000, high=28_000),
}
"""What the assistant sends, by its name."""
LIVE: Final = ("rate", "prompts", "output", "max_num_seqs")
"""Parameters that may change while the server runs."""
_MOST_CHANGES: Final = 200
_MOST_HISTORIES: Final = 32
_MOST_PER_S: Final = 20.0
_MOST_SEQS: Final = 256


class Edit(NamedTuple):
    """A change the reader made.

    Attributes:
        at: When, in whole seconds.
        name: One of `LIVE`.
        text: The parameter's text from then on.
    """

    at: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """The parameters at the start and the changes made since: the state of the widget.

    Attributes:
        start: Texts of all `LIVE` parameters at second 0.
        edits: The changes, in order of time.
        shown_at: The second last shown.
    """

    start: Mapping[str, str]
    edits: tuple[Edit, ...]
    shown_at: int

    @classmethod
    def read(cls, state: Any, sent: Mapping[str, str]) -> History:
        """Read a state that `write` made, or one that an author wrote.

        Args:
            state: Plain JSON: `at`, `edits`, and `start` as far as it is not what is sent.
            sent: Texts of all `LIVE` parameters.

        Raises:
            KvdocsError: It cannot be read.

        Examples:
            >>> sent = {"rate": "5", "prompts": "files", "output": "800", "max_num_seqs": "64"}
            >>> state = {"at": 90, "start": {"rate": "3"}, "edits": [[30, "rate", "5"]]}
            >>> history = History.read(state, sent)
            >>> history.in_force(29)["rate"], history.in_force(30)["rate"]
            ('3', '5')
        """
        try:
            edits = tuple(Edit(*edit) for edit in state["edits"])
            start = {**sent, **state.get("start", {})}
            history = cls(start, edits, state["at"])
            history.check()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise KvdocsError(f"the changes of this run cannot be read: {error}") from error
        return history

    def check(self) -> None:
        """Refuse what no reader can have done.

        Raises:
            ValueError: What is wrong.
        """
        seconds = [edit.at for edit in self.edits]
        if len(seconds) > _MOST_CHANGES:
            raise ValueError(f"{len(seconds)} changes; at most {_MOST_CHANGES} are kept")
        if not all(map(_is_second, (*seconds, self.shown_at))) or sorted(seconds) != seconds:
            raise ValueError(f"{seconds} are not whole seconds up to {LAST_S} in order")
        for name, text in (*self.start.items(), *(edit[1:] for edit in self.edits)):
            _to_change(0.0, name, text)

    def write(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        edits = [list(edit) for edit in self.edits]
        return {"at": self.shown_at, "start": dict(self.start), "edits": edits}

    def in_force(self, second: int) -> dict[str, str]:
        """Return the texts of the parameters at a second."""
        return {**self.start, **{e.name: e.text for e in self.edits if e.at <= second}}

    def follow(self, second: int, sent: Mapping[str, str]) -> History:
        """Return the history after the reader moved to a second and sent these parameters.

        What differs from the parameters in force where the reader was is a change, made now, and
        takes the place of all that was made at later seconds. If nothing differs, the reader only
        looks at another moment.

        Args:
            second: The second.
            sent: Texts of all `LIVE` parameters.
        """
        known = self.in_force(self.shown_at)
        changed = {name: text for name, text in sent.items() if text != known[name]}
        if not changed:
            return replace(self, shown_at=second)
        kept = tuple(
            e for e in self.edits if e.at < second or (e.at == second and e.name not in changed)
        )
        before = replace(self, edits=kept).in_force(second)
        new = (Edit(second, name, text) for name, text in changed.items() if text != before[name])
        return History(self.start, (*kept, *new), second)

    def changes(self) -> tuple[Change, ...]:
        """Return it as the server takes it."""
        start = (_to_change(0.0, name, self.start[name]) for name in LIVE)
        return (*start, *(_to_change(float(edit.at), edit.name, edit.text) for edit in self.edits))


def _is_second(value: object) -> bool:
    return type(value) is int and 0 <= value <= LAST_S


def _to_change(at: float, name: str, text: str) -> Change:
    """Return a parameter's text as the server takes it.

    Raises:
        ValueError: It is none.
    """
    if name == "prompts" and text in PROMPTS:
        return Change(at, "prompts", PROMPTS[text])
    if name == "rate" and 0 <= float(text) <= _MOST_PER_S:
        return Change(at, "rate", float(text))
    if name == "output":
        return Change(at, "outputs", Fixed(int(text)))
    if name == "max_num_seqs" and 1 <= int(text) <= _MOST_SEQS:
        return Change(at, "max_num_seqs", int(text))
    raise ValueError(f"{name} cannot be {text!r}")


# The run --------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """A request that runs.

    Attributes:
        number: Its number in order of arrival.
        num_blocks: Blocks it holds.
    """

    number: int
    num_blocks: int


class Second(NamedTuple):
    """The server at a second.

    Attributes:
        sample: Its metrics.
        busy: Share of the second before that the arithmetic takes by the roofline.
        holders: Requests that run, in order of admission.
        work: Work done since the start.
    """

    sample: Sample
    busy: float
    holders: tuple[Holder, ...]
    work: StepLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The server at a second, and what led there.

    Attributes:
        second: Which.
        seconds: All seconds from 0 to this one.
        num_blocks: Blocks of the pool.
    """

    second: int
    seconds: Sequence[Second]
    num_blocks: int

    @property
    def now(self) -> Sample:
        """The metrics at this second."""
        return self.seconds[-1].sample

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Requests that run, in order of admission."""
        return self.seconds[-1].holders


class LoadRun:
    """The lesson's server with one cache dtype, looked at any second under any history of changes.

    Seconds once seen are kept, so that going back to one only needs to be drawn.

    Args:
        kv_cache_dtype: `--kv-cache-dtype`.
    """

    def __init__(self, kv_cache_dtype: str) -> None:
        size = size_lesson(kv_cache_dtype=kv_cache_dtype)
        self.timer: RooflineTimer = lesson_timer(kv_cache_dtype=kv_cache_dtype)
        server = start_server(
            size.model.model,
            size.gpu,
            ServerFlags(kv_cache_dtype=kv_cache_dtype, max_model_len=MAX_MODEL_LEN),
            available=size.budget,
            weights=self.timer.weights,
        )
        self._config = server.config
        self._start()

    def _start(self) -> None:
        self._live = LiveServer(
            self._config,
            self.timer,
            Load(),
            seed=SEED,
            engine=EngineKind.JUMPING,
            checkpoint_s=CHECKPOINT_S,
        )
        self._seen: dict[tuple[Change, ...], list[Second]] = {}

    def moment(self, second: int, changes: tuple[Change, ...]) -> Moment:
        """Return the server at a second.

        Args:
            second: Seconds from the start.
            changes: What became different and when, in order of time.
        """
        if len(self._seen) > _MOST_HISTORIES:
            self._start()  # forgets the states kept for histories that nobody will look at again
        if changes not in self._seen:
            self._seen[changes] = self._known(changes)
        seen = self._seen[changes]
        while len(seen) <= second:
            seen.append(self._look(len(seen), changes, seen[-1].work if seen else NO_LOAD))
        return Moment(
            second=second, seconds=seen[: second + 1], num_blocks=self._config.usable_blocks
        )

    def _look(self, second: int, changes: tuple[Change, ...], before: StepLoad) -> Second:
        simulation = self._live.at(second + _AFTER, changes)
        work = simulation.tally.work
        done = StepLoad(*(late - early for late, early in zip(work, before, strict=True)))
        busy = self.timer.load_time(done).compute_s if done.num_tokens else 0.0
        return Second(simulation.samples[second], min(busy, 1.0), tuple(holders(simulation)), work)

    def _known(self, changes: tuple[Change, ...]) -> list[Second]:
        """Return what another history with the same beginning has shown already."""
        shared = (seen[: same_until(changes, other)] for other, seen in self._seen.items())
        return max(shared, key=len, default=[])


CHECKPOINT_S: Final = 20.0
"""Simulated seconds between the states that the server keeps to go back to."""
_AFTER: Final = 2.0**-20
"""Seconds after a whole one at which the server is looked at, so that its sample is in."""


def same_until(some: Sequence[Change], others: Sequence[Change]) -> int:
    """Return the first second at which two histories may differ.

    Examples:
        >>> start, later = Change(0.0, "rate", 2.0), Change(40.0, "rate", 5.0)
        >>> same_until([start], [start, later]), same_until([start], [later])
        (40, 0)
    """
    for one, two in zip_longest(some, others):
        if one != two:
            return int(min(each.at for each in (one, two) if each))
    return LAST_S + 1


def holders(simulation: Simulation) -> list[Holder]:
    """Return the running requests and the blocks each has, in order of admission."""
    engine = simulation.engine
    if not isinstance(engine, JumpingEngine):
        return [Holder(_number(each), len(each.blocks)) for each in engine.scheduler.running]
    scheduler, size = engine.scheduler, engine.config.block_size

    def num_blocks(request: Request) -> int:
        if request not in scheduler.decoding.requests:
            return counted(request).num_blocks
        tokens = request.num_computed_tokens + scheduler.turn - counted(request).synced_turn
        return -(-tokens // size)

    return [Holder(_number(request), num_blocks(request)) for request in scheduler.running]


def _number(request: Request) -> int:
    return int(request.id.removeprefix("r"))


@lru_cache(maxsize=2)
def load_run(kv_cache_dtype: str) -> LoadRun:
    """Return the lesson's server with a cache dtype."""
    return LoadRun(kv_cache_dtype)


def moment(second: int, *, kv_cache_dtype: str, history: History) -> Moment:
    """Return the lesson's server under load at a second.

    Args:
        second: Seconds from the start.
        kv_cache_dtype: `--kv-cache-dtype`.
        history: The load, and what changed.

    Examples:
        >>> start = {"rate": "2", "prompts": "snippets", "output": "200", "max_num_seqs": "256"}
        >>> moment(20, kv_cache_dtype="auto", history=History(start, (), 20)).now.waiting
        0
    """
    return load_run(kv_cache_dtype).moment(second, history.changes())
