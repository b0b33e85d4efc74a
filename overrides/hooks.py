"""What this site adds to MkDocs: live reload of the package, inline figures, the browser files.

* Every executed fence of a page shares one namespace, and so do its inline figures: a code span
  that starts with `#!fig` is run by markdown-exec and replaced by what it evaluates to.
* `build/browser/`, made by `npm run build`, is served below `assets/kv/`; `sw.js` at the root.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Any, Final

from fences import executed_fences, with_options
from markdown import Extension, Markdown
from markdown_exec import formatter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
BROWSER_FILES: Final = ROOT / "build" / "browser"
BLOCKS: Final = ("kv-widget", "kv-drill", "kv-cell", "kv-terminal", "kv-playground")
"""Custom elements that stand as blocks of their own."""

SOURCES: Final = ("runtime/", "jupyter/")
"""Folders beside the templates that are no part of the site."""

_session = ""


class BlockElements(Extension):
    """Tell Markdown that the lesson's own elements are blocks: no `<p>` around them."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Add the elements to the block-level ones."""
        md.block_level_elements.extend(BLOCKS)


def on_startup(command: str, dirty: bool) -> None:  # noqa: FBT001
    """Keep the process alive between builds, so that a changed `kvdocs` is imported anew."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Register the inline figures, and forget the package so that this build imports it anew."""
    for name in [name for name in sys.modules if name.split(".")[0] == "kvdocs"]:
        del sys.modules[name]
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    config.markdown_extensions.append(BlockElements())  # type: ignore[arg-type]
    spans = config.mdx_configs.setdefault("pymdownx.inlinehilite", {})
    spans["custom_inline"] = [{"name": "fig", "class": "kv-inline", "format": inline_figure}]
    return config


def inline_figure(source: str, language: str, class_name: str, md: Markdown) -> str:  # noqa: ARG001
    """Run an inline figure in the page's namespace and return its text, escaped."""
    options: dict[str, Any] = {"html": True, "session": _session, "extra": {}}
    shown = formatter(f"print({source})", "python", "", options, md)
    if not shown.strip():
        raise PluginError(f"the inline figure `{source}` shows nothing")
    return f'<span class="{class_name}">{escape(str(shown).strip())}</span>'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Serve the browser's files, and keep their sources out of the site."""
    for file in list(files):
        if file.src_uri.startswith(SOURCES):
            files.remove(file)
    if not (BROWSER_FILES / "manifest.json").is_file():
        raise PluginError("the browser's files are missing: run `make browser` (or `make site`)")
    for path in sorted(BROWSER_FILES.rglob("*")):
        if path.is_file():
            name = path.relative_to(BROWSER_FILES).as_posix()
            # A service worker answers only for what lies below its own address.
            uri = name if name == "sw.js" else f"assets/kv/{name}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Give all executed fences of the page one namespace."""
    global _session  # noqa: PLW0603 - markdown-exec's formatter is not told which page it is on
    _session = f"{page.file.src_uri}:{len(markdown)}"
    lines = [fence.line for fence in executed_fences(markdown)]
    return with_options(markdown, dict.fromkeys(lines, f'session="{_session}"'))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Name the theme's search dialog, which it leaves without a name for screen readers."""
    if page.meta.get("template") == "embed.html":
        return output
    dialog = 'data-md-component="search" role="dialog"'
    if dialog not in output:
        raise PluginError(
            "the theme's search dialog has changed; see on_post_page in overrides/hooks.py"
        )
    return output.replace(dialog, f'{dialog} aria-label="Search"')
