"""The service worker: what was read can be read offline, and a new build replaces the old one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
STEP_2 = "lessons/part-1/02-what-each-new-token-reads/"
KEPT = """async () => {
  const cache = await caches.open("kv-versioned");
  return (await cache.keys()).map(request => new URL(request.url).pathname.split("/").pop());
}"""
RUNTIME = {"worker.js", "pyodide.asm.mjs", "pyodide.asm.wasm", "snapshot.bin.gz", "kvdocs.json"}


@pytest.fixture
def reader(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(offline_reading=True) as context:
        context.set_default_timeout(30_000)
        yield context


def live(page: Page) -> None:
    page.evaluate("kvRuntime.start()")
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "live")


def kept_runtime(page: Page) -> None:
    """Wait until the whole runtime is kept."""
    every = f"async names => {{ const kept = await ({KEPT})(); return names.every(IS_KEPT); }}"
    page.wait_for_function(
        every.replace("IS_KEPT", "name => kept.includes(name)"), arg=sorted(RUNTIME)
    )


def test_a_visited_page_reads_and_computes_offline(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.goto(site.url + STEP_1)
    live(page)
    kept_runtime(page)
    page.reload()  # now through the service worker
    live(page)
    reader.set_offline(True)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("A coding assistant")
    live(page)
    slider = page.locator("kv-widget[name=gpu-memory] [name=utilization]")
    slider.fill("0.8")
    expect(page.locator("kv-widget[name=gpu-memory]")).to_contain_text("346,679")


def test_a_page_that_was_never_read_says_so_offline(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.goto(site.url + STEP_1)
    live(page)
    kept_runtime(page)
    reader.set_offline(True)
    page.goto(site.url + STEP_2)
    expect(page.get_by_role("heading", level=1)).to_have_text("You are offline")


def test_the_second_visit_fetches_nothing_of_the_runtime(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.goto(site.url + STEP_1)
    live(page)
    kept_runtime(page)
    page.wait_for_timeout(500)  # the host notes an answer once it is sent
    site.served.clear()
    page.goto(site.url + STEP_2)
    live(page)
    assert [one.path for one in site.served if one.path.rpartition("/")[2] in RUNTIME] == []


def test_pages_come_from_the_network_while_there_is_one(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.goto(site.url + STEP_1)
    live(page)
    kept_runtime(page)
    page.reload()
    site.faults.replaced[STEP_1 + "index.html"] = (
        b"<!doctype html><title>New</title><h1>New deploy</h1>"
    )
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("New deploy")


def test_a_file_of_a_new_build_takes_the_place_of_the_old(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.goto(site.url + STEP_1)
    live(page)
    kept_runtime(page)
    page.reload()
    page.evaluate('fetch("/kv-cache/assets/kv/kvdocs.json?v=next").then(answer => answer.blob())')
    page.wait_for_function(
        """async () => {
          const cache = await caches.open("kv-versioned");
          const urls = (await cache.keys()).map(request => request.url);
          const versions = urls.filter(url => url.includes("kvdocs.json"));
          return versions.length === 1 && versions[0].endsWith("?v=next");
        }"""
    )


def test_nothing_is_kept_where_data_is_to_be_saved(reader: BrowserContext, site: SiteServer):
    page = reader.new_page()
    page.add_init_script(
        "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"
    )
    page.goto(site.url + STEP_1)
    live(page)
    page.wait_for_timeout(1_500)
    assert page.evaluate("navigator.serviceWorker.getRegistrations().then(all => all.length)") == 0
