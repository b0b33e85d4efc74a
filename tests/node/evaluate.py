"""Evaluates vectors; runs unchanged in CPython and in Pyodide. Standard library and kvdocs only."""

from __future__ import annotations

import importlib
import json
from typing import Any


def evaluate(vectors: str) -> str:
    """Call each function of a JSON list of vectors.

    Args:
        vectors: A list of `{"call": "package.module.function", "args": […], "kwargs": {…}}`.

    Returns:
        A JSON list: the `repr` of each result (floats to the last digit), or the type and text of
        the error raised.
    """
    return json.dumps([_outcome(vector) for vector in json.loads(vectors)])


def _outcome(vector: dict[str, Any]) -> str:
    module, _, name = vector["call"].rpartition(".")
    function = getattr(importlib.import_module(module), name)
    try:
        return repr(function(*vector.get("args", ()), **vector.get("kwargs", {})))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
