"""`kvdocs diagnose`: public lines and pages, through the shell."""

import json
from pathlib import Path

import pytest

from kvdocs.diagnose.kinds import KINDS

CASES = json.loads((Path(__file__).parent / "cases/diagnoses.json").read_text())["cases"]
QUEUE = "Running: 21 reqs, Waiting: 23 reqs, GPU KV cache usage: 95.9%\n"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_public_report_gets_its_verdict(kvdocs, tmp_path, case):
    words = ["diagnose", "--json"]
    if case["lines"]:
        log = tmp_path / "server.log"
        log.write_text("\n".join(case["lines"]))
        words.append(str(log))
    for name, value in case.get("told", {}).items():
        words += ["--told", f"{name}={value}"]
    if "flags" in case:
        words.append(f"--flags={case['flags']}")
    status, out, err = kvdocs(*words)
    assert (status, err) == (0, "")
    assert json.loads(out)["verdict"] == case["expect"]["verdict"]


def test_the_document_has_its_fields(kvdocs):
    document = kvdocs("diagnose", "-", "--json", stdin=QUEUE).document
    assert document["verdict"] == "memory-bound"
    assert document["confidence"] == "medium"
    assert document["evidence"] | {"running": 21, "waiting": 23} == document["evidence"]
    assert document["actions"][0].startswith("Give the cache")
    assert {"tell_more", "also", "signals", "notes", "engine", "source"} <= set(document)


def test_people_get_verdict_evidence_and_actions(kvdocs):
    out = kvdocs("diagnose", "-", stdin=QUEUE).out
    assert out.startswith("memory-bound: the cache is full, and requests wait for blocks\n")
    assert "kv_cache_usage       0.959" in out
    assert "- Make tokens smaller: --kv-cache-dtype fp8" in out


def test_two_files_are_two_scrapes(kvdocs, tmp_path):
    before, after = KINDS["answers growing"].readings(0).texts
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    first.write_text(before)
    second.write_text(after)
    words = ("diagnose", str(first), str(second), "--seconds", "30", "--json")
    document = kvdocs(*words).document
    assert document["verdict"] == "answers-growing"
    assert document["evidence"]["seconds"] == 30
    assert kvdocs("diagnose", str(second), "--json").document["verdict"] == "healthy"


def test_an_unknown_text_is_answered(kvdocs):
    outcome = kvdocs("diagnose", "-", "--json", stdin="nothing of interest\n")
    assert outcome.status == 0
    assert outcome.document["verdict"] == "not-enough-evidence"


@pytest.mark.parametrize(
    ("words", "stdin", "reason"),
    [
        ((), "", "a FILE is needed"),
        (("-",), "", "standard input is empty"),
        (("-",), b"\0\0\0\1", "is not text"),
        (("no-such-file",), "", "cannot read no-such-file"),
        (("-", "-"), QUEUE, "only once"),
        (("-", "--seconds", "soon"), QUEUE, "'soon' is not a number"),
        (("-", "--seconds", "0"), QUEUE, "above 0"),
        (("--told", "waiting"), "", "is not NAME=VALUE"),
        (("--told", "kv_cache_usage=97"), "", "not a percentage"),
        (("--told", "wating=9"), "", "there is waiting"),
    ],
)
def test_what_cannot_be_read_is_refused(kvdocs, words, stdin, reason):
    assert reason in kvdocs.refuses("diagnose", *words, stdin=stdin)
