"""Draw the picture that other sites show beside a link to a page: 1200 x 630 pixels, as PNG.

It is in the lesson's own language: below a step's title and question the lesson as a row of
blocks, below any other title the GPU's memory to scale. Colours are those of the style sheets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

ROOT: Final = Path(__file__).resolve().parent.parent
FONT: Final = ROOT / "build/browser/fonts/ibm-plex-sans-latin-wght-normal.woff2"
STYLES: Final = ("site.css", "widgets.css")
SCHEME: Final = '[data-md-color-scheme="slate"]'
SIZE: Final = (1200, 630)
MARGIN: Final = 72
BAR: Final = (472, 548)
"""Top and bottom of the blocks or the memory."""
COLOURS: Final = 64
"""Colours of the file; more are not to be told apart in flat areas and edges of type."""

Draw = ImageDraw.ImageDraw


@dataclass(frozen=True, slots=True)
class Card:
    """What a picture says.

    Attributes:
        above: The line above the title.
        title: The page's title.
        below: The step's question, or the page's description.
        step: Its step, 0 for a page that is none.
        steps: Steps of the whole lesson.
    """

    above: str
    title: str
    below: str
    step: int
    steps: int


@cache
def colour(name: str) -> str:
    """Return a colour of the dark scheme by its name in the style sheets, such as `kv-paper`."""
    for style in STYLES:
        text = (ROOT / "overrides/assets" / style).read_text(encoding="utf-8")
        for block in text.split(SCHEME)[1:]:
            found = re.search(rf"--{name}: (#[0-9a-f]{{6}})", block.partition("}")[0])
            if found:
                return found[1]
    raise KeyError(name)


@cache
def font(size: int, weight: int) -> ImageFont.FreeTypeFont:
    """Return the site's typeface.

    Args:
        size: Pixels.
        weight: 100 to 700.
    """
    made = ImageFont.truetype(str(FONT), size)
    made.set_variation_by_axes([weight])
    return made


def wrapped(text: str, face: ImageFont.FreeTypeFont, *, width: int, most: int) -> list[str]:
    """Break a text into lines; what does not fit ends in an ellipsis."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if face.getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > most:
        lines = lines[:most]
        while face.getlength(f"{lines[-1]}…") > width:
            lines[-1] = lines[-1].rpartition(" ")[0]
        lines[-1] += "…"
    return lines


def draw_card(card: Card) -> Image.Image:
    """Draw a card."""
    image = Image.new("RGB", SIZE, colour("kv-paper"))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, SIZE[0], 10), fill=colour("kv-accent"))
    draw.text((MARGIN, 50), card.above, font=font(30, 500), fill=colour("kv-soft"))
    top = _text(draw, card.title, top=104, size=70, weight=650, most=2, name="kv-ink")
    _text(draw, card.below, top=top + 16, size=36, weight=400, most=3, name="kv-soft")
    bar = _steps(card) if card.step else _memory()
    for left, right, kind in bar:
        _area(draw, (round(left), BAR[0], round(right), BAR[1]), kind)
    caption = f"Step {card.step} of {card.steps}" if card.step else "One GPU's memory, to scale"
    draw.text((MARGIN, BAR[1] + 18), caption, font=font(26, 500), fill=colour("kv-soft"))
    return image.quantize(COLOURS, dither=Image.Dither.NONE)


def _text(draw: Draw, text: str, *, top: int, size: int, weight: int, most: int, name: str) -> int:
    """Draw a text and return where it ends; one that is too long is set smaller."""
    width = SIZE[0] - 2 * MARGIN
    while size > 28:
        lines = wrapped(text, font(size, weight), width=width, most=most + 1)
        if len(lines) <= most:
            break
        size -= 4
    for line in wrapped(text, font(size, weight), width=width, most=most):
        draw.text((MARGIN, top), line, font=font(size, weight), fill=colour(name))
        top += round(size * 1.22)
    return top


Area = tuple[float, float, str]
"""Left, right, and the kind of memory, as the style sheets call it."""


def _steps(card: Card) -> Iterator[Area]:
    """The lesson as blocks: those behind the reader, this one, those ahead."""
    width = (SIZE[0] - 2 * MARGIN) / card.steps
    for step in range(1, card.steps + 1):
        left = MARGIN + (step - 1) * width
        kind = "kv-used" if step == card.step else "kv-cached" if step < card.step else "kv-free"
        yield left, left + width - 5, kind


def _memory() -> Iterator[Area]:
    """The memory of the lesson's GPU."""
    # The package is imported anew for each build, so not at the top.
    from kvdocs.scenario import size_lesson  # noqa: PLC0415

    budget = size_lesson().budget
    sizes = {
        "weights": budget.weights_bytes,
        "workspace": budget.activation_bytes,
        "context": budget.non_torch_bytes,
        "kv-free": budget.kv_bytes,
        "untouched": budget.total_bytes - budget.requested_bytes,
    }
    scale, left = (SIZE[0] - 2 * MARGIN) / budget.total_bytes, float(MARGIN)
    for kind, size in sizes.items():
        yield left, left + size * scale, kind
        left += size * scale


def _area(draw: Draw, box: tuple[int, int, int, int], kind: str) -> None:
    """Fill an area in a kind's colour and pattern."""
    left, top, right, bottom = box
    draw.rectangle(box, fill=colour(f"kv-{kind}"))
    if kind == "weights":
        for start in range(left - (bottom - top), right, 14):
            _slash(draw, box, start)
    elif kind == "kv-free":
        for x in range(left + 14, right, 14):
            draw.line((x, top, x, bottom), fill=colour("kv-line"))
        for y in range(top + 14, bottom, 14):
            draw.line((left, y, right, y), fill=colour("kv-line"))
    elif kind == "kv-cached":
        for x in range(left + 9, right, 9):
            draw.line((x, top, x, bottom), fill=colour("kv-paper"), width=2)
    draw.rectangle(box, outline=colour("kv-outline"), width=2)


def _slash(draw: Draw, box: tuple[int, int, int, int], start: int) -> None:
    """Draw one rising line of a hatching, as far as the area reaches."""
    left, top, right, bottom = box
    height = bottom - top
    first, last = max(left, start), min(right, start + height)
    if first < last:
        line = (first, bottom - (first - start), last, bottom - (last - start))
        draw.line(line, fill=colour("kv-paper"), width=2)
