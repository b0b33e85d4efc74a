"""Properties that hold for any model, and configs mutated at random."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import KvdocsError
from kvdocs.model import CACHE_DTYPES, LayerKind, kv_cost, parse_config
from tests.model_facts import model_facts

CONFIGS = [fact["config"] for fact in model_facts()]
MODELS = [parse_config(config) for config in CONFIGS]
MUTATIONS = 10_000

models = st.sampled_from(MODELS)
dtypes = st.sampled_from(CACHE_DTYPES)
lengths = st.integers(0, 2_000_000)


def dense(layers: int, heads: int, group: int, size: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": heads * group * size,
        "num_attention_heads": heads * group,
        "num_key_value_heads": heads,
        "head_dim": size,
    }


dense_configs = st.builds(
    dense,
    st.integers(1, 130),
    st.sampled_from([1, 2, 4, 8, 10, 16, 64]),
    st.integers(1, 16),
    st.sampled_from([64, 80, 96, 128, 192, 256]),
)


def cost_or_none(model, **kwargs):
    try:
        return kv_cost(model, **kwargs)
    except KvdocsError:
        return None


@given(models, dtypes, lengths, lengths)
def test_bytes_grow_with_tokens(model, dtype, first, second):
    cost = cost_or_none(model, kv_cache_dtype=dtype)
    if cost is None:
        return
    shorter, longer = sorted((first, second))
    assert cost.bytes_at(shorter) <= cost.bytes_at(longer)
    state = cost.constant_bytes_per_sequence
    assert cost.sequence_bytes_at(longer) == cost.bytes_at(longer) + state


@given(models, dtypes, st.sampled_from([1, 2, 4, 8, 16, 64]))
def test_tensor_parallelism_never_lowers_the_sum_over_gpus(model, dtype, size):
    cost = cost_or_none(model, kv_cache_dtype=dtype, tensor_parallel_size=size)
    if cost is None:
        return
    assert cost.bytes_per_token_per_gpu * size >= cost.bytes_per_token
    assert cost.window_bytes_per_token_per_gpu * size >= cost.window_bytes_per_token
    assert cost.constant_bytes_per_sequence_per_gpu * size >= cost.constant_bytes_per_sequence
    assert cost.bytes_per_token_per_gpu <= cost.bytes_per_token


@given(models, dtypes, st.integers(1, 16))
def test_pipeline_stages_together_hold_at_least_the_model(model, dtype, size):
    cost = cost_or_none(model, kv_cache_dtype=dtype, pipeline_parallel_size=size)
    if cost is None:
        return
    if not (cost.window_bytes_per_token or cost.constant_bytes_per_sequence):
        assert cost.bytes_per_token_per_gpu * size >= cost.bytes_per_token
    assert cost.bytes_per_token_per_gpu <= cost.bytes_per_token


@given(dense_configs)
def test_dense_model_costs_what_the_formula_says(config):
    layers, size = config["num_hidden_layers"], config["head_dim"]
    expected = 2 * layers * config["num_key_value_heads"] * size * 2
    model = parse_config(config)
    assert kv_cost(model).bytes_per_token == expected
    assert kv_cost(model, kv_cache_dtype="fp8").bytes_per_token * 2 == expected


@given(dense_configs, st.integers(1, 64))
def test_window_never_costs_more_than_the_whole_context(config, window):
    windowed = parse_config(config | {"model_type": "mistral", "sliding_window": window})
    whole = kv_cost(parse_config(config))
    for tokens in (1, window, window + 1, 10_000):
        assert kv_cost(windowed).bytes_at(tokens) <= whole.bytes_at(tokens)


# Mutated configs


def odd_value(chance: random.Random) -> Any:
    return chance.choice(
        [
            None,
            True,
            False,
            0,
            1,
            -1,
            3,
            7,
            2**31,
            10**40,
            1.5,
            float("inf"),
            "",
            "auto",
            "x" * 1000,
            "🦜",
            [],
            [1, 2, 3],
            [None] * 5,
            ["full_attention"] * 32,
            {},
            {"a": 1},
            {"model_type": "llama"},
        ]
    )


def mutate(config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    mutated = copy.deepcopy(config)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        place = mutated
        inner = [value for value in place.values() if isinstance(value, dict)]
        if inner and chance.random() < 0.7:
            place = chance.choice(inner)
        keys = list(place)
        kind = chance.randrange(5)
        if kind == 0 and keys:
            del place[chance.choice(keys)]
        elif kind == 1 and keys:
            place[chance.choice(keys)] = odd_value(chance)
        elif kind == 2:
            other = chance.choice(CONFIGS)
            key = chance.choice(list(other))
            place[key] = copy.deepcopy(other[key])
        elif kind == 3 and keys:
            key = chance.choice(keys)
            if isinstance(place[key], int) and not isinstance(place[key], bool):
                place[key] = max(0, place[key] + chance.choice([-1, 1, 2, -place[key], 10**6]))
        elif keys:
            key = chance.choice(keys)
            if isinstance(place[key], list) and place[key]:
                place[key][chance.randrange(len(place[key]))] = odd_value(chance)
    return mutated


def assert_sound(model, config) -> None:
    positions = [position for group in model.layers for position in group.positions]
    assert set(positions) == set(range(model.num_layers)), config
    for group in model.layers:
        assert group.elements_per_token >= 0
        if group.kind in {LayerKind.SLIDING, LayerKind.CHUNKED}:
            assert group.window > 0, config
        if group.kind in {LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED}:
            assert model.num_attention_heads % group.num_kv_heads == 0 or group.num_kv_heads == 1
            assert group.head_size > 0
            assert group.head_size_v > 0
        if group.kind == LayerKind.RECURRENT:
            assert group.state
    cost = cost_or_none(model)
    assert cost is not None, config
    everything = (
        cost.bytes_per_token,
        cost.window_bytes_per_token,
        cost.constant_bytes_per_sequence,
    )
    assert all(isinstance(size, int) and size >= 0 for size in everything)
    assert any(everything) or not model.num_attention_heads or _keeps_nothing(model), config


def _keeps_nothing(model) -> bool:
    return {group.kind for group in model.layers} <= {LayerKind.NONE, LayerKind.SHARED}


def parsed(config):
    try:
        return parse_config(config), ""
    except KvdocsError as error:
        return None, str(error)


def test_ten_thousand_mutated_configs_are_sized_soundly_or_refused():
    chance = random.Random(2026)  # noqa: S311  the same mutations each time
    refused = 0
    for _ in range(MUTATIONS):
        config = mutate(chance.choice(CONFIGS), chance)
        model, problem = parsed(config)
        if model is None:
            refused += 1
            assert 0 < len(problem) < 600
        else:
            assert_sound(model, config)
    assert MUTATIONS * 0.2 < refused < MUTATIONS * 0.95


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["model_type"])
def test_fields_that_do_not_matter_do_not_matter(config):
    noise = {
        "vocab_size": 7,
        "rms_norm_eps": 1e-5,
        "auto_map": {"AutoConfig": "x.Y"},
        "attention_dropout": 0.5,
        "num_experts_per_tok": 3,
        "transformers_version": "9.9",
        "rope_theta": 1e6,
        "chunk_size_feed_forward": 0,
    }
    assert kv_cost(parse_config(noise | config)) == kv_cost(parse_config(config))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["model_type"])
def test_removing_a_needed_field_never_changes_the_answer_silently(config):
    right = kv_cost(parse_config(config))
    for key in config:
        less = {name: value for name, value in config.items() if name != key}
        try:
            model = parse_config(less)
        except KvdocsError:
            continue
        # What is still sized is the same, or says what it took for granted.
        assert kv_cost(model) == right or model.notes, key


@given(st.text(max_size=300))
def test_any_text_is_refused_or_read(text):
    model, problem = parsed(text)
    assert model or problem


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(sorted({key for config in CONFIGS for key in config})),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_refused_or_read(value):
    model, problem = parsed(value)
    assert model or problem
