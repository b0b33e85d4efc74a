"""From a fence in Markdown to `<kv-cell>`: nothing of the author's text is changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

OVERRIDES = str(Path(__file__).resolve().parents[1] / "overrides")


@pytest.fixture(scope="module")
def hook() -> Iterator[ModuleType]:
    """The hook as MkDocs imports it: with its folder on the path."""
    sys.path.insert(0, OVERRIDES)
    import cells  # noqa: PLC0415 - only there is it found

    yield cells
    sys.path.remove(OVERRIDES)
    for name in ("cells", "fences"):
        del sys.modules[name]


def fences(hook: ModuleType, markdown: str) -> list[tuple[str, bool]]:
    return [(fence.source, fence.is_shown) for fence in hook.executed_fences(markdown)]


SHOWN = 'python exec="1" source="block" result="text"'


def test_finds_executed_fences_and_which_of_them_are_shown(hook: ModuleType):
    markdown = f"""
```python
not executed
```
```python exec="1" html="1"
hidden
```
text
~~~~{SHOWN}
shown

```
~~~~
``` python exec=yes source=block
also
```
```pythonic exec="1"
other language
```
"""
    assert fences(hook, markdown) == [("hidden", False), ("shown\n\n```", True), ("also", True)]


def test_a_fence_shown_in_a_longer_fence_is_text(hook: ModuleType):
    inner = f"```{SHOWN}\nprint(1)\n```"
    assert fences(hook, f"````markdown\n{inner}\n````\n{inner}\n") == [("print(1)", True)]


def test_the_indentation_of_the_fence_is_not_part_of_the_source(hook: ModuleType):
    markdown = f"!!! note\n\n    ```{SHOWN}\n    def f():\n        return 1\n\n    ```\n"
    assert fences(hook, markdown) == [("def f():\n    return 1\n", True)]


def test_an_unclosed_fence_ends_with_the_page(hook: ModuleType):
    assert fences(hook, f"```{SHOWN}\nprint(1)") == [("print(1)", True)]


def test_options_are_added_to_the_opening_line_alone(hook: ModuleType):
    markdown = f"```{SHOWN}\nx = 1\n```\n"
    added = hook.with_options(markdown, {0: 'kv_cell="c"'})
    assert added == f'```{SHOWN} kv_cell="c"\nx = 1\n```\n'


def cells(hook: ModuleType, *sources: str) -> list:
    markdown = "\n".join(f"```{SHOWN}\n{source}\n```" for source in sources)
    return hook.cells_of("lessons/part-1/01-a.b", list(hook.executed_fences(markdown)))


def test_the_key_follows_the_text_and_the_id_the_position(hook: ModuleType):
    one, two = cells(hook, "a = 1", "b = 2")
    moved = cells(hook, "new = 0", "a = 1")[1]
    (changed,) = cells(hook, "a = 1 ")
    assert [one.ident, two.ident] == [
        "cell-lessons-part-1-01-a-b-1",
        "cell-lessons-part-1-01-a-b-2",
    ]
    assert moved.key == one.key != two.key
    assert changed.key != one.key


def test_equal_blocks_have_keys_of_their_own(hook: ModuleType):
    keys = [cell.key for cell in cells(hook, "x", "y", "x")]
    assert len(set(keys)) == 3
    assert keys[2] == f"{keys[0]}-2"


class Attributes(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "kv-cell"
        self.found = dict(attrs)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_comes_back_whole_from_the_attribute(hook: ModuleType, source: str):
    parser = Attributes()
    parser.feed(hook.Cell("p", 1, "k", source, prints_html=False).wrap(""))
    assert parser.found["data-source"] == source


def test_no_text_leaves_the_attribute(hook: ModuleType):
    source = "\"'><script>alert(1)</script>\n<!-- -->"
    wrapped = hook.Cell("p", 1, "k", source, prints_html=False).wrap("INNER")
    assert "<script" not in wrapped
    assert wrapped.count("<") == 2
    assert "\n" not in wrapped


def test_a_fence_that_runs_other_code_than_it_shows_fails_the_build(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    (cell,) = cells(hook, "x = 1")
    monkeypatch.setitem(hook._cells, cell.ident, cell)
    assert hook._cell(cell.ident, "x = 1") is cell
    with pytest.raises(
        hook.PluginError, match=r"docs/lessons/part-1/01-a\.b\.md: block 1 ran other"
    ):
        hook._cell(cell.ident, "x = 2")
