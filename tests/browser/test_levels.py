"""Printed, scripts off, without Python, live: each element, and the line that says which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
AUTHORS = "contributing/"
SITE = ROOT / "site"
PAGES = sorted(page.parent.relative_to(SITE).as_posix() for page in SITE.rglob("index.html"))
SAVES_DATA = "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"
WASM = "assets/kv/pyodide/pyodide.asm.wasm"
SCRIPT = "assets/kv/kv.js"


def read(page: str) -> str:
    return (SITE / page / "index.html").read_text(encoding="utf-8")


def level_of(page: Page) -> list[str]:
    """The levels that the page's line shows: always exactly one."""
    shown = page.locator(".kv-level [data-level]:visible")
    return [one.get_attribute("data-level") for one in shown.all()]


@pytest.fixture
def printed(page: Page) -> Page:
    page.emulate_media(media="print")
    return page


@pytest.fixture
def scripts_off(browser: Browser) -> Iterator[Page]:
    with browser.new_context(java_script_enabled=False) as context:
        yield context.new_page()


@pytest.fixture
def without_python(context: BrowserContext) -> Page:
    context.add_init_script(SAVES_DATA)
    return context.new_page()


# --- the line -----------------------------------------------------------------------------------


def test_every_page_has_the_line():
    """What it says on each is tested with the pages."""
    without = [page for page in PAGES if 'class="kv-level"' not in read(page)]
    assert PAGES
    assert without == []


def test_the_line_follows_python_from_static_to_live(without_python: Page, site: SiteServer):
    page = without_python
    page.goto(site.url + STEP_1)
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "idle")
    assert level_of(page) == ["static"]
    site.faults.stalled.add(WASM)
    page.get_by_role("button", name="Make it live").first.click()
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "booting")
    assert level_of(page) == ["starting"]
    site.faults.stalled.clear()
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "live")
    assert level_of(page) == ["live"]
    page.emulate_media(media="print")
    assert level_of(page) == ["printed"]


def test_the_line_tells_a_python_that_did_not_start(page: Page, site: SiteServer):
    site.faults.missing.add(WASM)
    page.goto(site.url + STEP_1)
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "failed")
    assert level_of(page) == ["failed"]


def test_the_line_tells_scripts_that_did_not_load(page: Page, site: SiteServer):
    site.faults.missing.add(SCRIPT)
    page.goto(site.url + STEP_1)
    assert level_of(page) == ["unloaded"]


def test_the_line_follows_page_changes(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "live")
    page.locator(".kv-next-link").click()
    page.wait_for_url("**/02-*/")
    expect(page.locator(".kv-level [data-level=live]")).to_be_visible()


# --- each element -------------------------------------------------------------------------------


def test_printed_a_page_has_its_content_and_none_of_its_controls(printed: Page, site: SiteServer):
    printed.goto(site.url + STEP_1)
    expect(printed.locator(".kv-cell-bar").first).to_be_attached()
    for shown in (
        ".kv-step h1",
        ".kv-question",
        "kv-widget .kv-picture",
        "kv-widget .kv-figures",
        "kv-widget .kv-caption",
        "kv-drill legend",
        "kv-cell .highlight",
        "kv-cell .result",
        ".kv-takeaway",
    ):
        expect(printed.locator(shown).first).to_be_visible()
    assert printed.locator("kv-drill .kv-solution > div").first.bounding_box()["height"] > 20
    for hidden in (
        "kv-link",
        "kv-copy",
        ".kv-cell-bar",
        ".kv-controls",
        ".kv-status",
        ".kv-drill-foot",
        ".kv-step-end",
        ".kv-step-done",
        ".kv-next",
        ".md-header",
    ):
        for element in printed.locator(hidden).all():
            expect(element).to_be_hidden()


def test_scripts_off_every_element_reads_and_no_control_stands_dead(
    scripts_off: Page, site: SiteServer
):
    page = scripts_off
    page.goto(site.url + STEP_1)
    expect(page.locator("kv-widget .kv-picture")).to_be_visible()
    expect(page.locator("kv-widget .kv-status")).to_have_text("Static picture")
    page.get_by_text("Data table").first.click()
    expect(page.locator("kv-widget table").first).to_be_visible()
    expect(page.locator("kv-cell > .highlight").first).to_be_visible()
    expect(page.locator("kv-cell > .result").first).to_be_visible()
    assert page.locator(".md-content button:visible").count() == 0
    assert page.locator(".md-content input:visible").count() == 0


def test_scripts_without_python_keep_and_copy_and_say_why(without_python: Page, site: SiteServer):
    page = without_python
    site.faults.missing.add(WASM)
    page.goto(site.url + STEP_1)
    page.get_by_role("button", name="Make it live").first.click()
    status = page.locator("kv-widget .kv-status")
    expect(status).to_contain_text("Python did not start")
    expect(status).to_contain_text("The picture stays as it was built.")
    expect(page.locator("[data-figure=kv_pool_tokens]")).to_have_text("407,714")
    drill = page.locator("kv-drill").first
    drill.locator("[name=answer]").fill("224,609")
    drill.get_by_role("button", name="Check").click()
    expect(drill.locator(".kv-verdict")).to_contain_text("this is not checked")
    expect(page.locator("kv-cell").get_by_role("button", name="Edit and run")).to_be_visible()
    page.reload()
    expect(drill.locator("[name=answer]")).to_have_value("224,609")


# --- copying a block of code --------------------------------------------------------------------


def test_code_is_copied_by_keyboard_and_said(context: BrowserContext, page: Page, site: SiteServer):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(site.url + AUTHORS)
    block = page.locator(".highlight", has_text="make new-lesson STEP").first
    copy = block.get_by_role("button", name="Copy the code")
    copy.focus()
    page.keyboard.press("Enter")
    expect(copy).to_have_text("Copied")
    expect(page.locator("#kv-announce")).to_have_text("Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.strip() == 'make new-lesson STEP=12 PART=4 TITLE="Blocks of sixteen"'
    expect(copy).to_have_text("Copy")


def test_each_block_has_one_copy_button_also_after_page_changes(page: Page, site: SiteServer):
    page.goto(site.url + AUTHORS)
    expect(page.locator(".highlight > kv-copy").first).to_be_attached()
    page.evaluate("window.sameDocument = true")
    page.locator(".md-content").get_by_role("link", name="How to write one").click()
    page.wait_for_url("**/contributing/drills/")
    expect(page.locator(".highlight > kv-copy").first).to_be_attached()
    page.go_back()
    page.wait_for_url(f"**/{AUTHORS}")
    expect(page.locator(".highlight > kv-copy").first).to_be_attached()
    assert page.evaluate("window.sameDocument")
    for block in page.locator(".md-content div.highlight").all():
        in_cell = block.evaluate("e => e.closest('kv-cell, .result') !== null")
        assert block.locator("kv-copy button").count() == (0 if in_cell else 1)
    for cell in page.locator("kv-cell").all():
        assert cell.get_by_role("button", name="Copy", exact=True).count() == 1
