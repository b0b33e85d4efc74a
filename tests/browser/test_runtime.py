"""The generic runtime in a real browser, on the stand-in site: no lesson content is involved."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

KV = "assets/kv/"
WASM = f"{KV}pyodide/pyodide.asm.wasm"
SNAPSHOT = f"{KV}pyodide/snapshot.bin.gz"
SAVE_DATA = "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"


def widget_is(page: Page, state: str) -> None:
    expect(page.locator("#first")).to_have_attribute("state", state)
    runtime = "idle" if state == "static" else state
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", runtime)


def open_live(page: Page, site: SiteServer, query: str = "") -> None:
    page.goto(site.url + query)
    widget_is(page, "live")


def set_number(page: Page, value: str) -> None:
    page.locator("[name=number]").fill(value)


def doubled_is(page: Page, text: str) -> None:
    expect(page.locator("[data-figure=doubled]")).to_have_text(text)


def mode_of(page: Page) -> str:
    return str(page.evaluate("kvRuntime.mode"))


def marks(page: Page, name: str) -> list[float]:
    return page.evaluate("n => performance.getEntriesByName(n).map(m => m.startTime)", name)


# --- starting -----------------------------------------------------------------------------------


def test_becomes_live_from_the_snapshot_without_being_asked(page: Page, standin: SiteServer):
    open_live(page, standin)
    assert mode_of(page) == "snapshot"
    expect(page.locator(".kv-status")).to_have_text("Live")
    assert len(marks(page, "kv:boot-start")) == len(marks(page, "kv:boot-end")) == 1


def test_asks_for_nothing_of_python_before_the_page_has_loaded(page: Page, standin: SiteServer):
    open_live(page, standin)
    loaded, first = page.evaluate(
        """() => [performance.getEntriesByType("navigation")[0].loadEventEnd,
                  performance.getEntriesByName("kv:boot-start")[0].startTime]"""
    )
    assert 0 < loaded <= first


def test_sends_no_request_to_another_origin(
    context: BrowserContext, page: Page, standin: SiteServer
):
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    open_live(page, standin)
    set_number(page, "30")
    doubled_is(page, "60")
    page.wait_for_function("performance.getEntriesByName('kv:first-update').length === 1")
    assert len(urls) > 5
    assert [url for url in urls if not url.startswith((standin.url, "data:"))] == []


def test_a_later_import_finds_the_rest_of_the_library_and_tracebacks_quote_source(
    page: Page, standin: SiteServer
):
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    open_live(page, standin)
    page.evaluate("kvRuntime.completeLibrary()")
    set_number(page, "13")
    expect(page.locator("[data-error-for='*']")).to_be_visible()
    told = "\n".join(errors)
    assert "ZeroDivisionError" in told
    assert "return str(1 // 0)" in told


@pytest.mark.parametrize("damage", ["missing", "cut short", "noise", "not gzip", "other build"])
def test_starts_plainly_when_the_snapshot_is(
    page: Page, standin: SiteServer, standin_root: Path, damage: str
):
    whole = (standin_root / SNAPSHOT).read_bytes()
    if damage == "missing":
        standin.faults.missing.add(SNAPSHOT)
    else:
        standin.faults.replaced[SNAPSHOT] = {
            "cut short": lambda: whole[: len(whole) // 2],
            "noise": lambda: whole[:2000] + bytes(2000) + whole[4000:],
            "not gzip": lambda: b"<!doctype html>" * 1000,
            "other build": lambda: stamped_otherwise(whole, standin_root),
        }[damage]()
    open_live(page, standin)
    assert mode_of(page) == "plain"
    set_number(page, "30")
    doubled_is(page, "60")


def stamped_otherwise(snapshot: bytes, root: Path) -> bytes:
    stamp = re.search(r'"kvdocs": "(\w+)"', (root / KV / "manifest.json").read_text())
    assert stamp
    memory = gzip.decompress(snapshot)
    assert stamp[1].encode() in memory
    return gzip.compress(memory.replace(stamp[1].encode(), b"0" * len(stamp[1])), 1)


def test_restores_a_snapshot_that_the_host_sent_as_encoded(page: Page, standin: SiteServer):
    standin.faults.encoded.add(SNAPSHOT)
    open_live(page, standin)
    assert mode_of(page) == "snapshot"


def test_compiles_wasm_that_the_host_calls_something_else(
    page: Page, standin: SiteServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mimetypes.guess_type", lambda *_: ("application/octet-stream", None))
    page.route(
        standin.url, lambda route: route.fulfill(body=page_source(), content_type="text/html")
    )
    open_live(page, standin)
    assert mode_of(page) == "snapshot"


def page_source() -> str:
    return (Path(__file__).parent / "standin" / "page.html").read_text()


def test_tells_what_is_missing_and_comes_alive_on_try_again(page: Page, standin: SiteServer):
    standin.faults.missing.add(WASM)
    page.goto(standin.url)
    widget_is(page, "failed")
    status = page.locator(".kv-status")
    expect(status).to_contain_text("pyodide.asm.wasm could not be fetched (404)")
    doubled_is(page, "42")
    standin.faults.missing.clear()
    status.get_by_role("button", name="Try again").press("Enter")
    widget_is(page, "live")
    expect(status).to_be_focused()


@pytest.mark.parametrize("file", ["worker.js", "pyodide/pyodide.asm.mjs"])
def test_fails_in_one_line_without(page: Page, standin: SiteServer, file: str):
    standin.faults.missing.add(KV + file)
    page.goto(standin.url)
    widget_is(page, "failed")
    expect(page.locator(".kv-status")).to_contain_text(f"{file} could not be")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_shows_how_far_a_slow_download_is(page: Page, standin: SiteServer):
    standin.faults.rate = 8_000_000
    page.goto(standin.url)
    status = page.locator(".kv-status")
    expect(status).to_have_text(re.compile(r"fetching the runtime, [1-9]\d*\.\d of \d+\.\d MB"))
    standin.faults.rate = 0
    widget_is(page, "live")


def test_gives_up_on_a_silent_host_after_twenty_seconds(page: Page, standin: SiteServer):
    page.clock.install()
    standin.faults.stalled.add(WASM)
    page.goto(standin.url)
    page.clock.run_for(3_000)
    widget_is(page, "booting")
    expect(page.locator(".kv-status")).to_have_text(
        re.compile(r"fetching the runtime, [345]\.\d of")
    )
    page.wait_for_timeout(500)
    page.clock.fast_forward(19_000)
    widget_is(page, "booting")
    page.clock.fast_forward(1_500)
    widget_is(page, "failed")
    expect(page.locator(".kv-status")).to_contain_text("nothing happened for 20 seconds")
    standin.faults.stalled.clear()
    page.get_by_role("button", name="Try again").click()
    widget_is(page, "live")


def test_waits_for_a_tap_when_the_reader_saves_data(
    context: BrowserContext, page: Page, standin: SiteServer
):
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page.add_init_script(SAVE_DATA)
    page.goto(standin.url)
    button = page.get_by_role("button", name=re.compile(r"Make it live \(\d+\.\d MB\)"))
    expect(button).to_be_visible()
    page.wait_for_timeout(1_000)
    widget_is(page, "static")
    assert [url for url in urls if "pyodide" in url] == []
    button.click()
    widget_is(page, "live")
    page.wait_for_timeout(500)
    assert any("snapshot" in url for url in urls)
    assert [url for url in urls if "python_stdlib" in url] == []


def test_a_change_made_before_python_runs_starts_it_and_is_shown(page: Page, standin: SiteServer):
    page.add_init_script(SAVE_DATA)
    page.goto(standin.url)
    set_number(page, "30")
    set_number(page, "33")
    widget_is(page, "live")
    doubled_is(page, "66")
    expect(page.locator("[name=number]")).to_have_value("33")


def test_does_not_start_by_itself_after_a_start_that_killed_the_page(
    page: Page, standin: SiteServer
):
    page.add_init_script("sessionStorage.setItem('kv:booting', '1')")
    page.goto(standin.url)
    expect(page.get_by_role("button", name=re.compile("Make it live"))).to_be_visible()
    widget_is(page, "static")


def test_is_static_with_scripts_off(browser: Browser, standin: SiteServer):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(standin.url)
        expect(page.locator("[name=number]")).to_be_disabled()
        doubled_is(page, "42")
        expect(page.locator(".kv-status")).to_have_text("Static picture")


# --- updating -----------------------------------------------------------------------------------


def test_shows_the_newest_answer_and_never_an_older_after_it(page: Page, standin: SiteServer):
    open_live(page, standin)
    page.locator("[name=slow]").fill("0.15")
    expect(page.locator("#kv-announce")).to_have_text("Doubled.")
    page.evaluate(
        """() => {
          const figure = document.querySelector("[data-figure=doubled]");
          window.shown = [];
          new MutationObserver(() => shown.push(Number(figure.textContent)))
            .observe(figure, { childList: true, characterData: true, subtree: true });
        }"""
    )
    page.evaluate(
        """async () => {
          const slider = document.querySelector("[name=number]");
          for (let value = 30; value <= 60; value++) {
            slider.value = value;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => setTimeout(done, 10));
          }
        }"""
    )
    doubled_is(page, "120")
    expect(page.locator("[name=number]")).to_have_value("60")
    shown = list(dict.fromkeys(page.evaluate("shown")))
    assert shown == sorted(shown)
    assert 2 <= len(shown) <= 8


def test_tells_at_the_control_what_is_wrong_and_keeps_the_picture(page: Page, standin: SiteServer):
    open_live(page, standin)
    page.locator("[name=number]").evaluate("input => { input.type = 'text' }")
    markup = "<img src=x onerror='window.hacked = true'>"
    set_number(page, markup)
    message = page.locator("[data-error-for=number]")
    expect(message).to_be_visible()
    expect(message).to_contain_text("<img src=x")
    expect(message.locator("img")).to_have_count(0)
    field = page.locator("[name=number]")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("not a number from 0 to 100"))
    expect(page.locator("#kv-announce")).to_contain_text("not a number")
    doubled_is(page, "42")
    set_number(page, "30")
    doubled_is(page, "60")
    expect(message).to_be_hidden()
    expect(field).not_to_have_attribute("aria-invalid", "true")
    assert page.evaluate("window.hacked") is None


def test_text_of_any_kind_reaches_python_whole_and_the_page_as_text(
    page: Page, standin: SiteServer
):
    open_live(page, standin)
    text = '</textarea><script>window.hacked = 1</script>\n\n{"a": "\\u00e9 é 🙂 &amp;"} i<n'
    page.locator("[name=note]").fill(text)
    note = page.locator("[data-figure=note]")
    expect(note).to_have_text(f"{len(text)} {' '.join(text.split())}")
    assert page.evaluate("window.hacked") is None


def test_a_chosen_file_reaches_python_as_text_and_a_huge_one_is_refused(
    page: Page, standin: SiteServer
):
    open_live(page, standin)
    upload = page.locator("[name=upload]")
    upload.set_input_files({"name": "c.json", "mimeType": "text/json", "buffer": "é{}".encode()})
    expect(page.locator("[data-figure=upload]")).to_have_text("3")
    page.evaluate(
        """() => {
          const files = new DataTransfer();
          files.items.add(new File([new Uint8Array(17 * 2 ** 20)], "weights.bin"));
          const input = document.querySelector("[name=upload]");
          input.files = files.files;
          input.dispatchEvent(new Event("change", { bubbles: true }));
        }"""
    )
    expect(page.locator("[data-error-for=upload]")).to_contain_text(
        "weights.bin is 17.0 MiB; at most 16 MiB are read"
    )
    expect(page.locator("[data-figure=upload]")).to_have_text("3")


def test_a_box_is_sent_as_true_or_false(page: Page, standin: SiteServer):
    open_live(page, standin)
    page.get_by_label("Exact").check()
    expect(page.locator("[data-figure=exact]")).to_have_text("true")
    page.get_by_label("Exact").uncheck()
    expect(page.locator("[data-figure=exact]")).to_have_text("false")
    expect(page.get_by_label("Exact")).not_to_be_checked()


def test_focus_caret_and_open_folds_survive_an_update(page: Page, standin: SiteServer):
    open_live(page, standin)
    page.get_by_text("More", exact=True).click()
    note = page.locator("[name=note]")
    note.click()
    page.keyboard.type("hello world")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("big ")
    expect(page.locator("[data-figure=note]")).to_have_text("15 hello big world")
    expect(note).to_be_focused()
    assert note.evaluate("area => area.selectionStart") == len("hello big ")
    expect(page.locator("details")).to_have_attribute("open", "")


def test_a_slider_can_be_moved_by_keys_without_losing_focus(page: Page, standin: SiteServer):
    open_live(page, standin)
    slider = page.locator("[name=number]")
    slider.focus()
    for step in range(1, 6):
        page.keyboard.press("ArrowRight")
        doubled_is(page, str(2 * (21 + step)))
        expect(slider).to_be_focused()


def test_an_answer_does_not_undo_what_the_reader_changed_meanwhile(page: Page, standin: SiteServer):
    open_live(page, standin)
    page.locator("[name=slow]").fill("0.4")
    set_number(page, "30")
    page.locator("[name=other]").select_option("c")
    for _ in range(20):
        assert page.locator("[name=number]").input_value() == "30"
        assert page.locator("[name=other]").input_value() == "c"
        page.wait_for_timeout(50)
    expect(page.locator("[data-figure=other]")).to_have_text("c", timeout=5_000)
    doubled_is(page, "60")


def test_marks_what_changed_for_a_moment(page: Page, standin: SiteServer):
    open_live(page, standin)
    set_number(page, "30")
    doubled = page.locator("[data-figure=doubled]")
    expect(doubled).to_have_class("kv-changed")
    expect(page.locator("[data-figure=other]")).not_to_have_class("kv-changed")
    expect(doubled).not_to_have_class("kv-changed")


def test_marks_nothing_when_the_reader_asked_for_less_motion(browser: Browser, standin: SiteServer):
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        open_live(page, standin)
        page.evaluate(
            """() => new MutationObserver(() => {
                 if (document.querySelector(".kv-changed")) window.marked = true;
               }).observe(document, { attributes: true, subtree: true })"""
        )
        set_number(page, "30")
        doubled_is(page, "60")
        assert page.evaluate("window.marked") is None


def test_says_the_change_to_screen_readers(page: Page, standin: SiteServer):
    open_live(page, standin)
    set_number(page, "30")
    region = page.locator("#kv-announce")
    expect(region).to_have_text("Doubled.")
    expect(region).to_have_attribute("role", "status")


def test_start_values_come_back_on_reset(page: Page, standin: SiteServer):
    open_live(page, standin)
    set_number(page, "30")
    doubled_is(page, "60")
    page.get_by_role("button", name="Start values").click()
    doubled_is(page, "42")
    expect(page.locator("[name=number]")).to_have_value("21")


def test_a_python_error_leaves_the_picture_and_a_line_and_the_next_change_works(
    page: Page, standin: SiteServer
):
    open_live(page, standin)
    set_number(page, "13")
    expect(page.locator("[data-error-for='*']")).to_contain_text("could not be drawn")
    doubled_is(page, "42")
    set_number(page, "14")
    doubled_is(page, "28")
    expect(page.locator("[data-error-for='*']")).to_be_hidden()
    assert len(marks(page, "kv:boot-start")) == 1


# --- living on ----------------------------------------------------------------------------------


def test_a_widget_that_leaves_and_comes_back_finds_the_same_python(page: Page, standin: SiteServer):
    open_live(page, standin)
    (worker,) = page.workers
    page.evaluate(
        """async () => {
          const main = document.querySelector("main");
          const source = main.innerHTML;
          for (let visit = 0; visit < 3; visit++) {
            main.innerHTML = "<h1>Another page</h1>";
            await new Promise((done) => setTimeout(done, 20));
            main.innerHTML = source;
          }
        }"""
    )
    widget_is(page, "live")
    set_number(page, "30")
    doubled_is(page, "60")
    assert page.workers == [worker]
    assert len(marks(page, "kv:boot-start")) == 1


def test_a_restart_ends_what_runs_and_the_wanted_picture_still_comes(
    page: Page, standin: SiteServer
):
    open_live(page, standin)
    page.locator("[name=slow]").fill("600")
    page.wait_for_timeout(300)
    page.locator("[name=slow]").fill("0")
    set_number(page, "30")
    page.evaluate("kvRuntime.restart()")
    widget_is(page, "live")
    doubled_is(page, "60")
    for _ in range(50):
        if len(page.workers) > 1:
            page.wait_for_timeout(100)
    assert len(page.workers) == 1
