"""`kvdocs …`: the package's own command line, in this process and with the machine's files only."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Final

from kvdocs.cli import main
from kvdocs.cli.files import FILES
from kvdocs.errors import TerminalError
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.output import Kind, Piece, Result

_TOO_LARGE: Final = ("offload", "replay", "simulate", "trace")
"""Commands that work through files as large as you like: for a computer of your own."""
SUBCOMMANDS: Final = ("size", "fit", "explain", "models", "gpus", "--help", "--version")


def _kvdocs(call: Call) -> Result:
    if call.words and call.words[0] in _TOO_LARGE:
        raise TerminalError(f"{call.words[0]} is for a computer of your own: install the package")
    printed, complained = io.StringIO(), io.StringIO()
    with (
        _standard_input(call.stdin or ""),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complained),
    ):
        token = FILES.set(call.files)
        try:
            status = main(call.words)
        finally:
            FILES.reset(token)
    pieces = [
        Piece(kind, text.rstrip("\n"), wide=kind is Kind.OUT)
        for kind, text in ((Kind.OUT, printed.getvalue()), (Kind.ERROR, complained.getvalue()))
        if text.strip("\n")
    ]
    return Result(call.machine, tuple(pieces), status)


@contextlib.contextmanager
def _standard_input(text: str) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode(errors="replace")))
    try:
        yield
    finally:
        sys.stdin = before


KVDOCS: Final = Command("size a model or a server: kvdocs size llama-3.1-8b", _kvdocs, SUBCOMMANDS)
