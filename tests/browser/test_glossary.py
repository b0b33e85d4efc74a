"""A marked word shows its definition to a mouse, a keyboard and a finger."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site_server import SiteServer

STEP = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
WORDS = "layers of the model"


def word(page: Page):
    return page.locator(".kv-term", has_text="forward pass")


@pytest.mark.browser
def test_mouse_and_keyboard_show_the_definition(page: Page, site: SiteServer):
    page.goto(site.url + STEP)
    for show in (word(page).hover, word(page).focus):
        show()
        expect(page.get_by_role("tooltip").filter(has_text=WORDS)).to_be_visible()
        page.mouse.move(0, 0)
        page.locator("a.md-logo").first.focus()
        expect(page.get_by_role("tooltip").filter(has_text=WORDS)).to_have_count(0)


@pytest.mark.browser
def test_a_tap_shows_the_definition_inside_the_screen(browser: Browser, site: SiteServer):
    with browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    ) as phone:
        page = phone.new_page()
        page.goto(site.url + STEP)
        word(page).scroll_into_view_if_needed()
        word(page).tap()
        tip = page.locator(".md-tooltip2__inner", has_text=WORDS)
        expect(tip).to_be_visible()
        box = tip.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


@pytest.mark.browser
def test_without_scripts_the_definition_is_the_words_title(browser: Browser, site: SiteServer):
    with browser.new_context(java_script_enabled=False) as still:
        page = still.new_page()
        page.goto(site.url + STEP)
        assert WORDS in (word(page).get_attribute("title") or "")
