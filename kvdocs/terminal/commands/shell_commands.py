"""The shell's own commands: echo, history, clear, and those that say who and where you are."""

from __future__ import annotations

from typing import Final

from kvdocs.scenario import LESSON
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.output import Kind, Piece, Result, out


def _echo(call: Call) -> Result:
    words = call.words[1:] if call.words[:1] in (("-n",), ("-e",)) else call.words
    return Result(call.machine, (Piece(Kind.OUT, " ".join(words)),))


def _history(call: Call) -> Result:
    lines = [f"{number:>5}  {line}" for number, line in enumerate(call.machine.history, 1)]
    return out(call.machine, "\n".join(lines))


def _clear(call: Call) -> Result:
    return Result(call.machine, clears=True)


def _date(call: Call) -> Result:
    time = call.machine.time
    return out(call.machine, f"{time:%a %b} {time.day:>2} {time:%H:%M:%S %Y}")


def _exit(call: Call) -> Result:
    note = "# This shell stays with the page. To leave it with the keyboard: Esc, then Tab."
    return Result(call.machine, (Piece(Kind.NOTE, note),))


ECHO: Final = Command("print words: echo $?", _echo)
HISTORY: Final = Command("what you typed", _history)
CLEAR: Final = Command("clear the screen (Ctrl-L)", _clear)
DATE: Final = Command("the machine's time", _date)
EXIT: Final = Command("how to leave", _exit)
TRUE: Final = Command("succeed", lambda call: Result(call.machine))
FALSE: Final = Command("fail", lambda call: Result(call.machine, status=1))
WHOAMI: Final = Command("who you are", lambda call: out(call.machine, "dev"))
HOSTNAME: Final = Command("the machine's name", lambda call: out(call.machine, LESSON.machine))
