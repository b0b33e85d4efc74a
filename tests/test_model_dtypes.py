"""Bytes per token for every cache dtype vLLM takes."""

from __future__ import annotations

import contextlib

import pytest

from kvdocs.errors import ConfigError, FlagError
from kvdocs.model import CACHE_DTYPES, kv_cost, parse_config
from tests.model_facts import config_of

LLAMA = parse_config(config_of("meta-llama/Llama-3.1-8B"))
DEEPSEEK = parse_config(config_of("deepseek-ai/DeepSeek-V3"))
HEADS = 32 * 8  # layers times KV heads of Llama 3.1 8B


@pytest.mark.parametrize(
    ("dtype", "per_head"),
    [
        ("auto", 512),
        ("float16", 512),
        ("bfloat16", 512),
        ("fp8", 256),
        ("fp8_e4m3", 256),
        ("fp8_e5m2", 256),
        ("fp8_inc", 256),
        ("fp8_per_token_head", 264),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("nvfp4", 144),
        ("nvfp4_4over6", 144),
        ("ultraquant_4bit", 136),
    ],
)
def test_bytes_per_head_of_128(dtype, per_head):
    assert kv_cost(LLAMA, kv_cache_dtype=dtype).bytes_per_token == HEADS * per_head


@pytest.mark.parametrize(
    ("dtype", "slot"),
    [
        ("turboquant_k8v4", 128 + 64 + 4),
        ("turboquant_4bit_nc", 64 + 2 + 64 + 4),
        ("turboquant_k3v4_nc", 48 + 2 + 64 + 4),
        ("turboquant_3bit_nc", 48 + 2 + 48 + 4),
    ],
)
def test_turboquant_packs_a_slot_and_leaves_four_edge_layers_in_16_bit(dtype, slot):
    cost = kv_cost(LLAMA, kv_cache_dtype=dtype)
    assert cost.bytes_per_token == 8 * (28 * slot + 4 * 512)
    assert any("first and last two layers" in note for note in cost.notes)


@pytest.mark.parametrize(
    ("dtype", "per_layer"),
    [
        ("auto", 1152),
        ("fp8", 576),
        ("fp8_ds_mla", 656),
        ("nvfp4_ds_mla", 352),
        ("int8_per_token_head", 584),
        ("int4_per_token_head", 296),
    ],
)
def test_latent_of_576(dtype, per_layer):
    assert kv_cost(DEEPSEEK, kv_cache_dtype=dtype).bytes_per_token == 61 * per_layer


def test_indexer_stays_in_fp8_whatever_the_cache_dtype():
    sparse = parse_config(config_of("deepseek-ai/DeepSeek-V3.2"))
    assert kv_cost(sparse, kv_cache_dtype="fp8_ds_mla").bytes_per_token == 61 * (656 + 132)
    assert any("fp8_ds_mla" in note for note in kv_cost(sparse, kv_cache_dtype="fp8").notes)


@pytest.mark.parametrize("dtype", CACHE_DTYPES)
def test_every_dtype_is_sized_or_refused(dtype):
    for model in (LLAMA, DEEPSEEK):
        with contextlib.suppress(ConfigError):
            cost = kv_cost(model, kv_cache_dtype=dtype)
            assert 0 < cost.bytes_per_token <= kv_cost(model).bytes_per_token


def test_unknown_dtype_is_refused_with_the_nearest_name():
    with pytest.raises(FlagError, match="fp8_e4m3"):
        kv_cost(LLAMA, kv_cache_dtype="fp8e4m3")


def test_dtype_that_packs_in_groups_refuses_odd_heads():
    odd = parse_config(config_of("meta-llama/Llama-3.1-8B") | {"head_dim": 72})
    with pytest.raises(ConfigError, match="multiple of 16"):
        kv_cost(odd, kv_cache_dtype="nvfp4")
