"""The API reference: a page for each module of the package that is meant to be imported.

The pages are made from the package, so a new module has its page without being written down. What a
page shows is drawn from docstrings by mkdocstrings; nothing is fetched from other sites.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

PACKAGE: Final = Path(__file__).resolve().parent.parent / "kvdocs"
INTERNAL: Final = frozenset({"__init__", "__main__", "by_name", "cells", "cli", "flag_names"})
"""What the package and the site use among themselves."""
AUTHORS: Final = {
    "drills": ("drill", "kinds", "quantities", "prose"),
    "widgets": ("widget", "view", "controls", "timeline"),
}
"""Modules below a package that those who write lesson pages import."""
_PAGE: Final = """\
---
title: kvdocs.{name}
description: {told}
hide: [navigation]
search:
  boost: 0.4
---

# kvdocs.{name}

[All modules](../api.md)

::: kvdocs.{name}
"""


@dataclass(frozen=True, slots=True)
class Module:
    """A module, or a package, directly below `kvdocs`.

    Attributes:
        name: Its name without `kvdocs.`.
        told: The first sentence of its docstring.
    """

    name: str
    told: str


def modules() -> Iterator[Module]:
    """Yield the modules that have a page, by name."""
    for path in sorted(PACKAGE.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if path.stem not in INTERNAL and file.suffix == ".py" and file.is_file():
            docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            yield Module(path.stem, docstring.partition("\n")[0])


def modules_table() -> str:
    """Return the modules with what each is for, as HTML for the page above theirs."""
    rows = (
        f'<tr><td><a href="{each.name}/"><code>{each.name}</code></a></td>'
        f"<td>{escape(each.told.replace('`', ''))}</td></tr>"
        for each in modules()
    )
    head = "<thead><tr><th>kvdocs.</th><th>What it does</th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each module, below the page that lists them."""
    if files.get_file_from_path("reference/api.md") is None:
        return files
    for module in modules():
        told = f'"{module.told.replace("`", "").replace(chr(34), "")}"'
        page = File.generated(
            config,
            f"reference/api/{module.name}.md",
            content=_PAGE.format(name=module.name, told=told) + _below(module.name),
            inclusion=InclusionLevel.NOT_IN_NAV,
        )
        files.append(page)
    return files


def _below(name: str) -> str:
    parts = (
        f"\n## {name}.{part}\n\n::: kvdocs.{name}.{part}\n    options:\n      heading_level: 3\n"
        for part in AUTHORS.get(name, ())
    )
    return "".join(parts)
