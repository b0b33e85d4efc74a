"""Each mistake an author can make stops the build, with file and line.

The sites are tiny and built in process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, PluginError

from kvdocs.drills.registry import get_drill

OVERRIDES = Path(__file__).resolve().parents[1] / "overrides"
HOOK = f"""
import sys
sys.path.insert(0, {str(OVERRIDES)!r})
import hooks
from hooks import on_page_markdown  # all of it but the browser's files
sys.path.remove({str(OVERRIDES)!r})

def on_config(config):
    imported = {{name: module for name, module in sys.modules.items() if name.startswith("kvdocs")}}
    changed = hooks.on_config(config)
    sys.modules.update(imported)  # importing the package anew takes a second
    return changed
"""
CONFIG = """\
site_name: Tiny
docs_dir: docs
hooks: [{overrides}/cells.py, tiny_hook.py, {overrides}/checks.py]
theme: {{name: null, custom_dir: theme}}
plugins:
  - markdown-exec: {{languages: [python]}}
markdown_extensions: [toc, attr_list, pymdownx.superfences, pymdownx.inlinehilite]
nav:
{nav}
"""
FRONT = """\
---
title: A step
description: What it is.
step: {step}
part: 1
part_title: A part
minutes: 2
question: Why?
takeaway: Because.
---
"""
PAGE = "lessons/one.md"


@dataclass
class Site:
    root: Path

    def page(self, text: str, path: str = PAGE) -> None:
        file = self.root / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def build(self, *nav: str, command: str = "build") -> None:
        pages = sorted(
            p.relative_to(self.root / "docs").as_posix() for p in (self.root / "docs").rglob("*.md")
        )
        lines = "\n".join(f"  - {path}" for path in (*pages, *nav))
        text = CONFIG.format(overrides=OVERRIDES.as_posix(), nav=lines)
        (self.root / "mkdocs.yml").write_text(text, encoding="utf-8")
        config = load_config(str(self.root / "mkdocs.yml"))
        config.plugins.on_startup(command=command, dirty=False)
        build(config)

    def problems(self, *nav: str) -> list[str]:
        with pytest.raises(Abort) as stopped:
            self.build(*nav)
        assert isinstance(stopped.value.__context__, PluginError)
        return str(stopped.value.__context__).splitlines()[1:]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "theme").mkdir()
    (tmp_path / "theme" / "main.html").write_text("<html><body>{{ page.content }}</body></html>")
    (tmp_path / "tiny_hook.py").write_text(HOOK)
    yield Site(tmp_path)
    for name in ("cells", "fences", "hooks", "checks", "new_lesson", "tiny_hook"):
        sys.modules.pop(name, None)


@pytest.fixture
def checks(site: Site) -> Iterator[ModuleType]:
    assert site
    sys.path.insert(0, str(OVERRIDES))
    import checks  # noqa: PLC0415 - only there is it found

    yield checks
    sys.path.remove(str(OVERRIDES))


def fence(code: str, options: str = 'html="1"') -> str:
    return f'\n```python exec="1" {options}\n{code}\n```\n'


def widget(call: str) -> str:
    return fence(f"from kvdocs.pages import widget\n\nprint(widget({call}))")


def drill(call: str) -> str:
    return fence(f"from kvdocs.pages import drill\n\nprint(drill({call}))")


FRONT_LINES = FRONT.count("\n")


def test_a_page_that_is_right_builds(site: Site):
    figure = "`#!fig 6 * 7` blocks"
    site.page(FRONT.format(step=1) + widget('"gpu-memory"') + drill('"how-many-fit"') + figure)
    site.page("# Not a lesson\n\n" + fence("print(1)", 'source="block"'), "about.md")
    site.build()
    html = (site.root / "site" / "lessons" / "one" / "index.html").read_text()
    assert "42</span> blocks" in html
    assert "kv_line" not in html + (site.root / "site" / "about" / "index.html").read_text()


def test_a_broken_fence_is_told_with_the_line_that_raised(site: Site):
    site.page(FRONT.format(step=1) + "\ntext\n" + fence("x = 1\n\ny = x / 0\nprint(y)"))
    # front matter, a blank line, the text, a blank line, the fence's line, then its third line
    line = FRONT_LINES + 4 + 3
    assert site.problems() == [
        f"docs/{PAGE}:{line}: this fails: ZeroDivisionError: division by zero"
    ]


def test_a_fence_that_is_no_python_is_told(site: Site):
    site.page(fence("def f(:", 'source="block"'), "a.md")
    (problem,) = site.problems()
    assert problem.startswith("docs/a.md:3: this fails: SyntaxError: ")


def test_a_fence_in_a_note_has_the_right_line(site: Site):
    site.page("# A\n\n- item\n\n    " + fence("1/0").strip().replace("\n", "\n    "), "a.md")
    (problem,) = site.problems()
    assert problem.startswith("docs/a.md:6: this fails: ZeroDivisionError")


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (widget('"gpu-memroy"'), "no widget is called 'gpu-memroy'; there are "),
        (widget('"gpu-memory", utilisation="1"'), "gpu-memory has no parameter 'utilisation'"),
        (widget('"gpu-memory", utilization="7"'), "utilization"),
        (drill('"how-many-fits"'), "no drill is called 'how-many-fits'; there are "),
    ],
)
def test_an_unknown_widget_drill_or_parameter_is_told(site: Site, printed: str, told: str):
    site.page(FRONT.format(step=1) + printed)
    (problem,) = site.problems()
    assert problem.startswith(f"docs/{PAGE}:{FRONT_LINES + 2 + 3}: this fails: ")
    assert told in problem


def test_a_broken_figure_in_prose_is_told(site: Site):
    text = "One\n`#!fig 1 + 1` is two,\n`#!fig nothing.here` is not, `#!fig ''` shows nothing.\n"
    site.page(text, "a.md")
    assert site.problems() == [
        "docs/a.md:3: the inline figure `''` shows nothing",
        "docs/a.md:3: this fails: NameError: name 'nothing' is not defined",
    ]


@pytest.mark.parametrize(
    "name", ["description", "step", "part", "part_title", "minutes", "question", "takeaway"]
)
def test_missing_front_matter_is_told(site: Site, name: str):
    lines = FRONT.format(step=1).splitlines(keepends=True)
    site.page("".join(line for line in lines if not line.startswith(f"{name}:")) + "\ntext\n")
    assert site.problems() == [f"docs/{PAGE}:1: front matter lacks {name}"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("minutes: soon", "docs/lessons/one.md:7: minutes must be a whole number from 1"),
        ("minutes: 0", "docs/lessons/one.md:7: minutes must be a whole number from 1, not 0"),
        ("minutes: 2.5", "docs/lessons/one.md:7: minutes must be a whole number from 1, not 2.5"),
        ("takeaway:", "docs/lessons/one.md:1: front matter lacks takeaway"),
        ("takeaway: [a]", "docs/lessons/one.md:9: takeaway must be a text"),
    ],
)
def test_front_matter_of_another_kind_is_told(site: Site, line: str, told: str):
    name = line.partition(":")[0]
    lines = FRONT.format(step=1).splitlines()
    site.page("\n".join(line if old.startswith(f"{name}:") else old for old in lines) + "\n\nx\n")
    (problem,) = site.problems()
    assert problem.startswith(told)


def test_an_id_that_stands_twice_is_told_with_both_lines(site: Site):
    site.page(FRONT.format(step=1) + widget('"gpu-memory"') + widget('"gpu-memory"'))
    first = FRONT_LINES + 2
    problems = site.problems()
    assert (
        f"docs/{PAGE}:{first + 6}: the id 'gpu-memory' stands 2 times (first on line {first}); "
        "give one of them an ident of its own"
    ) in problems


def test_an_ident_of_its_own_is_right(site: Site):
    twice = widget('"gpu-memory"') + widget('"gpu-memory", ident="another"')
    site.page(FRONT.format(step=1) + twice)
    site.build()


def test_a_heading_with_the_id_of_a_widget_is_told(site: Site):
    site.page("# A\n\n## Memory {#gpu-memory}\n" + widget('"gpu-memory"'), "a.md")
    (problem,) = site.problems()
    assert problem.startswith("docs/a.md:5: the id 'gpu-memory' stands 2 times")


def test_two_pages_with_one_step_are_told(site: Site):
    site.page(FRONT.format(step=3) + "\na\n", "lessons/one.md")
    site.page(FRONT.format(step=3) + "\nb\n", "lessons/two.md")
    assert site.problems() == ["docs/lessons/two.md:4: step 3 is already docs/lessons/one.md"]


def test_a_page_of_the_navigation_that_does_not_exist_is_told(site: Site):
    site.page("# A\n", "a.md")
    problems = site.problems("gone.md", "https://example.org/")
    line = CONFIG.count("\n", 0, CONFIG.index("{nav}")) + 2
    assert problems == [f"mkdocs.yml:{line}: nav names gone.md, and there is no docs/gone.md"]


def test_a_nested_navigation_is_read_too(checks: ModuleType):
    nav = [{"Part": [{"Step": "a.md"}, "b.md"]}, "c.md"]
    found = list(checks.check_nav(nav, "mkdocs.yml", "nav:\n  - Part:\n    - b.md\n", ["a.md"]))
    assert [(problem.line, problem.message.split(",")[0]) for problem in found] == [
        (3, "nav names b.md"),
        (1, "nav names c.md"),
    ]


def test_a_new_page_can_be_served_as_it_is_and_not_be_published(site: Site, checks: ModuleType):
    made = sys.modules["new_lesson"].new_lesson(site.root / "docs", step=7, part=2, title="Ways: 1")
    site.build(command="serve")
    problems = site.problems()
    name = made.relative_to(site.root).as_posix()
    assert problems[0] == f"{name}:3: description is still the template's; write yours"
    assert len(problems) == made.read_text().count(checks.PLACEHOLDER)


def no_solution(_: object) -> tuple[str, ...]:
    return (" ",)


def four_hints(_: object) -> tuple[str, ...]:
    return ("a", "b", "c", "d")


def test_a_drill_without_solution_is_told_where_it_is_written(checks: ModuleType):
    bare = replace(get_drill("how-many-fit"), solution=no_solution, hints=four_hints)
    found = {str(problem) for problem in checks.check_drills({"bare": bare})}
    at = no_solution.__code__.co_firstlineno
    assert found == {
        f"tests/test_checks.py:{at}: the drill 'bare' has no solution",
        f"tests/test_checks.py:{at + 4}: the drill 'bare' has 4 hints; at most 3",
    }


def test_all_problems_are_told_at_once(site: Site):
    site.page(FRONT.format(step=1).replace("takeaway: Because.\n", "") + fence("1/0"))
    site.page(FRONT.format(step=1) + widget('"gone"'), "lessons/two.md")
    problems = site.problems("gone.md")
    assert [problem.split(":", 1)[0] for problem in problems] == [
        "docs/lessons/one.md",
        "docs/lessons/one.md",
        "docs/lessons/two.md",
        "docs/lessons/two.md",
        "mkdocs.yml",
    ]


def test_a_paper_that_is_not_among_the_sources_is_told(site: Site):
    site.page("# Sources\n\n[A](https://arxiv.org/abs/1706.03762)\n", "reference/sources.md")
    links = (
        "\n[A](https://arxiv.org/abs/1706.03762) [B](https://doi.org/10.1/b) <https://vllm.ai>\n"
    )
    site.page(FRONT.format(step=1) + links)
    assert site.problems() == [
        (
            f"docs/{PAGE}:{FRONT_LINES + 2}: https://doi.org/10.1/b is cited;"
            " add it to docs/reference/sources.md"
        )
    ]
