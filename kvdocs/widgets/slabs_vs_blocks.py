"""Widget `slabs-vs-blocks`: one workload, once on reserved slabs and once on blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from kvdocs.allocators import ContiguousAllocator, PagedAllocator
from kvdocs.html import Element, h
from kvdocs.widgets.blocks_view import Cell, block_key, block_map, hue, letter, sample
from kvdocs.widgets.controls import Steps
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.slab_run import NUM_REQUESTS, Frame, SlabRun, workload
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

CAPACITY: Final = 1024
"""Tokens of both memories."""
BLOCK: Final = 16
"""Tokens in a block, and in a cell of both pictures."""
LAST_STEP: Final = 120


class Pair(NamedTuple):
    """The same workload on both allocators."""

    slabs: SlabRun
    blocks: SlabRun


@lru_cache(maxsize=2)
def pair(max_model_len: int) -> Pair:
    """Return the runs for a `--max-model-len`.

    Examples:
        >>> both = pair(256)
        >>> both.slabs.frame(20).usage.reserved, len(both.slabs.frame(20).running)
        (1024, 4)
    """
    asked = workload(128)
    return Pair(
        SlabRun(lambda: ContiguousAllocator(CAPACITY, max_model_len=max_model_len), asked),
        SlabRun(lambda: PagedAllocator(CAPACITY, block_size=BLOCK), asked),
    )


def _slab_owner(frame: Frame) -> list[tuple[int, int] | None]:
    """Return who has each cell of the slabs, and how many tokens of its lie there."""
    cells: list[tuple[int, int] | None] = [None] * (CAPACITY // BLOCK)
    for number, extents in frame.extents.items():
        left = frame.tokens[number]
        for place in (start for extent in extents for start in extent[::BLOCK]):
            cells[place // BLOCK] = (number, max(0, min(BLOCK, left)))
            left -= BLOCK
    return cells


def _cells(frame: Frame) -> Iterator[Cell]:
    for held in _slab_owner(frame):
        if held is None:
            yield Cell(kind=MemoryKind.KV_FREE)
        else:
            number, tokens = held
            yield Cell(
                kind=MemoryKind.KV_USED, label=letter(number), owner=number, fill=tokens / BLOCK
            )


def _block_table(frame: Frame) -> Element:
    """Return the block table of each request: places of its blocks, in the order of its tokens."""
    rows = (
        h(
            "li",
            h("b", letter(number), class_=f"kv-chip {hue(number)}"),
            h("span", " ".join(str(extent.start // BLOCK) for extent in extents)),
        )
        for number, extents in frame.extents.items()
    )
    return h("ul", *rows, class_="kv-block-tables")


def _slab_table(frame: Frame) -> Element:
    rows = (
        h(
            "li",
            h("b", letter(number), class_=f"kv-chip {hue(number)}"),
            h("span", f"cells {extent.start // BLOCK} to {extent.stop // BLOCK - 1}"),
        )
        for number, (extent,) in frame.extents.items()
    )
    return h("ul", *rows, class_="kv-block-tables")


def _panel(name: str, frame: Frame, table_name: str, table: Element) -> Element:
    usage = frame.usage
    waiting = " ".join(letter(number) for number in frame.waiting) or "nobody"
    words = (
        f"{name}: {len(frame.running)} requests running, {len(frame.waiting)} waiting; "
        f"{usage.reserved:,} of {usage.capacity:,} tokens reserved, {usage.used:,} used."
    )
    return h(
        "div",
        h(
            "p",
            h("span", name),
            h("b", f"{len(frame.running)} running, {len(frame.waiting)} waiting"),
            class_="kv-strip-name",
        ),
        block_map(_cells(frame), label=words, columns=16),
        h("p", f"Waiting: {waiting}", class_="kv-waiting"),
        h("p", table_name, class_="kv-part-name"),
        table,
        class_="kv-panel",
    )


def _picture(slabs: Frame, blocks: Frame, max_model_len: int) -> Element:
    key = block_key(
        sample(Cell(kind=MemoryKind.KV_USED, label="A", owner=0), "holds tokens of request A"),
        sample(
            Cell(kind=MemoryKind.KV_USED, label="A", owner=0, fill=0.0),
            "reserved for A, holds nothing",
        ),
        sample(Cell(kind=MemoryKind.KV_FREE), "free"),
    )
    return h(
        "div",
        h(
            "div",
            _panel(
                f"Slabs of {max_model_len:,} tokens",
                slabs,
                "Where each slab lies",
                _slab_table(slabs),
            ),
            _panel(f"Blocks of {BLOCK} tokens", blocks, "Block tables", _block_table(blocks)),
            class_="kv-panels",
        ),
        h(
            "p",
            f"Both memories hold {CAPACITY:,} tokens. One cell = {BLOCK} tokens.",
            class_="kv-note",
        ),
        key,
    )


def _still_to_come(frame: Frame) -> str:
    """Who is not in the picture yet; the same on both sides."""
    missing = NUM_REQUESTS - len(frame.running) - len(frame.waiting) - frame.finished
    return f"; {missing} {'has' if missing == 1 else 'have'} not arrived yet" if missing else ""


def _figures(slabs: Frame, blocks: Frame) -> tuple[Figure, ...]:
    return (
        Figure(
            "wasted_slabs",
            "Reserved and empty, slabs",
            f"{slabs.usage.wasted:,}",
            "tokens",
            f"{slabs.usage.reserved:,} reserved − {slabs.usage.used:,} used",
        ),
        Figure(
            "wasted_blocks",
            "Reserved and empty, blocks",
            f"{blocks.usage.wasted:,}",
            "tokens",
            f"{blocks.usage.reserved:,} − {blocks.usage.used:,}; under {BLOCK} for each of "
            f"{len(blocks.running)}",
        ),
        Figure(
            "running",
            "Running, slabs and blocks",
            f"{len(slabs.running)} and {len(blocks.running)}",
            "requests",
            f"of the same {NUM_REQUESTS}; done so far: {slabs.finished} and {blocks.finished}"
            f"{_still_to_come(slabs)}",
        ),
    )


def _table(both: Pair, step: int) -> Table:
    rows = []
    for name, run in (("slabs", both.slabs), ("blocks", both.blocks)):
        frame = run.frame(step)
        for number in frame.running:
            places = " ".join(str(extent.start // BLOCK) for extent in frame.extents[number])
            reserved = sum(len(extent) for extent in frame.extents[number])
            rows.append(
                (f"{name}: {letter(number)}", str(frame.tokens[number]), str(reserved), places)
            )
    head = ("Request", "Tokens stored", "Tokens reserved", "Cell where each piece begins")
    return Table(head, tuple(rows) or (("nobody", "0", "0", ""),))


def draw(*, step: int, max_model_len: int) -> View:
    """Draw both memories after a step.

    Args:
        step: The step, from 0.
        max_model_len: `--max-model-len`: tokens in a slab.
    """
    both = pair(max_model_len)
    slabs, blocks = both.slabs.frame(step), both.blocks.frame(step)
    share = slabs.usage.wasted / slabs.usage.reserved if slabs.usage.reserved else 0.0
    return View(
        title=(
            f"At once: {len(slabs.running)} in slabs, {len(blocks.running)} in blocks; "
            f"{share:.0%} of what the slabs reserve holds nothing"
        ),
        picture=_picture(slabs, blocks, max_model_len),
        figures=_figures(slabs, blocks),
        caption=(
            "Notice who sets the limit. A slab must be as long as the longest request that is "
            "allowed, however short the request turns out; raise the limit and fewer run. Blocks "
            "are taken as tokens come, from wherever one is free, and only the last block of "
            "each request is partly empty."
        ),
        table=_table(both, step),
        python=(
            "from kvdocs.widgets.slabs_vs_blocks import pair\n\n"
            f"print(pair({max_model_len}).slabs.frame({step}).usage.wasted)"
        ),
        announce=(
            f"Step {step}: slabs run {len(slabs.running)}, blocks {len(blocks.running)}; "
            f"slabs waste {slabs.usage.wasted:,} tokens, blocks {blocks.usage.wasted:,}."
        ),
    )


SLABS_VS_BLOCKS: Final = Widget(
    name="slabs-vs-blocks",
    controls=(
        Timeline(name="step", label="Step", maximum=LAST_STEP, default="40"),
        Steps("max_model_len", "--max-model-len", (128, 256, 512, 1024), "256", unit="tokens"),
    ),
    draw=draw,
)
