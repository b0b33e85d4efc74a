"""The widgets: figures against independent numbers, every refusal, and the frame around them."""

import json
import re

import pytest

from kvdocs.errors import KvdocsError, ParameterError
from kvdocs.widgets.browser import update
from kvdocs.widgets.controls import Choice, Range, Steps, Text
from kvdocs.widgets.frame import element
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.registry import WIDGETS, get_widget

GPU_MEMORY = get_widget("gpu-memory")
BYTES_PER_TOKEN = get_widget("bytes-per-token")


def figures_in(html):
    return dict(re.findall(r'data-figure="([^"]+)">([^<]*)<', html))


def figure(widget, name, **params):
    return widget.view(**params).figure(name).value


@pytest.mark.parametrize("widget", WIDGETS.values(), ids=list(WIDGETS))
class TestEveryWidget:
    def test_the_static_form_is_whole(self, widget):
        html = str(element(widget, ident="x", params={}))
        view = widget.view()
        assert html.startswith(f'<kv-widget id="x" name="{widget.name}" state="static"')
        for shown in (view.caption, *(f.label for f in view.figures)):
            assert shown.split("&")[0].split("<")[0] in html
        assert figures_in(html) == {f.name: f.value for f in view.figures}

    def test_its_controls_are_native_labelled_and_off_without_scripts(self, widget):
        html = str(element(widget, ident="x", params={}))
        assert "<fieldset disabled>" in html
        for control in widget.controls:
            field = re.search(
                rf'<div class="kv-control" data-control="{control.name}"[^>]*>'
                r'(.*?)(?=<div class="kv-control"|</fieldset>)',
                html,
                re.DOTALL,
            )
            assert re.search(
                rf'<label.*<(input|select|textarea)[^>]* name="{control.name}"', field[1], re.DOTALL
            )
            assert f'data-error-for="{control.name}"' in field[1]

    def test_the_browser_draws_what_the_build_drew(self, widget):
        built = str(element(widget, ident="x", params={}))
        answer = json.loads(update(widget.name, "{}"))
        assert answer["html"] in built
        assert answer["errors"] == {}

    def test_the_same_parameters_give_the_same_bytes(self, widget):
        assert update(widget.name, "{}") == update(widget.name, "{}")

    def test_an_unknown_parameter_is_refused(self, widget):
        answer = json.loads(update(widget.name, '{"nonsense": "1"}'))
        assert answer["html"] is None
        assert "'nonsense'" in answer["errors"]["*"]

    def test_its_python_makes_its_first_figure(self, widget, capsys):
        view = widget.view()
        exec(view.python, {})
        assert f"{int(capsys.readouterr().out):,}" == view.figures[0].value

    def test_its_table_has_a_cell_for_every_column(self, widget):
        table = widget.view().table
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.head)}


class TestGpuMemory:
    def test_the_reference_figures(self):
        assert figure(GPU_MEMORY, "kv_pool_tokens") == "407,714"
        assert figure(GPU_MEMORY, "kv_pool_bytes") == "53.44"
        assert figure(GPU_MEMORY, "requested_bytes") == "67.06"

    def test_a_lower_share_takes_everything_from_the_pool(self):
        # (0.8 x 80e9 - 16.06e9 - 1.5e9 - 1e9) / 131072 = 346,679.7
        assert figure(GPU_MEMORY, "kv_pool_tokens", utilization="0.8") == "346,679"

    def test_fp8_doubles_the_tokens_not_the_bytes(self):
        assert figure(GPU_MEMORY, "kv_pool_bytes", kv_cache_dtype="fp8") == "53.44"
        assert (
            figure(GPU_MEMORY, "kv_pool_tokens", kv_cache_dtype="fp8") == "815,429"
        )  # 53.44e9 / 65,536

    def test_a_request_that_does_not_fit_is_said_and_no_token_counted(self):
        view = GPU_MEMORY.view(model="google/gemma-3-27b-it")
        assert "one request of 131,072 tokens does not fit 15.5 GB" in view.title
        assert view.figure("kv_pool_tokens").value == "–"
        assert "0MiB /" in str(view.picture)

    def test_weights_larger_than_the_gpu_do_not_start(self):
        view = GPU_MEMORY.view(model="meta-llama/Llama-3.1-70B")
        assert "does not start" in view.title
        assert "141.2 GB" in view.title  # 70.6e9 parameters x 2 B
        assert view.figure("kv_pool_tokens").value == "–"

    @pytest.mark.parametrize("bad", ["2", "-1", "nan", "inf", "", "0,9", "<b>", "0.9" * 100])
    def test_a_share_that_is_not_one_is_refused_beside_its_control(self, bad):
        answer = json.loads(update("gpu-memory", json.dumps({"utilization": bad})))
        assert answer["html"] is None
        assert "0.5 to 0.98" in answer["errors"]["utilization"]


class TestBytesPerToken:
    def test_the_reference_figures(self):
        assert figure(BYTES_PER_TOKEN, "kv_bytes_per_token") == "131,072"
        large = {"model": "meta-llama/Llama-3.1-70B"}
        assert figure(BYTES_PER_TOKEN, "kv_bytes_per_token", **large) == "327,680"
        assert (
            figure(BYTES_PER_TOKEN, "kv_bytes_per_token", kv_cache_dtype="fp8", **large)
            == "163,840"
        )

    def test_a_pasted_config_stands_in_for_the_model(self):
        config = {
            "model_type": "llama",
            "num_hidden_layers": 80,
            "hidden_size": 8192,
            "num_attention_heads": 64,
        }
        # as if MHA: 2 x 80 x 64 x 128 x 2
        assert (
            figure(BYTES_PER_TOKEN, "kv_bytes_per_token", config=json.dumps(config)) == "2,621,440"
        )

    @pytest.mark.parametrize(
        ("model", "said"),
        [
            # 2 x 128 x 16 heads x 2 B: 62 layers inside the window, 10 outside
            ("google/gemma-3-27b-it", "one token takes 496 KiB, and 80 KiB once it has left"),
            # 2 x 256 x 2 heads x 2 B x 12 layers
            ("Qwen/Qwen3-Next-80B-A3B-Instruct", "one token takes 24 KiB, and each sequence"),
            ("deepseek-ai/DeepSeek-V3", "one token takes 68.62 KiB"),  # (512 + 64) x 61 x 2 B
        ],
    )
    def test_the_title_says_all_that_a_token_takes(self, model, said):
        assert said in BYTES_PER_TOKEN.view(model=model).title

    @pytest.mark.parametrize(("dtype", "noted"), [("fp8", True), ("auto", False)])
    def test_an_fp8_cache_says_what_hopper_makes_of_a_sparse_latent(self, dtype, noted):
        view = BYTES_PER_TOKEN.view(model="deepseek-ai/DeepSeek-V3.2", kv_cache_dtype=dtype)
        said = "On Hopper GPUs vLLM stores this sparse latent as fp8_ds_mla (656 bytes a layer)"
        assert (said in str(view.picture)) is noted

    @pytest.mark.parametrize(
        ("model", "classes", "said"),
        [
            ("google/gemma-3-27b-it", {"kv-layer-windowed"}, "Pale = kept inside the window"),
            ("deepseek-ai/DeepSeek-V3", {"kv-layer-key", "kv-layer-value"}, "Dark = the latent"),
            ("deepseek-ai/DeepSeek-V3.2", {"kv-layer-indexer"}, "sparse indexer"),
            ("ai21labs/Jamba-v0.1", {"kv-layer-recurrent"}, "a state of fixed size"),
            ("google/gemma-3n-E4B-it", {"kv-layer-none"}, "reads the cache of an earlier one"),
            ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", {"kv-layer-none"}, "that keeps nothing"),
        ],
    )
    def test_every_kind_of_layer_is_drawn_apart_and_explained(self, model, classes, said):
        html = str(BYTES_PER_TOKEN.view(model=model).picture)
        assert classes <= set(re.findall(r"kv-layer-\w+", html))
        assert said in html

    @pytest.mark.parametrize(
        ("paste", "said"),
        [
            ("not json", "JSON"),
            ("[1, 2]", "list"),
            ("<!doctype html><html></html>", "web page"),
            ("{}", "model_type"),
            ('{"num_hidden_layers": 32}', "hidden_size|num_attention_heads|model_type"),
            ("x" * 5_000_000, "5,000,000 characters"),
        ],
    )
    def test_a_wrong_paste_gets_a_message_and_no_picture(self, paste, said):
        answer = json.loads(update("bytes-per-token", json.dumps({"config": paste})))
        assert answer["html"] is None
        assert re.search(said, answer["errors"]["config"]), answer["errors"]

    def test_markup_in_a_config_is_shown_as_text(self):
        config = {"model_type": "<img onerror=x>", "num_hidden_layers": "<script>"}
        answer = update("bytes-per-token", json.dumps({"config": json.dumps(config)}))
        html = json.loads(answer)["html"]
        assert html is None or "<script>" not in html


class TestControls:
    def test_a_range_allows_its_ends(self):
        control = Range("x", "X", 0.5, 0.98, 0.01, "0.9")
        assert [control.read("0.5"), control.read("0.98")] == [0.5, 0.98]

    def test_steps_show_a_position_and_stand_for_a_number(self):
        html = str(Steps("s", "S", (1, 2, 4, 8), "4", "heads").element("4"))
        assert 'min="0" max="3" step="1" value="2" data-steps="1 2 4 8"' in html
        assert "4\N{NO-BREAK SPACE}heads" in html

    def test_steps_take_the_nearest_by_ratio(self):
        steps = Steps("s", "S", (1, 2, 4, 8), "4")
        assert [steps.read(raw) for raw in ("1", "3", "6", "999")] == [1, 4, 8, 8]

    def test_a_choice_names_its_options(self):
        control = Choice("c", "Colour", (("r", "red"), ("g", "green")), "r")
        with pytest.raises(ParameterError, match="'b' is not one of r, g"):
            control.read("b")

    def test_a_text_has_an_end(self):
        with pytest.raises(ParameterError, match="at most 3"):
            Text("t", "T", max_characters=3).read("four")


def test_an_unknown_widget_is_named():
    with pytest.raises(KvdocsError, match=r"'gpu-memroy'; there are .*gpu-memory"):
        get_widget("gpu-memroy")


def test_every_kind_of_memory_has_its_own_word():
    words = [kind.word for kind in MemoryKind]
    assert len(set(words)) == len(words)


def test_every_kind_of_memory_has_a_colour_and_a_pattern(request):
    root = request.config.rootpath
    styles = (root / "overrides/assets/widgets.css").read_text("utf-8")
    patterns = (root / "overrides/partials/patterns.html").read_text("utf-8")
    for kind in MemoryKind:
        assert styles.count(f"--kv-{kind.value}:") == 2, f"{kind} needs a colour in both schemes"
        assert f'id="kv-p-{kind.value}"' in patterns
