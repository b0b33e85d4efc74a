"""The cheat sheet: its figures against the lesson's published ones, and every model on it."""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest

from kvdocs.catalog import get_model, model_ids
from kvdocs.errors import ParameterError
from kvdocs.metrics.names import VLLM
from kvdocs.sheet import Grid, Line, parts, read_subject
from kvdocs.units import BYTE_UNITS
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


NUMBER = re.compile(r"(?P<digits>\d[\d,]*(?:\.(?P<decimals>\d+))?)(?: (?P<unit>[KMG]i?B|B|GB)\b)?")


def bounds(match):
    """The least and the most that a printed number stands for; whole numbers are exact."""
    unit = BYTE_UNITS[match["unit"] or "B"]
    value = float(match["digits"].replace(",", ""))
    rounded = match["decimals"] or match["unit"] in {"GB", "GiB", "KiB"}
    half = 0.5 * 10 ** -len(match["decimals"] or "") if rounded else 0
    return (value - half) * unit, (value + half) * unit


def recompute(how):
    """The least and the most that a printed sum comes to, by its printed numbers alone."""
    how = re.sub(r"\([a-zA-Z ]+\)", "", how.split(": ")[-1].split("; ")[-1])
    how = re.sub(r"([\d.]+) −", r"\1 GB −", how).replace(") GB", " GB)")  # one unit for all
    numbers = list(NUMBER.finditer(how))
    terms = NUMBER.sub("@", how)
    terms = re.sub(r"[a-zA-Z]+", "", terms).translate(str.maketrans("×÷−", "*/-"))
    terms = terms.replace("⌈", "math.ceil(").replace("⌉", ")")
    results = []
    for corner in itertools.product(*(sorted({*bounds(number)}) for number in numbers)):
        values = iter(corner)
        filled = re.sub("@", lambda _, values=values: repr(next(values)), terms)
        results.append(eval(filled, {"math": math}))  # noqa: S307 - the sheet's own words
    return min(results), max(results)


def check(line):
    least, most = recompute(line.how)
    shown = NUMBER.search(line.value)
    low, high = bounds(shown)
    if not shown["unit"]:  # a count, rounded down
        high += 1
    assert least <= high, line
    assert most >= low, line


KINDS = [
    ("meta-llama/Llama-3.1-8B", "lesson-h100-80gb", 1),
    ("meta-llama/Llama-3.1-70B", "a100-sxm-80gb", 4),
    ("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", 8),  # a latent, copied
    ("zai-org/GLM-5.2", "b200-sxm-180gb", 16),  # two kinds of latent layers
    ("Qwen/Qwen3-235B-A22B", "h200-sxm-141gb", 8),  # 4 KV heads, copied
    ("google/gemma-3-27b-it", "lesson-h100-80gb", 1),  # windows
    ("google/gemma-3-27b-it", "a100-sxm-40gb", 4),
    ("mistralai/Mistral-7B-v0.1", "l4-24gb", 1),  # windows alone
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h200-sxm-141gb", 2),  # states
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h200-sxm-141gb", 4),  # states, and heads copied
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "h200-sxm-141gb", 2),  # states, and a latent
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h200-sxm-141gb", 4),  # chunks
    ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "h200-sxm-141gb", 2),  # layers without a cache
]


@pytest.mark.parametrize("tokens", [1024, 8192, 32_768])
@pytest.mark.parametrize("dtype", ["auto", "fp8"])
@pytest.mark.parametrize(("model", "gpu", "num_gpus"), KINDS)
def test_every_sum_comes_out_by_its_printed_terms(model, gpu, num_gpus, dtype, tokens):
    subject = read_subject(
        model=model, gpu=gpu, num_gpus=num_gpus, kv_cache_dtype=dtype, tokens=tokens
    )
    found = lines(model=model, gpu=gpu, num_gpus=num_gpus, kv_cache_dtype=dtype, tokens=tokens)
    sums = ["KV pool", "Tokens in the pool", "Blocks in the pool", "A sequence takes"]
    sums.append(f"Sequences of {subject.tokens:,}")
    if subject.is_plain:
        sums.append("One token")
    for what in sums:
        check(found[what])
    sequences, each, blocks = (
        int(found[what].value.replace(",", ""))
        for what in (sums[4], "A sequence takes", "Blocks in the pool")
    )
    assert sequences == blocks // each
    concurrency = float(re.search(r"([\d.]+)x", found["Start-up log"].how)[1])
    assert sequences <= concurrency <= sequences + 1


def test_a_sum_that_does_not_come_out_is_found():
    check(Line("", "53.44 GB ÷ (131,072 B × 8,192)", 9, "49"))
    with pytest.raises(AssertionError):
        check(Line("", "380.3 GB ÷ 70,272 B", 1, "676,450"))


def test_a_copied_cache_is_reckoned_on_each_gpu():
    sheet = lines(model="deepseek-ai/DeepSeek-V3", gpu="h200-sxm-141gb", num_gpus=8)
    tokens = sheet["Tokens in the pool"]
    assert tokens.how == "47.54 GB on each GPU ÷ 70,272 B (every GPU holds a copy)"
    assert tokens.value == "676,450"
    assert sheet["8,192 tokens"].how == "one sequence = 0.576 GB on each GPU"  # 70,272 × 8,192
    assert "the latent is copied" in sheet["`--tensor-parallel-size`"].how
    assert "KV heads per GPU" not in sheet
    heads = lines(model="Qwen/Qwen3-235B-A22B", gpu="h200-sxm-141gb", num_gpus=8)
    # 188 KiB of 4 heads, of which each GPU holds 1
    assert "÷ 48,128 B (KV heads are copied)" in heads["Tokens in the pool"].how


def test_groups_of_layers_take_blocks_each():
    gemma = lines(model="google/gemma-3-27b-it")
    assert gemma["A sequence takes"].how.endswith(": 512 + 6 × 513")
    assert gemma["Sequences of 8,192"].how == "11,825 blocks ÷ 3,590 a sequence"
    assert gemma["fp8 cache"].value == "40 KiB, 208 KiB"  # half of 10 and of 52 layers' bytes
    states = lines(
        model="Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="h200-sxm-141gb", num_gpus=2, tokens=32_768
    )
    assert states["A sequence takes"].how.endswith(": 61 + 3 × 2")
    assert states["Sequences of 32,768"].value == "116"  # 7,775 ÷ 67


def test_windows_are_counted_with_the_batch_of_the_gpu():
    # An A100 takes 2,048 tokens a step: (1,023 + 2 × 2,048) / 16, rounded up, and 1
    gemma = lines(model="google/gemma-3-27b-it", gpu="a100-sxm-80gb")
    assert gemma["A sequence takes"].how.endswith(": 512 + 6 × 321")


def test_where_the_gpus_total_comes_from_is_said():
    by_driver = "0.9 × 85.9 GB (80 GiB by the driver, vLLM sees less; sold as 80 GB)"
    assert lines(gpu="a100-sxm-80gb")["Claimed at start"].how == by_driver
    measured = "0.9 × 85.02 GB (79.2 GiB; sold as 80 GB)"
    assert lines(gpu="h100-sxm-80gb")["Claimed at start"].how == measured


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


def test_hopper_stores_a_sparse_latent_in_its_own_form():
    # 61 layers x (656 + 132) B; elsewhere the latent takes 576 B and the indexer as much.
    subject = read_subject(
        model="deepseek-ai/DeepSeek-V3.2", gpu="h200-sxm-141gb", num_gpus=8, kv_cache_dtype="fp8"
    )
    assert subject.cost.bytes_per_token == 61 * (656 + 132)
    assert subject.block_bytes == 64 * subject.cost.bytes_per_token
