"""Widget `prefix-tree`: many questions about one repository, as the tree of their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, cast

from kvdocs.blocks import ROOT_HASH
from kvdocs.engine import EngineConfig, RequestSpec, Segment, SegmentPrompt, SteppingEngine
from kvdocs.html import Element, h
from kvdocs.units import format_number
from kvdocs.widgets.blocks_view import Cell, block_key, letter, sample
from kvdocs.widgets.controls import Choice, Range
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

BLOCK: Final = 16
SYSTEM: Final = 2 * BLOCK
REPOSITORY: Final = 6 * BLOCK
QUESTION: Final = 20
"""Tokens of a question: one full block, and four tokens that are in no full block."""
BREAKS: Final = (
    ("none", "nothing: all begin alike"),
    ("one", "the first token of question B's prompt"),
    ("all", "the first token of every prompt (a time stamp)"),
    ("middle", "a token between system prompt and repository, in all"),
)


def prompt(number: int, broken: str) -> SegmentPrompt:
    """Return a question's prompt: system prompt, repository, question.

    Args:
        number: Which question, from 0.
        broken: Which token differs, as in `BREAKS`.
    """
    stamp = Segment(f"stamp {number}", 1)
    system, repository = Segment("system", SYSTEM), Segment("repository", REPOSITORY)
    question = Segment(f"question {number}", QUESTION)
    if broken == "all" or (broken == "one" and number == 1):
        parts = [stamp, Segment("system", SYSTEM - 1, start=1), repository]
    elif broken == "middle":
        parts = [system, stamp, Segment("repository", REPOSITORY - 1, start=1)]
    else:
        parts = [system, repository]
    return SegmentPrompt([*parts, question])


def block_keys(number: int, broken: str) -> tuple[bytes, ...]:
    """Return the chained hashes of a prompt's full blocks.

    Args:
        number: Which question, from 0.
        broken: Which token differs, as in `BREAKS`.
    """
    asked, parent = prompt(number, broken), ROOT_HASH
    keys: list[bytes] = []
    for index in range(asked.num_tokens // BLOCK):
        key = asked.block_key(index, block_size=BLOCK, parent=parent, salt="")
        parent = cast("bytes", key)
        keys.append(parent)
    return tuple(keys)


@dataclass(slots=True)
class Node:
    """A block of the tree.

    Attributes:
        key: Its chained hash; the root has none.
        place: Its place in the prompt, from 0.
        holders: Numbers of the requests whose prompt has it.
        children: The blocks that follow it, by hash.
    """

    key: bytes = b""
    place: int = -1
    holders: list[int] = field(default_factory=list)
    children: dict[bytes, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """What the pool holds when all questions are being answered.

    Attributes:
        root: The tree of blocks.
        stored: Different full blocks.
        full_blocks: Full blocks of all prompts together.
        hit_tokens: Prompt tokens found in the cache.
        prompt_tokens: Prompt tokens of all.
        changed: Blocks of the changed prompts whose hash differs from that of the unchanged prompt.
    """

    root: Node
    stored: int
    full_blocks: int
    hit_tokens: int
    prompt_tokens: int
    changed: int


def _tree(keys: Sequence[Sequence[bytes]]) -> tuple[Node, int]:
    root, stored = Node(), 0
    for number, chain in enumerate(keys):
        node = root
        for place, key in enumerate(chain):
            if key not in node.children:
                node.children[key] = Node(key, place)
                stored += 1
            node = node.children[key]
            node.holders.append(number)
    return root, stored


def _hits(questions: int, broken: str) -> tuple[int, int]:
    """Ask the engine itself: one question after the other, all still being answered."""
    engine = SteppingEngine(EngineConfig(num_blocks=256, max_num_seqs=questions))
    for number in range(questions):
        engine.add(RequestSpec(id=str(number), prompt=prompt(number, broken), max_tokens=64))
        engine.step()
    counters = engine.gauges().counters
    return counters.prefix_cache_hits, counters.prefix_cache_queries


@lru_cache(maxsize=4)
def share(questions: int, broken: str = "none") -> Shared:
    """Let so many questions about one repository be answered at once.

    Args:
        questions: How many.
        broken: Which token differs, as in `BREAKS`.

    Examples:
        >>> share(8).stored, share(8).full_blocks  # 8 shared + 8 of their own, of 8 x 9
        (16, 72)
        >>> share(8, "all").stored
        72
    """
    keys = [block_keys(number, broken) for number in range(questions)]
    root, stored = _tree(keys)
    hits, queries = _hits(questions, broken)
    changed = sum(
        one != other
        for number, chain in enumerate(keys)
        for one, other in zip(chain, block_keys(number, "none"), strict=True)
    )
    return Shared(root, stored, sum(map(len, keys)), hits, queries, changed)


# The picture ----------------------------------------------------------------------------------


def _label(place: int) -> str:
    system, shared = SYSTEM // BLOCK, (SYSTEM + REPOSITORY) // BLOCK
    if place < system:
        return f"S{place + 1}"
    return f"R{place - system + 1}" if place < shared else f"Q{place - shared + 1}"


def _node(node: Node, *, changed: bool) -> Element:
    shared = len(node.holders) > 1
    cell = Cell(
        kind=MemoryKind.SHARED if shared else MemoryKind.KV_USED,
        label=_label(node.place),
        owner=None if shared else node.holders[0],
        count=len(node.holders),
    )
    mark = h("span", "≠", class_="kv-differs") if changed else None
    return h("li", cell.element(), h("code", node.key.hex()[:4]), mark)


def _run(node: Node) -> list[Node]:
    """Return a block and those after it up to the next fork."""
    run = [node]
    while len(run[-1].children) == 1:
        run.append(next(iter(run[-1].children.values())))
    return run


def _who(node: Node) -> str:
    if len(node.holders) > 1:
        return f"{len(node.holders)} requests"
    return letter(node.holders[0])


def _branch(node: Node, usual: frozenset[bytes]) -> Element:
    run = _run(node)
    last = run[-1]
    below = (
        h("ul", *(_branch(child, usual) for child in last.children.values()))
        if last.children
        else None
    )
    cells = (_node(each, changed=each.key not in usual) for each in run)
    return h(
        "li",
        h("span", _who(run[0]), class_="kv-branch-name"),
        h("ul", *cells, class_="kv-chain"),
        below,
    )


def _picture(shared: Shared, questions: int) -> Element:
    usual = frozenset(key for number in range(questions) for key in block_keys(number, "none"))
    words = (
        f"A tree of {shared.stored} blocks for {questions} prompts of "
        f"{shared.full_blocks // questions} full blocks each."
    )
    branches = (_branch(child, usual) for child in shared.root.children.values())
    key = block_key(
        sample(
            Cell(kind=MemoryKind.SHARED, label="R1", count=8), "stored once, held by 8 requests"
        ),
        sample(Cell(kind=MemoryKind.KV_USED, label="Q1", owner=0), "held by request A alone"),
        h("li", h("code", "a1b2"), h("span", "how its hash begins")),
        h("li", h("span", "≠", class_="kv-differs"), h("span", "its hash changed")),
    )
    note = (
        f"One cell = one full block of {BLOCK} tokens: S the system prompt, R the repository, Q "
        "a question. A block's hash covers its tokens and the hash before it."
    )
    return h(
        "div",
        h("div", h("ul", *branches, class_="kv-tree"), role="img", aria_label=words),
        h("p", note, class_="kv-note"),
        key,
    )


def _figures(shared: Shared, questions: int) -> tuple[Figure, ...]:
    rate = 100 * shared.hit_tokens / shared.prompt_tokens
    return (
        Figure(
            "stored_blocks",
            "Full blocks stored",
            f"{shared.stored:,}",
            "blocks",
            f"instead of {questions} × {shared.full_blocks // questions} = {shared.full_blocks:,}",
        ),
        Figure(
            "hit_rate",
            "Prefix cache hit rate",
            format_number(rate, 1),
            "%",
            f"{shared.hit_tokens:,} of {shared.prompt_tokens:,} prompt tokens",
        ),
        Figure(
            "changed_hashes",
            "Hashes that changed",
            f"{shared.changed:,}",
            f"of {shared.full_blocks:,}",
            "every block from the changed token on",
        ),
    )


def _walk(node: Node) -> list[Node]:
    return [found for child in node.children.values() for found in (child, *_walk(child))]


def _table(shared: Shared) -> Table:
    rows = tuple(
        (
            node.key.hex()[:8],
            _label(node.place),
            str(len(node.holders)),
            " ".join(letter(number) for number in node.holders),
        )
        for node in _walk(shared.root)
    )
    return Table(("Hash begins", "Block", "References", "Held by"), rows)


def _caption(broken: str) -> str:
    if broken == "none":
        return (
            "Notice the numbers: a shared block is stored once, whoever holds it, and leaves "
            "the pool only when the last one lets go. Now change one token."
        )
    return (
        "Notice how far one token reaches: each hash covers the one before it, so every block "
        "from the changed token on is another block, though its own tokens are the same. What "
        "varies belongs at the end of a prompt."
    )


def draw(*, questions: float, broken: str) -> View:
    """Draw the blocks of many questions about one repository.

    Args:
        questions: How many.
        broken: Which token differs, as in `BREAKS`.
    """
    number = int(questions)
    shared = share(number, broken)
    rate = 100 * shared.hit_tokens / shared.prompt_tokens
    return View(
        title=(
            f"{number} questions about one repository need {shared.stored} full blocks instead of "
            f"{shared.full_blocks}"
            if shared.stored < shared.full_blocks
            else f"{number} questions about one repository share nothing: {shared.stored} blocks"
        ),
        picture=_picture(shared, number),
        figures=_figures(shared, number),
        caption=_caption(broken),
        table=_table(shared),
        python=(
            "from kvdocs.widgets.prefix_tree import share\n\n"
            f"print(share({number}, {broken!r}).stored)"
        ),
        announce=f"{shared.stored} blocks stored, hit rate {rate:.0f} %.",
    )


PREFIX_TREE: Final = Widget(
    name="prefix-tree",
    controls=(
        Range("questions", "Questions", minimum=1, maximum=12, step=1, default="8", digits=0),
        Choice("broken", "Changed", BREAKS, "none"),
    ),
    draw=draw,
)
