"""Trace files: what is read from them, and what is said about a line that cannot be read."""

import json
import random

import pytest

from kvdocs.errors import WorkloadError
from kvdocs.timing import on_grid
from kvdocs.workload import Blocks, Unshared, read_trace, summarize, write_workload
from tests.test_workload import every_kind

MOONCAKE = [
    '{"timestamp": 0, "input_length": 1030, "output_length": 20, "hash_ids": [0, 1, 2]}',
    '{"timestamp": 250, "input_length": 512, "output_length": 7, "hash_ids": [0]}',
    '{"timestamp": 3001, "input_length": 100, "output_length": 1, "hash_ids": []}',
]
AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-12-31 23:59:59.5000000,4808,10",
    "2024-01-01 00:00:01.0000000,3180,8",
]


def test_mooncake_lines_become_requests_with_block_keys():
    first, second, third = read_trace(MOONCAKE)
    assert first.prompt == Blocks(1030, 512, (0, 1, 2))
    assert (second.arrival_s, second.output_tokens) == (0.25, 7)
    assert third.arrival_s == pytest.approx(3.001, abs=1e-9)
    assert on_grid(third.arrival_s)
    assert list(first.prompt.keys_at(512)) == [0, 1]


def test_a_mooncake_line_without_hashes_shares_nothing():
    (request,) = read_trace('{"timestamp": 0, "input_length": 10, "output_length": 20}')
    assert request.prompt == Unshared(10)


def test_azure_times_count_from_the_first_line():
    first, second = read_trace(AZURE)
    assert (first.arrival_s, first.num_prompt_tokens, first.output_tokens) == (0, 4808, 10)
    assert second.arrival_s == 1.5


def test_azure_columns_may_stand_in_any_order_and_in_quotes():
    text = '"GeneratedTokens","TIMESTAMP","x","ContextTokens"\n"5","2023-11-16 18:15:46","a","9"'
    with pytest.raises(WorkloadError, match="begins no known trace"):
        list(read_trace(text))
    text = '"TIMESTAMP","x","GeneratedTokens","ContextTokens"\n"2023-11-16 18:15:46","a","5","9"'
    (request,) = read_trace(text)
    assert (request.num_prompt_tokens, request.output_tokens) == (9, 5)


@pytest.mark.parametrize("lines", [MOONCAKE, AZURE])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\n\r\n"])
def test_line_ends_blank_lines_and_a_mark_do_no_harm(lines, end, tmp_path):
    expected = list(read_trace(lines))
    text = "\ufeff" + end.join(["", *lines, ""])
    file = tmp_path / "trace"
    file.write_bytes(text.encode())
    assert list(read_trace(text)) == list(read_trace(file)) == expected


def test_a_trace_is_read_as_it_is_asked_for():
    def endless():
        while True:
            yield MOONCAKE[1]

    assert next(read_trace(endless())).output_tokens == 7


def test_a_written_workload_is_read_back_the_same():
    requests = [*every_kind(5), *read_trace(MOONCAKE)]
    text = "".join(write_workload(requests))
    assert list(read_trace(text)) == requests


def test_a_workload_is_summed_up():
    summary = summarize(read_trace(MOONCAKE))
    assert (summary.num_requests, summary.prompt_tokens, summary.output_tokens) == (3, 1642, 28)
    assert summary.longest == 1050
    assert summary.mean_output_tokens == pytest.approx(28 / 3)


def broken(**change):
    row = json.loads(MOONCAKE[0]) | change
    return json.dumps({key: value for key, value in row.items() if value != "absent"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "is not JSON"),
        (broken(input_length="absent"), "has no input_length"),
        (broken(input_length=0), "input_length is 0; it must be a whole number of tokens"),
        (broken(output_length=1.5), "output_length is 1.5"),
        (broken(output_length=True), "output_length is True"),
        (broken(timestamp=-1), "timestamp is -1"),
        (broken(timestamp="0"), "timestamp is '0'"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "timestamp is nan"),
        ('{"timestamp": 1e999, "input_length": 1, "output_length": 1}', "timestamp is inf"),
        (broken(hash_ids=[1]), "1 hash_ids for an input_length of 1030; .* give 3, or 2"),
        (broken(hash_ids=[1, 2, "x"]), "must be a list of whole numbers"),
        (broken(hash_ids=7), "must be a list of whole numbers"),
    ],
)
def test_a_broken_mooncake_line_is_named_with_what_is_allowed(line, said):
    with pytest.raises(WorkloadError, match=f"line 2.*{said}"):
        list(read_trace([MOONCAKE[0], line]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2023-11-16 18:15:46.1,5", "has 2 cells; the header names 3 or more"),
        ("yesterday,5,5", "TIMESTAMP is 'yesterday'; it must look like"),
        ("2023-02-30 18:15:46,5,5", "TIMESTAMP is '2023-02-30 18:15:46'"),
        ("2023-11-16 18:15:46,x,5", "ContextTokens is 'x'; it must be a whole number"),
        ("2023-11-16 18:15:46,5,0", "GeneratedTokens is '0'"),
        ("2023-11-16 18:15:46,5,", "GeneratedTokens is ''"),
        ("2023-12-31 23:59:58,5,5", "-1.500 s after the first"),
        ("2524-12-31 23:59:58,5,5", "s after the first; it must be 0 to"),
    ],
)
def test_a_broken_azure_line_is_named_with_what_is_allowed(line, said):
    with pytest.raises(WorkloadError, match=f"line 3.*{said}"):
        list(read_trace([*AZURE[:2], line]))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("hello", "line 1: 'hello' begins no known trace; known are Mooncake"),
        ("TIMESTAMP,ContextTokens", "lacks GeneratedTokens"),
        ('{"kvdocs_workload": 2}', "line 1 .*only version 1"),
        ('{"kvdocs_workload": 1}\n{"id": 5}', "line 2 is not as write_workload writes it"),
    ],
)
def test_what_is_no_trace_is_refused(source, said):
    with pytest.raises(WorkloadError, match=said):
        list(read_trace(source))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "trace"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        list(read_trace(file))
    with pytest.raises(WorkloadError, match="cannot read"):
        list(read_trace(tmp_path / "absent"))


def test_mutated_traces_are_read_or_refused_never_more():
    rng = random.Random(1)  # noqa: S311 - test data
    texts = ["\n".join(MOONCAKE), "\n".join(AZURE), "".join(write_workload(every_kind(5)))[:3000]]
    read = 0
    for _ in range(3000):
        text = list(rng.choice(texts))
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(text))
            text[place : place + rng.randrange(3)] = rng.choice(["", "9", "-", ",", '"', "é", "\0"])
        try:
            read += len(list(read_trace("".join(text))))
        except WorkloadError:
            continue
    assert read > 100
