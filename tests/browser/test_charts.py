"""Charts in the page: drawn by the build, and again when one changes, with nothing from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
GALLERY = "reference/widgets/"
CHARTS = "assets/kv/charts.js"
CHART = "kv-widget[name=concurrency] .kv-chart"
DRAWN_AT_BUILD = f"{CHART} svg[data-fit]"
DRAWN_HERE = f"{CHART} > svg:not([data-fit])"


def open_gallery(page: Page, site: SiteServer) -> None:
    page.goto(site.url + GALLERY)
    page.locator("kv-widget[name=concurrency]").scroll_into_view_if_needed()
    expect(page.locator("kv-widget[name=concurrency]")).to_have_attribute("state", "live")


def choose(page: Page, name: str, value: str) -> None:
    page.locator(f"kv-widget[name=concurrency] [name={name}]").select_option(value)


def fetched(site: SiteServer) -> int:
    return sum(answer.path == CHARTS for answer in site.served)


def numbers(page: Page, where: str = DRAWN_HERE) -> list[str]:
    return page.locator(f"{where} text").all_text_contents()


# --- scripts off --------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "fit"), [(1280, "wide"), (360, "narrow")])
def test_without_scripts_the_picture_that_suits_the_width_is_there(
    browser: Browser, site: SiteServer, width: int, fit: str
):
    viewport = {"width": width, "height": 740}
    with browser.new_context(java_script_enabled=False, viewport=viewport) as context:
        page = context.new_page()
        page.goto(site.url + GALLERY)
        (shown,) = [svg for svg in page.locator(DRAWN_AT_BUILD).all() if svg.is_visible()]
        assert shown.get_attribute("data-fit") == fit
        assert shown.bounding_box()["height"] > 200
        texts = shown.locator("text").all_text_contents()
        assert {"49", "12", "3", "tokens in each request", "requests at once"} <= set(texts)
        sizes = shown.locator("text").evaluate_all(
            "texts => texts.map((text) => text.getBoundingClientRect().height)"
        )
        assert min(sizes) >= 11, "text too small to read"


def test_on_paper_the_picture_is_there(page: Page, site: SiteServer):
    page.emulate_media(media="print")
    page.goto(site.url + GALLERY)
    assert any(svg.is_visible() for svg in page.locator(DRAWN_AT_BUILD).all())


def test_on_paper_the_log_is_ink(page: Page, site: SiteServer):
    page.emulate_media(media="print", color_scheme="light")
    page.goto(site.url + GALLERY)
    colours = page.locator(".kv-log samp, .kv-log samp *").evaluate_all(
        "all => all.map((element) => getComputedStyle(element).color)"
    )
    assert len(colours) > 10
    assert len(set(colours)) == 1, "screen colours on paper"


# --- updates ------------------------------------------------------------------------------------


def test_what_draws_is_fetched_once_and_only_when_a_chart_changes(page: Page, site: SiteServer):
    open_gallery(page, site)
    expect(page.locator(DRAWN_AT_BUILD)).to_have_count(2)
    page.locator("[name=num_kv_heads]").press("ArrowLeft")
    expect(page.locator("kv-widget[name=heads] .kv-title")).to_contain_text("instead of its 8")
    assert fetched(site) == 0
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)
    choose(page, "kv_cache_dtype_a", "auto")
    expect(page.locator("[data-figure=requests_a]")).to_have_text("49")
    assert fetched(site) == 1


def test_a_change_draws_the_new_numbers(page: Page, site: SiteServer):
    open_gallery(page, site)
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)
    assert {"99", "24", "6"} <= set(numbers(page))
    choose(page, "model_b", "openai/gpt-oss-20b")
    expect(page.locator(f"{DRAWN_HERE} text", has_text="138").first).to_be_visible()
    expect(page.locator(DRAWN_AT_BUILD)).to_have_count(0)
    assert "gpt-oss" in page.locator(CHART).get_attribute("aria-label")


def test_a_chart_that_stays_the_same_is_not_drawn_again(page: Page, site: SiteServer):
    open_gallery(page, site)
    choose(page, "model_b", "meta-llama/Llama-3.1-70B")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)
    page.locator(DRAWN_HERE).evaluate("svg => { svg.dataset.kept = 'yes' }")
    choose(page, "kv_cache_dtype_b", "fp8")
    expect(page.locator("kv-widget[name=concurrency] .kv-series")).to_contain_text(
        "fp8 cache: does not start"
    )
    expect(page.locator(f"{DRAWN_HERE}[data-kept]")).to_have_count(1)
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(f"{DRAWN_HERE}[data-kept]")).to_have_count(0)


def test_many_changes_end_with_the_last(page: Page, site: SiteServer):
    open_gallery(page, site)
    slider = page.locator("kv-widget[name=concurrency] [name=tokens]")
    slider.focus()
    for _ in range(6):
        slider.press("ArrowRight")
    slider.press("Home")
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator("kv-widget[name=concurrency] .kv-title")).to_contain_text("1,024 tokens")
    expect(page.locator(f"{DRAWN_HERE} text", has_text="99").first).to_be_visible()
    expect(slider).to_have_value("0")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)


def test_a_resized_page_fits_the_drawing(page: Page, site: SiteServer):
    open_gallery(page, site)
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function(
        """selector => {
          const svg = document.querySelector(selector);
          return Math.abs(svg.getAttribute("width") - svg.parentElement.clientWidth) <= 1;
        }""",
        arg=DRAWN_HERE,
    )
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0


def test_without_what_draws_the_page_says_so_and_the_table_holds(page: Page, site: SiteServer):
    site.faults.missing.add(CHARTS)
    open_gallery(page, site)
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(CHART)).to_contain_text("could not be drawn")
    expect(page.locator("[data-figure=requests_a]")).to_have_text("99")
    site.faults.missing.clear()
    choose(page, "kv_cache_dtype_b", "fp8")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)


# --- everyone -----------------------------------------------------------------------------------


def test_a_switch_of_scheme_changes_the_colours_of_what_is_drawn(
    browser: Browser, site: SiteServer
):
    with browser.new_context(color_scheme="light", reduced_motion="reduce") as context:
        page = context.new_page()
        open_gallery(page, site)
        choose(page, "kv_cache_dtype_a", "fp8")
        expect(page.locator(DRAWN_HERE)).to_have_count(1)
        colour = """selector => {
          const line = document.querySelector(selector + " .mark-line path");
          return [getComputedStyle(line).stroke,
                  getComputedStyle(line).getPropertyValue("--kv-first").trim()];
        }"""
        light, _ = page.evaluate(colour, DRAWN_HERE)
        page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
        dark, _ = page.evaluate(colour, DRAWN_HERE)
        assert light != dark
        backgrounds = page.locator(f"{DRAWN_HERE} .background").evaluate_all(
            "all => all.map((path) => getComputedStyle(path).fill)"
        )
        assert set(backgrounds) <= {"none", "rgba(0, 0, 0, 0)"}


def test_a_strict_policy_and_no_other_origin(context: BrowserContext, page: Page, site: SiteServer):
    policy = (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; worker-src 'self' blob:"
    )
    urls: list[str] = []
    said: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page.on("console", lambda message: said.append(message.text))

    def with_policy(route):
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"content-security-policy": policy})

    page.route(f"**/{GALLERY}", with_policy)
    open_gallery(page, site)
    choose(page, "kv_cache_dtype_a", "fp8")
    expect(page.locator(DRAWN_HERE)).to_have_count(1)
    assert {"99", "24", "6"} <= set(numbers(page))
    assert [url for url in urls if not url.startswith((site.url, "data:", "blob:"))] == []
    assert [text for text in said if "Content Security Policy" in text] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_gallery(browser: Browser, site: SiteServer, scheme: str):
    with browser.new_context(color_scheme=scheme, reduced_motion="reduce") as context:
        page = context.new_page()
        open_gallery(page, site)
        choose(page, "kv_cache_dtype_a", "fp8")
        expect(page.locator(DRAWN_HERE)).to_have_count(1)
        for fold in page.locator(".md-content details").all():
            fold.evaluate("fold => { fold.open = true }")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_in_the_gallery_scrolls_sideways(browser: Browser, site: SiteServer, width: int):
    with browser.new_context(viewport={"width": width, "height": 740}) as context:
        page = context.new_page()
        open_gallery(page, site)
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0


def test_a_slider_over_steps_sends_its_number_and_follows_the_model(page: Page, site: SiteServer):
    asked: list[dict[str, str]] = []
    page.expose_function("told", lambda params: asked.append(json.loads(params)))
    open_gallery(page, site)
    page.evaluate(
        """() => {
          const update = kvRuntime.update.bind(kvRuntime);
          kvRuntime.update = (name, params) => {
            told(JSON.stringify(params));
            return update(name, params);
          };
        }"""
    )
    widget = page.locator("kv-widget[name=heads]")
    slider = widget.locator("[name=num_kv_heads]")
    slider.press("End")
    expect(widget.locator("[data-figure=conversations]")).to_have_text("12")
    assert asked[-1]["num_kv_heads"] == "32"
    widget.locator("[name=model]").select_option("Qwen/Qwen2.5-7B-Instruct")
    expect(widget.locator(".kv-title")).to_contain_text("28 KV heads for 28 query heads")
    expect(slider).to_have_attribute("data-steps", "1 2 4 7 14 28")
    slider.press("Home")
    expect(widget.locator(".kv-title")).to_contain_text("1 KV head for 28 query heads")
    expect(slider).to_have_attribute("aria-valuetext", "1\u00a0of 28 (released with 4)")
    expect(slider).to_be_focused()
