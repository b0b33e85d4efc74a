"""The widget `concurrency`: points against the lesson's figures and vLLM's arithmetic by hand."""

import json
import math

import pytest

from kvdocs.catalog import get_model
from kvdocs.errors import ParameterError
from kvdocs.widgets.browser import update
from kvdocs.widgets.concurrency import (
    CONCURRENCY,
    COUNTS,
    GPUS,
    MARKED,
    MODELS,
    Setup,
    curve,
    lengths,
)

LLAMA_8B = Setup("A", "meta-llama/Llama-3.1-8B", "lesson-h100-80gb", 1, "auto")


def spec_of(**params):
    html = str(CONCURRENCY.view(**params).picture)
    start = html.index('data-spec="') + len('data-spec="')
    text = html[start : html.index('"', start)].replace("&quot;", '"').replace("&#x27;", "'")
    return json.loads(text.replace("&lt;", "<").replace("&amp;", "&"))


def labels_in(spec):
    found = []
    for layer in spec["layer"]:
        found += [row["label"] for row in layer["data"]["values"] if "label" in row]
    return found


def test_the_lessons_server_holds_49_12_and_3():
    held = curve(LLAMA_8B)
    assert [held.requests(tokens) for tokens in MARKED] == [49, 12, 3]


def test_70b_on_four_gpus_holds_48():
    large = Setup("A", "meta-llama/Llama-3.1-70B", "lesson-h100-80gb", 4, "auto")
    assert curve(large).requests(8192) == 48
    assert curve(large).pool_bytes == 130_800_000_000


def test_a_latent_is_copied_so_one_gpu_is_reckoned():
    chosen = {"model": "deepseek-ai/DeepSeek-V3", "gpu": "h200-sxm-141gb", "num_gpus": 8}
    held = curve(Setup("A", *chosen.values(), "auto"))
    # 0.9 x 143,771 MiB, an eighth of 2 x 671e9 bytes of weights, and 4 GB: 70,272 bytes a token
    assert held.requests(8192) == held.pool_bytes // (70_272 * 8192) == 82
    view = CONCURRENCY.view(**{f"{name}_a": str(value) for name, value in chosen.items()})
    words = "in a pool of 47.54 GB on each GPU (every GPU holds a copy)"
    assert view.figure("requests_a").formula == words
    assert "KV pool of 47.54 GB on each GPU" in str(view.picture)


def test_copied_heads_are_reckoned_on_one_gpu_too():
    held = curve(Setup("A", "google/gemma-3-12b-it", "h200-sxm-141gb", 8, "auto"))
    assert not held.copies  # 8 KV heads
    held = curve(Setup("A", "Qwen/Qwen3-Next-80B-A3B-Instruct", "h200-sxm-141gb", 8, "auto"))
    assert held.copies == "KV heads are copied"  # 2 KV heads


def test_windows_are_counted_with_the_batch_of_the_gpu():
    caption = CONCURRENCY.view(gpu_b="a100-sxm-80gb").caption
    assert "past 4,096:" in caption  # two batches of 2,048
    assert "past 16,384:" in CONCURRENCY.view().caption


def test_fp8_doubles_the_requests():
    half = curve(Setup("A", LLAMA_8B.model, LLAMA_8B.gpu, 1, "fp8"))
    assert half.requests(8192) == 99  # 53.44e9 / 65,536 / 8,192 = 99.5


def test_plain_attention_is_straight_on_log_axes():
    points = curve(LLAMA_8B).points
    products = [tokens * requests for tokens, requests in points]
    assert max(products) / min(products) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("tokens", [1024, 8192, 16_384, 32_768, 131_072])
def test_a_hybrid_bends_as_its_groups_say(tokens):
    """Gemma 3 12B: 40 windowed and 8 full layers, so 5 + 1 groups of 8 share the blocks."""
    held = curve(Setup("B", "google/gemma-3-12b-it", "lesson-h100-80gb", 1, "auto"))
    block = 8 * 16 * 8 * (256 + 256) * 2
    in_flight = 2 * 8192
    windowed = math.ceil(min(1024 - 1 + in_flight, tokens) / 16) + 1
    request = math.ceil(tokens / 16) + 5 * windowed
    assert dict(held.points)[tokens] == pytest.approx((held.pool_bytes // block) / request)


def test_the_picture_carries_the_marked_numbers():
    labels = labels_in(spec_of())
    assert labels[: labels.index("49") + 3][-3:] == ["49", "12", "3"]
    assert {"A", "B"} <= set(labels)


def test_a_set_up_that_does_not_start_is_said_and_not_drawn():
    view = CONCURRENCY.view(model_a="meta-llama/Llama-3.1-70B")
    assert view.figure("requests_a").value == "0"
    assert "does not start" in view.figure("requests_a").formula
    assert "Llama 3.1 70B does not start" in view.title
    assert "A" not in labels_in(spec_of(model_a="meta-llama/Llama-3.1-70B"))


def test_neither_starting_leaves_the_axes():
    both = {"model_a": "meta-llama/Llama-3.1-70B", "model_b": "meta-llama/Llama-3.1-70B"}
    spec = spec_of(**both)
    assert len(spec["layer"]) == 1
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [1024, 131_072]


def test_past_the_models_limit_there_is_none_and_the_limit_is_named():
    view = CONCURRENCY.view(tokens="262144")
    assert view.figure("requests_a").value == "0"
    assert "131,072 tokens" in view.figure("requests_a").formula


def test_past_what_fits_the_longest_that_fits_is_named():
    # One L4: 0.9 x its memory less weights and 2.5 GB leaves room for fewer than 131,072 tokens.
    view = CONCURRENCY.view(gpu_a="l4-24gb", tokens="131072")
    held = curve(Setup("A", LLAMA_8B.model, "l4-24gb", 1, "auto"))
    assert 1024 < held.fits < 131_072
    assert f"at most {held.fits:,} tokens fit" in view.figure("requests_a").formula
    assert held.requests(held.fits) == 1


def test_the_comparison_names_the_larger():
    figure = CONCURRENCY.view().figure("ratio")
    assert (figure.label, figure.value) == ("A holds", "3.5")  # 49 / 14


def test_the_table_holds_every_point():
    table = CONCURRENCY.view().table
    assert [row[1] for row in table.rows if row[0] in {"8,192", "32,768", "131,072"}] == [
        "49",
        "12",
        "3",
    ]


def test_a_split_vllm_refuses_is_said_beside_the_gpus():
    values, _ = CONCURRENCY.read(CONCURRENCY.complete({}))
    with pytest.raises(ParameterError, match=r"B: .*\(16\).* divisible .*\(3\)") as caught:
        CONCURRENCY.draw(**(values | {"num_gpus_b": "3"}))
    assert caught.value.name == "num_gpus_b"


@pytest.mark.parametrize("model", [model for model, _ in MODELS])
def test_every_model_answers_on_every_number_of_gpus(model):
    for gpu in (GPUS[0], "l4-24gb"):
        for count in COUNTS:
            params = {"model_b": model, "gpu_b": gpu, "num_gpus_b": str(count)}
            answer = json.loads(update("concurrency", json.dumps(params)))
            assert (answer["html"] is None) == bool(answer["errors"])
            assert set(answer["errors"]) <= {"num_gpus_b"}


@pytest.mark.parametrize("model", [model for model, _ in MODELS])
def test_more_tokens_never_hold_more_requests(model):
    points = curve(Setup("A", model, "b200-sxm-180gb", 8, "auto")).points
    counts = [requests for _, requests in points]
    assert counts == sorted(counts, reverse=True)
    assert points[-1][0] <= get_model(model).model.max_model_len


def test_lengths_end_with_the_longest():
    assert lengths(40_960)[-2:] == (32_768, 40_960)
    assert lengths(2_000_000)[-1] == 1_048_576
    assert lengths(0) == ()
