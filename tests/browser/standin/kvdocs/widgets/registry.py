"""The stand-in's only widget."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Widget:
    """Name and controls, as the build reads them."""

    name: str
    controls: tuple[object, ...] = ()


WIDGETS = {"double": Widget("double")}
