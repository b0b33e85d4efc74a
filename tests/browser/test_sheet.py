"""The cheat sheet: one page of A4 for every server, readable on a phone, linked to the steps."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site_server import SiteServer

STEP = "lessons/part-7/20-cheat-sheet/"
PAPER = {"width": 726, "height": 1054}
"""A4 less margins of 9 mm, at 96 pixels an inch."""
CUT = """() => [...document.querySelectorAll('.kv-sheet *')].filter((each) =>
    getComputedStyle(each).display !== 'none' && !each.closest('svg, .kv-bar, .kv-scale')
    && each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline')
  .map((each) => each.className + ': ' + each.textContent.slice(0, 60))"""


def pages_printed(page: Page) -> int:
    pdf = page.pdf(prefer_css_page_size=True)
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


def check_print(page: Page) -> None:
    assert pages_printed(page) == 1
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    box = page.locator(".kv-sheet").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, PAPER["width"])
    assert 0.75 * PAPER["height"] < box["y"] + box["height"] <= PAPER["height"]
    assert page.evaluate(CUT) == []
    expect(page.locator(".kv-sheet-value").first).to_be_visible()
    for hidden in (".kv-controls", ".kv-takeaway", "kv-drill", ".kv-level", "kv-print"):
        for element in page.locator(hidden).all():
            expect(element).to_be_hidden()


@pytest.mark.browser
def test_the_sheet_as_built_is_one_page_without_scripts_and_in_the_dark(
    browser: Browser, site: SiteServer
):
    for options in ({"java_script_enabled": False}, {"color_scheme": "dark"}):
        with browser.new_context(viewport=PAPER, **options) as context:
            page = context.new_page()
            page.goto(site.url + STEP)
            if options.get("java_script_enabled") is False:
                assert pages_printed(page) == 1
            else:
                check_print(page)


@pytest.mark.browser
@pytest.mark.parametrize(
    "choices",
    [
        {"model": "meta-llama/Llama-3.1-70B", "num_gpus": "4", "kv_cache_dtype": "fp8"},
        {"gpu": "b200-sxm-180gb", "model": "Qwen/Qwen3-Next-80B-A3B-Instruct"},
        {"gpu": "h200-sxm-141gb", "model": "google/gemma-3-27b-it"},
        {"gpu": "h200-sxm-141gb", "num_gpus": "8", "model": "deepseek-ai/DeepSeek-V3"},
        {"gpu": "h200-sxm-141gb", "num_gpus": "8", "model": "google/gemma-4-31B-it"},
    ],
)
def test_a_sheet_made_anew_is_one_page_too(page: Page, site: SiteServer, choices: dict[str, str]):
    page.goto(site.url + STEP)
    sheet = page.locator("#sheet")
    for name, value in choices.items():
        sheet.locator(f"[name={name}]").select_option(value)
    expect(sheet.locator(".kv-sheet-head")).to_contain_text(choices["model"])
    for value in choices.values():
        if value.isdigit():
            expect(sheet.locator(".kv-sheet-head")).to_contain_text(f"{value} ×")
    check_print(page)


@pytest.mark.browser
def test_a_line_leads_to_its_step_before_and_after_a_change(page: Page, site: SiteServer):
    page.goto(site.url + STEP)
    wanted = site.url + "lessons/part-2/04-the-formula-on-the-whiteboard/"
    link = page.locator(".kv-sheet-step", has_text=re.compile(r"^4$")).first
    assert link.evaluate("each => each.href") == wanted
    page.locator("#sheet [name=kv_cache_dtype]").select_option("fp8")
    expect(page.locator(".kv-sheet-head")).to_contain_text("fp8 cache")
    assert link.evaluate("each => each.href") == wanted
    link.click()
    expect(page).to_have_url(wanted)


@pytest.mark.browser
def test_a_phone_shows_every_line_whole(browser: Browser, site: SiteServer):
    with browser.new_context(viewport={"width": 360, "height": 740}) as phone:
        page = phone.new_page()
        page.goto(site.url + STEP)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate(CUT) == []


@pytest.mark.browser
def test_the_button_prints(page: Page, site: SiteServer):
    page.add_init_script("window.print = () => { window.printed = true; }")
    page.goto(site.url + STEP)
    page.get_by_role("button", name="Print this sheet").click()
    assert page.evaluate("window.printed")


@pytest.mark.browser
def test_a_sheet_of_other_settings_is_not_printed(page: Page, site: SiteServer):
    page.goto(site.url + STEP)
    sheet, button = page.locator("#sheet"), page.get_by_role("button", name="Print this sheet")
    sheet.locator("[name=model]").select_option("meta-llama/Llama-3.1-70B")
    expect(sheet.locator(".kv-status")).to_contain_text("Not updated")
    expect(button).to_be_disabled()
    sheet.locator("[name=num_gpus]").select_option("4")
    expect(button).to_be_enabled()
