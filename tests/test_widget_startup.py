"""The widget `startup`: the log against public figures and hand arithmetic, and every refusal."""

import json

import pytest

from kvdocs.explain import explain
from kvdocs.terminal.plan import make_plan
from kvdocs.widgets.browser import update
from kvdocs.widgets.startup import STARTUP, start


def figures(**params):
    return {figure.name: figure.value for figure in STARTUP.view(**params).figures}


def errors(**params):
    answer = json.loads(update("startup", json.dumps(params)))
    assert (answer["html"] is None) == bool(answer["errors"])
    return answer["errors"]


def printed(**params):
    """The picture's text, as it reads without markup."""
    parts = str(STARTUP.view(**params).picture).split("<")
    text = "".join(part.partition(">")[2] for part in parts)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_the_lessons_server_starts_with_the_lessons_figures():
    assert figures() == {
        "num_gpu_blocks": "25,482",
        "kv_pool_tokens": "407,714",
        "max_concurrency": "3.11",  # 25,482 blocks / 8,192 of one request
        "starts": "yes",
    }
    line = "GPU KV cache size: 407,712 tokens, Maximum concurrency for 131,072 tokens per request: "
    assert line + "3.11x" in printed()


def test_the_log_and_the_notes_agree_on_cuda_graphs():
    text = printed()
    assert "leave CUDA graphs out, as with --enforce-eager" in text
    assert "0.0 GiB for CUDAGraph memory" in text
    assert "Graph capturing" not in text
    several = printed(tensor_parallel_size="2")
    assert "as with --enforce-eager" not in several
    assert "the log prints all of them as CUDA graphs" in several
    assert "Graph capturing finished in 7 secs, took 1.40 GiB" in several


def test_too_little_memory_is_refused_with_the_longest_that_fits():
    # 0.4 x 80e9 - 18.56e9 = 13.44e9 B: 6,408 blocks of 2 MiB, one of them never handed out.
    shown = figures(gpu_memory_utilization="0.4")
    assert (shown["starts"], shown["num_gpu_blocks"]) == ("no", "–")
    text = printed(gpu_memory_utilization="0.4")
    assert "(16.0 GiB KV cache is needed" in text
    assert f"the estimated maximum model length is {6407 * 16}. " in text
    assert f"at most {6407 * 16:,} tokens" in STARTUP.view(gpu_memory_utilization="0.4").caption


@pytest.mark.parametrize(
    "way",
    [
        {"max_model_len": "65536"},
        {"kv_cache_dtype": "fp8"},
        {"command": "--gpu-memory-utilization 0.5"},
        {"tensor_parallel_size": "2"},
        {"max_model_len": "-1"},
    ],
)
def test_every_way_out_that_the_caption_names_works(way):
    assert figures(gpu_memory_utilization="0.4", **way)["starts"] == "yes"


def test_a_published_refusal_is_reproduced():
    """spark-vllm-docker#396: MiniMax-M2.7 on two GPUs, 196,608 tokens asked for."""
    block = 62 * 4 * (128 + 128) * 2 * 16
    memory = (190_272 // 16 + 1) * block
    command = (
        "vllm serve MiniMaxAI/MiniMax-M2.7 -tp 2 --max-model-len 196608 "
        f"--kv-cache-memory-bytes {memory}"
    )
    text = printed(command=command, gpu="h200-sxm-141gb")
    assert "(196608), (23.25 GiB KV cache is needed" in text
    assert "available KV cache memory (22.5 GiB)" in text
    assert "the estimated maximum model length is 190272" in text


def test_weights_that_leave_nothing_are_refused():
    view = STARTUP.view(gpu_memory_utilization="0.2")
    assert "leave nothing" in view.title
    assert "No available memory for the cache blocks" in printed(gpu_memory_utilization="0.2")


@pytest.mark.parametrize(
    "flags", ["", " --kv-cache-memory-bytes 8G", " --num-gpu-blocks-override 9000"]
)
def test_weights_larger_than_the_gpu_do_not_load(flags):
    command = f"vllm serve meta-llama/Llama-3.1-70B{flags}"
    text = printed(command=command)
    assert "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 74.51" in text
    assert "Model loading took" not in text
    assert "Available KV cache memory" not in text
    assert figures(command=command)["starts"] == "no"
    assert STARTUP.view(command=command).title == (
        "It runs out of memory: the weights take 131.5 GiB of each GPU, and 73.57 GiB are free"
    )


def test_the_picture_and_the_terminal_end_alike():
    words = ("meta-llama/Llama-3.1-70B", "--gpu-memory-utilization", "0.9")
    told = [line.partition("] ")[2] for line in start(" ".join(words)).log()]
    plan = make_plan("lesson-h100-80gb", words)
    assert told == [line.partition("] ")[2] for line in plan.log(0.0)]


def test_the_whole_gpu_is_never_free():
    command = "--gpu-memory-utilization 1.0"
    text = printed(command=command)
    assert (
        "Free memory on device cuda:0 (73.57/74.51 GiB) on startup is less than desired GPU memory "
        "utilization (1.0, 74.51 GiB)." in text
    )
    assert figures(command=command)["starts"] == "no"
    assert "73.57 GiB are free" in STARTUP.view(command=command).title
    assert "Free memory on device (73.57/74.51 GiB) on startup. Desired" in printed()


def test_what_it_prints_reads_back_to_its_figures():
    log = "\n".join(start("--gpu-memory-utilization 0.9 --max-model-len 8192").log())
    read = explain(log).figures
    assert read["kv_bytes_per_token_per_gpu"] == 131_072
    assert read["max_concurrency"] == pytest.approx(49.77, abs=0.01)


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "",
        "vllm serve meta-llama/Llama-3.1-8B",
        "$ CUDA_VISIBLE_DEVICES=0 vllm serve meta-llama/Llama-3.1-8B --port 8000",
        "python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B",
        "vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  --max-model-len 131072",
        "vllm serve --model=meta-llama/Llama-3.1-8B --max_model_len=131072",
    ],
)
def test_the_same_server_in_many_spellings(command):
    assert figures(command=command)["num_gpu_blocks"] == "25,482"


def test_what_is_typed_wins_over_its_control_and_stands_once():
    params = {"command": "--gpu-memory-utilization=0.8 -tp 2", "tensor_parallel_size": "4"}
    command = printed(**params).partition("\n")[0]
    assert command == (
        "dgx-1 $ vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization=0.8 -tp 2"
    )
    # 2 x (0.8 x 80e9 - 8.03e9 - 4e9) B, 64 KiB a token on each GPU
    assert figures(**params)["kv_pool_tokens"] == f"{int((64e9 - 12.03e9) // 65_536):,}"


def test_the_controls_become_flags():
    params = {"kv_cache_dtype": "fp8", "max_model_len": "32768", "prefix_caching": "off"}
    command = printed(**params).partition("\n")[0]
    assert "--max-model-len 32768 --kv-cache-dtype fp8" in command
    assert command.endswith("--no-enable-prefix-caching")
    assert "--no-enable-prefix-caching" not in printed(
        command="--enable-prefix-caching", prefix_caching="off"
    )


def test_an_unknown_flag_gets_the_nearest_beside_the_box():
    said = errors(command="--gpu-memory-utilisation 0.9")
    assert "did you mean --gpu-memory-utilization" in said["command"]


def test_an_unknown_model_gets_the_nearest_beside_the_box():
    assert "llama-3.1-8b" in errors(command="vllm serve meta-llama/Llama-3.1-8")["command"].lower()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--max-model-len", "needs a value"),
        ("--max-model-len 200000", "max_position_embeddings=131072"),
        ("--gpu-memory-utilization 90", "at most 1"),
        ("--served-model-name 'oops", "not closed"),
        ("--kv-cache-dtype fp7", "fp7"),
        ("-tp 3", "divisible"),
        ("--cpu-offload-gb 40", "more than the weights"),
        ("x" * 5000, "4,000"),
    ],
)
def test_what_vllm_would_not_take_is_said_beside_the_box(command, said):
    assert said in errors(command=command)["command"]


def test_markup_in_a_flag_is_shown_as_text():
    command = "--served-model-name '<img src=x onerror=alert(1)>'"
    html = json.loads(update("startup", json.dumps({"command": command})))["html"]
    assert "<img" not in html
    assert "&lt;img src=x" in html


def test_the_bars_are_to_one_scale():
    html = str(STARTUP.view(gpu_memory_utilization="0.4").picture)
    widths = [part.partition("%")[0] for part in html.split("width:")[1:]]
    assert [float(width) for width in widths] == pytest.approx([78.23, 100], abs=0.01)


@pytest.mark.parametrize("flag", ["", " --block-size 16", " --block-size 784"])
def test_a_hybrids_log_says_how_its_blocks_grew(flag):
    command = f"vllm serve Qwen/Qwen3.5-27B -tp 2{flag}"
    text = printed(command=command, gpu="h100-sxm-80gb")
    raised = (
        "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba "
        "page size."
    )
    padded = (
        "Padding mamba page size by 0.13% to ensure that mamba page size and attention page size "
        "are exactly equal."
    )
    workers = 2
    assert text.count(raised) == (0 if "784" in flag else workers)
    assert text.count(padded) == workers
    assert text.index("Model loading took") < text.index(padded) < text.index("Available KV cache")


def test_a_model_without_states_says_nothing_of_them():
    assert "attention block size" not in printed()


def test_hopper_packs_the_sparse_latent_of_deepseek_v3_2():
    # 61 x (656 + 132) = 48,068 B a token, blocks of 64.
    command = "vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 --kv-cache-dtype fp8"
    shown = figures(command=command, gpu="h200-sxm-141gb", gpu_memory_utilization="0.92")
    assert shown["num_gpu_blocks"] == "16,396"
    text = printed(command=command, gpu="h200-sxm-141gb", gpu_memory_utilization="0.92")
    assert "GPU KV cache size: 1,049,344 tokens" in text
    assert "Using fp8 data type to store kv cache" in text
    assert "656 bytes a layer" in text


# --- settings that vLLM refuses before it looks at any memory ------------------------------------

LLAMA = "vllm serve meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--max-num-seqs 4096 --max-num-batched-tokens 2048",
            "max_num_batched_tokens (2048) must be greater than or equal to max_num_seqs (4096).",
        ),
        (
            "--no-enable-chunked-prefill --max-num-batched-tokens 2048",
            "max_num_batched_tokens (2048) is smaller than max_model_len (131072). ",
        ),
        (
            # Auto-fit comes later: the model's own length counts.
            "--no-enable-chunked-prefill --max-num-batched-tokens 120K --max-model-len -1",
            "max_num_batched_tokens (122880) is smaller than max_model_len (131072). ",
        ),
        (
            "--max-model-len 8192 --long-prefill-token-threshold 8193",
            "long_prefill_token_threshold (8193) cannot be greater than the max_model_len (8192).",
        ),
        ("--decode-context-parallel-size 2", "tp_size=1 must be divisible by dcp_size=2."),
        (
            "-tp 2 --decode-context-parallel-size 2",
            "tensor parallel size 2 must be greater than total num kv heads 8 when enable decode",
        ),
    ],
)
def test_settings_that_vllm_refuses_are_told_beside_the_command(flags, message):
    told = errors(command=f"{LLAMA} {flags}")
    assert message in json.dumps(told)


def test_the_pair_that_just_goes_starts():
    command = f"{LLAMA} --max-num-seqs 2048 --max-num-batched-tokens 2048"
    assert figures(command=command)["starts"] == "yes"
