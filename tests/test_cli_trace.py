"""`kvdocs trace`: what it prints, as tables and as JSON, and what it refuses."""

import json
import random

import pytest

from kvdocs.workload import Fixed, fixed_rate, shared_prefixes, write_workload

TIMED = ("--model", "llama-3.1-8b", "--gpu", "h100")


def line(second, tokens, keys, output=20):
    row = {"timestamp": 1000 * second, "input_length": tokens, "output_length": output}
    return json.dumps(row | {"hash_ids": keys}) + "\n"


TRACE = "".join(
    [
        line(0, 1500, [1, 2, 3]),
        line(60, 1100, [1, 4, 5]),
        line(600, 1500, [1, 2, 6]),
        line(1000, 100, [7]),
    ]
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.0000000,400,44\n"
    "2023-11-16 18:15:56.0000000,200,109\n"
)


@pytest.fixture
def trace(kvdocs):
    return lambda *words, stdin=TRACE: kvdocs("trace", "-", *words, stdin=stdin)


@pytest.fixture
def refuses(kvdocs):
    return lambda *words, stdin=TRACE: kvdocs.refuses("trace", "-", *words, stdin=stdin)


class TestFigures:
    def test_json_has_the_figures_counted_by_hand(self, trace):
        found = trace("--json", "--sizes", "512,1k").document
        assert (found["requests"], found["duration_s"], found["block_size"]) == (4, 1000, 512)
        assert found["prompt_tokens"]["total"] == 4200
        # Full blocks: 1 2, 1 4, 1 2; found are 1, then 1 and 2.
        assert found["blocks"] == 3
        assert found["ideal_hit_ratio"] == pytest.approx(3 * 512 / 4200)
        assert [one["tokens"] for one in found["caches"]] == [512, 512, 1536]
        assert [one["hit_ratio"] * 4200 / 512 for one in found["caches"]] == pytest.approx(
            [2, 2, 3]
        )
        assert found["reuse"]["used_once"] == 1

    def test_a_store_keeps_what_has_a_hash(self, trace):
        found = trace("--json", "--store").document
        assert found["blocks"] == 7
        assert found["ideal_hit_ratio"] == pytest.approx(3 * 512 / 4200)

    def test_sizes_in_bytes_are_counted_in_the_models_tokens(self, trace):
        found = trace(*TIMED, "--sizes", "64 MiB, 192MiB", "--json").document
        assert [one["tokens"] for one in found["caches"]] == [512, 1536, 1536]
        assert [one["kv_bytes"] for one in found["caches"]] == [64 * 2**20, *[192 * 2**20] * 2]
        small, large, ideal = found["caches"]
        assert 0 < small["saved_s"] < large["saved_s"] == ideal["saved_s"]
        whole = found["ttft_without_cache_s"]["mean"]
        assert large["ttft_s"]["mean"] == pytest.approx(whole - large["saved_s"])

    def test_a_link_costs_time(self, trace):
        near, far = (
            trace(*TIMED, *more, "--json").document["caches"][-1]["saved_s"]
            for more in ((), ("--link", "pcie3"))
        )
        assert far < near

    def test_servers_find_what_the_pass_found_when_nothing_overlaps(self, trace):
        words = (*TIMED, "--sizes", "2k,100k", "--simulate", "--speed-up", "0.1", "--json")
        found = trace(*words).document
        small, large = found["servers"]
        assert found["duration_s"] == 10_000
        assert (small["refused"], large["finished"]) == (0, 4)
        assert large["hit_ratio"] == pytest.approx(found["ideal_hit_ratio"])
        assert large["ttft"]["count"] == 4

    def test_only_the_first_requests_are_read_when_asked(self, trace):
        assert trace("--num-requests", "2", "--json", stdin=TRACE + "no JSON").document[
            "requests"
        ] == 2  # fmt: skip

    def test_a_workload_of_our_own_is_cut_into_blocks_of_16(self, trace):
        load = shared_prefixes(
            random.Random(1),  # noqa: S311 - the same load each time
            arrivals=fixed_rate(rate=1),
            num_requests=30,
            num_repositories=2,
            system_tokens=160,
            repository=Fixed(320),
            question=Fixed(8),
            outputs=Fixed(1),
        )
        found = trace("--json", stdin="".join(write_workload(load))).document
        # 10 blocks of the system prompt, 20 of each repository; each is new once.
        assert found["block_size"] == 16
        assert found["blocks"] == 50
        assert found["ideal_hit_ratio"] == pytest.approx((30 * 30 - 50) / (30 * 30.5))


class TestTables:
    def test_the_tables_say_what_json_says(self, trace):
        out = trace(*TIMED).out
        assert "4 in 16 min 40 s" in out
        assert "36.57% of the prompt tokens" in out
        assert "each prompt alone on H100" in out
        assert "working set of 10 min" in out

    def test_without_a_model_there_is_no_time(self, trace):
        assert "TTFT" not in trace().out

    def test_servers_have_a_table_of_their_own(self, trace):
        out = trace(*TIMED, "--sizes", "4k", "--simulate").out
        assert "whole servers with such a pool" in out
        assert "see --simulate" not in out

    def test_an_azure_trace_says_what_cannot_be_told(self, trace):
        status, out, _ = trace(*TIMED, stdin=AZURE)
        assert status == 0
        assert "2 in 10 s, 0.20 a second" in out
        assert "no hit ratio can be told" in out
        assert "no cache; each prompt alone" in out
        assert "found" not in out
        document = trace("--json", stdin=AZURE).document
        assert (document["ideal_hit_ratio"], document["caches"]) == (None, [])

    def test_requests_at_one_time_that_share_nothing_have_fewer_rows(self, trace):
        out = trace(stdin=line(0, 600, [1, 2]) + line(0, 600, [3, 4])).out
        assert "0.00% of the prompt tokens" in out
        assert "used again" not in out


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--model", "llama-3.1-8b"), "go together"),
            (("--link", "pcie5"), "--link needs"),
            (("--simulate", "--sizes", "1k"), "--simulate needs"),
            ((*TIMED, "--simulate"), "--simulate needs"),
            (("--sizes", "64GB"), "in bytes"),
            (("--sizes", "many"), "--sizes"),
            (("--block-size", "100"), "standard input: block size 100 cuts across"),
            (("--store", "--block-size", "16"), "leave the block size out"),
            (("--num-requests", "0"), "no requests"),
            (("--speed-up", "0"), "above 0"),
            ((*TIMED[:3], "gtx"), "gtx"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, refuses, words, message):
        assert message in refuses(*words)

    @pytest.mark.parametrize("text", ["", "\n", "hello", TRACE + "{}"])
    def test_what_is_no_trace_is_refused(self, refuses, text):
        assert "standard input" in refuses(stdin=text)
