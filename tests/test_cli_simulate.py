"""`kvdocs simulate`: flags of vLLM and of `vllm bench serve`, every form of output, statuses."""

import csv
import io
import json
import sys

import pytest

from kvdocs.cli import progress
from kvdocs.cli.progress import Progress
from kvdocs.metrics import read_metrics
from kvdocs.stats_log import read_stats_log

SERVER = ("llama-3.1-8b", "--gpu", "lesson", "--max-model-len", "8192")
LOAD = ("--request-rate", "20", "--num-prompts", "60", "--random-input-len", "500")

TRACE = "".join(
    json.dumps(
        {"timestamp": 500 * i, "input_length": 1024, "output_length": 20, "hash_ids": [7, 8 + i]}
    )
    + "\n"
    for i in range(5)
)


@pytest.fixture
def simulate(kvdocs):
    def run(*words, stdin=""):
        return kvdocs("simulate", *SERVER, *words, stdin=stdin)

    return run


@pytest.fixture
def refuses(kvdocs):
    def run(*words, stdin=""):
        return kvdocs.refuses("simulate", *SERVER, *words, stdin=stdin)

    return run


class TestSummary:
    def test_it_has_the_totals_and_five_latencies(self, simulate):
        status, out, err = simulate(*LOAD)
        assert (status, err) == (0, "")
        lines = {line.strip() for line in out.splitlines()}
        assert any(line.startswith("requests finished") and line.endswith(" 60") for line in lines)
        assert any(line.startswith("prompt tokens") and line.endswith("30,000") for line in lines)
        assert all(name in out for name in ("TTFT", "TPOT", "ITL", "E2EL", "in the queue"))
        assert all(name in out for name in ("mean", "P50", "P90", "P99", "longest"))

    def test_refused_requests_are_counted_and_the_first_is_quoted(self, simulate):
        out = simulate("--num-prompts", "3", "--random-input-len", "9000").out
        assert "request r0 was refused: This model's maximum context length is 8192" in out

    def test_a_model_of_mixed_layers_says_how_it_is_counted(self, kvdocs):
        words = ("gemma-3-27b-it", "--gpu", "h200", "--max-model-len", "8192", "--num-prompts", "3")
        assert "mixes kinds of layers" in kvdocs("simulate", *words).out


class TestForms:
    def test_json_adds_up(self, simulate):
        document = simulate(*LOAD, "--json").document
        assert (document["finished"], document["refused"]) == (60, 0)
        assert document["prompt_tokens"] == 30_000
        assert document["output_tokens"] == 60 * 128
        assert document["settings"]["num_blocks"] == 25482
        latency = document["latency_s"]
        assert set(latency) == {"ttft", "tpot", "itl", "e2el", "queue"}
        assert latency["itl"]["count"] == 60 * 127
        assert all(one["p50"] <= one["p90"] <= one["p99"] for one in latency.values())
        generated = sum(sample["generation_tokens_per_s"] for sample in document["samples"])
        assert generated == document["output_tokens"]

    def test_csv_is_a_row_a_request(self, simulate):
        rows = list(csv.DictReader(io.StringIO(simulate(*LOAD, "--csv").out)))
        assert [row["id"] for row in rows] == [f"r{i}" for i in range(60)]
        for row in rows:
            waited = float(row["admitted_s"]) - float(row["arrival_s"])
            assert float(row["queue_s"]) == waited
            assert row["finish_reason"] == "length"

    def test_metrics_is_a_page_that_can_be_read(self, simulate):
        (server,) = read_metrics(simulate(*LOAD, "--metrics").out).servers
        assert (server.requests_finished, server.prompt_tokens) == (60, 30_000)
        assert server.num_blocks == 25482

    def test_log_is_lines_that_can_be_read(self, simulate):
        log = read_stats_log(simulate("--request-rate", "5", "--num-prompts", "120", "--log").out)
        assert len(log.lines) >= 3
        assert not log.unreadable
        tokens = 10 * sum(line.generation_tokens_per_s for line in log.lines)
        assert tokens == pytest.approx(120 * 128, abs=0.1 * 10 * len(log.lines))

    def test_explain_tells_one_request(self, simulate):
        out = simulate(*LOAD, "--explain", "r7").out
        assert out.splitlines()[0].endswith(
            "Request r7 arrived with a prompt of 500 tokens and asked for 128."
        )
        assert "Its first token came" in out
        assert "finished (length): 128 tokens" in out

    def test_explain_of_no_request_names_some(self, refuses):
        assert "there is no request 'x'; ids are like r0" in refuses(*LOAD, "--explain", "x")

    def test_only_one_form_at_a_time(self, refuses):
        assert "not allowed with argument" in refuses(*LOAD, "--json", "--csv")


class TestLoad:
    def test_both_engines_and_the_same_seed_print_the_same_bytes(self, simulate):
        words = (
            *LOAD,
            "--random-range-ratio",
            "0.5",
            "--burstiness",
            "0.5",
            "--seed",
            "3",
            "--csv",
        )
        first = simulate(*words).out
        assert simulate(*words, "--engine", "stepping").out == first
        assert simulate(*words[:-2], "4", "--csv").out != first

    def test_a_shared_prefix_is_found(self, simulate):
        words = ("--random-prefix-len", "320", "--random-input-len", "100")
        document = simulate("--num-prompts", "10", *words, "--json").document
        assert document["hit_tokens"] == 9 * 320

    def test_a_trace_from_standard_input(self, simulate):
        document = simulate("--trace", "-", "--json", stdin=TRACE).document
        assert document["finished"] == 5
        assert document["hit_tokens"] == 4 * 512

    def test_a_trace_from_a_file_faster_and_cut(self, simulate, tmp_path):
        path = tmp_path / "trace.jsonl"
        path.write_text(TRACE)
        words = ("--trace", str(path), "--speed-up", "2", "--num-prompts", "3")
        rows = list(csv.DictReader(io.StringIO(simulate(*words, "--csv").out)))
        assert [float(row["arrival_s"]) for row in rows] == [0.0, 0.25, 0.5]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--trace", "-", "--request-rate", "5"), "--request-rate and --trace exclude"),
            (("--speed-up", "2"), "--speed-up is for a --trace"),
            (("--num-prompts", "0"), "--num-prompts 0 is not possible"),
            (("--request-rate", "-1"), "must be above 0, or inf"),
            (("--random-input-len", "0"), "--random-input-len is 0"),
            (("--efficiency", "speed=2"), "names are bandwidth"),
            (("--efficiency", "bandwidth=2"), "it is a share of the peak"),
            (("--efficiency", "bandwidth=x"), "'x' is not a number"),
            (("--request-rat", "5"), "not a flag of kvdocs simulate; did you mean --request-rate"),
            (("--interval", "0"), "must be above 0"),
            (("--trace", "/nowhere/trace.jsonl"), "cannot read"),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_line(self, refuses, words, message):
        assert message in refuses(*words)

    def test_a_broken_trace_is_refused_with_its_line(self, refuses):
        assert "line 1" in refuses("--trace", "-", stdin="{}\n")

    def test_efficiency_changes_times(self, simulate):
        slow, fast = (
            simulate(*LOAD, "--json", "--efficiency", f"bandwidth={share}").document["duration_s"]
            for share in (0.4, 0.8)
        )
        assert slow > fast


class TestRefusal:
    def test_a_server_that_would_not_start_ends_with_3(self, simulate):
        status, out, _ = simulate("--num-gpu-blocks-override", "10", "--num-prompts", "1")
        assert status == 3
        assert "The server does not start" in out
        assert "max seq len (8192)" in out

    def test_as_json(self, simulate):
        outcome = simulate("--num-gpu-blocks-override", "10", "--num-prompts", "1", "--json")
        assert outcome.status == 3
        assert outcome.document["starts"] is False


class TestProgress:
    def test_it_is_drawn_on_a_terminal_when_it_takes_long_and_then_wiped(self, monkeypatch, capsys):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(progress, "_PATIENCE_S", 0)
        with Progress(40) as bar:
            bar.show(10)
        err = capsys.readouterr().err
        assert "[##########..............................] 10 of 40 requests" in err
        assert err.endswith("\r\x1b[K")

    def test_nothing_is_drawn_elsewhere(self, monkeypatch, capsys):
        monkeypatch.setattr(progress, "_PATIENCE_S", 0)
        with Progress(40) as bar:
            bar.show(10)
        assert capsys.readouterr().err == ""
