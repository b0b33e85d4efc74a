"""A widget: a name, its controls, and a pure function from parameters to a `View`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvdocs.errors import KvdocsError, ParameterError
from kvdocs.widgets.controls import Control
from kvdocs.widgets.view import View


@dataclass(frozen=True, slots=True)
class Widget:
    """A live picture of the lesson.

    Attributes:
        name: Kebab-case name, as in `<kv-widget name="…">`.
        controls: The parameters the reader may set.
        draw: Called with one keyword argument a control, returns a `View`. Pure: the same
            arguments always give the same view.
        adapt: For controls whose limits depend on another's value: from all parameters to the
            controls to show. Names, their order and the defaults are those of `controls`.
        start: For a simulation that the reader may change while it runs: the state it starts
            with, as plain JSON. `draw` is then also called with `state`, and its view carries the
            state to be handed back with the next update.
    """

    name: str
    controls: tuple[Control, ...]
    draw: Callable[..., View]
    adapt: Callable[[Mapping[str, str]], tuple[Control, ...]] | None = None
    start: Any = None
    controls_first: bool = False

    def controls_for(self, params: Mapping[str, str]) -> tuple[Control, ...]:
        """Return the controls as they are for these (complete) parameters."""
        return self.adapt(params) if self.adapt else self.controls

    def complete(self, params: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters with defaults for those not given.

        Raises:
            ParameterError: A name that is not one of the widget's controls.
        """
        names = [control.name for control in self.controls]
        for name in params:
            if name not in names:
                raise ParameterError(
                    f"{self.name} has no parameter {name!r}; it has {', '.join(names)}", name=name
                )
        return {
            control.name: params.get(control.name, control.default) for control in self.controls
        }

    def read(self, params: Mapping[str, str]) -> tuple[dict[str, object], dict[str, str]]:
        """Read every control.

        Returns:
            Values by parameter name, and messages by the name of each parameter refused.
        """
        values: dict[str, object] = {}
        errors: dict[str, str] = {}
        for control in self.controls_for(params):
            try:
                values[control.name] = control.read(params[control.name])
            except ParameterError as error:
                errors[error.name] = str(error)
        return values, errors

    def view(self, state: Any = None, /, **params: str) -> View:
        """Draw the widget.

        Args:
            state: The state its last view carried; its start when None.
            **params: Parameter values as text; defaults stand in for those not given.

        Raises:
            KvdocsError: A parameter, or a combination of them, that is not allowed.
        """
        values, errors = self.read(self.complete(params))
        for name, message in errors.items():
            raise ParameterError(message, name=name)
        return self.drawn(values, state)

    def drawn(self, values: Mapping[str, object], state: Any) -> View:
        """Draw values that were read, with the state if the widget has one."""
        if self.start is None:
            return self.draw(**values)
        return self.draw(**values, state=self.start if state is None else state)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The outcome of an update: a new view, or messages and the last good picture stays.

    Attributes:
        params: The complete parameters.
        view: The new view, or None when a parameter was refused.
        errors: Messages by parameter name; `*` for one that belongs to the widget as a whole.
    """

    params: dict[str, str]
    view: View | None
    errors: dict[str, str]


def draw(widget: Widget, params: Mapping[str, str], state: Any = None) -> Drawn:
    """Draw a widget, turning every refusal into a message at its control.

    Args:
        widget: The widget.
        params: Its parameters, those that differ from the defaults.
        state: The state that its last view carried; its start when None.
    """
    try:
        complete = widget.complete(params)
    except ParameterError as error:
        return Drawn(dict(params), None, {"*": str(error)})
    values, errors = widget.read(complete)
    if errors:
        return Drawn(complete, None, errors)
    try:
        view = widget.drawn(values, state)
        return Drawn(complete | dict(view.params), view, {})
    except ParameterError as error:
        return Drawn(complete, None, {error.name: str(error)})
    except KvdocsError as error:
        return Drawn(complete, None, {"*": str(error)})
