"""Widget `preemption`: a small server driven into preemption, and out of it again."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kvdocs.engine import DistinctPrompt, EngineConfig, JumpingEngine, RequestSpec, Status
from kvdocs.engine import run as run_engine
from kvdocs.html import Element, h, svg
from kvdocs.scenario import lesson_timer
from kvdocs.widgets.blocks_view import hue, letter
from kvdocs.widgets.controls import Range, Steps
from kvdocs.widgets.engine_run import EngineRun, Frame
from kvdocs.widgets.step_words import count, names, sentences
from kvdocs.widgets.strip import Strip, strips
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

BLOCK: Final = 16
POOLS: Final = (24, 32, 40, 48, 56, 64, 80)
"""Blocks in the pool, to choose from."""
LAST_STEP: Final = 180
ASKED: Final = ((64, 96), (48, 90), (80, 72), (56, 96), (72, 64), (40, 88), (64, 80), (48, 72))
"""Prompt and output of the requests A to H, in tokens. All arrive at once."""
AMPLE: Final = 128
"""Blocks with which nobody is ever preempted: more than all eight need at their longest."""
TONES: Final = ("waiting", "prefill", "decode", "preempted", "done")
"""States of a request, as they are drawn."""


def requests() -> tuple[RequestSpec, ...]:
    """Return the workload."""
    return tuple(
        RequestSpec(id=letter(index), prompt=DistinctPrompt(prompt), max_tokens=output)
        for index, (prompt, output) in enumerate(ASKED)
    )


def config(num_blocks: int, max_num_seqs: int) -> EngineConfig:
    """Return the settings of a server with so many blocks for requests."""
    return EngineConfig(num_blocks=num_blocks + 1, max_num_seqs=max_num_seqs)


@lru_cache(maxsize=8)
def run(num_blocks: int, max_num_seqs: int) -> EngineRun:
    """Return the workload on a server.

    Args:
        num_blocks: Blocks that requests can hold.
        max_num_seqs: `--max-num-seqs`.

    Examples:
        >>> run(40, 8).frame(LAST_STEP).counters.preemptions > 0
        True
        >>> run(AMPLE, 8).frame(LAST_STEP).counters.preemptions
        0
    """
    return EngineRun(config(num_blocks, max_num_seqs), requests(), lesson_timer())


@lru_cache(maxsize=16)
def seconds(num_blocks: int, max_num_seqs: int) -> float:
    """Return when the last of the requests is done, in seconds."""
    engine = JumpingEngine(config(num_blocks, max_num_seqs), lesson_timer())
    ends = (result.finished_at for result in run_engine(engine, requests()))
    return max(end for end in ends if end is not None)


def state(frame: Frame, name: str) -> str:
    """Return the state of a request in a step, one of `TONES`."""
    if any(lost.request_id == name for lost in frame.step.preemptions):
        return "preempted"
    status = frame.status[name]
    if status.is_finished and name not in dict(frame.step.scheduled):
        return "done"
    if status is Status.PREEMPTED:
        return "preempted"
    if status is Status.WAITING:
        return "waiting"
    return "prefill" if dict(frame.step.scheduled).get(name, 1) > 1 else "decode"


# The picture ----------------------------------------------------------------------------------


def _spans(states: list[str]) -> dict[str, str]:
    """Return a path for each state that occurs: its stretches of steps."""
    paths: dict[str, str] = {}
    start = 0
    for step in range(1, len(states) + 1):
        if step == len(states) or states[step] != states[start]:
            height, top = (40, 30) if states[start] in ("waiting", "preempted") else (100, 0)
            box = f"M{start} {top}h{step - start}v{height}h-{step - start}z"
            paths[states[start]] = paths.get(states[start], "") + box
            start = step
    return paths


def _lane(index: int, frames: list[Frame]) -> Element:
    name = letter(index)
    paths = _spans([state(frame, name) for frame in frames])
    drawing = svg(
        "svg",
        *(
            svg("path", d=path, class_=f"kv-state-{tone}")
            for tone, path in paths.items()
            if tone != "done"
        ),
        svg("path", d=f"M{len(frames) - 0.5} 0V100", class_="kv-now"),
        view_box=f"0 0 {LAST_STEP + 1} 100",
        preserve_aspect_ratio="none",
        aria_hidden="true",
        class_=hue(index),
    )
    now = state(frames[-1], name)
    return h(
        "div",
        h("b", name, class_=f"kv-chip {hue(index)}"),
        drawing,
        h("span", now, class_="kv-lane-state"),
        class_="kv-lane",
    )


def _key() -> Element:
    samples = (
        ("waiting", "waiting"),
        ("prefill", "computing its prompt"),
        ("decode", "decoding, a token a step"),
        ("preempted", "preempted: it has lost its blocks"),
    )
    return h(
        "ul",
        *(
            h(
                "li",
                svg(
                    "svg",
                    svg("rect", width=14, height=14, class_=f"kv-state-{tone}"),
                    view_box="0 0 14 14",
                    class_="kv-swatch kv-r0",
                    aria_hidden="true",
                ),
                h("span", text),
            )
            for tone, text in samples
        ),
        class_="kv-key",
    )


def _held(frame: Frame) -> int:
    return sum(holders > 0 for holders in frame.ref_counts)


def _usage(frames: list[Frame], num_blocks: int) -> Element:
    held = [_held(frame) for frame in frames]
    when = " after the step" if frames[-1].step.preemptions else ""
    at = [step for step, frame in enumerate(frames) if frame.step.preemptions]
    entry = Strip(
        name="KV blocks held; a stroke = a preemption",
        value=f"{held[-1]} of {num_blocks}{when}",
        values=held,
        top=num_blocks,
        top_label=f"{num_blocks} blocks",
        tone="used",
        marks=at,
    )
    return strips(
        [entry],
        num_moments=LAST_STEP + 1,
        now=len(frames) - 1,
        axis=("step 0", f"{LAST_STEP // 2}", f"{LAST_STEP}"),
        label=f"{held[-1]} of {num_blocks} blocks held; {len(at)} steps with a preemption so far.",
    )


def _picture(frames: list[Frame], num_blocks: int) -> Element:
    frame = frames[-1]
    states = ", ".join(
        f"{letter(index)} {state(frame, letter(index))}" for index in range(len(ASKED))
    )
    lanes = (_lane(index, frames) for index in range(len(ASKED)))
    return h(
        "div",
        _usage(frames, num_blocks),
        h("div", *lanes, class_="kv-lanes", role="img", aria_label=f"The requests now: {states}."),
        _key(),
        h("p", "In this step", class_="kv-part-name"),
        h("ul", *(h("li", told) for told in sentences(frame)), class_="kv-events"),
        class_="kv-preemption",
    )


def _victims(frames: list[Frame]) -> tuple[str, ...]:
    return tuple(lost.request_id for frame in frames for lost in frame.step.preemptions)


def _figures(frames: list[Frame], num_blocks: int, max_num_seqs: int) -> tuple[Figure, ...]:
    frame, victims = frames[-1], _victims(frames)
    took = round(1000 * seconds(num_blocks, max_num_seqs))
    ample = round(1000 * seconds(AMPLE, max_num_seqs))
    return (
        Figure(
            "preemptions",
            "Preemptions so far",
            f"{frame.counters.preemptions}",
            "",
            f"victims: {', '.join(victims)}" if victims else "nobody has lost blocks",
        ),
        Figure(
            "recomputed_tokens",
            "Tokens computed again so far",
            f"{frame.recomputed:,}",
            "tokens",
            "KV lost, less what the prefix cache still had",
        ),
        Figure(
            "lost_seconds",
            "Cost in time, whole run",
            f"{took - ample:,}",
            "ms",
            f"{took:,} ms − {ample:,} ms with a pool for all",
        ),
    )


def _table(frames: list[Frame]) -> Table:
    rows = []
    for index, (prompt, output) in enumerate(ASKED):
        name = letter(index)
        lost = [
            f"{lost.lost_tokens}"
            for f in frames
            for lost in f.step.preemptions
            if lost.request_id == name
        ]
        blocks = len(frames[-1].tables.get(name, ()))
        rows.append(
            (
                name,
                f"{prompt} + {output}",
                state(frames[-1], name),
                str(blocks),
                ", ".join(lost) or "–",
            )
        )
    return Table(
        ("Request", "Prompt + output", "State", "Blocks", "KV lost: of so many tokens, each time"),
        tuple(rows),
    )


def _title(frames: list[Frame], num_blocks: int) -> str:
    now = frames[-1].step.preemptions
    if now:
        victims = names(tuple(lost.request_id for lost in now))
        verb, whose = ("lose", "their") if len(now) > 1 else ("loses", "its")
        needy = now[0].for_request_id
        return f"The pool is full: {victims} {verb} {whose} blocks so that {needy} can go on"
    total, held = frames[-1].counters.preemptions, _held(frames[-1])
    if total:
        return f"{count(total, 'preemption')} so far; {held} of {num_blocks} blocks are held"
    return f"{held} of {num_blocks} blocks are held, and nobody has been preempted"


def draw(*, step: int, num_blocks: int, max_num_seqs: float) -> View:
    """Draw a small server after a step.

    Args:
        step: The step, from 0.
        num_blocks: Blocks in the pool.
        max_num_seqs: `--max-num-seqs`.
    """
    seqs = int(max_num_seqs)
    frames = run(num_blocks, seqs).frames(step + 1)
    return View(
        title=_title(frames, num_blocks),
        picture=_picture(frames, num_blocks),
        figures=_figures(frames, num_blocks, seqs),
        caption=(
            "Notice who is chosen: the request that was admitted last. It keeps its output, "
            "loses all its blocks, goes to the front of the queue and computes prompt and "
            "output again. More blocks end it. So does a lower --max-num-seqs, at a price: "
            "nothing is thrown away, but more wait."
        ),
        table=_table(frames),
        python=(
            "from kvdocs.widgets.preemption import run\n\n"
            f"print(run({num_blocks}, {seqs}).frame({step}).counters.preemptions)"
        ),
        announce=f"Step {step}. {sentences(frames[-1])[0]}",
    )


PREEMPTION: Final = Widget(
    name="preemption",
    controls=(
        Timeline(name="step", label="Step", maximum=LAST_STEP, default="73", interval_ms=250),
        Steps("num_blocks", "Blocks in the pool", POOLS, "40"),
        Range(
            "max_num_seqs", "--max-num-seqs", minimum=1, maximum=8, step=1, default="8", digits=0
        ),
    ),
    draw=draw,
)
