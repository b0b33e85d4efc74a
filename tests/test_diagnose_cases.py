"""Public reports: each gets its verdict, and the figures that follow from it by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvdocs.catalog import get_model
from kvdocs.diagnose import Diagnosis, diagnose, read_evidence
from kvdocs.diagnose.estimates import explain_estimate, mistakes
from kvdocs.diagnose.figures import hit_tokens_possible
from kvdocs.explain import explain
from kvdocs.model import kv_cost, parse_config
from kvdocs.timing import transfer_time

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parent / "cases" / "diagnoses.json").read_text(encoding="utf-8")
)
CASES, ESTIMATES = DOCUMENT["cases"], DOCUMENT["estimates"]


def _told(case: dict[str, Any], lines: list[str]) -> Diagnosis:
    return diagnose("\n".join(lines), flags=case.get("flags", ""), **case.get("told", {}))


def _check(case: dict[str, Any], told: Diagnosis) -> None:
    expect = case["expect"]
    assert told.verdict == expect["verdict"]
    assert told.confidence == expect.get("confidence", told.confidence)
    assert set(expect.get("also", [])) <= set(told.also)
    for name, (value, tolerance) in expect.get("near", {}).items():
        assert told.evidence[name] == pytest.approx(value, rel=tolerance), name
    assert any(expect.get("action", "") in action for action in told.actions)
    assert expect.get("note", "") in " ".join(told.notes)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_public_report_gets_its_verdict(case: dict[str, Any]) -> None:
    _check(case, _told(case, case["lines"]))


WRAPPINGS = {
    "compose": lambda line: f"vllm-1  | {line}",
    "kubernetes": lambda line: f"[pod/vllm-0/server] {line}",
    "engine-core": lambda line: f"\x1b[1;36m(EngineCore pid=118)\x1b[0;0m INFO [a.py:1] {line}",
    "json": lambda line: json.dumps({"log": f"\x1b[32mINFO\x1b[0m {line}\n", "stream": "stderr"}),
    "carriage-return": lambda line: f"INFO {line}\r",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_log_lines_are_read_whatever_wraps_them(wrapping: str) -> None:
    noise = ["", 'INFO: 10.0.0.1:5 - "GET /metrics HTTP/1.1" 200 OK', "\ufffd\x00"]
    for case in CASES:
        if any("_cache_" in line for line in case["lines"]):
            continue  # a metric or a query, not a log
        lines = [WRAPPINGS[wrapping](line) for line in case["lines"]]
        _check(case, _told(case, [*noise, *lines, *noise]))


@pytest.mark.parametrize("case", ESTIMATES, ids=[case["name"] for case in ESTIMATES])
def test_a_calculators_figure_is_explained(case: dict[str, Any]) -> None:
    config = case.get("config") or get_model(case["model"]).config
    split = case.get("tensor_parallel_size", 1)
    assert case["mistake"] in explain_estimate(case["said"], config, tensor_parallel_size=split)
    assert dict(mistakes(config, split))["right"] == case["right"]
    low, high = case.get("ratio_between", [0, 100])
    assert low <= case["said"] / case["right"] <= high


def test_hits_of_a_hybrid_model_are_whole_blocks() -> None:
    reported = {2015: 0, 8015: 7168, 32015: 28672, 47074: 46592}  # glm53-flash-exl3 issue 16
    assert {prompt: hit_tokens_possible(prompt, 3584) for prompt in reported} == reported
    assert hit_tokens_possible(552, 528) / 552 == pytest.approx(0.957, abs=5e-4)


def test_capacity_is_that_of_the_smallest_stage() -> None:
    lines = (
        "(Worker_PP0 pid=1) INFO [x.py:1] GPU KV cache size: 46,800 tokens\n"
        "(Worker_PP1 pid=2) INFO [x.py:1] GPU KV cache size: 327,680 tokens\n"
    )  # vllm issue 25164
    assert explain(lines).figures["kv_pool_tokens"] == 46_800
    assert read_evidence(lines)[0].pool_tokens == 46_800


def test_only_the_attention_layers_of_kimi_linear_grow() -> None:
    cost = kv_cost(get_model("kimi-linear").model)  # vllm issue 28228
    assert cost.bytes_per_token == 7 * 1152
    assert 2.3 * 2**30 / cost.bytes_per_token == pytest.approx(306_250, rel=1e-3)


def test_without_a_hybrid_manager_every_layer_pays_the_full_length() -> None:
    cost = kv_cost(get_model("google/gemma-4-31B-it").model)  # tt-xla issue 5727
    each = cost.bytes_per_token + cost.window_bytes_per_token
    assert each == 901_120
    assert 7584 * each / 2**30 == pytest.approx(6.36, abs=0.01)


def test_a_working_set_that_fits_the_gpu_needs_no_tier() -> None:
    cost = kv_cost(get_model("llama-3.1-8b").model)  # LMCache issue 1326: 10 documents of 2,000
    assert cost.bytes_at(20_000) / 2**30 == pytest.approx(2.44, abs=0.005)


def test_the_share_of_a_chunk_on_each_rank() -> None:
    config = {  # LMCache issue 485: Qwen2.5-72B over four GPUs
        "model_type": "qwen2",
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    }
    cost = kv_cost(parse_config(config), tensor_parallel_size=4)
    assert cost.bytes_per_token == 327_680
    assert 256 * cost.bytes_per_token_per_gpu == 20 * 2**20


def test_a_70b_prompt_over_tcp_takes_a_quarter_of_a_minute() -> None:
    class Link:
        bytes_per_s = 179.4e6 / 0.6  # transfer_time counts 60% of the peak

    assert transfer_time(327_680 * 8192, Link()) == pytest.approx(14.9, rel=0.01)


def test_every_case_names_a_source_and_an_expectation() -> None:
    names = [case["name"] for case in (*CASES, *ESTIMATES)]
    assert len(set(names)) == len(names) >= 36
    assert all(case["source"] for case in (*CASES, *ESTIMATES))
