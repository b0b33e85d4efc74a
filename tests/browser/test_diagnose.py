"""Step 17 in a real browser: a pasted page gets its verdict, and nothing of it goes out."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from kvdocs.diagnose import diagnose
from kvdocs.diagnose.kinds import KINDS
from kvdocs.widgets.dashboards import dashboards
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

STEP = "lessons/part-5/17-reading-kv-usage-and-the-queue/"


def live(page: Page, name: str) -> Locator:
    widget = page.locator(f"kv-widget[name={name}]")
    widget.scroll_into_view_if_needed()
    expect(widget).to_have_attribute("state", "live", timeout=60_000)
    return widget


def test_a_pasted_page_gets_its_verdict_and_goes_nowhere(page: Page, site: SiteServer):
    page.goto(site.url + STEP)
    widget = live(page, "diagnose")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    text = KINDS["thrashing"].readings(0).texts[0]
    widget.locator("textarea[name=first]").fill(text)
    verdict = widget.locator("[data-figure=verdict]")
    expect(verdict).to_have_text("thrashing")
    assert diagnose(text).verdict == "thrashing"
    expect(widget.locator(".kv-private")).to_contain_text("Nothing of it leaves your browser")
    assert asked == []
    widget.locator("textarea[name=seconds]").fill("soon")
    expect(widget.locator("[data-error-for=seconds]")).to_contain_text("'soon' is not a number")
    expect(widget.locator("textarea[name=first]")).to_have_value(text)
    expect(verdict).to_have_text("thrashing")


def drawn_by(page: Page, seed: int) -> None:
    """Expect the panels of a seed: its slider, its Python, and what the package says of them."""
    widget = live(page, "dashboards")
    expect(widget.locator(".kv-python")).to_contain_text(f"dashboards({seed})")
    expect(widget.locator("input[name=seed]")).to_have_value(str(seed))
    for each in dashboards(seed):
        usage = widget.locator(f"[data-figure=usage_{each.name}]")
        expect(usage).to_have_text(f"{100 * each.now.kv_cache_usage:.0f}")


def test_each_visit_draws_four_servers_of_its_own(page: Page, site: SiteServer):
    page.add_init_script("let asked = 0; Math.random = () => 0.5 + 1e-9 * asked++")
    page.goto(site.url + "lessons/part-5/16-when-the-cache-is-full/")
    expect(page.locator("kv-widget").first).to_have_attribute("state", "live", timeout=60_000)
    page.get_by_role("link", name="Reading KV usage and the queue").first.click()
    page.wait_for_url(f"**/{STEP}")
    drawn_by(page, 500)


def test_servers_are_not_replaced_under_the_readers_eyes(page: Page, site: SiteServer):
    page.add_init_script("const now = Date.now(); performance.now = () => 1e4 * (Date.now() - now)")
    page.goto(site.url + STEP)
    drawn_by(page, 4)
    page.goto(site.url + STEP + "?seed=7")
    drawn_by(page, 7)


def test_another_four_servers_are_drawn_and_diagnosed(page: Page, site: SiteServer):
    page.goto(site.url + STEP + "?seed=4")
    drawn_by(page, 4)
    widget = live(page, "dashboards")
    before = widget.locator("[data-figure=usage_ada]").inner_text()
    expect(widget.locator(".kv-panel-verdict")).to_have_count(0)
    widget.locator("input[name=seed]").fill("7")
    widget.locator("select[name=verdicts]").select_option("shown")
    expect(widget.locator(".kv-panel-verdict")).to_have_count(4)
    expect(widget.locator(".kv-finding", has_text="memory-bound")).to_have_count(1)
    assert widget.locator("[data-figure=usage_ada]").inner_text() != before
