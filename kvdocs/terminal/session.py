"""A line typed, carried out: `run(machine, line) -> Result`, a pure function."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kvdocs.errors import KvdocsError, TerminalError
from kvdocs.scenario import LESSON
from kvdocs.terminal.command import Call, near
from kvdocs.terminal.commands.bench import report_ended
from kvdocs.terminal.commands.processes import stop_server
from kvdocs.terminal.machine import HOME, MOST_HISTORY, Machine
from kvdocs.terminal.output import MOST_CHARACTERS, Kind, Piece, Result, cap
from kvdocs.terminal.registry import COMMANDS
from kvdocs.terminal.shell import Command, Pipeline, Word, parse

LINE_S: Final = 1.0
"""Simulated time that a line takes, beside what its commands take."""
_NOT_FOUND: Final = 127
_BAD_LINE: Final = 2
_INTERRUPTED: Final = 130
_NAME: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+|\?))")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_MOST_PIPED: Final = 2_000_000


def prompt(machine: Machine) -> str:
    """What stands before the next line.

    Examples:
        >>> prompt(Machine())
        'dgx-1 $'
    """
    folder = "" if machine.cwd == HOME else " " + machine.cwd.replace(HOME, "~", 1)
    return f"{LESSON.machine}{folder} $"


def run(machine: Machine, line: str) -> Result:
    r"""Carry out a line.

    Args:
        machine: The machine before it.
        line: What was typed.

    Returns:
        The machine after it, and what was printed; never an exception, whatever the line.

    Examples:
        >>> result = run(Machine(), "echo one two | wc -w")
        >>> result.out, result.status
        ('2\n', 0)
    """
    if not line.strip():
        return Result(machine, status=machine.status)
    machine = _remember(machine, line)
    try:
        pipelines = parse(line)
    except TerminalError as error:
        pieces = (Piece(Kind.ERROR, f"bash: {error}"),)
        return Result(replace(machine, status=_BAD_LINE), pieces, _BAD_LINE)
    result = _run_all(machine.after(LINE_S), pipelines)
    later, reports = report_ended(result.machine)
    later = replace(later, status=result.status)
    return replace(result, machine=later, pieces=cap((*result.pieces, *reports)))


def interrupt(machine: Machine, line: str = "") -> Result:
    """Carry out Ctrl-C: drop the line, or on an empty one stop the server.

    Args:
        machine: The machine.
        line: What stood on the line.

    Examples:
        >>> interrupt(Machine(), "vllm ser").status
        130
    """
    if line.strip():
        return Result(replace(machine, status=_INTERRUPTED), status=_INTERRUPTED)
    return replace(stop_server(machine), status=_INTERRUPTED)


def _remember(machine: Machine, line: str) -> Machine:
    line = line.strip()
    history = machine.history if machine.history[-1:] == (line,) else (*machine.history, line)
    return replace(machine, history=history[-MOST_HISTORY:])


def _run_all(machine: Machine, pipelines: tuple[Pipeline, ...]) -> Result:
    result = Result(machine, status=machine.status)
    pieces: list[Piece] = []
    clears = False
    for pipeline in pipelines:
        if pipeline.after in ("&&", "||") and bool(result.status) is (pipeline.after == "&&"):
            continue
        machine = replace(result.machine, status=result.status)
        result = _run_pipeline(machine, pipeline)
        clears |= result.clears
        pieces = [] if result.clears else pieces
        pieces += result.pieces
    return replace(result, pieces=tuple(pieces), clears=clears)


def _run_pipeline(machine: Machine, pipeline: Pipeline) -> Result:
    stdin: str | None = None
    shown: list[Piece] = []
    last = len(pipeline.commands) - 1
    result = Result(machine)
    for index, command in enumerate(pipeline.commands):
        background = pipeline.in_background and last == 0
        result = _run_command(result.machine, command, stdin, in_background=background)
        kept, stdin = _divide(result, command, is_last=index == last)
        shown += kept
    notes = [piece for piece in shown if piece.kind is Kind.NOTE]
    said = [piece for piece in shown if piece.kind is not Kind.NOTE]
    return replace(result, pieces=(*said, *notes))


def _divide(result: Result, command: Command, *, is_last: bool) -> tuple[list[Piece], str]:
    """What of a command's output is shown, and what its pipe carries on."""
    pieces = [
        piece
        for piece in result.pieces
        if not (command.drops_out and piece.kind is Kind.OUT)
        and not (command.drops_errors and piece.kind is Kind.ERROR)
    ]
    if is_last:
        return pieces, ""
    piped = (Kind.OUT, Kind.ERROR) if command.joins else (Kind.OUT,)
    text = "".join(f"{piece.text}\n" for piece in pieces if piece.kind in piped)
    return [piece for piece in pieces if piece.kind not in piped], text[:_MOST_PIPED]


def _run_command(
    machine: Machine, command: Command, stdin: str | None, *, in_background: bool
) -> Result:
    words = list(_expanded(machine, command.words))
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)  # a variable for the command that follows; none changes anything here
    if not words:
        return Result(machine)
    name, *rest = words
    known = COMMANDS.get(name.rpartition("/")[2] if name.startswith("/usr/") else name)
    if known is None:
        return _unknown(machine, name)
    call = Call(machine, tuple(rest), stdin, in_background)
    try:
        return known.run(call)
    except KvdocsError as error:
        return Result(machine, (Piece(Kind.ERROR, f"{name}: {error}"),), _BAD_LINE)


def _unknown(machine: Machine, name: str) -> Result:
    shown = name[:80]
    pieces = [Piece(Kind.ERROR, f"{shown}: command not found")]
    hint = near(name, list(COMMANDS), cutoff=0.5) or "`help` lists what can be typed here"
    pieces.append(Piece(Kind.NOTE, f"# {hint}"))
    return Result(machine, tuple(pieces), _NOT_FOUND)


def _expanded(machine: Machine, words: tuple[Word, ...]) -> Iterator[str]:
    for word in words:
        text = "".join(_named(machine, part.text) if part.names else part.text for part in word)
        is_pattern = any(
            not part.quoted and ("*" in part.text or "?" in part.text) for part in word
        )
        if not is_pattern or text.startswith("-"):
            yield text
            continue
        yield from _matching(machine, text)


def _matching(machine: Machine, pattern: str) -> Iterator[str]:
    found = list(Call(machine).files.matching(pattern)) if pattern.count("*") <= 5 else []
    yield from found or [pattern]


def _named(machine: Machine, text: str) -> str:
    """Replace the names the shell knows; others are empty, as in bash."""
    values = {
        "?": str(machine.status),
        "HOME": HOME,
        "PWD": machine.cwd,
        "USER": "dev",
        "HOSTNAME": LESSON.machine,
    }
    return _NAME.sub(lambda match: values.get(match[1] or match[2], ""), text)[:MOST_CHARACTERS]
