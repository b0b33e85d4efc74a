"""Calling the command line from tests: in this process, and as a process of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kvdocs.cli import main

ROOT = Path(__file__).parent.parent


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Runner:
    """Runs `main` with words and standard input, and keeps what it printed."""

    def __init__(self, capsys, monkeypatch):
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str, stdin: bytes | str = b"") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = main(words)
        printed = self._capsys.readouterr()
        return Outcome(status, printed.out, printed.err)

    def refuses(self, *words: str, stdin: bytes | str = b"") -> str:
        """Run what must be refused; return the one line that says why."""
        status, out, err = self(*words, stdin=stdin)
        assert (status, out) == (2, "")
        assert err.startswith("kvdocs")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert err.strip().isprintable()
        return err


def spawn(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `python -m kvdocs` to its end."""
    command = [sys.executable, "-m", "kvdocs", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=60, check=False, **options
    )
