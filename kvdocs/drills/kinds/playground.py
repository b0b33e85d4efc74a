"""A set-up of the playground that the reader brings to do what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.errors import KvdocsError
from kvdocs.html import Element, h
from kvdocs.playground.fields import complete, settle
from kvdocs.playground.form import read_form
from kvdocs.playground.page import IDENT
from kvdocs.playground.setup import Sized

_NOT_HERE: Final = "The playground is not on this page."


@dataclass(frozen=True, slots=True)
class Tried:
    """A set-up that the reader tried.

    Attributes:
        sized: Set-up A of the playground.
    """

    sized: Sized


@dataclass(frozen=True, slots=True)
class Playground:
    """Set-up A of the playground is brought to do something; Python runs it when the reader checks.

    Attributes:
        reached: Whether it does, given the drill's parameters.
        describe: What it does now, in one sentence or two.
    """

    reached: Callable[[Any, Tried], bool]
    describe: Callable[[Any, Tried], str]

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Make it happen"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all
        """Say where to do it."""
        return "Change set-up A of the playground above, then come back and press Check."

    def fields(self, posed: Posed[Any]) -> Element:  # noqa: ARG002 - the playground has the controls
        """Return a link to the playground; its form is the answer."""
        return h(
            "p",
            h("a", "Go to the playground", href=f"#{IDENT}"),
            class_="kv-watch",
            data_answer="state",
            data_watch=IDENT,
        )

    def written(self, answer: Any) -> dict[str, str]:
        """Return the whole form."""
        return settle(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether two set-ups A are one."""
        mine, theirs = (
            {name: text for name, text in complete(one).items() if name.startswith("a_")}
            for one in (self.written(some), self.written(other))
        )
        return mine == theirs

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Run set-up A as the reader left it, and look."""
        if not isinstance(raw, dict) or "a_flags" not in raw:
            return Verdict(Outcome.UNREADABLE, _NOT_HERE)
        values = settle({str(name): str(raw[name]) for name in raw} | {"compare": "one"})
        form = read_form(values)
        sized = form.sized.get("a")
        if sized is None or sized.refusal:
            problem = sized.refusal if sized else " ".join(form.errors.values())
            return Verdict(Outcome.UNREADABLE, f"Set-up A does not run: {problem}")
        try:
            return self._judge(posed, Tried(sized))
        except KvdocsError as error:
            return Verdict(Outcome.UNREADABLE, f"Set-up A does not run: {error}")

    def _judge(self, posed: Posed[Any], tried: Tried) -> Verdict:
        now = self.describe(posed.params, tried)
        if self.reached(posed.params, tried):
            return Verdict(Outcome.RIGHT, now)
        for mistake in posed.misconceptions:
            if mistake.seen is not None and mistake.seen(tried):
                return Verdict(Outcome.WRONG, f"{now} {mistake.message}")
        return Verdict(Outcome.WRONG, now)
