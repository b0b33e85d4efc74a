"""The lesson as a whole: which steps are missing, their numbers and the links to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

OVERRIDES = str(Path(__file__).resolve().parents[1] / "overrides")


@pytest.fixture(scope="module")
def course() -> Iterator[ModuleType]:
    sys.path.insert(0, OVERRIDES)
    import course  # noqa: PLC0415 - only there is it found

    yield course
    sys.path.remove(OVERRIDES)


def step(number: int, title: str = "A step", part: int = 1) -> SimpleNamespace:
    meta = {"step": number, "part": part, "part_title": f"Part {part}"}
    return SimpleNamespace(meta=meta, title=title, url=f"lessons/{number}/")


def test_missing_steps_are_those_that_no_page_has(course: ModuleType):
    pages = [step(1), step(2), step(5)]
    assert course.missing_steps(pages, 6) == [3, 4, 6]
    assert course.missing_steps(pages, 2) == []


def test_a_title_is_numbered_and_stays_text(course: ModuleType):
    numbered = course.numbered(step(13, "<b> & blocks"))
    assert numbered == '<span class="kv-nav-step">13</span> &lt;b&gt; &amp; blocks'


def test_parts_keep_their_order_and_pages(course: ModuleType):
    parts = course.parts_of([step(1), step(2), step(3, part=2)])
    assert [(part["number"], len(part["pages"])) for part in parts] == [(1, 2), (2, 1)]


def test_a_link_to_a_step_is_relative_and_dropped_where_there_is_no_page(course: ModuleType):
    html = '<a href="step:2" class="a">2</a> <a href="step:9">9</a> href="https://step:2"'
    urls = {2: "lessons/two/"}
    linked = course.with_step_links(html, urls, SimpleNamespace(url="reference/widgets/"))
    assert linked == (
        '<a href="../../lessons/two/" class="a">2</a> <a >9</a> href="https://step:2"'
    )
