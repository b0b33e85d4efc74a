"""Widget `heads`: query heads wired to the KV heads they share, and what that does to the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from kvdocs.catalog import get_model
from kvdocs.html import Element, h, svg
from kvdocs.model import Model, kv_cost
from kvdocs.scenario import LESSON, size_lesson
from kvdocs.units import GB, format_bytes, format_number
from kvdocs.widgets.controls import Choice, Control, Steps
from kvdocs.widgets.memory import MemoryKind, bar_label
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

CONVERSATION_TOKENS: Final = 8192
MODELS: Final = (
    ("meta-llama/Llama-2-7b-hf", "Llama 2 7B"),
    ("meta-llama/Llama-3.1-8B", "Llama 3.1 8B"),
    ("meta-llama/Llama-3.1-70B", "Llama 3.1 70B"),
    ("meta-llama/Llama-3.1-405B", "Llama 3.1 405B"),
    ("mistralai/Mistral-Nemo-Instruct-2407", "Mistral Nemo 12B"),
    ("mistralai/Mixtral-8x7B-v0.1", "Mixtral 8x7B"),
    ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5 7B"),
    ("Qwen/Qwen3-14B", "Qwen3 14B"),
    ("Qwen/Qwen3-32B", "Qwen3 32B"),
    ("Qwen/Qwen3-235B-A22B", "Qwen3 235B"),
    ("zai-org/GLM-4.5-Air", "GLM-4.5 Air"),
    ("microsoft/phi-4", "Phi-4 14B"),
    ("CohereLabs/c4ai-command-r-v01", "Command R (v01)"),
    ("tiiuae/falcon-7b", "Falcon 7B"),
    ("tiiuae/falcon-40b", "Falcon 40B"),
)
"""Models in which every layer keeps K and V of every token, in heads of one size."""

_WIDTH: Final = 960
_QUERY_HEIGHT: Final = 24
_WIRES_HEIGHT: Final = 76
_KV_HEIGHT: Final = 56
_LABEL_SHARE: Final = 0.12


@dataclass(frozen=True, slots=True)
class Attention:
    """A model's attention with some number of KV heads.

    Attributes:
        name: The model's short name.
        model: The model with that many KV heads.
        released: KV heads it is released with.
    """

    name: str
    model: Model
    released: int

    @property
    def query_heads(self) -> int:
        """Query heads in a layer."""
        return self.model.num_attention_heads

    @property
    def kv_heads(self) -> int:
        """KV heads in a layer."""
        return self.model.num_key_value_heads

    @property
    def group_size(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads

    @property
    def bytes_per_token(self) -> int:
        """KV bytes of one token in all layers."""
        return kv_cost(self.model).bytes_per_token

    @property
    def kind(self) -> str:
        """MHA, GQA or MQA.

        Source: Ainslie et al., GQA (2023), https://arxiv.org/abs/2305.13245, figure 2.
        """
        if self.kv_heads == self.query_heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    def with_kv_heads(self, kv_heads: int) -> Attention:
        """Return the same model with another number of KV heads."""
        layers = tuple(replace(group, num_kv_heads=kv_heads) for group in self.model.layers)
        return replace(self, model=replace(self.model, layers=layers))

    def conversations(self) -> int:
        """Conversations of 8,192 tokens in the lesson's pool."""
        return pool_bytes() // self.bytes_per_token // CONVERSATION_TOKENS


@cache
def pool_bytes() -> int:
    """Return the pool of the lesson's server, in bytes.

    Examples:
        >>> pool_bytes()
        53440000000
    """
    return size_lesson().budget.kv_bytes


def attention(model: str) -> Attention:
    """Return a catalogue model's attention as it is released.

    Examples:
        >>> attention("meta-llama/Llama-3.1-8B").kind
        'GQA'
    """
    read = get_model(model).model
    return Attention(dict(MODELS)[model], read, read.num_key_value_heads)


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors: into how many equal groups the query heads can be parted.

    Examples:
        >>> divisors(28)
        (1, 2, 4, 7, 14, 28)
    """
    return tuple(part for part in range(1, number + 1) if number % part == 0)


def _several(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _head_bytes(shape: Attention) -> int:
    return shape.bytes_per_token // (shape.model.num_layers * shape.kv_heads)


def _boxes(centres: list[float], *, top: float, width: float, height: float) -> str:
    return "".join(
        f"M{centre - width / 2:.1f} {top:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
        for centre in centres
    )


def _drawing(shape: Attention) -> Element:
    step = _WIDTH / shape.query_heads
    width = step * 0.72
    queries = [(head + 0.5) * step for head in range(shape.query_heads)]
    spread = step * shape.group_size
    keepers = [(head + 0.5) * spread for head in range(shape.kv_heads)]
    top = _QUERY_HEIGHT + _WIRES_HEIGHT
    wires = "".join(
        f"M{query:.1f} {_QUERY_HEIGHT}L{keepers[head // shape.group_size]:.1f} {top}"
        for head, query in enumerate(queries)
    )
    half = _KV_HEIGHT / 2
    return svg(
        "svg",
        svg("path", d=wires, class_="kv-wire"),
        svg(
            "path",
            d=_boxes(queries, top=1, width=width, height=_QUERY_HEIGHT - 1),
            class_="kv-head-query",
        ),
        svg("path", d=_boxes(keepers, top=top, width=width, height=half), class_="kv-layer-key"),
        svg(
            "path",
            d=_boxes(keepers, top=top + half, width=width, height=half),
            class_="kv-layer-value",
        ),
        view_box=f"0 0 {_WIDTH} {top + _KV_HEIGHT}",
        preserve_aspect_ratio="none",
        role="img",
        aria_label=(
            f"{_several(shape.query_heads, 'query head')} above"
            f" {_several(shape.kv_heads, 'KV head')};"
            f" {_several(shape.group_size, 'query head')} wired to each KV head."
        ),
    )


def _part(share: float, label: str, css: str) -> Element:
    fill = svg("svg", svg("rect", width="100%", height="100%", class_=css), aria_hidden="true")
    shown = bar_label(label, share) if share >= _LABEL_SHARE else None
    return h("div", fill, shown, class_="kv-bar-part", style=f"width:{100 * share:.4f}%")


def _bar(shape: Attention, whole: Attention) -> Element:
    share = shape.bytes_per_token / whole.bytes_per_token
    kept = format_bytes(shape.bytes_per_token, "KiB")
    saved = format_bytes(whole.bytes_per_token - shape.bytes_per_token, "KiB")
    parts = [_part(share, kept, f"kv-mem kv-mem-{MemoryKind.KV_USED.value}")]
    if share < 1:
        parts.append(_part(1 - share, f"{saved} more as MHA", "kv-saved"))
    whole_bytes = format_bytes(whole.bytes_per_token, "KiB")
    words = f"One token in all {shape.model.num_layers} layers, to scale: {kept} of {whole_bytes}."
    return h(
        "div",
        h("p", f"One token in all {shape.model.num_layers} layers", class_="kv-part-name"),
        h("div", h("div", *parts, class_="kv-bar kv-bar-low"), role="img", aria_label=words),
        h("p", f"To scale: filled = {kept}, whole bar = {whole_bytes} as MHA.", class_="kv-note"),
    )


def _picture(shape: Attention, whole: Attention) -> Element:
    kept = format_bytes(_head_bytes(shape), "B")
    share = f"{'each ' * (shape.kv_heads > 1)}shared by {shape.group_size} query heads"
    if shape.group_size == 1:
        share = "one for each query head"
    return h(
        "div",
        h(
            "p",
            f"{_several(shape.query_heads, 'query head')} of one layer (nothing of them is kept)",
            class_="kv-part-name",
        ),
        _drawing(shape),
        h("p", f"{_several(shape.kv_heads, 'KV head')}, {share}", class_="kv-part-name"),
        h(
            "p",
            f"Each KV head keeps a key (upper half) and a value (lower half) of every token:"
            f" {kept}. Equal areas are equal bytes.",
            class_="kv-note",
        ),
        _bar(shape, whole),
        class_="kv-heads",
    )


def _figures(shape: Attention, whole: Attention) -> tuple[Figure, ...]:
    group = shape.model.layers[0]
    ratio = whole.bytes_per_token / shape.bytes_per_token
    pool = format_number(pool_bytes() / GB)
    return (
        Figure(
            "kv_bytes_per_token",
            "KV bytes per token",
            f"{shape.bytes_per_token:,}",
            "B",
            f"2 × {shape.model.num_layers} layers × {shape.kv_heads} × {group.head_size} × 2 B"
            f" = {format_bytes(shape.bytes_per_token, 'KiB')}",
        ),
        Figure(
            "mha_ratio",
            "MHA would take",
            format_number(ratio),
            "times as much",
            f"{shape.query_heads} query heads ÷ {_several(shape.kv_heads, 'KV head')}",
        ),
        Figure(
            "conversations",
            f"Conversations of {CONVERSATION_TOKENS:,} tokens in the lesson's pool",
            f"{shape.conversations():,}",
            "",
            f"{pool} GB ÷ {format_bytes(shape.bytes_per_token, 'KiB')} ÷ {CONVERSATION_TOKENS:,}",
        ),
    )


def _table(shape: Attention, whole: Attention) -> Table:
    rows = []
    for kv_heads in divisors(shape.query_heads):
        other = shape.with_kv_heads(kv_heads)
        rows.append(
            (
                f"{kv_heads} ({other.kind}{_note(other)})",
                f"{other.bytes_per_token:,}",
                f"{other.bytes_per_token / whole.bytes_per_token:.1%}",
                f"{other.conversations():,}",
            )
        )
    head = ("KV heads", "Bytes per token", "Of MHA", f"Conversations of {CONVERSATION_TOKENS:,}")
    return Table(head, tuple(rows))


def _note(shape: Attention) -> str:
    return ", as released" if shape.kv_heads == shape.released else ""


def _title(shape: Attention) -> str:
    heads = f"{_several(shape.kv_heads, 'KV head')} for {shape.query_heads} query heads"
    token = f"one token takes {format_bytes(shape.bytes_per_token, 'KiB')}"
    if shape.kv_heads == shape.released:
        return f"{shape.name}, {heads} ({shape.kind}): {token}"
    return f"{shape.name} with {heads} ({shape.kind}) instead of its {shape.released}: {token}"


def _caption(shape: Attention) -> str:
    return (
        "Notice what the wires do: however many query heads ask, only the KV heads keep anything, "
        f"so the cache shrinks with them alone. {shape.name} is released with "
        f"{_several(shape.released, 'KV head')}. The pool is that of the lesson's server,"
        " whatever the model."
    )


def _python(model: str, kv_heads: int) -> str:
    return (
        "from dataclasses import replace\n\n"
        "from kvdocs.catalog import get_model\n"
        "from kvdocs.model import kv_cost\n\n"
        f"model = get_model({model!r}).model\n"
        f"layers = tuple(replace(group, num_kv_heads={kv_heads}) for group in model.layers)\n"
        "print(kv_cost(replace(model, layers=layers)).bytes_per_token)"
    )


def draw(*, model: str, num_kv_heads: int) -> View:
    """Draw a layer's query heads, its KV heads and the wires between them.

    Args:
        model: Catalogue id, one of `MODELS`.
        num_kv_heads: KV heads in each layer; a divisor of the model's query heads.
    """
    shape = attention(model).with_kv_heads(num_kv_heads)
    whole = shape.with_kv_heads(shape.query_heads)
    return View(
        title=_title(shape),
        picture=_picture(shape, whole),
        figures=_figures(shape, whole),
        caption=_caption(shape),
        table=_table(shape, whole),
        python=_python(model, num_kv_heads),
        announce=(
            f"{_several(shape.kv_heads, 'KV head')}: {shape.bytes_per_token:,} bytes per token."
        ),
    )


_MODEL: Final = Choice("model", "Model", MODELS, LESSON.model)


def controls(params: Mapping[str, str]) -> tuple[Control, ...]:
    """Return the controls for a model: its query heads can be parted by their divisors only."""
    known = dict(MODELS)
    model = params["model"] if params["model"] in known else LESSON.model
    shape = attention(model)
    heads = Steps(
        "num_kv_heads",
        "KV heads",
        divisors(shape.query_heads),
        str(shape.released),
        f"of {shape.query_heads} (released with {shape.released})",
    )
    return (_MODEL, heads)


HEADS: Final = Widget(
    name="heads",
    controls=controls({"model": LESSON.model}),
    draw=draw,
    adapt=controls,
)
