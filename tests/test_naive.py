"""The naive formula, and the reasons a model departs from it."""

import json
from pathlib import Path

import pytest

from kvdocs.catalog import get_model, models
from kvdocs.naive import (
    compare,
    comparisons,
    format_ratio,
    naive_bytes_per_token,
    naive_bytes_per_token_query_heads,
    reasons,
    sources_table,
    summary,
    table,
)

FIGURES = Path(__file__).parent / "data" / "catalog_figures.json"

# Ratios measured with other people's calculators that use the formula (one sequence of 32,768
# tokens, bf16), in two digits; each model departs from the formula in a way of its own.
MEASURED_RATIOS = {
    "mistralai/Mistral-7B-v0.1": 8,
    "openai/gpt-oss-20b": 1.4,
    "deepseek-ai/DeepSeek-V3": 24.9,
    "moonshotai/Kimi-K2-Instruct": 24.9,
    "tiiuae/falcon-7b": 71,
    "Qwen/Qwen3-30B-A3B": 0.5,
    "google/gemma-3-27b-it": 7,
    "google/gemma-3n-E4B-it": 8.24,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 2.29,
}


@pytest.mark.parametrize(("name", "ratio"), MEASURED_RATIOS.items())
def test_ratio_is_the_one_measured_with_calculators_that_use_the_formula(name, ratio):
    assert compare(get_model(name)).ratio == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("meta-llama/Llama-3.1-8B", 4),
        ("meta-llama/Llama-3.1-70B", 8),
        ("Qwen/Qwen2.5-7B-Instruct", 7),
    ],
)
def test_query_heads_multiply_by_the_group(name, ratio):
    assert compare(get_model(name)).query_heads_ratio == ratio


def test_the_formula_reads_old_names_and_missing_kv_heads():
    gpt2 = {"n_layer": 12, "n_embd": 768, "n_head": 12}
    assert naive_bytes_per_token(gpt2) == naive_bytes_per_token_query_heads(gpt2) == 36_864


def test_the_formula_keeps_a_fraction_of_a_head():
    glm = {
        "num_hidden_layers": 1,
        "hidden_size": 4096,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
    }
    assert naive_bytes_per_token(glm) == pytest.approx(2 * 8 * 4096 / 96 * 2)


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry.id)
def test_a_difference_has_a_reason_and_agreement_has_none(entry):
    comparison = compare(entry)
    if format_ratio(comparison.ratio) == "right":
        assert comparison.reasons == ()
    else:
        assert comparison.reasons


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry.id)
def test_right_bytes_are_the_hand_arithmetic_at_the_compared_length(entry):
    figures = {figure["id"]: figure for figure in json.loads(FIGURES.read_text())["models"]}
    figure, comparison = figures[entry.id], compare(entry)
    full, indexer, window, constant = (
        sum(_product(term) for term in figure[part].split("+"))
        for part in ("full", "indexer", "window", "constant")
    )
    kept = min(comparison.tokens, figure["window_tokens"])
    growing = (full + indexer) * comparison.tokens
    assert comparison.right_bytes == growing + window * kept + constant


def _product(term):
    result = 1
    for factor in term.split("*"):
        result *= int(factor)
    return result


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deepseek-ai/DeepSeek-V3", ["all 61 layers keep one latent of 576", "128 heads"]),
        ("zai-org/GLM-5.2", ["all 78 layers keep one latent", "21 of 78 layers", "132 bytes"]),
        (
            "google/gemma-3-27b-it",
            ["52 of 62 layers keep only the last 1,024", "head width 128, not 168"],
        ),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", ["current chunk of 8,192"]),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", ["36 of 48 layers keep a state", "39.5 MB"]),
        (
            "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
            ["31 of 80 layers keep nothing", "KV heads 8, not 64"],
        ),
        ("google/gemma-3n-E4B-it", ["15 of 35 layers read an earlier layer's cache"]),
        ("google/gemma-4-26B-A4B", ["2 in 5 layers, not 8", "256 in 25 layers", "512 in 5 layers"]),
        ("tiiuae/falcon-7b", ["KV heads 1, not 71"]),
        (
            "XiaomiMiMo/MiMo-V2-Flash",
            ["head width 192 (K) and 128 (V), not 64", "KV heads 8 in 39 layers, not 4"],
        ),
    ],
)
def test_reasons_name_the_structure(name, words):
    entry = get_model(name)
    text = "; ".join(reasons(entry.model, entry.text_config))
    for word in words:
        assert word in text


def test_a_window_as_long_as_the_sequence_is_no_reason():
    entry = get_model("mistralai/Mistral-7B-v0.1")
    assert reasons(entry.model, entry.text_config, tokens=4096) == ()
    assert reasons(entry.model, entry.text_config, tokens=4097) != ()


def test_a_model_is_compared_within_its_context():
    assert compare(get_model("gpt2")).tokens == 1024
    assert compare(get_model("llama-3.1-8b")).tokens == 32_768


def test_the_table_has_a_line_for_every_model_worst_first():
    lines = table().splitlines()
    assert len(lines) == 2 + len(models())
    assert "falcon-7b](" in lines[2]
    assert "2,048 tokens | 16 | 1,136&nbsp;(71x) |" in lines[2]
    assert all(line.count("|") == lines[0].count("|") for line in lines)
    ratios = [max(each.ratio, 1 / each.ratio) for each in comparisons()]
    assert ratios == sorted(ratios, reverse=True)


def test_every_model_has_its_sources_listed():
    text = sources_table()
    assert all(f"`{entry.id}`" in text for entry in models())


def test_the_summary_counts_both_variants():
    right = sum(format_ratio(each.ratio) == "right" for each in comparisons())
    assert f"right for {right}," in summary()
    assert "71x" in summary()
