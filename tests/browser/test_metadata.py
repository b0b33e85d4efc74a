"""Every page of the built site has words, a picture and structured data of its own."""

from __future__ import annotations

import json
import struct
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

SITE = Path(__file__).resolve().parents[2] / "site"
KINDS = {"Course", "LearningResource", "TechArticle"}


class Head(HTMLParser):
    """Reads a page's title, its meta elements and its structured data."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.meta: dict[str, str] = {}
        self.data = self.title = ""
        self._in = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "meta":
            self.meta[named.get("property") or named.get("name") or ""] = named.get("content") or ""
        self._in = named.get("type") or "" if tag == "script" else tag

    def handle_data(self, data: str) -> None:
        if self._in == "application/ld+json":
            self.data += data
        elif self._in == "title":
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        assert tag
        self._in = ""


def heads() -> dict[str, Head]:
    pages = (path for path in SITE.rglob("index.html") if "embed" not in path.parts)
    return {
        path.parent.relative_to(SITE).as_posix(): Head(path.read_text("utf-8")) for path in pages
    }


def test_every_page_has_words_a_picture_and_data():
    found = heads()
    assert len(found) > 40
    for name, head in found.items():
        data, meta = json.loads(head.data), head.meta
        assert data["@type"] in KINDS, name
        assert data["url"] == meta["og:url"], name
        assert data["description"] == meta["og:description"] == meta["description"] != "", name
        assert data["image"] == meta["og:image"], name
        card = SITE / "assets" / "cards" / Path(meta["og:image"]).name
        header = card.read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n", name
        assert struct.unpack(">II", header[16:24]) == (1200, 630), name
    assert json.loads(found["."].data)["@type"] == "Course"


def test_titles_and_descriptions_are_each_pages_own():
    found = heads()
    for words in ("title", "description"):
        of = {
            name: head.title if words == "title" else head.meta[words]
            for name, head in found.items()
        }
        often = [text for text, times in Counter(of.values()).items() if times > 1]
        assert often == [], words


def test_the_course_lists_every_step_that_is_built():
    found = heads()
    parts = json.loads(found["."].data)["hasPart"]
    steps = [
        json.loads(head.data)
        for head in found.values()
        if json.loads(head.data)["@type"] == "LearningResource"
    ]
    assert {part["url"] for part in parts} == {step["url"] for step in steps}
    assert [step["position"] for step in sorted(steps, key=lambda each: each["position"])] == [
        index for index in range(1, 22) if index in {step["position"] for step in steps}
    ]
