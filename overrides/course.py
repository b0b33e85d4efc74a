"""The lesson as a whole: its steps for the scripts of every page, and a page to embed each picture.

Both are computed from the pages themselves, so nothing of it is written twice.
"""

from __future__ import annotations

import re
from typing import Any, Final

import jinja2
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

EMBED_TEMPLATE: Final = "embed.html"
"""The template of a bare page: a picture, and nothing of the site around it."""

EXTRA: Final = "bug-"
"""What the ids of the bug museum's drills begin with: a step is done without them."""

_DRILL: Final = re.compile(r'<kv-drill [^>]*?\bname="(?P<name>[^"]+)"')
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
    """Hand the steps to the templates."""
    pages = [page for page in _navigation[0].pages if "step" in page.meta]
    env.globals["course"] = [step_of(page) for page in pages]
    env.globals["parts"] = parts_of(pages)


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
