"""What a page tells machines: its card, and structured data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

OVERRIDES = Path(__file__).resolve().parents[1] / "overrides"
CONFIG = SimpleNamespace(
    site_name="The KV Cache",
    site_url="https://example.org/kv/",
    site_description="About it.",
    extra={"steps": 21},
)


@pytest.fixture(scope="module")
def metadata() -> Iterator[ModuleType]:
    sys.path.insert(0, str(OVERRIDES))
    import metadata  # noqa: PLC0415 - only there is it found

    yield metadata
    sys.path.remove(str(OVERRIDES))


def page(uri: str, title: str = "A page", **meta) -> SimpleNamespace:
    return SimpleNamespace(
        file=SimpleNamespace(src_uri=uri),
        title=title,
        meta={"description": "What it is.", **meta},
        is_homepage=uri == "index.md",
        canonical_url=f"https://example.org/kv/{uri.removesuffix('.md')}/",
    )


def step(number: int, title: str = "A step", question: str = "Why?") -> SimpleNamespace:
    meta = {"step": number, "part_title": "A part", "minutes": 2, "takeaway": "Because."}
    return page(f"lessons/part-1/{number:02d}-a.md", title, question=question, **meta)


def test_the_landing_page_is_a_course_made_of_its_steps(metadata: ModuleType):
    steps = [step(1), step(2)]
    data = metadata.structured_data(page("index.md"), CONFIG, steps)
    assert (data["@type"], data["name"], data["timeRequired"]) == ("Course", "The KV Cache", "PT4M")
    assert [part["url"] for part in data["hasPart"]] == [each.canonical_url for each in steps]
    assert data["isAccessibleForFree"] is True


def test_a_step_is_a_learning_resource_of_the_course(metadata: ModuleType):
    data = metadata.structured_data(step(4), CONFIG, [])
    assert (data["@type"], data["position"], data["timeRequired"]) == (
        "LearningResource",
        4,
        "PT2M",
    )
    assert data["isPartOf"]["url"] == "https://example.org/kv/"
    assert data["teaches"] == "Because."


def test_any_other_page_is_an_article(metadata: ModuleType):
    data = metadata.structured_data(page("reference/cli.md", "Command line"), CONFIG, [])
    assert (data["@type"], data["headline"]) == ("TechArticle", "Command line")


def test_a_title_cannot_end_the_script(metadata: ModuleType):
    nav = SimpleNamespace(pages=[])
    evil = page("a.md", "</script><script>alert(1)</script>")
    context = metadata.on_page_context({}, evil, CONFIG, nav)
    assert "<" not in context["structured_data"]
    assert json.loads(context["structured_data"])["headline"] == evil.title
    assert context["card_url"] == "https://example.org/kv/assets/cards/a.png"


def test_embedded_pages_have_none(metadata: ModuleType):
    bare = page("embed/heads.md", template="embed.html")
    assert metadata.on_page_context({}, bare, CONFIG, SimpleNamespace(pages=[])) == {}


def test_pages_of_modules_share_a_card(metadata: ModuleType):
    above, module = page("reference/api.md"), page("reference/api/model.md")
    assert metadata.card_path(above) == metadata.card_path(module)
    assert metadata.card_path(page("reference/cli.md")).endswith("/reference-cli.png")


@pytest.fixture
def cards(metadata: ModuleType) -> ModuleType:
    assert metadata
    import cards  # noqa: PLC0415 - on the path with it

    if not cards.FONT.is_file():
        pytest.skip("the site's typeface is not built yet: make browser")
    return cards


def test_a_card_has_the_size_that_sites_ask_for_and_is_small(
    metadata: ModuleType, cards: ModuleType, tmp_path: Path
):
    for number, each in enumerate((step(7), page("reference/cli.md"), page("index.md"))):
        image = cards.draw_card(metadata.card_of(each, CONFIG))
        assert image.size == (1200, 630)
        path = tmp_path / f"{number}.png"
        image.save(path, optimize=True)
        assert 3_000 < path.stat().st_size < 60_000


def test_the_reader_sees_which_step_it_is(metadata: ModuleType, cards: ModuleType):
    drawn = [cards.draw_card(metadata.card_of(step(number), CONFIG)) for number in (1, 2, 21)]
    seen = cards.colour("kv-kv-used")
    wanted = tuple(int(seen[i : i + 2], 16) for i in (1, 3, 5))
    block = (1200 - 2 * cards.MARGIN) / 21
    for image, number in zip(drawn, (1, 2, 21), strict=True):
        middle = (round(cards.MARGIN + (number - 0.5) * block), sum(cards.BAR) // 2)
        assert image.convert("RGB").getpixel(middle) == pytest.approx(wanted, abs=6)


@pytest.mark.parametrize("words", [3, 12, 60])
def test_no_text_leaves_the_card(metadata: ModuleType, cards: ModuleType, words: int):
    text = " ".join(["attention"] * words)
    long = step(3, title=text, question=text)
    image = cards.draw_card(metadata.card_of(long, CONFIG)).convert("RGB")
    paper = image.getpixel((20, 300))
    for x in (*range(1, cards.MARGIN - 8), *range(1200 - cards.MARGIN + 8, 1199)):
        assert all(image.getpixel((x, y)) == paper for y in range(20, 629, 4))
    between = range(cards.BAR[0] - 6, cards.BAR[0] - 2)
    assert all(image.getpixel((x, y)) == paper for x in range(0, 1200, 3) for y in between)


def test_colours_are_those_of_the_style_sheets(cards: ModuleType):
    css = (OVERRIDES / "assets" / "widgets.css").read_text(encoding="utf-8")
    assert f"--kv-weights: {cards.colour('kv-weights')};" in css
    with pytest.raises(KeyError):
        cards.colour("kv-no-such-colour")
