"""Build the small site that the tests of *Edit and run* use: `OUT [OLD=>NEW …]`.

It has the lesson's own configuration, other pages. Each `OLD=>NEW` is replaced in the pages first,
as an author changes a lesson.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]
PAGES = Path(__file__).parent / "cells_site"


def main(out: Path, changes: list[str]) -> None:
    """Build the site into a folder."""
    docs = out.with_name(f"{out.name}-docs")
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(PAGES, docs)
    shutil.copytree(ROOT / "docs" / "assets", docs / "assets")
    for page in docs.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for change in changes:
            text = text.replace(*change.split("=>"))
        page.write_text(text, encoding="utf-8")
    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(out))
    config.nav = None
    config.plugins.on_startup(command="build", dirty=False)
    build(config)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
