"""Code that must pass: a function the reader writes, judged by what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.drills.run_code import CodeError, quoted, run_code
from kvdocs.html import Element, h

MAX_CHARACTERS: Final = 20_000
_SPARE_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class CodeCase:
    """A call that must return the right thing.

    Attributes:
        name: What it is called with, as the reader is told.
        arguments: The arguments.
        expected: What it must return, computed by the package.
        because: Why, in a clause: told when it returned something else.
    """

    name: str
    arguments: tuple[Any, ...]
    expected: Any
    because: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A box for code.

    Attributes:
        function: Name of the function that is called.
        start: The code the box holds at first.
        cases: The calls, for these parameters.
    """

    function: str
    start: Callable[[Any], str]
    cases: Callable[[Any], tuple[CodeCase, ...]]

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Write it"

    def requirement(self, posed: Posed[Any]) -> str:
        """Say what is called."""
        names = ", ".join(case.name for case in self.cases(posed.params))
        return (
            f"`{self.function}` is called with: {names}. It must return the right value for each."
        )

    def fields(self, posed: Posed[Any]) -> Element:
        """Return a labelled text area with the code to start from."""
        start = self.start(posed.params)
        area = h(
            "textarea",
            # HTML drops one line feed at the start of a text area.
            f"\n{start}",
            name="answer",
            rows=start.count("\n") + _SPARE_LINES,
            spellcheck="false",
            autocomplete="off",
            autocapitalize="off",
            data_answer="text",
            data_code="python",
        )
        return h("label", h("span", "Your code", class_="kv-label"), area, class_="kv-code-field")

    def written(self, answer: Any) -> str:
        """Return the code."""
        return str(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether two programs are the same text."""
        return bool(some == other)

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Run the code and compare what it returns."""
        source = raw if isinstance(raw, str) else ""
        if not source.strip() or len(source) > MAX_CHARACTERS:
            return Verdict(
                Outcome.UNREADABLE,
                f"Write between 1 and {MAX_CHARACTERS:,} characters of code; "
                f"these are {len(source):,}.",
            )
        cases = self.cases(posed.params)
        try:
            ran = run_code(source, self.function, {case.name: case.arguments for case in cases})
        except CodeError as error:
            return Verdict(Outcome.WRONG, f"Your code stopped: {error}.")
        failed = [
            (case, value)
            for case, value in zip(cases, ran.returned, strict=True)
            if not _equal(value, case.expected)
        ]
        if not failed:
            text = f"All {len(cases)} calls returned the right value."
            return Verdict(Outcome.RIGHT, text, printed=ran.printed)
        told = _told(self.function, *failed[0])
        for mistake in posed.misconceptions:
            if mistake.seen is not None and mistake.seen(tuple(map(_plain, ran.returned))):
                told = f"{told} {mistake.message}"
                break
        else:
            told += f" {failed[0][0].because}" if failed[0][0].because else ""
        return Verdict(Outcome.WRONG, told, printed=ran.printed)


def _equal(value: Any, expected: Any) -> bool:
    try:
        return type(value) is not bool and bool(value == expected)
    except Exception:  # noqa: BLE001 - a reader's own __eq__
        return False


def _plain(value: Any) -> float | str:
    """Return a number as it is, and of anything else what can be said of it."""
    return value if type(value) in {int, float} else quoted(value)


def _told(function: str, case: CodeCase, value: Any) -> str:
    kind = "" if isinstance(value, (int, float)) or value is None else f" ({type(value).__name__})"
    return (
        f"For {case.name}, `{function}` returned {quoted(value)}{kind}; "
        f"expected was {quoted(case.expected)}."
    )
