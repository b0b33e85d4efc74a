"""One token's place in the cache, drawn: a column a layer, a box a key or a value."""

from __future__ import annotations

from typing import Final

from kvdocs.html import Element, h, svg
from kvdocs.model import KVCost, LayerGroup, LayerKind, Model
from kvdocs.model.dtypes import head_bytes, latent_bytes
from kvdocs.units import format_bytes

WIDTH: Final = 960
MAX_HEIGHT: Final = 260
STATE_HEIGHT: Final = 40
SMALLEST_BOX: Final = 1.5
"""Pixels; lower boxes are drawn without lines between them."""
SCALES: Final = (16, 32, 64, 128, 256, 512, 1024)
"""Bytes per pixel of height the picture may use; the smallest that fits is taken."""

WORDS: Final = {
    LayerKind.FULL: "keeps every token",
    LayerKind.SLIDING: "keeps the last {window:,} tokens",
    LayerKind.CHUNKED: "keeps the current chunk of up to {window:,} tokens",
    LayerKind.LATENT: "keeps one latent vector of every token",
    LayerKind.RECURRENT: "keeps a state of fixed size",
    LayerKind.SHARED: "reads the cache of an earlier layer",
    LayerKind.NONE: "keeps nothing",
}
"""What a layer of each kind keeps, in words."""


def describe(group: LayerGroup) -> str:
    """Say what the layers of a group keep.

    Examples:
        >>> describe(LayerGroup(LayerKind.SLIDING, (0, 2), 8, 128, 128, window=4096))
        '2 layers, each keeps the last 4,096 tokens'
    """
    what = WORDS[group.kind].format(window=group.window)
    return f"{group.count} layers, each {what}" if group.count > 1 else f"1 layer {what}"


def layer_token_bytes(group: LayerGroup, kv_cache_dtype: str) -> tuple[int, ...]:
    """Bytes of each vector one layer of the group writes for a token.

    Keys, then values, by head; of a latent the part without position and the part with it.

    Args:
        group: The layers.
        kv_cache_dtype: Resolved cache dtype.

    Returns:
        One entry a box of the picture; empty when the layer writes none.
    """
    if group.kind is LayerKind.LATENT:
        whole = latent_bytes(kv_cache_dtype, group.head_size)
        rope = round(whole * group.rope_head_size / group.head_size)
        return (whole - rope, rope)
    if group.num_kv_heads == 0:
        return ()
    pair = head_bytes(kv_cache_dtype, group.head_size, group.head_size_v)
    key = round(pair * group.head_size / (group.head_size + group.head_size_v))
    return (key,) * group.num_kv_heads + (pair - key,) * group.num_kv_heads


def bytes_per_pixel(tallest: int) -> int:
    """Return the scale at which the tallest column still fits.

    Examples:
        >>> bytes_per_pixel(4096), bytes_per_pixel(32768)
        (16, 128)
    """
    return next((scale for scale in SCALES if tallest <= scale * MAX_HEIGHT), SCALES[-1])


def _runs(positions: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return runs of neighbouring columns as first and count.

    Examples:
        >>> _runs((0, 1, 2, 5))
        [(0, 3), (5, 1)]
    """
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and sum(runs[-1]) == position:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    return runs


def _columns(group: LayerGroup, *, top: float, height: float, step: float, name: str) -> Element:
    """Draw one box of the given height in every column of the group."""
    width = step * 0.86
    path = "".join(
        f"M{position * step:.1f} {top:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
        for position in group.positions
    )
    windowed = " kv-layer-windowed" if group.window else ""
    return svg("path", d=path, class_=f"kv-layer-{name}{windowed}")


def _separators(
    group: LayerGroup, sizes: tuple[int, ...], step: float, scale: int
) -> Element | None:
    """Draw the lines between heads, across each run of neighbouring columns."""
    if len(sizes) < 2 or min(sizes) / scale < SMALLEST_BOX:
        return None
    ends = [sum(sizes[: index + 1]) / scale for index in range(len(sizes) - 1)]
    lines = (
        f"M{first * step:.1f} {end:.1f}h{count * step:.1f}"
        for first, count in _runs(group.positions)
        for end in ends
    )
    return svg("path", d="".join(lines), class_="kv-layer-line")


def _latent(group: LayerGroup, sizes: tuple[int, ...], step: float, scale: int) -> list[Element]:
    """Draw a latent, the part of it that carries the position, and a sparse indexer's key."""
    parts = ("key", sizes[0]), ("value", sizes[1]), ("indexer", group.indexer_bytes_per_token)
    drawn, top = [], 0.0
    for name, size in parts:
        if size:
            drawn.append(_columns(group, top=top, height=size / scale, step=step, name=name))
        top += size / scale
    return drawn


def _group(group: LayerGroup, sizes: tuple[int, ...], step: float, scale: int) -> list[Element]:
    if group.kind is LayerKind.RECURRENT:
        return [_columns(group, top=1, height=STATE_HEIGHT - 2, step=step, name="recurrent")]
    if not sizes:
        return [_columns(group, top=0, height=0, step=step, name="none")]
    if group.kind is LayerKind.LATENT:
        return _latent(group, sizes, step, scale)
    middle = len(sizes) // 2
    keys, values = sum(sizes[:middle]) / scale, sum(sizes[middle:]) / scale
    drawn = (
        _columns(group, top=0, height=keys, step=step, name="key"),
        _columns(group, top=keys, height=values, step=step, name="value"),
        _separators(group, sizes, step, scale),
    )
    return [element for element in drawn if element is not None]


def footprint(model: Model, cost: KVCost) -> Element:
    """Draw what one token writes into the cache.

    Args:
        model: The model.
        cost: Its cost in the cache dtype to draw.
    """
    sizes = [layer_token_bytes(group, cost.kv_cache_dtype) for group in model.layers]
    tallest = max(
        (
            sum(column) + group.indexer_bytes_per_token
            for group, column in zip(model.layers, sizes, strict=True)
        ),
        default=0,
    )
    scale = bytes_per_pixel(tallest)
    height = max(tallest / scale, STATE_HEIGHT if model.has_recurrent_state else 4)
    step = WIDTH / model.num_layers
    drawn = (
        element
        for group, column in zip(model.layers, sizes, strict=True)
        for element in _group(group, column, step, scale)
    )
    words = "; ".join(describe(group) for group in model.layers)
    picture = svg(
        "svg",
        *drawn,
        view_box=f"0 0 {WIDTH} {height:.1f}",
        preserve_aspect_ratio="none",
        style=f"height:{height:.0f}px",
        role="img",
        aria_label=f"One token's place in the cache of {model.num_layers} layers: {words}.",
    )
    return h(
        "div", picture, h("p", _scale_note(model, scale), class_="kv-note"), class_="kv-footprint"
    )


def _scale_note(model: Model, scale: int) -> str:
    """Say what a column and a box of this model's picture are."""
    pixel = f"1 px = {format_bytes(scale, 'B')}"
    latent = model.group(LayerKind.LATENT)
    says = (
        (
            model.num_key_value_heads and not latent,
            f"Each box = one head's key (upper half) or value (lower half), {pixel} of height.",
        ),
        (
            latent,
            f"Dark = the latent, light = its part with the position (rope), {pixel} of height.",
        ),
        (
            any(group.indexer_bytes_per_token for group in latent),
            "Outlined below = the key of the sparse indexer.",
        ),
        (any(group.window for group in model.layers), "Pale = kept inside the window only."),
        (model.has_recurrent_state, "Outlined, not to scale = a state of fixed size."),
        (
            model.group(LayerKind.SHARED),
            "A line alone = a layer that reads the cache of an earlier one.",
        ),
        (model.group(LayerKind.NONE), "A line alone = a layer that keeps nothing."),
    )
    chosen = (sentence for holds, sentence in says if holds)
    return " ".join(("One column = one layer, first to last.", *chosen))
