"""Make every executed block that readers see a `<kv-cell>`: code, output, and the author's text.

The block stays one ordinary fence in Markdown. The element carries what the browser needs to edit
and run it: the source as it was written, and a key that changes when the source does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any, Final

from fences import Fence, executed_fences, with_options
from markdown import Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

OPTION: Final = "kv_cell"
"""Fence option, written by this hook, that names the cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One block that readers can edit and run.

    Attributes:
        page: The page's path below docs/, without its ending.
        number: The block's position on its page, from 1.
        key: Changes with the source, and not with the position.
        source: The code as written.
        prints_html: Whether what it prints is markup.
    """

    page: str
    number: int
    key: str
    source: str
    prints_html: bool

    @property
    def ident(self) -> str:
        """The element's id."""
        return f"cell-{re.sub(r'[^a-z0-9]+', '-', self.page.lower())}-{self.number}"

    def wrap(self, inner: str) -> str:
        """Return the element around the block's code and output."""
        result = "html" if self.prints_html else "text"
        return (
            f'<kv-cell id="{self.ident}" class="kv-cell" data-page="{escape(self.page)}" '
            f'data-number="{self.number}" data-key="{self.key}" data-result="{result}" '
            f'data-source="{_attribute(self.source)}">{inner}</kv-cell>'
        )


_cells: dict[str, Cell] = {}


def cells_of(page: str, fences: list[Fence]) -> list[Cell]:
    """Return the cells of a page's shown fences; equal blocks get keys of their own."""
    same: Counter[str] = Counter()
    cells = []
    for number, fence in enumerate(fences, start=1):
        key = sha256(fence.source.encode()).hexdigest()[:16]
        same[key] += 1
        again = f"-{same[key]}" if same[key] > 1 else ""
        cells.append(Cell(page, number, key + again, fence.source, fence.prints_html))
    return cells


def _attribute(text: str) -> str:
    """Escape a text so that an HTML parser gives it back whole, line breaks included."""
    return escape(text).replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Wrap the formatter that markdown-exec set for Python fences."""
    _cells.clear()
    for fence in config.mdx_configs["pymdownx.superfences"]["custom_fences"]:
        if fence["name"] == "python":
            fence["format"] = _wrapping(fence["format"])
            return config
    raise PluginError("markdown-exec runs no Python fences; see its plugin in mkdocs.yml")


@event_priority(50)
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Name the page's cells on their fences."""
    shown = [fence for fence in executed_fences(markdown) if fence.is_shown]
    cells = cells_of(page.file.src_uri.removesuffix(".md"), shown)
    _cells.update({cell.ident: cell for cell in cells})
    names = zip(shown, cells, strict=True)
    return with_options(markdown, {fence.line: f'{OPTION}="{cell.ident}"' for fence, cell in names})


def _wrapping(run: Callable[..., str]) -> Callable[..., str]:
    def format_fence(
        source: str,
        language: str,
        css_class: str,
        options: dict[str, Any],
        md: Markdown,
        **rest: Any,
    ) -> str:
        ident = options["extra"].pop(OPTION, None)
        shown = run(source, language, css_class, options, md, **rest)
        return shown if ident is None else _cell(ident, source).wrap(shown)

    return format_fence


def _cell(ident: str, run_source: str) -> Cell:
    """Return the cell; what the editor will show must be what ran."""
    cell = _cells[ident]
    if cell.source.expandtabs(4).strip("\n") != run_source.strip("\n"):
        raise PluginError(
            f"docs/{cell.page}.md: block {cell.number} ran other code than its fence shows; "
            "indent the fence and its lines alike"
        )
    return cell
