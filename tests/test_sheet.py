"""The cheat sheet: its figures against the lesson's published ones, and every model on it."""

from __future__ import annotations

import json
import re

import pytest

from kvdocs.catalog import get_model, model_ids
from kvdocs.errors import ParameterError
from kvdocs.metrics.names import VLLM
from kvdocs.sheet import Grid, Line, parts, read_subject
from kvdocs.widgets.browser import update
from kvdocs.widgets.cheat_sheet import CHEAT_SHEET

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}


def lines(**wanted):
    found = [line for part in parts(read_subject(**wanted)) for line in part.lines]
    return {line.what: line for line in found if isinstance(line, Line)}


def values(**wanted):
    return {what: line.value for what, line in lines(**wanted).items()}


def test_the_lessons_server_has_the_lessons_figures():
    sheet = values()
    assert sheet["Claimed at start"] == "72 GB"
    assert sheet["KV pool"] == "53.44 GB"
    assert sheet["One token"] == "128 KiB"
    assert sheet["as MHA, as MQA"] == "512 KiB, 16 KiB"
    assert sheet["fp8 cache"] == "64 KiB"
    assert sheet["Tokens in the pool"] == "407,714"
    assert sheet["Blocks in the pool"] == "25,482"
    assert sheet["Sequences of 8,192"] == "49"
    assert sheet["Shared beginning"] == "375"
    assert sheet["Working set"] == "20% of the pool"  # 81,920 / 407,714
    assert sheet["1 GiB"] == "1.074 GB"
    assert "Maximum concurrency for 8,192 tokens per request: 49.77x" in lines()["Start-up log"].how


def test_lengths_stand_side_by_side_in_both_dtypes():
    (grid,) = (
        line for part in parts(read_subject()) for line in part.lines if isinstance(line, Grid)
    )
    # 53.44e9 / 131,072 / length, and twice that in fp8, rounded down
    assert grid.rows == (("bf16", "398", "49", "12", "3"), ("fp8", "796", "99", "24", "6"))


def test_four_gpus_hold_48_conversations_of_the_70b():
    sheet = values(model="meta-llama/Llama-3.1-70B", num_gpus=4)
    assert sheet["KV pool"] == "130.8 GB"
    assert sheet["Sequences of 8,192"] == "48"
    assert sheet["KV heads per GPU"] == "2"


def test_moving_and_recomputing_are_plain_divisions():
    found = lines()
    # 2^30 bytes over 60% of 64 and of 50 GB/s, and 5 µs
    assert re.findall(r": (.+?)[;.] ", found["Move one sequence"].how) == ["28 ms", "35.8 ms"]
    assert found["Without a cache"].value == "417 × the work"  # 624,750 / 1,499


def test_a_window_is_told_apart():
    sheet = values(model="google/gemma-3-27b-it", gpu="h200-sxm-141gb")
    assert (sheet["One token"], sheet["in windows"]) == ("80 KiB", "416 KiB")  # 10 and 52 layers


def test_a_pasted_config_counts_its_own_weights():
    assert values(config=json.dumps(LLAMA)) == values()


@pytest.mark.parametrize(("given", "bytes_"), [("8.03B", 16.06e9), (" 15 GiB ", 15 * 2**30)])
def test_weights_may_be_given_as_parameters_or_memory(given, bytes_):
    config = json.dumps({**LLAMA, "model_type": "unheard-of"})
    assert read_subject(config=config, weights=given).budget.weights_bytes == pytest.approx(bytes_)


@pytest.mark.parametrize(
    ("wanted", "name", "words"),
    [
        ({"config": "{"}, "config", "JSON"),
        ({"config": json.dumps({**LLAMA, "model_type": "new"})}, "weights", "such as 8.03B"),
        ({"config": json.dumps(LLAMA), "weights": "lots"}, "weights", "'lots' is neither"),
        ({"config": json.dumps(LLAMA), "weights": "0"}, "weights", "more than nothing"),
        ({"model": "meta-llama/Llama-3.1-70B"}, "num_gpus", "Choose more GPUs"),
        ({"config": json.dumps({**LLAMA, "num_attention_heads": 40, "head_dim": 128,
          "num_key_value_heads": 10}), "weights": "1B",
          "num_gpus": 4}, "num_gpus", "10"),
    ],
)  # fmt: skip
def test_what_makes_no_sheet_is_told_at_its_control(wanted, name, words):
    with pytest.raises(ParameterError, match=re.escape(words)) as refused:
        read_subject(**wanted)
    assert refused.value.name == name


def test_a_sequence_is_no_longer_than_the_model_allows():
    assert read_subject(model="google/gemma-2-9b-it", tokens=131_072).tokens == 8192


@pytest.mark.parametrize("tokens", ["1024", "131072"])
@pytest.mark.parametrize("gpu", ["lesson-h100-80gb", "l4-24gb"])
def test_a_tight_fit_is_drawn_too(gpu, tokens):
    for model in model_ids():
        answer = update("cheat-sheet", json.dumps({"model": model, "gpu": gpu, "tokens": tokens}))
        assert json.loads(answer)["errors"].keys() <= {"num_gpus"}, model


def test_every_catalogue_model_has_a_sheet_or_is_told_why():
    made = 0
    for model in model_ids():
        answer = json.loads(
            update("cheat-sheet", json.dumps({"model": model, "gpu": "b200-sxm-180gb"}))
        )
        assert (answer["html"] is None) == bool(answer["errors"]), model
        made += answer["html"] is not None
        needs_more = get_model(model).weight_bytes > 0.8 * 180e9
        assert answer["html"] or needs_more or "dtype" in str(answer["errors"]), answer["errors"]
    assert made > 50


def test_every_step_of_the_lesson_but_the_last_two_is_on_the_sheet():
    steps = {line.step for part in parts(read_subject(num_gpus=2)) for line in part.lines}
    assert steps == set(range(1, 20))


def test_metrics_are_vllms_own_names():
    named = re.findall(r"vllm:(\w+)", " ".join(line.what for line in lines().values()))
    assert len(named) == 6
    for name in named:
        assert name.removesuffix("_total") in VLLM, name


def test_a_line_links_to_its_step_and_pasted_text_stays_text():
    html = str(CHEAT_SHEET.view().picture)
    assert html.count('href="step:') == sum(len(part.lines) for part in parts(read_subject()))
    assert "<code>--max-model-len</code>" in html
    config = json.dumps({**LLAMA, "_name_or_path": "<script>alert(1)</script>"})
    assert "<script" not in str(CHEAT_SHEET.view(config=config).picture)
