"""One reader walks the lesson from step to step: each recorded mistake first, then what is right.

The tab stays open, as a reader's does, and goes on by the link at the end of each page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kvdocs.drills.drill import Posed
from kvdocs.drills.kinds import Choice, Ordering, Prediction, Slider, State
from kvdocs.drills.kinds.playground import Playground
from kvdocs.drills.registry import get_drill
from tests.browser.site_server import SiteServer

pytestmark = pytest.mark.browser

LESSONS = Path(__file__).resolve().parents[2] / "docs" / "lessons"
PATHS = [
    f"lessons/{path.relative_to(LESSONS).with_suffix('')}/"
    for path in sorted(LESSONS.glob("part-*/*.md"))
]


@pytest.fixture(scope="module")
def reader(browser: Browser, built_site: SiteServer) -> Iterator[Page]:
    """The one tab of the walk."""
    with browser.new_context() as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.goto(built_site.url)
        yield page


def go_to(page: Page, site: SiteServer, path: str) -> None:
    """Go on by the link that leads there, where the page has one."""
    end = f"a[href$='{path.split('/')[-2]}/']"
    link = page.locator(".md-content").locator(end)
    if link.count():
        link.first.click()
    else:
        page.goto(site.url + path)
    page.wait_for_url(f"**/{path}")


def enter(page: Page, one: Locator, posed: Posed[Any], answer: Any) -> None:
    """Give an answer by the drill's own controls."""
    kind = posed.drill.kind
    written = kind.written(answer)
    match kind:
        case State():
            bring(page.locator(f"[id='{kind.element or kind.widget}']"), kind.written(answer))
        case Playground():
            page.locator("[name=a_flags]").fill(kind.written(answer)["a_flags"])
        case Choice():
            option = one.locator(f"input[type=radio][value='{written}']")
            option.evaluate(
                "option => option.scrollIntoView({ block: 'center' })"
            )  # not below the head
            option.check(force=True)
        case Ordering():
            arrange(one, kind.written(answer))
        case Prediction(slider=Slider()):
            one.locator("[name=answer]").fill(str(written).split()[0])
        case _:
            one.locator("[name=answer]").fill(str(written))
    one.get_by_role("button", name="Check").click()


def bring(picture: Locator, params: Mapping[str, str]) -> None:
    """Set the picture's controls, one after the other."""
    for name, value in params.items():
        field = picture.locator(f"form [name='{name}']")
        if field.first.get_attribute("type") == "radio":
            field.and_(picture.locator(f"[value='{value}']")).check(force=True)
        elif field.evaluate("field => field.localName") == "select":
            field.select_option(value)
        elif field.input_value() != place(field, value):
            field.fill(place(field, value))


def place(field: Locator, value: str) -> str:
    """What the field holds for a value: where a slider has a list of numbers, a place in it."""
    steps = (field.get_attribute("data-steps") or "").split()
    return str(steps.index(value)) if steps else value


def arrange(one: Locator, values: list[str]) -> None:
    """Move each item up to its place."""
    for number, value in enumerate(values):
        item = one.locator(f"li[data-value='{value}']")
        while one.locator("li[data-value]").nth(number).get_attribute("data-value") != value:
            item.locator("[data-move=up]").click()


def plain(message: str) -> str:
    return message.replace("`", "").replace("\n", " ")


def answer_wrongly(page: Page, one: Locator, posed: Posed[Any]) -> None:
    for mistake in posed.misconceptions:
        enter(page, one, posed, mistake.answer)
        told = one.locator(".kv-verdict, .kv-option-why:visible")
        expect(told.filter(has_text=plain(mistake.message)).first).to_be_visible()
        expect(one.locator(".kv-verdict b").first).not_to_have_text("Right.")


def answer_rightly(page: Page, one: Locator, posed: Posed[Any]) -> None:
    enter(page, one, posed, posed.answer)
    expect(one.locator(".kv-verdict b").first).to_have_text("Right.")


@pytest.mark.parametrize("path", PATHS)
def test_each_step_is_failed_recovered_and_passed(reader: Page, built_site: SiteServer, path: str):
    go_to(reader, built_site, path)
    course = json.loads(reader.locator("#kv-course").text_content() or "")
    step = next(step for step in course if step["path"] == path)
    assert step["drills"], "a step without a task"
    for name in step["drills"]:
        one = reader.locator(f"kv-drill[name='{name}']")
        posed = get_drill(name).pose(int(one.get_attribute("seed") or 0))
        answer_wrongly(reader, one, posed)
        answer_rightly(reader, one, posed)
    expect(reader.locator(".kv-step-done")).to_have_text("✓ doneDone")


def test_the_walk_ends_with_every_step_done(reader: Page, built_site: SiteServer):
    reader.goto(built_site.url + "completion/")
    expect(reader.locator("[data-kv-progress=learned]")).to_contain_text("All")
    expect(reader.locator("[data-step]:visible")).to_have_count(len(PATHS))


def test_step_7_is_failed_recovered_and_passed_in_the_terminal(page: Page, site: SiteServer):
    page.goto(site.url + next(path for path in PATHS if "/07-" in path))
    line = page.locator("kv-terminal input[name=line]")
    picture = page.locator("kv-widget[name=startup]")
    refuse = page.locator("kv-drill[name=make-it-refuse]")
    start = page.locator("kv-drill[name=make-it-start]")

    def types(flags: str, then: str) -> None:
        for command in ("kill 118", f"vllm serve Llama-3.1-8B {flags}"):
            line.fill(command)
            line.press("Enter")
        expect(picture).to_contain_text(then)

    types("--gpu-memory-utilization 0.9", "It starts")
    refuse.get_by_role("button", name="Check").click()
    expect(refuse.locator(".kv-verdict b").first).to_have_text("Not yet.")
    types("--gpu-memory-utilization 0.35", "It refuses")
    refuse.get_by_role("button", name="Check").click()
    expect(refuse.locator(".kv-verdict b").first).to_have_text("Right.")
    start.get_by_role("button", name="Check").click()
    expect(start.locator(".kv-verdict b").first).to_have_text("Not yet.")
    for way in ("--max-model-len 8192", "--kv-cache-dtype fp8"):
        types(f"--gpu-memory-utilization 0.4 {way}", "It starts")
        start.get_by_role("button", name="Check").click()
        expect(start.locator(".kv-verdict b").first).to_have_text("Right.")
