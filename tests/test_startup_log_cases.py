"""Public start-up logs: each figure inside its rounding interval, or its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvdocs.catalog import get_model
from kvdocs.explain import Explanation, explain

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "cases" / "startup_logs.json").read_text(encoding="utf-8")
)["cases"]


def _config(case: dict[str, Any]) -> Any:
    if "catalogue_model" in case:
        return get_model(case["catalogue_model"]).config
    return case.get("config")


def _explained(case: dict[str, Any], lines: str) -> Explanation:
    return explain(lines, config=_config(case), flags=case.get("flags", ""))


def _check(case: dict[str, Any], told: Explanation) -> None:
    expect, figures = case["expect"], told.figures
    for name, value in expect.get("inside", {}).items():
        low, high = figures[f"{name}_low"], figures[f"{name}_high"]
        assert low <= value <= high, (name, low, value, high)
        assert high - low <= 0.02 * value, f"{name} is no more than a guess"
    for name, value in expect.get("equal", {}).items():
        assert figures[name] == value, name
    for name, (value, tolerance) in expect.get("near", {}).items():
        assert figures[name] == pytest.approx(value, rel=tolerance), name
    codes = {finding.code for finding in told.findings}
    assert not set(expect.get("codes", [])) - codes
    text = " ".join(finding.text for finding in told.findings)
    for words in expect.get("words", []):
        assert words in text


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_public_log_is_explained(case: dict[str, Any]) -> None:
    _check(case, _explained(case, "\n".join(case["lines"])))


WRAPPINGS = {
    "compose": lambda line: f"vllm-1  | {line}",
    "docker-timestamps": lambda line: f"2026-11-30T09:00:00.123456789Z {line}",
    "kubernetes": lambda line: f"[pod/vllm-0/server] {line}",
    "journald": lambda line: f"Nov 30 09:00:00 host docker[811]: {line}",
    "engine-core": lambda line: f"\x1b[1;36m(EngineCore pid=118)\x1b[0;0m INFO [a.py:1] {line}",
    "json": lambda line: json.dumps({"log": f"\x1b[32mINFO\x1b[0m {line}\n", "stream": "stderr"}),
    "json-ascii-html": lambda line: (
        json.dumps({"log": f"INFO {line}\n"}).replace("'", "\\u0027").replace(">", "\\u003e")
    ),
    "carriage-return": lambda line: f"INFO {line}\r",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_case_survives_what_wraps_its_lines(wrapping: str) -> None:
    for case in CASES:
        noise = ["", 'INFO: 10.0.0.1:5 - "GET /metrics HTTP/1.1" 200 OK', "\ufffd\x00"]
        lines = [WRAPPINGS[wrapping](line) for line in [*noise, *case["lines"], *noise]]
        _check(case, _explained(case, "\n".join(lines)))


def test_every_case_names_a_source_and_an_expectation() -> None:
    for case in CASES:
        assert case["source"]
        assert case["expect"]
    assert len({case["name"] for case in CASES}) == len(CASES) >= 36
