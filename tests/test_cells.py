"""Running a page's blocks: output, values, errors, limits, and one namespace."""

from __future__ import annotations

import builtins
import json
import logging
import sys

import pytest

from kvdocs.cells import Limits, Outcome, Page, imported_packages, run_as_json, shown
from kvdocs.html import h
from kvdocs.widgets.registry import get_widget
from kvdocs.widgets.view import Table


class Printed(list[tuple[str, str]]):
    def __call__(self, stream: str, text: str) -> None:
        self.append((stream, text))

    def of(self, stream: str) -> str:
        return "".join(text for name, text in self if name == stream)


@pytest.fixture
def printed() -> Printed:
    return Printed()


def run(code: str, printed: Printed, *, page: Page | None = None, **limits: int) -> Outcome:
    return (page or Page()).run(2, code, emit=printed, limits=Limits(**limits))


# --- output -------------------------------------------------------------------------------------


def test_both_streams_arrive_in_order(printed: Printed):
    run("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')", printed)
    assert list(printed) == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n")]


def test_a_printed_line_is_passed_on_while_the_block_runs():
    late: list[bool] = []
    Page().run(
        1,
        "print('x')\nlate = 1",
        emit=lambda *_: late.append("late" in vars(sys.modules["__main__"])),
    )
    assert late == [False]


def test_text_without_a_line_end_is_not_lost(printed: Printed):
    run("print('a', end='')\nprint('b', end='')", printed)
    assert printed.of("stdout") == "ab"


def test_many_lines_come_in_far_fewer_pieces(printed: Printed):
    run("for i in range(1500): print(i)", printed)
    assert printed.of("stdout").split() == [str(i) for i in range(1500)]
    assert len(printed) < 1000


def test_output_stops_at_the_limit_of_lines_and_counts_the_rest(printed: Printed):
    outcome = run("for i in range(10): print(i)", printed, lines=3)
    assert printed.of("stdout") == "0\n1\n2\n"
    assert outcome.dropped == len("3\n4\n5\n6\n7\n8\n9\n")


def test_output_up_to_the_limit_exactly_is_not_called_cut(printed: Printed):
    assert run("for i in range(3): print(i)", printed, lines=3).dropped == 0


def test_a_hundred_megabytes_are_cut_at_the_limit(printed: Printed):
    outcome = run("print('x' * 100_000_000)\n1", printed)
    assert len(printed.of("stdout")) == 100_000
    assert outcome.dropped == 100_000_000 - 100_000 + 1
    assert outcome.value.content == "1"


def test_both_streams_share_one_limit(printed: Printed):
    run("import sys\nprint('a' * 60, file=sys.stderr)\nprint('b' * 60)", printed, characters=100)
    assert printed.of("stdout") == "b" * 39


def test_a_logger_set_up_by_one_block_still_writes_in_the_next(printed: Printed):
    page = Page()
    setup = (
        "import logging, sys\nlog = logging.getLogger('cells-test')\n"
        "log.addHandler(logging.StreamHandler(sys.stdout)); log.propagate = False"
    )
    try:
        assert page.run(1, setup, emit=printed).status == "done"
        page.run(2, "log.warning('hello')", emit=printed)
    finally:
        logging.getLogger("cells-test").handlers.clear()
    assert printed.of("stdout") == "hello\n"


def test_lone_surrogates_can_be_printed_and_shown():
    outcome = json.loads(run_as_json("surrogates", 1, "print('\\ud800')\n'\\ud800'", Printed()))
    assert outcome["value"]["content"] == r"'\ud800'"


def test_writing_bytes_to_standard_output_is_refused_as_python_does(printed: Printed):
    assert "must be str, not bytes" in run("import sys; sys.stdout.write(b'x')", printed).error


def test_everything_global_is_put_back(printed: Printed):
    before = sys.stdout, sys.stderr, sys.stdin, builtins.input, sys.modules["__main__"]
    depth = sys.getrecursionlimit()
    run("import sys; sys.setrecursionlimit(5000); sys.stdout = None; 1 / 0", printed)
    assert before == (sys.stdout, sys.stderr, sys.stdin, builtins.input, sys.modules["__main__"])
    assert sys.getrecursionlimit() == depth


# --- input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["input()", "input('Name? ')", "import sys; sys.stdin.read()", "import sys; list(sys.stdin)"],
)
def test_input_is_refused_in_a_clear_line(printed: Printed, code: str):
    outcome = run(code, printed)
    assert outcome.status == "failed"
    assert "nobody to ask on this page" in outcome.error.splitlines()[-1]
    assert outcome.line == 1


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "False", "''", "[]", "0.0", "{}"])
def test_the_last_expression_is_shown_also_when_it_is_false(printed: Printed, value: str):
    outcome = run(f"x = 1\n{value}", printed)
    assert (outcome.value.kind, outcome.value.content) == ("text", value)


@pytest.mark.parametrize("code", ["", "# nothing", "x = 1", "None", "print('x')", "1; x = 2"])
def test_no_value_is_shown_where_there_is_none(printed: Printed, code: str):
    outcome = run(code, printed)
    assert (outcome.status, outcome.value.kind) == ("done", "nothing")


def test_a_long_value_is_broken_into_lines_and_cut():
    assert shown(list(range(40))).content.splitlines()[:2] == ["[0,", " 1,"]
    cut = shown("x" * 500, Limits(characters=100)).content
    assert cut.endswith("(502 characters; the first 100 are shown)")
    assert len(cut) < 200


class Drawn:
    def __init__(self, **methods: object) -> None:
        for name, value in methods.items():
            setattr(self, name, lambda value=value: value)

    def __repr__(self) -> str:
        return "plain"


@pytest.mark.parametrize(
    ("value", "kind", "content"),
    [
        (Drawn(_repr_html_="<b>x</b>"), "html", "<b>x</b>"),
        (Drawn(_repr_svg_="<svg></svg>"), "html", "<svg></svg>"),
        (Drawn(_repr_html_=None, _repr_svg_="<svg></svg>"), "html", "<svg></svg>"),
        (Drawn(_repr_html_=None), "text", "plain"),
        (Drawn(element="not ours"), "text", "plain"),
        (h("i", "<"), "html", "<i>&lt;</i>"),
        (Drawn, "text", repr(Drawn)),
    ],
)
def test_what_can_draw_itself_is_drawn(value: object, kind: str, content: str):
    drawn = shown(value)
    assert (drawn.kind, drawn.content) == (kind, content)


def test_views_and_tables_of_the_package_are_drawn():
    assert "<table" in shown(Table(("a",), (("1",),))).content
    drawn = shown(get_widget("gpu-memory").view())
    assert drawn.kind == "html"
    assert "407,714" in drawn.content


def test_markup_beyond_the_limit_is_not_drawn():
    drawn = shown(Drawn(_repr_html_="x" * 501), Limits(html=500))
    assert drawn.kind == "text"
    assert drawn.content == "Too large to draw: 501 characters of HTML."


def test_a_failing_repr_is_the_blocks_error(printed: Printed):
    code = "class Bad:\n    def __repr__(self):\n        return 1 / 0\nBad()"
    outcome = run(code, printed)
    assert (outcome.status, outcome.line) == ("failed", 3)


# --- errors -------------------------------------------------------------------------------------


def test_a_traceback_has_the_readers_lines_only(printed: Printed):
    outcome = run("import json\ndef load():\n    json.loads('{')\n\nload()", printed)
    assert outcome.line == 3
    assert "json/decoder" not in outcome.error
    assert "runner.py" not in outcome.error
    assert 'File "block 2", line 5, in <module>\n    load()' in outcome.error
    assert "    json.loads('{')" in outcome.error
    assert outcome.error.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")


def test_a_function_of_an_earlier_block_is_quoted_from_there(printed: Printed):
    page = Page()
    page.run(1, "def divide(x):\n    return 1 / x", emit=printed)
    outcome = page.run(2, "x = 0\ndivide(x)", emit=printed)
    assert outcome.line == 2
    assert 'File "block 1", line 2, in divide\n    return 1 / x' in outcome.error


def test_causes_and_groups_are_cut_too(printed: Printed):
    caught = "import json\ntry:\n    json.loads('{')\nexcept ValueError as e:\n"
    chained = run(f"{caught}    raise KeyError from e", printed)
    assert "decoder.py" not in chained.error
    assert "direct cause" in chained.error
    grouped = run(f"{caught}    raise ExceptionGroup('all', [e])", printed)
    assert "decoder.py" not in grouped.error
    assert "JSONDecodeError" in grouped.error


def test_a_syntax_error_names_its_line(printed: Printed):
    outcome = run("x = 1\nif x\n    print(x)", printed)
    assert (outcome.status, outcome.line) == ("failed", 2)
    assert "SyntaxError" in outcome.error


def test_endless_recursion_fails_and_the_next_run_works(printed: Printed):
    page = Page()
    outcome = page.run(1, "def f(n):\n    return f(n + 1)\n\nf(0)", emit=printed)
    assert "RecursionError" in outcome.error
    assert len(outcome.error.splitlines()) < 40
    assert page.run(2, "1 + 1", emit=printed).value.content == "2"


def test_a_huge_message_is_cut(printed: Printed):
    assert len(run("raise ValueError('x' * 10_000_000)", printed).error) < 21_000


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit()", "exit status 0."),
        ("raise SystemExit(3)", "exit status 3."),
        ("exit('enough')", "ended itself: enough"),
    ],
)
def test_leaving_is_told_as_what_it_is(printed: Printed, code: str, said: str):
    outcome = run(f"print(1)\n{code}", printed)
    assert outcome.status == "exited"
    assert outcome.error.endswith(said)


def test_an_interrupt_of_the_readers_own_does_not_get_out(printed: Printed):
    assert "KeyboardInterrupt" in run("raise KeyboardInterrupt", printed).error


def test_out_of_memory_gives_up_the_namespace(printed: Printed):
    page = Page()
    outcome = page.run(1, "big = [0] * 10\nraise MemoryError", emit=printed)
    assert (outcome.status, outcome.line) == ("out of memory", 2)
    assert "NameError" in page.run(2, "big", emit=printed).error


# --- packages -----------------------------------------------------------------------------------


def test_a_missing_package_is_named_and_no_traceback_shown(printed: Printed):
    outcome = run("x = 1\nimport no_such_package.inner", printed)
    assert (outcome.status, outcome.package, outcome.line) == (
        "missing package",
        "no_such_package",
        2,
    )
    assert outcome.error == ""
    assert not outcome.in_library


def test_a_missing_part_of_a_present_package_is_an_error_of_the_block(printed: Printed):
    outcome = run("import kvdocs.no_such_part", printed)
    assert outcome.status == "failed"
    assert "kvdocs.no_such_part" in outcome.error


def test_a_missing_module_of_the_library_is_told_apart(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "turtledemo", raising=False)
    monkeypatch.setattr(sys, "path", [])
    outcome = run("import turtledemo", printed)
    assert (outcome.status, outcome.in_library) == ("missing package", True)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import numpy as np, json", ["json", "numpy"]),
        ("def f():\n    from numpy.linalg import norm", ["numpy"]),
        ("from . import x\nfrom .y import z", []),
        ("if x", []),
        ("x = 'import numpy'", []),
        ("\0", []),
    ],
)
def test_imports_are_found_wherever_they_stand(code: str, names: list[str]):
    assert imported_packages(code) == names


# --- the namespace ------------------------------------------------------------------------------


def test_blocks_of_a_page_share_a_namespace_and_pages_do_not(printed: Printed):
    one, other = Page(), Page()
    one.run(1, "x = 1", emit=printed)
    assert one.run(2, "x", emit=printed).value.content == "1"
    assert "NameError" in other.run(1, "x", emit=printed).error


def test_pages_are_kept_by_name():
    run_as_json("page a", 1, "x = 1", Printed())
    assert json.loads(run_as_json("page a", 2, "x", Printed()))["value"]["content"] == "1"
    assert "NameError" in json.loads(run_as_json("page b", 1, "x", Printed()))["error"]


def test_classes_and_annotations_work_as_in_a_script(printed: Printed):
    code = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar, get_type_hints\n"
        "@dataclass(slots=True)\nclass P:\n    x: int\n    kind: ClassVar[str] = 'p'\n"
        "print(__name__, P(3), get_type_hints(P)['x'])"
    )
    assert run(code, printed).error == ""
    assert printed.of("stdout") == "__main__ P(x=3) <class 'int'>\n"


def test_this_modules_own_future_imports_do_not_leak_into_blocks(printed: Printed):
    outcome = run("def f(x: int): ...\nf.__annotations__", printed)
    assert outcome.value.content == "{'x': <class 'int'>}"
