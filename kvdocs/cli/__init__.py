"""The command line `kvdocs`.

One module per command; a command's module, and what it needs, is imported when it is asked for, so
that `kvdocs --help` answers at once.

Examples:
    >>> main(["size", "meta-llama/Llama-3.1-8B", "--tokens", "8K"])  # doctest: +ELLIPSIS
    meta-llama/Llama-3.1-8B
    ...
    0
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvdocs.errors import KvdocsError, UsageError

if TYPE_CHECKING:
    from typing import TextIO

OK: Final = 0
FAULT: Final = 1
"""A mistake in kvdocs itself."""
BAD_INPUT: Final = 2
REFUSED: Final = 3
"""The server asked about would not start."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 plus the signal's number, as shells count it."""
PIPE_CLOSED: Final = 141
"""Nobody reads the output any more (SIGPIPE)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Whatever the input, a failure is one line on standard error. With `KVDOCS_DEBUG` set, a mistake
    in kvdocs itself is raised with its traceback instead.

    Args:
        argv: The words after `kvdocs`; the process's own when not given.

    Returns:
        0 when done, 2 for bad input, 3 for a server that would not start, 130 after Ctrl-C,
        141 when the reader of a pipe has gone, 1 for a mistake in kvdocs.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run_and_flush(words)
    except KvdocsError as error:
        return _complain(_command_of(words), str(error), BAD_INPUT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        _drop_output()
        return _complain(_command_of(words), f"{error.strerror or error}", BAD_INPUT)
    except Exception as error:
        if os.environ.get("KVDOCS_DEBUG"):
            raise
        text = f"a mistake in kvdocs, please report it: {type(error).__name__}: {error}"
        return _complain(_command_of(words), text, FAULT)


def _run_and_flush(words: list[str]) -> int:
    _never_fail_to_encode(sys.stdout)
    try:
        status = _run(words)
    except SystemExit as stop:  # argparse's way to end after --help and --version
        status = stop.code if isinstance(stop.code, int) else OK
    if sys.stdout is not None:
        sys.stdout.flush()  # here, so that a closed pipe is noticed while it can be handled
    return status


def _run(words: list[str]) -> int:
    from kvdocs.cli import parser  # noqa: PLC0415 - keeps `import kvdocs.cli` itself free

    if not words:
        raise UsageError(f"a command is needed: {parser.listed()}; `kvdocs --help` says more")
    name, *rest = words
    if name in parser.COMMANDS:
        return parser.run_command(name, rest)
    if name in parser.TOP_FLAGS:
        parser.top_parser().parse_args([name])
    raise UsageError(parser.unknown_command(name))


def _command_of(words: Sequence[str]) -> str:
    from kvdocs.cli.parser import COMMANDS  # noqa: PLC0415 - as above

    return f"kvdocs {words[0]}" if words and words[0] in COMMANDS else "kvdocs"


def _complain(who: str, text: str, status: int) -> int:
    """Print one line, whatever the text holds."""
    from kvdocs.cli.output import one_line  # noqa: PLC0415 - as above

    print(f"{who}: {one_line(text)}", file=sys.stderr)
    return status


def _never_fail_to_encode(stream: TextIO | None) -> None:
    """Print a ? where the locale has no ×, and for file names that are no text."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Send what is left to nowhere: flushing it at exit would fail again."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # no real file behind it
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
