"""What the page's script calls: the form settled, runs pumped in slices, traces read, exports made.

Everything goes in as text and comes out as JSON. The session under way and the trace that was
dropped are kept here; a call for a session that is gone says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvdocs.errors import KvdocsError
from kvdocs.playground.exports import code, command, export_file
from kvdocs.playground.fields import settle
from kvdocs.playground.form import Form, read_form, refusals
from kvdocs.playground.layout import MOST_TRACE_BYTES, form_html, sized_html, trace_words
from kvdocs.playground.load import Trace
from kvdocs.playground.result import result_html, title, worst_moment
from kvdocs.playground.session import Session
from kvdocs.playground.trace import TraceReader
from kvdocs.units import format_number, format_seconds


@dataclass(slots=True)
class _Desk:
    """What lies on the table: a session, its number, a trace and one being read."""

    session: Session | None = None
    number: int = 0
    trace: Trace | None = None
    reader: TraceReader | None = None
    asked: dict[str, str] = field(default_factory=dict)


_desk = _Desk()


def until(seconds: float) -> Callable[[], bool]:
    """A slice of our own time: tells when it is over.

    Args:
        seconds: How long it is.

    Examples:
        >>> until(60.0)(), until(0.0)()
        (False, True)
    """
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def form(values_json: str, changed: str = "") -> str:
    """Settle the form and size its set-ups.

    Args:
        values_json: Values by field.
        changed: The fields that were changed, with blanks between them.

    Returns:
        JSON: `form` (HTML), `sized` (HTML, or null when something could not be read: the last
        stays), `errors` (message by field), `params` (all values).

    Examples:
        >>> answer = json.loads(form('{"a_flags": "--max-num-seq 4"}'))
        >>> answer["errors"]["a_flags"][:56]
        '--max-num-seq is not a flag of vllm serve; did you mean '
    """
    values, read = _read(json.loads(values_json), changed)
    errors = {**refusals(read), **read.errors}
    whole = not read.errors
    return json.dumps(
        {
            "form": str(form_html(values, _desk.trace)),
            "sized": str(sized_html(read)) if whole else None,
            "errors": errors,
            "params": values,
        }
    )


def _read(given: Mapping[str, Any], changed: str = "") -> tuple[dict[str, str], Form]:
    values = settle({str(name): str(value) for name, value in given.items()}, *changed.split())
    return values, read_form(values, _desk.trace)


def start(values_json: str) -> str:
    """Begin a session with the form's set-ups and load; the one before is dropped.

    Args:
        values_json: Values by field.

    Returns:
        JSON: `session` (its number; 0 when it did not begin) and `errors`.

    Examples:
        >>> json.loads(start('{"a_flags": "--gpu-memory-utilization 0.2"}'))["session"]
        0
    """
    values, read = _read(json.loads(values_json))
    errors = {**refusals(read), **read.errors}
    if errors or read.load is None:
        return json.dumps({"session": 0, "errors": errors})
    try:
        session = Session(read.setups, read.load)
    except KvdocsError as error:
        return json.dumps({"session": 0, "errors": {"*": str(error)}})
    _desk.session, _desk.asked = session, values
    _desk.number += 1
    return json.dumps({"session": _desk.number, "errors": {}})


def work(number: int, milliseconds: float, draw: bool) -> str:  # noqa: FBT001 - called with plain values
    """Run a session on for a slice.

    Args:
        number: The session.
        milliseconds: Length of the slice.
        draw: Whether to draw its last moment.

    Returns:
        JSON: how far it has come, and `html` when it was to be drawn or has ended; `error` when it
        cannot go on; `gone` when there is no such session.
    """
    session = _session(number)
    if session is None:
        return _GONE
    try:
        session.work(until(milliseconds / 1000))
    except KvdocsError as error:
        return _failed(error)
    return _state(session, draw=draw or session.is_done)


def step(number: int) -> str:
    """Run a session on to its next moment, and draw it.

    Args:
        number: The session.

    Returns:
        JSON as of `work`.
    """
    session = _session(number)
    if session is None:
        return _GONE
    try:
        session.step()
    except KvdocsError as error:
        return _failed(error)
    return _state(session, draw=True)


def show(number: int, moment: int) -> str:
    """Draw a moment.

    Args:
        number: The session.
        moment: The moment, from 0.

    Returns:
        JSON as of `work`.
    """
    session = _session(number)
    return _GONE if session is None else _state(session, draw=True, moment=int(moment))


def drop(number: int) -> str:
    """Forget a session.

    Args:
        number: The session.
    """
    if _session(number) is not None:
        _desk.session = None
    return "{}"


_GONE = json.dumps({"gone": True})


def _failed(error: KvdocsError) -> str:
    _desk.session = None
    return json.dumps({"error": f"The run stopped: {error}"})


def _session(number: int) -> Session | None:
    return _desk.session if number == _desk.number else None


def _state(session: Session, *, draw: bool, moment: int | None = None) -> str:
    progress = session.progress
    last = progress.moments - 1
    answer: dict[str, Any] = {
        "share": progress.ended / progress.total,
        "done": progress.is_done,
        "last": last,
        "words": (
            f"{progress.ended:,} of {progress.total:,} requests ended, "
            f"{format_seconds(progress.time_s)} simulated"
        ),
    }
    if draw:
        latest = worst_moment(session) if progress.is_done else last
        now = latest if moment is None else max(0, min(moment, last))
        answer |= {"html": str(result_html(session, now)), "announce": title(session, now)}
        answer |= {"command": command(session), "code": code(session)}
    return json.dumps(answer)


# Traces ---------------------------------------------------------------------------------------


def open_trace(name: str, size: int) -> str:
    """Begin to read a trace; its text follows in pieces.

    Args:
        name: The file's name.
        size: Its bytes.

    Returns:
        JSON: `error`, "" when it is read.

    Examples:
        >>> json.loads(open_trace("huge.csv", 60_000_000))["error"]
        'huge.csv has 60 MB; at most 50 MB are read. Take its first lines.'
    """
    most = format_number(MOST_TRACE_BYTES / 10**6)
    if size > MOST_TRACE_BYTES:
        has = format_number(size / 10**6, 1)
        error = f"{name} has {has} MB; at most {most} MB are read. Take its first lines."
        return json.dumps({"error": error})
    _desk.reader = TraceReader(name)
    return json.dumps({"error": ""})


def add_text(text: str) -> str:
    """Take the next piece of the trace that is being read.

    Args:
        text: The piece.
    """
    if _desk.reader is not None:
        _desk.reader.add(text)
    return "{}"


def read_on(milliseconds: float) -> str:
    """Read the trace on for a slice; when it is whole it takes the place of the one before.

    Args:
        milliseconds: Length of the slice.

    Returns:
        JSON: `share` that is read, `done`, `words`, and `error`.
    """
    reader = _desk.reader
    if reader is None:
        return json.dumps({"error": "No trace is being read.", "done": True, "share": 0})
    try:
        reader.work(until(milliseconds / 1000))
        if reader.is_done:
            _desk.trace, _desk.reader = reader.trace(), None
    except KvdocsError as error:
        _desk.reader = None
        message = f"{reader.name} was not read: {error}. The form is as it was."
        return json.dumps({"error": message, "done": True, "share": 0})
    words = f"{reader.num_requests:,} requests read"
    if reader.is_done and _desk.trace is not None:
        words = trace_words(_desk.trace)
    answer = {"error": "", "done": reader.is_done, "share": reader.share, "words": words}
    return json.dumps(answer)


def drop_trace() -> str:
    """Stop reading; the trace before stays."""
    _desk.reader = None
    return "{}"


# Taking away ----------------------------------------------------------------------------------


def export(number: int, what: str) -> str:
    """Make a file of a session.

    Args:
        number: The session.
        what: One of `kvdocs.playground.exports.EXPORTS`.

    Returns:
        JSON: `name`, `type` and `text` of the file; `gone` when there is no such session.
    """
    session = _session(number)
    if session is None:
        return _GONE
    return json.dumps(export_file(session, what)._asdict())
