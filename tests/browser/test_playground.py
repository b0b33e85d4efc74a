"""The playground in a real browser: run, paused, stepped, compared, taken away, linked."""

from __future__ import annotations

import csv
import json
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kvdocs.playground import DEFAULT_FLAGS, Made, Setup
from kvdocs.playground.fields import MORE_MEMORY
from kvdocs.units import format_seconds
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PAGE = "lessons/part-7/21-playground/"
MOONCAKE = "".join(
    json.dumps(
        {"timestamp": 250 * i, "input_length": 900, "output_length": 20, "hash_ids": [0, i + 1]}
    )
    + "\n"
    for i in range(80)
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{i % 60:02d}.5000000,{300 + i},{10}\n" for i in range(50)
)
DROP = """([selector, name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name));
  const place = document.querySelector(selector);
  for (const type of ["dragover", "drop"])
    place.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
}"""


def open_live(page: Page, site: SiteServer) -> Locator:
    page.goto(site.url + PAGE)
    playground = page.locator("kv-playground")
    playground.scroll_into_view_if_needed()
    expect(playground).to_have_attribute("state", "live", timeout=60_000)
    return playground


def field(page: Page, name: str) -> Locator:
    return page.locator(f"kv-playground [name={name}]")


def put(page: Page, name: str, value: str) -> None:
    """Fill a field, as a reader who then goes on to the next."""
    field(page, name).fill(value)
    field(page, name).dispatch_event("change")


def button(page: Page, act: str) -> Locator:
    return page.locator(f"[data-do={act}]")


def told(page: Page) -> Locator:
    return page.locator(".kv-pg-progress")


def title(page: Page) -> Locator:
    return page.locator(".kv-pg-result .kv-title")


def slider(page: Page) -> Locator:
    return page.locator("input[name=moment]")


def error(page: Page, name: str) -> Locator:
    return page.locator(f"[data-error-for={name}]")


def run_whole(page: Page, *, total: int) -> None:
    button(page, "run").click()
    expect(told(page)).to_contain_text(f"{total:,} of {total:,} requests ended", timeout=120_000)


def small(page: Page, **values: str) -> None:
    """A load that is over in a moment."""
    for name, value in ({"num_requests": "60", "prompt_tokens": "500"} | values).items():
        put(page, name, value)


def settled(page: Page) -> None:
    expect(page.locator("kv-playground")).to_have_attribute("stale", "")


# --- as built -----------------------------------------------------------------------------------


def test_without_scripts_the_lessons_run_reads_whole(browser: Browser, site: SiteServer):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + PAGE)
        expect(title(page)).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("^In the queue, B"))).to_be_visible()
        expect(page.locator(".kv-pg-differences")).to_contain_text(
            "--gpu-memory-utilization: 0.9 in A"
        )
        expect(button(page, "run")).to_be_hidden()
        expect(field(page, "a_flags")).to_be_hidden()


def test_its_script_is_fetched_on_its_own_page_only(page: Page, site: SiteServer):
    scripts = []
    page.on("request", lambda request: scripts.append(urlsplit(request.url).path))
    page.goto(site.url)
    page.wait_for_load_state("networkidle")
    assert not any(path.endswith("playground.js") for path in scripts)
    page.goto(site.url + PAGE)
    page.wait_for_function("!!customElements.get('kv-playground')")
    assert any(path.endswith("playground.js") for path in scripts)


# --- running ------------------------------------------------------------------------------------


def test_a_run_shows_what_the_package_computes(page: Page, site: SiteServer):
    open_live(page, site)
    put(page, "num_requests", "300")
    settled(page)
    run_whole(page, total=600)
    moment = slider(page).get_attribute("value")
    expect(slider(page)).to_have_value(moment)
    expect(page.locator(".kv-player .kv-range-value")).to_contain_text(f"{moment} of ")
    for letter, flags in (("A", DEFAULT_FLAGS), ("B", MORE_MEMORY)):
        queue = Setup(flags=flags).simulate(Made(num_requests=300)).latency("queue")
        row = page.get_by_role("row", name=f"In the queue, {letter}")
        expect(row).to_contain_text(format_seconds(queue.p99))
    expect(page.locator("kv-playground")).not_to_have_attribute("stale", "")


def test_it_pauses_steps_goes_on_and_goes_back(page: Page, site: SiteServer):
    open_live(page, site)
    put(page, "num_requests", "4000")
    settled(page)
    button(page, "run").click()
    expect(told(page)).to_contain_text("of 8,000 requests ended")
    button(page, "pause").click()
    expect(button(page, "pause")).to_have_text("Continue")
    page.wait_for_timeout(400)
    stood = told(page).inner_text()
    page.wait_for_timeout(800)
    assert told(page).inner_text() == stood
    moments = int(slider(page).get_attribute("max"))
    button(page, "step").click()
    expect(slider(page)).to_have_attribute("max", str(moments + 1))
    slider(page).fill("1")
    expect(title(page)).to_have_text(re.compile(r"^At [\d.]+ (m?s|min) A runs"))
    early = title(page).inner_text()
    button(page, "pause").click()
    expect(told(page)).to_contain_text("8,000 of 8,000 requests ended", timeout=120_000)
    slider(page).fill("1")
    expect(title(page)).not_to_have_text(early)  # moments lie farther apart by now
    page.locator("[data-act=forward]").click()
    expect(slider(page)).to_have_value("2")


def test_step_alone_begins_a_run(page: Page, site: SiteServer):
    open_live(page, site)
    small(page)
    settled(page)
    button(page, "step").click()
    expect(slider(page)).to_have_attribute("max", "1")
    expect(told(page)).to_contain_text("of 120 requests ended")


def test_the_picture_as_built_can_be_scrubbed_and_played(page: Page, site: SiteServer):
    open_live(page, site)
    slider(page).fill("0")
    expect(title(page)).to_have_text(
        "At 0 s A runs 0 requests and 0 wait; B runs 0 requests and 0 wait", timeout=60_000
    )
    page.locator("[data-act=play]").click()
    page.wait_for_function("Number(document.querySelector('input[name=moment]').value) > 6")
    page.locator("[data-act=play]").click()


def test_enter_in_a_box_runs(page: Page, site: SiteServer):
    open_live(page, site)
    small(page)
    field(page, "rate").fill("9")
    page.keyboard.press("Enter")
    expect(told(page)).to_contain_text("120 of 120 requests ended", timeout=60_000)


def test_a_hundred_thousand_requests_leave_the_page_at_hand_and_end_at_once(
    page: Page, site: SiteServer
):
    open_live(page, site)
    put(page, "num_requests", "100000")
    settled(page)
    button(page, "run").click()
    expect(told(page)).to_contain_text("of 200,000 requests ended")
    longest = page.evaluate(
        """() => new Promise((resolve) => {
          let last = performance.now(), longest = 0;
          const end = last + 3000;
          const look = () => {
            const now = performance.now();
            longest = Math.max(longest, now - last);
            last = now;
            if (now < end) setTimeout(look, 0);
            else resolve(longest);
          };
          look();
        })"""
    )
    assert longest < 600, f"the page did not answer for {longest:.0f} ms"
    began = time.monotonic()
    said = page.evaluate(
        """() => {
          document.querySelector("[data-do=cancel]").click();
          return document.querySelector(".kv-pg-progress").textContent;
        }"""
    )
    assert said.startswith("Cancelled.")
    small(page)
    run_whole(page, total=120)
    assert time.monotonic() - began < 30


# --- comparing ----------------------------------------------------------------------------------


def test_what_differs_between_two_set_ups_is_named(page: Page, site: SiteServer):
    open_live(page, site)
    small(page)
    field(page, "b_flags").fill(DEFAULT_FLAGS)
    expect(field(page, "b_flag_gpu_memory_utilization")).to_have_value("0.9")
    field(page, "b_flag_max_num_seqs").select_option("64")
    expect(field(page, "b_flags")).to_have_value(f"{DEFAULT_FLAGS} --max-num-seqs 64")
    run_whole(page, total=120)
    items = page.locator(".kv-pg-differences li")
    expect(items).to_have_text(["--max-num-seqs: default: 1,024 in A, 64 in B"])
    expect(page.locator("kv-playground")).not_to_have_attribute("stale", "")
    field(page, "compare").select_option("one")
    expect(field(page, "b_flags")).to_be_hidden()
    settled(page)
    run_whole(page, total=60)
    expect(items).to_have_count(0)


def test_flags_typed_and_flags_chosen_say_the_same(page: Page, site: SiteServer):
    open_live(page, site)
    put(page, "a_flags", "vllm serve Qwen/Qwen3-8B --max-model-len 16K -tp 2")
    expect(field(page, "a_model")).to_have_value("Qwen/Qwen3-8B")
    expect(field(page, "a_flags")).to_have_value("--max-model-len 16K -tp 2")
    expect(field(page, "a_flag_max_model_len")).to_have_value("16384")
    expect(field(page, "a_flag_tensor_parallel_size")).to_have_value("2")
    expect(page.locator("[data-place=sized]")).to_contain_text("Qwen3-8B on 2 ×")


def test_a_slider_sets_its_box(page: Page, site: SiteServer):
    open_live(page, site)
    page.locator("[data-sets=num_requests]").fill("1")
    expect(field(page, "num_requests")).to_have_value("300")
    settled(page)


# --- what is wrong ------------------------------------------------------------------------------


def test_a_bad_config_is_kept_and_refused_and_a_good_one_counts(page: Page, site: SiteServer):
    open_live(page, site)
    bad = '{"model_type": "llama", "num_hidden_layers": -3}'
    page.evaluate(DROP, ["[data-drop=a_config]", "config.json", bad])
    expect(field(page, "a_config")).to_have_value(bad)
    expect(error(page, "a_config")).to_contain_text("num_hidden_layers")
    expect(field(page, "a_config")).to_have_attribute("aria-invalid", "true")
    before = title(page).inner_text()
    button(page, "run").click()
    expect(told(page)).to_contain_text("Nothing was run")
    assert title(page).inner_text() == before
    expect(field(page, "a_config")).to_have_value(bad)
    good = json.dumps(
        {
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 4096,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "max_position_embeddings": 131072,
        }
    )
    put(page, "a_config", good)
    expect(error(page, "a_config")).to_be_hidden()
    expect(page.locator("[data-place=sized]")).to_contain_text("64 KiB a token")


def test_a_server_that_does_not_start_is_told_in_vllms_words(page: Page, site: SiteServer):
    open_live(page, site)
    put(page, "a_flags", "--gpu-memory-utilization 0.4")
    expect(error(page, "a_flags")).to_contain_text("estimated maximum model length is 102512")
    button(page, "run").click()
    expect(told(page)).to_contain_text("Nothing was run")
    expect(field(page, "a_flags")).to_be_focused()


# --- traces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "words", "total"),
    [
        ("mooncake.jsonl", MOONCAKE, "80 requests over 19.75 s, prompts of 900 tokens", 160),
        ("azure.csv", AZURE, "50 requests over 49 s", 100),
    ],
)
def test_a_dropped_trace_is_read_and_played(  # noqa: PLR0917 - parameters and fixtures
    page: Page, site: SiteServer, name: str, text: str, words: str, total: int
):
    requests = []
    page.on("request", lambda request: requests.append((request.method, request.url)))
    open_live(page, site)
    page.evaluate(DROP, [".kv-pg-load", name, text])
    expect(page.locator(".kv-pg-trace")).to_contain_text(f"{name}: {words}")
    expect(field(page, "source")).to_have_value("trace")
    run_whole(page, total=total)
    assert {method for method, _ in requests} == {"GET"}
    assert all(url.startswith(("data:", "blob:", site.url)) for _, url in requests)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("new File([new Uint8Array(51e6)], 'big.csv')", "at most 50 MB are read"),
        ("new File([new Uint8Array([0xff, 0xfe, 0x41])], 't.csv')", "not text in UTF-8"),
        ("new File(['hello'], 't.csv')", "begins no known trace"),
        ("new File(['{\"timestamp\": 0}\\n'], 't.jsonl')", "line 1 has no input_length"),
    ],
)
def test_a_trace_that_cannot_be_read_says_why(page: Page, site: SiteServer, make: str, words: str):
    open_live(page, site)
    page.evaluate(
        """(make) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(eval(make));
          const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
          document.querySelector(".kv-pg-load").dispatchEvent(drop);
        }""",
        make,
    )
    expect(error(page, "trace_file")).to_contain_text(words)


# --- taken away ---------------------------------------------------------------------------------


def test_exports_hold_the_run(page: Page, site: SiteServer, tmp_path: Path):
    open_live(page, site)
    small(page)
    settled(page)
    run_whole(page, total=120)

    def saved(what: str) -> Path:
        with page.expect_download() as download:
            page.locator(f"[data-export='{what}']").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    rows = list(csv.DictReader(saved("csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 120
    known = Setup().simulate(Made(num_requests=60, prompt_tokens=500))
    assert [float(row["e2e_s"]) for row in rows[:60]] == [one.e2e_s for one in known.requests]
    assert json.loads(saved("json").read_text())["load"]["prompt_tokens"] == 500
    for what in ("timeline", "latency"):
        svg = saved(what)
        assert ET.parse(svg).getroot().tag.endswith("svg")  # noqa: S314 - our own
        png = saved(f"{what}:png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert int.from_bytes(png[16:20], "big") == 1800  # twice the drawing's 900
    expect(page.locator("[data-code=code]")).to_contain_text("num_requests=60")
    expect(page.locator("[data-code=command]")).to_contain_text(
        "vllm serve meta-llama/Llama-3.1-8B"
    )


def test_a_link_restores_the_set_up_and_runs_it(page: Page, site: SiteServer):
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "Document.prototype.execCommand = () => false"
    )
    open_live(page, site)
    small(page, seed="77")
    put(page, "a_flags", "--max-model-len 16384 --max-num-seqs 4")
    run_whole(page, total=120)
    wanted = page.get_by_role("row", name="In the queue, A").inner_text()
    page.locator("kv-playground kv-link").get_by_role("button", name="Link").click()
    link = page.locator(".kv-link-given input").input_value()
    page.goto("about:blank")
    page.goto(link)
    expect(field(page, "a_flags")).to_have_value("--max-model-len 16384 --max-num-seqs 4")
    expect(field(page, "seed")).to_have_value("77")
    expect(told(page)).to_contain_text("120 of 120 requests ended", timeout=60_000)
    assert page.get_by_role("row", name="In the queue, A").inner_text() == wanted


def test_a_damaged_link_leaves_the_page_as_built(page: Page, site: SiteServer):
    page.goto(f"{site.url}{PAGE}#kv=1.damaged")
    expect(page.locator(".kv-link-note")).to_contain_text("damaged")
    expect(title(page)).to_be_visible()


# --- for everybody ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wrong_for_those_who_do_not_see_it(page: Page, site: SiteServer, scheme: str):
    page.emulate_media(color_scheme=scheme)
    open_live(page, site)
    put(page, "rate", "x")
    expect(error(page, "rate")).to_be_visible()
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run('kv-playground', { resultTypes: ['violations'] })")["violations"]
    assert [(v["id"], [n["html"][:160] for n in v["nodes"]]) for v in found] == []


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, site: SiteServer):
    with browser.new_context(viewport={"width": 360, "height": 740}) as context:
        page = context.new_page()
        open_live(page, site)
        small(page)
        settled(page)
        run_whole(page, total=120)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for fold in page.locator(".kv-pg-code summary").all():
            fold.click()
        expect(page.locator(".kv-pg-code pre").last).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_task_is_done_in_the_playground(page: Page, site: SiteServer):
    open_live(page, site)
    drill = page.locator("kv-drill")
    drill.get_by_role("button", name="Check").click()
    expect(drill.locator(".kv-result")).to_contain_text("as the page shows it", timeout=60_000)
    field(page, "a_flag_kv_cache_dtype").select_option("fp8")
    expect(field(page, "a_flags")).to_have_value(f"{DEFAULT_FLAGS} --kv-cache-dtype fp8")
    drill.get_by_role("button", name="Check").click()
    expect(drill.locator(".kv-result")).to_have_attribute("data-verdict", "right", timeout=60_000)
