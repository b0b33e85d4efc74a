"""`kvdocs size` against figures that kvdocs did not compute."""

import json

import pytest

from tests.model_facts import config_of


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        ("meta-llama/Llama-3.1-8B", "auto", 131_072),  # 32 layers x 8 heads x 128 x 2 x 2 bytes
        ("meta-llama/Llama-3.1-8B", "fp8", 65_536),
        ("meta-llama/Llama-3.1-70B", "auto", 327_680),  # 80 layers
        ("meta-llama/Llama-3.1-70B", "fp8", 163_840),
    ],
)
def test_bytes_per_token(kvdocs, model, dtype, expected):
    document = kvdocs("size", model, "--kv-cache-dtype", dtype, "--json").document
    assert document["kv_bytes_per_token"] == expected
    assert document["kv_bytes_per_token_per_gpu"] == expected


def test_a_sequence_of_n_tokens_includes_window_and_state(kvdocs):
    # Gemma 3 27B: 10 full and 52 sliding layers of 16 heads x 128 x 2 x 2 bytes = 8,192 a layer.
    document = kvdocs("size", "gemma-3-27b-it", "--tokens", "32768", "--json").document
    assert document["kv_bytes_per_token"] == 10 * 8192
    assert document["window_bytes_per_token"] == 52 * 8192
    assert document["window_tokens"] == 1024
    assert document["windows"] == [{"tokens": 1024, "bytes_per_token": 52 * 8192}]
    assert document["kv_bytes_at_tokens"] == 32768
    assert document["kv_bytes_at"] == 10 * 8192 * 32768 + 52 * 8192 * 1024


def test_the_constant_part_counts_once_a_sequence(kvdocs):
    # Qwen3-Next: 36 layers of a state 32 x 128 x 128 and a convolution of 3 x 8,192, in 2 bytes.
    state = 36 * 2 * (32 * 128 * 128 + 3 * 8192)
    at_0 = kvdocs("size", "Qwen3-Next-80B-A3B-Instruct", "--tokens", "0", "--json").document
    at_10 = kvdocs("size", "Qwen3-Next-80B-A3B-Instruct", "--tokens", "10", "--json").document
    assert at_0["constant_bytes_per_sequence"] == state
    assert at_0["kv_bytes_at"] == state
    assert at_10["kv_bytes_at"] == state + 10 * 24576


def test_without_tokens_there_is_no_length_to_size(kvdocs):
    document = kvdocs("size", "llama-3.1-8b", "--json").document
    assert document["kv_bytes_at"] is None
    assert document["kv_bytes_at_tokens"] is None


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-tp", "4"), 131_072 // 4),
        (("--tensor-parallel-size", "16"), 131_072 // 8),  # 8 heads: each stored twice
        (("--pipeline-parallel-size=2",), 131_072 // 2),
        (("-tp", "2", "-pp", "4"), 131_072 // 8),
    ],
)
def test_one_gpus_part(kvdocs, flags, expected):
    document = kvdocs("size", "llama-3.1-8b", *flags, "--json").document
    assert document["kv_bytes_per_token"] == 131_072
    assert document["kv_bytes_per_token_per_gpu"] == expected


@pytest.mark.parametrize("source", ["file", "folder", "stdin"])
def test_a_config_is_read_from(kvdocs, tmp_path, source):
    text = json.dumps(config_of("Qwen/Qwen3-8B"))
    (tmp_path / "config.json").write_text(text)
    name = {"file": tmp_path / "config.json", "folder": tmp_path, "stdin": "-"}[source]
    document = kvdocs("size", str(name), "--json", "--tokens", "8K", stdin=text).document
    assert document["kv_bytes_per_token"] == 36 * 8 * 128 * 2 * 2
    assert document["kv_bytes_at"] == 36 * 8 * 128 * 2 * 2 * 8192


def test_a_file_wins_over_a_catalogue_name(kvdocs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").mkdir()
    (tmp_path / "llama-3.1-8b" / "config.json").write_text(json.dumps(config_of("Qwen/Qwen3-8B")))
    assert kvdocs("size", "llama-3.1-8b", "--json").document["num_layers"] == 36


def test_a_folder_without_a_config_does_not_hide_the_catalogue(kvdocs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").mkdir()
    assert kvdocs("size", "llama-3.1-8b", "--json").document["num_layers"] == 32


@pytest.mark.parametrize(
    ("text", "tokens"), [("8192", 8192), ("8,192", 8192), ("8k", 8000), ("8K", 8192), ("0", 0)]
)
def test_lengths_are_read_as_vllm_reads_them(kvdocs, text, tokens):
    document = kvdocs("size", "llama-3.1-8b", "--json", "--tokens", text).document
    assert document["kv_bytes_at"] == tokens * 131_072


@pytest.mark.parametrize("text", ["-5", "many", "1.5", "", "9" * 40, "8 192"])
def test_other_lengths_are_refused(kvdocs, text):
    assert "--tokens" in kvdocs.refuses("size", "llama-3.1-8b", "--tokens", text)


def test_a_misspelt_model_is_answered_with_the_nearest(kvdocs):
    assert "did you mean llama-3.1-8b" in kvdocs.refuses("size", "lama-3.1-8b")


def test_a_config_that_cannot_be_read_right_names_the_file_and_the_field(kvdocs, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": "many"}))
    message = kvdocs.refuses("size", str(path))
    assert "config.json: num_hidden_layers is 'many'" in message


def test_a_split_vllm_would_not_take_is_refused(kvdocs):
    assert "--tensor-parallel-size 3" in kvdocs.refuses("size", "llama-3.1-8b", "-tp", "3")


def test_the_table_says_what_the_json_says(kvdocs):
    out = kvdocs("size", "gemma-3-27b-it", "--tokens", "32768").out
    assert "layers: 52 sliding (1,024) + 10 full" in out
    assert "81,920 B  80 KiB" in out
    assert "425,984 B  416 KiB" in out
    assert f"{10 * 8192 * 32768 + 52 * 8192 * 1024:,} B" in out


def test_a_length_beyond_the_models_own_is_sized_and_noted(kvdocs):
    out = kvdocs("size", "llama-3.1-8b", "--tokens", "200000").out
    assert "note: the config allows 131,072 tokens at most" in out
