"""Any config to bytes of KV cache: the known models, the traps, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kvdocs.errors import ConfigError, FlagError
from kvdocs.model import LayerKind, kv_cost, parse_config
from tests.model_facts import config_of, model_facts

FACTS = model_facts()
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_known_model_costs_what_was_measured(fact):
    cost = kv_cost(parse_config(fact["config"]), kv_cache_dtype="bfloat16")
    found = {
        "bytes_per_token": cost.bytes_per_token,
        "window_bytes_per_token": cost.window_bytes_per_token,
        "window_tokens": cost.window_tokens,
        "constant_bytes_per_sequence": cost.constant_bytes_per_sequence,
        "bytes_at_4096": cost.bytes_at(4096),
        "bytes_at_32768": cost.bytes_at(32768),
    }
    assert found == {key: fact[key] for key in found}


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_known_model_has_the_layers_it_was_built_with(fact):
    model = parse_config(fact["config"])
    counts = {
        "full": model.count(LayerKind.FULL) + model.count(LayerKind.LATENT),
        "windowed": model.count(LayerKind.SLIDING) + model.count(LayerKind.CHUNKED),
        "recurrent": model.count(LayerKind.RECURRENT),
        "none": model.count(LayerKind.NONE),
        "shared": model.count(LayerKind.SHARED),
    }
    assert {key: count for key, count in counts.items() if count} == fact["layers"]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_text_and_object_and_bytes_read_the_same(fact):
    text = json.dumps(fact["config"])
    assert parse_config(text) == parse_config(fact["config"]) == parse_config(text.encode())


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_fp8_halves_all_but_state_and_indexer(fact):
    model = parse_config(fact["config"])
    full, half = kv_cost(model, kv_cache_dtype="auto"), kv_cost(model, kv_cache_dtype="fp8")
    indexer = sum(group.indexer_bytes_per_token * group.count for group in model.layers)
    assert (half.bytes_per_token - indexer) * 2 == full.bytes_per_token - indexer
    assert half.window_bytes_per_token * 2 == full.window_bytes_per_token
    assert half.constant_bytes_per_sequence == full.constant_bytes_per_sequence


def test_lesson_figures_of_the_70b_model():
    model = parse_config(config_of("meta-llama/Llama-3.1-70B"))
    as_mha = parse_config(config_of("meta-llama/Llama-3.1-70B") | {"num_key_value_heads": 64})
    assert kv_cost(model).bytes_per_token == 327_680
    assert kv_cost(model, kv_cache_dtype="fp8").bytes_per_token == 163_840
    assert kv_cost(as_mha).bytes_per_token == 2_621_440
    assert kv_cost(model).bytes_at(32768) == 10_737_418_240


# Traps: where a config misleads


def test_falcon_ignores_multi_query_under_the_new_architecture():
    config = {
        "model_type": "falcon",
        "num_hidden_layers": 60,
        "hidden_size": 8192,
        "num_attention_heads": 128,
        "num_kv_heads": 8,
        "multi_query": True,
        "new_decoder_architecture": True,
    }
    assert kv_cost(parse_config(config)).bytes_per_token == 60 * 2 * 8 * 64 * 2


def test_falcon_of_the_first_release_is_read_under_its_old_names():
    config = {"model_type": "RefinedWebModel", "n_layer": 32, "hidden_size": 4544, "n_head": 71}
    assert kv_cost(parse_config(config)).bytes_per_token == 8192


def test_window_in_the_file_counts_only_when_it_is_used():
    config = config_of("Qwen/Qwen2.5-7B-Instruct")
    used = config | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}
    assert parse_config(config).count(LayerKind.SLIDING) == 0
    assert parse_config(used).count(LayerKind.SLIDING) == 8


def test_null_window_means_none_and_an_absent_one_means_the_class_default():
    config = config_of("mistralai/Mistral-7B-v0.1")
    off = parse_config(config | {"sliding_window": None})
    absent = parse_config(without(config, "sliding_window"))
    assert off.count(LayerKind.FULL) == 32
    assert kv_cost(absent).window_tokens == 4096
    assert any("sliding_window = 4096" in note for note in absent.notes)


def test_gemma_2_alternates_though_the_file_does_not_say_so():
    config = {
        "model_type": "gemma2",
        "num_hidden_layers": 42,
        "hidden_size": 3584,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "sliding_window": 4096,
    }
    model = parse_config(config)
    assert [group.positions[:3] for group in model.layers] == [(0, 2, 4), (1, 3, 5)]
    assert [str(group.kind) for group in model.layers] == ["sliding", "full"]
    assert any("gemma2" in note for note in model.notes)


def test_nested_config_fills_missing_fields_from_its_class():
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    # Gemma-3-4B: 5 full layers of 34, 4 KV heads of 256
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 5 * 2 * 4 * 256 * 2
    assert cost.window_bytes_per_token == 29 * 2 * 4 * 256 * 2


def test_llava_takes_the_class_of_its_language_model():
    config = {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}}
    assert kv_cost(parse_config(config)).bytes_per_token == 524_288


def test_thinker_is_found_inside_an_omni_model():
    text = config_of("Qwen/Qwen3-30B-A3B")
    config = {
        "model_type": "qwen3_omni_moe",
        "thinker_config": {"model_type": "qwen3_omni_moe_thinker", "text_config": text},
    }
    assert kv_cost(parse_config(config)).bytes_per_token == 98_304


def test_mimo_has_k_and_v_of_different_width():
    config = {
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 48,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "hybrid_layer_pattern": [0] + [1] * 4 + [0] + ([1] * 5 + [0]) * 7,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 9 * 4 * (192 + 128) * 2
    assert cost.window_bytes_per_token == 39 * 8 * (192 + 128) * 2


def test_gemma_4_shares_the_cache_of_its_last_layers():
    # Gemma-4-E2B: the last 20 of 35 layers read an earlier cache; 3 full ones are left
    text = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 35,
        "hidden_size": 1536,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "num_kv_shared_layers": 20,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    }
    cost = kv_cost(parse_config({"model_type": "gemma4", "text_config": text}))
    assert cost.bytes_per_token == 3 * 2 * 512 * 2
    assert cost.window_bytes_per_token == 12 * 2 * 256 * 2


def test_per_layer_config_widens_single_layers():
    text = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 6,
        "hidden_size": 2304,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 512,
        "per_layer_config": {"05": {"head_dim": 512}},
    }
    cost = kv_cost(parse_config(text))
    assert cost.bytes_per_token == 2 * 4 * 512 * 2
    assert cost.window_bytes_per_token == 5 * 2 * 4 * 256 * 2


def test_kimi_linear_mixes_latents_and_a_float32_state():
    config = {
        "model_type": "kimi_linear",
        "num_hidden_layers": 4,
        "hidden_size": 2304,
        "num_attention_heads": 32,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "linear_attn_config": {
            "kda_layers": [1, 2, 3],
            "full_attn_layers": [4],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 576 * 2
    assert cost.constant_bytes_per_sequence == 3 * (3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4)


def test_granite_hybrid_says_attention_not_full():
    config = {
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 40,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "layer_types": ["mamba"] * 5 + ["attention"] + ["mamba"] * 34,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_n_groups": 1,
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 2 * 8 * 128 * 2
    assert cost.constant_bytes_per_sequence == 39 * (3 * 8448 + 128 * 64 * 128) * 2


def test_only_layers_with_an_indexer_pay_for_it():
    config = config_of("deepseek-ai/DeepSeek-V3.2") | {"index_topk_freq": 4}
    # layers 0 to 1 and then every fourth: 0, 1, 5, 9, ... 57
    model = parse_config(config)
    with_indexer = [group for group in model.layers if group.indexer_bytes_per_token]
    assert sum(group.count for group in with_indexer) == 1 + 15
    assert model.count(LayerKind.LATENT) == 61


def test_model_whose_cache_dtype_depends_on_the_gpu_says_so():
    config = config_of("deepseek-ai/DeepSeek-V3.2") | {"model_type": "glm_moe_dsa"}
    assert any("Blackwell" in note for note in parse_config(config).notes)


def test_longcat_has_two_latents_in_each_layer():
    config = {
        "model_type": "longcat_flash",
        "num_layers": 28,
        "hidden_size": 6144,
        "num_attention_heads": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    }
    assert kv_cost(parse_config(config)).bytes_per_token == 2 * 28 * 576 * 2


def test_falcon_h1_keeps_attention_and_state_in_one_layer():
    config = {
        "model_type": "falcon_h1",
        "num_hidden_layers": 2,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_d_ssm": 1536,
        "mamba_n_heads": 24,
        "mamba_d_head": 64,
        "mamba_n_groups": 1,
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 2 * 2 * 2 * 128 * 2
    assert cost.constant_bytes_per_sequence == 2 * (3 * (1536 + 256) + 1536 * 128) * 2


def test_yarn_length_is_taken_as_it_stands_and_linear_scaling_multiplies():
    scaled = LLAMA | {"max_position_embeddings": 4096}
    yarn = {"rope_type": "yarn", "factor": 4.0}
    linear = {"rope_type": "linear", "factor": 4.0}
    assert parse_config(scaled | {"rope_scaling": yarn}).max_model_len == 4096
    assert parse_config(scaled | {"rope_scaling": linear}).max_model_len == 16384


def test_weight_quantization_leaves_the_cache_and_a_cache_scheme_does_not():
    weights = LLAMA | {"quantization_config": {"quant_method": "fp8"}}
    scheme = {"num_bits": 8, "type": "float"}
    packed = LLAMA | {
        "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
    }
    modelopt = LLAMA | {
        "quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
    }
    assert kv_cost(parse_config(weights)).bytes_per_token == 131_072
    assert kv_cost(parse_config(packed)).bytes_per_token == 65_536
    assert kv_cost(parse_config(modelopt)).kv_cache_dtype == "fp8_e4m3"
    assert kv_cost(parse_config(packed), kv_cache_dtype="bfloat16").bytes_per_token == 131_072


# Several GPUs


@pytest.mark.parametrize(
    ("tensor_parallel_size", "per_gpu"), [(1, 131072), (2, 65536), (8, 16384), (16, 16384)]
)
def test_tensor_parallel_divides_heads_and_then_copies_them(tensor_parallel_size, per_gpu):
    cost = kv_cost(parse_config(LLAMA), tensor_parallel_size=tensor_parallel_size)
    assert cost.bytes_per_token_per_gpu == per_gpu
    assert cost.bytes_per_token == 131072


def test_latent_is_copied_to_every_gpu():
    cost = kv_cost(parse_config(config_of("deepseek-ai/DeepSeek-V3")), tensor_parallel_size=8)
    assert cost.bytes_per_token_per_gpu == cost.bytes_per_token == 70_272


def test_ten_kv_heads_do_not_go_with_four_gpus():
    with pytest.raises(FlagError, match="4 does not go with 10 KV heads"):
        kv_cost(parse_config(config_of("microsoft/phi-4")), tensor_parallel_size=4)


def test_pipeline_stage_with_the_most_layers_binds():
    config = LLAMA | {"num_hidden_layers": 30}
    cost = kv_cost(parse_config(config), pipeline_parallel_size=4)
    assert cost.bytes_per_token_per_gpu == 8 * 4096  # 7, 8, 8 and 7 layers
    assert cost.binding_stage == 1


def test_single_mamba_group_is_copied_to_every_gpu():
    config = {
        "model_type": "mamba2",
        "num_hidden_layers": 1,
        "hidden_size": 1024,
        "num_heads": 32,
        "head_dim": 64,
        "n_groups": 1,
        "state_size": 128,
        "conv_kernel": 4,
    }
    cost = kv_cost(parse_config(config), tensor_parallel_size=2)
    conv, state = 3 * (1024 + 2 * 128) * 2, 16 * 64 * 128 * 2
    assert cost.constant_bytes_per_sequence_per_gpu == conv + state
    assert cost.bytes_at(1_000_000) == 0


# Refused, by name


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "model_type"),
        (without(LLAMA, "num_hidden_layers"), "num_hidden_layers"),
        (without(LLAMA, "num_attention_heads"), "num_attention_heads"),
        (without(LLAMA, "hidden_size"), "hidden_size"),
        (LLAMA | {"num_hidden_layers": -1}, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": "32"}, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": 10**8}, "num_hidden_layers"),
        (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads"),
        (LLAMA | {"num_key_value_heads": True}, "num_key_value_heads"),
        (LLAMA | {"hidden_size": 4097}, "head_dim"),
        (LLAMA | {"layer_types": ["sliding_attention"] * 32}, "layer_types"),
        (LLAMA | {"sliding_window": 4096}, "sliding_window"),
        (LLAMA | {"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "bert", "num_hidden_layers": 12}, "model_type"),
        ({"model_type": "whisper", "d_model": 1280}, "model_type"),
        ({"model_type": "deepseek_v3", "num_hidden_layers": 61}, "kv_lora_rank"),
        (
            {"model_type": "deepseek_v3", "num_hidden_layers": 61, "kv_lora_rank": 512},
            "qk_rope_head_dim",
        ),
    ],
)
def test_wrong_or_missing_field_is_refused_by_name(config, field):
    with pytest.raises(ConfigError) as error:
        parse_config(config)
    assert error.value.field == field
    assert field.split(".")[-1] in str(error.value)


def test_error_names_the_field_inside_a_nested_config():
    config = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "head_dim": "x"}}
    with pytest.raises(ConfigError) as error:
        parse_config(config)
    assert error.value.field == "text_config.head_dim"


@pytest.mark.parametrize("word", ["rwkv", "swa", "", None, 3])
def test_unknown_layer_word_is_refused(word):
    types = ["full_attention"] * 23 + [word]
    with pytest.raises(ConfigError, match="layer_types"):
        parse_config(config_of("openai/gpt-oss-20b") | {"layer_types": types})


def test_layer_list_of_the_wrong_length_is_refused():
    with pytest.raises(ConfigError, match="23 entries for 24 layers"):
        parse_config(config_of("openai/gpt-oss-20b") | {"layer_types": ["full_attention"] * 23})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing to read"),
        ("   \n", "nothing to read"),
        ("<!DOCTYPE html><html></html>", "web page"),
        ("[1, 2]", "a list"),
        ("3", "JSON object"),
        ('{"model_type": "llama"', "cut off"),
        ("model_type: llama", "starts with {"),
        ('{"model_type": "llama", "num_hidden_layers": NaN}', "num_hidden_layers is nan"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("[" * 200_000, "not JSON"),
    ],
)
def test_what_is_no_config_is_told_apart(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_config(text)


@pytest.mark.parametrize(("megabytes", "words"), [(5, "model_type"), (50, "far below")])
def test_huge_paste_is_answered_at_once(megabytes, words):
    numbers = "[" + "1," * (megabytes * 10**6 // 2) + "1]"
    started = time.perf_counter()
    with pytest.raises(ConfigError, match=words):
        parse_config('{"numbers": ' + numbers + "}")
    assert time.perf_counter() - started < 3


def test_layer_list_may_go_on_with_prediction_layers():
    # Step-3.5 lists 45 layers and 3 that predict further tokens
    types = (["full_attention"] + ["sliding_attention"] * 3) * 12
    config = {
        "model_type": "step3p5",
        "num_hidden_layers": 45,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_attention_groups": 8,
        "head_dim": 128,
        "sliding_window": 512,
        "num_nextn_predict_layers": 3,
        "layer_types": types,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 12 * 2 * 8 * 128 * 2
    assert cost.window_bytes_per_token == 33 * 2 * 8 * 128 * 2
    with pytest.raises(ConfigError, match="47 entries"):
        parse_config(config | {"layer_types": types[:47]})


# Types without a row


def test_unknown_type_with_plain_fields_is_read_as_dense_and_says_so():
    model = parse_config(LLAMA | {"model_type": "brand_new"})
    assert kv_cost(model).bytes_per_token == 131_072
    assert "brand_new" in model.notes[0]


def test_unknown_type_may_list_its_windows():
    types = ["sliding_attention", "full_attention"] * 16
    config = LLAMA | {"model_type": "brand_new", "layer_types": types, "sliding_window": 512}
    cost = kv_cost(parse_config(config))
    assert (cost.bytes_per_token, cost.window_bytes_per_token) == (65_536, 65_536)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kv_lora_rank", 512),
        ("mamba_d_state", 128),
        ("sliding_window", 4096),
        ("num_kv_shared_layers", 4),
        ("hybrid_pattern", "MM*"),
        ("linear_attn_config", {"kda_layers": [1]}),
        ("compress_ratios", [4, 128]),
        ("index_topk", 2048),
        ("v_head_dim", 64),
        ("attention_chunk_size", 8192),
        ("architectures", ["BrandNewForMaskedLM"]),
        ("encoder_layers", 6),
    ],
)
def test_unknown_type_with_a_hint_of_another_cache_is_refused(field, value):
    with pytest.raises(ConfigError) as error:
        parse_config(LLAMA | {"model_type": "brand_new", field: value})
    assert error.value.field == field


def test_notes_name_every_value_the_file_leaves_to_the_class():
    model = parse_config(LLAMA | {"model_type": "glm4"})
    assert any("head_dim = 128" in note for note in model.notes)


# Other families: the figure is layers x heads x widths, written out


def dense(model_type: str, **fields: Any) -> dict[str, Any]:
    return {"model_type": model_type, **fields}


@pytest.mark.parametrize(
    ("config", "bytes_per_token"),
    [
        (
            dense(
                "chatglm",
                num_layers=40,
                hidden_size=4096,
                num_attention_heads=32,
                kv_channels=128,
                multi_query_attention=True,
                multi_query_group_num=2,
                seq_length=131072,
            ),
            40 * 2 * 2 * 128 * 2,
        ),
        (
            dense("dbrx", n_layers=40, d_model=6144, n_heads=48, attn_config={"kv_n_heads": 8}),
            40 * 2 * 8 * 128 * 2,
        ),
        (
            dense("mpt", n_layers=32, d_model=4096, n_heads=32, attn_config={"attn_type": "mha"}),
            32 * 2 * 32 * 128 * 2,
        ),
        (
            dense("gpt_bigcode", n_layer=40, n_embd=6144, n_head=48, multi_query=True),
            40 * 2 * 1 * 128 * 2,
        ),
        (
            dense("baichuan", num_hidden_layers=40, hidden_size=5120, num_attention_heads=40),
            40 * 2 * 40 * 128 * 2,
        ),
        (
            dense(
                "hunyuan_v1_dense",
                num_hidden_layers=24,
                hidden_size=1024,
                num_attention_heads=16,
                num_key_value_heads=8,
                attention_head_dim=128,
            ),
            24 * 2 * 8 * 128 * 2,
        ),
        (
            dense(
                "exaone",
                num_layers=32,
                hidden_size=4096,
                num_attention_heads=32,
                num_key_value_heads=8,
            ),
            32 * 2 * 8 * 128 * 2,
        ),
        (
            dense(
                "step3_text",
                num_hidden_layers=61,
                hidden_size=7168,
                num_attention_heads=64,
                head_dim=256,
            ),
            61 * 2 * 1 * 256 * 2,
        ),
        (
            dense(
                "minicpm3",
                num_hidden_layers=62,
                hidden_size=2560,
                num_attention_heads=40,
                kv_lora_rank=256,
                qk_nope_head_dim=64,
                qk_rope_head_dim=32,
            ),
            62 * 2 * 40 * 96 * 2,
        ),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else "",
)
def test_family_with_fields_of_its_own(config, bytes_per_token):
    assert kv_cost(parse_config(config)).bytes_per_token == bytes_per_token


def test_llama_3_2_vision_counts_its_self_attention_only():
    config = {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}}
    model = parse_config(config)
    assert kv_cost(model).bytes_per_token == 32 * 2 * 8 * 128 * 2
    assert any("cross-attention" in note for note in model.notes)


def test_lfm2_keeps_two_inputs_of_its_short_convolutions():
    config = {
        "model_type": "lfm2",
        "num_hidden_layers": 16,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "conv_L_cache": 3,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 6 * 2 * 8 * 64 * 2
    assert cost.constant_bytes_per_sequence == 10 * 2 * 2048 * 2


def test_minimax_text_01_keeps_a_matrix_per_head_of_linear_attention():
    config = {
        "model_type": "minimax_text_01",
        "num_hidden_layers": 80,
        "hidden_size": 6144,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attn_type_list": ([0] * 7 + [1]) * 10,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 10 * 2 * 8 * 128 * 2
    assert cost.constant_bytes_per_sequence == 70 * 64 * 128 * 128 * 2


def test_zamba2_attention_is_twice_as_wide_as_its_hidden_size():
    config = {
        "model_type": "zamba2",
        "num_hidden_layers": 3,
        "hidden_size": 3584,
        "num_attention_heads": 32,
        "layers_block_type": ["mamba", "hybrid", "mamba"],
        "n_mamba_heads": 112,
        "mamba_expand": 2,
        "mamba_d_state": 64,
        "mamba_d_conv": 4,
        "mamba_ngroups": 2,
    }
    cost = kv_cost(parse_config(config))
    assert cost.bytes_per_token == 2 * 32 * 224 * 2
    assert cost.constant_bytes_per_sequence == 3 * (3 * (7168 + 2 * 2 * 64) + 7168 * 64) * 2


def test_exaone_4_letters_spell_the_pattern_and_the_last_layer_is_full():
    config = {
        "model_type": "exaone4",
        "num_hidden_layers": 6,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "sliding_window": 4096,
        "sliding_window_pattern": "LLLG",
    }
    full = parse_config(config).group(LayerKind.FULL)
    assert full[0].positions == (3, 5)


def test_infinity_in_a_field_that_does_not_matter_is_no_obstacle():
    # Mamba-2 configs carry "time_step_limit": [0.0, Infinity]
    text = json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert kv_cost(parse_config(text)).bytes_per_token == 131_072


def test_encoder_by_name_is_refused_without_a_generating_architecture():
    config = LLAMA | {"model_type": "new_vision_encoder"}
    with pytest.raises(ConfigError, match="sounds like an encoder"):
        parse_config(config)
    assert parse_config(config | {"architectures": ["NewForCausalLM"]}).num_layers == 32


def test_embedding_model_that_sees_both_ways_is_refused():
    config = config_of("google/gemma-3-27b-it")
    text = config["text_config"] | {"use_bidirectional_attention": True}
    with pytest.raises(ConfigError, match="every token sees every other"):
        parse_config(config | {"text_config": text})
