"""What the page's runtime calls: a state and a line in, a state and markup out, all as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kvdocs.errors import TerminalError
from kvdocs.terminal.completion import complete as completion_of
from kvdocs.terminal.frame import pieces_elements
from kvdocs.terminal.machine import Machine, from_json, to_json
from kvdocs.terminal.output import Kind, Piece, Result
from kvdocs.terminal.session import interrupt, prompt
from kvdocs.terminal.session import run as run_line
from kvdocs.terminal.views import facts, widget_params

_FAULT = "this machine had a mistake of its own ({}); it is as it was before the line"


def run(machine_json: str, line: str) -> str:
    """Carry out a line.

    Args:
        machine_json: The machine's state.
        line: What was typed.

    Returns:
        A JSON object: `machine` (the new state, a text), `html` (what came back), `prompt`
        (before the next line), `clears`, `status`, `history`, `facts` (what the server holds) and
        `widgets` (parameters by name of the widgets that can show it).

    Examples:
        >>> answer = json.loads(run(to_json(Machine()), "echo '<b>'"))
        >>> answer["html"], answer["prompt"]
        ('<samp class="kv-term-out">&lt;b&gt;</samp>', 'dgx-1 $')
    """
    return _answer(machine_json, line, run_line)


def stop(machine_json: str, line: str) -> str:
    """Carry out Ctrl-C.

    Args:
        machine_json: The machine's state.
        line: What stands on the line.

    Returns:
        As `run`.
    """
    return _answer(machine_json, line, interrupt)


def look(machine_json: str) -> str:
    """Say what a machine is like, without doing anything.

    Args:
        machine_json: The machine's state.

    Returns:
        As `run`, with empty `html`.
    """
    machine, _ = _read(machine_json)
    return _document(machine, Result(machine, status=machine.status), "")


def complete(machine_json: str, line: str) -> str:
    """Say what the last word of a line may become.

    Args:
        machine_json: The machine's state.
        line: The line up to the cursor.

    Returns:
        A JSON object: `start`, `candidates`, `common`.

    Examples:
        >>> json.loads(complete(to_json(Machine()), "nvid"))["candidates"]
        ['nvidia-smi']
    """
    machine, _ = _read(machine_json)
    found = completion_of(machine, line)
    answer = {"start": found.start, "candidates": found.candidates, "common": found.common}
    return json.dumps(answer)


def _answer(machine_json: str, line: str, act: Callable[[Machine, str], Result]) -> str:
    machine, problem = _read(machine_json)
    try:
        result = act(machine, line)
    except Exception as error:  # noqa: BLE001 - the page shows it, and the machine stays
        text = _FAULT.format(f"{type(error).__name__}: {error}"[:200])
        result = Result(machine, (Piece(Kind.ERROR, text),), 1)
    shown = "".join(map(str, pieces_elements((*problem, *result.pieces))))
    return _document(result.machine, result, shown)


def _read(machine_json: str) -> tuple[Machine, tuple[Piece, ...]]:
    """The state, or a new machine and a line that says why."""
    try:
        return from_json(machine_json), ()
    except TerminalError as error:
        return Machine(), (Piece(Kind.NOTE, f"# {error}"),)


def _document(machine: Machine, result: Result, html: str) -> str:
    document: dict[str, Any] = {
        "machine": to_json(machine),
        "html": html,
        "prompt": prompt(machine),
        "clears": result.clears,
        "status": result.status,
        "history": machine.history,
        "facts": facts(machine),
        "widgets": widget_params(machine),
    }
    return json.dumps(document)
