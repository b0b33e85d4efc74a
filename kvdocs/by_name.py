"""Objects of the package that are found by name, and imported when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class ByName(Mapping[str, T]):
    """A mapping from names to objects that imports an object's module on first use.

    A page needs few of all widgets and drills; what it does not need is not compiled for it.

    Args:
        kind: The class of the objects; anything else found at a place is an error.
        package: Package of the modules, dotted.
        places: Place of each object, `module:ATTRIBUTE`, by its name.

    Examples:
        >>> from kvdocs.widgets.widget import Widget
        >>> widgets = ByName(Widget, "kvdocs.widgets", {"heads": "heads:HEADS"})
        >>> widgets["heads"].name
        'heads'
        >>> "shoulders" in widgets, list(widgets)
        (False, ['heads'])
    """

    def __init__(self, kind: type[T], package: str, places: Mapping[str, str]) -> None:
        self._kind = kind
        self._package = package
        self._places = dict(places)

    def __getitem__(self, name: str) -> T:
        module, _, attribute = self._places[name].partition(":")
        found = getattr(import_module(f"{self._package}.{module}"), attribute)
        if not isinstance(found, self._kind):
            raise TypeError(f"{self._package}.{module}:{attribute} is no {self._kind.__name__}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
