"""Widget `disaggregation-timeline`: the same requests on split workers and on mixed ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from kvdocs.disaggregation import (
    DeploymentRun,
    Sending,
    Served,
    Worker,
    lesson_worker,
    simulate_mixed,
    simulate_split,
)
from kvdocs.html import Element, h, svg
from kvdocs.offload.tier import get_route
from kvdocs.server.run import Latency
from kvdocs.timing import to_grid
from kvdocs.units import format_number, format_seconds
from kvdocs.widgets.controls import Choice, Range, Steps
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget
from kvdocs.workload import Unshared, WorkloadRequest

REQUESTS: Final = 24
SHOWN: Final = 10
"""Requests that are drawn: the first ones."""
HEIGHT: Final = 20
SEED: Final = 7
LINKS: Final = (
    "nvlink4",
    "pcie5",
    "ib-ndr",
    "ib-hdr",
    "ethernet-100",
    "ethernet-25",
)
SPLITS: Final = (("1:1", "1 + 1"), ("1:3", "1 + 3"), ("2:2", "2 + 2"), ("3:1", "3 + 1"))
SENDINGS: Final = (("layerwise", "layer by layer"), ("whole", "whole, when it is through"))
PHASES: Final = (
    ("queue", "waits"),
    ("prefill", "prompt is computed"),
    ("transfer", "KV on its way, or waiting for room"),
    ("decode", "answer, token by token"),
    ("stall", "answer waits for another's prompt"),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """A load and the workers it comes to.

    Attributes:
        prefill: Prefill workers.
        decode: Decode workers.
        prompt: Tokens of each prompt.
        output: Tokens of each answer.
        rate: Requests per second.
        link: Id of the link between workers.
        sending: When KV leaves.
        chunk: `--max-num-batched-tokens` of the mixed workers and of the prefill workers.
    """

    prefill: int = 2
    decode: int = 2
    prompt: int = 4096
    output: int = 128
    rate: float = 8.0
    link: str = "ib-ndr"
    sending: str = "layerwise"
    chunk: int = 8192


_lesson_worker: Final = lru_cache(maxsize=1)(lesson_worker)


def _worker(chunk: int) -> Worker:
    """The lesson's server; scheduling in step with the output makes stalls exact."""
    worker = _lesson_worker()
    config = replace(worker.config, async_scheduling=False, max_num_batched_tokens=chunk)
    return replace(worker, config=config)


def _requests(scene: Scene) -> list[WorkloadRequest]:
    """Arrivals at random, the same ones at every rate but closer together."""
    rng, now, load = random.Random(SEED), 0.0, []  # noqa: S311 - a simulation, not a secret
    for index in range(REQUESTS):
        load.append(
            WorkloadRequest(
                id=f"{index + 1}",
                prompt=Unshared(scene.prompt),
                output_tokens=scene.output,
                arrival_s=to_grid(now / scene.rate),
            )
        )
        now += rng.expovariate(1.0)
    return load


@lru_cache(maxsize=8)
def both(scene: Scene) -> tuple[DeploymentRun, DeploymentRun]:
    """Run the load on split workers and on as many mixed ones.

    Args:
        scene: The load and the workers.

    Examples:
        >>> split, mixed = both(Scene())
        >>> split.latency("itl").longest < 0.02 < 0.1 < mixed.latency("itl").longest
        True
    """
    worker, load = _worker(scene.chunk), _requests(scene)
    split = simulate_split(
        worker,
        load,
        get_route(scene.link),
        prefill_workers=scene.prefill,
        decode_workers=scene.decode,
        sending=Sending(scene.sending),
    )
    return split, simulate_mixed(worker, load, workers=scene.prefill + scene.decode)


# The picture ----------------------------------------------------------------------------------


def _stalls(one: Served, run: DeploymentRun) -> list[tuple[float, float]]:
    """When a request that decodes waits for another's prompt."""
    return [
        (max(step.start_s, one.first_token_s), min(step.end_s, one.finished_s))
        for step in run.prompt_steps
        if step.worker == one.decode_worker
        and step.start_s < one.finished_s
        and step.end_s > one.first_token_s
    ]


def stalled(run: DeploymentRun) -> int:
    """Requests that waited for another's prompt while they decoded.

    Args:
        run: What came of a load.

    Examples:
        >>> split, mixed = both(Scene())
        >>> stalled(split), stalled(mixed) > REQUESTS // 2
        (0, True)
    """
    return sum(bool(_stalls(one, run)) for one in run.requests)


def _lane(one: Served, run: DeploymentRun, end_s: float) -> Element:
    spans = {
        "queue": [(one.arrival_s, one.prefill_start_s)],
        "prefill": [(one.prefill_start_s, one.prefill_end_s)],
        "transfer": [(one.prefill_end_s, one.admitted_s)],
        "decode": [(one.admitted_s, one.finished_s)],
        "stall": _stalls(one, run),
    }
    paths = ((name, _boxes(spans[name])) for name, _ in PHASES)
    drawing = svg(
        "svg",
        *(svg("path", d=path, class_=f"kv-phase-{name}") for name, path in paths if path),
        view_box=f"0 0 {end_s * 1000:.0f} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    took = h("span", format_seconds(one.ttft_s), class_="kv-lane-state")
    return h("div", h("b", one.id), drawing, took, class_="kv-lane")


def _boxes(spans: Sequence[tuple[float, float]]) -> str:
    return "".join(
        f"M{1000 * start:.0f} 0h{1000 * (end - start):.1f}v{HEIGHT}h-{1000 * (end - start):.1f}z"
        for start, end in spans
        if end > start
    )


def _lanes(name: str, run: DeploymentRun, end_s: float) -> Element:
    words = ", ".join(f"request {one.id} {one.ttft_s:.2f} s" for one in run.requests[:SHOWN])
    return h(
        "div",
        h(
            "p",
            h("span", name),
            h("b", "to the first token"),
            class_="kv-strip-name",
        ),
        h(
            "div",
            *(_lane(one, run, end_s) for one in run.requests[:SHOWN]),
            class_="kv-lanes",
            role="img",
            aria_label=f"{name}, times to the first token: {words}.",
        ),
        class_="kv-panel",
    )


def _key() -> Element:
    samples = (
        h(
            "li",
            svg(
                "svg",
                svg("path", d="M1 1h30v8h-30z", class_=f"kv-phase-{name}"),
                view_box="0 0 32 10",
                class_="kv-series-sample",
                aria_hidden="true",
            ),
            h("span", text),
        )
        for name, text in PHASES
    )
    return h("ul", *samples, class_="kv-series")


def _picture(scene: Scene, split: DeploymentRun, mixed: DeploymentRun) -> Element:
    end_s = max(one.finished_s for run in (split, mixed) for one in run.requests[:SHOWN])
    scale = h(
        "div",
        h("span", "0 s"),
        h("span", f"{end_s / 2:.2f} s"),
        h("span", f"{end_s:.2f} s"),
        class_="kv-scale kv-lane-scale",
    )
    apart = f"{_gpus(scene.prefill, 'prefill')}, {_gpus(scene.decode, 'decode')}"
    return h(
        "div",
        _key(),
        _lanes(f"Apart: {apart}", split, end_s),
        _lanes(f"Mixed: the same {_gpus(mixed.workers, '')}", mixed, end_s),
        scale,
        h("p", f"The first {SHOWN} of {REQUESTS} requests, one a row.", class_="kv-note"),
        class_="kv-disaggregation",
    )


def _gpus(count: int, kind: str) -> str:
    return f"{count} {kind} GPU{'s' if count > 1 else ''}".replace("  ", " ")


# Words ----------------------------------------------------------------------------------------


def _found(run: DeploymentRun, name: str) -> Latency:
    found = run.latency(name)
    if found is None:
        raise ValueError(f"no {name} was measured")
    return found


def _value(run: DeploymentRun, name: str, read: Callable[[Latency], float]) -> str:
    return format_seconds(read(_found(run, name)))


def _figures(scene: Scene, split: DeploymentRun, mixed: DeploymentRun) -> tuple[Figure, ...]:
    num_bytes = scene.prompt * _worker(scene.chunk).bytes_per_token
    link = get_route(scene.link)
    return (
        Figure(
            "stalled",
            "Answers that stalled on mixed GPUs",
            f"{stalled(mixed)}",
            f"of {REQUESTS}",
            f"apart: {stalled(split)}",
        ),
        Figure(
            "ttft",
            "TTFT P90, apart",
            _value(split, "ttft", lambda found: found.p90),
            "",
            f"mixed: {_value(mixed, 'ttft', lambda found: found.p90)}; nine in ten come sooner",
        ),
        Figure(
            "longest_gap",
            "Longest gap between two tokens, apart",
            _value(split, "itl", lambda found: found.longest),
            "",
            f"mixed: {_value(mixed, 'itl', lambda found: found.longest)}",
        ),
        Figure(
            "transfer",
            "What sending adds to a prompt",
            _value(split, "transfer", lambda found: found.p50),
            "",
            f"median; {num_bytes / 1e6:,.0f} MB over {link.name}, "
            f"{format_number(link.bytes_per_s / 1e9)} GB/s peak",
        ),
        Figure(
            "throughput",
            "Output, apart",
            f"{split.output_tokens_per_s:,.0f}",
            "tokens/s",
            f"mixed: {mixed.output_tokens_per_s:,.0f} tokens/s",
        ),
    )


def _table(split: DeploymentRun, mixed: DeploymentRun) -> Table:
    rows = tuple(
        (
            apart.id,
            f"{apart.arrival_s:.2f} s",
            format_seconds(apart.queue_s),
            format_seconds(apart.prefill_end_s - apart.prefill_start_s),
            format_seconds(apart.transfer_s),
            format_seconds(apart.first_token_s - apart.received_s),
            format_seconds(apart.ttft_s),
            format_seconds(together.ttft_s),
            format_seconds(apart.e2e_s),
            format_seconds(together.e2e_s),
        )
        for apart, together in zip(split.requests, mixed.requests, strict=True)
    )
    head = (
        "Request",
        "Arrives",
        "Waits",
        "Prompt",
        "Sending adds",
        "First step there",
        "TTFT, apart",
        "TTFT, mixed",
        "All, apart",
        "All, mixed",
    )
    return Table(head, rows)


def _title(split: DeploymentRun, mixed: DeploymentRun) -> str:
    gap, mixed_gap = _found(split, "itl").longest, _found(mixed, "itl").longest
    ttft, mixed_ttft = _found(split, "ttft").p90, _found(mixed, "ttft").p90
    if gap * 2 < mixed_gap and ttft < 2 * mixed_ttft:
        return (
            f"Apart, no answer stalls for more than {format_seconds(gap)}; mixed, some stall for "
            f"{format_seconds(mixed_gap)}"
        )
    if gap * 2 < mixed_gap:
        return (
            f"Apart, answers run evenly, but nine in ten wait up to {format_seconds(ttft)} for the "
            f"first token, instead of {format_seconds(mixed_ttft)}"
        )
    return "Here prefill and decode do not get in each other's way: splitting them gains nothing"


def _python(scene: Scene) -> str:
    return (
        "from kvdocs.widgets.disaggregation_timeline import Scene, both, stalled\n\n"
        f"split, mixed = both({scene!r})\n"
        "print(stalled(mixed))"
    )


def draw(
    *,
    workers: str,
    prompt: int,
    output: int,
    rate: float,
    link: str,
    sending: str,
    chunk: int,
) -> View:
    """Draw the same requests on split and on mixed workers.

    Args:
        workers: Prefill and decode workers, such as `2:2`.
        prompt: Tokens of each prompt.
        output: Tokens of each answer.
        rate: Requests per second.
        link: Id of the link between workers.
        sending: `layerwise` or `whole`.
        chunk: `--max-num-batched-tokens`.
    """
    prefill, decode = map(int, workers.split(":"))
    scene = Scene(prefill, decode, prompt, output, rate, link, sending, chunk)
    split, mixed = both(scene)
    title = _title(split, mixed)
    return View(
        title=title,
        picture=_picture(scene, split, mixed),
        figures=_figures(scene, split, mixed),
        caption=(
            "Notice the breaks in the mixed rows: while a prompt is computed, all answers of that "
            "GPU stand still for a step. Smaller chunks make the breaks shorter and more. Apart "
            "there are none, but with too few prefill GPUs, or a slow link, the first token "
            "pays for it."
        ),
        table=_table(split, mixed),
        python=_python(scene),
        announce=f"{title}.",
    )


DISAGGREGATION_TIMELINE: Final = Widget(
    name="disaggregation-timeline",
    controls=(
        Choice("workers", "Prefill + decode GPUs", SPLITS, "2:2"),
        Choice("link", "Link between them", tuple((n, get_route(n).name) for n in LINKS), "ib-ndr"),
        Choice("sending", "KV is sent", SENDINGS, "layerwise"),
        Range("rate", "Requests per second", minimum=1, maximum=24, step=1, default="8", digits=0),
        Steps("prompt", "Prompt", (512, 1024, 2048, 4096, 8192, 16_384), "4096", unit="tokens"),
        Steps("output", "Answer", (16, 32, 64, 128, 256, 512), "128", unit="tokens"),
        Steps("chunk", "--max-num-batched-tokens", (512, 1024, 2048, 4096, 8192, 16_384), "8192"),
    ),
    draw=draw,
)
