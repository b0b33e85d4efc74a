"""Run a block in its page's namespace and say how it ended."""

from __future__ import annotations

import ast
import gc
import json
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import CodeType, ModuleType
from typing import Final, Literal, TypeAlias

from kvdocs.cells.output import Emit, Limits, Output, captured
from kvdocs.cells.shown import Shown, shown
from kvdocs.cells.trimmed import BLOCK, trim

Status: TypeAlias = Literal["done", "failed", "exited", "out of memory", "missing package"]

MAIN: Final = "__main__"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: `done`; `failed` with an error; `exited` by `sys.exit()`; `out of memory`, after
            which this Python should be replaced; `missing package` when an import was not found.
        value: The last expression's value.
        error: The trimmed traceback, or one sentence; empty when done.
        line: The block's line at fault, if any.
        package: The top-level name of the missing package, else "".
        in_library: Whether the missing package is a module of Python's standard library.
        dropped: Characters of output beyond the limits.
    """

    status: Status
    value: Shown = Shown("nothing", "")  # noqa: RUF009 - it is frozen
    error: str = ""
    line: int | None = None
    package: str = ""
    in_library: bool = False
    dropped: int = 0


class Page:
    """A page's blocks and the namespace they share.

    Examples:
        >>> page = Page()
        >>> page.run(1, "x = 20", emit=print).status
        'done'
        >>> page.run(2, "x + 1", emit=print).value.content
        '21'
    """

    def __init__(self) -> None:
        self._module = ModuleType(MAIN)

    def run(self, block: int, code: str, *, emit: Emit, limits: Limits | None = None) -> Outcome:
        """Run a block.

        Args:
            block: Its number on the page, from 1; tracebacks name it.
            code: Python source.
            emit: Called with what is printed, as it is printed.
            limits: The most that is shown; the default limits when not given.
        """
        limits = limits or Limits()
        name = f"{BLOCK}{block}"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        output = Output(emit, limits)
        with captured(output), self._as_main():
            outcome = self._outcome(code, name, limits)
        return replace(outcome, dropped=output.dropped)

    @contextmanager
    def _as_main(self) -> Iterator[None]:
        before = sys.modules[MAIN]
        sys.modules[MAIN] = self._module
        try:
            yield
        finally:
            sys.modules[MAIN] = before

    def _outcome(self, code: str, name: str, limits: Limits) -> Outcome:
        try:
            return Outcome("done", value=shown(self._value(code, name), limits))
        except MemoryError as error:
            line = trim(error, name).line
        except BaseException as error:  # noqa: BLE001 - whatever the reader's code raises
            return _failure(error, name)
        self._module.__dict__.clear()
        self._module = ModuleType(MAIN)
        gc.collect()
        return Outcome("out of memory", error="MemoryError", line=line)

    def _value(self, code: str, name: str) -> object:
        """Run all but the last expression, then return that one's value (None if there is none)."""
        tree = ast.parse(code, name)
        namespace = self._module.__dict__
        match tree.body:
            case [*_, ast.Expr(value=last)]:
                tree.body.pop()
                exec(_compiled(tree, name), namespace)  # noqa: S102 - that is what it is for
                return eval(_compiled(ast.Expression(last), name), namespace)  # noqa: S307
            case _:
                exec(_compiled(tree, name), namespace)  # noqa: S102
                return None


def _compiled(tree: ast.Module | ast.Expression, name: str) -> CodeType:
    mode = "exec" if isinstance(tree, ast.Module) else "eval"
    code: CodeType = compile(tree, name, mode, dont_inherit=True)
    return code


def _failure(error: BaseException, name: str) -> Outcome:
    trimmed = trim(error, name)
    if isinstance(error, SystemExit):
        return Outcome("exited", error=_exit_text(error), line=trimmed.line)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        if package not in sys.modules:
            return Outcome(
                "missing package",
                line=trimmed.line,
                package=package,
                in_library=package in sys.stdlib_module_names,
            )
    return Outcome("failed", error=trimmed.text, line=trimmed.line)


def _exit_text(error: SystemExit) -> str:
    if error.code is None or isinstance(error.code, int):
        return f"The block ended itself with exit status {error.code or 0}."
    return f"The block ended itself: {str(error.code)[:1000]}"


def imported_packages(code: str) -> list[str]:
    r"""Return the top-level names that some code imports, sorted; none if it is not Python.

    Examples:
        >>> imported_packages("import json, numpy.linalg\ndef f():\n    from re import sub")
        ['json', 'numpy', 're']
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return sorted(names)


_pages: dict[str, Page] = {}


def run_as_json(page: str, block: int, code: str, emit: Emit) -> str:
    """Run a block in the namespace of the page of that name; return the outcome as JSON.

    This is what the browser's worker calls.

    Examples:
        >>> json.loads(run_as_json("p", 1, "1 + 1", print))["value"]
        {'kind': 'text', 'content': '2'}
    """
    outcome = _pages.setdefault(page, Page()).run(block, code, emit=emit)
    return json.dumps(asdict(outcome))
