"""Budget, blocks, concurrency and refusals: the goldens, the lesson's figures, public servers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvdocs.catalog import get_gpu, get_model
from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags, parse_flags
from kvdocs.gpu import Gpu
from kvdocs.model import LayerKind, kv_cost, parse_config
from kvdocs.sizing import (
    Budget,
    Overhead,
    capacity,
    capacity_case,
    default_max_num_batched_tokens,
    default_max_num_seqs,
    lesson_budget,
    real_budget,
    stored_flags,
)
from kvdocs.units import GB, GIB, MIB, format_gib_as_vllm
from tests.model_facts import config_of

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "capacity_cases.json").read_text())
RESULTS = {
    result["name"]: result
    for result in json.loads((DATA / "capacity_results.json").read_text())["results"]
}
H100 = Gpu(
    "H100-SXM5-80GB", 80 * GB, 81559 * MIB, 85018877624, 3.35e12, 989e12, 1979e12, 64e9, 450e9
)
RTX_4090 = Gpu("RTX 4090", 24 * GB, 24564 * MIB, 24081 * MIB, 1e12, 165e12, 330e12, 32e9, None)
B200 = Gpu("B200", 180 * GB, 183359 * MIB, None, 8e12, 2.2e15, 4.5e15, 64e9, 900e9)
A100 = Gpu("A100-SXM4-80GB", 80 * GB, 81920 * MIB, None, 2e12, 312e12, None, 32e9, 300e9)
LLAMA_8B = parse_config(config_of("meta-llama/Llama-3.1-8B"))
LLAMA_70B = parse_config(config_of("meta-llama/Llama-3.1-70B"))
LESSON_8B = lesson_budget(H100, weights_bytes=2 * 8.03e9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_case_is_answered_as_vllm_answers_it(case):
    assert capacity_case(case) == RESULTS[case["name"]]


# The lesson's round numbers


def test_lesson_budget_leaves_53_44_gb():
    assert format_gib_as_vllm(LESSON_8B.requested_bytes) == "67.06"
    assert LESSON_8B.kv_bytes == 53_440_000_000
    assert [line.split()[1] for line in LESSON_8B.lines()[1:]] == ["16.06", "1.5", "1", "53.44"]


def test_lesson_pool_is_407_714_tokens_or_25_482_blocks():
    pool = capacity(LLAMA_8B, LESSON_8B, ServerFlags(max_model_len=8192))
    assert pool.kv_pool_tokens == 407_714
    assert pool.num_gpu_blocks == 25_482
    assert pool.kv_block_tokens == 407_712
    assert pool.kv_cache_size_tokens == 407_712
    assert pool.starts


@pytest.mark.parametrize(("length", "requests"), [(8192, 49), (32768, 12), (131072, 3)])
def test_lesson_concurrency_at_full_length(length, requests):
    assert capacity(LLAMA_8B, LESSON_8B, ServerFlags(max_model_len=length)).max_requests == requests


@pytest.mark.parametrize(("kv_heads", "conversations"), [(8, 48), (64, 6)])
def test_lesson_70b_on_four_gpus(kv_heads, conversations):
    config = config_of("meta-llama/Llama-3.1-70B") | {"num_key_value_heads": kv_heads}
    budget = lesson_budget(H100, weights_bytes=2 * 70.6e9, tensor_parallel_size=4)
    flags = ServerFlags(tensor_parallel_size=4, max_model_len=8192)
    pool = capacity(parse_config(config), budget, flags)
    assert pool.kv_pool_bytes == 130_800_000_000
    assert pool.max_requests == conversations


def test_budget_prints_as_a_subtraction_that_adds_up():
    for budget in (LESSON_8B, lesson_budget(H100, weights_bytes=141.2e9, tensor_parallel_size=4)):
        signs = {" ": 1, "-": -1}
        terms = [(line[0], float(line[1:].split()[0])) for line in budget.lines()]
        total = sum(signs[sign] * value for sign, value in terms if sign in signs)
        assert total == pytest.approx(terms[-1][1])


# Real servers, from public logs


def test_recorded_h100_server_is_inside_the_range():
    # llm-d-benchmark: Llama 3.1 8B, vLLM with util 0.9 and 71.26 GiB requested, 51.38 GiB of cache
    flags = parse_flags(["--gpu-memory-utilization", "0.9"], vllm_version="0.11.0")
    span = real_budget(H100, weights_bytes=14.99 * GIB, flags=flags)
    assert span.low.kv_bytes < 51.38 * GIB < span.high.kv_bytes
    assert format_gib_as_vllm(span.low.requested_bytes) == "71.26"
    assert span.basis
    assert span.sources


def test_recorded_4090_server_is_inside_the_range():
    # LLMServingSim: Llama 3.1 8B, vLLM 0.19, util 0.9: 41,408 tokens
    flags = ServerFlags.for_version("0.19.0")
    span = real_budget(RTX_4090, weights_bytes=14.99 * GIB, flags=flags)
    length = ServerFlags(max_model_len=4096)
    low, high = (capacity(LLAMA_8B, budget, length) for budget in (span.low, span.high))
    assert low.kv_block_tokens < 41_408 < high.kv_block_tokens


def test_measured_overhead_closes_the_range():
    overhead = Overhead(activation_bytes=4.76 * GIB, non_torch_bytes=0.13 * GIB)
    flags = parse_flags(["--gpu-memory-utilization", "0.9"])
    span = real_budget(H100, weights_bytes=14.99 * GIB, flags=flags, overhead=overhead)
    assert span.low == span.high
    assert span.low.kv_bytes / GIB == pytest.approx(51.38, abs=0.01)


def test_gpt_oss_120b_does_not_start_on_one_h100_by_default():
    # vllm-project/vllm#23278: 65.97 GiB of weights left -2.14 GiB
    flags = ServerFlags.for_version("0.10.2")
    span = real_budget(H100, weights_bytes=65.9651 * GIB, flags=flags)
    model = parse_config(config_of("openai/gpt-oss-20b"))
    refused = capacity(model, span.low, flags)
    assert not refused.starts
    assert "No available memory for the cache blocks" in (refused.refusal or "")
    assert refused.max_model_len_that_fits == 0
    assert refused.kv_pool_bytes == 0


def test_offloaded_weights_make_room():
    flags = parse_flags(["--cpu-offload-gb", "4"])
    plain = real_budget(H100, weights_bytes=16e9, flags=ServerFlags())
    less = real_budget(H100, weights_bytes=16e9, flags=flags)
    assert less.low.kv_bytes - plain.low.kv_bytes == pytest.approx(4 * GIB, abs=2)
    with pytest.raises(FlagError, match="more than the weights"):
        real_budget(H100, weights_bytes=1e9, flags=flags)


@pytest.mark.parametrize(
    ("gpu", "version", "tokens", "requests"),
    [
        (H100, "0.33.0", 8192, 1024),
        (RTX_4090, "0.33.0", 2048, 256),
        (A100, "0.33.0", 2048, 256),
        (B200, "0.33.0", 16384, 1024),
        (B200, "0.26.0", 8192, 1024),
        (H100, "0.6.6", 2048, 256),
    ],
)
def test_batch_defaults_by_gpu_and_version(gpu, version, tokens, requests):
    flags = ServerFlags.for_version(version)
    assert default_max_num_batched_tokens(gpu, flags) == tokens
    assert default_max_num_seqs(gpu, flags) == requests


# Flags


def test_refusal_is_vllms_text_with_the_longest_that_fits():
    refused = capacity(LLAMA_8B, 8 * GIB, ServerFlags())
    assert refused.refusal == RESULTS["llama8b_len_not_fit"]["error"].removeprefix("ValueError: ")
    assert refused.max_model_len_that_fits == 65_520
    started = capacity(LLAMA_8B, 8 * GIB, ServerFlags(max_model_len=65_520))
    assert started.starts
    assert not capacity(LLAMA_8B, 8 * GIB, ServerFlags(max_model_len=65_521)).starts


def test_auto_fit_takes_the_longest_that_fits():
    pool = capacity(LLAMA_8B, 8 * GIB, parse_flags(["--max-model-len", "-1"]))
    assert (pool.max_model_len, pool.starts) == (65_520, True)
    assert "reduced from 131072 to 65520" in pool.log[0]


def test_fixed_cache_bytes_replace_the_budget():
    flags = parse_flags(["--kv-cache-memory-bytes", "8G", "--max-model-len", "8192"])
    pool = capacity(LLAMA_8B, LESSON_8B, flags)
    assert pool.num_gpu_blocks == 4096
    span = real_budget(H100, weights_bytes=16e9, flags=flags)
    assert span.low.kv_bytes == 8 * GIB
    assert "--kv-cache-memory-bytes" in span.low.lines()[0]


def test_block_override_counts_even_past_the_memory():
    flags = ServerFlags(num_gpu_blocks_override=1_000_000, max_model_len=8192)
    assert capacity(LLAMA_8B, 1 * GIB, flags).num_gpu_blocks == 1_000_000


def test_data_parallel_copies_do_not_share_a_pool():
    flags = ServerFlags(max_model_len=8192, data_parallel_size=3)
    pool = capacity(LLAMA_8B, LESSON_8B, flags)
    assert pool.num_gpu_blocks == 25_482
    assert pool.total_max_concurrency == pytest.approx(3 * pool.max_concurrency)


def test_gpu_with_the_least_memory_binds():
    flags = ServerFlags(max_model_len=8192, pipeline_parallel_size=2)
    pool = capacity(LLAMA_8B, [20 * GIB, 18 * GIB], flags)
    assert pool.num_gpu_blocks == RESULTS["pp2_uneven_mem"]["num_blocks"]
    assert pool.kv_pool_bytes_per_gpu == 18 * GIB


def test_tensor_parallelism_past_the_kv_heads_adds_no_tokens():
    pools = [
        capacity(LLAMA_8B, 20 * GIB, ServerFlags(max_model_len=8192, tensor_parallel_size=size))
        for size in (8, 16)
    ]
    assert pools[0].num_gpu_blocks == pools[1].num_gpu_blocks


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-tp 3", "attention heads"),
        ("-pp 33", "1 to 32"),
        ("--max-model-len 200k", "greater than the derived max_model_len"),
    ],
)
def test_flags_that_the_model_cannot_take_are_refused(line, words):
    with pytest.raises(FlagError, match=words):
        capacity(LLAMA_8B, 20 * GIB, parse_flags(line.split()))


@pytest.mark.parametrize(
    ("heads", "kv_heads", "line", "message"),
    [
        (32, 8, "-dcp 2", "tp_size=1 must be divisible by dcp_size=2."),
        (
            32,
            8,
            "-tp 8 -dcp 2",
            (
                "tensor parallel size 8 must be greater than total num kv heads 8 when enable "
                "decode context parallel for GQA/MQA"
            ),
        ),
        (
            32,
            8,
            "-tp 16 -dcp 4",
            (
                "decode context parallel size must less than or equal to (tensor parallel size 16 "
                "// total num kv heads 8) = 2, but got 4"
            ),
        ),
        (
            48,
            16,
            "-tp 48 -dcp 2",
            (
                "Total number of q per kv attn heads (3) must be divisible by dcp world size when "
                "enable decode context parallel for GQA (2)."
            ),
        ),
    ],
)
def test_tokens_are_spread_only_over_copies_of_a_kv_head(heads, kv_heads, line, message):
    config = config_of("meta-llama/Llama-3.1-8B")
    split = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128}
    model = parse_config({**config, **split})
    with pytest.raises(FlagError, match=re.escape(message)):
        capacity(model, 20 * GIB, parse_flags(line.split()))


def test_a_spread_over_copies_holds_twice_the_tokens():
    copied, spread = (
        capacity(LLAMA_8B, 20 * GIB, parse_flags(f"-tp 16 -dcp {size}".split())) for size in (1, 2)
    )
    assert spread.max_concurrency == pytest.approx(2 * copied.max_concurrency)
    for size in ("kv_pool_tokens", "kv_block_tokens", "kv_cache_size_tokens"):
        assert getattr(spread, size) == 2 * getattr(copied, size)


def test_wrong_number_of_gpus_is_refused():
    with pytest.raises(FlagError, match="2 figures of available memory for 1 GPUs"):
        capacity(LLAMA_8B, [1.0, 2.0])


# Hybrid models, as vLLM groups them


def test_gemma_3_27b_has_one_full_and_six_padded_window_groups():
    pool = capacity(parse_config(config_of("google/gemma-3-27b-it")), 40 * GIB)
    groups = [(group.name, group.num_layers) for group in pool.grouping.groups]
    assert sorted(groups) == sorted(
        [("FullAttentionSpec", 10)]
        + [("SlidingWindowSpec", 9)] * 4
        + [("SlidingWindowSpec", 8)] * 2
    )
    assert any("padded" in note for note in pool.notes)
    assert "Add 8 padding layers" in pool.log[0]


def test_without_the_hybrid_manager_every_layer_keeps_the_whole_context():
    model = parse_config(config_of("openai/gpt-oss-20b"))
    flags = parse_flags(["--disable-hybrid-kv-cache-manager"])
    hybrid, plain = capacity(model, 20 * GIB), capacity(model, 20 * GIB, flags)
    assert [group.num_layers for group in plain.grouping.groups] == [24]
    assert plain.kv_block_tokens == 20 * GIB // (24 * 2 * 8 * 64 * 2) // 16 * 16
    assert plain.max_concurrency < hybrid.max_concurrency


def test_llama_4_is_planned_without_its_chunks_as_vllm_does_by_default():
    model = parse_config(config_of("meta-llama/Llama-4-Scout-17B-16E-Instruct"))
    pool = capacity(model, 60 * GIB, ServerFlags(max_model_len=131072))
    assert [group.num_layers for group in pool.grouping.groups] == [48]
    assert any("chunked" in note for note in pool.notes)


def test_qwen3_next_block_grows_to_hold_a_state():
    # a state of 3 x 8,192 + 32 x 128 x 128 bf16 values, against 2,048 bytes of K and V a token
    model = parse_config(config_of("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    pool = capacity(model, 40 * GIB)
    assert pool.block_size == 544
    assert [group.num_layers for group in pool.grouping.groups] == [12] * 4


def qwen3_5(layers: int, kv_heads: int, value_heads: int):
    return parse_config(
        {
            "model_type": "qwen3_5",
            "text_config": {
                "model_type": "qwen3_5_text",
                "num_hidden_layers": layers,
                "hidden_size": 2560,
                "num_attention_heads": 24,
                "num_key_value_heads": kv_heads,
                "head_dim": 256,
                "linear_num_key_heads": 16,
                "linear_num_value_heads": value_heads,
                "mamba_ssm_dtype": "float32",
                "max_position_embeddings": 262144,
            },
        }
    )


def test_recorded_qwen3_5_27b_server():
    # vllm-project/vllm#40691: blocks of 784 tokens, 1,487 of them, 33.04 requests of 32,768 tokens;
    # printed as 290,864 tokens then, 1,082,800 by today's rule
    flags = ServerFlags(
        max_model_len=32768, num_gpu_blocks_override=1487, enable_prefix_caching=False
    )
    pool = capacity(qwen3_5(64, 4, 48), 1 * GIB, flags)
    # A public log of this model on vLLM 0.28 (one GPU, bf16) has both lines to the digit.
    raised, padded = pool.worker_log
    assert raised.startswith("Setting attention block size to 784 tokens to ensure")
    assert padded.startswith("Padding mamba page size by 0.13% to ensure")
    assert pool.block_size == 784
    assert [group.num_layers for group in pool.grouping.groups] == [16] * 4
    assert round(pool.max_concurrency, 2) == 33.04
    assert (pool.kv_block_tokens, pool.kv_cache_size_tokens) == (290_864, 1_082_800)


def test_recorded_qwen3_5_4b_block_size():
    # vllm-project/vllm#40696: prefix hits come in steps of 528 tokens
    flags = ServerFlags(max_model_len=1024)
    assert capacity(qwen3_5(32, 4, 32), 20 * GIB, flags).block_size == 528


def test_model_with_states_only_holds_one_block_per_request():
    config = {
        "model_type": "mamba",
        "num_hidden_layers": 64,
        "hidden_size": 2560,
        "state_size": 16,
        "conv_kernel": 4,
        "expand": 2,
    }
    model = parse_config(config)
    pool = capacity(model, 1 * GIB, ServerFlags(max_model_len=4096))
    assert pool.max_concurrency == 1 * GIB // (64 * 5120 * (3 + 16) * 2)
    assert pool.kv_block_tokens == pool.kv_cache_size_tokens == pool.num_gpu_blocks * 4096


def test_recorded_gemma_4_31b_without_the_hybrid_manager():
    # tenstorrent/tt-xla#5727: 901,120 bytes per token when every layer pays for every token
    text = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 60,
        "hidden_size": 5376,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "head_dim": 256,
        "global_head_dim": 512,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    }
    model = parse_config({"model_type": "gemma4", "text_config": text})
    flags = ServerFlags(disable_hybrid_kv_cache_manager=True, max_model_len=128)
    pool = capacity(model, 20 * GIB, flags)
    assert pool.bytes_per_block == 16 * 901_120


def test_prefix_caching_takes_a_second_state_block():
    model = parse_config(config_of("ai21labs/Jamba-v0.1"))
    shared = capacity(model, 20 * GIB, parse_flags(["--enable-prefix-caching"]))
    alone = capacity(model, 20 * GIB, parse_flags(["--no-enable-prefix-caching"]))
    assert alone.max_concurrency > shared.max_concurrency


def test_indexer_shares_the_group_of_its_latent():
    model = parse_config(config_of("deepseek-ai/DeepSeek-V3.2"))
    pool = capacity(model, 60 * GIB, ServerFlags(tensor_parallel_size=8))
    assert pool.bytes_per_block == 64 * kv_cost(model).bytes_per_token


@pytest.mark.parametrize(
    ("model", "dtype", "tokens"),
    [
        # FLASH_ATTN_MLA takes multiples of 16; FLASHMLA, for fp8, and the sparse backends 64.
        ("deepseek-ai/DeepSeek-V3", "auto", 16),
        ("deepseek-ai/DeepSeek-V3", "bfloat16", 16),
        ("deepseek-ai/DeepSeek-V3", "fp8", 64),
        ("deepseek-ai/DeepSeek-V3.2", "auto", 64),
        ("meta-llama/Llama-3.1-8B", "fp8", 16),
    ],
)
def test_the_block_size_is_that_of_hoppers_first_backend(model, dtype, tokens):
    flags = ServerFlags(tensor_parallel_size=8, kv_cache_dtype=dtype)
    assert capacity(parse_config(config_of(model)), 60 * GIB, flags).block_size == tokens
    asked = replace(flags, block_size=128)
    assert capacity(parse_config(config_of(model)), 60 * GIB, asked).block_size == 128


def test_model_without_a_cache_starts_with_one_block():
    config = {
        "model_type": "nemotron_h",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hybrid_override_pattern": "-E",
    }
    pool = capacity(parse_config(config), 1 * GIB)
    assert (pool.starts, pool.num_gpu_blocks) == (True, 1)


def test_flag_that_could_change_the_cache_is_noted():
    flags = parse_flags(["--speculative-config", "{}"])
    assert any("--speculative-config" in note for note in capacity(LLAMA_8B, 40 * GIB, flags).notes)


def test_budget_without_overhead_gives_all_it_claims():
    budget = Budget(
        total_bytes=10.5, utilization=0.5, weights_bytes=0, activation_bytes=0, non_torch_bytes=0
    )
    assert (budget.requested_bytes, budget.kv_bytes) == (6, 6)


# The cache dtype that a GPU stores

SPARSE = ("deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5", "zai-org/GLM-5.2")


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_ds_mla"])
def test_hopper_packs_a_sparse_latent_whatever_fp8_is_asked_for(name, dtype):
    model, flags = get_model(name).model, ServerFlags(kv_cache_dtype=dtype)
    latents = sum(group.count for group in model.group(LayerKind.LATENT))
    indexers = kv_cost(model).bytes_per_token - latents * 2 * 576
    for gpu in ("h100", "h200", "h20", "gh200", "lesson"):
        stored = stored_flags(model, get_gpu(gpu), flags)
        pool = capacity(model, 40 * GIB, replace(stored, max_model_len=8192))
        assert pool.bytes_per_block == 64 * (latents * 656 + indexers)


@pytest.mark.parametrize(
    ("name", "gpu", "dtype"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "b200", "fp8"),
        ("deepseek-ai/DeepSeek-V3.2", "h200", "auto"),
        ("deepseek-ai/DeepSeek-V3.2", "h200", "bfloat16"),
        ("deepseek-ai/DeepSeek-V3", "h200", "fp8"),
        ("meta-llama/Llama-3.1-8B", "lesson", "fp8"),
    ],
)
def test_everything_else_is_stored_as_asked(name, gpu, dtype):
    flags = ServerFlags(kv_cache_dtype=dtype)
    assert stored_flags(get_model(name).model, get_gpu(gpu), flags) == flags


def test_without_a_gpu_a_sparse_latent_costs_what_is_asked_with_a_note():
    cost = kv_cost(get_model(SPARSE[0]).model, kv_cache_dtype="fp8")
    assert cost.bytes_per_token == 61 * (576 + 132) == 43_188
    assert any("656 bytes a layer" in note for note in cost.notes)
