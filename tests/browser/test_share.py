"""Links that carry a state: round trips, damage, markup, and where nothing may be copied."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from kvdocs.drills.registry import DRILLS, get_drill
from kvdocs.widgets.registry import WIDGETS
from kvdocs.widgets.widget import Widget, draw
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
ALL_WIDGETS = "reference/widgets/"
EVIL = '<img src=x onerror="window.hacked = 1">'
NO_CLIPBOARD = """Object.defineProperty(navigator, "clipboard", { value: undefined });
  Document.prototype.execCommand = () => false"""


SITE = ROOT / "site"
PAGES = sorted(page.parent.relative_to(SITE).as_posix() for page in SITE.rglob("index.html"))
PATHS = ["" if page == "." else f"{page}/" for page in PAGES]


def packed(*content: object) -> str:
    """The payload of a link, made without the site's own scripts."""
    deflate = zlib.compressobj(wbits=-15)
    data = deflate.compress(json.dumps(content).encode()) + deflate.flush()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def content_of(link: str) -> list:
    _, _, payload = link.partition("#kv=1.")
    data = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    return json.loads(zlib.decompress(data, wbits=-15))


def link_of(element: Locator) -> str:
    """Press *Link*, and read what stands in the field of a browser that copies nothing."""
    element.locator("kv-link").get_by_role("button", name="Link").click()
    return element.locator(".kv-link-given input").input_value()


def note(page: Page) -> Locator:
    return page.locator(".kv-link-note")


def settled(page: Page) -> None:
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "live")
    expect(note(page)).to_have_count(0)


def in_view(element: Locator) -> bool:
    return element.evaluate(
        "e => { const y = e.getBoundingClientRect().top; return y > -5 && y < innerHeight / 2 }"
    )


def choices(control: str) -> Iterator[str]:
    """Other values that a control's HTML offers, the last first."""
    yield from reversed(re.findall(r'<option value="([^"]+)"', control))
    yield from (
        reversed(re.findall(r'data-steps="([^"]+)"', control)[0].split())
        if ("data-steps" in control)
        else ()
    )
    if 'type="range"' in control:
        low, high = (re.findall(rf'{end}="([^"]+)"', control)[0] for end in ("min", "max"))
        yield from (high, low)


def another_state(widget: Widget) -> dict[str, str]:
    """Change every parameter that can be changed without a refusal."""
    params = widget.complete({})
    for name in list(params):
        control = next(one for one in widget.controls_for(params) if one.name == name)
        for value in choices(str(control.element(params[name]))):
            changed = params | {name: value}
            if value != params[name] and draw(widget, changed, widget.start).view is not None:
                params = changed
                break
    return params


@pytest.mark.parametrize("name", WIDGETS)
def test_a_link_to_a_widget_opens_its_state_and_gives_the_same_link(
    page: Page, site: SiteServer, name: str
):
    widget = WIDGETS[name]
    params = another_state(widget)
    assert params != widget.complete({})
    page.add_init_script(NO_CLIPBOARD)
    page.goto(
        f"{site.url}embed/{name}/#kv=1.{packed(name, f'kv-widget {name}', {'params': params})}"
    )
    settled(page)
    opened = page.locator("kv-widget")
    view = draw(widget, params, widget.start).view
    for figure in view.figures:
        expect(opened.locator(f"[data-figure={figure.name}]")).to_have_text(figure.value)
    expect(opened.locator(".kv-title")).to_have_text(view.title)
    assert opened.locator(".kv-python").text_content() == view.python
    assert in_view(opened)
    link = link_of(opened)
    ident, of, state = content_of(link)
    assert (ident, of) == (name, f"kv-widget {name}")
    assert {key: state["params"][key] for key in params} == params
    assert ("state" in state) is (widget.start is not None)
    if "state" in state:  # a running simulation: its own link tells what was changed when
        page.goto("about:blank")
        page.goto(link)
        settled(page)
        for figure in view.figures:
            expect(opened.locator(f"[data-figure={figure.name}]")).to_have_text(figure.value)


OF_EACH_KIND = {type(one.kind): name for name, one in DRILLS.items() if name[:4] != "bug-"}
"""A drill of each kind; one more lies in a closed fold."""


@pytest.mark.parametrize("name", [*OF_EACH_KIND.values(), "bug-part-of-a-block"])
def test_a_link_to_a_drill_poses_its_numbers(page: Page, site: SiteServer, name: str):
    home = next(path for path in PATHS if f'name="{name}"' in page_source(path))
    posed = get_drill(name).pose(get_drill(name).pose(3).next_seed())
    state = {"seed": str(posed.seed)}
    page.add_init_script(NO_CLIPBOARD)
    page.goto(f"{site.url}{home}#kv=1.{packed(name, f'kv-drill {name}', state)}")
    drill = page.locator(f"kv-drill[name={name}]")
    expect(drill).to_have_attribute("seed", str(posed.seed))
    settled(page)
    assert posed.question.split("`")[0] in drill.locator("legend").inner_text()
    assert in_view(drill)
    assert content_of(link_of(drill)) == [drill.get_attribute("id"), f"kv-drill {name}", state]


def page_source(path: str) -> str:
    return (SITE / path / "index.html").read_text()


def test_the_link_is_copied_where_the_browser_allows_it(
    context: BrowserContext, page: Page, site: SiteServer
):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(site.url + STEP_1)
    widget = page.locator("#gpu-memory")
    widget.locator("kv-link").get_by_role("button", name="Link").focus()
    page.keyboard.press("Enter")
    expect(widget.locator(".kv-link-given")).to_have_text("Link copied.")
    assert page.evaluate("navigator.clipboard.readText()").startswith(f"{site.url}{STEP_1}#kv=1.")
    widget.get_by_text("As Python").click()
    widget.get_by_role("button", name="Copy the code").click()
    expect(page.locator("#kv-announce")).to_have_text("Copied")
    python = widget.locator(".kv-python").text_content()
    assert page.evaluate("navigator.clipboard.readText()") == python


def test_controls_stay_when_the_picture_changes(page: Page, site: SiteServer):
    page.add_init_script(NO_CLIPBOARD)
    page.goto(site.url + STEP_1)
    widget = page.locator("#gpu-memory")
    expect(widget).to_have_attribute("state", "live")
    before = link_of(widget)
    page.get_by_label("--gpu-memory-utilization").fill("0.7")
    expect(widget.locator(".kv-status")).to_have_text("Live")
    after = link_of(widget)
    assert content_of(before)[2]["params"]["utilization"] == "0.9"
    assert content_of(after)[2]["params"]["utilization"] == "0.7"


# --- a block of code ----------------------------------------------------------------------------


def block(page: Page) -> Locator:
    return page.locator("kv-cell").first


def editor(page: Page) -> Locator:
    return block(page).locator(".cm-content")


def typed(page: Page, text: str) -> None:
    block(page).get_by_role("button", name="Edit and run").click()
    editor(page).fill(text)


def test_a_link_to_code_opens_it_in_the_editor_of_another_browser(
    browser: Browser, page: Page, site: SiteServer
):
    page.add_init_script(NO_CLIPBOARD)
    page.goto(site.url + STEP_1)
    code = f'x = "{EVIL}"\nif 1<2 and x: print("ü →", x)'
    typed(page, code)
    link = link_of(block(page))
    assert content_of(link)[2]["text"] == code
    with browser.new_context() as context:
        other = context.new_page()
        other.goto(link)
        expect(editor(other)).to_contain_text("if 1<2 and x")
        assert editor(other).locator(".cm-line").all_inner_texts() == code.split("\n")
        other.wait_for_url(re.compile("#cell-"))
        other.reload()
        expect(block(other)).to_contain_text("Your text is kept in this browser")
        assert other.evaluate("window.hacked") is None


def test_a_link_to_code_keeps_the_readers_own_text(page: Page, site: SiteServer):
    page.add_init_script(NO_CLIPBOARD)
    page.goto(site.url + STEP_1)
    typed(page, "theirs = 1")
    link = link_of(block(page))
    editor(page).fill("mine = 1")
    page.evaluate("() => new Promise(done => setTimeout(done, 600))")
    page.goto("about:blank")
    page.goto(link)
    expect(editor(page)).to_have_text("theirs = 1")
    expect(block(page)).to_contain_text("Your own text from before the link is kept.")
    block(page).get_by_role("button", name="Show it").click()
    expect(editor(page)).to_have_text("mine = 1")


def test_a_block_that_has_moved_is_found_by_its_code(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    key = block(page).get_attribute("data-key")
    state = packed("cell-elsewhere-9", f"kv-cell {key}", {"text": "moved = 1"})
    page.evaluate("hash => { location.hash = hash }", f"kv=1.{state}")
    expect(editor(page)).to_have_text("moved = 1")


def test_a_link_to_a_block_that_has_changed_since_says_so(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    ident = block(page).get_attribute("id")
    state = packed(ident, "kv-cell 0123456789abcdef", {"text": "old = 1"})
    page.evaluate("hash => { location.hash = hash }", f"kv=1.{state}")
    expect(note(page)).to_contain_text("has changed since")
    expect(editor(page)).to_have_count(0)


# --- links that cannot be opened ----------------------------------------------------------------

WIDGET = "kv-widget gpu-memory"
DAMAGED = {
    "empty": "kv=",
    "nothing": "kv=1.",
    "not base64": "kv=1.%%%",
    "not deflate": "kv=1.AAAA",
    "cut": "kv=1." + packed("gpu-memory", WIDGET, {"params": {}})[:-6],
    "not a list": "kv=1."
    + base64.urlsafe_b64encode(
        (d := zlib.compressobj(wbits=-15)).compress(b"7") + d.flush()
    ).decode(),
    "no texts": "kv=1." + packed("gpu-memory", WIDGET, {"params": {"utilization": 3}}),
    "no parameters": "kv=1." + packed("gpu-memory", WIDGET, None),
    "a bomb": "kv=1." + packed("gpu-memory", WIDGET, {"params": {"model": "x" * 8_000_000}}),
    "another version": "kv=9.abc",
    "a bad value": "kv=1." + packed("gpu-memory", WIDGET, {"params": {"utilization": EVIL}}),
    "an old control": "kv=1." + packed("gpu-memory", WIDGET, {"params": {EVIL: "1"}}),
    "an element that is gone": "kv=1." + packed("gone", "kv-widget gone", {"params": {}}),
    "another kind": "kv=1." + packed("gpu-memory", "kv-drill gpu-memory", {"seed": "1"}),
    "no element of ours": "kv=1." + packed("__search", "input", {}),
    "a bad seed": "kv=1."
    + packed("where-the-memory-went", "kv-drill where-the-memory-went", {"seed": EVIL}),
    "markup as names": "kv=1." + packed(EVIL, EVIL, {}),
}


@pytest.mark.parametrize("fragment", DAMAGED.values(), ids=DAMAGED)
def test_a_link_that_cannot_be_opened_says_so_and_the_page_stands(
    page: Page, site: SiteServer, fragment: str
):
    page.goto(f"{site.url}{STEP_1}#{fragment}")
    expect(note(page)).to_contain_text("as it was built")
    expect(page.locator("[data-figure=kv_pool_tokens]").first).to_have_text("407,714")
    assert note(page).locator("*").count() == 0
    assert page.evaluate("window.hacked") is None


def test_markup_in_a_state_is_shown_as_text(page: Page, site: SiteServer):
    name = "bytes-per-token"
    state = packed(name, f"kv-widget {name}", {"params": {"config": EVIL}})
    page.goto(f"{site.url}{ALL_WIDGETS}#kv=1.{state}")
    expect(note(page)).to_contain_text("as it was built")
    assert page.evaluate("window.hacked") is None
    assert page.locator(".md-content img").count() == 0


def test_a_link_opened_on_the_open_page_is_followed(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    state = packed("gpu-memory", WIDGET, {"params": {"utilization": "0.8"}})
    page.evaluate("hash => { location.hash = hash }", f"kv=1.{state}")
    expect(page.locator("[data-figure=kv_pool_tokens]").first).to_have_text("346,679")
    expect(page.locator("#gpu-memory [name=utilization]")).to_have_value("0.8")


def test_where_the_element_has_another_name_its_kind_is_found(page: Page, site: SiteServer):
    state = packed("gpu-memory", WIDGET, {"params": {"utilization": "0.8"}})
    page.goto(f"{site.url}#kv=1.{state}")
    expect(page.locator("#hook [data-figure=kv_pool_tokens]")).to_have_text("346,679")


def test_without_python_the_line_says_so(page: Page, site: SiteServer):
    site.faults.missing.add("assets/kv/pyodide/pyodide.asm.wasm")
    state = packed("gpu-memory", WIDGET, {"params": {"utilization": "0.8"}})
    page.goto(f"{site.url}{STEP_1}#kv=1.{state}")
    expect(note(page)).to_contain_text("Python did not start")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_with_a_field_and_a_note(
    browser: Browser, site: SiteServer, width: int, scheme: str
):
    size = {"width": width, "height": 740}
    with browser.new_context(
        color_scheme=scheme, viewport=size, reduced_motion="reduce"
    ) as context:
        context.add_init_script(NO_CLIPBOARD)
        page = context.new_page()
        page.goto(f"{site.url}{STEP_1}#kv=9.old")
        expect(note(page)).to_be_visible()
        for control in page.locator("kv-link").all():
            control.get_by_role("button", name="Link").click()
            expect(control.locator("input")).to_be_visible()
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


# --- in another site's page ---------------------------------------------------------------------


def test_the_embed_line_shows_the_same_picture_in_another_page(
    browser: Browser, page: Page, site: SiteServer, tmp_path: Path
):
    page.add_init_script(NO_CLIPBOARD)
    page.goto(site.url + STEP_1)
    widget = page.locator("#gpu-memory")
    expect(widget).to_have_attribute("state", "live")
    page.get_by_label("--gpu-memory-utilization").fill("0.8")
    expect(widget.locator("[data-figure=kv_pool_tokens]")).to_have_text("346,679")
    widget.get_by_role("button", name="Embed").click()
    line = widget.locator(".kv-link-given input").input_value()
    assert line.startswith("<iframe ")
    assert "\n" not in line
    other = tmp_path / "other.html"
    other.write_text(f"<!doctype html><title>Another site</title><h1>Notes</h1>{line}")
    with browser.new_context(viewport={"width": 1000, "height": 900}) as context:
        tab = context.new_page()
        tab.goto(other.as_uri())
        frame = tab.frame_locator("iframe")
        expect(frame.locator("[data-figure=kv_pool_tokens]")).to_have_text("346,679")
        frame.get_by_label("--gpu-memory-utilization").fill("0.7")
        expect(frame.locator("[data-figure=kv_pool_tokens]")).not_to_have_text("346,679")
        height = tab.locator("iframe").get_attribute("height")
        assert frame.locator("body").evaluate("e => e.scrollHeight") <= int(height) + 120


def test_a_page_to_embed_stands_alone(browser: Browser, site: SiteServer):
    for name in WIDGETS:
        html = page_source(f"embed/{name}/")
        assert "md-sidebar" not in html
        assert "bundle." not in html
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}embed/gpu-memory/")
        expect(page.locator("[data-figure=kv_pool_tokens]")).to_have_text("407,714")
        expect(page.locator(".kv-level")).to_contain_text("scripts are off")
    with browser.new_context(color_scheme="light") as context:
        page = context.new_page()
        page.goto(f"{site.url}embed/gpu-memory/?scheme=dark")
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
