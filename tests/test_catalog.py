"""Every catalogue entry against figures that were not computed by kvdocs."""

import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvdocs.catalog
from kvdocs.catalog import (
    CatalogError,
    get_gpu,
    get_link,
    get_model,
    gpu_ids,
    gpu_rows,
    gpus,
    links,
    model_ids,
    model_rows,
    models,
)
from kvdocs.model import kv_cost

DATA = Path(__file__).parent / "data" / "catalog_figures.json"
FIGURES = {entry["id"]: entry for entry in json.loads(DATA.read_text())["models"]}
MEASURED = {name: entry["measured"] for name, entry in FIGURES.items() if "measured" in entry}


def products(text: str) -> int:
    """Evaluate "46 * 8 + 2 * 3": sums of products of integers, nothing else."""
    return sum(math.prod(int(factor) for factor in term.split("*")) for term in text.split("+"))


def test_products_are_evaluated_as_written():
    assert products("46 * 8 * 128 * 2 * 2") == 188_416
    assert products("3 * 2 + 4 * 5") == 26


def test_the_catalogue_holds_at_least_forty_models_and_every_one_has_a_figure():
    assert len(models()) >= 40
    assert set(model_ids()) == set(FIGURES)
    assert len(MEASURED) == 26


@pytest.mark.parametrize("name", FIGURES)
def test_hand_arithmetic_gives_the_three_parts(name):
    figure, cost = FIGURES[name], kv_cost(get_model(name).model)
    assert cost.bytes_per_token == products(figure["full"]) + products(figure["indexer"])
    assert cost.window_bytes_per_token == products(figure["window"])
    assert cost.window_tokens == figure["window_tokens"]
    assert cost.constant_bytes_per_sequence == products(figure["constant"])


@pytest.mark.parametrize("name", MEASURED)
def test_measured_caches_agree_with_the_hand_arithmetic(name):
    figure, measured = FIGURES[name], MEASURED[name]
    assert products(figure["full"]) + products(figure["indexer"]) == measured["full"]
    assert products(figure["window"]) == measured["window"]
    assert products(figure["constant"]) == measured["constant"]
    assert figure["window_tokens"] == measured["window_tokens"]


@pytest.mark.parametrize("name", FIGURES)
def test_the_cache_of_transformers_grows_by_the_same_bytes(name):
    figure = FIGURES[name]
    if "transformers_per_token" not in figure:
        assert figure["check"], "an exception needs its reason"
        return
    cost = kv_cost(get_model(name).model)
    keys_and_values = cost.bytes_per_token - products(figure["indexer"])
    grown = keys_and_values + cost.window_bytes_per_token
    assert grown == figure["transformers_per_token"]


def test_only_two_models_have_no_figure_from_transformers():
    assert sum("transformers_per_token" not in figure for figure in FIGURES.values()) == 2


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("tokens", [4096, 32768])
def test_measured_bytes_of_a_sequence(name, tokens):
    assert kv_cost(get_model(name).model).bytes_at(tokens) == MEASURED[name][f"at_{tokens}"]


# What the makers say, in billions: from the model's name or card, not from counting.
PUBLISHED_BILLIONS = {
    "meta-llama/Llama-3.1-8B": 8.03,
    "meta-llama/Llama-3.1-70B": 70.6,
    "meta-llama/Llama-3.1-405B": 405,
    "mistralai/Mixtral-8x7B-v0.1": 46.7,
    "mistralai/Mixtral-8x22B-v0.1": 141,
    "mistralai/Mistral-Large-Instruct-2407": 123,
    "Qwen/Qwen2.5-7B-Instruct": 7.61,
    "Qwen/Qwen2.5-72B-Instruct": 72.7,
    "Qwen/Qwen3-30B-A3B": 30.5,
    "Qwen/Qwen3-235B-A22B": 235,
    "openai/gpt-oss-20b": 20.9,
    "openai/gpt-oss-120b": 117,
    "deepseek-ai/DeepSeek-V3": 671,
    "deepseek-ai/DeepSeek-V2-Lite": 15.7,
    "moonshotai/Kimi-K2-Instruct": 1000,
    "zai-org/GLM-4.5-Air": 106,
    "MiniMaxAI/MiniMax-M2.5": 229,
    "XiaomiMiMo/MiMo-V2-Flash": 309,
    "ibm-granite/granite-4.0-h-small": 32,
    "ai21labs/Jamba-v0.1": 52,
    "microsoft/phi-4": 14.7,
    "openai-community/gpt2": 0.124,
}
PUBLISHED_ACTIVE_BILLIONS = {
    "Qwen/Qwen3-235B-A22B": 22,
    "openai/gpt-oss-120b": 5.1,
    "deepseek-ai/DeepSeek-V3": 37,
    "mistralai/Mixtral-8x7B-v0.1": 12.9,
    "moonshotai/Kimi-K2-Instruct": 32,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 17,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_BILLIONS.items())
def test_parameters_are_what_the_maker_says(name, billions):
    assert get_model(name).num_parameters == pytest.approx(billions * 1e9, rel=0.03)


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_ACTIVE_BILLIONS.items())
def test_active_parameters_are_what_the_maker_says(name, billions):
    # Makers leave out embeddings, so a small expert model differs by more.
    assert get_model(name).num_active_parameters == pytest.approx(billions * 1e9, rel=0.13)


def test_quantised_weights_are_the_size_the_maker_says():
    # OpenAI's gpt-oss model card, table 1: checkpoints of 12.8 and 60.8 GiB.
    assert get_model("gpt-oss-20b").weight_bytes / 2**30 == pytest.approx(12.8, abs=0.05)
    assert get_model("gpt-oss-120b").weight_bytes / 2**30 == pytest.approx(60.8, abs=0.05)


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry.id)
def test_an_entry_is_complete_and_consistent(entry):
    assert entry.sources
    assert entry.parameters_source
    assert 0 < entry.num_active_parameters <= entry.num_parameters
    assert entry.context_length > 0
    width = {"bfloat16": 2, "float16": 2}.get(entry.weight_dtype)
    if width:
        assert entry.weight_bytes == width * entry.num_parameters
    else:
        assert entry.weight_bytes < 1.1 * entry.num_parameters
        assert entry.config.get("quantization_config") or entry.text_config["quantization_config"]


def test_the_lesson_reckons_with_three_digits():
    assert get_model("meta-llama/Llama-3.1-8B").num_parameters_rounded == 8_030_000_000
    assert get_model("meta-llama/Llama-3.1-70B").num_parameters_rounded == 70_600_000_000


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("META-LLAMA/LLAMA-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        (" gpt2 ", "openai-community/gpt2"),
        ("gemma_3_27b", "google/gemma-3-27b-it"),
    ],
)
def test_models_are_found_by_what_people_type(typed, found):
    assert get_model(typed).id == found


def test_every_model_is_found_by_its_id_and_its_short_name():
    for entry in models():
        assert get_model(entry.id) is entry
        assert get_model(entry.id.rpartition("/")[2]) is entry


def test_no_alias_means_two_models():
    names = [name.lower() for entry in models() for name in (entry.id, *entry.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("h100", "H100-SXM5-80GB"),
        ("H100-80GB", "H100-SXM5-80GB"),
        ("4090", "GeForce RTX 4090"),
        ("GeForce RTX 4090", "GeForce RTX 4090"),
        ("a100-80gb", "A100-SXM4-80GB"),
        ("l4", "L4"),
        ("b200", "B200-SXM-180GB"),
        ("MI300X", "MI300X"),
    ],
)
def test_gpus_are_found_by_what_people_type(typed, found):
    assert get_gpu(typed).name == found


def test_no_gpu_name_means_two_gpus():
    assert len(gpu_ids()) == len(set(gpu_ids())) == len(gpus()) == 27
    for gpu_id, gpu in zip(gpu_ids(), gpus(), strict=True):
        assert get_gpu(gpu_id) is gpu
        assert get_gpu(gpu.name) is gpu


@pytest.mark.parametrize(
    ("find", "typed", "offered"),
    [
        (get_model, "meta-llama/Llama-3.1-8", "llama-3.1-8b"),
        (get_gpu, "rtx4900", "rtx4090"),
        (get_link, "nvlink6", "nvlink5"),
    ],
)
def test_a_miss_offers_the_nearest_names(find, typed, offered):
    with pytest.raises(CatalogError, match="did you mean") as caught:
        find(typed)
    assert typed in str(caught.value)
    assert offered in str(caught.value)


@pytest.mark.parametrize("find", [get_model, get_gpu, get_link])
@given(name=st.text(max_size=300))
def test_any_text_finds_an_entry_or_is_refused_in_one_line(find, name):
    refusal = "catalogue has no"
    try:
        find(name)
    except CatalogError as error:
        refusal = str(error)
    assert refusal.count("catalogue has no") == 1
    assert len(refusal) < 600


def test_the_lessons_gpu_is_round_and_a_real_one_is_not():
    assert get_gpu("lesson-h100-80gb").total_memory_bytes == 80 * 10**9
    real = get_gpu("h100")
    assert real.nvidia_smi_memory_bytes == 81_559 * 2**20
    assert real.total_memory_bytes == pytest.approx(79.18 * 2**30, rel=1e-4)


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_a_gpu_is_plausible(gpu):
    assert gpu.sources
    assert 0.9 < gpu.nvidia_smi_memory_bytes / gpu.memory_bytes < 1.08
    assert gpu.total_memory_bytes <= gpu.nvidia_smi_memory_bytes
    assert 3e11 <= gpu.memory_bandwidth_bytes_per_s <= 8e12
    if gpu.dense_fp8_flops is not None:
        assert gpu.dense_fp8_flops == pytest.approx(2 * gpu.dense_bf16_flops, rel=0.02)


def test_the_lessons_h100_and_the_board_it_rounds_have_one_fp8_figure():
    # NVIDIA's datasheet: 3,958 TFLOPS with sparsity, so 1,979 without.
    rates = {get_gpu(name).dense_fp8_flops for name in ("lesson-h100-80gb", "h100", "h200")}
    assert rates == {3958e12 / 2}


def test_links_have_their_names_speed():
    assert get_link("ethernet-100").bytes_per_s == 100e9 / 8
    assert get_link("ib-ndr").bytes_per_s == 400e9 / 8
    assert get_link("nvlink4").bytes_per_s == get_gpu("h100").nvlink_bytes_per_s
    assert get_link("pcie5").bytes_per_s == get_gpu("h100").pcie_bytes_per_s
    assert all(link.sources for link in links())


def test_rows_say_what_the_layers_keep():
    rows = {row.id: row for row in model_rows()}
    assert len(rows) == len(models())
    assert rows["google/gemma-3-27b-it"].layers in {
        "10 full + 52 sliding (1,024)",
        "52 sliding (1,024) + 10 full",
    }
    assert rows["deepseek-ai/DeepSeek-V3"].num_kv_heads == 1
    assert len(gpu_rows()) == 27


def test_the_data_can_be_read_from_a_zip(tmp_path):
    package = Path(kvdocs.catalog.__file__).parents[1]
    archive = tmp_path / "kvdocs.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        for path in package.rglob("*"):
            if path.suffix in {".py", ".json"}:
                bundle.write(path, path.relative_to(package.parent))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import kvdocs.catalog as c;"
        "assert 'kvdocs.zip' in c.__file__; print(len(c.models()), len(c.gpus()), len(c.links()))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.split() == [str(len(models())), "27", str(len(links()))]


def test_importing_the_package_reads_no_data():
    code = (
        "import sys, kvdocs.catalog; from kvdocs.catalog import lookup;"
        "assert lookup.models.cache_info().currsize == 0; assert 'pkgutil' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
