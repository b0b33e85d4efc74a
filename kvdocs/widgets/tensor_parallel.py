"""Widget `tensor-parallel`: the same four GPUs, with grouped KV heads and as if there were none."""

from __future__ import annotations

from typing import Final

from kvdocs.html import Element, h
from kvdocs.scenario import (
    CONVERSATION_TOKENS,
    TP_RESERVE_BYTES,
    TP_SIZE,
    LessonSize70B,
    size_lesson_70b,
)
from kvdocs.units import GB, KIB, format_number
from kvdocs.widgets.controls import Range
from kvdocs.widgets.memory import MemoryKind, swatch
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

GQA_HEADS: Final = 8
MHA_HEADS: Final = 64


def _gpu(size: LessonSize70B, number: int) -> Element:
    """Draw one GPU's quarter of everything, to scale."""
    parts = (
        (MemoryKind.WEIGHTS, size.weights_bytes),
        (MemoryKind.WORKSPACE, size.reserved_bytes),
        (MemoryKind.KV_FREE, max(0.0, size.pool_bytes)),
        (MemoryKind.UNTOUCHED, size.total_bytes - size.requested_bytes),
    )
    bars = (
        h(
            "div",
            h("div", class_=f"kv-fill kv-fill-{kind.value}"),
            h("span", format_number(num_bytes / TP_SIZE / GB, 1), class_="kv-bar-label"),
            class_="kv-bar-part",
            style=f"width:{100 * num_bytes / size.total_bytes:.3f}%",
        )
        for kind, num_bytes in parts
    )
    return h(
        "div",
        h("span", f"GPU {number}", class_="kv-gpu-name"),
        h("div", *bars, class_="kv-bar kv-bar-low"),
        class_="kv-gpu",
    )


def _conversations(size: LessonSize70B) -> Element:
    """Draw the four GPUs' pool together as conversations of equal size, to scale."""
    share = 100 * size.conversation_bytes / size.pool_bytes if size.pool_bytes > 0 else 0.0
    boxes = (
        h("i", style=f"width:{share:.4f}%", class_="kv-conversation")
        for _ in range(size.conversations)
    )
    return h("div", *boxes, class_="kv-conversations")


def _both(gqa: LessonSize70B, mha: LessonSize70B) -> Element:
    rows = []
    for heads, size in ((GQA_HEADS, gqa), (MHA_HEADS, mha)):
        name = "GQA, as released" if heads == GQA_HEADS else "as if MHA"
        rows.append(
            h(
                "div",
                h(
                    "p",
                    h(
                        "span",
                        f"{heads} KV heads ({name}): {size.bytes_per_token // KIB:,} KiB a token",
                    ),
                    h("b", f"{size.conversations} conversations"),
                    class_="kv-strip-name",
                ),
                _conversations(size),
            )
        )
    return h("div", *rows, class_="kv-both")


def _picture(size: LessonSize70B, mha: LessonSize70B) -> Element:
    words = (
        f"Four GPUs, each with {format_number(size.weights_bytes / TP_SIZE / GB, 1)} GB of "
        f"weights and {format_number(max(0, size.pool_bytes) / TP_SIZE / GB, 1)} GB of KV pool. "
        f"The pools together hold {size.conversations} conversations with {GQA_HEADS} KV heads "
        f"and {mha.conversations} with {MHA_HEADS}."
    )
    gpus = (_gpu(size, number) for number in range(TP_SIZE))
    key = h(
        "ul",
        h("li", swatch(MemoryKind.WEIGHTS), h("span", "weights")),
        h(
            "li",
            swatch(MemoryKind.WORKSPACE),
            h("span", "workspace, CUDA context, NCCL and graph buffers"),
        ),
        h("li", swatch(MemoryKind.KV_FREE), h("span", "KV pool")),
        h("li", swatch(MemoryKind.UNTOUCHED), h("span", "untouched")),
        class_="kv-key",
    )
    pool = format_number(max(0, size.pool_bytes) / GB, 1)
    return h(
        "div",
        h(
            "div",
            h("div", *gpus, class_="kv-gpus"),
            h("p", "One bar = one GPU of 80 GB, to scale; numbers in GB.", class_="kv-note"),
            key,
            h(
                "p",
                f"The four pools together: {pool} GB. One box = one conversation of "
                f"{CONVERSATION_TOKENS:,} tokens, to scale.",
                class_="kv-part-name",
            ),
            _both(size, mha),
            role="img",
            aria_label=words,
        ),
        class_="kv-tp",
    )


def _figures(gqa: LessonSize70B, mha: LessonSize70B) -> tuple[Figure, ...]:
    pool = format_number(max(0, gqa.pool_bytes) / GB, 1)
    terms = (gqa.requested_bytes, gqa.weights_bytes, gqa.reserved_bytes)
    return (
        Figure(
            "conversations_gqa",
            f"At once with {GQA_HEADS} KV heads",
            f"{gqa.conversations:,}",
            "conversations",
            f"{pool} GB ÷ {format_number(gqa.conversation_bytes / GB)} GB",
        ),
        Figure(
            "conversations_mha",
            f"At once with {MHA_HEADS} KV heads",
            f"{mha.conversations:,}",
            "conversations",
            f"{pool} GB ÷ {format_number(mha.conversation_bytes / GB)} GB",
        ),
        Figure(
            "pool_bytes",
            "KV pool of the four GPUs",
            pool,
            "GB",
            " − ".join(format_number(num_bytes / GB, 1) for num_bytes in terms) + " GB",
        ),
    )


def _table(gqa: LessonSize70B, mha: LessonSize70B) -> Table:
    return Table(
        ("KV heads", "KiB per token", "GB per conversation", "Conversations at once"),
        tuple(
            (
                str(heads),
                f"{size.bytes_per_token // KIB:,}",
                format_number(size.conversation_bytes / GB),
                f"{size.conversations:,}",
            )
            for heads, size in ((GQA_HEADS, gqa), (MHA_HEADS, mha))
        ),
    )


def draw(*, reserve: float) -> View:
    """Draw Llama 3.1 70B on four GPUs.

    Args:
        reserve: GB per GPU for NCCL and CUDA-graph buffers.
    """
    reserve_bytes = reserve * GB
    gqa = size_lesson_70b(num_kv_heads=GQA_HEADS, reserve_bytes=reserve_bytes)
    mha = size_lesson_70b(num_kv_heads=MHA_HEADS, reserve_bytes=reserve_bytes)
    return View(
        title=(
            f"The same four GPUs hold {gqa.conversations} long conversations with grouped KV "
            f"heads, {mha.conversations} without"
        ),
        picture=_picture(gqa, mha),
        figures=_figures(gqa, mha),
        caption=(
            "Notice that the pool is the same in both rows: grouping the heads buys no memory, "
            "it makes each token an eighth of the size. The buffers that NCCL and CUDA graphs "
            "take are this lesson's assumption; move it to what your server reports."
        ),
        table=_table(gqa, mha),
        python=(
            "from kvdocs.scenario import size_lesson_70b\n\n"
            f"print(size_lesson_70b(reserve_bytes={reserve_bytes:g}).conversations)"
        ),
        announce=f"{gqa.conversations} conversations with GQA, {mha.conversations} as if MHA.",
    )


TENSOR_PARALLEL: Final = Widget(
    name="tensor-parallel",
    controls=(
        Range(
            "reserve",
            "NCCL and CUDA-graph buffers, each GPU",
            minimum=0,
            maximum=6,
            step=0.1,
            default=f"{TP_RESERVE_BYTES / GB:g}",
            unit="GB",
            digits=1,
        ),
    ),
    draw=draw,
)
