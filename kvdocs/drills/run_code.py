"""Run a reader's function on a few cases, and say what it returned."""

from __future__ import annotations

import contextlib
import copy
import io
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kvdocs.errors import KvdocsError

FILE: Final = "<your code>"
"""The name that a reader's code carries in tracebacks."""

MAX_PRINTED: Final = 4000
_MAX_REPR: Final = 80


class CodeError(KvdocsError):
    """A reader's code that does not run; the text names the line."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a reader's function did.

    Attributes:
        returned: What it returned, a case each.
        printed: What it printed, cut to `MAX_PRINTED` characters.
    """

    returned: tuple[Any, ...]
    printed: str


class _Output(io.StringIO):
    """Keeps the start of what is printed; the rest is counted, not kept."""

    def write(self, text: str) -> int:
        room = MAX_PRINTED - self.tell()
        super().write(text[: max(0, room)])
        return len(text)


def _no_input(prompt: object = "") -> str:  # noqa: ARG001 - the signature of input()
    raise EOFError("input() has nobody to ask here; give the function its values as arguments")


def run_code(source: str, function: str, calls: Mapping[str, tuple[Any, ...]]) -> Ran:
    r"""Run code, then its function once a call.

    Args:
        source: The reader's code.
        function: Name of the function it must define.
        calls: Arguments of each call, by its name; the function gets copies.

    Raises:
        CodeError: The code does not run, or defines no such function.

    Examples:
        >>> run_code("def double(x):\n    return 2 * x", "double", {"two": (2,)}).returned
        (4,)
        >>> run_code("def double(x):\n    return 2 * y", "double", {"2": (2,)})
        Traceback (most recent call last):
        kvdocs.drills.run_code.CodeError: line 2: NameError: name 'y' is not defined, called with 2
    """
    output = _Output()
    namespace: dict[str, Any] = {"__name__": "__main__", "input": _no_input}
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        _attempt(lambda: exec(compile(source, FILE, "exec"), namespace))  # noqa: S102 - its purpose
        called = namespace.get(function)
        if not callable(called):
            raise CodeError(f"there is no function {function!r}; define it with def {function}")
        returned = [
            _attempt(partial(called, *copy.deepcopy(given)), f", called with {name}")
            for name, given in calls.items()
        ]
    return Ran(tuple(returned), output.getvalue())


def _attempt(run: Callable[[], Any], where: str = "") -> Any:
    try:
        return run()
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: whatever the code does, the page gets an answer.
        raise CodeError(f"{_told(error)}{where}") from error


def _told(error: BaseException) -> str:
    """Say what went wrong in the last of the reader's own lines."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    return f"line {own[-1].lineno}: {what}" if own else what


def quoted(value: object) -> str:
    """Print a value, cut to a readable length; a value that cannot be printed is named by type.

    Examples:
        >>> quoted(131072), quoted("131072"), quoted(None)
        ('131,072', "'131072'", 'nothing (None)')
    """
    if value is None:
        return "nothing (None)"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a reader's own __repr__
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "…"
