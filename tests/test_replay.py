"""Replay: every recorded decision of vLLM 0.33.0 is reproduced, field by field."""

import json
from pathlib import Path

import pytest

from kvdocs.errors import FlagError, WorkloadError
from kvdocs.replay import dump, replay, stream_token

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name.removesuffix(".out.json") for path in GOLDEN.glob("*.out.json"))


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def test_all_recordings_are_there():
    assert len(NAMES) == 57


@pytest.mark.parametrize("name", NAMES)
def test_replay_equals_vllm_step_by_step(name):
    want = json.loads((GOLDEN / f"{name}.out.json").read_text())
    got = replay(load(name))
    for ours, theirs in zip(got["steps"], want["steps"], strict=False):
        assert ours == theirs
    assert got == want


@pytest.mark.parametrize("name", NAMES)
def test_dump_has_the_layout_of_the_recordings(name):
    assert dump(replay(load(name))) == (GOLDEN / f"{name}.out.json").read_text()


def test_a_run_cut_short_is_truncated():
    document = replay(load("o01_single") | {"max_steps": 7})
    assert (document["status"], document["n_steps"]) == ("truncated", 7)
    assert document["requests_end"] == [["a", 37, 7, 0, "RUNNING"]]


def test_a_request_that_has_not_arrived_is_waiting_at_the_end():
    document = replay(load("o02_staggered") | {"max_steps": 1})
    assert document["requests_end"][-1][1:] == [document["requests_end"][-1][1], 0, 0, "WAITING"]


def test_prompt_may_quote_another_requests_output():
    requests = [
        {"id": "a", "at": 0, "prompt": [{"seed": 1, "n": 30}], "out": 20},
        {
            "id": "b",
            "at": 30,
            "prompt": [{"seed": 1, "n": 30}, {"out": "a", "n": 19}, {"ids": [7]}],
            "out": 1,
        },
    ]
    for order in (requests, requests[::-1]):
        streams = [request | {"oseed": ord(request["id"])} for request in order]
        steps = replay({"requests": streams})["steps"]
        # 49 of b's 50 prompt tokens have been computed for a: three full blocks of 16
        assert steps[30]["admit"] == [["b", 48, False, [1, 2, 3]]]


def test_aborting_a_finished_request_changes_nothing():
    workload = load("o01_single")
    late = workload | {"requests": [workload["requests"][0] | {"abort": 41}]}
    assert replay(late)["steps"] == replay(workload)["steps"]


def test_a_request_that_never_fits_stalls_after_five_idle_turns():
    request = {"id": "a", "at": 0, "prompt": [{"seed": 1, "n": 200}], "out": 1}
    document = replay({"config": {"num_blocks": 5}, "requests": [request]})
    assert (document["status"], document["n_steps"]) == ("stalled", 5)


@pytest.mark.parametrize(
    ("workload", "error", "message"),
    [
        ({"config": {"blocks": 3}}, WorkloadError, "unknown setting blocks"),
        ({"config": {"policy": "lifo"}}, WorkloadError, "'lifo'"),
        ({"config": {"num_blocks": 1}}, FlagError, "num_blocks is 1"),
        ({"requests": [{"id": "a"}]}, WorkloadError, "request number 0"),
        (
            {"requests": [{"id": "a", "at": 0, "prompt": [{"out": "b", "n": 1}], "out": 1}]},
            WorkloadError,
            "'b'",
        ),
        (
            {"requests": [{"id": "a", "at": 0, "prompt": [{"ids": [1]}], "out": 1}] * 2},
            WorkloadError,
            "two requests",
        ),
    ],
)
def test_a_bad_workload_is_refused_with_its_values(workload, error, message):
    with pytest.raises(error, match=message):
        replay(workload)


def test_stream_tokens_follow_their_formula():
    assert stream_token(4, 1) == (4 * 7919 + 31 + 17) % 31999 + 1
