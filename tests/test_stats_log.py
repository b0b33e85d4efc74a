"""The running log line: as vLLM 0.33 prints it, and as every version before printed it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.stats_log import StatsLine, read_stats_log, write_stats_line

LINE = StatsLine(
    prompt_tokens_per_s=1234.56,
    generation_tokens_per_s=789.04,
    running=12,
    waiting=34,
    kv_cache_usage=0.9876,
    engine=3,
    deferred=5,
    preemptions=6,
    prefix_hit_rate=0.5,
    external_hit_rate=0.25,
    mm_hit_rate=0.125,
)


def test_a_full_line_is_printed_as_vllm_prints_it():
    # The format strings of vLLM 0.33.0 loggers.py, LoggingStatLogger.log, put together by hand.
    assert write_stats_line(LINE) == (
        "Engine 003: Avg prompt throughput: 1234.6 tokens/s, "
        "Avg generation throughput: 789.0 tokens/s, Running: 12 reqs, Waiting: 34 reqs, "
        "Deferred: 5 reqs, Preemptions: 6, GPU KV cache usage: 98.8%, "
        "Prefix cache hit rate: 50.0%, External prefix cache hit rate: 25.0%, "
        "MM cache hit rate: 12.5%"
    )


def test_what_is_zero_or_unknown_is_left_out():
    quiet = StatsLine(
        prompt_tokens_per_s=0,
        generation_tokens_per_s=0,
        running=0,
        waiting=0,
        kv_cache_usage=0,
        num_engines=4,
    )
    assert write_stats_line(quiet, time="11-30 12:00:10") == (
        "INFO 11-30 12:00:10 [loggers.py:335] 4 Engines Aggregated: "
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, "
        "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%"
    )


SHARES = st.one_of(st.none(), st.integers(0, 1000).map(lambda n: float(f"{n / 10}e-2")))


@given(
    st.builds(
        StatsLine,
        prompt_tokens_per_s=st.integers(0, 10**7).map(lambda n: n / 10),
        generation_tokens_per_s=st.integers(0, 10**7).map(lambda n: n / 10),
        running=st.integers(0, 1024),
        waiting=st.integers(0, 10**6),
        kv_cache_usage=st.integers(0, 1000).map(lambda n: float(f"{n / 10}e-2")),
        engine=st.integers(0, 2000),
        num_engines=st.just(1),
        deferred=st.integers(0, 9),
        preemptions=st.integers(0, 99),
        prefix_hit_rate=SHARES,
        external_hit_rate=SHARES,
        mm_hit_rate=SHARES,
        line_number=st.just(1),
        swapped=st.none(),
        cpu_cache_usage=st.none(),
    )
)
def test_a_written_line_is_read_back(line):
    for time in ("", "11-30 12:00:10"):
        assert read_stats_log(write_stats_line(line, time=time)).lines == (line,)


# One line of each generation, from the format strings of the releases named.
V0 = (
    "INFO 08-01 12:00:00 metrics.py:406] Avg prompt throughput: 100.5 tokens/s, "  # 0.5.4
    "Avg generation throughput: 20.0 tokens/s, Running: 3 reqs, Swapped: 1 reqs, "
    "Pending: 7 reqs, GPU KV cache usage: 99.1%, CPU KV cache usage: 4.0%."
)
V0_HITS = "INFO 08-01 12:00:00 metrics.py:367] Prefix cache hit rate: GPU: 45.25%, CPU: 0.00%"
V1_073 = (
    "INFO 02-20 12:00:00 loggers.py:78] Avg prompt throughput: 100.5 tokens/s, "
    "Avg generation throughput: 20.0 tokens/s, Running: 3 reqs, Waiting: 7 reqs, "
    "GPU KV cache usage: 99.1%, Prefix cache hit rate: 45.2%"
)
V1_085 = (
    "INFO 05-01 12:00:00 [loggers.py:111] Engine 000: Avg prompt throughput: 100.5 tokens/s, "
    "Avg generation throughput: 20.0 tokens/s, Running: 3 reqs, Waiting: 7 reqs, "
    "GPU KV cache usage: 99.1%, Prefix cache hit rate: 45.2%"
)
V1_033 = (
    "\x1b[0;36m(APIServer pid=17)\x1b[0;0m INFO 11-30 12:00:00 [loggers.py:335] Engine 001: "
    "Avg prompt throughput: 100.5 tokens/s, Avg generation throughput: 20.0 tokens/s, "
    "Running: 3 reqs, Waiting: 7 reqs, KV fetch: 1 waiting to start, 2 in progress, "
    "0 completed waiting, Preemptions: 2, GPU KV cache usage: 99.1%, "
    "External prefix cache hit rate: 45.2%"
)


@pytest.mark.parametrize("text", [V0, V1_073, V1_085, V1_033])
def test_every_generation_is_read(text):
    (line,) = read_stats_log(text).lines
    assert (line.prompt_tokens_per_s, line.generation_tokens_per_s) == (100.5, 20.0)
    assert (line.running, line.waiting, line.kv_cache_usage) == (3, 7, 0.991)


def test_what_only_some_versions_print_is_read_where_it_stands():
    v0, v1_085, v1_033 = read_stats_log(f"{V0}\r\n{V0_HITS}\r\n{V1_085}\r\n{V1_033}").lines
    assert (v0.swapped, v0.cpu_cache_usage, v0.prefix_hit_rate) == (1, 0.04, 0.4525)
    assert (v1_085.engine, v1_085.prefix_hit_rate, v1_085.external_hit_rate) == (0, 0.452, None)
    assert (v1_033.engine, v1_033.preemptions) == (1, 2)
    assert (v1_033.prefix_hit_rate, v1_033.external_hit_rate) == (None, 0.452)
    assert [line.line_number for line in (v0, v1_085, v1_033)] == [1, 3, 4]


def test_another_device_than_a_gpu_is_read():
    (line,) = read_stats_log(V1_085.replace("GPU KV", "CPU KV")).lines
    assert (line.kv_cache_usage, line.cpu_cache_usage) == (0.991, None)


def test_the_warning_of_v0_counts_preemptions():
    text = (
        "WARNING 08-01 scheduler.py:1057] Sequence group cmpl-1 is preempted by "
        "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. "
        "total_num_cumulative_preemption=51"
    )
    log = read_stats_log([text.replace("51", "1"), V0, text])
    assert log.cumulative_preemptions == 51
    assert read_stats_log(V1_085).cumulative_preemptions is None


def test_a_line_cut_off_is_counted_as_unreadable():
    log = read_stats_log(["", V1_085[:150]])
    assert (log.lines, log.unreadable) == ((), (2,))


def test_no_mutation_of_a_log_makes_reading_fail():
    rng = random.Random(1)  # noqa: S311 - test data
    text = f"{V0}\n{V0_HITS}\n{V1_073}\n{V1_085}\n{V1_033}"
    read = 0
    for _ in range(3000):
        cut = list(text)
        for _ in range(rng.randrange(1, 9)):
            place = rng.randrange(len(cut))
            cut[place : place + rng.randrange(4)] = rng.choice(["", "9", ".", "%", "\n", "é", ":"])
        read += len(read_stats_log("".join(cut)).lines)
    assert read > 5000
