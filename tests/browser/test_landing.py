"""The landing page: three doors that open, all steps of the navigation, nothing that watches."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser
STEPS = 21


def course(page: Page) -> list[dict]:
    return json.loads(page.locator("#kv-course").text_content() or "[]")


def test_the_doors_lead_to_pages_that_exist(page: Page, site: SiteServer):
    page.goto(site.url)
    doors = page.locator(".kv-door")
    expect(doors).to_have_count(3)
    steps = {step["step"]: step["path"] for step in course(page)}
    wanted = (1, 21 if 21 in steps else 9, 17)
    for door, step in zip(doors.all(), wanted, strict=True):
        href = door.get_by_role("link").evaluate("link => link.href")
        answer = page.request.get(href)
        assert answer.ok, href
        if step in steps:
            assert href.split("#")[0] == site.url + steps[step]


def test_every_step_is_listed_once_with_its_minutes_and_question(page: Page, site: SiteServer):
    page.goto(site.url)
    steps = course(page)
    entries = page.locator(".kv-steps a")
    assert [entry.evaluate("link => link.href") for entry in entries.all()] == [
        site.url + step["path"] for step in steps
    ]
    for entry, step in zip(entries.all(), steps, strict=True):
        expect(entry).to_contain_text(f"{step['minutes']} min")
        expect(entry.locator(".kv-steps-question")).not_to_be_empty()
    missing = set(range(1, STEPS + 1)) - {step["step"] for step in steps}
    told = page.get_by_text("Not on this site yet")
    if missing:
        expect(told).to_contain_text(", ".join(map(str, sorted(missing))))
    else:
        expect(told).to_have_count(0)


def test_steps_are_numbered_in_the_sidebar(page: Page, site: SiteServer):
    page.goto(site.url + "lessons/part-2/04-the-formula-on-the-whiteboard/")
    numbers = page.locator(".md-nav--primary .kv-nav-step").all_text_contents()
    assert list(dict.fromkeys(numbers)) == [str(step["step"]) for step in course(page)]


def test_the_page_says_that_nobody_watches_and_nothing_does(browser: Browser, site: SiteServer):
    with browser.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(site.url)
        expect(page.get_by_text("No cookies, no trackers")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert context.cookies() == []
        assert [url for url in asked if not url.startswith((site.url, "data:", "blob:"))] == []


def test_nothing_done_yet_offers_step_1(page: Page, site: SiteServer):
    page.goto(site.url + "completion/")
    page.get_by_role("link", name="Start with step 1: ").click()
    page.wait_for_url("**/01-a-coding-assistant-on-one-h100/")


def test_without_scripts_step_1_is_offered_too(browser: Browser, site: SiteServer):
    with browser.new_context(java_script_enabled=False) as still:
        page = still.new_page()
        page.goto(site.url + "completion/")
        expect(page.get_by_role("link", name="Start with step 1: ")).to_be_visible()


@pytest.mark.browser
def test_the_last_step_leads_to_what_was_learned(page: Page, site: SiteServer):
    page.goto(site.url + "lessons/part-7/21-playground/")
    page.locator(".kv-next-link").click()
    expect(page).to_have_url(site.url + "completion/")
