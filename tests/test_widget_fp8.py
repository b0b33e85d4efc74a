"""The widget `fp8-before-after`: figures against the lesson's, words against what was computed."""

import pytest

from kvdocs.errors import ParameterError
from kvdocs.smaller_cache import Demand, Limit, before_after
from kvdocs.widgets.fp8_before_after import FP8_BEFORE_AFTER, GPUS, MODELS, part_seconds


def view(**params):
    return FP8_BEFORE_AFTER.view(**params)


def test_the_lessons_server_holds_99_conversations_instead_of_49():
    shown = view()
    assert shown.figure("fits").value == "99"  # 53.44e9 / 65,536 / 8,192 = 99.5
    assert shown.figure("fits").formula == "49 in bf16; 128 → 64 KiB a token"


def test_the_weights_stand_unchanged_in_the_table():
    rows = {row[0]: row[1:] for row in view().table.rows}
    assert rows["Weights, GB"] == ("16.06", "16.06")
    assert rows["Pool, GB"] == ("53.44", "53.44")
    assert rows["Decode step: weights, ms"] == ("5.6", "5.6")  # 15.01 GB at 2.68 TB/s


def test_parts_of_a_step_add_up_to_it():
    both = before_after(Demand(context=8192, output=1024, requests=200, max_num_seqs=256))
    for state in (both.before, both.after):
        assert sum(part_seconds(state).values()) == pytest.approx(state.decode.step.seconds)


@pytest.mark.parametrize(
    ("params", "binds"),
    [
        ({}, ("KV reads", "compute")),
        ({"context": "1024", "output": "512", "max_num_seqs": "64"}, ("max-num-seqs",) * 2),
        ({"requests": "4"}, ("requests",) * 2),
    ],
)
def test_the_title_says_what_binds(params, binds):
    title = view(**params).title
    expected = f"{binds[0]}, then {binds[1]}" if binds[0] != binds[1] else f"after: {binds[0]}"
    assert title.endswith(expected)


def test_one_limit_in_each_column_is_marked():
    assert str(view().picture).count("kv-ba-most") == 2
    assert str(view().picture).count('class="kv-ba-gains-row"') == len(Limit)


def test_a_server_that_starts_only_with_fp8_says_so():
    shown = view(model="Qwen/Qwen3-32B", context="16384")
    assert shown.title.startswith("Only with fp8 does a request fit")
    assert "does not start" in str(shown.picture)


def test_a_server_that_never_starts_gives_vllms_words():
    shown = view(gpu="l4-24gb", context="131072")
    assert shown.title == "With neither cache does one request fit"
    assert "max seq len (131072)" in shown.caption


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"context": "1024", "output": "1024"}, "output"),
        ({"model": "Qwen/Qwen3-8B", "context": "131072"}, "context"),
        ({"gpu": "nothing"}, "gpu"),
        ({"requests": "many"}, "requests"),
    ],
)
def test_what_cannot_be_is_refused_at_its_control(params, name):
    with pytest.raises(ParameterError) as caught:
        view(**params)
    assert caught.value.name == name


@pytest.mark.parametrize("model", [name for name, _ in MODELS])
@pytest.mark.parametrize("gpu", GPUS)
def test_every_model_on_every_gpu_is_drawn(model, gpu):
    shown = view(model=model, gpu=gpu, context="4096")
    assert shown.title
    assert shown.announce
