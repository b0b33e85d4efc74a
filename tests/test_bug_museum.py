"""The bug museum: each function is wrong as published, and its mend is right."""

import importlib
import re
from pathlib import Path

import pytest

from kvdocs.drills.lesson.exhibits import (
    DTYPE,
    EXHIBITS,
    HYBRID,
    LATENT,
    PREFIX,
    UNIT,
    WINDOW_IGNORED,
    WINDOW_LEFT_OUT,
    Length,
)
from kvdocs.drills.registry import DRILLS
from kvdocs.engine import EngineConfig, RequestSpec, SteppingEngine
from kvdocs.engine.prompt import TokenPrompt
from kvdocs.units import GIB

DOCS = Path(__file__).resolve().parents[1] / "docs"
every_exhibit = pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.id)


@every_exhibit
class TestEveryExhibit:
    def test_the_wrong_function_is_right_where_nobody_sees_it(self, exhibit):
        for subject in exhibit.harmless:
            assert exhibit.says(exhibit.wrong, subject)[0] == exhibit.case(subject).expected

    def test_and_wrong_where_it_is_exposed(self, exhibit):
        for subject in exhibit.exposing:
            assert exhibit.says(exhibit.wrong, subject)[0] != exhibit.case(subject).expected

    def test_the_mend_is_right_for_all(self, exhibit):
        for subject in (*exhibit.harmless, *exhibit.exposing):
            assert exhibit.says(exhibit.right, subject)[0] == exhibit.case(subject).expected

    def test_its_drill_is_an_extra_with_its_id(self, exhibit):
        assert exhibit.id.startswith("bug-")
        assert DRILLS[exhibit.id].pose().answer == exhibit.right

    def test_its_source_is_an_address(self, exhibit):
        assert re.fullmatch(
            r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", exhibit.source.url
        )
        assert exhibit.source.url.rpartition("/")[2] in exhibit.source.name

    def test_it_hangs_on_one_lesson_page_in_a_fold(self, exhibit):
        pages = [
            page
            for page in DOCS.glob("lessons/*/*.md")
            if f'    print(drill("{exhibit.id}"))' in page.read_text(encoding="utf-8")
        ]
        assert len(pages) == 1
        assert "Bug museum" in pages[0].read_text(encoding="utf-8")


def test_every_extra_drill_is_an_exhibit():
    extras = [name for name in DRILLS if name.startswith("bug-")]
    assert extras == [exhibit.id for exhibit in EXHIBITS]


class TestPublishedFigures:
    def test_70272_bytes_a_token_of_deepseek_v3(self):
        assert LATENT.says(LATENT.right, "deepseek-ai/DeepSeek-V3") == (70_272,)  # LMCache #715

    def test_gemma_3_27b_needs_10_gib_at_128k(self):
        subject = Length("google/gemma-3-27b-it", 131_072)
        right, wrong = (
            WINDOW_IGNORED.says(code, subject)[0] / GIB
            for code in (WINDOW_IGNORED.right, WINDOW_IGNORED.wrong)
        )
        assert round(right, 2) == 10.41  # unsloth #4757, "correct"; its table prints GiB as GB
        assert wrong / right == pytest.approx(81.38 / 10.41 * 128 / 168, rel=1e-3)  # its head dim

    def test_gpt_oss_120b_keeps_73728_bytes_a_token_within_its_window(self):
        says = WINDOW_LEFT_OUT.says(WINDOW_LEFT_OUT.right, Length("openai/gpt-oss-120b", 128))
        assert says == (128 * 73_728,)  # hf-mem #60, from vLLM's log
        says = WINDOW_LEFT_OUT.says(WINDOW_LEFT_OUT.wrong, Length("openai/gpt-oss-120b", 128))
        assert says == (128 * 36_864,)

    def test_an_estimate_of_qwen_3_5_was_four_times_the_growth(self):
        right, wrong = (
            HYBRID.says(code, "Qwen/Qwen3.5-27B")[0] for code in (HYBRID.right, HYBRID.wrong)
        )
        assert 262_144 * right / GIB == 16  # unsloth #4757, at the model's longest
        assert wrong == 4 * right

    def test_the_table_says_39_06_and_means_gib(self):
        subject = Length("meta-llama/Llama-3.1-70B", 128_000)
        assert UNIT.says(UNIT.wrong, subject) == (39.06,)  # huggingface/blog #2345
        assert UNIT.says(UNIT.right, subject) == (41.94,)

    @pytest.mark.parametrize("prefix", PREFIX.exposing, ids=str)
    def test_the_engine_finds_as_many_tokens_of_a_prefix(self, prefix):
        size = prefix.block_size
        engine = SteppingEngine(
            EngineConfig(num_blocks=20 + 4000 // size, block_size=size, max_model_len=8192)
        )
        shared = tuple(range(prefix.shared))
        for name, begin in (("a", 10_000), ("b", 20_000)):
            tokens = (*shared, *range(begin, begin + size + 1))
            engine.add(RequestSpec(id=name, prompt=TokenPrompt(tokens), max_tokens=1))
            steps = [engine.step() for _ in range(20)]
        found = [start for step in steps for start in step.admissions][-1].hit_tokens
        assert PREFIX.says(PREFIX.right, prefix) == (found,)

    def test_the_weights_dtype_halves_or_doubles(self):
        wrong = DTYPE.says(DTYPE.wrong, *DTYPE.exposing[:2])
        right = DTYPE.says(DTYPE.right, *DTYPE.exposing[:2])
        assert [one / other for one, other in zip(wrong, right, strict=True)] == [0.5, 2.0]


def test_a_step_is_done_without_the_extras(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent / "overrides"))
    course = importlib.import_module("course")
    html = '<kv-drill id="a" name="fp8-step-reads"></kv-drill><kv-drill id="b" name="bug-x">'
    assert course.drills_on(html) == ["fp8-step-reads"]
