"""Progress in a real browser: noted, shown, kept, exported, forgotten and undone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from kvdocs.drills.registry import get_drill
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
STEP_4 = "lessons/part-2/04-the-formula-on-the-whiteboard/"
LEARNED = "completion/"
KEY = "kv:progress:1:/kv-cache/"
NO_STORAGE = """for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, { get() { throw new Error("no"); } })"""
FULL_STORAGE = """Storage.prototype.setItem = () => {
  throw new DOMException("full", "QuotaExceededError"); }"""


def course(page: Page) -> list[dict]:
    return json.loads(page.locator("#kv-course").text_content())


def answer_by_event(page: Page, *drills: str) -> None:
    """Tell the page that drills are done, as `<kv-drill>` does."""
    for name in drills:
        page.locator(f"kv-drill[name={name}]").evaluate(
            """(drill, name) => drill.dispatchEvent(new CustomEvent("kv-drill-done",
                 { bubbles: true, detail: { drill: name, seed: 0, verdict: "right" } }))""",
            name,
        )


def finish(page: Page, site: SiteServer, path: str) -> None:
    page.goto(site.url + path)
    step = next(step for step in course(page) if step["path"] == path)
    answer_by_event(page, *step["drills"])
    expect(page.locator(".kv-step-done")).to_have_text("✓ doneDone")


def kept(page: Page) -> dict:
    return json.loads(page.evaluate("key => localStorage.getItem(key)", KEY) or "null")


def keep(page: Page, value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEY, text])


# --- noted and shown ----------------------------------------------------------------------------


def test_the_steps_of_the_build_are_those_of_the_pages(page: Page, site: SiteServer):
    page.goto(site.url)
    for step in course(page):
        html = (ROOT / "site" / step["path"] / "index.html").read_text()
        assert f"Step <b>{step['step']}</b> of" in html
        assert f"<span>{step['minutes']} min</span>" in html
        drills = re.findall(r'<kv-drill id="[^"]+" name="([^"]+)"', html)
        # The museum's are extras: a step is done without them.
        assert [name for name in drills if not name.startswith("bug-")] == step["drills"]


def test_a_right_answer_counts_and_the_last_one_finishes_the_step(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    expect(page.locator(".kv-step-done")).to_have_text("Not done yet")
    drill = page.locator("kv-drill[name=pool-at-another-utilization]")
    drill.locator("[name=answer]").fill("224,609")
    drill.get_by_role("button", name="Check").click()
    expect(page.locator(".kv-step-done")).to_have_text("1 of 2 questions answered")
    end = page.locator(".kv-step-end")
    expect(end).to_contain_text("1 of 2 questions of this step answered")
    open_one = end.get_by_role("link", name="Go to the open one")
    assert open_one.get_attribute("href") == "#where-the-memory-went"
    other = page.locator("kv-drill[name=where-the-memory-went]")
    other.get_by_label("The weights of the model").check()
    other.get_by_role("button", name="Check").click()
    expect(other.locator(".kv-verdict b")).to_have_text("Not yet.")
    expect(page.locator(".kv-step-done")).to_have_text("1 of 2 questions answered")
    other.get_by_label("The KV pool, still empty").check()
    other.get_by_role("button", name="Check").click()
    expect(end).to_contain_text("Step 1 is done: all 2 questions are answered.")
    page.reload()
    expect(page.locator(".kv-step-done")).to_contain_text("Done")
    assert set(kept(page)["steps"][STEP_1]["answered"]) == {
        "pool-at-another-utilization",
        "where-the-memory-went",
    }


def test_a_page_without_drills_is_marked_by_hand_and_unmarked(page: Page, site: SiteServer):
    page.route(
        site.url + STEP_1,
        lambda route: route.fulfill(response=(got := route.fetch()), body=without_drills(got)),
    )
    page.goto(site.url + STEP_1)
    end = page.locator(".kv-step-end")
    mark = end.get_by_role("button", name="Mark as read")
    mark.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".kv-step-done")).to_contain_text("Done")
    undo = end.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    page.reload()
    expect(page.locator(".kv-step-done")).to_contain_text("Done")
    undo.click()
    expect(page.locator(".kv-step-done")).to_have_text("Not done yet")
    assert kept(page)["steps"] == {}


def without_drills(response) -> str:
    html = response.text()
    before, _, rest = html.partition('id="kv-course">')
    steps, _, after = rest.partition("</script>")
    bare = json.dumps([{**step, "drills": []} for step in json.loads(steps)])
    return f'{before}id="kv-course">{bare}</script>{after}'


def test_navigation_landing_page_and_resume_follow(page: Page, site: SiteServer):
    page.goto(site.url)
    steps = course(page)
    minutes = sum(step["minutes"] for step in steps)
    line = page.locator("[data-kv-progress=whole]")
    expect(line).to_have_text(
        f"{len(steps)} steps, about {minutes} minutes of reading, tasks extra"
    )
    expect(page.get_by_role("link", name="Start with step 1")).to_be_visible()
    finish(page, site, STEP_1)
    sidebar = page.locator(".md-nav--primary")
    expect(sidebar.locator(f'a[href$="{STEP_1}"], a[href="./"]').first).to_contain_text("✓")
    in_part = sum(step["part"] == 1 for step in steps)
    expect(sidebar.locator(".kv-part-count")).to_have_text(f"1 of {in_part} done")
    page.locator(".kv-next-link").click()
    page.wait_for_url(f"**/{steps[1]['path']}")
    expect(page.locator(".kv-step-done")).to_have_text("Not done yet")
    expect(sidebar.locator(".kv-done")).to_have_count(1)
    page.goto(site.url + STEP_4)
    page.evaluate("document.querySelector('#mend-a-calculator').scrollIntoView()")
    page.wait_for_function(
        "key => localStorage.getItem(key)?.includes('mend-a-calculator')", arg=KEY
    )
    page.goto(site.url)
    left = minutes - steps[0]["minutes"]
    expect(line).to_have_text(f"1 of {len(steps)} steps done, about {left} minutes of reading left")
    expect(page.locator(".kv-steps .kv-done")).to_have_count(1)
    page.get_by_role("link", name="Resume: step 4, The formula on the whiteboard").click()
    page.wait_for_url(f"**/{STEP_4}#mend-a-calculator")


def test_all_done_leads_to_what_was_learned(page: Page, site: SiteServer):
    page.goto(site.url)
    steps = {step["path"]: {"answered": step["drills"], "read": True} for step in course(page)}
    keep(page, {"steps": steps})
    page.reload()
    page.get_by_role("link", name="See what you have learned").click()
    page.wait_for_url(f"**/{LEARNED}")
    expect(page.locator("[data-kv-progress=learned]")).to_contain_text("All")
    expect(page.locator("[data-kv-progress=ahead]")).to_be_empty()
    expect(page.locator("[data-step]:visible")).to_have_count(len(steps))


def test_what_was_learned_lists_the_takeaways_of_steps_done(page: Page, site: SiteServer):
    page.goto(site.url + LEARNED)
    takeaways = page.locator("[data-step]:visible .kv-learned-takeaway")
    expect(page.locator("[data-kv-progress=learned]")).to_contain_text("Nothing yet.")
    expect(takeaways).to_have_count(0)
    finish(page, site, STEP_1)
    told = page.locator(".kv-takeaway p").last.inner_text()
    page.goto(site.url + LEARNED)
    expect(takeaways).to_have_count(1)
    expect(takeaways).to_have_text(told)
    ahead = page.locator("[data-kv-progress=ahead]")
    expect(ahead.get_by_role("link", name="Go on with step 2")).to_be_visible()


# --- kept, damaged, forbidden, two tabs ---------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        "[]",
        '{"steps": 3}',
        '{"steps": {"x": {"answered": "no"}}}',
        '{"steps": {}, "last": 7}',
        '{"steps": {"__proto__": {"answered": ["<img src=x onerror=hacked=1>"]}}}',
    ],
)
def test_damaged_progress_is_none_and_is_mended_by_the_next_answer(
    page: Page, site: SiteServer, value: str
):
    page.goto(site.url + STEP_1)
    keep(page, value)
    page.reload()
    expect(page.locator(".kv-step-done")).to_have_text("Not done yet")
    answer_by_event(page, "pool-at-another-utilization")
    expect(page.locator(".kv-step-done")).to_have_text("1 of 2 questions answered")
    assert kept(page)["steps"][STEP_1]["answered"] == ["pool-at-another-utilization"]
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("broken", [NO_STORAGE, FULL_STORAGE], ids=["forbidden", "full"])
def test_without_storage_progress_lasts_as_long_as_the_page_and_says_so(
    page: Page, site: SiteServer, broken: str
):
    page.add_init_script(broken)
    finish(page, site, STEP_1)
    expect(page.locator(".kv-step-end .kv-not-kept")).to_contain_text("does not let the page keep")
    page.locator(".kv-next-link").click()
    page.wait_for_url(f"**/{course(page)[1]['path']}")
    expect(page.locator(".md-nav--primary .kv-done")).to_have_count(1)
    page.get_by_role("link", name="What you have learned").last.click()
    page.wait_for_url(f"**/{LEARNED}")
    expect(page.locator(".kv-own .kv-not-kept")).to_contain_text("does not let the page keep")
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("[data-kv-progress=learned]")).to_contain_text("Nothing yet.")
    page.get_by_role("button", name="Undo the reset").click()
    expect(page.locator("[data-step]:visible")).to_have_count(1)


def test_two_tabs_see_and_keep_each_others_answers(
    context: BrowserContext, page: Page, site: SiteServer
):
    page.goto(site.url + STEP_1)
    other = context.new_page()
    other.goto(site.url + STEP_1)
    answer_by_event(page, "pool-at-another-utilization")
    expect(other.locator(".kv-step-done")).to_have_text("1 of 2 questions answered")
    answer_by_event(other, "where-the-memory-went")
    for tab in (page, other):
        expect(tab.locator(".kv-step-done")).to_contain_text("Done")


# --- one file, reset, undo ----------------------------------------------------------------------


def exported(page: Page, site: SiteServer) -> Path:
    page.goto(site.url + LEARNED)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as a file").click()
    assert download.value.suggested_filename == "kv-cache-progress.json"
    return download.value.path()


def imported(page: Page, site: SiteServer, file: object) -> str:
    page.goto(site.url + LEARNED)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import a file").click()
    chooser.value.set_files(file)
    status = page.locator(".kv-own-status")
    expect(status).not_to_be_empty()
    return status.inner_text()


def test_a_file_carries_everything_to_another_browser(
    browser: Browser, page: Page, site: SiteServer
):
    finish(page, site, STEP_1)
    page.locator("kv-drill[name=pool-at-another-utilization] [name=answer]").fill("my guess")
    page.evaluate("localStorage.setItem('kv:cell:/kv-cache/:a/page:key', '{}')")
    page.evaluate("localStorage.setItem('kv:cell:/another-site/:a/page:key', '{}')")
    file = exported(page, site)
    content = json.loads(file.read_text())
    assert content["progress"]["steps"][STEP_1]
    assert "kv:cell:{site}:a/page:key" in content["texts"]
    assert "another-site" not in file.read_text()
    with browser.new_context() as elsewhere:
        fresh = elsewhere.new_page()
        assert "2 answers and texts came with it" in imported(fresh, site, file)
        expect(fresh.locator("[data-step]:visible")).to_have_count(1)
        assert fresh.evaluate("localStorage.getItem('kv:cell:/kv-cache/:a/page:key')") == "{}"
        fresh.goto(site.url + STEP_1)
        guess = fresh.locator("kv-drill[name=pool-at-another-utilization] [name=answer]")
        expect(guess).to_have_value("my guess")


def test_an_import_joins_and_replaces_nothing(page: Page, site: SiteServer):
    finish(page, site, STEP_4)
    page.evaluate("localStorage.setItem('kv:drill:x:1', '\"mine\"')")
    content = {
        "format": "the-kv-cache-progress",
        "version": 1,
        "progress": {"steps": {STEP_1: {"answered": ["where-the-memory-went"], "read": False}}},
        "texts": {"kv:drill:x:1": '"theirs"', "kv:progress:1:/kv-cache/": "{}", "other": "no"},
    }
    told = imported(page, site, as_file(content))
    assert "1 text differs from yours; yours stayed" in told
    assert page.evaluate("localStorage.getItem('kv:drill:x:1')") == '"mine"'
    assert page.evaluate("localStorage.getItem('other')") is None
    assert set(kept(page)["steps"]) == {STEP_1, STEP_4}


def as_file(content: object, name: str = "progress.json") -> dict:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"name": name, "mimeType": "application/json", "buffer": text.encode()}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("<img src=x onerror='window.hacked = 1'>", "it is not JSON"),
        ({"format": "other"}, "not a file that this page has exported"),
        ({"format": "the-kv-cache-progress", "version": 2}, "version 2; this page reads version 1"),
        ({"format": "the-kv-cache-progress", "version": 1, "progress": 3}, "it is damaged"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_in_one_line(
    page: Page, site: SiteServer, content: object, told: str
):
    finish(page, site, STEP_1)
    name = "<img src=x onerror='window.hacked=1'>.json"
    words = imported(page, site, as_file(content, name))
    assert told in words
    assert words.endswith("Nothing was changed.")
    assert words.startswith(name)
    assert page.evaluate("window.hacked") is None
    expect(page.locator("[data-step]:visible")).to_have_count(1)


def test_reset_asks_nothing_and_can_be_undone_even_after_a_reload(page: Page, site: SiteServer):
    finish(page, site, STEP_1)
    page.locator("kv-drill[name=pool-at-another-utilization] [name=answer]").fill("my guess")
    page.goto(site.url + LEARNED)
    undo = page.get_by_role("button", name="Undo the reset")
    expect(undo).to_be_hidden()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("[data-step]:visible")).to_have_count(0)
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('kv:drill'))") == []
    page.reload()
    finish(page, site, STEP_4)
    page.goto(site.url + LEARNED)
    undo.click()
    expect(page.locator("[data-step]:visible")).to_have_count(2)
    expect(undo).to_be_hidden()
    page.goto(site.url + STEP_1)
    guess = page.locator("kv-drill[name=pool-at-another-utilization] [name=answer]")
    expect(guess).to_have_value("my guess")


def test_a_reset_of_nothing_says_so(page: Page, site: SiteServer):
    page.goto(site.url + LEARNED)
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator(".kv-own-status")).to_have_text("There is nothing to reset.")
    expect(page.get_by_role("button", name="Undo the reset")).to_be_hidden()


# --- everyone -----------------------------------------------------------------------------------


def test_without_scripts_no_progress_is_claimed_and_all_takeaways_read(
    browser: Browser, site: SiteServer
):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + STEP_1)
        expect(page.locator(".kv-step-done")).to_be_hidden()
        expect(page.locator(".kv-step-end")).to_be_hidden()
        page.goto(site.url + LEARNED)
        expect(page.locator(".kv-learned > .kv-noscript")).to_be_visible()
        expect(page.locator(".kv-own")).to_be_hidden()
        assert page.locator("[data-step]:visible").count() == len(course(page))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", ["", STEP_1, LEARNED], ids=["landing", "step", "learned"])
def test_axe_finds_nothing_and_nothing_scrolls_sideways_with_progress(
    browser: Browser, site: SiteServer, path: str, width: int, scheme: str
):
    size = {"width": width, "height": 740}
    with browser.new_context(
        color_scheme=scheme, viewport=size, reduced_motion="reduce"
    ) as context:
        page = context.new_page()
        finish(page, site, STEP_1)
        page.goto(site.url + path)
        if path == LEARNED:
            page.get_by_role("button", name="Reset", exact=True).click()
            page.get_by_role("button", name="Undo the reset").click()
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


def test_the_names_that_progress_counts_are_drills(page: Page, site: SiteServer):
    page.goto(site.url)
    for step in course(page):
        for name in step["drills"]:
            assert get_drill(name).id == name
