"""Widget `block-map`: every block of a small pool, who holds it, and who gets it next."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

from kvdocs.engine import EngineConfig, RequestSpec, Segment, SegmentPrompt
from kvdocs.html import Element, h
from kvdocs.widgets.blocks_view import Cell, block_key, block_map, letter, sample
from kvdocs.widgets.controls import Choice, Steps
from kvdocs.widgets.engine_run import EngineRun, Frame
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.step_words import names, sentences
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

BLOCK: Final = 16
LAST_STEP: Final = 80
SYSTEM_TOKENS: Final = 2 * BLOCK
"""The system prompt that all requests begin with: two blocks."""
ASKED: Final = (
    # tokens of the question, tokens of the answer, step of arrival
    (20, 30, 0),
    (44, 22, 2),
    (9, 34, 5),
    (28, 26, 9),
    (70, 18, 14),
    (15, 40, 22),
    (33, 28, 30),
    (52, 24, 38),
    (12, 30, 46),
    (40, 20, 54),
)
"""The requests A to J. One more, A+, quotes the first and its answer."""
AGAIN_STEP: Final = 44


def requests() -> tuple[RequestSpec, ...]:
    """Return ten questions behind one system prompt, and a second turn of the first."""
    system = Segment("system", SYSTEM_TOKENS)
    specs = [
        RequestSpec(
            id=letter(index),
            prompt=SegmentPrompt(
                [system, Segment(letter(index), tokens)], output_source=letter(index) + ":"
            ),
            max_tokens=output,
            arrival=float(arrival),
        )
        for index, (tokens, output, arrival) in enumerate(ASKED)
    ]
    question, answer, _ = ASKED[0]
    parts = [system, Segment("A", question), Segment("A:", answer, start=SYSTEM_TOKENS + question)]
    prompt = SegmentPrompt([*parts, Segment("A+", 12)])
    return (*specs, RequestSpec(id="A+", prompt=prompt, max_tokens=24, arrival=float(AGAIN_STEP)))


@lru_cache(maxsize=2)
def run(num_blocks: int, *, caching: bool = True) -> EngineRun:
    """Return the workload on an engine.

    Args:
        num_blocks: Blocks that requests can hold; the null block comes on top.
        caching: Whether prefix caching is on.

    Examples:
        >>> sum(run(24).frame(54).ref_counts) > 24  # some blocks have several holders
        True
    """
    config = EngineConfig(num_blocks=num_blocks + 1, max_num_seqs=8, enable_prefix_caching=caching)
    return EngineRun(config, requests())


class Contents:
    """What lies in each block after a step.

    Args:
        run: The run.
        step: The step.

    Attributes:
        frame: The engine after the step.
        holders: Ids of the requests that hold each block.
        labels: What each block holds or caches: `S1`, a block of the system prompt; `B3`, the third
            block of B.
    """

    def __init__(self, run: EngineRun, step: int) -> None:
        self.labels: dict[int, str] = {}
        for frame in run.frames(step + 1):
            for name, taken in frame.step.new_blocks.items():
                table = frame.tables.get(name, ())
                self.labels |= {block: _label(name, table.index(block)) for block in taken if table}
        self.frame = run.frame(step)
        self.holders: dict[int, list[str]] = {}
        for name, table in self.frame.tables.items():
            for block in table:
                self.holders.setdefault(block, []).append(name)

    def fill(self, block: int) -> float:
        """Share of a held block that holds tokens."""
        name = self.holders[block][0]
        place = self.frame.tables[name].index(block)
        return max(0, min(BLOCK, self.frame.computed[name] - place * BLOCK)) / BLOCK

    def cell(self, block: int) -> Cell:
        """Return a block as it is drawn."""
        frame = self.frame
        label = self.labels.get(block, "")
        holders = self.holders.get(block, [])
        new = any(block in taken for taken in frame.step.new_blocks.values())
        if len(holders) > 1:
            return Cell(kind=MemoryKind.SHARED, label=label, count=len(holders))
        if holders:
            name = holders[0]
            return Cell(
                kind=MemoryKind.KV_USED,
                label=_label(name, frame.tables[name].index(block)),
                owner=_owner(name),
                fill=self.fill(block),
                new=new,
            )
        place = frame.free.index(block) + 1
        note = f"{place}" if place <= NEXT else ""
        if block in frame.cached:
            return Cell(kind=MemoryKind.KV_CACHED, label=label, note=note)
        return Cell(kind=MemoryKind.KV_FREE, note=note)


NEXT: Final = 3
"""Free blocks whose place in the queue is shown."""


def _owner(name: str) -> int:
    """Number of a request; a second turn has the hue of the first."""
    return "ABCDEFGHIJ".index(name[0])


def _label(name: str, place: int) -> str:
    return f"S{place + 1}" if place < SYSTEM_TOKENS // BLOCK else f"{name}{place + 1}"


def _counts(contents: Contents, num_blocks: int) -> Counter[MemoryKind]:
    cells = (contents.cell(block) for block in range(1, num_blocks + 1))
    return Counter(cell.kind for cell in cells)


def _key() -> Element:
    return block_key(
        sample(
            Cell(kind=MemoryKind.KV_USED, label="B3", owner=1, fill=0.5),
            "B's third block, half full",
        ),
        sample(Cell(kind=MemoryKind.SHARED, label="S1", count=3), "shared: 3 requests hold it"),
        sample(Cell(kind=MemoryKind.KV_CACHED, label="A4"), "cached but free"),
        sample(Cell(kind=MemoryKind.KV_FREE), "free"),
        sample(
            Cell(kind=MemoryKind.KV_CACHED, label="A4", note="1"), "1, 2, 3: the next to be taken"
        ),
    )


def _events(frame: Frame) -> Element:
    return h("ul", *(h("li", sentence) for sentence in sentences(frame)), class_="kv-events")


def _picture(contents: Contents, num_blocks: int, counts: Counter[MemoryKind]) -> Element:
    words = (
        f"{num_blocks} blocks: {counts[MemoryKind.KV_USED]} held by one request, "
        f"{counts[MemoryKind.SHARED]} shared, {counts[MemoryKind.KV_CACHED]} cached but free, "
        f"{counts[MemoryKind.KV_FREE]} free."
    )
    cells = (contents.cell(block) for block in range(1, num_blocks + 1))
    return h(
        "div",
        block_map(cells, label=words, columns=12),
        h("p", f"One cell = one block of {BLOCK} tokens.", class_="kv-note"),
        _key(),
        h("p", "In this step", class_="kv-part-name"),
        _events(contents.frame),
    )


def _figures(frame: Frame, counts: Counter[MemoryKind], num_blocks: int) -> tuple[Figure, ...]:
    held = counts[MemoryKind.KV_USED] + counts[MemoryKind.SHARED]
    counters = frame.counters
    hits, queries = counters.prefix_cache_hits, counters.prefix_cache_queries
    return (
        Figure(
            "held_blocks",
            "Blocks held",
            f"{held}",
            f"of {num_blocks}",
            f"{counts[MemoryKind.KV_USED]} by one request + {counts[MemoryKind.SHARED]} shared",
        ),
        Figure(
            "saved_blocks",
            "Blocks saved by sharing",
            f"{sum(frame.ref_counts) - held}",
            "",
            f"{sum(frame.ref_counts)} in the block tables − {held} held",
        ),
        Figure(
            "hit_rate",
            "Prefix hits so far",
            f"{100 * hits / queries:.0f}" if queries else "0",
            "%",
            f"{hits:,} of {queries:,} prompt tokens",
        ),
    )


def _table(contents: Contents, num_blocks: int) -> Table:
    rows = []
    for block in range(1, num_blocks + 1):
        cell = contents.cell(block)
        holders = contents.holders.get(block, [])
        tokens = round(cell.fill * BLOCK) if holders else 0
        rows.append(
            (
                str(block),
                cell.kind.word,
                cell.label or "–",
                names(tuple(holders)) or "–",
                str(tokens),
            )
        )
    return Table(("Block", "State", "Holds or caches", "Held by", "Tokens"), tuple(rows))


def _title(frame: Frame, counts: Counter[MemoryKind], num_blocks: int) -> str:
    held = counts[MemoryKind.KV_USED] + counts[MemoryKind.SHARED]
    if frame.step.preemptions:
        victims = tuple(lost.request_id for lost in frame.step.preemptions)
        return f"The pool is full: {names(victims)} must go"
    waiting = len(frame.waiting)
    queue = f"; {waiting} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    return (
        f"{held} of {num_blocks} blocks are held, {counts[MemoryKind.KV_CACHED]} are free and "
        f"still cached{queue}"
    )


def draw(*, step: int, num_blocks: int, caching: str) -> View:
    """Draw the pool after a step.

    Args:
        step: The step, from 0.
        num_blocks: Blocks in the pool.
        caching: `on` or `off`: prefix caching.
    """
    contents = Contents(run(num_blocks, caching=caching == "on"), step)
    counts = _counts(contents, num_blocks)
    told = sentences(contents.frame)
    return View(
        title=_title(contents.frame, counts, num_blocks),
        picture=_picture(contents, num_blocks, counts),
        figures=_figures(contents.frame, counts, num_blocks),
        caption=(
            "Notice the three states of a block. Held: somebody's block table names it. Free "
            "and cached: nobody holds it, but the next request with the same beginning takes it "
            "back. Free: it holds nothing that anybody could ask for, so it is taken first."
        ),
        table=_table(contents, num_blocks),
        python=(
            "from kvdocs.widgets.block_map import run\n\n"
            f"frame = run({num_blocks}, caching={caching == 'on'}).frame({step})\n"
            "print(sum(count > 0 for count in frame.ref_counts))"
        ),
        announce=f"Step {step}. {told[0]}",
    )


BLOCK_MAP: Final = Widget(
    name="block-map",
    controls=(
        Timeline(name="step", label="Step", maximum=LAST_STEP, default="44", interval_ms=600),
        Steps("num_blocks", "Blocks in the pool", (12, 16, 24, 36, 48), "24"),
        Choice("caching", "Prefix caching", (("on", "on (vLLM's default)"), ("off", "off")), "on"),
    ),
    draw=draw,
)
