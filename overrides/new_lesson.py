"""Make the page of a new step from a template: `make new-lesson STEP=12 PART=4 TITLE="…"`.

Nothing is asked: what is not given follows from the pages there are. A page that exists is never
written over.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mkdocs.utils.meta import get_data

ROOT: Final = Path(__file__).resolve().parent.parent
PLACEHOLDER: Final = "(to be written)"
"""Stands in a new page where the author's words belong; with it, a page is not published."""
TEMPLATE: Final = """\
---
title: {title}
description: {placeholder} One sentence for search engines.
step: {step}
part: {part}
part_title: {part_title}
minutes: 3
question: {placeholder} The question the step answers, shown above the picture.
takeaway: {placeholder} One sentence the reader keeps.
hide: [toc]
---

```python exec="1" html="1"
from kvdocs.pages import widget
from kvdocs.scenario import size_lesson
from kvdocs.units import format_number

size = size_lesson()
print(widget("gpu-memory"))
```

What happens in the story, and what the reader should look for in the picture. A number is a figure,
computed when the page is built: the pool holds `#!fig format_number(size.pool_tokens)` tokens.

```python exec="1" html="1"
from kvdocs.pages import drill

print(drill("how-many-fit"))
```

## What the numbers say

```python exec="1" source="block" result="text"
from kvdocs.scenario import size_lesson

size = size_lesson()
print(f"{{size.pool_tokens:,}} tokens")
```

??? note "In real life"
    What is different on a real server, with its source.
"""


class Refused(Exception):  # noqa: N818 - it names what happened
    """The page cannot be made as asked; the message says why."""


def main(asked: Mapping[str, str]) -> int:
    """Make the page and say what to do next.

    Args:
        asked: STEP, PART and TITLE, as make hands them over; each may be missing or empty.
    """
    docs = ROOT / "docs"
    try:
        page = new_lesson(
            docs,
            step=_number(asked, "STEP"),
            part=_number(asked, "PART"),
            title=asked.get("TITLE") or "A new step",
        )
    except Refused as refusal:
        print(f"new-lesson: {refusal}", file=sys.stderr)
        return 1
    print(next_steps(page.relative_to(docs)))
    return 0


def _number(asked: Mapping[str, str], name: str) -> int | None:
    text = asked.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise Refused(f"{name}={text[:20]} is not a whole number from 1")
    return int(text)


def new_lesson(docs: Path, *, step: int | None, part: int | None, title: str) -> Path:
    """Write the page and return its path.

    Args:
        docs: The folder of all pages.
        step: The step's number; one more than the last when None.
        part: The part's number; that of the last step when None.
        title: The page's title; the file is named after it.

    Raises:
        Refused: The step's number or the file is taken, or the title has no letter in it.
    """
    pages = dict(_lessons(docs))
    taken = {meta["step"]: path for path, meta in pages.items() if "step" in meta}
    step = step or max(taken, default=0) + 1
    if step in taken:
        free = max(taken) + 1
        raise Refused(f"step {step} is {taken[step].relative_to(docs.parent)}; try STEP={free}")
    part = part or max((meta.get("part", 1) for meta in pages.values()), default=1)
    path = docs / "lessons" / f"part-{part}" / f"{step:02}-{_slug(title)}.md"
    if path.exists():
        raise Refused(f"{path.relative_to(docs.parent)} exists; give the page another TITLE")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _page(title=title, step=step, part=part, part_title=_part_title(pages, part))
    path.write_text(text, encoding="utf-8")
    return path


def next_steps(page: Path) -> str:
    """Return what the author does now."""
    return f"""\
Made docs/{page.as_posix()}

1. Add it to nav in mkdocs.yml, below its part:
      - {page.as_posix()}
2. make serve    shows it with live reload, as it is
3. Write its words: everything marked "{PLACEHOLDER}". The page is not published before.
4. make test     runs its code and looks at it in a browser

How a page, a picture, a drill and a figure are made: docs/contributing/index.md"""


def _lessons(docs: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path in sorted((docs / "lessons").rglob("*.md")):
        yield path, get_data(path.read_text(encoding="utf-8"))[1]


def _part_title(pages: Mapping[Path, Mapping[str, Any]], part: int) -> str:
    titles = (meta["part_title"] for meta in pages.values() if meta.get("part") == part)
    return next(titles, f"{PLACEHOLDER} The part's title")


def _page(**values: Any) -> str:
    # A text as JSON is a text in YAML too, whatever stands in it.
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    return TEMPLATE.format(placeholder=PLACEHOLDER, **quoted)


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not slug:
        raise Refused(f"the title {title!r} has no letter or digit that a file name can have")
    return slug[:60].strip("-")


if __name__ == "__main__":
    sys.exit(main(os.environ))
