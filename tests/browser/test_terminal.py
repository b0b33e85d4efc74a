"""The terminal in a real browser, on the authors' page: typed in, completed, stopped, restarted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PAGE = "contributing/terminal/"
SERVE = "vllm serve Llama-3.1-8B --gpu-memory-utilization"


def field(page: Page) -> Locator:
    return page.get_by_label("Command at dgx-1")


def log(page: Page) -> Locator:
    return page.get_by_role("log")


def open_live(page: Page, site: SiteServer) -> None:
    page.goto(site.url + PAGE)
    field(page).focus()
    expect(page.locator("kv-terminal")).to_have_attribute("state", "live", timeout=60_000)


def enter(page: Page, line: str) -> None:
    """Type a line with the keyboard and wait for its answer."""
    before = log(page).locator(".kv-term-typed").count()
    field(page).press_sequentially(line)
    page.keyboard.press("Enter")
    expect(log(page).locator(".kv-term-typed")).to_have_count(before + 1)
    settled(page)


def settled(page: Page) -> None:
    page.wait_for_function("!document.querySelector('.kv-term-log').hasAttribute('aria-busy')")


def answer(page: Page) -> str:
    """What came after the last line typed."""
    return page.evaluate(
        """() => {
            const typed = [...document.querySelectorAll('.kv-term-typed')].at(-1);
            const texts = [];
            let next = typed.nextElementSibling;
            for (; next; next = next.nextElementSibling) texts.push(next.innerText);
            return texts.join('\\n');
        }"""
    )


# --- without scripts, in print ------------------------------------------------------------------


def test_without_scripts_the_recorded_run_reads_whole(browser: Browser, site: SiteServer):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + PAGE)
        expect(log(page)).to_contain_text("GPU KV cache size: 407,712 tokens")
        expect(log(page)).to_contain_text("68664 MiB, 76293 MiB")
        expect(page.locator(".kv-term-form")).to_be_hidden()
        expect(page.locator(".kv-term-keys")).to_be_hidden()
        sizes = log(page).evaluate("log => [log.scrollHeight, log.clientHeight]")
        assert sizes[0] <= sizes[1] + 1


def test_print_shows_the_run_and_no_prompt(page: Page, site: SiteServer):
    page.goto(site.url + PAGE)
    page.emulate_media(media="print")
    expect(log(page)).to_be_visible()
    expect(page.locator(".kv-term-form")).to_be_hidden()


# --- typing -------------------------------------------------------------------------------------


def test_python_starts_when_the_prompt_is_used_and_the_run_goes_on(page: Page, site: SiteServer):
    open_live(page, site)
    expect(page.locator("kv-terminal .kv-status")).to_have_text("Live")
    enter(page, "nvidia-smi --query-gpu=memory.used --format=csv,noheader")
    assert answer(page).strip() == "68664 MiB"  # the server of the recorded run


def test_a_line_typed_before_python_is_up_is_run_when_it_is(page: Page, site: SiteServer):
    page.goto(site.url + PAGE)
    field(page).fill("echo early")
    page.keyboard.press("Enter")
    expect(log(page).locator("samp").last).to_have_text("early", timeout=60_000)


def test_a_refused_start_is_mended_in_three_ways_with_the_keyboard_alone(
    page: Page, site: SiteServer
):
    page.goto(site.url + PAGE)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "line":
            break
    expect(page.locator("kv-terminal")).to_have_attribute("state", "live", timeout=60_000)
    for number, fix in enumerate(("0.4 --max-model-len 100000", "0.4 --kv-cache-dtype fp8", "0.5")):
        page.keyboard.press("Control+c")  # stops the server that runs
        settled(page)
        enter(page, f"{SERVE} 0.4")
        assert "estimated maximum model length is 102512" in answer(page), number
        enter(page, f"{SERVE} {fix}")
        assert "Application startup complete." in answer(page)
    enter(page, "echo $?")
    assert answer(page).strip() == "0"


def test_what_looks_like_markup_is_shown_as_text(page: Page, site: SiteServer):
    page.add_init_script("window.alert = () => { window.owned = true }")
    open_live(page, site)
    hostile = "<img src=x onerror=alert(1)>"
    for line in (f"echo '{hostile}'", f"cat '{hostile}'", f"'{hostile}'", hostile):
        enter(page, line)
        expect(log(page).locator("kbd").last).to_have_text(line)
    assert hostile in log(page).inner_text()
    assert log(page).locator("img").count() == 0
    assert page.evaluate("window.owned") is None


def test_history_comes_back_and_the_line_begun_stays(page: Page, site: SiteServer):
    open_live(page, site)
    enter(page, "echo one")
    enter(page, "echo two")
    field(page).press_sequentially("begun")
    for key, wanted in (
        ("ArrowUp", "echo two"),
        ("ArrowUp", "echo one"),
        ("ArrowDown", "echo two"),
        ("ArrowDown", "begun"),
        ("ArrowDown", "begun"),
    ):
        page.keyboard.press(key)
        expect(field(page)).to_have_value(wanted)


def test_tab_completes_offers_and_leaves(page: Page, site: SiteServer):
    open_live(page, site)
    field(page).press_sequentially("nvid")
    page.keyboard.press("Tab")
    expect(field(page)).to_have_value("nvidia-smi ")
    page.keyboard.press("Control+c")
    settled(page)
    field(page).press_sequentially("vllm serve Llama-3.1-8B --max-n")
    page.keyboard.press("Tab")
    expect(field(page)).to_have_value("vllm serve Llama-3.1-8B --max-num-")
    page.keyboard.press("Tab")
    expect(log(page).locator("samp").last).to_contain_text("--max-num-seqs")
    expect(field(page)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(field(page)).not_to_be_focused()
    expect(field(page)).to_have_value("vllm serve Llama-3.1-8B --max-num-")


def test_tab_leaves_where_there_is_nothing_to_complete(page: Page, site: SiteServer):
    open_live(page, site)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Complete")).to_be_focused()
    field(page).focus()
    field(page).press_sequentially("zzzz")
    page.wait_for_timeout(500)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Complete")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(log(page)).to_be_focused()


def test_ctrl_c_drops_a_line_stops_the_server_and_copies_a_selection(page: Page, site: SiteServer):
    open_live(page, site)
    field(page).press_sequentially("vllm ser")
    page.keyboard.press("Control+c")
    settled(page)
    expect(field(page)).to_have_value("")
    expect(log(page).locator("kbd").last).to_have_text("vllm ser^C")
    page.keyboard.press("Control+c")
    expect(log(page)).to_contain_text("Application shutdown complete.")
    field(page).press_sequentially("kept")
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Control+c")
    expect(field(page)).to_have_value("kept")


def test_ctrl_l_clears_the_screen(page: Page, site: SiteServer):
    open_live(page, site)
    page.keyboard.press("Control+l")
    expect(log(page)).to_have_text("")
    enter(page, "pwd")
    field(page).press_sequentially("clear")
    page.keyboard.press("Enter")
    expect(log(page)).to_have_text("")


def test_several_lines_are_pasted_and_run_in_order(page: Page, site: SiteServer):
    open_live(page, site)
    page.evaluate(
        """() => {
            const clipboardData = new DataTransfer();
            clipboardData.setData('text/plain',
                'dgx-1 $ echo a \\\\\\n  b\\n$ echo c\\necho begun');
            const options = { clipboardData, bubbles: true, cancelable: true };
            document.activeElement.dispatchEvent(new ClipboardEvent('paste', options));
        }"""
    )
    expect(log(page).locator("samp").last).to_have_text("c")
    assert log(page).locator("samp").all_inner_texts()[-2:] == ["a b", "c"]
    expect(field(page)).to_have_value("echo begun")


def test_the_prompt_follows_the_folder(page: Page, site: SiteServer):
    open_live(page, site)
    enter(page, "cd models")
    expect(page.locator("kv-terminal label")).to_contain_text("dgx-1 ~/models $")


def test_the_log_alone_is_live_for_screen_readers(page: Page, site: SiteServer):
    open_live(page, site)
    added = page.evaluate_handle(
        """() => {
            const seen = [];
            new MutationObserver((changes) => {
                for (const c of changes) for (const n of c.addedNodes) seen.push(n.innerText);
            }).observe(document.querySelector('[role=log]'), { childList: true });
            return seen;
        }"""
    )
    enter(page, "echo heard")
    assert added.json_value() == ["dgx-1 $ echo heard", "heard"]


# --- what the page can do with it ---------------------------------------------------------------


def test_the_widget_and_nvidia_smi_agree_after_each_start(page: Page, site: SiteServer):
    open_live(page, site)
    page.evaluate("addEventListener('kv-machine', event => { window.facts = event.detail.facts })")
    page.keyboard.press("Control+c")
    settled(page)
    enter(page, f"{SERVE} 0.7 --max-model-len 32K")
    enter(page, "nvidia-smi")
    used = re.search(r"(\d+)MiB /  76293MiB", answer(page))[1]
    expect(page.locator("#gpu-memory .kv-screen")).to_contain_text(f"{used}MiB / 76293MiB")
    expect(page.locator("#gpu-memory [name=utilization]")).to_have_value("0.7")
    assert page.evaluate("window.facts.memory_used_mib") == [int(used)]


def test_a_line_under_way_survives_the_end_of_python(page: Page, site: SiteServer):
    open_live(page, site)
    enter(page, "cd models")
    page.evaluate(
        """() => {
            const input = document.querySelector('kv-terminal input');
            input.value = 'pwd';
            input.form.requestSubmit();
            void kvRuntime.restart();
        }"""
    )
    expect(log(page).locator("samp").last).to_have_text("/home/dev/models", timeout=60_000)


def test_ctrl_c_ends_what_takes_too_long_and_the_machine_stays(page: Page, site: SiteServer):
    open_live(page, site)
    enter(page, "cd models")
    page.evaluate(
        """() => {
            const call = kvRuntime.call.bind(kvRuntime);
            kvRuntime.call = (module, name, ...args) => name === 'run' && args[1] === 'hang'
                ? call('time', 'sleep', 600) : call(module, name, ...args);
        }"""
    )
    field(page).press_sequentially("hang")
    page.keyboard.press("Enter")
    expect(log(page).locator("samp").last).to_contain_text("Still at work")
    page.keyboard.press("Control+c")
    expect(log(page).locator("samp").last).to_have_text("^C")
    enter_after_restart(page, "pwd", "/home/dev/models")


def enter_after_restart(page: Page, line: str, wanted: str) -> None:
    field(page).press_sequentially(line)
    page.keyboard.press("Enter")
    expect(log(page).locator("samp").last).to_have_text(wanted, timeout=60_000)


def test_leaving_the_page_and_coming_back_keeps_the_machine_and_the_screen(
    page: Page, site: SiteServer
):
    open_live(page, site)
    enter(page, "cd models")
    field(page).press_sequentially("begun")
    page.evaluate("window.sameDocument = true")
    page.locator(".md-nav--primary a", has_text="Start").first.click()
    page.wait_for_url(site.url)
    page.go_back()
    page.wait_for_url(f"**/{PAGE}")
    expect(field(page)).to_have_value("begun")
    assert page.evaluate("window.sameDocument")
    page.keyboard.press("Escape")
    field(page).fill("pwd")
    page.keyboard.press("Enter")
    expect(log(page).locator("samp").last).to_have_text("/home/dev/models")


def test_a_line_that_was_never_answered_is_back_on_the_line_after_a_page_change(
    page: Page, site: SiteServer
):
    site.faults.stalled.add("assets/kv/pyodide/pyodide.asm.wasm")
    page.goto(site.url + PAGE)
    field(page).fill("echo kept")
    page.keyboard.press("Enter")
    expect(field(page)).to_have_value("")
    page.locator(".md-nav--primary a", has_text="Start").first.click()
    page.wait_for_url(site.url)
    page.go_back()
    page.wait_for_url(f"**/{PAGE}")
    expect(field(page)).to_have_value("echo kept")
    assert "echo kept" not in log(page).inner_text()
    site.faults.stalled.clear()


def test_buttons_stand_in_for_keys_a_phone_lacks(browser: Browser, site: SiteServer):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with browser.new_context(**phone) as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.goto(site.url + PAGE)
        field(page).tap()
        expect(page.locator("kv-terminal")).to_have_attribute("state", "live", timeout=60_000)
        field(page).fill("nvid")
        page.get_by_role("button", name="Complete").tap()
        expect(field(page)).to_have_value("nvidia-smi ")
        page.keyboard.press("Enter")
        expect(log(page)).to_contain_text("Driver Version")
        page.get_by_role("button", name="Earlier").tap()
        expect(field(page)).to_have_value("nvidia-smi")
        page.get_by_role("button", name="Ctrl-C").tap()
        expect(field(page)).to_have_value("")
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, site: SiteServer, scheme: str):
    with browser.new_context(color_scheme=scheme, reduced_motion="reduce") as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        open_live(page, site)
        for line in ("nvidia-smi", "nothing", "vllm serve nope", "ls models | head -3"):
            enter(page, line)
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


def test_nothing_is_asked_of_other_hosts_and_the_console_stays_quiet(
    context: BrowserContext, page: Page, site: SiteServer
):
    urls: list[str] = []
    told: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page.on("console", lambda m: told.append(m.text) if m.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    open_live(page, site)
    enter(page, "curl localhost:8000/metrics | head -2")
    assert "vllm:num_requests_running" in answer(page)
    assert [url for url in urls if not url.startswith((site.url, "data:", "blob:"))] == []
    assert told == []
