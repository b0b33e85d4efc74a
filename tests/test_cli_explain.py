"""`kvdocs explain` and `kvdocs replay`: public logs and recorded decisions, through the shell."""

import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = json.loads((HERE / "cases/startup_logs.json").read_text())["cases"]
GOLDEN = sorted(path for path in (HERE / "golden").glob("*.json") if ".out" not in path.name)
LOG = """\
INFO [gpu_worker.py:490] Available KV cache memory: 6.51 GiB
INFO [kv_cache_utils.py:1714] GPU KV cache size: 42,656 tokens
INFO [kv_cache_utils.py:1719] Maximum concurrency for 32,768 tokens per request: 1.30x
"""


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_public_log_gives_its_findings(kvdocs, tmp_path, case):
    log, config = tmp_path / "server.log", tmp_path / "config.json"
    log.write_text("\n".join(case["lines"]))
    words = ["explain", str(log), "--json"]
    if case.get("catalogue_model"):
        words += ["--config", case["catalogue_model"]]
    if case.get("config"):
        config.write_text(json.dumps(case["config"]))
        words += ["--config", str(config)]
    if case.get("flags"):
        words += ["--flags", case["flags"]]
    status, out, err = kvdocs(*words)
    assert (status, err) == (0, "")
    codes = [finding["code"] for finding in json.loads(out)["findings"]]
    assert set(case["expect"].get("codes", ())) <= set(codes)


def test_figures_and_findings_have_their_fields(kvdocs):
    document = kvdocs("explain", "-", "--json", stdin=LOG).document
    assert document["engine"] == "vllm"
    assert document["figures"]["kv_pool_tokens"] == 42_656
    assert document["figures"]["kv_bytes_per_token_per_gpu"] == 163_840  # 40 layers of Qwen3-14B
    assert all({"code", "severity", "text"} == set(item) for item in document["findings"])


def test_a_catalogue_model_stands_for_its_config(kvdocs):
    document = kvdocs("explain", "-", "--config", "Qwen/Qwen3-14B", "--json", stdin=LOG).document
    assert "matches-config" in [finding["code"] for finding in document["findings"]]


def test_people_get_a_line_a_finding(kvdocs):
    out = kvdocs("explain", "-", stdin=LOG).out
    assert "info [pool-capacity] The pool holds 42,656 tokens" in out
    assert "kv_bytes_per_token_per_gpu" in out


def test_a_log_without_start_up_lines_is_answered(kvdocs):
    status, out, _ = kvdocs("explain", "-", stdin="nothing of interest\n")
    assert status == 0
    assert "[no-startup-lines]" in out


def test_utf_16_from_a_windows_console_is_text(kvdocs):
    document = kvdocs("explain", "-", "--json", stdin=LOG.encode("utf-16")).document
    assert document["figures"]["kv_pool_tokens"] == 42_656


def test_a_few_stray_nuls_do_not_make_a_log_binary(kvdocs):
    document = kvdocs("explain", "-", "--json", stdin="\0" + LOG).document
    assert document["figures"]["kv_pool_tokens"] == 42_656


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_replay_prints_the_recorded_document(kvdocs, path):
    status, out, err = kvdocs("replay", str(path))
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(path.with_suffix(".out.json").read_text())


def test_replay_reads_standard_input(kvdocs):
    recorded = json.loads(GOLDEN[0].with_suffix(".out.json").read_text())
    assert kvdocs("replay", "-", stdin=GOLDEN[0].read_text()).document == recorded


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json", "is not JSON"),
        ("[]", "is not a workload"),
        ("{}", "requests is missing"),
        ('{"requests": 5}', "requests is missing or not a list"),
        ('{"requests": [], "config": 5}', "config is not an object"),
        ('{"requests": [], "config": {"blocks": 5}}', "blocks"),
        ('{"requests": [{"id": "a"}]}', "prompt"),
        ('{"requests": [{"id": "a", "prompt": [{"seed": 1, "n": 1e12}]}]}', "at most 20,000,000"),
        ('{"requests": [], "config": {"num_blocks": 1000000000000}}', "at most 20,000,000"),
    ],
)
def test_what_is_no_workload_is_refused(kvdocs, text, reason):
    assert reason in kvdocs.refuses("replay", "-", stdin=text)
