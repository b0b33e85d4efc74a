"""The notebooks: kept without outputs, run from end to end with nothing beside them, and shown."""

import json
import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "overrides"))

from notebooks import as_page, kernel_environment, package_hash  # noqa: E402

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def test_there_are_three_and_the_navigation_has_them():
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert len(NOTEBOOKS) == 3
    assert all(f"notebooks/{path.name}" in config for path in NOTEBOOKS)


@each
def test_it_is_kept_without_outputs_and_says_what_it_is(path):
    text = path.read_text("utf-8")
    notebook = nbformat.reads(text, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert notebook.cells[0].source.startswith("# ")
    assert "pip install" in code[0].source
    assert 50 < len(notebook.metadata.description) < 200
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


@each
def test_it_runs_from_end_to_end_with_nothing_beside_it(path, tmp_path, monkeypatch):
    for name, value in kernel_environment().items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, 4)
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=100,
        resources={"metadata": {"path": str(tmp_path)}},
        extra_arguments=["--log-level=40"],
        coalesce_streams=True,
    )
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = {(out.output_type, out.get("name")) for cell in code for out in cell.outputs}
    assert kinds == {("stream", "stdout")}, "text only, and nothing complained"
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2
    assert not list(tmp_path.iterdir())
    printed = "".join(out.text for cell in code for out in cell.outputs)
    assert os.sep + "work" not in printed
    assert str(ROOT) not in printed
    if path.stem == "size-your-own-deployment":  # 25,153 blocks, one of them vLLM's own
        assert "  1,000 tokens each:   399 at once" in printed


# --- how it is shown ----------------------------------------------------------------------------

AS_MADE = """
<script src="https://cdn.example/mathjax.js"></script><style>.jp-Cell { color: red }</style>
<div class="jp-Notebook">
<div class="jp-Cell jp-MarkdownCell" id="cell-id=a"><div class="jp-RenderedMarkdown">
<h1 id="title">Title<a class="anchor-link" href="#title">¶</a></h1><p>Prose &amp; more.</p>
<div class="highlight"><pre><span></span>kvdocs fit
</pre></div></div></div>
<div class="jp-Cell jp-CodeCell"><div class="jp-Cell jp-CodeCell" id="cell-id=b">
<div class="jp-Cell-inputWrapper"><clipboard-copy for="cell-1"></clipboard-copy>
<div class="highlight-ipynb"><pre><span></span><span class="k">print</span>(1 &lt; 2)
</pre></div><div class="clipboard-copy-txt" id="cell-1">print(1 &lt; 2)</div></div>
<div class="jp-OutputArea-output"><pre>True &amp; so
</pre></div><div class="jp-OutputArea-output"><pre>on
</pre></div></div></div>
</div>
"""


def test_a_page_has_the_cells_in_the_sites_form_and_nothing_else():
    page = as_page(AS_MADE, "a-notebook.ipynb")
    assert not re.search(r"<script|<style|clipboard|jp-|ipynb\b(?!\")|https?:", page)
    assert '<a class="headerlink" href="#title" title="Link to this section">¶</a></h1>' in page
    assert 'href="a-notebook.ipynb" download' in page
    assert '<code><span class="k">print</span>(1 &lt; 2)\n</code>' in page
    assert (
        '<div class="result"><div class="highlight"><pre><span></span><code>True &amp; so\non\n'
        in page
    )
    assert "Prose &amp; more." in page
    assert '<div class="highlight"><pre><span></span><code>kvdocs fit' in page


def test_what_a_notebook_cannot_print_stops_the_build():
    picture = AS_MADE.replace("<pre>on\n</pre>", "<img>")
    with pytest.raises(Exception, match="text only"):
        as_page(picture, "x.ipynb")
    with pytest.raises(Exception, match="has changed"):
        as_page("<p>nothing</p>", "x.ipynb")


def test_what_was_printed_is_kept_until_the_package_changes(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = package_hash(tmp_path)
    (tmp_path / "notes.txt").write_text("no matter")
    assert package_hash(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert package_hash(tmp_path) != before
