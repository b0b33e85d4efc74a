"""*Edit and run* in a real browser: on a small site of known blocks, and on the lesson pages."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.browser.site_server import Faults, SiteServer, serve

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
STEP_4 = "lessons/part-2/04-the-formula-on-the-whiteboard/"
BUILD = ROOT / "tests" / "browser" / "build_cells_site.py"
SECOND = 'print(base + 1 if "base" in globals() else "alone")'
CHANGED = f"{SECOND}=>{SECOND}  # changed by the author"
KEPT = "You have changed this block. Your text is kept in this browser."


def build_site(name: str, *changes: str) -> Path:
    out = ROOT / "build" / name
    subprocess.run([sys.executable, BUILD, out, *changes], cwd=ROOT, check=True, timeout=120)
    return out


@pytest.fixture(scope="session")
def cells_server() -> Iterator[SiteServer]:
    with serve(build_site("cells-site")) as site:
        yield site


@pytest.fixture(scope="session")
def changed_page() -> bytes:
    """The same page after its author changed the second block."""
    return (build_site("cells-site-changed", CHANGED) / "index.html").read_bytes()


@pytest.fixture
def blocks(cells_server: SiteServer) -> SiteServer:
    cells_server.faults = Faults()
    cells_server.served.clear()
    return cells_server


class Block:
    """One block of a page, as a reader handles it."""

    def __init__(self, page: Page, number: int) -> None:
        self.page = page
        self.cell = page.locator(f"kv-cell[data-number='{number}']")
        self.editor = self.cell.locator(".cm-content")
        self.output = self.cell.locator(".kv-cell-output-body")
        self.status = self.cell.locator(".kv-cell-status")
        self.notes = self.cell.locator(".kv-cell-notes")

    def button(self, name: str) -> Locator:
        return self.cell.get_by_role("button", name=name, exact=True)

    def edit(self) -> Block:
        self.button("Edit and run").click()
        expect(self.editor).to_be_focused()
        return self

    def write(self, code: str) -> Block:
        self.editor.focus()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(code)
        return self

    def start(self, code: str) -> Block:
        self.write(code)
        self.page.keyboard.press("Control+Enter")
        return self

    def run(self, code: str) -> Block:
        self.start(code)
        self.ended()
        return self

    def ended(self) -> None:
        expect(self.button("Stop")).to_be_hidden()

    def text(self) -> str:
        return self.cell.evaluate("cell => cell.text")


def opened(page: Page, site: SiteServer, number: int = 2) -> Block:
    page.goto(site.url)
    return Block(page, number).edit()


# --- the block as written -----------------------------------------------------------------------


def fences_of(path: Path) -> list[str]:
    """The shown fences' texts, read here by other means than the hook's."""
    found = re.findall(
        r'^( *)```python exec="1" source="block"[^\n]*\n(.*?)\n\1```$',
        path.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def test_the_editor_shows_the_fences_text_exactly(page: Page, blocks: SiteServer):
    written = fences_of(ROOT / "tests" / "browser" / "cells_site" / "index.md")[:4]
    page.goto(blocks.url)
    expect(page.locator("kv-cell")).to_have_count(len(written))
    for number, source in enumerate(written, start=1):
        block = Block(page, number)
        assert block.cell.get_attribute("data-source") == source
        assert block.cell.locator(".highlight code").first.text_content().rstrip("\n") == source
        assert block.edit().text() == source


@pytest.mark.parametrize("path", [STEP_1, STEP_4])
def test_a_lesson_block_prints_now_what_it_printed_at_build(
    page: Page, site: SiteServer, path: str
):
    page.goto(site.url + path)
    block = Block(page, 1).edit()
    page.keyboard.press("Control+Enter")
    expect(block.status).to_contain_text("Done in")
    built = block.cell.locator(".result code").first.text_content()
    assert block.output.text_content().strip() == built.strip()
    assert block.text() in fences_of(ROOT / "docs" / f"{path.rstrip('/')}.md")


def test_without_scripts_code_and_output_are_there_and_no_buttons(
    browser: Browser, blocks: SiteServer
):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(blocks.url)
        block = Block(page, 1)
        expect(block.cell.locator(".highlight").first).to_contain_text("if i<n and n>1 and a<b:")
        expect(block.cell.locator(".result")).to_contain_text("<script>window.hacked = 1</script>")
        expect(block.cell.get_by_role("button")).to_have_count(0)


def test_nothing_is_fetched_or_started_before_the_reader_asks(page: Page, blocks: SiteServer):
    page.goto(blocks.url, wait_until="networkidle")
    expect(Block(page, 1).button("Edit and run")).to_be_visible()
    served = [one.path for one in blocks.served]
    assert not any(
        "cells.js" in path or "worker.js" in path or "pyodide" in path for path in served
    )


def test_copy_gives_the_text(browser: Browser, blocks: SiteServer):
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(blocks.url)
        block = Block(page, 3)
        block.button("Copy").click()
        expect(block.status).to_have_text("Copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "def double(x):\n    return 2 * x\n\nprint(double(21))"
        block.edit().write("print('mine')")
        block.button("Copy").click()
        expect(block.status).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == "print('mine')"


def test_an_editor_that_cannot_be_fetched_says_so_and_comes_at_the_next_try(
    page: Page, blocks: SiteServer
):
    blocks.faults.missing.add("assets/kv/cells.js")
    page.goto(blocks.url)
    block = Block(page, 2)
    block.button("Edit and run").click()
    expect(block.status).to_contain_text("could not be fetched")
    blocks.faults.missing.clear()
    block.edit()


def test_python_that_does_not_start_says_so_and_the_text_is_kept(page: Page, blocks: SiteServer):
    blocks.faults.missing.add("assets/kv/worker.js")
    block = opened(page, blocks)
    block.start("print(1)")
    expect(block.status).to_contain_text("Press Run to try again")
    blocks.faults.missing.clear()
    block.button("Run").click()
    expect(block.output).to_have_text("1\n", use_inner_text=False)


# --- running ------------------------------------------------------------------------------------


def test_blocks_before_run_first_and_only_once(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    page.keyboard.press("Control+Enter")
    expect(block.output).to_contain_text("21")
    expect(block.status).to_contain_text("Block 1 ran first.")
    block.run("base += 1; print(base)")
    block.run("base += 1; print(base)")
    expect(block.output).to_contain_text("22")
    expect(block.status).not_to_contain_text("ran first")


def test_an_edited_block_before_is_run_as_edited(page: Page, blocks: SiteServer):
    page.goto(blocks.url)
    Block(page, 1).edit().write("base = 100")
    block = Block(page, 2).edit()
    page.keyboard.press("Control+Enter")
    expect(block.output).to_contain_text("101")


def test_a_failing_block_before_is_told_and_does_not_stop_this_one(page: Page, blocks: SiteServer):
    page.goto(blocks.url)
    Block(page, 1).edit().write("1 / 0")
    block = Block(page, 2).edit()
    page.keyboard.press("Control+Enter")
    expect(block.output).to_contain_text("alone")
    expect(block.status).to_contain_text("Block 1 ran first. Block 1 failed.")


def test_both_streams_the_value_and_the_label_are_shown(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    block.run("import sys\nprint('<b>out</b>')\nprint('err', file=sys.stderr)\n{'a': 1}")
    expect(block.cell).to_contain_text("printed now")
    expect(block.output.locator("pre").nth(0)).to_have_text("<b>out</b>\n", use_inner_text=False)
    expect(block.output.locator(".kv-out-stderr")).to_contain_text("err")
    expect(block.output.locator(".kv-out-value")).to_have_text("{'a': 1}")
    label = block.cell.locator(".result").evaluate("e => getComputedStyle(e, '::before').content")
    assert label == '"printed when the page was built"'


def test_an_error_is_cut_to_the_readers_lines_and_its_line_marked(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    block.run("import json\n\njson.loads('{')\n")
    expect(block.status).to_contain_text("JSONDecodeError on line 3.")
    expect(block.output).to_contain_text('File "block 2", line 3')
    assert "decoder.py" not in block.output.text_content()
    expect(block.cell.locator(".kv-wrong-line")).to_have_text("json.loads('{')")
    page.keyboard.press("Control+End")
    page.keyboard.type("x")
    expect(block.cell.locator(".kv-wrong-line")).to_have_count(0)


def test_input_is_refused_in_a_clear_line(page: Page, blocks: SiteServer):
    block = opened(page, blocks).run("name = input('Name? ')")
    expect(block.output).to_contain_text("nobody to ask on this page")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import numpy as np", "built without numpy"),
        ("import numpy as np", "for Pyodide 314.0.7 (make wheels)"),
        ("import pandas", "pandas is not among the packages of this site"),
        ("import tkinter", "Python in the browser has no module tkinter"),
    ],
)
def test_an_absent_package_is_told_plainly(page: Page, blocks: SiteServer, code: str, said: str):
    if "numpy" in code and any((ROOT / "build" / "wheels").glob("numpy*")):
        pytest.skip("this build serves numpy")
    block = opened(page, blocks).run(code)
    expect(block.output).to_contain_text(said)
    assert "ModuleNotFoundError" not in block.output.text_content()
    expect(block.cell.locator(".kv-wrong-line")).to_have_text(code)


def fake_numpy() -> bytes:
    """A wheel as small as one can be."""
    info = "numpy-9.9.dist-info"
    files = {
        "numpy/__init__.py": "__version__ = '9.9'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return packed.getvalue()


def test_a_served_numpy_is_loaded_from_the_site_when_a_block_imports_it(
    page: Page, blocks: SiteServer
):
    wheel = fake_numpy()
    entry = {
        "name": "numpy",
        "version": "9.9",
        "file_name": "numpy-9.9-py3-none-any.whl",
        "install_dir": "site",
        "sha256": sha256(wheel).hexdigest(),
        "package_type": "package",
        "imports": ["numpy"],
        "depends": [],
        "unvendored_tests": False,
    }
    worker = (ROOT / "build" / "browser" / "worker.js").read_text(encoding="utf-8")
    built = re.sub(
        r"packages:\{[^}]*\}", lambda _: f"packages:{{numpy:{json.dumps(entry)}}}", worker
    )
    assert built != worker
    blocks.faults.replaced["assets/kv/worker.js"] = built.encode()
    path = "assets/kv/pyodide/numpy-9.9-py3-none-any.whl"
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(body=wheel, content_type="application/zip")

    page.context.route(f"**/{path}*", answer)
    block = opened(page, blocks).run("print('without')")
    assert asked == []
    block.run("def f():\n    import numpy\n    return numpy.__version__\nf()")
    expect(block.output.locator(".kv-out-value")).to_have_text("'9.9'")
    assert asked == [blocks.url + path]
    expect(block.output).not_to_contain_text("Loading")


def test_any_module_of_the_library_can_be_imported(page: Page, blocks: SiteServer):
    block = opened(page, blocks).run(
        "import decimal, xml.dom.minidom, unittest\nprint(decimal.Decimal('0.1') * 3)"
    )
    expect(block.output).to_have_text("0.3\n", use_inner_text=False)


def test_clear_output_clears_that_alone(page: Page, blocks: SiteServer):
    block = opened(page, blocks).run("print('x')")
    block.button("Clear output").click()
    expect(block.cell.locator(".kv-cell-output")).to_be_hidden()
    assert block.text() == "print('x')"
    expect(block.cell.locator(".result")).to_be_visible()


def test_output_comes_while_the_block_runs(page: Page, blocks: SiteServer):
    block = opened(page, blocks).start("print('early')\nwhile True: pass")
    expect(block.output).to_contain_text("early")
    expect(block.status).to_contain_text("Running")
    block.button("Stop").click()
    expect(block.output).to_contain_text("early")


# --- drawn output stays inert -------------------------------------------------------------------

HOSTILE = """
class Hostile:
    def _repr_html_(self):
        return '''%s'''
Hostile()
"""
MARKUP = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<img src='https://elsewhere.example/x.png'><link rel=stylesheet href=//elsewhere.example/x>",
    "<svg><script>window.hacked = 1</script><animate onbegin='window.hacked = 1'/></svg>",
    "<svg onload='window.hacked = 1'><a href='javascript:window.hacked=1'><text>x</text></a></svg>",
    "<a id=go href='javascript:window.hacked = 1'>go</a>",
    "<a href='&#1;javascript:window.hacked = 1'>go</a>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<math><mtext><table><mglyph><style><img src=x onerror='window.hacked = 1'>",
    "<form action='https://elsewhere.example'><button>x</button></form>",
    "<p style='background: url(https://elsewhere.example/x)'>x</p>",
    "<p style='background: \\\\75rl(https://elsewhere.example/x)'>x</p>",
    "<style>body { background: url(https://elsewhere.example/x) }</style>",
    "<svg><image href='https://elsewhere.example/x'/><use href='https://elsewhere.example/x#a'/></svg>",
    "<svg><foreignObject><img src=x onerror='window.hacked = 1'></foreignObject></svg>",
    "<svg><rect fill='url(https://elsewhere.example/x#a)' width=9 height=9 /></svg>",
    "<kv-widget name='gpu-memory'><form><input name=x></form></kv-widget>",
    "<template><script>window.hacked = 1</script></template><object data=x></object>",
    "<meta http-equiv=refresh content='0;url=https://elsewhere.example'><base href=//x.example>",
]
RISKS = (
    "script,style,iframe,object,embed,link,meta,base,form,input,button,animate,image,foreignObject,"
    "kv-widget,template"
)


def test_markup_made_by_a_block_runs_and_fetches_nothing(
    context: BrowserContext, page: Page, blocks: SiteServer
):
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    block = opened(page, blocks)
    for markup in MARKUP:
        block.run(HOSTILE % markup)
        drawn = block.output.locator(".kv-out-drawn")
        expect(drawn).to_have_count(1)
        assert drawn.locator(RISKS).count() == 0, markup
        attributes = drawn.evaluate(
            "e => [...e.querySelectorAll('*')].flatMap(one => [...one.attributes].map("
            "a => `${a.name}=${a.value}`))"
        )
        assert [one for one in attributes if re.match("on|.*(javascript|elsewhere)", one)] == []
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert [url for url in urls if not url.startswith((blocks.url, "data:", "blob:"))] == []


def test_what_a_block_prints_is_text(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    block.run("print('<img src=x onerror=window.hacked=1>')\n'<script>window.hacked=1</script>'")
    expect(block.output).to_contain_text("<img src=x onerror=window.hacked=1>")
    expect(block.output.locator("img, script")).to_have_count(0)


def test_a_block_that_prints_html_is_drawn_inert(page: Page, blocks: SiteServer):
    block = opened(page, blocks, 4)
    page.keyboard.press("Control+Enter")
    expect(block.output.locator(".kv-out-drawn b")).to_have_text(" bold")
    block.run("print('<h3>x</h3><img src=x onerror=window.hacked=1>')")
    expect(block.output.locator("h3")).to_have_text("x")
    assert page.evaluate("window.hacked") is None


def test_views_tables_and_svg_are_drawn(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    block.run("from kvdocs.widgets.registry import get_widget\nget_widget('gpu-memory').view()")
    expect(block.output.locator("[data-figure]")).to_have_count(0)
    expect(block.output).to_contain_text("407,714")
    assert block.output.locator("svg").first.bounding_box()["height"] > 10
    fill = block.output.locator("svg .kv-mem-weights").first.evaluate(
        "e => getComputedStyle(e).fill"
    )
    assert fill.startswith('url("#kv-p-weights")')
    block.run(
        'class S:\n    def _repr_svg_(self):\n        return \'<svg viewBox="0 0 10 10" width="80">'
        '<defs><linearGradient id="g"><stop offset="0"/></linearGradient></defs>'
        '<rect id="r" width="10" height="10" fill="url(#g)"/></svg>\'\nS()'
    )
    rect = block.output.locator("rect")
    identity = block.output.locator("linearGradient").get_attribute("id")
    assert identity != "g"
    assert rect.get_attribute("fill") == f"url(#{identity})"


def test_a_drawing_cannot_lie_over_the_page(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    cover = "<div style='position:fixed;inset:0;background:red;z-index:9999'>cover</div>"
    block.run(HOSTILE % cover)
    box, outer = block.output.locator("text=cover").bounding_box(), block.output.bounding_box()
    assert box["width"] <= outer["width"]
    assert box["y"] >= outer["y"]
    block.button("Run").click()
    block.ended()


# --- the page lives -----------------------------------------------------------------------------


def works(block: Block) -> None:
    """The next run works, and knows what the blocks before gave."""
    text = block.text()
    block.run("print('alive', base)")
    expect(block.output).to_have_text("alive 20\n", use_inner_text=False)
    block.write(text)


def test_stop_ends_an_endless_loop_and_the_text_stays(page: Page, blocks: SiteServer):
    block = opened(page, blocks).start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    block.button("Stop").click()
    expect(block.status).to_contain_text("Stopped.")
    block.ended()
    expect(block.button("Run")).to_be_focused()
    assert block.text() == "print('on')\nwhile True: pass"
    works(block)


def test_after_a_long_run_a_warm_spare_takes_over(page: Page, blocks: SiteServer):
    block = opened(page, blocks).start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    page.wait_for_function("performance.now() > 0", timeout=1000)
    expect_workers(page, 2)
    page.wait_for_timeout(4000)  # the spare has come up meanwhile
    block.button("Stop").click()
    block.write("print('next')")
    began = time.monotonic()
    page.keyboard.press("Control+Enter")
    expect(block.output).to_have_text("next\n", use_inner_text=False)
    assert time.monotonic() - began < 5


def python_workers(page: Page) -> int:
    return sum("kv/worker.js" in worker.url for worker in page.workers)


def expect_workers(page: Page, count: int) -> None:
    for _ in range(100):
        if python_workers(page) == count:
            return
        page.wait_for_timeout(100)
    assert python_workers(page) == count


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError"),
        (
            "import sys\nsys.setrecursionlimit(10**8)\ndef f(n):\n    return f(n + 1)\nf(0)",
            "Error|ended",
        ),
        ("import os; os._exit(1)", "ended Python itself"),
        ("import os; os.abort()", "ended Python itself"),
        ("big = []\nwhile True: big.append(bytearray(10**7))", "ran out of memory"),
        ("big = bytearray(1_500_000_000)", "out of memory"),
        ("print('x' * 100_000_000)", "99,900,001 more characters"),
        ("for i in range(200_000): print(i)", "more characters were printed"),
        ("import os\nfor _ in range(100): os.write(1, b'x' * 1_000_000)", "x"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import builtins\ndel builtins.len, builtins.print", "Nothing was printed"),
        ("raise ValueError('x' * 10_000_000)", "ValueError"),
        (
            "class R:\n    def __repr__(self): return 'r' * 10**8\nR()",
            "the first 100,000 are shown",
        ),
        ("'''" + "a" * 100 + "'''" + " * 10**6", "are shown"),
        ("import js\njs.postMessage('noise')\njs.close", "function"),
    ],
)
def test_the_page_lives_the_text_stays_and_the_next_run_works(
    page: Page, blocks: SiteServer, code: str, said: str
):
    block = opened(page, blocks).start(code)
    expect(block.output).to_contain_text(re.compile(said))
    block.ended()
    assert block.text() == code
    assert page.evaluate("document.body.innerHTML.length") < 1_000_000
    if "del builtins" in code:  # this Python is of no use any more, and the next run finds out
        block.button("Run").click()
        expect(block.output).to_contain_text("A new one takes over")
        block.ended()
    works(block)


def test_a_run_of_thirty_seconds_asks_and_can_go_on_or_be_stopped(page: Page, blocks: SiteServer):
    page.clock.install()
    block = opened(page, blocks).start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    expect(block.notes).not_to_contain_text("has run for")
    page.clock.fast_forward(31_000)
    expect(block.notes).to_contain_text("This has run for 3")
    block.button("Let it run").click()
    expect(block.notes).not_to_contain_text("has run for")
    page.clock.fast_forward(61_000)
    expect(block.notes).to_contain_text("This has run for")
    block.button("Stop it").click()
    expect(block.output).to_contain_text("Stopped.")
    expect(block.notes).not_to_contain_text("has run for")


def test_a_block_that_was_stopped_does_not_hold_up_the_next(page: Page, blocks: SiteServer):
    page.goto(blocks.url)
    first = Block(page, 1).edit().start("print('on')\nwhile True: pass")
    expect(first.output).to_contain_text("on")
    second = Block(page, 2).edit()
    page.keyboard.press("Control+Enter")
    expect(second.status).to_have_text("Block 1 is still running. Stop it first.")
    first.button("Stop").click()
    first.ended()
    second.button("Run").click()
    expect(second.output).to_contain_text("alone")
    expect(second.status).to_contain_text("Block 1 was left out")
    first.write("base = 5")
    second.button("Run").click()
    second.ended()


def test_a_picture_is_never_drawn_by_python_that_ran_a_readers_code(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    expect(page.locator("kv-widget").first).to_have_attribute("state", "live")
    block = Block(page, 1).edit()
    block.run(
        "import kvdocs.widgets.frame as f, kvdocs.html, json\n"
        "kvdocs.html._markup = lambda node: iter(['<img src=x onerror=window.hacked=1>'])"
    )
    page.get_by_label("--gpu-memory-utilization").fill("0.8")
    expect(page.locator("[data-figure=kv_pool_tokens]").first).to_have_text("346,679")
    assert page.evaluate("window.hacked") is None


def test_pictures_keep_answering_while_a_block_loops(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    expect(page.locator("kv-widget").first).to_have_attribute("state", "live")
    block = Block(page, 1).edit().start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    page.get_by_label("--gpu-memory-utilization").fill("0.8")
    expect(page.locator("[data-figure=kv_pool_tokens]").first).to_have_text("346,679")
    block.button("Stop").click()
    page.get_by_label("--gpu-memory-utilization").fill("0.9")
    expect(page.locator("[data-figure=kv_pool_tokens]").first).to_have_text("407,714")


# --- kept texts ---------------------------------------------------------------------------------


def test_what_is_typed_is_there_after_a_reload(page: Page, blocks: SiteServer):
    block = opened(page, blocks).write("print('mine')  # <é>")
    expect(block.notes).to_contain_text(KEPT)
    page.reload()
    expect(block.notes).to_contain_text(KEPT)
    expect(block.cell.locator(".highlight").first).to_contain_text("alone")
    assert block.edit().text() == "print('mine')  # <é>"
    Block(page, 1).edit()
    assert Block(page, 1).text().startswith("a, b, i, n")


def test_what_was_typed_just_before_leaving_is_kept(page: Page, blocks: SiteServer):
    opened(page, blocks).write("print('fast')")
    page.reload()
    assert Block(page, 2).edit().text() == "print('fast')"


def test_typing_the_original_again_leaves_nothing_behind(page: Page, blocks: SiteServer):
    block = opened(page, blocks).write("x")
    expect(block.notes).to_contain_text(KEPT)
    block.write(SECOND)
    expect(block.notes).not_to_contain_text(KEPT)
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('kv:cell'))") == []


def test_reset_can_be_undone_also_after_a_reload(page: Page, blocks: SiteServer):
    block = opened(page, blocks).write("print('mine')")
    block.button("Reset").click()
    assert block.text() == SECOND
    block.button("Undo the reset").click()
    assert block.text() == "print('mine')"
    block.button("Reset").click()
    page.reload()
    block.button("Undo the reset").click()
    expect(block.notes).to_contain_text(KEPT)
    assert block.edit().text() == "print('mine')"


def test_reset_can_be_undone_with_the_keyboards_undo(page: Page, blocks: SiteServer):
    block = opened(page, blocks).write("print('mine')")
    block.button("Reset").click()
    block.editor.focus()
    page.keyboard.press("Control+z")
    assert block.text() == "print('mine')"


@pytest.mark.parametrize("choice", ["My version", "New version"])
def test_when_the_lesson_changed_the_reader_chooses(
    page: Page, blocks: SiteServer, changed_page: bytes, choice: str
):
    block = opened(page, blocks).write("print('mine')")
    expect(block.notes).to_contain_text(KEPT)
    blocks.faults.replaced["index.html"] = changed_page
    page.goto(f"{blocks.url}?changed")
    expect(block.notes).to_contain_text("This block has changed since you edited it.")
    assert block.edit().text() == f"{SECOND}  # changed by the author"
    block.button(choice).click()
    mine, new = "print('mine')", f"{SECOND}  # changed by the author"
    wanted, other = (mine, new) if choice == "My version" else (new, mine)
    assert block.text() == wanted
    page.reload()
    expect(block.notes).not_to_contain_text("has changed since")
    assert block.edit().text() == wanted
    if choice == "New version":
        block.button("Show it").click()
        assert block.text() == other


def test_a_block_that_only_moved_keeps_its_text(
    page: Page, blocks: SiteServer, changed_page: bytes
):
    opened(page, blocks, 3).write("print('moved')")
    expect(Block(page, 3).notes).to_contain_text(KEPT)
    source = changed_page.decode()
    moved = source.replace('data-number="3"', 'data-number="9"')
    assert moved != source
    blocks.faults.replaced["index.html"] = moved.encode()
    page.goto(f"{blocks.url}?moved")
    assert Block(page, 9).edit().text() == "print('moved')"


STORAGE = {
    "full": "Storage.prototype.setItem = () => "
    "{ throw new DOMException('x', 'QuotaExceededError') }",
    "forbidden": "Object.defineProperty(window, 'localStorage', "
    "{ get() { throw new DOMException('x', 'SecurityError') } })",
}


@pytest.mark.parametrize("storage", STORAGE)
def test_storage_that_is_full_or_forbidden_costs_one_line(
    page: Page, blocks: SiteServer, storage: str
):
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.stack or ""))
    page.add_init_script(STORAGE[storage])
    block = opened(page, blocks).write("print('mine')")
    expect(block.notes).to_contain_text("does not let the page save your text")
    block.run("print('runs')")
    expect(block.output).to_contain_text("runs")
    block.button("Reset").click()
    block.button("Undo the reset").click()
    assert block.text() == "print('runs')"
    page.get_by_role("link", name="The other page").click()
    page.wait_for_url("**/other/")
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(blocks.url)
    assert Block(page, 2).edit().text() == "print('runs')"
    assert [stack for stack in errors if "assets/kv/" in stack] == []  # the theme's own fail


@pytest.mark.parametrize("damage", ["{", "1", '{"text": 1, "number": 2}', "null"])
def test_damaged_storage_is_as_good_as_none(page: Page, blocks: SiteServer, damage: str):
    block = opened(page, blocks).write("x")
    expect(block.notes).to_contain_text(KEPT)
    page.evaluate(
        """value => {
          for (const key of Object.keys(localStorage)) {
            if (key.startsWith("kv:cell:")) localStorage.setItem(key, value);
          }
        }""",
        damage,
    )
    page.goto(f"{blocks.url}?again")
    assert block.edit().text() == SECOND


def test_two_tabs_do_not_destroy_each_others_text(context: BrowserContext, blocks: SiteServer):
    one, other = (opened(context.new_page(), blocks) for _ in range(2))
    one.write("print('one')")
    expect(one.notes).to_contain_text(KEPT)
    expect(other.notes).to_contain_text("Another tab has a different text")
    assert other.text() == SECOND
    other.write("print('other')")
    expect(one.notes).to_contain_text("Another tab has a different text")
    assert one.text() == "print('one')"
    other.button("Show it").click()
    assert other.text() == "print('one')"
    other.button("Show it").click()
    assert other.text() == "print('other')"
    one.page.close()
    other.page.reload()
    assert other.edit().text() == "print('other')"
    other.button("Show it").click()
    assert other.text() == "print('one')"


def test_a_link_carries_the_text_and_runs_nothing(browser: Browser, blocks: SiteServer):
    permissions = ["clipboard-read", "clipboard-write"]
    with browser.new_context(permissions=permissions) as sender:
        block = opened(sender.new_page(), blocks).write("print('<b> from a link & é')")
        block.button("Link").click()
        expect(block.cell).to_contain_text("Link copied.")
        link = block.page.evaluate("navigator.clipboard.readText()")
    with browser.new_context() as receiver:
        page = receiver.new_page()
        own = opened(page, blocks).write("print('my own')")
        expect(own.notes).to_contain_text(KEPT)
        page.close()
        there = Block(receiver.new_page(), 2)
        there.page.goto(link)
        expect(there.notes).to_contain_text("This text came with a link. Nothing of it has run.")
        assert there.text() == "print('<b> from a link & é')"
        assert python_workers(there.page) == 0
        there.button("Show it").click()
        assert there.text() == "print('my own')"
        expect(there.notes).not_to_contain_text("came with a link")


@pytest.mark.parametrize("state", ["null", "{text: 1}", "'x'", "{text: 'x'.repeat(200000)}"])
def test_a_damaged_links_state_is_refused(page: Page, blocks: SiteServer, state: str):
    page.goto(blocks.url)
    block = Block(page, 2)
    expect(block.button("Edit and run")).to_be_visible()
    refused = block.cell.evaluate(f"cell => cell.openState({state}).catch(error => error.message)")
    assert refused == "This link is damaged; the block stands as it was built."
    assert block.text() == SECOND


# --- navigation ---------------------------------------------------------------------------------


def test_works_after_instant_navigation_with_the_same_python(page: Page, blocks: SiteServer):
    block = opened(page, blocks).run("base = 7")
    worker = next(one for one in page.workers if "kv/worker.js" in one.url)
    page.evaluate("window.sameDocument = true")
    page.get_by_role("link", name="The other page").click()
    page.wait_for_url("**/other/")
    there = Block(page, 1).edit()
    page.keyboard.press("Control+Enter")
    expect(there.output).to_contain_text("other page False")
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(blocks.url)
    expect(block.notes).to_contain_text(KEPT)
    block.edit().run("print(base)")
    expect(block.output).to_have_text("7\n", use_inner_text=False)
    assert worker in page.workers
    assert page.evaluate("window.sameDocument")


def test_leaving_the_page_ends_its_run(page: Page, blocks: SiteServer):
    block = opened(page, blocks).start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    page.get_by_role("link", name="The other page").click()
    page.wait_for_url("**/other/")
    there = Block(page, 1).edit()
    page.keyboard.press("Control+Enter")
    expect(there.output).to_contain_text("other page")


# --- everyone -----------------------------------------------------------------------------------

every_view = pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")]
)


@pytest.fixture
def view(browser: Browser) -> Iterator[Callable[..., Page]]:
    contexts: list[BrowserContext] = []

    def open_view(width: int, scheme: str, *, touch: bool = False) -> Page:
        small = touch and width < 500
        contexts.append(
            browser.new_context(
                viewport={"width": width, "height": 740},
                color_scheme=scheme,
                has_touch=small,
                is_mobile=small,
                reduced_motion="reduce",
            )
        )
        return contexts[-1].new_page()

    yield open_view
    for context in contexts:
        context.close()


@every_view
def test_the_keyboard_alone_does_everything(
    view: Callable[..., Page], blocks: SiteServer, width: int, scheme: str
):
    page = view(width, scheme)
    page.goto(blocks.url)
    block = Block(page, 1)
    block.button("Edit and run").focus()
    page.keyboard.press("Enter")
    expect(block.editor).to_be_focused()
    expect(block.cell.locator(".kv-cell-hint")).to_contain_text("Esc, then Tab leaves the editor")
    described = block.editor.get_attribute("aria-describedby")
    expect(page.locator(f"#{described}")).to_be_visible()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    assert block.text().endswith('print(f"{base=}")    ') or "    print" in block.text()
    expect(block.editor).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(block.status).to_contain_text("Done")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(block.button("Run")).to_be_focused()
    page.keyboard.press("Enter")
    expect(block.status).to_contain_text("Done")
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.slice(0, 20)"))
    for wanted in ("Copy", "Reset", "Clear output"):
        assert wanted in reached
    block.editor.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+Tab")
    expect(block.editor).not_to_be_focused()


@every_view
def test_the_pointer_alone_does_everything(
    view: Callable[..., Page], blocks: SiteServer, width: int, scheme: str
):
    page = view(width, scheme, touch=True)
    page.goto(blocks.url)
    block = Block(page, 3)
    press = Locator.tap if width < 500 else Locator.click
    press(block.button("Edit and run"))
    expect(block.editor).to_be_visible()
    press(block.button("Run"))
    expect(block.output).to_contain_text("42")
    press(block.button("Clear output"))
    expect(block.output).to_be_hidden()
    block.write("while True: pass")
    press(block.button("Run"))
    press(block.button("Stop"))
    expect(block.status).to_contain_text("Stopped")
    press(block.button("Reset"))
    press(block.button("Undo the reset"))
    assert block.text() == "while True: pass"


@every_view
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    view: Callable[..., Page], blocks: SiteServer, width: int, scheme: str
):
    page = view(width, scheme)
    page.goto(blocks.url)
    block = Block(page, 2).edit()
    wide = "import sys, json\nprint('x' * 300)\nprint('warned', file=sys.stderr)\n# note\n"
    block.run(f"{wide}class A:\n    x = 1.5\n\njson.loads('{{')")
    drawn = Block(page, 3).edit()
    drawn.run("from kvdocs.widgets.registry import get_widget\nget_widget('gpu-memory').view()")
    drawn.button("Reset").click()
    Block(page, 1).edit().run("import numpy\nTrue")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    assert [(v["id"], [n["html"][:160] for n in v["nodes"]]) for v in found] == []


def test_the_editor_follows_a_change_of_scheme(page: Page, blocks: SiteServer):
    block = opened(page, blocks)
    ground = "e => getComputedStyle(e).backgroundColor"
    editor = block.cell.locator(".cm-editor")
    light = editor.evaluate(ground)
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    assert editor.evaluate(ground) != light


def test_no_request_leaves_the_site(context: BrowserContext, page: Page, blocks: SiteServer):
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    block = opened(page, blocks)
    block.run("import numpy")
    block.run("import decimal, kvdocs.pages\nkvdocs.pages.widget('gpu-memory')")
    assert any("cells.js" in url for url in urls)
    assert [url for url in urls if not url.startswith((blocks.url, "data:", "blob:"))] == []


def test_the_console_stays_quiet(page: Page, blocks: SiteServer):
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    block = opened(page, blocks)
    block.run("print(1)\n1 / 0")
    block.start("print('on')\nwhile True: pass")
    expect(block.output).to_contain_text("on")
    block.button("Stop").click()
    works(block)
    assert said == []
