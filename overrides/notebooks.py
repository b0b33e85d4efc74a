"""Notebooks as pages: run by mkdocs-jupyter in each build, shown in the site's own form.

mkdocs-jupyter brings JupyterLab's style sheet, scripts and the address of a CDN into each page.
Only the cells are taken from it: code and output look as everywhere, and nothing is loaded.
"""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final

from bs4 import BeautifulSoup, Tag
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / "build" / "notebooks"
FOLDER: Final = "notebooks/"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let kernels import this package, and keep what they printed until the package changes."""
    plugin = config.plugins["mkdocs-jupyter"]
    fresh = CACHE / package_hash(ROOT / "kvdocs")
    plugin.config["cache_dir"] = str(fresh)
    for folder in CACHE.glob("*"):
        if folder != fresh:
            shutil.rmtree(folder)
    os.environ.update(kernel_environment())
    return config


def kernel_environment() -> dict[str, str]:
    """What a kernel is to find in its environment: this package, and one thread for numpy.

    Small matrix products are no faster with more, and much slower where others need the cores.
    """
    before = os.environ.get("PYTHONPATH", "")
    paths = [str(ROOT), *(path for path in before.split(os.pathsep) if path and path != str(ROOT))]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_NUM_THREADS": "1",
        "JUPYTER_CONFIG_PATH": str(ROOT / "overrides" / "jupyter"),
    }


def package_hash(package: Path) -> str:
    """A name that changes whenever a file of the package does.

    Args:
        package: Its folder.
    """
    digest = sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in {".py", ".json", ".toml", ".csv"}:
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Take the page's description from the notebook."""
    if page.file.src_uri.startswith(FOLDER) and page.file.src_uri.endswith(".ipynb"):
        page.meta["description"] = json.loads(markdown)["metadata"]["description"]
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Show a notebook in the site's own form."""
    uri = page.file.src_uri
    return (
        as_page(html, Path(uri).name) if uri.startswith(FOLDER) and uri.endswith(".ipynb") else html
    )


def as_page(html: str, name: str) -> str:
    """Return a notebook's cells as the site shows prose and executed blocks.

    Args:
        html: What mkdocs-jupyter made.
        name: The notebook's file name; it stands beside the page.

    Raises:
        PluginError: There are no cells in it.
    """
    soup = BeautifulSoup(html, "html.parser")
    shown = [_cell(cell) for cell in soup.select("[id].jp-Cell")]
    if not shown:
        raise PluginError(f"{name}: mkdocs-jupyter's form has changed; see overrides/notebooks.py")
    shown[0] = shown[0].replace("</h1>", f"</h1>{_download(name)}", 1)
    return "\n".join(shown)


def _download(name: str) -> str:
    file = escape(name)
    return (
        f'<p><a href="{file}" download>Download this notebook</a> to run it yourself in Jupyter. '
        "What it prints below, it printed when this page was built.</p>"
    )


def _cell(cell: Tag) -> str:
    prose = cell.select_one(".jp-RenderedMarkdown")
    if prose is not None:
        return _prose(prose)
    code = cell.select_one(".jp-Cell-inputWrapper pre")
    outputs = [_text(output) for output in cell.select(".jp-OutputArea-output")]
    source = "" if code is None else code.decode_contents()
    printed = "".join(outputs)
    result = f'<div class="result">{_block(printed)}</div>' if printed.strip() else ""
    return f'<div class="kv-cell">{_block(source)}{result}</div>'


def _prose(prose: Tag) -> str:
    for link in prose.select(".anchor-link"):
        link["class"] = "headerlink"
        link["title"] = "Link to this section"
    for block in prose.select("div.highlight"):
        inner = block.select_one("pre")
        if inner is not None:
            block.replace_with(BeautifulSoup(_block(inner.decode_contents()), "html.parser"))
    return prose.decode_contents()


def _block(code: str) -> str:
    """Return code or output as Material styles it; the scripts make it reachable by keyboard."""
    inner = code.removeprefix("<span></span>")
    return f'<div class="highlight"><pre><span></span><code>{inner}</code></pre></div>'


def _text(output: Tag) -> str:
    shown = output.select_one("pre")
    if shown is None:
        raise PluginError(f"a notebook may print text only, not this: {str(output)[:200]}")
    return shown.decode_contents()
