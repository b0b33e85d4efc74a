"""The decision table, its signals, the readers, hostile pastes, and simulated servers."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kvdocs.diagnose import Evidence, Verdict, diagnose, judge, read_evidence, thresholds
from kvdocs.diagnose.from_simulation import evidence_of_simulation
from kvdocs.diagnose.kinds import KINDS
from kvdocs.diagnose.signals import SIGNALS, read_signals
from kvdocs.diagnose.table import (
    DOMAINS,
    ROWS,
    Confidence,
    find_row,
    num_combinations,
    num_covered,
    overlaps,
)
from kvdocs.diagnose.thresholds import ALL
from kvdocs.diagnose.verdicts import ADVICE
from kvdocs.errors import DiagnosisError
from kvdocs.metrics import EngineSnapshot, write_metrics
from kvdocs.offload import MoveOrRecompute, read_route
from kvdocs.scenario import lesson_timer, size_lesson
from kvdocs.timing import Efficiency

CONFUSION = json.loads((Path(__file__).parent.parent / "bench" / "diagnosis.json").read_text())

# The decision table ------------------------------------------------------------------------------


def test_no_two_rows_overlap_and_together_they_cover_every_combination() -> None:
    assert list(overlaps()) == []
    assert num_covered() == num_combinations() == math.prod(map(len, DOMAINS.values()))


def test_a_walk_over_many_combinations_meets_exactly_one_row_each() -> None:
    rng = random.Random(1)  # noqa: S311 - a walk
    for _ in range(20_000):
        values = {name: rng.choice(domain) for name, domain in DOMAINS.items()}
        assert [row for row in ROWS if row.holds(values)] == [find_row(values)]


def test_rows_name_only_signals_and_values_that_exist() -> None:
    for row in ROWS:
        for name, allowed in row.when.items():
            assert allowed
            assert set(allowed) <= set(DOMAINS[name])


def test_every_verdict_is_reached_by_a_row_and_has_its_words() -> None:
    assert {row.verdict for row in ROWS} == set(Verdict) == set(ADVICE)
    for advice in ADVICE.values():
        assert advice.title
        assert advice.actions
        assert advice.tell_more


def test_every_threshold_says_why() -> None:
    assert len({threshold.name for threshold in ALL}) == len(ALL)
    assert all(threshold.why.endswith(".") for threshold in ALL)


def test_signals_only_have_values_of_their_domain() -> None:
    numbers = (None, 0.0, 0.5, 1.0, 20.0, 1e9)
    rng = random.Random(2)  # noqa: S311 - a walk
    names = [name for name in Evidence().told({}).__slots__ if name not in _NOT_NUMBERS]
    for _ in range(3000):
        evidence = Evidence(**{name: rng.choice(numbers) for name in rng.sample(names, 12)})
        for name, reading in read_signals(evidence).items():
            assert reading.value in DOMAINS[name]
        json.dumps(judge(evidence).to_json(), allow_nan=False)


_NOT_NUMBERS = {
    "who",
    "source",
    "moments",
    "prompts",
    "misread",
    "old_names",
    "notes",
    "running_steady",
}


# The four corners --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "waiting", "verdict"),
    [
        (0.98, 14, "memory-bound"),
        (0.45, 61, "scheduling-or-compute-bound"),
        (0.98, 0, "healthy-full"),
        (0.31, 0, "healthy"),
    ],
)
def test_usage_and_queue_make_four_verdicts(usage, waiting, verdict) -> None:
    assert judge(Evidence(running=32, waiting=waiting, kv_cache_usage=usage)).verdict == verdict


def test_a_full_cache_begins_at_nine_tenths() -> None:
    def room(usage: float) -> str:
        return read_signals(Evidence(running=40, kv_cache_usage=usage))["room"].value

    assert [room(usage) for usage in (0.9, 0.8999, 0.8, 0.7999)] == [
        "full",
        "tight",
        "tight",
        "free",
    ]
    assert read_signals(Evidence(running=1, kv_cache_usage=0.51))["room"].value == "tight"


def test_a_queue_of_a_twentieth_of_the_batch_is_one() -> None:
    def queue(waiting: float) -> str:
        return read_signals(Evidence(running=100, waiting=waiting))["queue"].value

    assert [queue(waiting) for waiting in (0, 4, 5, 500)] == ["none", "none", "some", "some"]


def test_max_num_seqs_is_the_reason_only_where_there_is_room() -> None:
    full = Evidence(running=8, waiting=9, kv_cache_usage=0.97, max_num_seqs=8)
    assert judge(full).verdict is Verdict.MEMORY_BOUND
    assert judge(replace(full, kv_cache_usage=0.3)).verdict is Verdict.MAX_NUM_SEQS_BOUND
    assert (
        judge(replace(full, kv_cache_usage=0.3, max_num_seqs=256)).verdict
        is Verdict.SCHEDULING_OR_COMPUTE_BOUND
    )


def test_deferred_requests_wait_for_kv_only_where_a_connector_is_seen() -> None:
    held = Evidence(running=4, waiting=9, deferred=8, kv_cache_usage=0.95, moments=2)
    unknown = judge(held)
    assert (unknown.verdict, unknown.confidence) == (Verdict.DEFERRED, Confidence.MEDIUM)
    for seen in ({"has_connector": True}, {"transfers": 2.0}, {"tier_tokens": 100.0}):
        assert judge(replace(held, **seen)).verdict is Verdict.WAITING_FOR_KV

    line = "Running: 4 reqs, Waiting: 9 reqs, Deferred: 8 reqs, {}GPU KV cache usage: 95.0%{}\n"
    assert diagnose(3 * line.format("", "")).verdict is Verdict.DEFERRED
    hits = ", Prefix cache hit rate: 1.0%, External prefix cache hit rate: 0.0%"
    assert diagnose(3 * line.format("", hits)).verdict is Verdict.WAITING_FOR_KV
    fetch = "KV fetch: 8 waiting to start, 0 in progress, 0 completed waiting, "
    assert diagnose(3 * line.format(fetch, "")).verdict is Verdict.WAITING_FOR_KV

    page = (
        "vllm:num_requests_running 4\nvllm:num_requests_waiting 9\n"
        'vllm:num_requests_waiting_by_reason{reason="deferred"} 8\n'
        "vllm:external_prefix_cache_queries_total "
    )
    assert diagnose(f"{page}0\n").verdict is Verdict.DEFERRED
    assert diagnose(f"{page}500\n").verdict is Verdict.WAITING_FOR_KV


def test_over_a_slow_link_a_prompt_takes_several_times_its_prefill() -> None:
    route = read_route("10 Gbit/s")
    reached = Efficiency().link * route.bytes_per_s
    assert reached == thresholds.SLOW.value
    for tokens in (1024, 8192, 16_384):
        both = MoveOrRecompute(lesson_timer(), size_lesson().cost, route).at(tokens)
        assert both.move_s > 3 * both.recompute_s


def test_a_burst_of_preemptions_is_not_thrashing() -> None:
    calm = "Running: 40 reqs, Waiting: 9 reqs, {}GPU KV cache usage: 97.0%\n"
    burst = calm.format("Preemptions: 20, ") + 5 * calm.format("")
    assert diagnose(burst).verdict is Verdict.MEMORY_BOUND
    assert diagnose(6 * calm.format("Preemptions: 20, ")).verdict is Verdict.THRASHING


def test_confidence_grows_with_moments_and_falls_near_a_threshold() -> None:
    line = "Running: 40 reqs, Waiting: 30 reqs, GPU KV cache usage: {}%\n"
    assert diagnose(line.format("97.0")).confidence is Confidence.MEDIUM
    assert diagnose(5 * line.format("97.0")).confidence is Confidence.HIGH
    assert diagnose(5 * line.format("91.0")).confidence is Confidence.MEDIUM


# What is read ------------------------------------------------------------------------------------


def _page(**figures) -> str:
    return write_metrics([EngineSnapshot(model_name="m", **figures)])


def test_counters_count_by_their_growth_where_there_are_two_scrapes() -> None:
    long_ago = {"preemptions": 5000, "finished": {"stop": 100}, "generation_tokens": 10**6}
    now = {"running": 20, "kv_cache_usage": 0.5, **long_ago}
    before, after = _page(**now), _page(**now | {"generation_tokens": 10**6 + 9000})
    assert diagnose(after).verdict is Verdict.THRASHING  # since the start: all that one page tells
    told = diagnose(before, after, seconds=30)
    assert told.verdict is Verdict.HEALTHY
    assert told.evidence["preemptions"] == 0


def test_two_scrapes_in_one_paste_are_two_scrapes() -> None:
    before, after = (_page(running=3, generation_tokens=count) for count in (100, 700))
    (found,) = read_evidence(before + after, seconds=10)
    assert (found.moments, found.output_tokens, found.generation_tokens_per_s) == (2, 600, 60)
    (one,) = read_evidence(before + after)
    assert (one.output_tokens, one.generation_tokens_per_s) == (600, None)


def test_old_names_are_read_and_told() -> None:
    page = (
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.97\n'
        'vllm:num_requests_waiting{model_name="m"} 30\n'
        'vllm:num_requests_running{model_name="m"} 12\n'
        'vllm:num_requests_swapped{model_name="m"} 0\n'
    )
    told = diagnose(page)
    assert told.verdict is Verdict.MEMORY_BOUND
    assert told.also == (Verdict.METRIC_MISREAD,)
    assert "now vllm:kv_cache_usage_perc" in " ".join(told.notes)


def test_percent_under_the_name_of_a_share_is_told() -> None:
    page = "vllm:kv_cache_usage_perc 31.5\nvllm:num_requests_waiting 0\nvllm:num_requests_running 9"
    told = diagnose(page)
    assert told.verdict is Verdict.METRIC_MISREAD
    assert told.evidence == {} or told.evidence.get("kv_cache_usage", 0.315) == 0.315
    busy = page.replace("waiting 0", "waiting 50").replace("31.5", "97")
    assert diagnose(busy).verdict is Verdict.MEMORY_BOUND
    assert Verdict.METRIC_MISREAD in diagnose(busy).also


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("avg(vllm:gpu_cache_usage_perc) > 0.9", "now vllm:kv_cache_usage_perc"),
        ("expr: vllm:kv_cache_usage_perc{pod='a'} >= 95", "so write 0.95"),
        ("rate(vllm:num_requests_waiting[5m])", "is a gauge"),
        ("rate(vllm:prefix_cache_queries[1m]) / rate(vllm:prefix_cache_hits[1m])", "upside down"),
    ],
)
def test_a_query_is_checked(query, words) -> None:
    told = diagnose(query)
    assert told.verdict is Verdict.METRIC_MISREAD
    assert words in " ".join(told.notes)


def test_a_query_that_is_right_is_not_evidence() -> None:
    assert diagnose("vllm:kv_cache_usage_perc > 0.9").verdict is Verdict.NOT_ENOUGH


SGLANG = """\
[2026-09-13 16:06:01 TP0] Prefill batch, #new-seq: 1, #new-token: 646, #cached-token: 0, \
token usage: 0.97, #running-req: 66, #queue-req: 12
[2026-09-13 16:06:07 TP0] Decode batch, #running-req: 66, #token: 87282, token usage: 1.00, \
cuda graph: False, gen throughput (token/s): 2574.67, #queue-req: 13
"""
RETRACT = "[2026-09-13 16:06:07 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 9\n"


def test_sglang_lines_are_read() -> None:
    assert diagnose(SGLANG).verdict is Verdict.MEMORY_BOUND
    (found,) = read_evidence(SGLANG)
    assert (found.running, found.prefix_hit_rate, found.seconds) == (66, 0, 6)
    assert diagnose((SGLANG + RETRACT) * 3).verdict is Verdict.THRASHING


def test_an_sglang_page_is_read() -> None:
    page = "sglang:num_running_reqs 8\nsglang:num_queue_reqs 40\nsglang:token_usage 0.31\n"
    assert diagnose(page).verdict is Verdict.SCHEDULING_OR_COMPUTE_BOUND


def test_of_several_engines_the_gravest_is_told() -> None:
    page = write_metrics(
        [
            EngineSnapshot(model_name="m", engine=0, running=4, kv_cache_usage=0.2),
            EngineSnapshot(
                model_name="m", engine=1, running=9, waiting_capacity=30, kv_cache_usage=0.97
            ),
        ]
    )
    told = diagnose(page)
    assert (told.verdict, told.who) == (Verdict.MEMORY_BOUND, "m, engine 1")
    lines = "".join(
        f"Engine 00{engine}: Avg prompt throughput: 0.0 tokens/s, Running: {running} reqs, "
        f"Waiting: {waiting} reqs, GPU KV cache usage: 20.0%\n"
        for engine, running, waiting in ((0, 4, 0), (1, 0, 7))
    )
    assert (diagnose(lines).verdict, diagnose(lines).who) == (Verdict.STALLED, "engine 001")


def test_flags_come_from_the_log_and_from_the_reader() -> None:
    line = "Running: 16 reqs, Waiting: 9 reqs, GPU KV cache usage: 20.0%\n"
    args = "INFO [utils.py:1] non-default args: {'model': 'm', 'max_num_seqs': 16}\n"
    assert diagnose(args + line).verdict is Verdict.MAX_NUM_SEQS_BOUND
    assert diagnose(line, flags="--max-num-seqs 16").verdict is Verdict.MAX_NUM_SEQS_BOUND
    assert diagnose(line).verdict is Verdict.SCHEDULING_OR_COMPUTE_BOUND


def test_someones_prompt_is_not_evidence() -> None:
    line = "Received request cmpl-1: prompt: 'Running: 9 reqs, Waiting: 9 reqs, GPU KV cache usage'"
    assert diagnose(line).verdict is Verdict.NOT_ENOUGH


def test_files_pieces_and_utf_16_are_read() -> None:
    line = "Running: 0 reqs, Waiting: 5 reqs, GPU KV cache usage: 0.0%\r\n"
    for source in (
        line,
        line.encode(),
        io.BytesIO(line.encode()),
        io.StringIO(line),
        [line[:20].encode(), line[20:].encode()],
        line.encode("utf-16"),
    ):
        assert diagnose(source).verdict is Verdict.STALLED


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"wating": 3}, "'wating' is not a figure that can be told; there is waiting"),
        ({"waiting": "three"}, "waiting is 'three'"),
        ({"waiting": -1}, "0 or more"),
        ({"waiting": "nan"}, "0 or more"),
        ({"kv_cache_usage": 97}, "not a percentage"),
        ({"prompts": "some"}, "unknown, shared, unrelated"),
        ({"seconds": 0}, "above 0"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_reason(told, words) -> None:
    with pytest.raises(DiagnosisError, match=words):
        diagnose("", **told)


# Hostile pastes ----------------------------------------------------------------------------------

JUNK = {
    "random bytes": os.urandom,
    "one endless line": lambda size: b"vllm:x{" + b"}" * size,
    "samples of nothing": lambda size: b"vllm:x 1\n" * (size // 9),
    "new samples each": lambda size: (
        b"".join(b"vllm:x%06d 1\n" % n for n in range(250_000)) * (size // 4_000_000)
    ),
    "log lines": lambda size: (
        b"Running: 9 reqs, Waiting: 5 reqs, GPU KV cache usage: 9.0%\n" * (size // 60)
    ),
    "half lines": lambda size: (
        b"Running: 9 reqs, Waiting: \n# HELP vllm:\nvllm:num_req\n" * (size // 56)
    ),
    "line ends": lambda size: b"\n" * size,
}


@pytest.mark.parametrize("name", JUNK)
def test_50_mb_of_anything_are_answered_soon(name) -> None:
    junk = JUNK[name](50_000_000)
    start = time.process_time()
    told = diagnose(junk)
    assert time.process_time() - start < 10
    assert told.verdict in set(Verdict)
    assert len(json.dumps(told.to_json())) < 20_000


def test_half_a_page_and_odd_numbers_do_not_hurt() -> None:
    page = _page(running=12, waiting_capacity=30, kv_cache_usage=0.97)
    for cut in range(0, len(page), 997):
        diagnose(page[:cut])
        diagnose(page[cut:])
    for odd in ("NaN", "+Inf", "-Inf", "-3", "1e400", "0x1", ""):
        wrong = page.replace(
            "\nvllm:num_requests_waiting{", f"\nvllm:odd {odd}\nvllm:num_requests_waiting{{"
        )
        changed = wrong.replace('"} 30.0', f'"}} {odd}')
        json.dumps(diagnose(changed).to_json(), allow_nan=False)


def test_a_series_that_stands_there_twice_counts_once() -> None:
    line = "vllm:generation_tokens_total 500\n"
    page = "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n" + line + line
    (found,) = read_evidence(page + "vllm:prompt_tokens_total 1000")
    assert found.prompt_per_output == 2
    assert any("more than once" in note for note in found.notes)


# Simulated servers -------------------------------------------------------------------------------

SEEDS = 24


@pytest.mark.parametrize("name", KINDS)
def test_simulated_servers_get_the_recorded_verdicts(name) -> None:
    """A sample of the 1,000 seeds: always the first, and each that came out otherwise."""
    kind, row = KINDS[name], CONFUSION["kinds"][name]
    others = row["others"]
    for seed in (*range(SEEDS), *map(int, itertools.islice(others, 2))):
        expected = others.get(str(seed), kind.verdict)
        assert kind.readings(seed).diagnose().verdict == expected, seed


def test_the_recorded_table_is_whole_and_almost_all_right() -> None:
    assert CONFUSION["seeds"] == 1000
    assert list(CONFUSION["kinds"]) == list(KINDS)
    for name, row in CONFUSION["kinds"].items():
        assert row["expected"] == KINDS[name].verdict
        assert sum(row["counts"].values()) == 1000
        assert len(row["others"]) == 1000 - row["counts"][row["expected"]]
        assert row["counts"][row["expected"]] >= 970, name


def test_every_signal_that_a_simulation_can_show_is_drawn() -> None:
    drawn = {kind.verdict for kind in KINDS.values()}
    missing = set(Verdict) - drawn
    assert missing == {
        Verdict.WAITING_FOR_KV,  # not simulated: KV that is on its way
        Verdict.DEFERRED,  # nor grammars and adapters
        Verdict.NEVER_FITS,
        Verdict.PROFILING_RESERVE,
        Verdict.OFFLOAD_UNNEEDED,
        Verdict.OFFLOAD_FULL,
        Verdict.SLOW_LINK,
    }
    assert len(SIGNALS) == len(DOMAINS)


@pytest.mark.parametrize(
    "name", ["healthy and full", "memory-bound", "prefill-bound", "max-num-seqs-bound", "thrashing"]
)
def test_a_simulation_is_judged_as_its_page_is(name) -> None:
    server = KINDS[name].draw(random.Random(5))  # noqa: S311 - a simulation
    simulation = server.open()
    simulation.run_until(server.again_s)
    assert judge(evidence_of_simulation(simulation)).verdict is server.scrape().diagnose().verdict
