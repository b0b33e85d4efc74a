"""The lesson as a whole: its steps for the scripts of every page, and a page to embed each picture.

Both are computed from the pages themselves, so nothing of it is written twice.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final

import jinja2
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

EMBED_TEMPLATE: Final = "embed.html"
"""The template of a bare page: a picture, and nothing of the site around it."""

EXTRA: Final = "bug-"
"""What the ids of the bug museum's drills begin with: a step is done without them."""

_DRILL: Final = re.compile(r'<kv-drill [^>]*?\bname="(?P<name>[^"]+)"')
_TO_STEP: Final = re.compile(r'href="step:(?P<step>\d+)"')
_EMBED_PAGE: Final = """\
---
title: {name}
description: The live picture {name} of The KV Cache, alone on its page.
template: {template}
search:
  exclude: true
---

```python exec="1" html="1"
from kvdocs.pages import widget

print(widget("{name}"))
```
"""

_navigation: list[Navigation] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a bare page for each picture, to be shown in a frame on another site."""
    # The package is imported anew for each build, so not at the top.
    from kvdocs.widgets.registry import WIDGETS  # noqa: PLC0415

    for name in WIDGETS:
        content = _EMBED_PAGE.format(name=name, template=EMBED_TEMPLATE)
        page = File.generated(
            config, f"embed/{name}.md", content=content, inclusion=InclusionLevel.NOT_IN_NAV
        )
        files.append(page)
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Keep the navigation: steps are told in its order."""
    _navigation[:] = [nav]


@event_priority(-50)
def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Note which drills stand on the page."""
    page.meta["drills"] = drills_on(html)


def drills_on(html: str) -> list[str]:
    """Return the names of the drills that a page's HTML asks to be done, in order, each once."""
    names = dict.fromkeys(_DRILL.findall(html))
    return [name for name in names if not name.startswith(EXTRA)]


def on_env(env: jinja2.Environment, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001
    """Hand the steps to the templates, and number them in the sidebar."""
    pages = [page for page in _navigation[0].pages if "step" in page.meta]
    env.globals["course"] = [step_of(page) for page in pages]
    env.globals["parts"] = parts_of(pages)
    env.globals["missing_steps"] = missing_steps(pages, config.extra["steps"])
    env.globals["step_pages"] = {page.meta["step"]: page for page in pages}
    for page in pages:
        page.typeset = {"title": numbered(page)}  # type: ignore[attr-defined] # the theme reads it


def missing_steps(pages: list[Page], steps: int) -> list[int]:
    """Return the numbers of the steps that are not in the navigation yet."""
    there = {page.meta["step"] for page in pages}
    return [step for step in range(1, steps + 1) if step not in there]


def numbered(page: Page) -> str:
    """Return a step's title with its number, as HTML: the theme shows it in the sidebar."""
    number = f'<span class="kv-nav-step">{page.meta["step"]}</span>'
    return f"{number} {escape(str(page.title))}"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Give links to steps their addresses, as `overrides/runtime/step-links.ts` does later."""
    pages = {each.meta["step"]: each for each in _navigation[0].pages if "step" in each.meta}
    return with_step_links(output, {step: each.file.url for step, each in pages.items()}, page)


def with_step_links(html: str, urls: dict[int, str], page: Page) -> str:
    """Return a page's HTML with the address of each step that is linked to.

    Args:
        html: The page.
        urls: Addresses below the site's root, by step; a step that is missing gets no link.
        page: The page, from which addresses are relative.
    """

    def address(match: re.Match[str]) -> str:
        url = urls.get(int(match["step"]))
        return f'href="{get_relative_url(url, page.url)}"' if url is not None else ""

    return _TO_STEP.sub(address, html)


def step_of(page: Page) -> dict[str, Any]:
    """Return what scripts know of a step; see `overrides/runtime/progress/course.ts`."""
    meta = page.meta
    return {
        "path": page.url,
        "step": meta["step"],
        "part": meta["part"],
        "title": page.title,
        "minutes": meta["minutes"],
        "drills": meta["drills"],
    }


def parts_of(pages: list[Page]) -> list[dict[str, Any]]:
    """Return the parts in order, each with its pages."""
    parts: dict[int, dict[str, Any]] = {}
    for page in pages:
        number = page.meta["part"]
        part = {"number": number, "title": page.meta["part_title"], "pages": []}
        parts.setdefault(number, part)["pages"].append(page)
    return list(parts.values())
