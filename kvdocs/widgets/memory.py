"""One grammar for memory: a kind has one word, one colour and one pattern, everywhere.

The colours and patterns themselves are in the site's style sheet and page template, by `key`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kvdocs.html import Element, h, svg
from kvdocs.units import GB, GIB, format_number


class MemoryKind(Enum):
    """A kind of GPU memory; the value is its key in style sheets, `word` its name on pages."""

    WEIGHTS = "weights"
    WORKSPACE = "workspace"
    CONTEXT = "context"
    KV_USED = "kv-used"
    KV_CACHED = "kv-cached"
    KV_FREE = "kv-free"
    SHARED = "shared"
    MOVING = "moving"
    EVICTED = "evicted"
    UNTOUCHED = "untouched"

    @property
    def word(self) -> str:
        """The one word or phrase for it on every page."""
        return _WORDS[self]


_WORDS: Final = {
    MemoryKind.WEIGHTS: "weights",
    MemoryKind.WORKSPACE: "workspace",
    MemoryKind.CONTEXT: "CUDA context",
    MemoryKind.KV_USED: "KV in use",
    MemoryKind.KV_CACHED: "KV cached but free",
    MemoryKind.KV_FREE: "KV free",
    MemoryKind.SHARED: "shared",
    MemoryKind.MOVING: "moving",
    MemoryKind.EVICTED: "evicted",
    MemoryKind.UNTOUCHED: "untouched",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a memory bar.

    Attributes:
        kind: Kind of memory.
        num_bytes: Its size in bytes.
    """

    kind: MemoryKind
    num_bytes: float


def swatch(kind: MemoryKind) -> Element:
    """Return a small square in the kind's colour and pattern."""
    return svg(
        "svg",
        svg("rect", width="100%", height="100%", class_=f"kv-mem kv-mem-{kind.value}"),
        class_="kv-swatch",
        aria_hidden="true",
    )


_PHONE_BAR_PX: Final = 235
"""Width of a bar on a phone, at least."""
_CHARACTER_PX: Final = 6.2
_PADDING_PX: Final = 8


def bar_label(text: str, share: float) -> Element:
    """Label a part of a bar; where it has no room on a phone, it is left out there.

    Args:
        text: The label.
        share: The part's share of the bar.

    Examples:
        >>> print(bar_label("weights", 0.5), bar_label("weights", 0.1))
        <span class="kv-bar-label">weights</span> <span class="kv-bar-label kv-wide">weights</span>
    """
    fits = len(text) * _CHARACTER_PX + _PADDING_PX <= share * _PHONE_BAR_PX
    return h("span", text, class_="kv-bar-label" if fits else "kv-bar-label kv-wide")


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.4f}%"


def _bar(segments: tuple[Segment, ...], total_bytes: float) -> Element:
    parts = []
    for segment in segments:
        share = segment.num_bytes / total_bytes
        label = bar_label(segment.kind.word, share) if share >= 0.09 else None
        fill = svg(
            "svg",
            svg("rect", width="100%", height="100%", class_=f"kv-mem kv-mem-{segment.kind.value}"),
            aria_hidden="true",
        )
        parts.append(
            h(
                "div",
                fill,
                label,
                class_="kv-bar-part",
                style=f"width:{_percent(segment.num_bytes, total_bytes)}",
            )
        )
    return h("div", *parts, class_="kv-bar")


def _scale(total_bytes: float, ticks: int = 4) -> Element:
    marks = []
    for tick in range(ticks + 1):
        num_bytes = total_bytes * tick / ticks
        unit = "\N{NO-BREAK SPACE}GB" if tick == ticks else ""
        marks.append(h("span", format_number(num_bytes / GB, 0) + unit))
    return h("div", *marks, class_="kv-scale", aria_hidden="true")


def _limit(limit_bytes: float, total_bytes: float, text: str) -> Element:
    line = h("div", class_="kv-limit-line", style=f"width:{_percent(limit_bytes, total_bytes)}")
    return h("div", h("p", text, class_="kv-limit-text"), line, class_="kv-limit")


def _key(segments: tuple[Segment, ...]) -> Element:
    items = (
        h(
            "li",
            swatch(segment.kind),
            h("span", segment.kind.word, class_="kv-key-word"),
            h("span", f"{format_number(segment.num_bytes / GB)} GB", class_="kv-key-value"),
        )
        for segment in segments
    )
    return h("ul", *items, class_="kv-key")


def memory_bar(
    segments: tuple[Segment, ...], *, total_bytes: float, limit_bytes: float, limit_text: str
) -> Element:
    """Draw a GPU's memory as one bar, to scale.

    Args:
        segments: From the left; together at most `total_bytes`.
        total_bytes: The whole bar.
        limit_bytes: How far the server may reach, marked above the bar.
        limit_text: What that limit is.
    """
    described = ", ".join(
        f"{segment.kind.word} {format_number(segment.num_bytes / GB)} GB" for segment in segments
    )
    return h(
        "div",
        _limit(limit_bytes, total_bytes, limit_text),
        h(
            "div",
            _bar(segments, total_bytes),
            role="img",
            aria_label=f"Memory of the GPU to scale: {described}.",
        ),
        _scale(total_bytes),
        _key(segments),
        class_="kv-memory",
    )


def gb_and_gib(num_bytes: float) -> str:
    """Print bytes in GB with the GiB beside it, as where a maker's and a log's unit meet.

    Examples:
        >>> gb_and_gib(72e9)
        '72 GB (67.06 GiB)'
    """
    return f"{format_number(num_bytes / GB)} GB ({format_number(num_bytes / GIB)} GiB)"
