"""Every command of the lesson's terminal, its refusals, and lines that nobody would type."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvdocs.catalog import get_model, model_ids
from kvdocs.errors import TerminalError
from kvdocs.flags import ServerFlags, flag_names
from kvdocs.metrics import read_metrics
from kvdocs.pages import terminal
from kvdocs.scenario import size_lesson
from kvdocs.sizing import capacity
from kvdocs.startup_log import read_log
from kvdocs.terminal import Kind, Machine, Result, browser, interrupt, prompt, run
from kvdocs.terminal.bench import parse_bench
from kvdocs.terminal.bench_table import percentile
from kvdocs.terminal.completion import complete
from kvdocs.terminal.machine import from_json, to_json
from kvdocs.terminal.output import MOST_LINES
from kvdocs.terminal.registry import COMMANDS
from kvdocs.widgets.registry import get_widget

SERVE = "vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.9"
GIB = 2**30


def play(*lines: str, machine: Machine | None = None) -> Result:
    """Type lines one after the other; the result is that of the last."""
    result = Result(machine or Machine())
    for line in lines:
        result = run(result.machine, line)
    return result


def said(result: Result, kind: Kind) -> str:
    return "\n".join(piece.text for piece in result.pieces if piece.kind is kind)


def error(*lines: str, machine: Machine | None = None) -> str:
    """What the last line complains of; it must fail and print nothing else."""
    result = play(*lines, machine=machine)
    assert result.status != 0
    assert not result.out
    return said(result, Kind.ERROR)


# --- vllm serve ---------------------------------------------------------------------------------


def test_a_start_prints_the_capacity_in_whole_blocks():
    result = play(SERVE)
    assert result.status == 0
    assert "GPU KV cache size: 407,712 tokens" in result.out  # 25,482 blocks of 16
    assert "Application startup complete." in result.out
    assert result.machine.running is not None


def test_its_log_reads_back_as_that_of_a_real_server():
    (start,) = read_log(play(SERVE).out).starts
    assert start.engines.most_common(1)[0][0] == "vllm"
    numbers = {name: reading.value for row in start.rows for name, reading in row.numbers.items()}
    assert numbers["kv_pool_bytes"] == pytest.approx(53.44e9, rel=1e-3)


def test_a_refusal_names_the_largest_length_that_sizing_finds():
    result = play("vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4")
    assert result.status == 1
    assert result.machine.running is None
    budget = size_lesson(utilization=0.4).budget
    sized = capacity(get_model("llama-3.1-8b").model, budget, ServerFlags())
    assert sized.refusal is not None
    assert sized.refusal in result.out
    longest = int(re.search(r"estimated maximum model length is (\d+)", result.out)[1])
    # 0.4 x 80 - 16.06 - 1.5 - 1 = 13.44 GB; of its whole blocks of 2 MiB one is never handed out.
    assert longest == (13_440_000_000 // (16 * 131_072) - 1) * 16


@pytest.mark.parametrize(
    "fix",
    [
        "--gpu-memory-utilization 0.4 --max-model-len 102512",
        "--gpu-memory-utilization 0.4 --kv-cache-dtype fp8",
        "--gpu-memory-utilization 0.5",
        "--gpu-memory-utilization 0.4 --max-model-len auto",
    ],
)
def test_the_refused_server_starts_when_mended(fix):
    refused = play("vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4")
    mended = run(refused.machine, f"vllm serve Llama-3.1-8B {fix}")
    assert (refused.status, mended.status) == (1, 0)
    assert "Maximum concurrency for" in mended.out


@pytest.mark.parametrize("length", [102_512, 102_528])
def test_one_block_decides_whether_it_starts(length):
    line = f"vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4 --max-model-len {length}"
    assert (play(line).status == 0) is (length == 102_512)


def test_weights_larger_than_the_gpu_run_out_of_memory_before_anything_is_measured():
    result = play("vllm serve Llama-3.1-70B")
    assert result.status == 1
    assert "torch.OutOfMemoryError: CUDA out of memory." in result.out
    assert "Available KV cache memory" not in result.out


def test_seventy_billion_parameters_start_on_four_gpus():
    four = Machine(num_gpus=4)
    result = play("vllm serve Llama-3.1-70B -tp 4 --gpu-memory-utilization 0.9", machine=four)
    assert result.status == 0
    # 72 - 141.2 / 4 - 4 GB a GPU, of which a token takes 320 KiB / 4: 399,169 tokens in blocks.
    blocks = (72_000_000_000 - 35_300_000_000 - 4_000_000_000) // (16 * 81_920)
    tokens = re.search(r"KV cache size: ([\d,]+) tokens", result.out)[1]
    assert int(tokens.replace(",", "")) == pytest.approx(16 * blocks, abs=1)
    table = run(result.machine, "nvidia-smi").out
    assert table.count("68664MiB /  76293MiB") == 4
    assert "VLLM::Worker_TP3" in table


@pytest.mark.parametrize(
    ("flags", "message", "note"),
    [
        (
            "--gpu-memory-utilisation 0.9",
            "vllm: error: unrecognized arguments: --gpu-memory-utilisation",
            "did you mean --gpu-memory-utilization?",
        ),
        ("--swap-space 4", "unrecognized arguments: --swap-space", "is gone since vLLM"),
        ("extra", "unrecognized arguments: extra", "stands alone"),
        (
            "--max-model-len",
            "vllm serve: error: argument --max-model-len: expected one argument",
            "",
        ),
        ("--max-model-len 8.5K", "argument --max-model-len: '8.5K' is not a whole number", ""),
        ("--kv-cache-dtype fp7", "argument --kv-cache-dtype: invalid choice: 'fp7'", ""),
        ("--block-size none", "argument --block-size: 'none' is not a whole number", ""),
    ],
)
def test_a_command_line_vllm_cannot_read_is_refused_as_by_its_parser(flags, message, note):
    result = play(f"vllm serve Llama-3.1-8B {flags}")
    assert result.status == 2
    assert message in said(result, Kind.ERROR)
    assert said(result, Kind.ERROR).startswith("usage: vllm")
    assert note in said(result, Kind.NOTE)
    assert result.machine.server is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--gpu-memory-utilization 1.2", "Input should be less than or equal to 1"),
        ("--gpu-memory-utilization 0", "Input should be greater than 0"),
        (
            "--max-model-len 200000",
            "User-specified max_model_len (200000) is greater than the derived max_model_len",
        ),
        ("-tp 2", "World size (2) is larger than the number of available GPUs (1)"),
        ("--max-num-batched-tokens 100 --max-num-seqs 200", "max_num_batched_tokens (100)"),
        ("--data-parallel-size 2", "is not simulated"),
    ],
)
def test_settings_vllm_does_not_start_with_are_refused(flags, message):
    assert message in error(f"vllm serve Llama-3.1-8B {flags}")


def test_an_unknown_model_is_named_with_its_nearest():
    result = play("vllm serve Lama-3.1-8B")
    assert result.status == 1
    assert "llama-3.1-8b" in said(result, Kind.ERROR)


@pytest.mark.parametrize("name", ["models/Llama-3.1-8B", "./models/Llama-3.1-8B/", "llama-3.1-8b"])
def test_a_model_goes_by_its_folder_too(name):
    assert play(f"vllm serve {name}").status == 0


def test_without_a_model_vllms_own_default_is_served():
    assert "serving model Qwen/Qwen3-0.6B" in play("vllm serve").out


@pytest.mark.parametrize("name", model_ids())
def test_every_model_of_the_catalogue_starts_or_says_why(name):
    result = play(f"vllm serve {name}", machine=Machine(num_gpus=1))
    if result.status == 0:
        assert "startup complete" in result.out
        assert play("vllm bench serve --num-prompts 2", machine=result.machine).status == 0
    else:
        assert "Error" in result.out + said(result, Kind.ERROR)
        assert "Traceback" not in result.out


def test_a_second_server_finds_the_port_in_use():
    assert "[Errno 98] Address already in use" in error(SERVE, "vllm serve Qwen/Qwen3-8B")


def test_help_lists_flags_and_all_lists_every_one():
    short = play("vllm serve --help").out
    assert "--max-model-len" in short
    listed = play("vllm serve --help=all").out.split()
    assert set(flag_names()) <= set(listed)
    assert "--tool-call-parser" in listed


def test_the_version_is_the_one_mirrored():
    assert play("vllm --version").out == "0.33.0\n"


@pytest.mark.parametrize("line", ["vllm", "vllm --help", "vllm bench", "vllm bench serve --help"])
def test_help_succeeds(line):
    assert play(line).out.startswith("usage: vllm")


def test_an_unknown_subcommand_fails():
    assert "invalid choice: 'srve'" in error("vllm srve")


# --- nvidia-smi ---------------------------------------------------------------------------------


def test_an_empty_gpu_holds_nothing():
    table = play("nvidia-smi").out
    assert "0MiB /  76293MiB" in table  # 80e9 / 2**20
    assert "No running processes found" in table


def test_a_started_server_holds_what_it_asked_for_and_the_widget_agrees():
    result = play(SERVE, "nvidia-smi")
    assert f"{int(72e9 // 2**20)}MiB /  76293MiB" in result.out
    assert "VLLM::EngineCore" in result.out
    picture = str(get_widget("gpu-memory").view(utilization="0.9").picture)
    assert "68664MiB / 76293MiB" in picture


def test_all_rows_of_the_table_are_of_one_width():
    for lines in (["nvidia-smi"], [SERVE, "nvidia-smi"]):
        rows = play(*lines).out.splitlines()
        assert {len(row) for row in rows if row[:1] in ("|", "+")} == {91}


def test_a_size_in_bytes_is_held_instead_of_the_share():
    result = play("vllm serve Llama-3.1-8B --kv-cache-memory-bytes 20000000000")
    used = run(result.machine, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
    assert int(used.out) == int((16.06e9 + 2.5e9 + 20e9) // 2**20)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--query-gpu=name --format=csv", "name\nthe lesson's H100 80 GB\n"),
        ("--query-gpu=index,memory.used --format=csv,noheader", "0, 68664 MiB\n"),
        ("--query-gpu=memory.free --format=csv,noheader,nounits", "7629\n"),
        ("--query-gpu memory.total --format csv,nounits", "memory.total [MiB]\n76293\n"),
        ("--query-compute-apps=pid,used_memory --format=csv,noheader", "118, 68664 MiB\n"),
        ("--query-gpu=utilization.gpu --format=csv,noheader", "0 %\n"),
    ],
)
def test_a_query_gives_the_fields_asked_for(options, wanted):
    assert play(SERVE, f"nvidia-smi {options}").out == wanted


def test_a_list_has_the_same_memory():
    shown = play(SERVE, "nvidia-smi -q -d MEMORY").out
    assert re.search(r"Used +: 68664 MiB", shown)
    assert "Process ID" not in shown
    assert re.search(r"Process ID +: 118", play(SERVE, "nvidia-smi -q").out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--query-gpu=memory --format=csv", 'Field "memory" is not a valid field to query.'),
        ("--query-gpu=name", "needs --format=csv"),
        ("--frobnicate", "is not known here"),
        ("-l 1", "time stands still"),
        ("-d POWER -q", "'POWER' cannot be shown"),
        ("--format", "needs a value"),
    ],
)
def test_what_nvidia_smi_cannot_show_is_refused(options, message):
    assert message in error(f"nvidia-smi {options}")


def test_nvidia_smi_names_its_gpus_and_explains_itself():
    assert play("nvidia-smi -L").out.startswith("GPU 0: the lesson's H100 80 GB (UUID: GPU-")
    assert "--query-gpu" in play("nvidia-smi --help").out
    assert "memory.used" in play("nvidia-smi --help-query-gpu").out


# --- load and metrics ---------------------------------------------------------------------------


def test_a_benchmark_takes_simulated_time_and_counts_on_the_metrics_page():
    served = play(SERVE)
    result = run(served.machine, "vllm bench serve --num-prompts 40 --random-output-len 50")
    assert re.search(r"Successful requests: +40\n", result.out)
    seconds = float(re.search(r"Benchmark duration \(s\): +([\d.]+)", result.out)[1])
    assert result.machine.clock - served.machine.clock == pytest.approx(seconds + 1, abs=0.01)
    (server,) = read_metrics(run(result.machine, "curl -s localhost:8000/metrics").out).servers
    assert server.prompt_tokens == 40 * 1024
    assert server.generation_tokens == 40 * 50
    assert (server.running, server.waiting) == (0, 0)


def test_in_the_background_it_can_be_watched():
    machine = play(SERVE, "vllm bench serve --num-prompts 300 --random-input-len 4000 &").machine
    busy = play("sleep 8", machine=machine).machine
    (server,) = read_metrics(run(busy, "curl localhost:8000/metrics").out).servers
    assert server.running > 0
    assert server.kv_cache_usage > 0.1
    assert "100%" in run(busy, "nvidia-smi").out
    assert "[1]  Running" in run(busy, "jobs").out
    assert "Running:" in run(busy, "sleep 10; tail -1 vllm.log").out
    done = run(busy, "wait")
    assert "[1]+  Done" in done.out
    assert re.search(r"Successful requests: +300\n", done.out)
    assert "Successful" not in run(done.machine, "wait").out


def test_a_benchmark_watched_or_not_has_the_same_result():
    start = play(SERVE)
    line = "vllm bench serve --num-prompts 80 --request-rate 20 --random-range-ratio 0.5"
    at_once = run(start.machine, line).out
    watched = play(f"{line} &", "sleep 1", "nvidia-smi", "wait", machine=start.machine).out
    assert at_once.strip() in watched


def test_more_than_the_pool_holds_waits():
    result = play(SERVE, "vllm bench serve --num-prompts 200 --random-input-len 8000")
    notes = said(result, Kind.NOTE)
    waiting = int(re.search(r"# Peak requests waiting: +(\d+)", notes)[1])
    running = int(re.search(r"# Peak requests running: +(\d+)", notes)[1])
    assert waiting > 100
    assert running <= 407_712 // 8000  # 50 requests of 8,000 tokens fill the pool
    assert re.search(r"# Peak KV cache usage: +(9\d|100)\.\d%", notes)


def test_a_benchmark_prints_in_vllms_columns_and_nothing_the_real_one_would_not():
    result = play(SERVE, "vllm bench serve --num-prompts 5")
    rows = [line for line in result.out.splitlines() if not line.startswith("-")]
    # `benchmarks/serve.py`: "{:<40} {:<10}", and headings centred in 50 dashes.
    assert all(re.fullmatch(r".{40} \S+", line) for line in rows)
    headings = [line for line in result.out.splitlines() if line.startswith("-")]
    assert {len(line) for line in headings} == {50}
    assert not re.search(r"waiting|cache usage|Preemptions", result.out)
    assert all(line.startswith("# ") for line in said(result, Kind.NOTE).splitlines())


def test_no_more_than_max_concurrency_are_under_way():
    result = play(SERVE, "vllm bench serve --num-prompts 60 --max-concurrency 7")
    assert re.search(r"Peak concurrent requests: +7\.00\n", result.out)


def test_a_shared_prefix_is_found_in_the_cache():
    line = (
        "vllm bench serve --dataset-name prefix_repetition --num-prompts 50 "
        "--prefix-repetition-num-prefixes 1 --prefix-repetition-prefix-len 1600 "
        "--prefix-repetition-suffix-len 64 --max-concurrency 4"
    )
    page = play(SERVE, line, "curl -s localhost:8000/metrics").out
    (server,) = read_metrics(page).servers
    assert server.prefix_hits == 49 * 1600
    assert server.prefix_queries == 50 * 1664


def test_the_same_seed_again_finds_its_prompts_in_the_cache():
    line = "vllm bench serve --num-prompts 10"
    (server,) = read_metrics(play(SERVE, line, line, "curl localhost:8000/metrics").out).servers
    assert server.prefix_hits == 10 * (1024 - 16)  # the block of the last token is computed anew
    other = play(SERVE, line, f"{line} --seed 1", "curl localhost:8000/metrics").out
    assert read_metrics(other).servers[0].prefix_hits == 0


def test_requests_longer_than_the_server_takes_fail():
    result = play(
        f"{SERVE} --max-model-len 2048", "vllm bench serve --num-prompts 3 --input-len 4000"
    )
    assert re.search(r"Failed requests: +3\n", result.out)
    assert "maximum context length is 2048 tokens" in said(result, Kind.NOTE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--num-prompt 5", "unrecognized arguments: --num-prompt (did you mean --num-prompts"),
        ("--num-prompts", "argument --num-prompts: expected one argument"),
        ("--num-prompts ten", "argument --num-prompts: invalid int value: 'ten'"),
        ("--num-prompts 0", "must be 1 or more"),
        ("--num-prompts 100000", "too many for this page"),
        ("--request-rate 0", "must be above 0"),
        ("--request-rate nan", "invalid float value"),
        ("--random-range-ratio 1", "below 1"),
        ("--dataset-name sharegpt", "'sharegpt' is not simulated"),
        ("--percentile-metrics ttft,foo", "'foo' is not one of"),
        ("--metric-percentiles 0", "not a list of percentiles"),
        ("--num-prompts 5000 --input-len 100000", "tokens are too many"),
        ("--request-rate 0.01", "more than an hour"),
        ("stray", "unrecognized arguments: stray"),
    ],
)
def test_options_of_a_benchmark_that_cannot_be(options, message):
    result = play(SERVE, f"vllm bench serve {options}")
    assert result.status == 2
    assert message in said(result, Kind.ERROR)


def test_the_options_have_vllms_defaults():
    bench = parse_bench([])
    assert (bench.num_prompts, bench.input_len, bench.output_len) == (1000, 1024, 128)
    assert bench.request_rate == float("inf")


def test_no_benchmark_without_its_server():
    assert "Cannot connect" in error("vllm bench serve")
    assert "Cannot connect" in error(SERVE, "vllm bench serve --port 9000")


def test_percentiles_are_between_observations():
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    counted = dict.fromkeys(values, 1)
    assert percentile(counted, 50) == 4.0
    assert percentile(counted, 90) == pytest.approx(8 + 0.6 * 8)
    assert percentile({3.0: 99, 7.0: 1}, 99) == pytest.approx(3.04)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/version", '{"version": "0.33.0"}\n'),
        ("/nowhere", '{"detail": "Not Found"}\n'),
        ("/v1/completions", '{"detail": "Not Implemented"}\n'),
        ("/health", ""),
    ],
)
def test_the_server_answers(path, wanted):
    assert play(SERVE, f"curl -s http://localhost:8000{path}").out == wanted


def test_the_models_page_names_the_length_and_the_name():
    page = play(
        f"{SERVE} --max-model-len 32K --served-model-name helper", "curl localhost:8000/v1/models"
    )
    (card,) = json.loads(page.out)["data"]
    assert (card["id"], card["max_model_len"]) == ("helper", 32768)
    assert "helper" in run(page.machine, "curl localhost:8000/metrics | grep running").out


def test_curl_without_a_server_is_refused_and_with_options_prints_the_status():
    assert "curl: (7) Failed to connect to localhost port 8000" in error(
        "curl localhost:8000/health"
    )
    assert "curl: (6) Could not resolve host: example.org" in error("curl example.org")
    assert "no URL" in error("curl -s")
    assert play(SERVE, "curl -so /dev/null -w '%{http_code}' localhost:8000/health").out == "200\n"
    assert play(SERVE, "curl -i localhost:8000/health").out.startswith("HTTP/1.1 200 OK\n")
    assert "(22)" in error(SERVE, "curl -f localhost:8000/nowhere")


def test_another_port_is_where_it_listens():
    result = play(f"{SERVE} --port 8001")
    assert "http://0.0.0.0:8001" in result.out
    assert run(result.machine, "curl -s localhost:8001/version").status == 0
    assert run(result.machine, "curl -s localhost:8000/version").status == 7


# --- stopping, time, processes ------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["kill 118", "kill -9 118", "kill -TERM 1", "kill %1", "pkill vllm"]
)
def test_a_killed_server_gives_its_memory_back(line):
    result = play(SERVE, line)
    assert result.status == 0
    assert "Application shutdown complete." in result.out
    assert result.machine.running is None
    assert "0MiB /  76293MiB" in run(result.machine, "nvidia-smi").out


def test_ctrl_c_on_an_empty_line_stops_the_server_and_on_another_drops_the_line():
    machine = play(SERVE).machine
    dropped = interrupt(machine, "vllm ser")
    assert dropped.machine.running is not None
    assert dropped.machine.history == machine.history
    stopped = interrupt(machine)
    assert stopped.machine.running is None
    assert (dropped.status, stopped.status) == (130, 130)
    assert interrupt(Machine()).pieces == ()


def test_stopping_ends_what_runs_in_the_background():
    machine = play(SERVE, "vllm bench serve --num-prompts 500 &").machine
    stopped = run(machine, "kill 118")
    assert "lost its server" in said(stopped, Kind.NOTE)
    assert "Successful" not in play("wait", "sleep 60", machine=stopped.machine).out


def test_what_does_not_run_cannot_be_killed():
    assert "No such process" in error("kill 118")
    assert "No such process" in error(SERVE, "kill 99999")
    assert error("kill")
    assert play("pkill vllm").status == 1


def test_ps_lists_the_server_with_its_command_line():
    assert "--gpu-memory-utilization 0.9" in play(SERVE, "ps").out
    assert "vllm" not in play("ps").out


@pytest.mark.parametrize(
    ("word", "seconds"), [("10", 10), ("1.5s", 1.5), ("2m", 120), ("1h", 3600)]
)
def test_sleep_moves_the_clock(word, seconds):
    machine = play(f"sleep {word}").machine
    assert machine.clock == seconds + 1  # a line takes a second


@pytest.mark.parametrize("words", ["", "long", "2h", "-1", "99999999999999999"])
def test_sleep_refuses(words):
    assert error(f"sleep {words}").startswith("sleep: ")


def test_only_commands_move_the_clock():
    machine = play("date", "date").machine
    assert play("date").out == "Mon Nov 30 09:00:01 2026\n"
    assert machine.clock == 2


# --- files and text -----------------------------------------------------------------------------


def test_there_is_a_folder_for_every_model():
    names = play("ls models").out.split()
    assert len(names) == len(model_ids())
    assert "Llama-3.1-8B/" in names


def test_a_config_is_what_the_catalogue_holds():
    shown = play("cat models/Llama-3.1-8B/config.json").out
    assert json.loads(shown) == dict(get_model("llama-3.1-8b").config)


def test_folders_are_walked():
    machine = play("cd models/Llama-3.1-8B").machine
    assert prompt(machine) == "dgx-1 ~/models/Llama-3.1-8B $"
    assert play("ls", machine=machine).out == "config.json\n"
    assert play("cd ..", "pwd", machine=machine).out == "/home/dev/models\n"
    assert prompt(play("cd", machine=machine).machine) == "dgx-1 $"
    assert play("ls ~/../..", machine=machine).out == "home/\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cat nothing", "cat: nothing: No such file or directory"),
        ("cat models", "cat: models: Is a directory"),
        ("ls nothing", "ls: cannot access 'nothing': No such file or directory"),
        ("cd nothing", "cd: nothing: No such file or directory"),
        ("cd README.txt", "cd: README.txt: Not a directory"),
        ("cat vllm.log", "No such file or directory"),
        ("cat", "it waits for text"),
        ("cat -z x", "-z is not an option here"),
        ("head -n many README.txt", "not a whole number"),
        ("tail -f vllm.log", "time stands still"),
        ("grep", "a pattern is missing"),
        ("grep '[' README.txt", "cannot be read"),
        ("grep -E '(a+)+b' README.txt", "could search for ever"),
        ("grep x nothing", "grep: nothing: No such file or directory"),
        ("ls -R", "-R is not here"),
        ("cat /etc/passwd", "No such file or directory"),
        ("cat ../../../../etc/passwd", "No such file or directory"),
    ],
)
def test_files_that_are_not_there(line, message):
    assert message in error(line)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echo one two | wc -w", "2\n"),
        ("ls models | wc -l", f"{len(model_ids())}\n"),
        ("ls models | head -2 | tail -n 1", "c4ai-command-r-08-2024/\n"),
        ("ls models | grep -c Llama-3.1", "3\n"),
        ("ls models | grep -i LLAMA-3.1-8b", "Llama-3.1-8B/\n"),
        ("ls -d models/Llama-3.1-?B", "models/Llama-3.1-8B\n"),
        ("echo 'models/*'", "models/*\n"),
        ("echo nothing-*", "nothing-*\n"),
        ("grep -n '\"num_key_value_heads\"' models/Llama-3.1-8B/config.json", None),
        ("echo abc | grep -o b", "b\n"),
        ("echo 'a|b' | grep 'a|b'", "a|b\n"),
        ("echo ab | grep 'x\\|b'", "ab\n"),
        ("echo ab | grep -E 'x|b'", "ab\n"),
        ("echo ab | grep -F .", ""),
        ("echo a.b | grep -vF .", ""),
        ("cat README.txt | grep -A1 models/ | wc -l", "2\n"),
        ("false || echo no", "no\n"),
        ("false && echo no", ""),
        ("true && echo yes", "yes\n"),
        ("false; echo $?", "1\n"),
        ("nothing 2>/dev/null; echo $?", "127\n"),
        ("nothing 2>&1 | wc -l", "1\n"),
        ("echo $HOME ${USER} $NOBODY. '$HOME'", "/home/dev dev . $HOME\n"),
        ("FOO=1 echo x", "x\n"),
        ("hostname; whoami", "dgx-1\ndev\n"),
        ("echo a >/dev/null", ""),
    ],
)
def test_pipes_and_words_work_as_in_a_shell(line, wanted):
    result = play(line)
    assert said(result, Kind.ERROR) == ""
    assert result.out == wanted if wanted is not None else ": 8" in result.out


def test_the_log_of_the_last_server_can_be_read_even_after_a_refusal():
    assert (
        "estimated maximum model length"
        in play("vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4", "grep ERROR vllm.log").out
    )
    assert "# stopped" in play(SERVE, "kill 118", "cat vllm.log").out


# --- kvdocs -------------------------------------------------------------------------------------


def test_the_packages_own_commands_read_the_machines_files():
    out = play("cd models", "kvdocs size Llama-3.1-8B/config.json --tokens 8K").out
    assert "131,072 B" in out
    assert "407,714" in play("kvdocs fit llama-3.1-8b --gpu lesson-h100-80gb").out
    assert "131,072 B" in play("cat models/Llama-3.1-8B/config.json | kvdocs size -").out
    assert "explain" in play("kvdocs --help").out
    assert play(SERVE, "cat vllm.log | kvdocs explain -").status == 0


def test_the_packages_commands_see_no_real_file(tmp_path: Path):
    real = tmp_path / "config.json"
    real.write_text(json.dumps(dict(get_model("llama-3.1-8b").config)))
    assert "there is no file" in error(f"kvdocs size {real}")
    assert "cannot read" in error(f"kvdocs explain {__file__}")


def test_the_packages_commands_keep_their_status():
    assert play("kvdocs fit llama-3.1-70b --gpu lesson-h100-80gb").status == 3
    assert play("kvdocs sise").status == 2
    assert "computer of your own" in error("kvdocs replay x.json")


# --- the shell ----------------------------------------------------------------------------------


def test_help_lists_every_command_that_does_something():
    listed = play("help").out
    hidden = {"help", "true", "false", "hostname", "whoami"}
    for name in set(COMMANDS) - hidden:
        assert re.search(rf"^  {re.escape(name)} ", listed, re.MULTILINE), name
    assert play("help nvidia-smi").out.startswith("nvidia-smi: ")


def test_every_command_can_be_called_with_nothing():
    for name in COMMANDS:
        assert play(name).status in (0, 1, 2)


@pytest.mark.parametrize(
    ("typed", "meant"), [("nvidia-sim", "nvidia-smi"), ("vlm", "vllm"), ("crul", "curl")]
)
def test_an_unknown_command_is_answered_with_the_nearest(typed, meant):
    result = play(typed)
    assert result.status == 127
    assert said(result, Kind.ERROR) == f"{typed}: command not found"
    assert f"did you mean {meant}" in said(result, Kind.NOTE)


def test_history_keeps_what_was_typed_once():
    result = play("date", "date", "pwd", "history")
    assert [line.split()[1] for line in result.out.splitlines()] == ["date", "pwd", "history"]


def test_clear_clears_what_stands_before_it():
    result = play("echo a; clear; echo b")
    assert result.clears
    assert result.out == "b\n"


def test_notes_do_not_go_through_pipes():
    result = play(f"{SERVE} | wc -l")
    assert result.out.strip().isdigit()
    assert said(result, Kind.NOTE).startswith("# It runs on")


def test_a_long_output_is_cut_and_says_so():
    result = play(SERVE, "curl -s localhost:8000/metrics; " * 10)
    assert sum(piece.text.count("\n") + 1 for piece in result.pieces) <= MOST_LINES + 1
    assert said(result, Kind.NOTE).startswith("# The rest is not shown: ")
    assert len(play("echo " + "x" * 19_000).out) == 19_001


# --- completion ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("nvi", ["nvidia-smi"]),
        ("vllm s", ["serve"]),
        ("vllm bench ", ["serve"]),
        ("vllm serve meta-llama/Llama-3.1-8", ["meta-llama/Llama-3.1-8B"]),
        ("vllm serve Llama-3.1-8B --max-m", ["--max-model-len"]),
        ("vllm serve Llama-3.1-8B --tool-call-p", ["--tool-call-parser"]),
        ("vllm serve m --scheduling-policy p", ["priority"]),
        ("vllm bench serve --num-p", ["--num-prompts"]),
        ("cat RE", ["README.txt"]),
        ("ls models/Llama-3.1-8", ["models/Llama-3.1-8B/"]),
        ("cat models/Llama-3.1-8B/", ["models/Llama-3.1-8B/config.json"]),
        ("curl localhost:8000/m", ["localhost:8000/metrics"]),
        ("kvdocs si", ["size"]),
        ("kvdocs fit x --gpu lesson", ["lesson-h100-80gb"]),
        ("nvidia-smi --format=csv,noheader,", ["csv,noheader,nounits"]),
        ("ls models | gre", ["grep"]),
        ("kill ", ["118"]),
        ("zzz", []),
        ("zzz a", []),
        ("cat nowhere/", []),
    ],
)
def test_tab_offers(line, wanted):
    assert list(complete(Machine(), line).candidates) == wanted


def test_completion_says_where_the_word_begins():
    found = complete(Machine(), "vllm serve m --max-")
    assert found.start == len("vllm serve m ")
    assert found.common == "--max-"
    assert {"--max-model-len", "--max-num-seqs"} <= set(found.candidates)


# --- state --------------------------------------------------------------------------------------


def test_the_state_is_plain_json_and_round_trips():
    machine = play(SERVE, "vllm bench serve --num-prompts 5 &", "cd models").machine
    assert from_json(to_json(machine)) == machine
    assert run(from_json(to_json(machine)), "nvidia-smi").out == run(machine, "nvidia-smi").out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"version":2}',
        '{"version":1,"more":1}',
        '{"version":1,"num_gpus":99}',
        '{"version":1,"server":{"words":1}}',
        '{"version":1,"clock":"x"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_state_is_refused(text):
    with pytest.raises(TerminalError, match="begin anew"):
        from_json(text)


def test_the_same_machine_and_line_give_the_same_result():
    machine = play(SERVE, "vllm bench serve --num-prompts 50 &").machine
    later = run(run(machine, "sleep 30").machine, "curl localhost:8000/metrics")
    again = run(machine, "curl localhost:8000/metrics")
    assert again == run(machine, "curl localhost:8000/metrics")
    assert later.out != again.out


# --- the page -----------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_page_gets_escaped_markup_and_what_widgets_need():
    state = to_json(Machine())
    answer = json.loads(browser.run(state, f"echo '{HOSTILE}'"))
    assert "&lt;img src=x onerror=alert(1)&gt;" in answer["html"]
    answer = json.loads(browser.run(state, SERVE))
    assert answer["facts"]["memory_used_mib"] == [68664]
    assert answer["facts"]["kv_pool_tokens"] == 407_714
    assert answer["widgets"]["gpu-memory"]["utilization"] == "0.9"
    assert json.loads(browser.run(state, "clear"))["clears"] is True


@pytest.mark.parametrize(
    "line",
    [
        f"cat '{HOSTILE}'",
        f"'{HOSTILE}'",
        f"vllm serve '{HOSTILE}'",
        f'ls "{HOSTILE}"',
        f"curl '{HOSTILE}'",
        f"grep '{HOSTILE}' '{HOSTILE}'",
        f"kvdocs size '{HOSTILE}'",
        f"nvidia-smi '{HOSTILE}'",
        f"vllm bench serve '{HOSTILE}'",
        f"vllm serve m '--{HOSTILE}'",
    ],
)
def test_names_that_look_like_markup_come_back_as_text(line):
    html = json.loads(browser.run(to_json(Machine()), line))["html"]
    assert "<img" not in html
    assert "&lt;img" in html


def test_a_widget_is_told_nothing_it_cannot_show():
    state = to_json(Machine())
    low = json.loads(browser.run(state, "vllm serve Qwen/Qwen3-0.6B --gpu-memory-utilization 0.2"))
    assert low["facts"]["running"] is True
    assert list(low["widgets"]) == ["startup"]  # gpu-memory begins at a share of 0.5
    assert json.loads(browser.look(state))["widgets"] == {}


def test_a_refused_start_is_shown_where_starts_are_shown():
    line = "vllm serve Llama-3.1-8B --gpu-memory-utilization=0.4 --max-model-len 120K"
    refused = json.loads(browser.run(to_json(Machine()), line))
    shown = get_widget("startup").view(**refused["widgets"]["startup"])
    assert shown.figure("starts").value == "no"
    assert "102,512" in shown.figure("starts").formula
    assert "--max-model-len 120K" in refused["widgets"]["startup"]["command"]


def test_a_damaged_state_gives_a_new_machine_and_says_so():
    answer = json.loads(browser.run("not a state", "pwd"))
    assert "begin anew" in answer["html"]
    assert "/home/dev" in answer["html"]


def test_ctrl_c_and_completion_answer_the_page():
    state = json.loads(browser.run(to_json(Machine()), SERVE))["machine"]
    stopped = json.loads(browser.stop(state, ""))
    assert stopped["facts"]["running"] is False
    assert json.loads(browser.complete(state, "nvid")) == {
        "start": 0, "candidates": ["nvidia-smi"], "common": "nvidia-smi",
    }  # fmt: skip


def test_a_mistake_in_a_command_leaves_the_machine_as_it_was(monkeypatch):
    def broken(_call):
        raise ZeroDivisionError("oops")

    monkeypatch.setitem(COMMANDS, "date", replace(COMMANDS["date"], run=broken))
    answer = json.loads(browser.run(to_json(Machine()), "date"))
    assert "a mistake of its own (ZeroDivisionError: oops)" in answer["html"]
    assert from_json(answer["machine"]) == Machine()


def test_a_page_shows_the_whole_run_and_hands_over_the_machine():
    shown = str(
        terminal("t", ["vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4"], title="<b>")
    )
    assert "estimated maximum model length is 102512" in shown
    assert 'role="log"' in shown
    assert "&lt;b&gt;" in shown
    assert "<kbd>vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4</kbd>" in shown


# --- lines that nobody would type ---------------------------------------------------------------

FRAGMENTS = r"""
vllm@serve vllm@serve@Llama-3.1-8B vllm@bench@serve@--num-prompts@3 | || && ; & ' " \ *
? $? $ ${ $HOME ` $( # > 2>&1 < -- - -n -1 0 1e999 --max-model-len --kv-cache-dtype fp8
nan inf -e -A --gpu-memory-utilization 0.4 --format=csv --query-gpu= models models/*
vllm.log .. / ~ é 😀 {} [ models/Llama-3.1-8B/config.json localhost:8000/metrics ] ( ) =
--foo %1 118 <img@src=x> -tp 4 --port 65536 999999999999999999999 kvdocs@size kvdocs@fit
--help -q -d llama-3.1-8b --gpu h100
"""
"""What a line of the fuzz test is put together from; @ stands for a blank."""
PIECES = [
    *COMMANDS,
    *(word.replace("@", " ") for word in FRAGMENTS.split()),
    *("\n", " ", "\x00", "\u202e"),
]


def test_no_line_raises_and_the_state_stays_whole():
    rng = random.Random(20261130)  # noqa: S311 - the same lines every time
    machine = Machine()
    for number in range(10_000):
        parts = rng.choices(PIECES, k=rng.randint(1, 7))
        line = rng.choice(("", " ")).join(parts) if number % 3 else " ".join(parts)
        result = run(machine, line)
        assert isinstance(result.status, int)
        complete(machine, line)
        machine = result.machine
        if number % 50 == 0:
            assert from_json(to_json(machine)) == machine
            machine = Machine()
