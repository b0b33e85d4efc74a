"""Drills in a real browser: every kind, by pointer and by keyboard, and when things go wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kvdocs.drills.registry import DRILLS, get_drill
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
STEP_1 = "lessons/part-1/01-a-coding-assistant-on-one-h100/"
STEP_4 = "lessons/part-2/04-the-formula-on-the-whiteboard/"
AUTHORS = "contributing/drills/"
PAGES = {"step 1": STEP_1, "step 4": STEP_4, "authors": AUTHORS}
POOL, PARTS = "pool-at-another-utilization", "where-the-memory-went"
RATIO, CONFIG = "cache-of-a-larger-model", "bytes-per-token-from-a-config"
STATE, CODE = "larger-model-smaller-cache", "mend-the-formula"
ORDER, FIT = "order-by-kv-per-token", "how-many-fit"
EVIL = '<img src=x onerror="window.hacked = 1">'
UNFOLDED = "kv-drill:not(details kv-drill)"
TYPED = "[data-answer=text]:not([type=range])"
every_page = pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)


def drill(page: Page, name: str) -> Locator:
    return page.locator(f"kv-drill[name={name}]")


def opened(page: Page, site: SiteServer, path: str, name: str) -> Locator:
    page.goto(site.url + path)
    return drill(page, name)


def check(one: Locator) -> None:
    one.get_by_role("button", name="Check").click()


def verdict_is(one: Locator, word: str, text: str = "") -> None:
    expect(one.locator(".kv-verdict b")).to_have_text(word)
    expect(one.locator(".kv-verdict")).to_contain_text(text)


def answer(one: Locator, text: str) -> None:
    one.locator("[name=answer]").fill(text)
    check(one)


def done_events(page: Page) -> None:
    page.evaluate(
        """() => { window.done = [];
                   addEventListener("kv-drill-done", (e) => window.done.push(e.detail)); }"""
    )


# --- levels -------------------------------------------------------------------------------------


@every_page
def test_without_scripts_question_hints_and_solution_read(
    browser: Browser, site: SiteServer, path: str
):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + path)
        drills = page.locator(UNFOLDED).all()
        assert drills
        for one in drills:
            posed = get_drill(one.get_attribute("name")).pose()
            expect(one.locator("legend")).to_contain_text(posed.question.split("`")[0])
            expect(one.locator(".kv-noscript")).to_be_visible()
            expect(one.get_by_role("button")).to_have_count(0)
            hints = one.locator(".kv-hint summary")
            assert [hint.inner_text() for hint in hints.all()] == [
                f"Hint {number} of {len(posed.hints)}" for number in range(1, len(posed.hints) + 1)
            ]
            solution = one.locator(".kv-solution > div")
            expect(solution).to_be_hidden()
            one.get_by_text("Show the solution").click()
            expect(solution).to_be_visible()


def test_a_check_before_python_is_up_starts_it_and_is_answered(page: Page, site: SiteServer):
    page.add_init_script(
        "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"
    )
    one = opened(page, site, AUTHORS, FIT)
    expect(one).to_have_attribute("state", "static")
    answer(one, "49")
    expect(one.locator(".kv-verdict")).to_contain_text("Python is starting")
    verdict_is(one, "Right.", "49 requests")


def test_another_one_before_python_is_up_comes_too(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, FIT)
    one.get_by_role("button", name="Another one").click()
    expect(one).to_have_attribute("seed", str(get_drill(FIT).pose().next_seed()))


def test_without_python_the_reader_is_told_and_can_try_again(page: Page, site: SiteServer):
    wasm = "assets/kv/pyodide/pyodide.asm.wasm"
    site.faults.missing.add(wasm)
    one = opened(page, site, AUTHORS, FIT)
    answer(one, "49")
    expect(one.locator(".kv-verdict")).to_contain_text("this is not checked")
    expect(one.locator("[name=answer]")).to_have_value("49")
    one.get_by_text("Show the solution").click()
    expect(one.locator(".kv-solution > div")).to_be_visible()
    site.faults.missing.clear()
    one.get_by_role("button", name="Try again").click()
    verdict_is(one, "Right.")


# --- the kinds ----------------------------------------------------------------------------------


def test_a_guess_stays_beside_the_truth_and_the_solution_opens(page: Page, site: SiteServer):
    one = opened(page, site, STEP_1, POOL)
    done_events(page)
    answer(one, "271,809")
    verdict_is(one, "Not quite.", "scaled with the share")
    expect(one.locator(".kv-guess")).to_have_text("271,809 tokens")
    expect(one.locator(".kv-truth")).to_have_text("224,609 tokens")
    expect(one.locator(".kv-solution")).to_have_attribute("open", "")
    assert page.evaluate("done") == [{"drill": POOL, "seed": 0, "verdict": "wrong"}]


def test_a_slider_says_its_value_and_is_compared(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, "share-of-the-pool")
    slider = one.get_by_label("Your guess")
    slider.focus()
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "100 %")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    expect(one.locator("output")).to_have_text("90 %")
    check(one)
    verdict_is(one, "Not quite.", "all that vLLM claims")
    expect(one.locator(".kv-truth")).to_have_text("66.8 %")


def test_a_number_is_told_its_mistake_then_its_unit_then_passes(page: Page, site: SiteServer):
    one = opened(page, site, STEP_4, CONFIG)
    done_events(page)
    box = one.get_by_label("Your answer")
    answer(one, "2 MiB")
    verdict_is(one, "Not yet.", "query heads")
    answer(one, "256 KB")
    verdict_is(one, "Not yet.", "right in KiB, but this says kB")
    answer(one, "much")
    verdict_is(one, "Not checked.", "write it like")
    expect(box).to_have_attribute("aria-invalid", "true")
    assert page.locator(f"#{box.get_attribute('aria-describedby')}").inner_text()
    expect(box).to_have_value("much")
    box.fill("0.25 MiB")
    expect(box).not_to_have_attribute("aria-invalid", "true")
    expect(one.locator(".kv-verdict")).to_have_count(0)
    assert page.evaluate("done") == []
    box.press("Enter")
    verdict_is(one, "Right.", "256 KiB")
    assert page.evaluate("done") == [{"drill": CONFIG, "seed": 0, "verdict": "right"}]


def test_a_wrong_pick_is_struck_out_and_the_answer_not_told(page: Page, site: SiteServer):
    one = opened(page, site, STEP_1, PARTS)
    check(one)
    verdict_is(one, "Not checked.", "pick one")
    weights = one.locator("[data-option=weights]")
    one.get_by_label("The weights of the model").check()
    check(one)
    verdict_is(one, "Not yet.", "16.06 GB")
    expect(weights.locator(".kv-option-why")).to_contain_text("16.06 GB")
    line = "e => getComputedStyle(e).textDecorationLine"
    assert weights.locator(".kv-option-text").evaluate(line) == "line-through"
    expect(one.locator(".kv-solution > div")).to_be_hidden()
    one.get_by_label("The KV pool, still empty").check()
    check(one)
    verdict_is(one, "Right.")
    expect(weights.locator(".kv-option-why")).to_be_visible()


def test_an_order_is_made_by_keys_alone_and_told_to_screen_readers(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, ORDER)
    truth = list(get_drill(ORDER).pose().answer)
    up = one.get_by_role("button", name="Move DeepSeek-V3 up")
    up.focus()
    page.keyboard.press("Enter")
    expect(up).to_be_focused()
    expect(up).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#kv-announce")).to_have_text("DeepSeek-V3 is now 1 of 4.")
    page.keyboard.press("Enter")
    down = one.get_by_role("button", name="Move Llama-2-7b down")
    down.focus()
    page.keyboard.press("Space")
    expect(down).to_be_focused()
    values = one.locator("li[data-value]").evaluate_all("all => all.map(i => i.dataset.value)")
    assert values == truth
    page.keyboard.press("Tab")
    check_button = one.get_by_role("button", name="Check")
    while not check_button.evaluate("e => e === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    verdict_is(one, "Right.")


def test_a_wrong_order_is_told_how_many_stand_right(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, ORDER)
    one.get_by_role("button", name="Move Llama-2-7b down").click()
    check(one)
    verdict_is(one, "Not yet.", "2 of 4 stand where they belong")


def test_a_picture_is_watched_and_judged_when_the_reader_says_so(page: Page, site: SiteServer):
    one = opened(page, site, STEP_4, STATE)
    check(one)
    verdict_is(one, "Not yet.", "choose another")
    picture = page.locator("#bytes-per-token")
    picture.locator("[name=model]").select_option("meta-llama/Llama-3.1-70B")
    expect(one.locator(".kv-verdict")).to_have_count(0)
    check(one)
    verdict_is(one, "Not yet.", "takes 320 KiB a token")
    picture.locator("[name=model]").select_option("deepseek-ai/DeepSeek-V3")
    picture.locator("[name=kv_cache_dtype]").select_option("fp8")
    check(one)
    verdict_is(one, "Not yet.", "back to auto")
    picture.locator("[name=kv_cache_dtype]").select_option("auto")
    check(one)
    verdict_is(one, "Right.", "671 billion parameters")


def test_code_is_told_what_it_returned_and_what_was_expected(page: Page, site: SiteServer):
    one = opened(page, site, STEP_4, CODE)
    box = one.get_by_label("Your code")
    assert box.input_value() == get_drill(CODE).kind.start(None)
    check(one)
    verdict_is(one, "Not yet.", "returned 524,288; expected was 131,072")
    solution = get_drill(CODE).pose().answer
    box.fill(f"print('<b>here</b>')\n{solution}")
    box.press("Control+Enter")
    verdict_is(one, "Right.", "All 3 calls")
    expect(one.locator(".kv-printed")).to_contain_text("<b>here</b>")


@pytest.mark.parametrize(
    ("source", "told"),
    [("while True:\n    pass", "never ends"), ("import os\nos._exit(1)", "could not be checked")],
)
def test_code_that_takes_python_down_keeps_its_text_and_the_next_check_works(
    page: Page, site: SiteServer, source: str, told: str
):
    one = opened(page, site, STEP_4, CODE)
    answer(one, source)
    expect(one.locator(".kv-verdict")).to_contain_text(told)
    expect(one.get_by_label("Your code")).to_have_value(source)
    answer(one, get_drill(CODE).pose().answer)
    verdict_is(one, "Right.")


def test_tab_leaves_the_code_box(page: Page, site: SiteServer):
    one = opened(page, site, STEP_4, CODE)
    one.get_by_label("Your code").focus()
    page.keyboard.press("Tab")
    expect(one.get_by_role("button", name="Check")).to_be_focused()


# --- help, other numbers, keeping ---------------------------------------------------------------


def test_hints_come_one_at_a_time_and_the_solution_is_always_there(page: Page, site: SiteServer):
    one = opened(page, site, STEP_1, POOL)
    hint = [one.get_by_text(f"Hint {number} of 3") for number in (1, 2, 3)]
    expect(hint[1]).to_be_hidden()
    expect(one.get_by_text("Show the solution")).to_be_visible()
    hint[0].focus()
    page.keyboard.press("Enter")
    expect(hint[1]).to_be_visible()
    expect(hint[2]).to_be_hidden()
    hint[1].click()
    expect(hint[2]).to_be_visible()


def test_another_one_draws_new_numbers_and_checks_those(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, FIT)
    answer(one, "49")
    verdict_is(one, "Right.")
    other = get_drill(FIT).pose(get_drill(FIT).pose().next_seed())
    one.get_by_role("button", name="Another one").click()
    expect(one.locator("legend")).to_contain_text(other.question)
    expect(one.locator("legend")).to_be_focused()
    expect(one.locator(".kv-verdict")).to_have_count(0)
    expect(one.locator("[name=answer]")).to_have_value("")
    expect(page.locator("#kv-announce")).to_have_text(other.question)
    answer(one, str(other.answer))
    verdict_is(one, "Right.")


def test_what_was_typed_is_there_after_a_reload(page: Page, site: SiteServer):
    one = opened(page, site, STEP_4, CODE)
    one.get_by_label("Your code").fill("# mine")
    drill(page, CONFIG).get_by_label("Your answer").fill("123")
    page.reload()
    expect(one.get_by_label("Your code")).to_have_value("# mine")
    expect(drill(page, CONFIG).get_by_label("Your answer")).to_have_value("123")


def test_an_order_and_a_pick_are_there_after_a_reload(page: Page, site: SiteServer):
    one = opened(page, site, AUTHORS, ORDER)
    one.get_by_role("button", name="Move DeepSeek-V3 up").click()
    page.reload()
    expect(one.locator("li[data-value]").first).to_contain_text("DeepSeek-V3")
    expect(one.get_by_role("button", name="Move DeepSeek-V3 up")).to_have_attribute(
        "aria-disabled", "true"
    )
    one = opened(page, site, STEP_1, PARTS)
    one.get_by_label("The CUDA context").check()
    page.reload()
    expect(one.get_by_label("The CUDA context")).to_be_checked()


@pytest.mark.parametrize("kept", ["not json", '["a","b"]', '{"a": 1}', "null"])
def test_damaged_storage_is_ignored(page: Page, site: SiteServer, kept: str):
    page.goto(site.url + AUTHORS)
    key = drill(page, ORDER).locator("form").get_attribute("data-key")
    page.evaluate(
        "([key, value]) => localStorage.setItem(key, value)", [f"kv:drill:{ORDER}:{key}", kept]
    )
    page.reload()
    expect(drill(page, ORDER).locator("li[data-value]")).to_have_count(4)
    expect(drill(page, ORDER).locator("li[data-value]").first).to_contain_text("Llama-3.1-8B")


def test_it_works_where_storage_is_forbidden(page: Page, site: SiteServer):
    page.add_init_script(
        """Object.defineProperty(window, "localStorage", { get() { throw new Error("no"); } })"""
    )
    one = opened(page, site, AUTHORS, FIT)
    answer(one, "49")
    verdict_is(one, "Right.")


def test_drills_work_after_instant_navigation_with_the_same_python(page: Page, site: SiteServer):
    page.goto(site.url + STEP_1)
    answer(drill(page, POOL), "224,609")
    verdict_is(drill(page, POOL), "Right.", "Well predicted")
    page.evaluate("window.sameDocument = true")
    page.locator(f".md-nav--primary a[href$='{STEP_4.split('/')[-2]}/']").click()
    page.wait_for_url(f"**/{STEP_4}")
    answer(drill(page, RATIO), "2.5×")
    verdict_is(drill(page, RATIO), "Right.")
    page.go_back()
    page.wait_for_url(f"**/{STEP_1}")
    one = drill(page, POOL)
    expect(one.get_by_label("Your guess")).to_have_value("224,609")
    check(one)
    verdict_is(one, "Right.")
    assert page.evaluate("window.sameDocument")
    assert page.evaluate("performance.getEntriesByName('kv:boot-start').length") == 1


# --- everyone -----------------------------------------------------------------------------------


@every_page
def test_markup_typed_into_every_box_is_shown_as_text(page: Page, site: SiteServer, path: str):
    page.goto(site.url + path)
    for one in page.locator(f"{UNFOLDED}:has({TYPED})").all():
        answer(one, EVIL)
        expect(one.locator(".kv-verdict b")).to_be_visible()
        assert one.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None


@every_page
def test_every_control_has_a_name_and_sits_in_a_named_group(
    page: Page, site: SiteServer, path: str
):
    page.goto(site.url + path)
    for one in page.locator(UNFOLDED).all():
        group = one.get_by_role("group")
        name = get_drill(one.get_attribute("name")).kind.word
        assert name in group.locator("legend").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@every_page
def test_axe_finds_nothing_in_any_state(browser: Browser, site: SiteServer, path: str, scheme: str):
    with browser.new_context(color_scheme=scheme, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(site.url + path)
        for one in page.locator(UNFOLDED).all():
            radio = one.locator("input[type=radio]")
            if radio.count():
                radio.first.check()
            elif one.locator("[name=answer]").count():
                one.locator("[name=answer]").fill("1")
            check(one)
            expect(one.locator(".kv-verdict b")).to_be_visible()
        for fold in page.locator(".md-content details").all():
            fold.evaluate("fold => { fold.open = true }")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


@every_page
def test_on_a_phone_nothing_scrolls_sideways_in_any_state(
    browser: Browser, site: SiteServer, path: str
):
    size = {"width": 360, "height": 740}
    with browser.new_context(viewport=size, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(site.url + path)
        for one in page.locator(UNFOLDED).all():
            if one.locator(TYPED).count():
                one.locator(TYPED).fill("M" * 200)
            one.get_by_role("button", name="Check").tap()
            expect(one.locator(".kv-verdict b")).to_be_visible()
            one.locator("details").evaluate_all("all => all.forEach(fold => { fold.open = true })")
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0


def test_every_drill_can_be_shown_and_answered_by_the_pages_python(page: Page, site: SiteServer):
    opened(page, site, AUTHORS, FIT)
    page.evaluate("kvRuntime.start()")
    expect(page.locator("html")).to_have_attribute("data-kv-runtime", "live")
    call = "([name, ...args]) => kvRuntime.call('kvdocs.drills.browser', name, ...args)"
    for one in DRILLS.values():
        posed = one.pose(5)
        shown = page.evaluate(call, ["show", one.id, "5"])
        assert shown["announce"] == posed.question
        sent = json.dumps(one.kind.written(posed.answer))
        assert page.evaluate(call, ["check", one.id, "5", sent])["verdict"] == "right"
