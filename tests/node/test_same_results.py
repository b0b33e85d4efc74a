"""The package computes the same in CPython and in Pyodide, to the last digit of every float."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.node.evaluate import evaluate

HERE = Path(__file__).parent
VECTORS = (HERE / "vectors.json").read_text(encoding="utf-8")

pytestmark = pytest.mark.node


@pytest.mark.parametrize("start", ["plain", "snapshot"])
def test_pyodide_gives_what_cpython_gives(start: str):
    here = json.loads(evaluate(VECTORS))
    command = ["node", str(HERE / "run_in_pyodide.mjs"), start]
    run = subprocess.run(
        command, input=VECTORS, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    there = json.loads(run.stdout)
    calls = json.loads(VECTORS)
    assert len(there) == len(calls)
    differing = [
        (call, one, other)
        for call, one, other in zip(calls, here, there, strict=True)
        if one != other
    ]
    assert differing == []


def test_the_vectors_reach_every_widget_and_both_outcomes():
    from kvdocs.widgets.registry import WIDGETS  # noqa: PLC0415 - only this test needs it

    names = {vector["args"][0] for vector in widget_vectors()}
    assert names >= set(WIDGETS)
    outcomes = json.loads(evaluate(VECTORS))
    assert any('"html": null' in outcome for outcome in outcomes)
    assert any(outcome.startswith("UnitError: ") for outcome in outcomes)


def widget_vectors() -> list[dict[str, list[str]]]:
    update = "kvdocs.widgets.browser.update"
    return [vector for vector in json.loads(VECTORS) if vector["call"] == update]
