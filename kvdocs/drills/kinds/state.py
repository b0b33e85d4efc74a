"""A state to reach in one of the page's live pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvdocs.drills.drill import Outcome, Posed, Verdict
from kvdocs.html import Element, h
from kvdocs.widgets.registry import get_widget
from kvdocs.widgets.view import View
from kvdocs.widgets.widget import draw


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the reader has brought the picture.

    Attributes:
        params: Values of the picture's controls, as texts.
        view: What it shows.
    """

    params: Mapping[str, str]
    view: View


@dataclass(frozen=True, slots=True)
class State:
    """A picture that the reader brings into a state; Python looks when the reader says so.

    Attributes:
        widget: Name of the widget.
        reached: Whether the state is the one asked for, given the drill's parameters.
        describe: What the picture shows now, in one sentence: told with a wrong answer.
        element: Id of the picture on the page, where it is not the widget's name.
    """

    widget: str
    reached: Callable[[Any, Reached], bool]
    describe: Callable[[Any, Reached], str]
    element: str = ""

    @property
    def word(self) -> str:
        """What the reader is to do."""
        return "Make it happen"

    def requirement(self, posed: Posed[Any]) -> str:  # noqa: ARG002 - one for all states
        """Say where to do it."""
        return "Use the controls of the picture, then come back and press Check."

    def fields(self, posed: Posed[Any]) -> Element:  # noqa: ARG002 - the picture has the controls
        """Return a link to the picture; its controls are the answer."""
        ident = self.element or self.widget
        return h(
            "p",
            h("a", "Go to the picture", href=f"#{ident}"),
            class_="kv-watch",
            data_answer="state",
            data_watch=ident,
        )

    def written(self, answer: Any) -> dict[str, str]:
        """Return the values of all controls."""
        return get_widget(self.widget).complete(answer)

    def same(self, some: Any, other: Any) -> bool:
        """Whether two states are one."""
        return self.written(some) == self.written(other)

    def check(self, posed: Posed[Any], raw: object) -> Verdict:
        """Draw the picture as the reader left it, and look."""
        if not isinstance(raw, dict):
            return Verdict(Outcome.UNREADABLE, "The picture to work on is not on this page.")
        drawn = draw(get_widget(self.widget), {str(key): str(raw[key]) for key in raw})
        if drawn.view is None:
            problem = " ".join(drawn.errors.values())
            return Verdict(Outcome.UNREADABLE, f"The picture does not take this: {problem}")
        reached = Reached(drawn.params, drawn.view)
        now = self.describe(posed.params, reached)
        if self.reached(posed.params, reached):
            return Verdict(Outcome.RIGHT, now)
        for mistake in posed.misconceptions:
            if mistake.seen is not None and mistake.seen(reached):
                return Verdict(Outcome.WRONG, f"{now} {mistake.message}")
        return Verdict(Outcome.WRONG, now)
