"""Mark the glossary's terms on lesson pages, and note which page uses which."""

from __future__ import annotations

from html.parser import HTMLParser

import glossary
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read the terms anew, and mark them."""
    glossary.forget()
    config.markdown_extensions.append(glossary.Glossary())  # type: ignore[arg-type]
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Note which page is converted; terms are marked on lesson pages alone."""
    is_lesson = page.file.src_uri.startswith("lessons/")
    glossary.Noted.current = glossary.LessonPage(page.file.src_uri) if is_lesson else None
    if glossary.Noted.current is not None:
        glossary.Noted.pages.append(glossary.Noted.current)
    return markdown


@event_priority(-50)
def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Note what the page shows."""
    if glossary.Noted.current is not None:
        reader = _Text()
        reader.feed(html)
        glossary.Noted.current.shown = " ".join(reader.texts)


class _Text(HTMLParser):
    """Collects a page's text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.texts.append(data)
