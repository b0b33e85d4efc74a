"""The glossary: its terms, their hover definitions in the lesson's prose, and which pages use them.

The terms stand in `glossary.toml`. A term is marked where a page first uses it in running text:
never in a heading, a link, code, a figure or a picture, and not where bold type says that the
word is being explained there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

SOURCE: Final = Path(__file__).with_name("glossary.toml")
DOCS: Final = SOURCE.parent.parent / "docs"
UNMARKED: Final = frozenset(
    {"h1", "h2", "h3", "h4", "h5", "h6", "a", "code", "pre", "strong", "summary", "abbr"}
)
"""Elements whose text is left alone, with all below them."""
PLAIN: Final = frozenset(
    {"API", "CC", "CPU", "CSV", "CUDA", "GB", "GPU", "ID", "JSON", "KB", "KV", "LLM", "MB", "MIT"}
    | {"AMD", "HTTP", "NVIDIA", "OK", "PCI", "PNG", "RTX", "SVG", "SXM", "URL", "USD", "UTC"}
)
"""Capitals that need no definition here."""

_ACRONYM: Final = re.compile(r"(?<![\w-])[A-Z]{2,6}(?![\w-])")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the field.

    Attributes:
        name: As the glossary heads it.
        definition: One or two plain sentences.
        step: Number of the step that explains it.
        forms: As prose writes it.
    """

    name: str
    definition: str
    step: int
    forms: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """Its id on the glossary page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@cache
def terms() -> tuple[Term, ...]:
    """Return all terms, by name."""
    entries = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["term"]
    made = (
        Term(
            each["name"], each["definition"], each["step"], tuple(each.get("forms", [each["name"]]))
        )
        for each in entries
    )
    return tuple(sorted(made, key=lambda term: term.name.lstrip("-").lower()))


@cache
def _pattern() -> re.Pattern[str]:
    """Find any form, the longest first; a plural s and a sentence's capital are found too."""
    forms = sorted((form for term in terms() for form in term.forms), key=len, reverse=True)
    either = "|".join(
        f"[{form[0].lower()}{form[0].upper()}]{re.escape(form[1:])}" for form in forms
    )
    return re.compile(rf"(?<![\w-])(?:{either})s?(?![\w-])")


@cache
def _by_form() -> dict[str, Term]:
    return {form.lower(): term for term in terms() for form in term.forms}


def forget() -> None:
    """Read the terms anew when they are next asked for, and forget the pages."""
    for cached in (terms, _pattern, _by_form):
        cached.cache_clear()
    Noted.pages.clear()
    Noted.current = None


def term_of(words: str) -> Term:
    """Return the term that these words are a form of.

    Raises:
        KeyError: They are none.
    """
    found = _by_form().get(words.lower()) or _by_form().get(words.lower().removesuffix("s"))
    if found is None:
        raise KeyError(words)
    return found


def lesson_path(step: int) -> str | None:
    """Return the path of a step's page from the site's root, None if it is not written yet."""
    found = sorted(DOCS.glob(f"lessons/*/{step:02d}-*.md"))
    return f"{found[0].relative_to(DOCS).with_suffix('').as_posix()}/" if found else None


def glossary_list() -> str:
    """Return the glossary as HTML, for a page two levels below the site's root."""
    rows = []
    for term in terms():
        path = lesson_path(term.step)
        link = f' <a href="../../{path}">Step {term.step}</a>' if path else ""
        rows.append(
            f'<dt id="{term.anchor}">{escape(term.name)}</dt>'
            f"<dd>{escape(term.definition)}{link}</dd>"
        )
    return f'<dl class="kv-glossary">{"".join(rows)}</dl>'


def used_in(text: str) -> set[str]:
    """Return the names of the terms that a text uses."""
    flat = text.replace("--", " ")  # a flag is its word
    return {term_of(match[0]).name for match in _pattern().finditer(" ".join(flat.split()))}


def undefined_in(text: str) -> set[str]:
    """Return the capitals in a text that neither the glossary nor common use explains."""
    return {
        word
        for word in _ACRONYM.findall(text)
        if word not in PLAIN and word.lower() not in _by_form()
    }


@dataclass(slots=True)
class LessonPage:
    """What is noted of a lesson page while it is built.

    Attributes:
        file: Its file, below docs/.
        prose: Its text but for code and pictures.
        shown: All its text.
    """

    file: str
    prose: str = ""
    shown: str = ""


class Noted:
    """The lesson pages of this build, the last of them the one being converted."""

    pages: Final[list[LessonPage]] = []
    current: LessonPage | None = None


class Marker(Treeprocessor):
    """Mark the first use of each term on a page."""

    def run(self, root: ET.Element) -> None:
        """Mark a page; what its fences print is converted apart, and left alone."""
        page = Noted.current
        if page is None or hasattr(self.md, "_original_md"):
            return
        page.prose = " ".join(_prose(root))
        _mark(root, seen=set())


class Glossary(Extension):
    """Markdown with marked terms."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Mark after code, links and figures are made, and before the table of contents."""
        md.treeprocessors.register(Marker(md), "glossary", 6)


def _prose(element: ET.Element) -> Iterator[str]:
    """Yield an element's text but for its code and its links, which name papers and pages."""
    if element.tag in {"code", "pre", "a"}:
        return
    yield element.text or ""
    for child in element:
        yield from _prose(child)
        yield child.tail or ""


def _mark(element: ET.Element, *, seen: set[str]) -> None:
    if element.tag in UNMARKED:
        return
    children = list(element)
    element.text = _insert(element, 0, element.text, seen)
    for child in children:
        _mark(child, seen=seen)
        child.tail = _insert(element, list(element).index(child) + 1, child.tail, seen)


def _insert(parent: ET.Element, at: int, text: str | None, seen: set[str]) -> str | None:
    """Put a text's marked terms into its parent; return what stands before the first of them."""
    if not text or isinstance(text, AtomicString):
        return text
    before, last, end = text, None, 0
    for match in _pattern().finditer(text):
        term = term_of(match[0])
        if term.name in seen:
            continue
        seen.add(term.name)
        if last is None:
            before = text[: match.start()]
        else:
            last.tail = text[end : match.start()]
        last, end = _marked(term, match[0]), match.end()
        last.tail = text[end:]
        parent.insert(at, last)
        at += 1
    return before


def _marked(term: Term, words: str) -> ET.Element:
    # It can be reached by keyboard and touch; the theme shows the title then, too.
    attributes = {"class": "kv-term", "title": term.definition, "tabindex": "0"}
    element = ET.Element("abbr", attributes)
    element.text = AtomicString(words)
    return element
