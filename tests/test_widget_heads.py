"""The widget `heads`: figures against the published shapes, and every divisor."""

import json
import re

import pytest

from kvdocs.catalog import get_model
from kvdocs.model import LayerKind
from kvdocs.widgets.browser import update
from kvdocs.widgets.heads import HEADS, MODELS, divisors


def figures(**params):
    return {figure.name: figure.value for figure in HEADS.view(**params).figures}


@pytest.mark.parametrize(
    ("kv_heads", "kib", "ratio", "conversations", "kind"),
    [
        ("32", 512, "1", "12", "MHA"),  # 53.44e9 / 524,288 / 8,192 = 12.4
        ("8", 128, "4", "49", "GQA"),
        ("1", 16, "32", "398", "MQA"),
    ],
)
def test_the_lessons_model_with_all_some_and_one(kv_heads, kib, ratio, conversations, kind):
    shown = figures(num_kv_heads=kv_heads)
    assert shown["kv_bytes_per_token"] == f"{kib * 1024:,}"
    assert shown["mha_ratio"] == ratio
    assert shown["conversations"] == conversations
    title = HEADS.view(num_kv_heads=kv_heads).title
    assert f"({kind})" in title
    assert f"{kib} KiB" in title


def test_70b_as_if_mha_takes_2560_kib():
    view = HEADS.view(model="meta-llama/Llama-3.1-70B", num_kv_heads="64")
    assert view.figure("kv_bytes_per_token").value == "2,621,440"
    assert "instead of its 8" in view.title


@pytest.mark.parametrize("model", [model for model, _ in MODELS])
def test_every_model_keeps_full_attention_in_every_layer(model):
    read = get_model(model).model
    (group,) = read.layers
    assert group.kind is LayerKind.FULL
    assert read.num_attention_heads % read.num_key_value_heads == 0


@pytest.mark.parametrize("model", [model for model, _ in MODELS])
def test_every_step_of_every_model_is_drawn(model):
    heads = get_model(model).model.num_attention_heads
    for kv_heads in divisors(heads):
        answer = json.loads(update("heads", json.dumps({"model": model, "num_kv_heads": kv_heads})))
        assert answer["errors"] == {}
        assert f'data-steps="{" ".join(map(str, divisors(heads)))}"' in answer["html"]


def test_equal_boxes_are_drawn_one_for_each_head():
    html = str(HEADS.view(num_kv_heads="4").picture)
    keys = re.search(r'd="([^"]*)" class="kv-layer-key"', html)[1]
    queries = re.search(r'd="([^"]*)" class="kv-head-query"', html)[1]
    wires = re.search(r'd="([^"]*)" class="kv-wire"', html)[1]
    assert (keys.count("z"), queries.count("z"), wires.count("L")) == (4, 32, 32)
    assert len(set(re.findall(r"h([\d.]+)v([\d.]+)", keys))) == 1


def test_heads_that_do_not_divide_take_the_nearest_step():
    # Qwen2.5 7B has 28 query heads; 8 lies between 7 and 14.
    view = HEADS.view(model="Qwen/Qwen2.5-7B-Instruct", num_kv_heads="8")
    assert view.figure("mha_ratio").value == "4"
    assert view.title.startswith("Qwen2.5 7B with 7 KV heads")


@pytest.mark.parametrize("bad", ["0", "-8", "eight", "8.5", "", "٨", "9" * 40])
def test_a_number_of_heads_that_is_none_is_refused_beside_its_control(bad):
    answer = json.loads(update("heads", json.dumps({"num_kv_heads": bad})))
    assert answer["html"] is None
    assert "1, 2, 4, 8, 16, 32" in answer["errors"]["num_kv_heads"]


def test_an_unknown_model_is_refused_beside_its_control():
    answer = json.loads(update("heads", json.dumps({"model": "gpt-5"})))
    assert "'gpt-5' is not one of" in answer["errors"]["model"]
