"""The form's values read into set-ups and a load, with a message for each that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kvdocs.errors import ParameterError
from kvdocs.playground.fields import (
    CHOICES,
    LETTERS,
    NUMBERS,
    TRACE,
    TWO,
    config_box,
    flags_box,
    gpu_choice,
    model_choice,
    own_figures,
)
from kvdocs.playground.load import Load, Made, Trace
from kvdocs.playground.setup import Setup, Sized

T = TypeVar("T")

_OWN: Final = {
    "weights": "weight_bytes",
    "memory": "memory_bytes",
    "bandwidth": "bandwidth_bytes_per_s",
    "flops": "flops",
    "workspace": "activation_bytes",
    "context": "non_torch_bytes",
}
"""Fields of a set-up that are figures of the reader's own, and what `Setup` calls them."""
_MADE_NUMBERS: Final = (
    "num_requests",
    "prompt_tokens",
    "output_tokens",
    "prefix_tokens",
    "num_prefixes",
    "seed",
)
_MADE_CHOICES: Final = ("coming", "prompt_spread", "output_spread")


@dataclass(frozen=True, slots=True)
class Form:
    """The form, read.

    Attributes:
        sized: The set-ups that could be read, by letter.
        load: What comes; None when it could not be read.
        errors: Messages by field.
    """

    sized: dict[str, Sized]
    load: Load | None
    errors: dict[str, str]

    @property
    def setups(self) -> tuple[Setup, ...]:
        """The set-ups."""
        return tuple(sized.setup for sized in self.sized.values())


class _Reader:
    """Reads fields and collects messages."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.errors: dict[str, str] = {}

    def read(self, name: str, read: Callable[[str], T]) -> T | None:
        """Read a field, or note why not."""
        try:
            return read(self.values[name])
        except ParameterError as error:
            self.errors[name] = str(error)
            return None

    def setup(self, letter: str) -> Sized | None:
        """Read and size a set-up."""
        before = len(self.errors)
        texts = {
            name: self.read(f"{letter}_{name}", control(letter).read) for name, control in _TEXTS
        }
        figures = {
            _OWN[own.name.removeprefix(f"{letter}_")]: self.read(own.name, own.read)
            for own in own_figures(letter)
        }
        if len(self.errors) > before:
            return None
        fields: dict[str, Any] = {**texts, **figures}
        fields["config"] = fields["config"].strip()
        try:
            return Setup(**fields).size()
        except ParameterError as error:
            self.errors[f"{letter}_{error.name}"] = str(error)
            return None

    def made(self) -> Made | None:
        """Read what a made load is made from."""
        before = len(self.errors)
        values: dict[str, Any] = {
            name: self.read(name, lambda raw, name=name: int(NUMBERS[name].read(raw)))  # type: ignore[misc]
            for name in _MADE_NUMBERS
        }
        values["rate"] = self.read("rate", NUMBERS["rate"].read)
        values |= {name: self.read(name, CHOICES[name].read) for name in _MADE_CHOICES}
        return None if len(self.errors) > before else Made(**values)

    def trace(self, trace: Trace | None) -> Trace | None:
        """Read how a trace is played."""
        most = self.read("trace_most", NUMBERS["trace_most"].read)
        speed = self.read("trace_speed", NUMBERS["trace_speed"].read)
        if trace is None:
            self.errors["source"] = "There is no trace yet: drop a file below, or choose one."
        if trace is None or most is None or speed is None:
            return None
        return Trace(name=trace.name, read=trace.read, most=int(most), speed=speed)


_TEXTS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    ("model", model_choice),
    ("config", config_box),
    ("gpu", gpu_choice),
    ("flags", flags_box),
)


def read_form(values: Mapping[str, str], trace: Trace | None = None) -> Form:
    """Read the whole form.

    Args:
        values: All values, settled.
        trace: The trace that was dropped, if one was.

    Examples:
        >>> from kvdocs.playground.fields import settle
        >>> form = read_form(settle({"rate": "fast"}))
        >>> sorted(form.sized), form.errors
        (['a', 'b'], {'rate': "Rate: 'fast' is not a number from 0.001 to 10,000"})
    """
    reader = _Reader(values)
    letters = LETTERS if values["compare"] == TWO else LETTERS[:1]
    found = {letter: reader.setup(letter) for letter in letters}
    load: Load | None
    load = reader.trace(trace) if values["source"] == TRACE else reader.made()
    sized = {letter: one for letter, one in found.items() if one is not None}
    return Form(sized, load, reader.errors)


def refusals(form: Form) -> dict[str, str]:
    """Why the set-ups of a form that was read do not start, by the field of their flags.

    Args:
        form: The form.
    """
    return {
        f"{letter}_flags": f"This server does not start: {sized.refusal}"
        for letter, sized in form.sized.items()
        if sized.refusal
    }
