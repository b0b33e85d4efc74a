"""The player of running simulations in a real browser: pointer, keys, pauses, and exact state."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kvdocs.widgets.registry import get_widget
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

GALLERY = "reference/widgets/"
LANDING = ""
COUNT_UPDATES = """() => {
  window.underWay = 0; window.mostUnderWay = 0; window.updates = 0;
  const update = kvRuntime.update.bind(kvRuntime);
  kvRuntime.update = async (...asked) => {
    window.updates += 1;
    window.mostUnderWay = Math.max(window.mostUnderWay, ++window.underWay);
    try { return await update(...asked); } finally { window.underWay -= 1; }
  };
}"""


def open_widget(page: Page, site: SiteServer, name: str) -> Locator:
    page.goto(site.url + GALLERY)
    widget = page.locator(f"kv-widget[name={name}]")
    widget.scroll_into_view_if_needed()
    expect(widget).to_have_attribute("state", "live", timeout=60_000)
    return widget


def slider(widget: Locator) -> Locator:
    return widget.locator(".kv-player input[type=range]")


def moment(widget: Locator) -> int:
    return int(slider(widget).input_value())


def button(widget: Locator, act: str) -> Locator:
    return widget.locator(f"[data-act={act}]")


def go_to(widget: Locator, value: int) -> None:
    slider(widget).fill(str(value))


def wait_until_past(page: Page, widget: Locator, value: int) -> None:
    for _ in range(600):
        if moment(widget) > value:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the slider stays at {moment(widget)}")


def stays(page: Page, widget: Locator) -> None:
    before = moment(widget)
    page.wait_for_timeout(900)
    assert moment(widget) == before


def is_playing(widget: Locator, *, playing: bool) -> None:
    expect(button(widget, "play")).to_have_text("❚❚Pause" if playing else "▶Play")


def figure_is(widget: Locator, name: str, **params: str) -> None:
    kind = widget.get_attribute("name")
    wanted = get_widget(kind).view(**params).figure(name).value
    expect(widget.locator(f"[data-figure={name}]")).to_have_text(wanted)


def test_nothing_plays_by_itself(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    is_playing(widget, playing=False)
    stays(page, widget)


def test_play_advances_and_pause_stops_at_a_true_picture(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 3)
    button(widget, "play").click()
    is_playing(widget, playing=True)
    wait_until_past(page, widget, 5)
    button(widget, "play").click()
    is_playing(widget, playing=False)
    stays(page, widget)
    figure_is(widget, "kv_read_bytes", step=str(moment(widget)))


def test_only_one_update_is_ever_under_way(page: Page, site: SiteServer):
    widget = open_widget(page, site, "recompute")
    page.evaluate(COUNT_UPDATES)
    go_to(widget, 1)
    button(widget, "speed").select_option("4")
    button(widget, "play").click()
    wait_until_past(page, widget, 60)
    button(widget, "play").click()
    assert page.evaluate("window.mostUnderWay") == 1
    assert page.evaluate("window.updates") > 4


def test_the_buttons_step_and_playing_ends_at_the_end(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 45)
    button(widget, "forward").click()
    figure_is(widget, "kv_read_bytes", step="46")
    button(widget, "back").click()
    figure_is(widget, "kv_read_bytes", step="45")
    button(widget, "play").click()
    wait_until_past(page, widget, 46)
    is_playing(widget, playing=False)
    figure_is(widget, "kv_read_bytes", step="47")
    button(widget, "play").click()  # from the start again
    is_playing(widget, playing=True)
    expect(slider(widget)).not_to_have_value("47")
    button(widget, "play").click()


def test_keys_play_and_step(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 10)
    slider(widget).focus()
    page.keyboard.press("ArrowRight")
    figure_is(widget, "kv_read_bytes", step="11")
    page.keyboard.press("ArrowLeft")
    figure_is(widget, "kv_read_bytes", step="10")
    at = page.evaluate("scrollY")
    page.keyboard.press("Space")
    is_playing(widget, playing=True)
    page.keyboard.press("Space")
    is_playing(widget, playing=False)
    assert page.evaluate("scrollY") == at
    button(widget, "play").focus()
    here = moment(widget)
    page.keyboard.press("ArrowRight")
    figure_is(widget, "kv_read_bytes", step=str(here + 1))
    page.keyboard.press("Space")
    is_playing(widget, playing=True)
    expect(button(widget, "play")).to_be_focused()
    page.keyboard.press("Space")
    is_playing(widget, playing=False)


def test_taking_the_slider_in_hand_pauses(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 2)
    button(widget, "play").click()
    wait_until_past(page, widget, 3)
    go_to(widget, 30)
    is_playing(widget, playing=False)
    figure_is(widget, "kv_read_bytes", step="30")


def test_another_control_does_not_stop_it(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 2)
    button(widget, "play").click()
    wait_until_past(page, widget, 3)
    widget.get_by_label("Model").select_option("meta-llama/Llama-3.1-70B")
    wait_until_past(page, widget, moment(widget) + 1)
    button(widget, "play").click()
    expect(widget.locator("[data-figure=kv_written_bytes]")).to_have_text("327,680")


def test_it_pauses_when_it_is_scrolled_away(page: Page, site: SiteServer):
    widget = open_widget(page, site, "block-map")
    go_to(widget, 2)
    button(widget, "play").click()
    wait_until_past(page, widget, 3)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    is_playing(widget, playing=False)
    stays(page, widget)


def test_it_pauses_when_the_tab_is_hidden(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 2)
    button(widget, "play").click()
    wait_until_past(page, widget, 3)
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    is_playing(widget, playing=False)
    stays(page, widget)


def test_with_less_motion_it_advances_once_a_second(browser: Browser, site: SiteServer):
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        widget = open_widget(page, site, "recompute")
        go_to(widget, 1)
        started = page.evaluate("performance.now()")
        button(widget, "play").click()
        wait_until_past(page, widget, 129)
        elapsed = page.evaluate("performance.now()") - started
        button(widget, "play").click()
        assert (moment(widget) - 1) % 64 == 0
        assert elapsed >= 1000 * ((moment(widget) - 1) // 64 - 1)
        assert page.locator(".kv-changed").count() == 0


def test_leaving_the_page_while_it_plays_ends_it(page: Page, site: SiteServer):
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    widget = open_widget(page, site, "decode-reads")
    page.evaluate(COUNT_UPDATES)
    go_to(widget, 1)
    button(widget, "play").click()
    wait_until_past(page, widget, 3)
    page.evaluate("window.sameDocument = true")
    page.locator(".md-header__title, .md-logo").first.evaluate(
        "() => document.querySelector('a.md-logo').click()"
    )
    expect(page.locator("kv-widget[name=decode-reads]")).to_have_count(0)
    page.wait_for_timeout(500)
    updates = page.evaluate("window.updates")
    page.wait_for_timeout(1500)
    assert page.evaluate("window.updates") == updates
    assert page.evaluate("window.sameDocument")
    assert errors == []
    page.go_back()
    back = page.locator("kv-widget[name=decode-reads]")
    back.scroll_into_view_if_needed()
    expect(back).to_have_attribute("state", "live")
    is_playing(back, playing=False)
    go_to(back, 7)
    figure_is(back, "kv_read_bytes", step="7")


def test_a_restart_of_python_does_not_lose_the_moment(page: Page, site: SiteServer):
    widget = open_widget(page, site, "decode-reads")
    go_to(widget, 5)
    button(widget, "play").click()
    wait_until_past(page, widget, 6)
    page.evaluate("kvRuntime.restart()")
    wait_until_past(page, widget, moment(widget) + 2)
    button(widget, "play").click()
    is_playing(widget, playing=False)
    figure_is(widget, "kv_read_bytes", step=str(moment(widget)))


def test_what_is_changed_while_it_runs_is_kept_exactly(page: Page, site: SiteServer):
    widget = open_widget(page, site, "server-load")
    view = get_widget("server-load").view
    waiting = widget.locator("[data-figure=waiting]")
    state = view(second="60").state
    go_to(widget, 60)
    expect(waiting).to_have_text(view(second="60").figure("waiting").value)
    widget.get_by_label("Requests per second").fill("6")
    changed = view(state, second="60", rate="6").state
    assert changed["edits"][-1] == [60, "rate", "6"]
    expect(widget.locator(".kv-told")).to_contain_text("6 requests/s")
    go_to(widget, 110)
    later = view(changed, second="110", rate="6")
    expect(waiting).to_have_text(later.figure("waiting").value)
    go_to(widget, 20)  # before anything was changed: the controls show what was in force
    earlier = view(later.state, second="20", rate="6")
    expect(waiting).to_have_text(earlier.figure("waiting").value)
    expect(widget.get_by_label("Requests per second")).to_have_value("2")
    expect(widget.get_by_label("The assistant sends")).to_have_value("snippets")
    go_to(widget, 110)
    expect(waiting).to_have_text(later.figure("waiting").value)
    expect(widget.get_by_label("Requests per second")).to_have_value("6")
    widget.get_by_role("button", name="Undo all changes").click()
    expect(waiting).to_have_text(view().figure("waiting").value)
    expect(slider(widget)).to_have_value(get_widget("server-load").complete({})["second"])
    expect(widget.locator(".kv-told")).not_to_contain_text("6 requests/s")


def test_quick_scrubbing_over_a_change_makes_no_new_one(page: Page, site: SiteServer):
    widget = open_widget(page, site, "server-load")
    told = widget.locator(".kv-told li")
    expect(told).to_have_count(2)
    slider(widget).evaluate(
        """async (slider) => {
          for (let second = 150; second >= 10; second -= 4) {
            slider.value = String(second);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => setTimeout(done, 5));
          }
        }"""
    )
    at = json.dumps(moment(widget))
    wanted = get_widget("server-load").view(second=at).figure("waiting").value
    expect(widget.locator("[data-figure=waiting]")).to_have_text(wanted)
    expect(told).to_have_count(2)
    expect(widget.get_by_label("The assistant sends")).to_have_value("snippets")


def test_without_scripts_there_is_no_dead_player(browser: Browser, site: SiteServer):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.url + GALLERY)
        players = page.locator(".kv-player").all()
        assert players
        for player in players:
            expect(player).to_be_hidden()
