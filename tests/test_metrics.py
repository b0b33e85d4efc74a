"""The metrics page: equal to vLLM's own, read back whole, and read whatever its age or damage."""

import hashlib
import math
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import MetricsError
from kvdocs.metrics import (
    EngineSnapshot,
    Histogram,
    HistogramReading,
    Sample,
    ServerMetrics,
    cache_config_info,
    compare,
    compare_pages,
    empty_histograms,
    parse,
    read_metrics,
    write_metrics,
)
from kvdocs.metrics.text import format_labels, format_value

OBSERVED = {
    "request_prompt_tokens": [3000],
    "request_generation_tokens": [55],
    "iteration_tokens_total": [1055],
    "request_max_num_generation_tokens": [100],
    "request_params_n": [1],
    "request_params_max_tokens": [100],
    "time_to_first_token_seconds": [0.04, 3000.0],
    "inter_token_latency_seconds": [0.0101] * 3,
    "request_time_per_output_token_seconds": [0.05],
    "e2e_request_latency_seconds": [3.3],
    "request_queue_time_seconds": [0.1],
    "request_inference_time_seconds": [3.1],
    "request_prefill_time_seconds": [0.2],
    "request_decode_time_seconds": [2.9],
    "request_num_preemptions": [0],
    "request_prefill_kv_computed_tokens": [1000],
}


def busy_engine(**changes):
    histograms = empty_histograms(131072)
    for name, values in OBSERVED.items():
        for value in values:
            histograms[name].observe(value)
    fields = {
        "model_name": 'me"ta\\llama',
        "engine": 1,
        "running": 3,
        "waiting_capacity": 4,
        "waiting_deferred": 1,
        "kv_cache_usage": 0.98765,
        "prefix_queries": 12345678,
        "prefix_hits": 1234,
        "preemptions": 7,
        "prompt_tokens_computed": 1000,
        "prompt_tokens_cached": 2000,
        "generation_tokens": 55,
        "finished": {"length": 1},
        "histograms": histograms,
        "cache_config": cache_config_info(num_gpu_blocks=25482),
        "created": 1700000000.25,
    }
    return EngineSnapshot(**(fields | changes))


def idle_engine():
    return EngineSnapshot(
        model_name='me"ta\\llama',
        created=1700000000.25,
        cache_config=cache_config_info(num_gpu_blocks=25482),
    )


# Writing -----------------------------------------------------------------------------------------


def test_the_page_equals_vllms_own_byte_for_byte():
    # The digest is of the page that vLLM 0.33.0's PrometheusStatLogger itself wrote through
    # prometheus_client 0.26 for these figures, with the clock at 1700000000.25 and
    # cache_config_info given the labels of `cache_config_info()`; its process metrics left out.
    page = write_metrics([idle_engine(), busy_engine()])
    assert len(page) == 84078
    assert (
        hashlib.sha256(page.encode()).hexdigest()
        == "d680cae03cc1791c7b349bbcc7af952f21cd0e26618c4ff05a36ae0326684219"
    )


def test_created_lines_can_be_left_out():
    page = write_metrics([busy_engine(created=None)])
    assert "_created" not in page
    assert read_metrics(page).servers[0].generation_tokens == 55


def test_every_family_has_help_and_type_before_its_values():
    page = parse(write_metrics([busy_engine()]))
    assert not page.problems
    families = {sample.name for sample in page.samples}
    for name in families:
        base = name
        for suffix in ("_bucket", "_sum", "_count"):
            base = base if base in page.types else base.removesuffix(suffix)
        assert base in page.types
        assert base in page.helps


def test_what_is_written_is_read_back():
    (server,) = read_metrics(write_metrics([busy_engine()])).servers
    assert server.key == ("vllm", 'me"ta\\llama', "1", "")
    assert (server.running, server.waiting, server.waiting_deferred) == (3, 5, 1)
    assert server.kv_cache_usage == 0.98765
    assert (server.prefix_queries, server.prefix_hits, server.preemptions) == (12345678, 1234, 7)
    assert (server.prompt_tokens, server.prompt_tokens_computed) == (3000, 1000)
    assert (server.generation_tokens, server.requests_finished) == (55, 1)
    assert (server.num_blocks, server.block_size, server.cache_dtype) == (25482, 16, "auto")
    assert server.tokens_in_cache == 407_712
    assert server.ttft.count == 2
    assert server.ttft.mean == pytest.approx(1500.02)
    assert server.itl.total == pytest.approx(0.0303)
    assert server.notes == ()


def test_engines_of_one_page_are_told_apart():
    page = read_metrics(write_metrics([idle_engine(), busy_engine()]))
    assert [server.engine for server in page.servers] == ["0", "1"]
    assert [server.running for server in page.servers] == [0, 3]
    assert [server.num_blocks for server in page.servers] == [25482, 25482]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (-5, "-5.0"),
        (0.001, "0.001"),
        (999999, "999999.0"),
        (1000000, "1e+06"),
        (12345678.25, "1.234567825e+07"),
        (1e22, "1e+22"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_printed_as_prometheus_client_prints_them(value, text):
    assert format_value(value) == text


# The text format ---------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from(["a", "_b", "Cc9", "le", "model_name"]),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20),
        max_size=4,
    ),
    st.floats(allow_nan=False),
)
def test_any_labels_and_value_survive_a_round_trip(labels, value):
    page = parse(f"some:metric{format_labels(labels)} {format_value(value)}\n")
    assert page.samples == (Sample("some:metric", labels, value),)
    assert page.problems == ()


def test_the_corners_of_the_format_are_read():
    page = parse(
        "\ufeff# just a comment\r\n"
        "# HELP a says \\\\ and\\nmore\r\n"
        "# TYPE a gauge\r\n"
        "a 1\r\n"
        'b{x = "1" , y="}{,#"} -.5e-3 1395066363000\r\n'
        'c{x="1",} NaN\r\n'
        "d{} +Inf\r\n"
        'e_bucket{le="1"} 3 # {trace_id="x y"} 0.7 1.5\r\n'
        "# EOF\r\n"
    )
    assert page.problems == ()
    assert page.helps["a"] == "says \\ and\nmore"
    b = page.samples[1]
    assert (dict(b.labels), b.value, b.timestamp) == (
        {"x": "1", "y": "}{,#"},
        -0.0005,
        1395066363000,
    )
    assert math.isnan(page.samples[2].value)
    assert [sample.value for sample in page.samples[3:]] == [math.inf, 3]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a", "not of the form"),
        ("a{", "not of the form"),
        ('a{x="1} 2', "not of the form"),
        ("1a 2", "not of the form"),
        ("<html>", "not of the form"),
        ("a 1 2 3", "not of the form"),
        ("a one", "'one' is not a number"),
        ("a 1_000", "'1_000' is not a number"),
        ("a 0x10", "'0x10' is not a number"),
        ("a \u0661", "is not a number"),
        ("a 1 soon", "'soon' is not a number"),
        ('a{x="1" y="2"} 3', "labels cannot be read"),
        ('a{x="1",x="2"} 3', "labels cannot be read"),
        ("a{x=1} 3", "labels cannot be read"),
        ('a{1x="1"} 3', "labels cannot be read"),
    ],
)
def test_a_broken_line_is_reported_and_the_next_is_read(line, reason):
    page = parse(f"# HELP a b\n{line}\nz 5\n")
    (problem,) = page.problems
    assert problem.line_number == 2
    assert reason in problem.reason
    assert line[:40] in str(problem)
    assert page.samples == (Sample("z", {}, 5.0),)


def test_text_after_the_end_is_reported_once():
    page = parse("a 1\n# EOF\nb 2\nc 3\n")
    assert len(page.samples) == 1
    assert [problem.line_number for problem in page.problems] == [3]


# Older names and other servers -------------------------------------------------------------------

V0 = """
# V0, vLLM 0.6: no engine label, gauges for hit rate and throughput
vllm:num_requests_running{model_name="m"} 12.0
vllm:num_requests_swapped{model_name="m"} 2.0
vllm:num_requests_waiting{model_name="m"} 5.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.97
vllm:cpu_cache_usage_perc{model_name="m"} 0.1
vllm:gpu_prefix_cache_hit_rate{model_name="m"} 0.4
vllm:cpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:num_preemptions_total{model_name="m"} 40.0
vllm:avg_generation_throughput_toks_per_s{model_name="m"} 800.5
vllm:time_per_output_token_seconds_sum{model_name="m"} 5.0
vllm:time_per_output_token_seconds_count{model_name="m"} 100.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="7000"} 1.0
"""


def test_a_page_of_v0_is_read_with_its_names_explained():
    (server,) = read_metrics(V0).servers
    assert (server.running, server.waiting, server.swapped) == (12, 5, 2)
    assert (server.kv_cache_usage, server.cpu_cache_usage) == (0.97, 0.1)
    assert (server.prefix_hit_rate, server.preemptions) == (0.4, 40)
    assert server.shown_generation_tokens_per_s == 800.5
    assert (server.itl.mean, server.itl.bounds) == (0.05, ())
    assert server.tokens_in_cache == 112_000
    notes = "\n".join(server.notes)
    assert "vllm:gpu_cache_usage_perc: old name, before vLLM 0.12" in notes
    assert "vllm:num_requests_swapped: V0 only" in notes
    assert "vllm:time_per_output_token_seconds: old name" in notes


@pytest.mark.parametrize(
    ("old", "field"),
    [
        ("gpu_prefix_cache_queries_total", "prefix_queries"),
        ("gpu_prefix_cache_hits_total", "prefix_hits"),
        ("gpu_prefix_cache_hits", "prefix_hits"),
        ("gpu_cache_usage_perc", "kv_cache_usage"),
    ],
)
def test_old_names_mean_what_they_are_called_now(old, field):
    (server,) = read_metrics(f"vllm:{old} 0.5").servers
    assert getattr(server, field) == 0.5
    assert len(server.notes) == 1
    assert "old name" in server.notes[0]


@pytest.mark.parametrize("order", [1, -1])
def test_of_an_old_and_a_new_name_the_new_one_counts(order):
    lines = ["vllm:gpu_cache_usage_perc 0.1", "vllm:kv_cache_usage_perc 0.2"][::order]
    lines += ["vllm:gpu_prefix_cache_hits_total 5", "vllm:prefix_cache_hits_total 5"][::order]
    lines += [
        "vllm:time_per_output_token_seconds_sum 5",
        "vllm:inter_token_latency_seconds_sum 7",
    ][::order]
    (server,) = read_metrics(lines).servers
    assert (server.kv_cache_usage, server.prefix_hits, server.itl.total) == (0.2, 5, 7)


def test_a_share_in_percent_is_converted_and_said_so():
    (server,) = read_metrics("vllm:kv_cache_usage_perc 87.5").servers
    assert server.kv_cache_usage == 0.875
    assert server.notes == (
        "vllm:kv_cache_usage_perc is 87.5: read as percent, as a share is at most 1",
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-0.5", "101"])
def test_an_impossible_value_is_left_out_and_said_so(value):
    (server,) = read_metrics(f"vllm:kv_cache_usage_perc {value}").servers
    assert server.kv_cache_usage is None
    assert "left out" in server.notes[0]


SGLANG = """
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 9.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 9.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 4.0
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.91
sglang:cache_hit_rate{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.25
sglang:gen_throughput{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 512.0
sglang:max_total_num_tokens{model_name="m"} 471258.0
sglang:prompt_tokens_total{model_name="m"} 1000.0
sglang:cached_tokens_total{model_name="m"} 300.0
sglang:num_retracted_requests_total{model_name="m"} 2.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 3.0
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 4.0
sglang:time_to_first_token_seconds_count{model_name="m"} 4.0
sglang:time_to_first_token_seconds_sum{model_name="m"} 2.0
"""


def test_a_page_of_sglang_is_read():
    (server,) = read_metrics(SGLANG).servers
    assert server.server == "sglang"
    assert (server.running, server.waiting, server.kv_cache_usage) == (9, 4, 0.91)
    assert (server.tokens_in_cache, server.preemptions) == (471258, 2)
    assert server.prefix_hit_rate == 0.3  # since start, not the last batch's 0.25
    assert server.shown_hit_rate == 0.25
    assert server.ttft.mean == 0.5


def test_several_servers_and_models_on_one_page_stay_apart():
    page = read_metrics(
        'vllm:num_requests_running{engine="0",model_name="a",pod="x"} 1\n'
        'vllm:num_requests_running{engine="0",model_name="a",pod="y"} 2\n'
        'vllm:num_requests_running{engine="0",model_name="b",pod="x"} 3\n'
        'sglang:num_running_reqs{model_name="a",dp_rank="1"} 4\n'
        'vllm:cache_config_info{engine="0",num_gpu_blocks="77",pod="y"} 1\n'
    )
    assert [server.running for server in page.servers] == [1, 2, 3, 4]
    assert [server.num_blocks for server in page.servers] == [None, 77, None, None]
    assert page.servers[3].engine == "1"


def test_names_rewritten_by_a_collector_are_known():
    (server,) = read_metrics("vllm_num_requests_running 3").servers
    assert server.running == 3


def test_a_page_of_something_else_has_no_server():
    page = read_metrics("process_cpu_seconds_total 5\nvllm:unheard_of 1\n<html>\n")
    assert page.servers == ()
    assert (page.num_samples, page.num_problems) == (2, 1)


# Histograms and rates ----------------------------------------------------------------------------


def test_a_value_on_a_bound_counts_below_it():
    histogram = Histogram((1, 2))
    for value in (1, 1.5, 2, 3):
        histogram.observe(value)
    assert histogram.cumulative == [1, 3, 4]
    assert histogram.total == 7.5


@pytest.mark.parametrize(
    ("share", "value"),
    # By hand: 10 up to 1, 20 up to 2, 5 beyond; rank 0.5 x 35 = 17.5 lies 7.5 of 20 in.
    [(0.5, 1.375), (1 / 7, 0.5), (0.99, 2.0)],
)
def test_quantiles_are_those_of_prometheus(share, value):
    reading = HistogramReading((1.0, 2.0, math.inf), (10, 30, 35), 35, 0.0)
    assert reading.quantile(share) == pytest.approx(value)


def test_an_empty_histogram_has_no_mean_and_no_quantile():
    empty = HistogramReading((), (), 0, 0.0)
    assert empty.mean is None
    assert empty.quantile(0.5) is None


def test_two_pages_give_rates():
    before = busy_engine()
    after = busy_engine(
        generation_tokens=5055,
        preemptions=9,
        prefix_queries=12345678 + 1000,
        prefix_hits=1234 + 250,
        finished={"length": 21},
    )
    after.histograms["time_to_first_token_seconds"].observe(0.5)
    ((server, rates),) = compare_pages(
        *(read_metrics(write_metrics([engine])) for engine in (before, after)), seconds=10
    )
    assert server.engine == "1"
    assert rates.generation_tokens_per_s == 500
    assert (rates.preemptions_per_s, rates.requests_per_s) == (0.2, 2)
    assert rates.prefix_hit_rate == 0.25
    assert (rates.ttft.count, rates.ttft.mean) == (1, pytest.approx(0.5))
    assert rates.prompt_tokens_per_s == 0
    assert not rates.restarted


def test_after_a_restart_the_later_reading_counts_from_zero():
    before = ServerMetrics(server="vllm", generation_tokens=1000, preemptions=3)
    after = ServerMetrics(server="vllm", generation_tokens=50, preemptions=4)
    rates = compare(before, after, seconds=5)
    assert (rates.restarted, rates.generation_tokens_per_s, rates.preemptions_per_s) == (
        True,
        10,
        0.8,
    )
    assert rates.prefix_hit_rate is None


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_readings_at_one_moment_cannot_be_compared(seconds):
    server = ServerMetrics(server="vllm")
    with pytest.raises(MetricsError, match="must be above 0"):
        compare(server, server, seconds=seconds)


# Damage and size ---------------------------------------------------------------------------------


def test_ten_thousand_mutations_never_make_reading_fail():
    rng = random.Random(1)  # noqa: S311 - test data
    full = write_metrics([idle_engine(), busy_engine()]).splitlines()
    pool = [*full[:60], *rng.sample(full, 60), *V0.splitlines(), *SGLANG.splitlines()]
    bits = [
        '"',
        "\\",
        "{",
        "}",
        ",",
        " ",
        "#",
        "\n",
        "9",
        "e",
        "-",
        "é",
        "\0",
        "NaN",
        "le=",
        "_total",
    ]
    servers = problems = 0
    for _ in range(10_000):
        text = list("\n".join(rng.sample(pool, 8)))
        for _ in range(rng.randrange(1, 12)):
            place = rng.randrange(len(text))
            text[place : place + rng.randrange(5)] = rng.choice(bits)
        page = read_metrics("".join(text))
        for server in page.servers:
            shares = (server.kv_cache_usage, server.shown_hit_rate, server.cpu_cache_usage)
            assert all(share is None or 0 <= share <= 1 for share in shares)
            if server.ttft:
                server.ttft.quantile(0.9)
        servers, problems = servers + len(page.servers), problems + page.num_problems
    assert servers > 10_000
    assert problems > 5_000


@pytest.mark.parametrize(
    ("start", "repeated", "end"),
    [
        ("a{", 'x="1",', "} 1"),
        ('a{x="', "\\\\", '"} 1'),
        ('a{x="', "\\", '"} 1'),
        ("a{", "}", ""),
        ("a", "a", ""),
        ("a ", "9", ""),
        ('a{x="', '"', ""),
        ("#", "#", ""),
        ("a{", "x=", "} 1"),
        ("", "a 1\n", ""),
        ("", 'a{x="1"} 1\n', ""),
    ],
)
def test_time_grows_no_faster_than_the_text(start, repeated, end):
    def seconds(count):
        begin = time.process_time()
        parse(start + repeated * count + end)
        return time.process_time() - begin

    def quickest(count):
        return min(seconds(count), seconds(count))  # a busy machine is slow at times

    # Four times the text; quadratic time would be sixteen times as long.
    assert quickest(80_000) < 10 * quickest(20_000) + 0.2


def test_a_page_of_ten_thousand_engines_is_read():
    lines = (f'vllm:num_requests_running{{engine="{n}"}} {n}' for n in range(20_000))
    assert len(read_metrics(lines).servers) == 10_000
