"""The glossary: what is marked in prose, what is left alone, and what is missing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from markdown import Markdown

ROOT = Path(__file__).resolve().parents[1]
FIELD = """
    KV cache, block, prefix cache, prefill, decode, TTFT, TPOT, ITL, GQA, MQA, MHA, MLA, HBM, pool,
    preemption, chunked prefill, max-model-len, tensor parallel, roofline, Little's law,
    working set, offload, disaggregation, e4m3
"""
"""The words that the lesson promises to explain."""
MARK = re.compile(r'<abbr class="kv-term" tabindex="0" title="[^"]+">([^<]+)</abbr>')


@pytest.fixture(scope="module")
def glossary() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "overrides"))
    import glossary  # noqa: PLC0415 - only there is it found

    yield glossary
    glossary.forget()
    sys.path.remove(str(ROOT / "overrides"))


@pytest.fixture
def convert(glossary: ModuleType):
    """Converts a lesson page, with the extensions of the site that could be in the way."""
    glossary.forget()
    glossary.Noted.current = glossary.LessonPage("lessons/a.md")
    named = ["abbr", "attr_list", "footnotes", "md_in_html", "tables", "toc"]
    more = ["pymdownx.details", "pymdownx.highlight", "pymdownx.inlinehilite"]
    import hooks  # noqa: PLC0415 - on the path with the glossary

    own = [hooks.BlockElements(), glossary.Glossary()]
    md = Markdown(extensions=[*named, *more, "pymdownx.superfences", *own])
    yield md.convert
    glossary.Noted.current = None


def test_every_word_of_the_field_is_defined(glossary: ModuleType):
    for word in FIELD.split(","):
        assert glossary.term_of(" ".join(word.split())).definition


def test_a_form_belongs_to_one_term(glossary: ModuleType):
    forms = [form.lower() for term in glossary.terms() for form in term.forms]
    assert len(forms) == len(set(forms))
    anchors = [term.anchor for term in glossary.terms()]
    assert len(anchors) == len(set(anchors))


def test_definitions_are_plain_and_short(glossary: ModuleType):
    for term in glossary.terms():
        assert 20 < len(term.definition) < 170, term.name
        assert not re.search(r"[`*_\n]", term.definition.replace("kv_", "").replace("_", " "))
        assert 1 <= term.step <= 21


def test_the_first_use_in_prose_is_marked_and_no_other(convert):
    html = convert("Prefill comes first. The prefill of a prompt, and the *prefill* again.")
    assert MARK.findall(html) == ["Prefill"]
    assert html.startswith("<p><abbr")


def test_plurals_and_neighbours_are_marked_and_no_text_is_lost(convert):
    text = "Blocks, TTFT and KV heads; tensor-parallel preemption *of* pools: block tables."
    html = convert(text)
    assert MARK.findall(html) == [
        *("Blocks", "TTFT", "KV heads", "tensor-parallel", "preemption", "pools", "block tables")
    ]
    assert re.sub(r"<[^>]+>", "", html) == text.replace("*", "")


@pytest.mark.parametrize(
    "markdown",
    [
        "# The prefill",
        "A [prefill](https://example.org) elsewhere.",
        "The code `prefill` and `--prefill-x`.",
        "```python\nprefill = 1\n```",
        "**prefill** is explained here.",
        "A prefilled form, a re-prefill and unprefill.",
        "<kv-widget>prefill</kv-widget>",
        '<div title="prefill">\n<p>prefill</p>\n</div>',
        '??? note "prefill"\n    text',
    ],
)
def test_headings_links_code_markup_and_what_is_being_explained_are_left_alone(convert, markdown):
    assert "kv-term" not in convert(markdown)


def test_words_in_lists_tables_quotes_and_folds_are_marked(convert):
    html = convert("- prefill\n\n> decode\n\n| a |\n| - |\n| pool |\n\n??? note\n    TTFT")
    assert MARK.findall(html) == ["prefill", "decode", "pool", "TTFT"]


def test_other_pages_are_left_alone(glossary: ModuleType, convert):
    glossary.Noted.current = None
    assert "kv-term" not in convert("prefill")


def test_uses_are_found_in_flags_and_across_lines(glossary: ModuleType):
    assert glossary.used_in("`--max-model-len 8` and Little's\n law") == {
        "--max-model-len",
        "Little's law",
    }


def test_capitals_that_nobody_explains_are_told(glossary: ModuleType):
    assert glossary.undefined_in("GQA and a GPU, H100, TTFT; then RDMA and --ABC") == {"RDMA"}


def test_a_mistake_in_the_glossary_is_told_with_its_line(glossary: ModuleType):
    import checks  # noqa: PLC0415 - on the path with the glossary

    prefill, hbm = glossary.term_of("prefill"), glossary.term_of("HBM")
    page = glossary.LessonPage("lessons/a.md", prose="RDMA", shown="prefill")
    found = list(checks.check_terms([prefill, hbm], [page], steps=[prefill.step, hbm.step]))
    lines = glossary.SOURCE.read_text(encoding="utf-8").splitlines()
    line = lines.index('name = "HBM"') + 1
    assert [str(problem) for problem in found] == [
        f"overrides/glossary.toml:{line}: no lesson page uses 'HBM'; leave it out",
        "docs/lessons/a.md:1: RDMA is not explained; define it in overrides/glossary.toml",
    ]
    assert not list(checks.check_terms([hbm], [], steps=[1]))


def test_the_list_has_every_term_and_links_to_pages_that_exist(glossary: ModuleType):
    html = glossary.glossary_list()
    assert html.count("<dt ") == len(glossary.terms())
    for path in re.findall(r'href="\.\./\.\./([^"]+)/"', html):
        assert (ROOT / "docs" / f"{path}.md").is_file()
