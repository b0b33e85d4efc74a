"""Widget `decode-reads`: what each new token reads of the cache, and the little it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from kvdocs.catalog import get_model
from kvdocs.html import Element, h, svg
from kvdocs.model import kv_cost
from kvdocs.scenario import LESSON
from kvdocs.units import MB, format_bytes, format_number
from kvdocs.widgets.controls import Choice, Steps
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

DECODE_PASSES: Final = 47
"""Passes after the prefill: for an answer of 48 tokens, whose last one is never fed."""
LONG: Final = 8192
"""A context at which the reads are felt."""
_WIDTH: Final = 960
_HEIGHT: Final = 260


@dataclass(frozen=True, slots=True)
class Moment:
    """One pass of a single request.

    Attributes:
        step: 0 is the prefill; pass n takes in output token n and puts out the next.
        prompt: Tokens of the prompt.
        num_layers: Layers of the model.
        bytes_per_token: Bytes of keys and values a token, all layers.
    """

    step: int
    prompt: int
    num_layers: int
    bytes_per_token: int

    @property
    def stored_before(self) -> int:
        """Tokens whose keys and values were stored when the pass began."""
        return self.prompt + self.step - 1 if self.step else 0

    @property
    def computed(self) -> int:
        """Tokens the pass takes in, and stores."""
        return 1 if self.step else self.prompt

    @property
    def read_bytes(self) -> int:
        """Stored bytes that the pass reads."""
        return self.stored_before * self.bytes_per_token

    @property
    def written_bytes(self) -> int:
        """Bytes the pass adds to the cache."""
        return self.computed * self.bytes_per_token

    @property
    def read_so_far_bytes(self) -> int:
        """Stored bytes read by this pass and all before it."""
        tokens = self.step * (self.prompt - 1) + self.step * (self.step + 1) // 2
        return tokens * self.bytes_per_token


@cache
def _shape(model: str) -> tuple[int, int]:
    entry = get_model(model)
    return entry.model.num_layers, kv_cost(entry.model).bytes_per_token


def moment(*, step: int, prompt: int, model: str = LESSON.model) -> Moment:
    """Return a pass of a single request.

    Args:
        step: 0 is the prefill; pass n takes in output token n and puts out the next.
        prompt: Tokens of the prompt.
        model: Catalogue id.

    Examples:
        >>> moment(step=10, prompt=24).read_bytes  # 33 tokens x 131,072 B
        4325376
    """
    return Moment(step, prompt, *_shape(model))


def _columns(first: int, count: int, *, total: int, name: str) -> Element | None:
    """Draw a run of positions, all layers."""
    if not count:
        return None
    width = _WIDTH / total
    return svg(
        "rect",
        x=f"{first * width:.2f}",
        y=0,
        width=f"{count * width:.2f}",
        height=_HEIGHT,
        class_=f"kv-token-{name}",
    )


def _lines(total: int, layers: int) -> Element:
    """Draw the lines between layers and between positions."""
    rows = "".join(f"M0 {row * _HEIGHT / layers:.2f}h{_WIDTH}" for row in range(1, layers))
    columns = "".join(f"M{place * _WIDTH / total:.2f} 0v{_HEIGHT}" for place in range(1, total))
    return svg("path", d=rows + columns, class_="kv-layer-line")


def _grid(now: Moment) -> Element:
    total, layers = now.prompt + DECODE_PASSES, now.num_layers
    stored, last = now.stored_before, now.stored_before + now.computed
    words = (
        f"{layers} layers by {total} positions. This pass reads {stored} stored positions in every "
        f"layer and writes {now.computed}."
    )
    return svg(
        "svg",
        _columns(0, stored, total=total, name="read"),
        _columns(stored, now.computed, total=total, name="written"),
        _columns(last, total - last, total=total, name="later"),
        _lines(total, layers),
        svg("path", d=f"M{now.prompt * _WIDTH / total:.2f} 0v{_HEIGHT}", class_="kv-edge"),
        view_box=f"0 0 {_WIDTH} {_HEIGHT}",
        preserve_aspect_ratio="none",
        role="img",
        aria_label=words,
    )


def _sample(name: str, text: str) -> Element:
    box = svg(
        "svg",
        svg("rect", x=1, y=1, width=12, height=12, class_=f"kv-token-{name}"),
        view_box="0 0 14 14",
        class_="kv-swatch",
        aria_hidden="true",
    )
    return h("li", box, h("span", text))


def _picture(now: Moment) -> Element:
    written = "the prompt, at once" if now.step == 0 else "1 token"
    return h(
        "div",
        h(
            "p",
            h("span", f"Left of the line: the prompt, {now.prompt} tokens"),
            h("b", f"right of it: the answer, {now.step} so far"),
            class_="kv-strip-name",
        ),
        _grid(now),
        h(
            "p",
            f"One row = one of {now.num_layers} layers; one column = one token.",
            class_="kv-note",
        ),
        h(
            "ul",
            _sample("read", f"read in this pass: {now.stored_before} tokens"),
            _sample("written", f"added in this pass: {written}"),
            _sample("later", "not yet there"),
            class_="kv-key",
        ),
        class_="kv-decode",
    )


def _figures(now: Moment) -> tuple[Figure, ...]:
    each = f"{now.bytes_per_token:,} B"
    return (
        Figure(
            "kv_read_bytes",
            "Read from the cache in this pass",
            f"{now.read_bytes:,}",
            "B",
            f"{now.stored_before:,} tokens × {each}",
        ),
        Figure(
            "kv_written_bytes",
            "Added to it in this pass",
            f"{now.written_bytes:,}",
            "B",
            f"{now.computed:,} {'token' if now.computed == 1 else 'tokens'} × {each}",
        ),
        Figure(
            "kv_read_so_far",
            "Read by all passes so far",
            format_number(now.read_so_far_bytes / MB, 1),
            "MB",
            "each pass reads one token more than the last",
        ),
    )


def _table(now: Moment) -> Table:
    return Table(
        ("Goes in", "Comes out", "Reads, tokens", "Reads, B", "Adds, B"),
        tuple(
            (
                f"token {each.step}" if each.step else "the prompt",
                f"token {each.step + 1}",
                f"{each.stored_before:,}",
                f"{each.read_bytes:,}",
                f"{each.written_bytes:,}",
            )
            for each in (
                Moment(step, now.prompt, now.num_layers, now.bytes_per_token)
                for step in range(DECODE_PASSES + 1)
            )
        ),
    )


def _title(now: Moment) -> str:
    if now.step == 0:
        return (
            f"The prompt goes in at once: {now.prompt} tokens are added, none is read, and token 1"
            " of the answer comes out"
        )
    return (
        f"Token {now.step} of the answer goes in and reads the keys and values of all"
        f" {now.stored_before} before it; token {now.step + 1} comes out"
    )


def draw(*, step: int, prompt: int, model: str) -> View:
    """Draw one pass of a single request.

    Args:
        step: 0 is the prefill; pass n takes in output token n and puts out the next.
        prompt: Tokens of the prompt.
        model: Catalogue id.
    """
    now = moment(step=step, prompt=prompt, model=model)
    long = LONG * now.bytes_per_token
    return View(
        title=_title(now),
        picture=_picture(now),
        figures=_figures(now),
        caption=(
            "Notice that no column is ever written twice: a token's keys and values never "
            "change, so they are computed once and kept. What grows is the reading. After "
            f"{LONG:,} tokens every further token reads {format_bytes(long, 'GB')} and more."
        ),
        table=_table(now),
        python=(
            "from kvdocs.widgets.decode_reads import moment\n\n"
            f"print(moment(step={step}, prompt={prompt}, model={model!r}).read_bytes)"
        ),
        announce=f"Pass {step}: {now.stored_before} tokens read, {now.computed} added.",
    )


DECODE_READS: Final = Widget(
    name="decode-reads",
    controls=(
        Timeline(
            name="step",
            label="Pass (0 is the prefill)",
            maximum=DECODE_PASSES,
            default="20",
            interval_ms=350,
        ),
        Steps("prompt", "Prompt", (8, 16, 24, 48, 96), "24", unit="tokens"),
        Choice(
            "model",
            "Model",
            ((LESSON.model, "Llama 3.1 8B"), ("meta-llama/Llama-3.1-70B", "Llama 3.1 70B")),
            LESSON.model,
        ),
    ),
    draw=draw,
)
