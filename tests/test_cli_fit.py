"""`kvdocs fit` against the lesson's numbers, arithmetic by hand, and public servers."""

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest

from kvdocs.catalog import get_model, models
from kvdocs.cli import fit
from kvdocs.cli.parameters import count_parameters, why_not_counted
from kvdocs.cli.twins import find_twin
from kvdocs.errors import ConfigError
from tests.model_facts import config_of

LESSON = ("--gpu", "lesson-h100-80gb")
GIB = 2**30
FIGURES = json.loads((Path(__file__).parent / "data/catalog_figures.json").read_text())["models"]


class TestLesson:
    """The reference scenario: 72 - 16.06 - 1.5 - 1 = 53.44 GB."""

    def test_llama_8b_on_one_h100(self, kvdocs):
        status, out, err = kvdocs("fit", "meta-llama/Llama-3.1-8B", *LESSON, "--json")
        document = json.loads(out)
        assert (status, err) == (0, "")
        assert document["profile"] == "lesson"
        assert document["kv_pool_bytes"] == 53_440_000_000
        assert document["kv_pool_tokens"] == 407_714
        assert document["num_gpu_blocks"] == 25_482
        assert document["starts"] is True
        assert document["refusal"] is None
        assert document["max_model_len_that_fits"] == 131_072
        assert document["max_concurrency"] == pytest.approx(25_482 * 16 / 131_072)
        assert document["range"] is None

    def test_the_budget_adds_up_term_by_term(self, kvdocs):
        budget = kvdocs("fit", "llama-3.1-8b", *LESSON, "--json").document["budget_per_gpu"]
        assert budget["requested_bytes"] == 72_000_000_000
        assert budget["weights_bytes"] == 16_060_000_000
        assert budget["activation_bytes"] == 1_500_000_000
        assert budget["non_torch_bytes"] == 1_000_000_000
        assert budget["cuda_graph_bytes"] == 0
        assert budget["kv_bytes"] == 53_440_000_000

    def test_llama_70b_on_four(self, kvdocs):
        words = ("fit", "llama-3.1-70b", *LESSON, "-tp", "4", "--max-model-len", "8192", "--json")
        document = kvdocs(*words).document
        assert document["kv_pool_bytes"] == 130_800_000_000
        assert document["kv_bytes_per_token"] == 327_680
        assert document["max_requests"] == 48
        assert document["num_gpus"] == 4

    def test_the_lesson_names_its_context_and_a_real_server_what_is_not_torchs(self, kvdocs):
        assert "- CUDA context " in kvdocs("fit", "llama-3.1-8b", *LESSON).out
        assert (
            "- non-torch (CUDA context, NCCL) " in kvdocs("fit", "llama-3.1-8b", "--gpu", "l4").out
        )

    def test_a_latent_is_copied_on_every_gpu_and_the_division_is_shown(self, kvdocs):
        # 61 layers x 576 x 2 B on each of 8 GPUs; 8 times 40 GiB are no more tokens than 40 GiB.
        words = ("fit", "deepseek-v3", "--gpu", "h200", "-tp", "8", "--kv-cache-memory-bytes")
        printed = kvdocs(*words, str(40 * GIB)).out
        assert (
            "every GPU holds a copy of the latent: a token takes 68.62 KiB on each GPU" in printed
        )
        assert re.search(r"memory, each GPU +40 GiB", printed)
        assert re.search(r"memory, all GPUs +320 GiB", printed)
        assert re.search(rf"tokens +{40 * GIB // (61 * 576 * 2):,}", printed)
        plain = kvdocs("fit", "llama-3.1-70b", *LESSON, "-tp", "4").out
        assert "a copy of the latent" not in plain

    def test_llama_70b_on_four_with_an_fp8_cache(self, kvdocs):
        document = kvdocs(
            "fit", "llama-3.1-70b", *LESSON, "-tp", "4", "--kv-cache-dtype", "fp8", "--json"
        ).document
        assert document["kv_bytes_per_token"] == 163_840
        assert document["kv_pool_tokens"] == 130_800_000_000 // 163_840

    def test_a_config_file_gives_what_its_catalogue_model_gives(self, kvdocs, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(dict(get_model("llama-3.1-8b").config)))
        document = kvdocs("fit", str(path), *LESSON, "--json").document
        assert document["kv_pool_bytes"] == 53_440_000_000

    def test_llama_70b_on_one_does_not_start(self, kvdocs):
        status, out, err = kvdocs("fit", "llama-3.1-70b", *LESSON, "--json")
        document = json.loads(out)
        assert (status, err) == (3, "")
        assert document["starts"] is False
        assert document["refusal"].startswith("torch.OutOfMemoryError: CUDA out of memory.")
        assert document["kv_pool_bytes"] == document["num_gpu_blocks"] == 0
        assert document["max_model_len_that_fits"] == 0

    def test_the_default_share_is_the_lessons_and_a_flag_wins(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "lesson", "--json")
        more = kvdocs(*words, "--gpu-memory-utilization", "0.95").document
        assert more["kv_pool_bytes"] == 53_440_000_000 + 4_000_000_000

    def test_the_profile_can_be_asked_for_on_a_real_gpu(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--profile", "lesson", "--json")
        assert kvdocs(*words).document["kv_pool_bytes"] == 53_440_000_000

    def test_the_table_shows_the_subtraction(self, kvdocs):
        out = kvdocs("fit", "llama-3.1-8b", *LESSON).out
        for line in ("0.9 of 80 GB        72 GB", "- weights          16.06 GB", "53.44 GB"):
            assert line in out
        assert "407,714" in out
        assert "25,482" in out
        assert "The server starts" in out

    def test_offloaded_weights_are_not_of_the_lesson(self, kvdocs):
        message = kvdocs.refuses("fit", "llama-3.1-8b", *LESSON, "--cpu-offload-gb", "4")
        assert "--profile real" in message


class TestReal:
    def test_without_a_measured_peak_the_answer_is_a_range(self, kvdocs):
        document = kvdocs("fit", "llama-3.1-8b", "--gpu", "h100", "--json").document
        low, high = document["range"]["low"], document["range"]["high"]
        assert document["profile"] == "real"
        assert low["kv_pool_bytes"] < high["kv_pool_bytes"]
        assert document["kv_pool_bytes"] == low["kv_pool_bytes"]
        assert document["budget_per_gpu"]["utilization"] == 0.92
        assert document["basis"]
        assert document["sources"]

    def test_a_recorded_server_lies_within_the_range(self, kvdocs):
        # LLMServingSim's recorded server: Llama 3.1 8B on an RTX 4090, vLLM 0.19: 41,408 tokens.
        document = kvdocs(
            "fit", "llama-3.1-8b", "--gpu", "4090", "--vllm-version", "0.19.0", "--max-model-len",
            "8192", "--json",
        ).document  # fmt: skip
        low, high = document["range"]["low"], document["range"]["high"]
        assert low["kv_block_tokens"] <= 41_408 <= high["kv_block_tokens"]

    def test_a_measured_peak_and_context_leave_one_answer(self, kvdocs):
        document = kvdocs(
            "fit", "llama-3.1-8b", "--gpu", "h100", "--gpu-memory-utilization", "0.9",
            "--activation", "1.5 GiB", "--non-torch", str(GIB // 2), "--json",
        ).document  # fmt: skip
        total = document["budget_per_gpu"]["total_bytes"]
        expected = -(-total * 9 // 10) - 2 * 8_030_261_248 - 2 * GIB
        assert document["range"] is None
        assert abs(document["kv_pool_bytes"] - expected) <= 1

    def test_one_measured_term_narrows_the_range(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--activation", "5 GiB", "--json")
        document = kvdocs(*words).document
        low, high = document["range"]["low"], document["range"]["high"]
        assert low["budget_per_gpu"]["activation_bytes"] == 5 * GIB
        assert high["budget_per_gpu"]["activation_bytes"] == 5 * GIB
        assert low["budget_per_gpu"]["non_torch_bytes"] > high["budget_per_gpu"]["non_torch_bytes"]

    def test_the_printed_pool_of_a_public_log(self, kvdocs):
        # LMCache#1739: 6.51 GiB on each GPU, 42,656 tokens, 1.30x of 32,768.
        document = kvdocs(
            "fit", "Qwen/Qwen3-14B", "--gpu", "h100", "--max-model-len", "32768",
            "--kv-cache-memory-bytes", str(int(6.51 * GIB)), "--json",
        ).document  # fmt: skip
        assert document["kv_pool_tokens"] == pytest.approx(42_656, abs=40)
        assert document["max_concurrency"] == pytest.approx(1.30, abs=0.005)
        assert document["range"] is None

    def test_a_length_that_does_not_fit_is_refused_with_the_longest_that_does(self, kvdocs):
        status, out, _ = kvdocs(
            "fit",
            "llama-3.1-8b",
            "--gpu",
            "4090",
            "--kv-cache-memory-bytes",
            str(2 * GIB),
            "--json",
        )
        document = json.loads(out)
        assert status == 3
        # 128 KiB a token, blocks of 16, of which vLLM keeps one to itself.
        assert document["max_model_len_that_fits"] == (2 * GIB // 131_072 // 16 - 1) * 16
        assert "(131072)" in document["refusal"]

    def test_a_server_that_starts_only_at_the_high_end_may_not_start(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "4090", "--max-model-len", "32768")
        status, out, _ = kvdocs(*words)
        document = kvdocs(*words, "--json").document
        assert status == 3
        assert "The server may not start" in out
        assert document["starts"] is False
        assert document["range"]["high"]["starts"] is True

    def test_vllms_own_command_line_can_be_pasted(self, kvdocs):
        line = """
            vllm serve llama-3.1-8b --max-model-len 8K --host 0.0.0.0 --port=8000
            --no-enable-prefix-caching --max_num_seqs 64 --served-model-name a b
            --num-gpu-blocks-override 1000
        """
        words = line.split()
        document = kvdocs("fit", *words, "--gpu", "h100", "--json").document
        assert document["num_gpu_blocks"] == 1000
        assert document["max_model_len"] == 8192
        assert document["max_concurrency"] == pytest.approx(1000 * 16 / 8192)

    def test_flags_may_stand_before_the_model(self, kvdocs):
        before = kvdocs("fit", "--max-model-len", "8192", "llama-3.1-8b", "--gpu", "h100", "--json")
        after = kvdocs("fit", "llama-3.1-8b", "--gpu", "h100", "--json", "--max-model-len", "8192")
        assert before == after

    def test_the_longest_that_fits_can_be_asked_for(self, kvdocs):
        document = kvdocs(
            "fit", "llama-3.1-8b", "--gpu", "4090", "--max-model-len", "-1",
            "--kv-cache-memory-bytes", str(2 * GIB), "--json",
        ).document  # fmt: skip
        assert document["starts"] is True
        assert document["max_model_len"] == (2 * GIB // 131_072 // 16 - 1) * 16

    @pytest.mark.parametrize("flag", fit.NO_BEARING)
    def test_a_flag_without_bearing_changes_nothing(self, kvdocs, flag):
        version = ("--vllm-version", "0.17.0") if flag == "--swap-space" else ()
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--json", *version)
        with_flag = kvdocs(*words, *filter(None, (flag, fit.NO_BEARING[flag])))
        assert with_flag.status == 0
        assert with_flag == kvdocs(*words)

    def test_hopper_packs_a_sparse_latent(self, kvdocs):
        words = ("fit", "deepseek-v3.2", "-tp", "8", "--kv-cache-dtype", "fp8", "--gpu")
        hopper, blackwell = (kvdocs(*words, gpu, "--json").document for gpu in ("h200", "b200"))
        assert hopper["kv_bytes_per_token"] == 61 * (656 + 132) == 48_068
        assert hopper["bytes_per_block"] == 64 * 48_068
        assert hopper["kv_cache_dtype"] == "fp8_ds_mla"
        assert any("656 bytes a layer" in note for note in hopper["notes"])
        assert blackwell["kv_bytes_per_token"] == 61 * (576 + 132)
        assert "46.94 KiB a token" in kvdocs(*words, "h200").out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("llama-3.1-70b", "--gpu", "h100"), "torch.OutOfMemoryError: CUDA out of memory."),
            (
                ("llama-3.1-70b", "--gpu", "h100", "--kv-cache-memory-bytes", "60G"),
                "torch.OutOfMemoryError: CUDA out of memory.",
            ),
            (
                ("llama-3.1-8b", "--gpu", "lesson", "--gpu-memory-utilization", "1.0"),
                "Free memory on device cuda:0 (73.57/74.51 GiB) on startup is less than",
            ),
        ],
    )
    def test_a_start_that_ends_before_the_cache_is_planned(self, kvdocs, words, said):
        status, out, _ = kvdocs("fit", *words, "--json")
        document = json.loads(out)
        assert status == 3
        assert document["refusal"].startswith(said)
        assert (document["starts"], document["num_gpu_blocks"]) == (False, 0)

    def test_copies_of_the_server_are_counted(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "-tp", "2", "-dp", "3", "--json")
        document = kvdocs(*words).document
        assert (document["replicas"], document["num_gpus"]) == (3, 6)

    def test_the_default_share_follows_the_version(self, kvdocs):
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--vllm-version", "0.18.1", "--json")
        assert kvdocs(*words).document["budget_per_gpu"]["utilization"] == 0.9


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("llama-3.1-8b",), "--gpu is missing"),
            (("--gpu", "h100"), "the model is missing"),
            (("llama-3.1-8b", "--gpu", "h1000"), "did you mean h100"),
            (("llama-3.1-8b", "--gpu"), "--gpu"),
            (("llama-3.1-8b", "--gpu", "h100", "--profile", "best"), "--profile"),
            (("llama-3.1-8b", "--gpu", "h100", "--max-model-len", "200000"), "131072"),
            (("llama-3.1-8b", "--gpu", "h100", "--gpu-memory-utilization", "2"), "share"),
            (("llama-3.1-8b", "--gpu", "h100", "-tp", "3"), "tensor parallel size (3)"),
            (("llama-3.1-8b", "--gpu", "h100", "-dcp", "2"), "divisible by dcp_size=2"),
            (("llama-3.1-8b", "--gpu", "h100", "--max-num-seqs", "9000"), "max_num_seqs (9000)"),
            (("llama-3.1-8b", "--gpu", "h100", "--activation", "much"), "--activation"),
            (("llama-3.1-8b", "--gpu", "h100", "--weights-bytes", "0"), "--weights-bytes"),
            (("llama-3.1-8b", "--gpu", "h100", "--num-parameters", "-8B"), "--num-parameters"),
            (("llama-3.1-8b", "--gpu", "h100", "--vllm-version", "new"), "not a vLLM version"),
            (("llama-3.1-8b", "--gpu", "h100", "--quantization", "fp8"), "--weights-bytes"),
        ],
    )
    def test_each_names_what_is_wrong(self, kvdocs, words, reason):
        assert reason in kvdocs.refuses("fit", *words)


class TestWeights:
    def weights(self, kvdocs, *words: str, **options) -> dict:
        return kvdocs("fit", *words, "--gpu", "h200", "--json", **options).document["weights"]

    def test_given_as_bytes_or_with_a_unit(self, kvdocs):
        model = "llama-3.1-8b"
        assert self.weights(kvdocs, model, "--weights-bytes", "16e9")["bytes"] == 16_000_000_000
        assert self.weights(kvdocs, model, "--weights-bytes", "15 GiB")["bytes"] == 15 * GIB

    def test_given_as_parameters(self, kvdocs):
        weights = self.weights(kvdocs, "llama-3.1-8b", "--num-parameters", "8.03B")
        assert weights["bytes"] == 16_060_000_000

    def test_read_from_an_index(self, kvdocs, tmp_path):
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}))
        weights = self.weights(kvdocs, "gpt-oss-20b", "--weights-bytes", str(index))
        assert weights["bytes"] == 16_060_522_496

    def test_an_index_beside_the_config_is_found(self, kvdocs, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps(config_of("Qwen/Qwen3-8B")))
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 16_381_470_720}}))
        weights = self.weights(kvdocs, str(tmp_path))
        assert weights["bytes"] == 16_381_470_720
        assert "index" in weights["source"]

    @pytest.mark.parametrize(
        "text",
        [
            "{}",
            "[]",
            "",
            "\xff",
            '{"metadata": 5}',
            '{"metadata": {"total_size": "x"}}',
            '{"metadata": {"total_size": -5}}',
            '{"metadata": {"total_size": true}}',
        ],
    )
    def test_an_index_without_a_size_is_refused(self, kvdocs, tmp_path, text):
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(text)
        words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--weights-bytes", str(index))
        assert "total_size" in kvdocs.refuses(*words)

    def test_the_catalogues_own(self, kvdocs):
        assert self.weights(kvdocs, "llama-3.1-8b")["bytes"] == 2 * 8_030_261_248

    def test_counted_from_the_config(self, kvdocs, tmp_path):
        # Not a released model: half the layers of Llama 3.1 8B, by hand.
        config = {**get_model("llama-3.1-8b").config, "num_hidden_layers": 16}
        layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336 + 2 * 4096
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        weights = self.weights(kvdocs, str(path))
        assert weights["bytes"] == 2 * (16 * layer + 2 * 128256 * 4096 + 4096)

    def test_a_config_with_a_catalogue_models_shapes_has_its_weights(self, kvdocs):
        config = {**get_model("gpt-oss-20b").config, "transformers_version": "4.55.0"}
        weights = self.weights(kvdocs, "-", stdin=json.dumps(config))
        assert weights["bytes"] == get_model("gpt-oss-20b").weight_bytes
        assert "openai/gpt-oss-20b" in weights["source"]

    @pytest.mark.parametrize(
        "change",
        [
            {"quantization_config": {"quant_method": "awq"}},
            {"model_type": "a-new-one"},
            {"vocab_size": None},
        ],
    )
    def test_what_cannot_be_counted_right_is_refused(self, kvdocs, change):
        config = {**get_model("llama-3.1-8b").config, **change}
        message = kvdocs.refuses("fit", "-", "--gpu", "h100", stdin=json.dumps(config))
        assert "--weights-bytes" in message or "model_type" in message

    def test_two_bytes_a_parameter_is_not_said_of_quantized_weights(self, kvdocs):
        message = kvdocs.refuses("fit", "gpt-oss-20b", "--gpu", "h100", "--num-parameters", "20B")
        assert "quantized" in message

    def test_a_vision_part_is_noted(self, kvdocs):
        notes = kvdocs("fit", "gemma-3-27b-it", "--gpu", "h200", "--json").document["notes"]
        assert any("vision" in note for note in notes)


class TestParameters:
    """Counts against the catalogue's, which transformers' own model classes gave."""

    COUNTED: ClassVar = [entry for entry in models() if not why_not_counted(entry.config)]

    def test_the_common_dense_and_expert_models_are_counted(self):
        types = {entry.config["model_type"] for entry in self.COUNTED}
        assert types == {
            "llama", "mistral", "mixtral", "olmo2", "phi3", "qwen2", "qwen3", "qwen3_moe"
        }  # fmt: skip
        assert len(self.COUNTED) > 25

    @pytest.mark.parametrize("entry", COUNTED, ids=[entry.id for entry in COUNTED])
    def test_the_count_is_exact(self, entry):
        assert count_parameters(entry.config) == entry.num_parameters

    def test_biases_are_counted_where_the_file_asks_for_them(self):
        config = {**get_model("llama-3.1-8b").config, "attention_bias": True, "mlp_bias": True}
        # Q 4,096, K and V 1,024 each, O 4,096; gate and up 14,336 each, down 4,096.
        extra = 32 * (4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096)
        assert count_parameters(config) == 8_030_261_248 + extra

    def test_mixed_dense_and_expert_layers_are_refused(self):
        config = {**get_model("Qwen/Qwen3-30B-A3B").config, "mlp_only_layers": [0]}
        with pytest.raises(ConfigError, match="mlp_only_layers"):
            count_parameters(config)

    @pytest.mark.parametrize("entry", models(), ids=[entry.id for entry in models()])
    def test_a_catalogue_model_is_its_own_twin(self, entry):
        twin = find_twin({**entry.config, "use_cache": True})
        assert twin is not None
        assert twin.weight_bytes == entry.weight_bytes

    def test_another_width_is_no_twin(self):
        config = {**get_model("gpt-oss-20b").config, "num_local_experts": 16}
        assert find_twin(config) is None

    def test_the_same_shapes_stored_otherwise_are_no_twin(self):
        config = {**get_model("openai-community/gpt2").config}
        config["quantization_config"] = {"quant_method": "gptq"}
        assert find_twin(config) is None
