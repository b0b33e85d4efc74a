"""The four dashboards, and the diagnosis of what a reader pastes."""

import json

import pytest

from kvdocs.diagnose import diagnose
from kvdocs.widgets.browser import update
from kvdocs.widgets.dashboards import NAMES, dashboards
from kvdocs.widgets.diagnose import PRIVATE
from kvdocs.widgets.registry import get_widget

SEEDS = (*range(1, 16), 17, 20, 886)
"""With some whose full server is at times a little less than full, or whose healthy one is idle."""
CORNERS = {  # what the lesson's table says of usage and queue
    (True, True): {"memory-bound"},
    (False, True): {"scheduling-or-compute-bound", "prefill-bound", "max-num-seqs-bound"},
    (True, False): {"healthy-full"},
    (False, False): {"healthy"},
}


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_one_server_for_each_case_of_the_lesson(seed):
    shown = dashboards(seed)
    assert tuple(each.name for each in shown) == NAMES
    corners = [(each.now.kv_cache_usage >= 0.9, each.now.waiting > 0) for each in shown]
    assert sorted(corners) == sorted(CORNERS)
    assert all(each.now.running > 0 for each in shown)
    for each, corner in zip(shown, corners, strict=True):
        assert each.diagnosis().verdict in CORNERS[corner]


def test_the_panels_and_the_raw_metrics_say_the_same():
    for each in (*dashboards(3), *dashboards(5), *dashboards(886)):
        assert f'model_name="meta-llama/Llama-3.1-8B"}} {each.now.waiting:.1f}' in each.metrics
        usage = next(line for line in each.metrics.split("\n") if "usage_perc" in line)
        assert float(usage.split()[-1]) == pytest.approx(each.now.kv_cache_usage)


def test_another_seed_draws_other_servers_and_the_same_seed_the_same():
    assert [each.metrics for each in dashboards(5)] != [each.metrics for each in dashboards(6)]
    first = dashboards(7)
    dashboards.cache_clear()
    assert dashboards(7) == first


def test_verdicts_are_shown_only_when_asked_for():
    hidden = update("dashboards", json.dumps({"seed": "5"}))
    shown = update("dashboards", json.dumps({"seed": "5", "verdicts": "shown"}))
    assert "memory-bound" not in hidden
    assert "memory-bound" in shown
    assert "healthy-full" in shown


def view(**params):
    return get_widget("diagnose").view(**params)


def test_the_picture_says_that_nothing_leaves_the_browser():
    assert PRIVATE in str(view().picture)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Running: 0 reqs, Waiting: 5 reqs, GPU KV cache usage: 0.0%", "stalled"),
        ("Running: 21 reqs, Waiting: 23 reqs, GPU KV cache usage: 95.9%", "memory-bound"),
        ("vllm:kv_cache_usage_perc > 90", "metric-misread"),
        ("", "not-enough-evidence"),
        ("<script>alert(1)</script>", "not-enough-evidence"),
    ],
)
def test_what_is_pasted_is_diagnosed(text, verdict):
    shown = view(first=text)
    assert shown.figure("verdict").value == verdict
    assert "<script" not in str(shown.picture)


def test_hostile_labels_stay_text():
    page = 'vllm:num_requests_running{model_name="<img src=x onerror=1>",engine="0"} 3\n'
    other = page.replace('engine="0"', 'engine="1"').replace("running", "waiting")
    assert "<img" not in str(view(first=page + other).picture)


def test_the_second_scrape_the_time_the_flags_and_the_prompts_count():
    line = (
        "Running: 16 reqs, Waiting: 9 reqs, GPU KV cache usage: 20.0%, Prefix cache hit rate: 0.0%"
    )
    assert view(first=line).figure("verdict").value == "scheduling-or-compute-bound"
    named = view(first=line, flags="--max-num-seqs 16")
    assert named.figure("verdict").value == "max-num-seqs-bound"
    shared = view(first=line, prompts="shared")
    assert shared.figure("verdict").value == "prefix-sharing-defeated"
    before = (
        "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:generation_tokens_total 5"
    )
    told = view(first=before, second=before, seconds="30")
    assert told.figure("verdict").value == diagnose(before, before, seconds=30).verdict


@pytest.mark.parametrize("seconds", ["soon", "0", "-3", "nan", "1e99"])
def test_a_time_that_is_none_is_refused_at_its_box(seconds):
    answer = json.loads(update("diagnose", json.dumps({"seconds": seconds})))
    assert answer["html"] is None
    assert set(answer["errors"]) == {"seconds"}


def test_a_paste_that_is_too_large_is_refused_and_not_cut():
    answer = json.loads(update("diagnose", json.dumps({"first": "x" * 1_000_001})))
    assert answer["html"] is None
    assert "1,000,000" in answer["errors"]["first"]
