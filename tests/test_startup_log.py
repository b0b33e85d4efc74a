"""Start-up lines: written as vLLM prints them, read from whatever wraps them."""

from __future__ import annotations

import io
import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvdocs.explain import explain
from kvdocs.flags import ServerFlags
from kvdocs.model import parse_config
from kvdocs.sizing import Budget, capacity
from kvdocs.startup_log.interval import Interval, likely_value, roundest
from kvdocs.startup_log.lines import PATTERNS
from kvdocs.startup_log.reader import BLOCK, FULL_SCAN, MAX_ROWS, MAX_STARTS, Row, read_log
from kvdocs.startup_log.settings import read_settings
from kvdocs.startup_log.text import Source, read_source
from kvdocs.startup_log.writer import StartupReport, write_startup
from kvdocs.units import GIB

CASES = json.loads(
    (Path(__file__).parent / "cases" / "startup_logs.json").read_text(encoding="utf-8")
)["cases"]
LLAMA = parse_config(
    {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    }
)
BUDGET = Budget(
    total_bytes=80 * GIB,
    utilization=0.9,
    weights_bytes=16 * GIB,
    activation_bytes=5 * GIB,
    non_torch_bytes=GIB,
)
ACCESS = b'INFO:     10.0.3.17:40212 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
POOL = b"(EngineCore pid=9) INFO 11-30 09:00:00 [x.py:1] GPU KV cache size: 42,656 tokens\n"


def report(budget: Budget = BUDGET, *, gpus: int = 1, **flags: object) -> StartupReport:
    server = ServerFlags(**{"max_model_len": 8192, "tensor_parallel_size": gpus, **flags})
    return StartupReport(
        model="llama",
        budget=budget,
        capacity=capacity(LLAMA, budget, server),
        kv_cache_dtype=server.kv_cache_dtype,
        tensor_parallel_size=gpus,
    )


def rows(log: object) -> list[Row]:
    return [row for start in read_log(log).starts for row in start.rows]


def figure(log: object, name: str) -> float:
    return next(row.numbers[name].value for row in rows(log) if name in row.numbers)


# Writing


def test_the_writer_prints_what_a_golden_server_printed() -> None:
    # vLLM 0.33.0 run with 50 GiB for this model, and with 8 GiB for 131,072 tokens.
    lines = write_startup(report())
    assert any(line.endswith("Available KV cache memory: 50.0 GiB") for line in lines)
    assert any(
        line.endswith(
            "GPU KV cache size: 409,600 tokens, Maximum concurrency for 8,192 tokens per request: "
            "50.00x"
        )
        for line in lines
    )
    small = Budget(
        total_bytes=80 * GIB,
        utilization=0.9,
        weights_bytes=64 * GIB,
        activation_bytes=0,
        non_torch_bytes=0,
    )
    refused = write_startup(report(small, max_model_len=131072))
    assert any(
        "(16.0 GiB KV cache is needed, which is larger than the available KV cache memory (8.0 GiB)"
        ". Based on the available memory, the estimated maximum model length is 65520." in line
        for line in refused
    )


def test_every_written_line_has_vllms_prefix_and_time_moves_forward() -> None:
    lines = write_startup(report(gpus=2))
    times = []
    for line in lines:
        process, _, rest = line.partition(") ")
        assert process.startswith(("(APIServer pid=", "(EngineCore pid=", "(Worker_TP"))
        level, day, clock, place = rest.split(" ")[:4]
        assert (level, day) == ("INFO", "11-30")
        assert place.startswith("[")
        assert ".py:" in place
        times.append(clock)
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("budget", "flags", "words"),
    [
        ({"weights_bytes": 70 * GIB}, {}, "No available memory for the cache blocks"),
        ({"weights_bytes": 65.9 * GIB}, {"max_model_len": 8192}, "is larger than the available"),
    ],
)
def test_a_server_that_would_not_start_ends_in_its_error(
    budget: dict[str, float], flags: dict[str, int], words: str
) -> None:
    terms = {
        "total_bytes": 80 * GIB,
        "utilization": 0.9,
        "activation_bytes": 5.2 * GIB,
        "non_torch_bytes": 0,
        **budget,
    }
    lines = write_startup(report(Budget(**terms), **flags))
    assert words in lines[-2]
    assert " ERROR " in lines[-2]
    assert not any("KV cache size" in line for line in lines)


def test_the_arguments_name_the_model_twice_as_vllm_serve_does() -> None:
    # `entrypoints/cli/serve.py`: model = model_tag; api_server_count is None again with one server.
    lines = write_startup(replace(report(), flags={"max_model_len": 8192}))
    said = "non-default args: {'model_tag': 'llama', 'model': 'llama', 'max_model_len': 8192}"
    assert lines[1].endswith(said)
    several = write_startup(replace(report(), data_parallel_size=2))
    assert several[1].endswith("{'model_tag': 'llama', 'api_server_count': 2, 'model': 'llama'}")
    default = write_startup(replace(report(), model="Qwen/Qwen3-0.6B"))
    assert default[1].endswith("non-default args: {'model_tag': 'Qwen/Qwen3-0.6B'}")


def test_the_model_runner_is_v2_and_loads_under_its_name() -> None:
    lines = write_startup(report(gpus=2))
    runner = next(place for place, line in enumerate(lines) if "Using V2 Model Runner" in line)
    loads = [place for place, line in enumerate(lines) if "Model loading took" in line]
    assert runner < loads[0]
    assert len(loads) == 2  # V2 logs it on every worker, without `info_once`
    assert all("[model_runner.py:428] Model loading took 16.0 GiB" in lines[at] for at in loads)


def test_only_a_quantised_cache_is_told_before_the_start() -> None:
    said = (
        "Using fp8 data type to store kv cache. It reduces the GPU memory footprint and boosts the "
        "performance. Meanwhile, it may cause accuracy drop without a proper scaling factor"
    )
    assert any(line.endswith(said) for line in write_startup(report(kv_cache_dtype="fp8")))
    for dtype in ("auto", "bfloat16"):
        assert "to store kv cache" not in "".join(write_startup(report(kv_cache_dtype=dtype)))
    dynamic = "".join(write_startup(report(kv_cache_dtype="int8_per_token_head")))
    assert "Dynamic per-token-head scales will be computed at runtime." in dynamic


def test_the_context_is_consumed_memory_and_counted_once() -> None:
    # 80 GiB; 72 asked for, 16 of weights, 1 of context, 5 at the peak: 50 left.
    summary = next(line for line in write_startup(report()) if "on startup. Desired" in line)
    assert "Free memory on device (79.0/80.0 GiB) on startup." in summary
    assert "utilization is (0.9, 72.0 GiB)." in summary
    assert "Actual usage is 17.0 GiB for consumed memory (weights + non-torch)" in summary
    assert "5.0 GiB for peak activation, and 0.0 GiB for CUDAGraph memory." in summary
    within, whole = 50 * GIB - 150 * 2**20, (80 - 22) * GIB - 150 * 2**20
    assert f"`--kv-cache-memory={within}` (49.85 GiB) to fit into requested memory" in summary
    assert f"`--kv-cache-memory={whole}` (57.85 GiB) to fully utilize gpu memory" in summary


def test_too_little_free_memory_is_refused_before_the_weights_load() -> None:
    full = report()
    busy = StartupReport(
        model="llama", budget=full.budget, capacity=full.capacity, free_bytes=20.5 * GIB
    )
    lines = write_startup(busy)
    assert (
        "Free memory on device cuda:0 (20.5/80.0 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 72.0 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes." in lines[-2]
    )
    assert not any("Model loading" in line for line in lines)


def test_the_context_leaves_no_gpu_wholly_free() -> None:
    # 80 GiB with a context of 1 GiB: 0.9875 of it are 79 GiB to the byte.
    def refused(utilization: float) -> bool:
        budget = replace(report().budget, utilization=utilization)
        return "Free memory on device cuda:0" in "".join(write_startup(report(budget)))

    assert not refused(0.9875)
    assert refused(0.98751)
    lines = write_startup(report(replace(report().budget, utilization=1.0)))
    assert (
        "ValueError: Free memory on device cuda:0 (79.0/80.0 GiB) on startup is less than desired "
        "GPU memory utilization (1.0, 80.0 GiB)." in lines[-2]
    )


@pytest.mark.parametrize("over", [0, 1])
def test_weights_that_do_not_fit_beside_the_context_never_load(over: int) -> None:
    lines = write_startup(report(replace(report().budget, weights_bytes=79 * GIB + over)))
    assert ("torch.OutOfMemoryError: CUDA out of memory. GPU 0" in lines[-2]) is bool(over)
    assert any("Available KV cache memory" in line for line in lines) is (over == 0)


def test_what_is_written_is_read_back() -> None:
    graphs = Budget(
        total_bytes=80 * GIB,
        utilization=0.92,
        weights_bytes=16 * GIB,
        activation_bytes=5 * GIB,
        non_torch_bytes=GIB,
        cuda_graph_bytes=0.5 * GIB,
    )
    told = explain("\n".join(write_startup(report(graphs, gpus=2))))
    codes = {finding.code for finding in told.findings}
    assert told.engine == "vllm"
    assert told.version == "0.33.0"
    assert told.figures["kv_pool_bytes"] == pytest.approx(graphs.kv_bytes, abs=0.006 * GIB)
    assert told.figures["kv_bytes_per_token_per_gpu"] == 65536
    assert told.figures["max_model_len"] == 8192
    assert told.figures["total_memory_bytes"] == 80 * GIB
    assert {"budget-adds-up", "concurrency-consistent", "cuda-graphs-in-budget"} <= codes
    assert not {finding.code for finding in told.findings if finding.severity != "info"}


@pytest.mark.parametrize("gib", [0.37, 3.3, 7.77, 23.01, 50.5])
@pytest.mark.parametrize("length", [1000, 4096, 7001])
def test_any_pool_reads_back_inside_its_rounding_interval(gib: float, length: int) -> None:
    budget = Budget(
        total_bytes=100 * GIB,
        utilization=1.0,
        weights_bytes=(100 - gib) * GIB,
        activation_bytes=0,
        non_torch_bytes=0,
    )
    lines = write_startup(report(budget, max_model_len=length))
    told = explain("\n".join(lines))
    if any(finding.code == "refused-max-model-len" for finding in told.findings):
        assert told.figures["max_model_len_that_fits"] < length
    low = told.figures["kv_bytes_per_token_per_gpu_low"]
    assert low <= 131072 <= told.figures["kv_bytes_per_token_per_gpu_high"]


# Reading


def test_numbers_carry_their_rounding() -> None:
    row = rows("Available KV cache memory: 50.0 GiB")[0]
    assert row.numbers["kv_pool_bytes"].interval == Interval(49.995 * GIB, 50.005 * GIB)
    row = rows("Loading model weights took 14.9888 GB")[0]
    assert row.numbers["weights_bytes"].interval.width == pytest.approx(1e-4 * GIB)
    row = rows("GPU KV cache size: ~55k tokens")[0]
    assert row.numbers["printed_pool_tokens"].interval == Interval(54500, 55500)


def test_every_pattern_holds_its_needle() -> None:
    for pattern in PATTERNS:
        same = [other.template for other in PATTERNS if other.name == pattern.name]
        needle = " ".join(pattern.needle.split())
        assert any(needle in " ".join(template.split()) for template in same)
        assert len(pattern.needle) >= 4


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("(EngineCore_DP3 pid=9) INFO x", Source(engine="3")),
        ("(Worker_DP1_TP0_EP4 pid=9) INFO", Source(engine="1", rank="Worker_DP1_TP0_EP4")),
        ("(VllmWorker rank=1 pid=97) INFO", Source(rank="VllmWorker1")),
        ("(VllmWorkerProcess pid=97) INFO", Source(rank="VllmWorkerProcess97")),
        ("(RayWorkerWrapper pid=5, ip=10.0.0.2) INFO", Source(rank="RayWorkerWrapper5@10.0.0.2")),
        ("[2026-09-12 00:22:48 TP1] KV", Source(rank="TP1")),
        ("[2026-09-12 00:22:48 DP2 TP5 EP5] KV", Source(engine="2", rank="DP2 TP5 EP5")),
        ("[rank0]: torch.OutOfMemoryError", Source(rank="rank0")),
        ("llm-2  | 2026-11-30T09:00:00Z INFO", Source(server="llm-2")),
        ("[pod/vllm-0/server] INFO", Source(server="vllm-0/server")),
        ("INFO 11-30 09:00:00 [x.py:1] GPU", Source()),
    ],
)
def test_sources_are_read_from_prefixes(line: str, source: Source) -> None:
    assert read_source(line) == source


def test_a_refusal_broken_over_lines_is_put_together() -> None:
    log = """ValueError: To serve at least one request with the model's max seq len (32000),
    (1.1 GiB KV cache is needed, which is larger than the available KV cache memory (0.59 GiB).
    Based on the available memory, the estimated maximum model length is 17152."""
    told = explain(log)
    assert told.figures["max_model_len"] == 32000
    assert told.figures["max_model_len_that_fits"] == 17152
    assert told.findings[0].code == "refused-max-model-len"


def test_a_prompt_that_quotes_a_log_is_not_the_servers() -> None:
    quoted = "Received request cmpl-1: prompt: 'why? GPU KV cache size: 1 tokens', params: S()"
    chat = '{"messages": [{"role": "user", "content": "GPU KV cache size: 2 tokens"}]}'
    assert not rows(f"{quoted}\n{chat}\n")


@pytest.mark.parametrize(
    "log",
    [
        POOL.decode(),
        POOL,
        io.BytesIO(POOL),
        io.StringIO(POOL.decode()),
        [POOL],
        iter(POOL.decode().splitlines(keepends=True)),
        [bytes([byte]) for byte in POOL],
        POOL.decode().encode("utf-16"),
    ],
)
def test_any_kind_of_input_reads_the_same(log: object) -> None:
    assert figure(log, "printed_pool_tokens") == 42656


def test_damage_around_a_line_does_not_hide_it() -> None:
    for noise in (b"\xff\xfe\x00\x80" * 50, b"\r\n\r\n", b"\x1b[2K\x1b[1;36m", b'{"a": "' * 9):
        assert figure(noise + b"\n" + POOL + noise, "printed_pool_tokens") == 42656


@pytest.mark.parametrize("offset", range(-90, 10, 7))
def test_a_line_across_two_blocks_is_found(offset: int) -> None:
    filler = ACCESS * (BLOCK // len(ACCESS) + 1)
    log = filler[: BLOCK + offset - 1] + b"\n" + POOL + ACCESS
    assert figure(io.BytesIO(log), "printed_pool_tokens") == 42656


@pytest.mark.parametrize("offset", [-70, -40, -20, 0])
def test_a_start_far_into_a_long_log_is_found_with_what_precedes_it(offset: int) -> None:
    size = FULL_SCAN + 3 * BLOCK + offset
    filler = (ACCESS * (size // len(ACCESS) + 1))[: size - 1] + b"\n"
    start = b"Model loading took 16.0 GiB memory and 3.0 seconds\n" + ACCESS + POOL
    log = filler + start + b"Graph capturing finished in 7 secs, took 0.50 GiB\n" + filler
    names = [row.name for row in rows(io.BytesIO(log))]
    assert names == ["weights", "pool", "cuda-graph-took"]


def test_a_line_without_end_is_read_around_its_figures() -> None:
    assert figure(b"x" * 3_000_000 + POOL.rstrip() + b"y" * 3_000_000, "printed_pool_tokens")


def test_memory_does_not_grow_with_the_log() -> None:
    def pieces(times: int) -> Iterator[bytes]:
        for number in range(times):
            yield ACCESS * 3000
            yield b"GPU KV cache size: %d tokens\n" % number

    def peak(times: int) -> int:
        tracemalloc.start()
        read_log(pieces(times))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(120) < 1.2 * peak(30) + 200_000


def test_rows_and_starts_are_bounded() -> None:
    many = "".join(f"GPU KV cache size: {number} tokens\n" for number in range(MAX_ROWS + 500))
    assert len(read_log(many).starts[0].rows) == MAX_ROWS
    pair = "Available KV cache memory: {0}.00 GiB\nGPU KV cache size: {0} tokens\n"
    log = read_log("".join(pair.format(number) for number in range(1, 3 * MAX_STARTS)))
    assert log.num_starts == 3 * MAX_STARTS - 1
    assert len(log.starts) == MAX_STARTS
    assert log.starts[-1].rows[-1].numbers["printed_pool_tokens"].value == 3 * MAX_STARTS - 1


def test_each_container_has_its_own_start() -> None:
    log = "a-1 | Available KV cache memory: 1.00 GiB\nb-1 | Available KV cache memory: 2.00 GiB\n"
    log += "a-1 | GPU KV cache size: 8,192 tokens\nb-1 | GPU KV cache size: 16,384 tokens\n"
    starts = read_log(log).starts
    assert [(start.server, len(start.rows)) for start in starts] == [("a-1", 2), ("b-1", 2)]


def test_a_restart_begins_a_new_start_but_more_ranks_do_not() -> None:
    ranks = "".join(
        f"(Worker_TP{rank} pid=9) Available KV cache memory: 1.{rank}0 GiB\n" for rank in range(4)
    )
    assert len(read_log(ranks + POOL.decode() + POOL.decode()).starts) == 1
    assert len(read_log((ranks + POOL.decode()) * 3).starts) == 3


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("vllm serve m -tp 4", {"model": "m"}),
        ("--tensor-parallel-size=4 --kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}),
        ("{'tensor_parallel_size': 4, 'max_num_seqs': 16}", {"max_num_seqs": "16"}),
        ("dtype=torch.bfloat16, max_seq_len=4096, kv_cache_dtype=auto,", {"dtype": "bfloat16"}),
        ("ServerArgs(model_path='x/y', tp_size=4, mem_fraction_static=0.8)", {"model": "x/y"}),
        ("max_model_len=None, block_size=16", {"block_size": "16"}),
    ],
)
def test_settings_are_read_as_logs_write_them(text: str, settings: dict[str, str]) -> None:
    found = read_settings(text)
    assert settings.items() <= found.items()
    assert "None" not in found.values()
    assert "auto" not in found.values()


def test_the_roundest_number_is_taken_only_when_it_is_no_chance() -> None:
    assert roundest(Interval(100, 127)) == 112
    assert likely_value(Interval(131_040, 131_118)) == 131_072
    assert likely_value(Interval(1000, 1900)) == 0
    assert likely_value(Interval(0.2, 0.7)) == 0


# Damage


def _mutated(text: bytes, others: list[bytes], chance: random.Random) -> bytes:
    kind = chance.randrange(6)
    lines = text.splitlines(keepends=True)
    if kind == 0:
        cut = chance.randrange(len(text) + 1)
        return text[cut:] if chance.random() < 0.5 else text[:cut]
    if kind == 1:
        return b"".join(lines + [chance.choice(lines) for _ in range(3)])
    if kind == 2:
        chance.shuffle(lines)
        return b"".join(lines)
    if kind == 3:
        damaged = bytearray(text)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        return bytes(damaged)
    if kind == 4:
        digits = bytearray(text)
        for place, byte in enumerate(digits):
            if 48 <= byte <= 57 and chance.random() < 0.3:
                digits[place] = chance.choice(b"0123456789-.,")
        return bytes(digits)
    return b"".join([*lines[: len(lines) // 2], chance.choice(others), *lines[len(lines) // 2 :]])


def test_ten_thousand_damaged_logs_are_explained_without_an_exception() -> None:
    chance = random.Random(20261130)  # noqa: S311  # the same damage each time
    whole = [("\n".join(case["lines"]) + "\n").encode() for case in CASES]
    whole += ["\n".join(write_startup(report(gpus=gpus))).encode() for gpus in (1, 2)]
    configs = [case.get("config") for case in CASES] + [None, None]
    slowest = 0.0
    for number in range(10_000):
        index = chance.randrange(len(whole))
        log = _mutated(whole[index], whole, chance)
        began = time.perf_counter()
        told = explain(log, config=configs[index] if number % 10 == 0 else None)
        slowest = max(slowest, time.perf_counter() - began)
        assert told.findings or told.figures
        json.dumps(told.to_json(), allow_nan=False)
        for name in told.figures.keys() & {"kv_bytes_per_token_per_gpu", "block_bytes"}:
            low, high = (told.figures.get(f"{name}_{end}") for end in ("low", "high"))
            assert low is None or 0 < low <= told.figures[name] <= high
    assert slowest < 5


@pytest.mark.parametrize(
    "line",
    [
        b"a" * 400_000,
        b"1" * 300_000 + b"MiB / ",
        b"GPU KV cache size: 1 " * 20_000,
        b"total_gpu_memory=" * 20_000,
        b"KV self size" + b" " * 300_000,
        b'{"log":"' + b"\\\\n with config: model \\u001b" * 10_000,
        b"n_ctx = \n" * 30_000,
        b"1,111" * 60_000 + b" KV cache is needed",
    ],
)
def test_hostile_text_takes_bounded_time(line: bytes) -> None:
    began = time.perf_counter()
    explain(line)
    assert time.perf_counter() - began < 5
