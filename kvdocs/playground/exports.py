"""Files to take away from a session: figures, charts, the command and the code that repeat it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, NamedTuple

from kvdocs.errors import UsageError
from kvdocs.playground.differences import described
from kvdocs.playground.load import Made
from kvdocs.playground.measures import MEASURES, TIMES, latencies
from kvdocs.playground.moment import Moment
from kvdocs.playground.pictures import Scales, axis, rates
from kvdocs.playground.plot import Panel, Plot, decades
from kvdocs.playground.result import LETTERS, moments_of
from kvdocs.playground.session import Session
from kvdocs.playground.setup import Setup
from kvdocs.server import RequestRecord, ServerRun

_PERCENTS: Final = tuple(range(101))
_RECORD: Final = tuple(name for name in RequestRecord._fields if name != "place")
_TIMES: Final = ("queue_s", "ttft_s", "tpot_s", "e2e_s")
_COLUMNS: Final = (*_RECORD, *_TIMES)
_MOMENT: Final = tuple(name for name in Moment._fields if name != "holders")


class File(NamedTuple):
    """A file.

    Attributes:
        name: Its name.
        type: Its media type.
        text: What is in it.
    """

    name: str
    type: str
    text: str


def requests_csv(session: Session) -> str:
    """One row a request and set-up, in vLLM's words where it has them.

    Args:
        session: The session.
    """
    rows = [csv_row(("setup", *_COLUMNS))]
    for letter, run in zip(LETTERS, session.outcomes, strict=False):
        rows += [
            csv_row((letter, *(getattr(record, name) for name in _COLUMNS)))
            for record in run.requests
        ]
    return "".join(rows)


def csv_row(values: Iterable[object]) -> str:
    r"""One line of a CSV file (RFC 4180), written by hand: a page's Python starts without `csv`.

    Args:
        values: The cells; None is an empty one.

    Examples:
        >>> csv_row(["a", None, 'said "no", twice', 1.5])
        'a,,"said ""no"", twice",1.5\n'
    """
    texts = ("" if value is None else str(value) for value in values)
    return ",".join(map(_quoted, texts)) + "\n"


def _quoted(text: str) -> str:
    if any(letter in text for letter in ',"\r\n'):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text


def document(session: Session) -> dict[str, Any]:
    """All figures of a session as plain data.

    Args:
        session: The session.
    """
    return {
        "interval_s": session.interval_s,
        "is_done": session.is_done,
        "load": _load_document(session),
        "setups": {
            letter: _setup_document(session, place)
            for place, letter in enumerate(LETTERS[: len(session.runs)])
        },
    }


def _load_document(session: Session) -> dict[str, Any]:
    load = session.load
    if isinstance(load, Made):
        return asdict(load)
    return {
        name: getattr(load, name)
        for name in ("name", "num_requests", "most", "speed")
        if hasattr(load, name)
    }


def _setup_document(session: Session, place: int) -> dict[str, Any]:
    run, outcome = session.runs[place], session.outcomes[place]
    moments = moments_of(session, place)
    return {
        "name": run.sized.name,
        "command": run.sized.command,
        "setup": described(run.sized),
        "notes": run.sized.notes,
        "num_blocks": run.server.config.usable_blocks,
        "figures": {one.name: one.value(outcome, moments) for one in MEASURES},
        "latency_s": {name: asdict(one) for name, one in latencies(outcome).items()},
        "moments": [{name: getattr(moment, name) for name in _MOMENT} for moment in moments],
    }


# Charts ---------------------------------------------------------------------------------------


def _names(session: Session) -> tuple[str, ...]:
    flags = [run.sized.setup.flags for run in session.runs]
    return tuple(
        f"{letter}: {run.sized.name}, {line}"
        for letter, run, line in zip(LETTERS, session.runs, flags, strict=False)
    )


def timeline_svg(session: Session) -> str:
    """KV cache usage, queue and output over time.

    Args:
        session: The session.
    """
    every = [moments_of(session, place) for place in range(len(session.runs))]
    scales, interval = Scales(every, session.interval_s), session.interval_s
    usable = [run.server.config.usable_blocks for run in session.runs]
    last = max(1, len(session.moments) - 1)
    usage = tuple(
        [moment.held / blocks for moment in moments]
        for blocks, moments in zip(usable, every, strict=True)
    )
    places = ([moment / last for moment in range(len(session.moments))],) * len(every)
    speeds = tuple(rates(moments, interval) for moments in every)
    panels = (
        Panel("KV cache usage", usage, places, 1, "100%"),
        *(
            Panel(f"requests {name}", _series(every, name), places, most, f"{most:,}")
            for name, most in (("running", scales.running), ("waiting", scales.waiting))
        ),
        Panel("output tokens per second", speeds, places, scales.rate, f"{scales.rate:,}"),
    )
    labels = axis((len(session.moments) - 1) * interval)
    return Plot(
        title="KV cache usage, queue and output",
        names=_names(session),
        panels=panels,
        ticks=tuple((part / 4, label) for part, label in enumerate(labels)),
        axis="simulated time",
    ).svg()


def _series(every: list[list[Moment]], name: str) -> tuple[list[float], ...]:
    return tuple([getattr(moment, name) for moment in moments] for moments in every)


def latency_svg(session: Session) -> str:
    """The share of requests within each time, for each kind of latency.

    Args:
        session: The session.
    """
    curves = [quantiles(run) for run in session.outcomes]
    every = [value for curve in curves for values in curve.values() for value in values]
    low = math.floor(math.log10(max(min(every, default=1.0), 1e-4)))
    high = max(low + 1, math.ceil(math.log10(max([*every, 1e-3]))))
    limits = (low, high)
    return Plot(
        title="Latencies",
        names=_names(session),
        panels=tuple(_latency_panel(name, curves, limits) for name in TIMES),
        ticks=decades(low, high),
        axis="seconds, logarithmic",
    ).svg()


def quantiles(run: ServerRun) -> dict[str, list[float]]:
    """Seconds that 0, 1 … 100 percent of the requests stay within, by latency.

    Args:
        run: The run.
    """
    found: dict[str, list[float]] = {}
    for name, attribute in zip(("queue", "ttft", "tpot", "e2el"), _TIMES, strict=True):
        times = sorted(
            value for record in run.requests if (value := getattr(record, attribute)) is not None
        )
        last = len(times) - 1
        found[name] = [times[round(last * part / 100)] for part in _PERCENTS] if times else []
    return found


def _latency_panel(
    name: str, curves: list[dict[str, list[float]]], limits: tuple[int, int]
) -> Panel:
    low, high = limits

    def place(seconds: float) -> float:
        return (math.log10(max(seconds, 10.0**low)) - low) / (high - low)

    places = tuple([place(value) for value in curve[name]] for curve in curves)
    shares = tuple([float(part) for part in _PERCENTS][: len(line)] for line in places)
    return Panel(f"{TIMES[name]}: percent of requests within", shares, places, 100, "100")


# The command and the code ---------------------------------------------------------------------


def command(session: Session) -> str:
    """The `vllm serve` of each set-up.

    Args:
        session: The session.
    """
    lines = [
        f"# {letter}\n{run.sized.command}"
        for letter, run in zip(LETTERS, session.runs, strict=False)
    ]
    return "\n\n".join(lines) + "\n"


def code(session: Session) -> str:
    """A program that makes the same figures.

    Args:
        session: The session.
    """
    load = session.load
    made = isinstance(load, Made)
    names = "Made, Setup" if made else "Setup, Trace"
    lines = [] if made else ["from pathlib import Path", ""]
    lines += [f"from kvdocs.playground import {names}"]
    if not made:
        lines += ["from kvdocs.workload import read_trace"]
    lines += ["", f"load = {_load_code(session)}", "setups = {"]
    lines += [
        f'    "{letter}": {_call("Setup", _given(run.sized.setup, Setup()), 4)},'
        for letter, run in zip(LETTERS, session.runs, strict=False)
    ]
    lines += [
        "}",
        "for letter, setup in setups.items():",
        "    run = setup.simulate(load)",
        '    ttft, queue = run.latency("ttft"), run.latency("queue")',
        "    print(letter, ttft.p50, ttft.p99, queue.p99, run.num_preemptions, run.end_s)",
    ]
    return "\n".join(lines) + "\n"


def _load_code(session: Session) -> str:
    load = session.load
    if isinstance(load, Made):
        return _call("Made", _given(load, Made()), 0)
    document = _load_document(session)
    given = {
        "name": document["name"],
        "read": _Code(f"tuple(read_trace(Path({document['name']!r})))"),
    }
    given |= {name: document[name] for name in ("most", "speed")}
    return _call("Trace", given, 0)


class _Code(str):
    """A text that is code already."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _given(value: Any, default: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from its defaults."""
    names = (field.name for field in fields(value))
    return {
        name: getattr(value, name)
        for name in names
        if getattr(value, name) != getattr(default, name)
    }


def _call(name: str, arguments: Mapping[str, Any], indent: int) -> str:
    if not arguments:
        return f"{name}()"
    inner = "".join(f"{' ' * (indent + 4)}{key}={value!r},\n" for key, value in arguments.items())
    return f"{name}(\n{inner}{' ' * indent})"


def _json(session: Session) -> str:
    return json.dumps(document(session), indent=1) + "\n"


EXPORTS: Final[dict[str, tuple[str, str, Callable[[Session], str]]]] = {
    "csv": ("requests.csv", "text/csv", requests_csv),
    "json": ("run.json", "application/json", _json),
    "timeline": ("timeline.svg", "image/svg+xml", timeline_svg),
    "latency": ("latencies.svg", "image/svg+xml", latency_svg),
    "command": ("serve.sh", "text/x-shellscript", command),
    "code": ("playground.py", "text/x-python", code),
}
"""What can be taken away: name and type of the file, and what makes it."""


def export_file(session: Session, what: str) -> File:
    """Make a file.

    Args:
        session: The session.
        what: One of `EXPORTS`.

    Raises:
        UsageError: There is no such export.

    Examples:
        >>> from kvdocs.playground import Made, Session, Setup
        >>> session = Session([Setup()], Made(num_requests=2, rate=1.0))
        >>> session.finish()
        >>> export_file(session, "csv").text.splitlines()[0][:21]
        'setup,id,arrival_s,ad'
    """
    if what not in EXPORTS:
        raise UsageError(f"there is no export {what[:40]!r}; there are {', '.join(EXPORTS)}")
    name, kind, make = EXPORTS[what]
    return File(name, kind, make(session))
