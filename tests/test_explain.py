"""Findings: what the figures of a log mean together."""

from __future__ import annotations

import json

import pytest

from kvdocs.errors import ConfigError
from kvdocs.explain import Explanation, explain
from kvdocs.units import GIB

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
}
DEEPSEEK_V2 = {
    "model_type": "deepseek_v2",
    "num_hidden_layers": 60,
    "hidden_size": 5120,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 163840,
}
POOL = "GPU KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {}x\n"


def codes(told: Explanation) -> set[str]:
    return {finding.code for finding in told.findings}


def text(told: Explanation, code: str) -> str:
    return next(finding.text for finding in told.findings if finding.code == code)


def test_the_json_form_holds_figures_and_findings() -> None:
    told = explain("Available KV cache memory: 6.51 GiB\nGPU KV cache size: 42,656 tokens")
    data = json.loads(json.dumps(told.to_json()))
    assert data["figures"]["kv_pool_tokens"] == 42656
    assert {"code", "text", "severity"} == set(data["findings"][0])


def test_what_stops_the_server_comes_first() -> None:
    told = explain(
        "Model loading took 16.0 GB and 3 s\nmax seq len (9000)\nKV cache size: 1 tokens"
    )
    order = [finding.severity for finding in told.findings]
    assert order == sorted(order, key=["error", "warning", "info"].index)


def test_an_empty_log_says_what_was_looked_for() -> None:
    assert codes(explain("")) == {"no-startup-lines"}


def test_a_config_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError):
        explain(POOL.format("409,600", "8,192", "50.00"), config={"model_type": "llama"})


def test_flags_a_model_cannot_have_are_a_finding() -> None:
    told = explain(
        POOL.format("409,600", "8,192", "50.00"), config=LLAMA, flags={"tensor_parallel_size": "3"}
    )
    assert "flags-contradict-config" in codes(told)


# With a config


def test_a_log_of_another_model_contradicts_the_config() -> None:
    log = "Available KV cache memory: 6.51 GiB\nGPU KV cache size: 42,656 tokens"
    told = explain(log, config=LLAMA)  # the log is of a model with 163,840 bytes a token
    assert "cannot be of that model" in text(told, "contradicts-config")
    assert "1.25 times" in text(told, "contradicts-config")


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (163840 * 2, "a fp8 cache"),
        (163840 // 4, "all query heads stored"),
        (163840 * 4, "--tensor-parallel-size 4"),
    ],
)
def test_a_contradiction_names_what_would_explain_it(tokens: int, reason: str) -> None:
    # 20 GiB hold 163,840 tokens of this model on one GPU with a 16-bit cache.
    log = f"Available KV cache memory: 20.00 GiB\nGPU KV cache size: {tokens:,} tokens"
    assert reason in text(explain(log, config=LLAMA), "contradicts-config")


def test_a_latent_cache_kept_as_full_heads_is_recognised() -> None:
    # vLLM 0.5 on 8 GPUs: 60 layers x 16 heads x 256 x 2 x 2 bytes = 983,040 a token.
    log = "# GPU blocks: 835, # CPU blocks: 273\n"
    told = explain(log, config=DEEPSEEK_V2, flags="--tensor-parallel-size 8")
    assert told.figures["kv_bytes_per_token_per_gpu_low"] <= 983_040
    assert "latent cache kept as full heads" in text(told, "contradicts-config")


def test_tokens_follow_from_memory_and_config() -> None:
    told = explain("Available KV cache memory: 20.00 GiB", config=LLAMA)
    assert "163,840 tokens" in text(told, "tokens-from-config")
    assert "pool-tokens-unknown" in codes(explain("Available KV cache memory: 20.00 GiB"))


def test_the_model_a_log_names_is_looked_up() -> None:
    log = (
        "Initializing a V1 LLM engine (v0.10.2) with config: model='Qwen/Qwen3-14B', "
        "max_seq_len=32768, tensor_parallel_size=1, kv_cache_dtype=auto,\n"
        "Available KV cache memory: 6.51 GiB\nGPU KV cache size: 42,656 tokens\n"
    )
    assert {"model-from-log", "matches-config"} <= codes(explain(log))


# The budget


USAGE = (
    "Free memory on device ({free}/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, "
    "71.26 GiB). Actual usage is 14.99 GiB for weight, {peak} GiB for peak activation, 0.75 "
    "GiB for "
    "non-torch memory, and 0.5 GiB for CUDAGraph memory. Replace gpu_memory_utilization config "
    "with "
    "`--kv-cache-memory=53687091200` (50.0 GiB) to fit into requested memory, or "
    "`--kv-cache-memory=60129542144` (56.0 GiB) to fully utilize gpu memory. Current kv cache "
    "memory "
    "in use is 50.0 GiB."
)


def test_a_budget_is_added_up() -> None:
    told = explain(USAGE.format(free="78.7", peak="5.52"))
    assert "= 50 GiB" in text(told, "budget-adds-up")
    assert told.figures["kv_cache_memory_within_request_bytes"] == 50 * GIB
    wrong = explain(USAGE.format(free="78.7", peak="9.52"))
    assert "-4 GiB" in text(wrong, "budget-does-not-add-up")


def test_the_three_parts_of_v0_are_added_up() -> None:
    log = """Memory profiling takes 5.23 seconds
the current vLLM instance can use total_gpu_memory (79.11GiB) x gpu_memory_utilization (0.90) \
= 71.20GiB
model weights take 14.99GiB; non_torch_memory takes 0.11GiB; PyTorch activation peak memory takes \
1.23GiB; the rest of the memory reserved for KV Cache is 54.87GiB.
# cuda blocks: 28093, # CPU blocks: 2048
Maximum concurrency for 8192 tokens per request: 54.87x"""
    told = explain(log, config=LLAMA)
    assert {"budget-adds-up", "matches-config", "concurrency-consistent"} <= codes(told)
    assert told.figures["kv_pool_tokens"] == 28093 * 16


def test_a_share_of_the_wrong_total_is_noticed() -> None:
    log = (
        "Desired GPU memory utilization is (0.9, 60.0 GiB)\nFree memory on device "
        "(70/79.18 GiB) on startup."
    )
    assert "request-is-not-total-times-share" in codes(explain(log))


def test_memory_held_by_others_gives_the_share_that_fits() -> None:
    log = (
        "ValueError: Free memory on device cuda:0 (20.51/79.18 GiB) on startup is less than "
        "desired "
        "GPU memory utilization (0.92, 72.85 GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes."
    )
    told = explain(log)
    assert "58.67 GiB" in text(told, "free-memory-below-desired")
    assert "--gpu-memory-utilization 0.25" in text(told, "free-memory-below-desired")
    assert "full-gpu-is-healthy" not in codes(told)


def test_an_overdrawn_budget_names_the_share_that_would_do() -> None:
    log = (
        "Model loading took 65.97 GiB memory and 12.8 seconds\nAvailable KV cache memory: "
        "-2.14 GiB\n"
        "| 30%   45C    P0    70W / 700W |  73012MiB / 81559MiB |\n"
    )
    told = explain(log, flags="--gpu-memory-utilization 0.9")
    assert "--gpu-memory-utilization 0.93" in text(told, "no-memory-for-kv")


def test_a_full_gpu_is_explained_as_healthy() -> None:
    log = "|  30%   45C    P0    70W / 700W |  73012MiB / 81559MiB |      0%      Default |\n"
    assert "71.3 GiB of 79.65 GiB" in text(explain(log), "full-gpu-is-healthy")


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.11.0", "at least 71.26 GiB"), ("0.33.0", "about 71.26 GiB")],
)
def test_graphs_on_top_of_the_budget_make_the_healthy_figure_a_least(
    version: str, words: str
) -> None:
    log = (
        f"INFO 11-30 09:00:00 [api_server.py:1] vLLM API server version {version}\n"
        "Free memory on device (78.6/79.18 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 71.26 GiB). "
    )
    assert words in text(explain(log), "full-gpu-is-healthy")


def test_running_out_of_memory_is_placed_before_or_after_the_pool() -> None:
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a "
        "total "
        "capacity of 11.53 GiB of which 187.75 MiB is free."
    )
    assert "before the pool" in text(explain(oom), "cuda-out-of-memory")
    after = explain(f"GPU KV cache size: 42,656 tokens\n{oom}")
    assert "after the pool" in text(after, "cuda-out-of-memory")
    assert after.figures["oom_request_bytes"] == 224 * 2**20


def test_memory_set_by_flag_is_told() -> None:
    log = (
        "Initial free memory 78.7 GiB, reserved 20.0 GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling."
    )
    told = explain(log)
    assert told.figures["kv_pool_bytes"] == 20 * GIB
    assert "kv-memory-set-by-flag" in codes(told)


# Ranks


def test_the_rank_with_least_memory_binds() -> None:
    log = "".join(
        f"(Worker_TP{rank} pid=9) INFO Available KV cache memory: {gib} GiB\n"
        for rank, gib in enumerate(["30.00", "29.00", "30.50"])
    )
    told = explain(log + POOL.format("475,136", "8,192", "58.00"))
    assert "Worker_TP1 binds: 29 GiB" in text(told, "binding-rank")
    assert told.figures["kv_pool_bytes"] == 29 * GIB
    assert told.figures["kv_bytes_per_token_per_gpu"] == 65536


def test_data_parallel_engines_add_up() -> None:
    log = "".join(
        f"(EngineCore_DP{rank} pid={rank}) INFO "
        + POOL.format("409,600", "8,192", f"{50 + rank}.00")
        for rank in range(4)
    )
    assert "206.00 requests" in text(explain(log), "data-parallel-sum")


def test_context_parallel_capacity_is_divided() -> None:
    # DeepSeek-V3, bf16: 61 x 576 x 2 = 70,272 bytes a token, spread over 8 GPUs.
    log = """Available KV cache memory: 10.00 GiB
Multiplying the GPU KV cache size by the dcp_world_size 8.
GPU KV cache size: 1,222,272 tokens
Maximum concurrency for 131,072 tokens per request: 9.33x"""
    told = explain(log)
    low, high = (told.figures[f"kv_bytes_per_token_per_gpu_{end}"] for end in ("low", "high"))
    assert low <= 70272 / 8 <= high
    assert "deepseek-ai/DeepSeek-V3" in text(told, "model-candidates")
    assert "152,784" in text(told, "context-parallel")


def test_a_concurrency_that_leaves_context_parallel_out_is_told() -> None:
    log = """Multiplying the GPU KV cache size by the cp_world_size 4.
GPU KV cache size: 400,000 tokens
Maximum concurrency for 10,000 tokens per request: 10.00x"""
    assert "4 times as high" in text(explain(log), "concurrency-not-multiplied")


# Pools and refusals


def test_a_pool_that_contradicts_its_concurrency_is_told() -> None:
    told = explain(POOL.format("409,600", "8,192", "7.00"))
    assert "concurrency-contradicts-pool" in codes(told)
    blocks = explain("# GPU blocks: 1000\nMaximum concurrency for 2048 tokens per request: 10.79x")
    assert "concurrency-contradicts-pool" in codes(blocks)


@pytest.mark.parametrize(("forced", "severity"), [(300, "info"), (30_000, "warning")])
def test_overridden_blocks_are_told(forced: int, severity: str) -> None:
    log = (
        "Available KV cache memory: 50.0 GiB\n"
        f"Overriding num_gpu_blocks=25600 with num_gpu_blocks_override={forced}\n"
        f"GPU KV cache size: {forced * 16:,} tokens\n"
    )
    told = explain(log)
    finding = next(item for item in told.findings if item.code == "blocks-overridden")
    assert finding.severity == severity
    assert told.figures["kv_bytes_per_token_per_gpu"] == 131072


def test_evidence_that_disagrees_is_told() -> None:
    log = (
        "the rest of the memory reserved for KV Cache is 54.87GiB.\n"
        "model weights take 14.99GiB; non_torch_memory takes 0.11GiB; PyTorch activation peak "
        "memory"
        " takes 1.23GiB; the rest of the memory reserved for KV Cache is 54.87GiB.\n"
        "# GPU blocks: 28093, # CPU blocks: 512\n"
    )
    assert "--swap-space" in text(explain(log), "lines-disagree")
    assert "1 GiB" in text(explain(log), "swap-space-differs")
    assert "lines-disagree" not in codes(explain(log, flags="--swap-space 1"))


def test_a_refusal_offers_every_way_to_start() -> None:
    log = (
        "Free memory on device (79.0/79.18 GiB) on startup. Desired GPU memory utilization is "
        "(0.8, "
        "63.34 GiB).\nTo serve at least one request with the model's max seq len (131072), "
        "(16.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (14.0 GiB). "
        "Based on "
        "the available memory, the estimated maximum model length is 114672."
    )
    words = text(explain(log), "refused-max-model-len")
    assert "2 GiB short" in words
    assert "--max-model-len 114672" in words
    assert "--gpu-memory-utilization to 0.83" in words
    assert "--kv-cache-dtype fp8 (about 8 GiB" in words
    assert "--tensor-parallel-size 2" in words


def test_auto_fit_is_told() -> None:
    log = (
        "Auto-fit max_model_len: reduced from 131072 to 65520 to fit in available KV cache memory "
        "(8.0 GiB GPU)"
    )
    told = explain(log)
    assert "65,520 tokens of the model's 131,072" in text(told, "max-model-len-auto-fit")


def test_several_starts_are_told_apart_and_the_last_is_explained() -> None:
    one = "Available KV cache memory: {}.00 GiB\n" + POOL
    log = one.format(50, "409,600", "8,192", "50.00") + one.format(25, "204,800", "8,192", "25.00")
    told = explain(log)
    assert told.figures["kv_pool_bytes"] == 25 * GIB
    assert "50 GiB for KV, 409,600 tokens" in text(told, "several-starts").replace(
        "max_model_len 8,192, ", ""
    )


# Other engines


def test_sglang_starts_with_less_than_one_request() -> None:
    log = (
        "max_total_num_tokens=38141, chunked_prefill_size=8192, max_running_requests=33, "
        "context_len=131072"
    )
    told = explain(log)
    assert "context-exceeds-pool" in codes(told)
    assert told.figures["kv_pool_tokens"] == 38141


def test_sglang_recurrent_states_are_sized() -> None:
    log = (
        "Mamba Cache is allocated. max_mamba_cache_size: 97, conv_state size: 0.34GB, "
        "ssm_state size: 13.6GB"
    )
    assert "147.2 MiB each" in text(explain(log), "recurrent-state")


def test_tensorrt_prints_its_bytes_per_token() -> None:
    log = (
        "[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 91.46 GiB, "
        "available KV cache memory when calculating max tokens: 41.11 GiB, fraction is set "
        "0.85, kv "
        "size is 35136. device total memory 139.81 GiB\n"
        "[MemUsageChange] Allocated 17.16 GiB for max tokens in paged KV cache (524288).\n"
    )
    told = explain(log)
    assert told.engine == "tensorrt-llm"
    assert told.figures["kv_bytes_per_token_per_gpu"] == 35136
    assert told.figures["kv_pool_tokens"] == 524288


def test_llama_cpp_prints_cells() -> None:
    log = (
        "llama_context: n_ctx         = 4096\nllama_kv_cache: size =  512.00 MiB (  4096 "
        "cells,  32 "
        "layers,  1/1 seqs), K (f16):  256.00 MiB, V (f16):  256.00 MiB"
    )
    told = explain(log, config=LLAMA)
    assert told.figures["kv_bytes_per_token_per_gpu"] == 131072
    assert "matches-config" in codes(told)


def test_llama_cpp_caches_of_one_model_are_told_apart() -> None:
    log = """llama_context: n_ctx = 4096
llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells
llama_kv_cache: size =   64.00 MiB (  4096 cells,   4 layers,  1/1 seqs), K (f16):   32.00 \
MiB, V (f16):   32.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 1536 cells
llama_kv_cache: size =   60.00 MiB (  1536 cells,  20 layers,  1/1 seqs), K (f16):   30.00 \
MiB, V (f16):   30.00 MiB"""
    told = explain(log)
    rates = [item.text for item in told.findings if item.code == "implied-bytes-per-token"]
    assert ["16,38" in rates[0], "40,96" in rates[1]] == [True, True]
    assert "37.5%" in text(told, "window-cells")


def test_llama_cpp_buffers_of_several_devices_add_up() -> None:
    log = """llama_new_context_with_model: n_ctx      = 8192
llama_kv_cache_init:      CUDA0 KV buffer size =   544.00 MiB
llama_kv_cache_init:      CUDA1 KV buffer size =   480.00 MiB"""
    assert explain(log).figures["kv_bytes_per_token_per_gpu"] == 131072


def test_early_tensorrt_lines_are_read() -> None:
    log = "[TensorRT-LLM][INFO] Max tokens in paged KV cache: 7520. Allocating 3942645760 bytes."
    assert explain(log).figures["kv_bytes_per_token_per_gpu"] == 524288


def test_memory_of_a_rank_that_does_not_bind_is_no_contradiction() -> None:
    # vllm-project/vllm#21348: Qwen3-235B on 4 GPUs, 94 x 1 x 128 x 2 x 2 = 48,128 bytes a token.
    config = {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 94,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 40960,
    }
    log = "Available KV cache memory: 8.11 GiB\nGPU KV cache size: 178,880 tokens\n"
    told = explain(log, config=config, flags="--tensor-parallel-size 4")
    assert "1.01" in text(told, "binding-rank-not-shown")
    sglang = "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB"
    assert "matches-config" in codes(explain(sglang, config=config, flags="--tp-size 4"))


PUBLIC = {
    # vllm-project/vllm#13882
    "v0-overdrawn": (
        (
            "INFO model_runner.py:1115] Loading model weights took 5.2032 GB\n"
            "INFO worker.py:267] the current vLLM instance can use total_gpu_memory (8.00GiB) x "
            "gpu_memory_utilization (0.70) = 5.60GiB\n"
            "INFO worker.py:267] model weights take 5.20GiB; non_torch_memory takes 0.03GiB; "
            "PyTorch "
            "activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is "
            "-1.05GiB.\n"
            "INFO executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681\n"
            "INFO executor_base.py:116] Maximum concurrency for 4096 tokens per request: 0.00x\n"
        ),
        {"no-memory-for-kv", "budget-adds-up"},
    ),
    # vllm-project/vllm#44376
    "v1-hybrid-refusal": (
        (
            "(EngineCore pid=2739502) ERROR 06-03 14:24:40 [core.py:1165] ValueError: To serve "
            "at least"
            " one request with the model's max seq len (30000), (6.66 GiB KV cache is needed, "
            "which is "
            "larger than the available KV cache memory (5.44 GiB). Based on the available "
            "memory, the "
            "estimated maximum model length is 13528."
        ),
        {"refused-max-model-len", "fixed-cost-per-request"},
    ),
    # NVIDIA/TensorRT-LLM's memory document
    "tensorrt-blocks": (
        (
            "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: "
            "total: "
            "79.10 GiB, available: 70.48 GiB\n"
            "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4060\n"
            "[TensorRT-LLM][INFO] Number of tokens per block: 64.\n"
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 63.44 GiB for max tokens in paged "
            "KV cache"
            " (259840).\n"
        ),
        {"implied-bytes-per-token", "preallocated-not-needed"},
    ),
    # A server behind syslog, which writes colours as #033
    "syslog-colours": (
        (
            "[INFO ] PyProcess - model-stdout: #033[1;36m(VllmWorkerProcess pid=240)#033[0;0m INFO "
            "02-14 08:23:15 worker.py:266] model weights take 3.97GiB; non_torch_memory takes "
            "2.10GiB; "
            "PyTorch activation peak memory takes 0.36GiB; the rest of the memory reserved for "
            "KV Cache"
            " is 29.02GiB."
        ),
        {"pool-tokens-unknown"},
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_more_public_logs_are_explained(name: str) -> None:
    log, expected = PUBLIC[name]
    assert expected <= codes(explain(log))


def test_the_banner_tells_the_version() -> None:
    log = (
        "(APIServer pid=1) INFO [utils.py:299]  ▄▄ ▄█ █ █ █ ▀▄▀ █  version "
        "0.19.1rc1.dev301+g60995c\n"
    )
    assert explain(log).version == "0.19.1rc1.dev301+g60995c"


def test_a_need_of_all_stages_is_overstated_even_where_it_is_refused_rightly() -> None:
    # vllm-project/vllm#34076: 48 layers x 4 heads x 128 in 8 bits would be half of this.
    config = LLAMA | {"num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128}
    log = (
        "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). "
        "Based on the available memory, the estimated maximum model length is 34736."
    )
    told = explain(log, config=config, flags="--pipeline-parallel-size 2")
    assert "largest stage needs 12 GiB" in text(told, "pipeline-need-summed")


def test_an_old_version_is_told_to_keep_a_latent_cache_as_full_heads() -> None:
    # 60 layers x 16 heads x 256 x 2 x 2 bytes on each of 8 GPUs; the latent is 60 x 576 x 2.
    log = (
        "The model's max seq len (163840) is larger than the maximum number of tokens that can be "
        "stored in KV cache (13360)."
    )
    told = explain(log, config=DEEPSEEK_V2, flags="--tensor-parallel-size 8")
    assert told.figures["kv_pool_bytes"] == 13360 * 983_040
    assert "14.2 times" in text(told, "latent-cache-as-full-heads")
    newer = "vLLM API server version 0.8.5\n" + log
    assert explain(newer, config=DEEPSEEK_V2).figures["kv_pool_bytes"] == 13360 * 69_120
    assert "latent-cache-as-full-heads" not in codes(explain(newer, config=DEEPSEEK_V2))


def test_early_v1_refuses_in_gib_labelled_gb() -> None:
    log = (
        "ValueError: To serve at least one request with the models's max seq len (1048576), (24.00 "
        "GB KV cache is needed, which is larger than the available KV cache memory (9.97 GB)."
    )
    told = explain(log)
    assert "gb-means-gib" in codes(told)
    assert "14.03 GiB short" in text(told, "refused-max-model-len")


@pytest.mark.parametrize(
    "path",
    [
        "Qwen/Qwen3-14B",
        "/models/Qwen3-14B",
        "/root/.cache/huggingface/hub/models--Qwen--Qwen3-14B/snapshots/40c069824f4251a9",
    ],
)
def test_a_served_path_is_traced_to_its_model(path: str) -> None:
    log = f"non-default args: {{'model_tag': '{path}'}}\nAvailable KV cache memory: 6.51 GiB\n"
    assert "42,6" in text(explain(log), "tokens-from-config")


def test_a_cache_dtype_a_model_cannot_have_is_a_finding() -> None:
    log = "Available KV cache memory: 6.51 GiB\nGPU KV cache size: 42,656 tokens\n"
    for dtype in ("fp8_ds_mla", "nonsense", "int4_per_token_head"):
        told = explain(log, config=LLAMA, flags=f"--kv-cache-dtype {dtype}")
        assert told.figures["kv_pool_tokens"] == 42656
    assert "flags-contradict-config" in codes(explain(log, config=LLAMA, flags="kv_cache_dtype=x"))
