"""Commands about folders: ls, cd, pwd."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvdocs.cli.files import FileKind
from kvdocs.errors import TerminalError
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.commands.options import read_options
from kvdocs.terminal.machine import HOME
from kvdocs.terminal.output import Kind, Piece, Result, fail, out

_MISSING: Final = "No such file or directory"


def _ls(call: Call) -> Result:
    options = read_options(call.words, switches=("-l", "-a", "-1", "-h", "-d", "-R"))
    if "-R" in options.switches:
        raise TerminalError("-R is not here; `ls models` lists the models")
    pieces: list[Piece] = []
    names = options.rest or (".",)
    for name in names:
        kind = call.files.kind(name)
        if kind is FileKind.NOTHING:
            pieces.append(Piece(Kind.ERROR, f"ls: cannot access '{name}': {_MISSING}"))
        elif kind is FileKind.FILE or "-d" in options.switches:
            pieces.append(Piece(Kind.OUT, name))
        else:
            head = f"{name}:\n" if len(names) > 1 else ""
            pieces.append(Piece(Kind.OUT, head + "\n".join(call.files.names_in(name))))
    failed = any(piece.kind is Kind.ERROR for piece in pieces)
    return Result(call.machine, tuple(pieces), 2 if failed else 0)


def _cd(call: Call) -> Result:
    name = call.words[0] if call.words else HOME
    kind = call.files.kind(name)
    if kind is not FileKind.FOLDER:
        why = "Not a directory" if kind is FileKind.FILE else _MISSING
        return fail(call.machine, f"cd: {name}: {why}")
    return Result(replace(call.machine, cwd=call.files.path(name)))


def _pwd(call: Call) -> Result:
    return out(call.machine, call.machine.cwd)


LS: Final = Command("list a folder: ls models", _ls, ("-l", "-a", "-1"))
CD: Final = Command("go to a folder", _cd)
PWD: Final = Command("name the folder you are in", _pwd)
