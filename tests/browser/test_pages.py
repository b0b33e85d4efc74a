"""The built pages in a real browser: with scripts, without, by keyboard, in both schemes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kvdocs.widgets.registry import get_widget
from tests.browser.site_server import SiteServer
from tests.browser.test_levels import level_of

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
STEP_4 = "lessons/part-2/04-the-formula-on-the-whiteboard/"
SITE = ROOT / "site"
BUILT = sorted(page.parent.relative_to(SITE).as_posix() for page in SITE.rglob("index.html"))
API = [page for page in BUILT if page.startswith("reference/api/")]
"""Pages of one form, made from docstrings: one of them stands for all."""
EMBEDDED = [page for page in BUILT if page.startswith("embed/")]
"""One picture each, as on its lesson page: still, with a chart, and with a timeline."""
PAGES = [
    page
    for page in BUILT
    if page not in {*API, *EMBEDDED}
    or page in {"reference/api/engine", "embed/gpu-memory", "embed/recompute", "embed/server-load"}
]
every_page = pytest.mark.parametrize(
    "path", ["" if page == "." else f"{page}/" for page in PAGES], ids=PAGES
)


def figure(page: Page, name: str):
    return page.locator(f"[data-figure={name}]").first


def settles(page: Page) -> None:
    """Wait until the page is as live as it gets: one without widgets starts nothing.

    Python starts when a widget is near.
    """
    if page.locator("kv-widget").count():
        page.locator("kv-widget").first.scroll_into_view_if_needed()
        is_live(page)


def is_live(page: Page) -> None:
    expect(page.locator("kv-widget").first).to_have_attribute("state", "live", timeout=30_000)


def computed(widget: str, name: str, **params: str) -> str:
    return get_widget(widget).view(**params).figure(name).value


# --- scripts off --------------------------------------------------------------------------------


def test_the_site_has_its_pages():
    assert {".", STEP_1.rstrip("/"), STEP_4.rstrip("/")} <= set(PAGES), "run `make site` first"


@every_page
def test_without_scripts_the_page_reads_whole(browser: Browser, site: SiteServer, path: str):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + path)
        assert len(page.locator(".md-content").inner_text()) > 400
        for widget in page.locator("kv-widget").all():
            assert widget.get_attribute("state") == "static"
            picture = widget.locator(".kv-picture [role=img]").first
            assert picture.bounding_box()["height"] > 20
            assert len(picture.get_attribute("aria-label")) > 40
            params = json.loads(widget.get_attribute("data-params"))
            state = json.loads(widget.get_attribute("data-state") or "null")
            view = get_widget(widget.get_attribute("name")).view(state, **params)
            for shown in view.figures:
                expect(widget.locator(f"[data-figure={shown.name}]")).to_have_text(shown.value)
            expect(widget.locator(".kv-controls")).to_be_hidden()
        assert level_of(page) == ["off"]
        page.emulate_media(media="print")
        prints_alone = path.endswith("20-cheat-sheet/")  # one page of A4, and nothing beside it
        assert level_of(page) == ([] if prints_alone else ["printed"])


# --- scripts on ---------------------------------------------------------------------------------


def test_a_lower_utilization_shows_what_the_package_computes(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    expect(figure(page, "kv_pool_tokens")).to_have_text("407,714")
    is_live(page)
    page.get_by_label("--gpu-memory-utilization").fill("0.8")
    wanted = computed("gpu-memory", "kv_pool_tokens", utilization="0.8")
    expect(figure(page, "kv_pool_tokens")).to_have_text(wanted)
    assert wanted == "346,679"


def test_a_wrong_paste_is_named_and_the_last_picture_stays(page: Page, site: SiteServer):
    page.goto(site.url + STEP_4)
    is_live(page)
    box = page.get_by_label("Or paste a whole config.json")
    box.fill("<!doctype html><script>document.title='owned'</script>")
    error = page.locator("[data-error-for=config]")
    expect(error).to_contain_text("web page")
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(figure(page, "kv_bytes_per_token")).to_have_text("131,072")
    widget = page.locator("kv-widget", has=box)
    expect(widget).to_have_attribute("data-stale", "")
    expect(widget.locator(".kv-status")).to_contain_text("Not updated")
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run('[data-stale]', { resultTypes: ['violations'] })")["violations"]
    assert [violation["id"] for violation in found] == []
    config = {"num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64}
    box.fill(json.dumps({"model_type": "llama", **config}))
    expect(figure(page, "kv_bytes_per_token")).to_have_text("2,621,440")
    expect(error).to_be_hidden()
    expect(widget).not_to_have_attribute("data-stale", "")
    expect(widget.locator(".kv-status")).to_have_text("Live")
    assert page.title() != "owned"


def test_page_changes_keep_the_same_python(page: Page, site: SiteServer):
    page.goto(site.url)
    is_live(page)
    page.evaluate("window.sameDocument = true")
    page.get_by_role("link", name="Start with step 1").click()
    page.wait_for_url(f"**/{STEP_1}")
    expect(page.locator(".kv-step")).to_be_visible()
    is_live(page)
    page.get_by_label("--gpu-memory-utilization").fill("0.7")
    wanted = computed("gpu-memory", "kv_pool_tokens", utilization="0.7")
    expect(figure(page, "kv_pool_tokens")).to_have_text(wanted)
    page.go_back()
    page.wait_for_url(site.url)
    is_live(page)
    assert page.evaluate("window.sameDocument")
    assert page.evaluate("performance.getEntriesByName('kv:boot-start').length") == 1


@every_page
def test_a_live_page_keeps_to_itself_and_axe_finds_nothing(
    browser: Browser, site: SiteServer, path: str
):
    said: list[str] = []
    urls: list[str] = []
    with browser.new_context(color_scheme="light", reduced_motion="reduce") as context:
        context.on("request", lambda request: urls.append(request.url))
        page = context.new_page()
        page.on("console", lambda line: said.append(f"{line.type}: {line.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.goto(site.url + path)
        settles(page)
        page.evaluate(
            "document.querySelectorAll('.md-content details').forEach(d => d.open = true)"
        )
        page.add_script_tag(path=AXE)
        for scheme in ("default", "slate"):
            page.evaluate("s => document.body.setAttribute('data-md-color-scheme', s)", scheme)
            found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
            assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == [], scheme
    assert [line for line in said if line.startswith(("error", "warning"))] == []
    assert [url for url in urls if not url.startswith((site.url, "data:", "blob:"))] == []


# --- everyone -----------------------------------------------------------------------------------


def test_the_keyboard_alone_does_everything_on_step_1(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    is_live(page)
    reached: list[str] = []
    guessed = False
    for _ in range(120):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "e => (document.activeElement.name || document.activeElement.textContent || '').trim()"
        )
        reached.append(name)
        if name == "utilization":
            page.keyboard.press("ArrowLeft")
            wanted = computed("gpu-memory", "kv_pool_tokens", utilization="0.89")
            expect(figure(page, "kv_pool_tokens")).to_have_text(wanted)
        if name == "answer" and not guessed:
            guessed = True
            page.keyboard.type("1")
            page.keyboard.press("Enter")
            expect(page.locator(".kv-compare")).to_be_visible()
        if "Step 2" in name:
            break
    for wanted in (
        "utilization",
        "model",
        "gpu",
        "kv_cache_dtype",
        "Data table",
        "As Python",
        "answer",
    ):
        assert any(wanted in name for name in reached), f"Tab never reached {wanted}: {reached}"
    page.keyboard.press("Enter")
    page.wait_for_url("**/part-1/02-*/")


@every_page
def test_nothing_scrolls_sideways(browser: Browser, site: SiteServer, path: str):
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    with browser.new_context(viewport={"width": 360, "height": 740}) as context:
        page = context.new_page()
        page.goto(site.url + path)
        assert page.evaluate(fits)
        page.set_viewport_size({"width": 1280, "height": 740})
        page.wait_for_function(fits, timeout=5_000)  # what scripts measure settles a frame later
