"""`make new-lesson`: a page that builds, from nothing but what the pages there are say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.utils.meta import get_data

OVERRIDES = str(Path(__file__).resolve().parents[1] / "overrides")


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    sys.path.insert(0, OVERRIDES)
    import new_lesson  # noqa: PLC0415 - only there is it found

    yield new_lesson
    sys.path.remove(OVERRIDES)
    sys.modules.pop("new_lesson", None)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    page = docs / "lessons" / "part-3" / "09-a.md"
    page.parent.mkdir(parents=True)
    page.write_text('---\nstep: 9\npart: 3\npart_title: "Paging: why"\n---\n# A\n')
    return docs


def made(tool: ModuleType, docs: Path, **asked: object) -> tuple[str, dict]:
    given = {"step": None, "part": None, "title": "A new step"} | asked
    path = tool.new_lesson(docs, **given)
    return path.relative_to(docs).as_posix(), get_data(path.read_text(encoding="utf-8"))[1]


def test_what_is_not_given_follows_from_the_last_page(tool: ModuleType, docs: Path):
    path, meta = made(tool, docs)
    assert path == "lessons/part-3/10-a-new-step.md"
    assert (meta["step"], meta["part"], meta["part_title"]) == (10, 3, "Paging: why")


def test_the_first_page_of_an_empty_site(tool: ModuleType, tmp_path: Path):
    path, meta = made(tool, tmp_path / "docs")
    assert path == "lessons/part-1/01-a-new-step.md"
    assert tool.PLACEHOLDER in meta["part_title"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Blocks: 16 tokens, and why", "12-blocks-16-tokens-and-why"),
        ('Say "no" # twice', "12-say-no-twice"),
        ("Où va le cache?", "12-ou-va-le-cache"),
        ("yes", "12-yes"),
        ("{braces} \\ and ' quotes", "12-braces-and-quotes"),
    ],
)
def test_any_title_comes_back_whole_from_the_front_matter(
    tool: ModuleType, docs: Path, title: str, name: str
):
    path, meta = made(tool, docs, step=12, part=4, title=title)
    assert path == f"lessons/part-4/{name}.md"
    assert meta["title"] == title


def test_nothing_is_written_over(tool: ModuleType, docs: Path):
    with pytest.raises(tool.Refused, match=r"step 9 is docs/lessons/part-3/09-a\.md; try STEP=10"):
        made(tool, docs, step=9)
    (docs / "lessons" / "part-3" / "11-b.md").write_text("")
    with pytest.raises(tool.Refused, match=r"11-b\.md exists"):
        made(tool, docs, step=11, title="B")
    with pytest.raises(tool.Refused, match="no letter or digit"):
        made(tool, docs, title="…")


def test_the_command_says_what_to_do_next(
    tool: ModuleType, docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr(tool, "ROOT", docs.parent)
    assert tool.main({"STEP": "", "TITLE": "Next", "HOME": "/"}) == 0
    said = capsys.readouterr().out
    assert "Made docs/lessons/part-3/10-next.md" in said
    assert "      - lessons/part-3/10-next.md" in said
    assert tool.main({"STEP": "9"}) == 1
    assert "step 9 is docs/lessons" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5", "²"])
def test_a_number_that_is_none_is_refused(
    tool: ModuleType, number: str, capsys: pytest.CaptureFixture
):
    assert tool.main({"PART": number}) == 1
    assert f"PART={number} is not a whole number from 1" in capsys.readouterr().err
