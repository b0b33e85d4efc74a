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
    """Bytes of each vector one layer of the group writes for a token: keys and values by head.

    Args:
        group: The layers.
        kv_cache_dtype: Resolved cache dtype.

    Returns:
        One entry a box of the picture; empty when the layer writes none.
    """
    if group.kind is LayerKind.LATENT:
        return (latent_bytes(kv_cache_dtype, group.head_size, group.rope_head_size),)
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


def _column(
    group: LayerGroup, sizes: tuple[int, ...], x: float, width: float, scale: int
) -> list[Element]:
    if group.kind is LayerKind.RECURRENT:
        box = svg(
            "rect",
            x=f"{x:.1f}",
            y=0,
            width=f"{width:.1f}",
            height=STATE_HEIGHT,
            class_="kv-layer-recurrent",
        )
        return [box]
    boxes = []
    y = 0.0
    for index, size in enumerate(sizes):
        part = (
            "latent"
            if group.kind is LayerKind.LATENT
            else "key"
            if index < len(sizes) / 2
            else "value"
        )
        windowed = " kv-layer-windowed" if group.window else ""
        height = size / scale
        boxes.append(
            svg(
                "rect",
                x=f"{x:.1f}",
                y=f"{y:.2f}",
                width=f"{width:.1f}",
                height=f"{height:.2f}",
                class_=f"kv-layer-{part}{windowed}",
            )
        )
        y += height
    return boxes


def footprint(model: Model, cost: KVCost) -> Element:
    """Draw what one token writes into the cache.

    Args:
        model: The model.
        cost: Its cost in the cache dtype to draw.
    """
    sizes = {id(group): layer_token_bytes(group, cost.kv_cache_dtype) for group in model.layers}
    tallest = max((sum(column) for column in sizes.values()), default=0)
    scale = bytes_per_pixel(tallest)
    has_state = any(group.kind is LayerKind.RECURRENT for group in model.layers)
    height = max(tallest / scale, STATE_HEIGHT if has_state else 4)
    step = WIDTH / model.num_layers
    columns = [
        box
        for group in model.layers
        for position in group.positions
        for box in _column(group, sizes[id(group)], position * step, step * 0.86, scale)
    ]
    words = "; ".join(describe(group) for group in model.layers)
    return h(
        "div",
        svg(
            "svg",
            *columns,
            view_box=f"0 0 {WIDTH} {height:.1f}",
            preserve_aspect_ratio="none",
            style=f"height:{height:.0f}px",
            role="img",
            aria_label=f"One token's place in the cache of {model.num_layers} layers: {words}.",
        ),
        h(
            "p",
            f"One column = one layer, first to last. Each box = one head's key (upper half) or value (lower half); "
            f"its height is its bytes, 1 px = {format_bytes(scale, 'B')}.",
            class_="kv-note",
        ),
        class_="kv-footprint",
    )
