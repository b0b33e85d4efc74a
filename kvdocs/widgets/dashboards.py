"""Widget `dashboards`: four simulated servers, their panels and their `/metrics`, drawn by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from kvdocs.diagnose.diagnosis import Diagnosis
from kvdocs.diagnose.kinds import KINDS
from kvdocs.diagnose.read import diagnose
from kvdocs.diagnose.servers import MODEL, SimulatedServer
from kvdocs.diagnose.thresholds import TIGHT
from kvdocs.diagnose.verdicts import Gravity
from kvdocs.html import Element, h
from kvdocs.metrics import EngineSnapshot, write_metrics
from kvdocs.server import Sample, Simulation, snapshot
from kvdocs.units import format_seconds
from kvdocs.widgets.controls import Choice, Range
from kvdocs.widgets.strip import Strip, strips
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget
from kvdocs.workload.numbers import draw_integer

NAMES: Final = ("ada", "bob", "cleo", "dan")
INTERVAL_S: Final = 0.2
"""Seconds between two points of a panel."""
_QUEUES: Final = ("max-num-seqs-bound", "prefill-bound", "scheduling-bound")
_INTERVALS: Final = {"healthy": 30, "scheduling-bound": 30, "healthy and full": 50}
"""Intervals before a server is first looked at; 15 for the others."""
_MOST_INTERVALS: Final = 40
"""More of them, to wait for a moment that shows what the server stands for."""
WINDOW: Final = 20
"""Samples that a panel shows, the last ones."""
_BLOCKS: Final = {"healthy": 600, "prefill-bound": 5000, "scheduling-bound": 2200}
"""Pools that such loads fill to a good part; the kinds' own are so large that they look empty."""
_SEQ_BLOCKS: Final = 80
_FULL: Final = 0.92
"""Usage of a server that is drawn as full: clear of `thresholds.FULL`."""
_CORNERS: Final = {
    "memory-bound": (True, True),
    "healthy and full": (True, False),
    "healthy": (False, False),
}
"""Whether the cache is full, and whether requests wait. Others wait before a cache with room."""
_SHOWN: Final = (
    "vllm:num_requests_",
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total",
    "vllm:prompt_tokens_by_source_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What is seen of a server.

    Attributes:
        name: Its host name.
        kind: What trouble it was drawn to be in.
        samples: Its metrics, every fifth of a second.
        metrics: Gauges and counters of its `/metrics`.
        ttft_s: Time to first token, mean since its start, in seconds.
        itl_s: Time between two tokens in a row, mean since its start, in seconds.
    """

    name: str
    kind: str
    samples: tuple[Sample, ...]
    metrics: str
    ttft_s: float
    itl_s: float

    @property
    def now(self) -> Sample:
        """Its last metrics."""
        return self.samples[-1]

    def diagnosis(self) -> Diagnosis:
        """What is wrong with it, from its metrics alone."""
        return diagnose(self.metrics)


@lru_cache(maxsize=8)
def dashboards(draw_number: int) -> tuple[Dashboard, ...]:
    """Four servers: one short of memory, one that queues for something else, one full, one idle.

    Args:
        draw_number: The seed.

    Examples:
        >>> sorted(str(each.diagnosis().verdict) for each in dashboards(1))[:2]
        ['healthy', 'healthy-full']
    """
    rng = random.Random(draw_number)  # noqa: S311 - a simulation, not a secret
    kinds = ["memory-bound", _QUEUES[draw_integer(rng, 0, 2)], "healthy and full", "healthy"]
    for last in range(3, 0, -1):
        other = draw_integer(rng, 0, last)
        kinds[last], kinds[other] = kinds[other], kinds[last]
    return tuple(_dashboard(name, kind, rng) for name, kind in zip(NAMES, kinds, strict=True))


def _dashboard(name: str, kind: str, rng: random.Random) -> Dashboard:
    simulation = _simulation(kind, rng)
    shown = snapshot(simulation, model_name=MODEL, cache_config={})
    return Dashboard(
        name=name,
        kind=kind,
        samples=tuple(simulation.samples[-WINDOW:]),
        metrics=_metrics(shown),
        ttft_s=_mean(shown, "time_to_first_token_seconds"),
        itl_s=_mean(shown, "inter_token_latency_seconds"),
    )


def _simulation(kind: str, rng: random.Random) -> Simulation:
    """A server of a kind, run up to the first moment that shows what it is, if one comes."""
    server = KINDS[kind].draw(rng)
    if not isinstance(server, SimulatedServer):
        raise TypeError(kind)
    config = server.config
    num_blocks = _BLOCKS.get(kind, config.num_blocks)
    if kind == "max-num-seqs-bound":
        num_blocks = config.max_num_seqs * _SEQ_BLOCKS
    server = replace(server, config=replace(config, num_blocks=num_blocks))
    simulation = server.open(interval_s=INTERVAL_S)
    first = _INTERVALS.get(kind, 15)
    for intervals in range(first, first + _MOST_INTERVALS):
        simulation.run_until(intervals * INTERVAL_S)  # the very time of a sample
        if _shows_its_kind(kind, simulation):
            break
    return simulation


def _shows_its_kind(kind: str, simulation: Simulation) -> bool:
    """Whether somebody runs, and usage and queue are those of the kind."""
    now = simulation.samples[-1]
    is_full, waits = _CORNERS.get(kind, (False, True))
    usage_fits = now.kv_cache_usage >= _FULL if is_full else now.kv_cache_usage < TIGHT.value
    return usage_fits and waits == (now.waiting > 0) and now.running > 0


def _mean(shown: EngineSnapshot, name: str) -> float:
    """The mean of a histogram, as `_sum` over `_count` of the page gives it."""
    histogram = shown.histograms[name]
    return histogram.total / sum(histogram.counts)


def _metrics(shown: EngineSnapshot) -> str:
    """The page's gauges and counters, without comments and histograms."""
    page = write_metrics([replace(shown, histograms={}, created=None)])
    return "\n".join(line for line in page.split("\n") if line.startswith(_SHOWN))


# The picture -------------------------------------------------------------------------------------


def _panel(each: Dashboard, top: int, *, tells: bool) -> Element:
    now = each.now
    entries = (
        Strip(
            name="KV cache usage",
            value=f"{now.kv_cache_usage:.0%}",
            values=[sample.kv_cache_usage for sample in each.samples],
            top=1,
            top_label="100%",
            tone="used",
        ),
        Strip(
            name="Waiting",
            value=f"{now.waiting:,} requests",
            values=[sample.waiting for sample in each.samples],
            top=top,
            top_label=f"{top:,}",
            tone="waiting",
        ),
        Strip(
            name="Running",
            value=f"{now.running:,} requests",
            values=[sample.running for sample in each.samples],
            top=top,
            top_label=f"{top:,}",
            tone="running",
        ),
    )
    charts = strips(
        entries,
        num_moments=len(each.samples),
        now=len(each.samples) - 1,
        axis=(f"{len(each.samples) * INTERVAL_S:.0f} s ago", "now"),
        label=f"{each.name} over the last seconds; now {_words(each)}.",
    )
    raw = h(
        "details",
        h("summary", f"curl {each.name}:8000/metrics"),
        h(
            "pre",
            h("samp", each.metrics),
            class_="kv-screen kv-metrics",
            tabindex=0,
            role="region",
            aria_label=f"Metrics of {each.name}",
        ),
    )
    return h(
        "div",
        h("p", each.name, class_="kv-panel-name"),
        h("p", _seen(each), class_="kv-note"),
        charts,
        _told(each, tells=tells),
        raw,
        class_="kv-panel",
    )


def _seen(each: Dashboard) -> str:
    """What its users see."""
    first, gap = format_seconds(each.ttft_s), format_seconds(each.itl_s)
    return f"Users see, on average: TTFT {first}, ITL {gap}"


def _words(each: Dashboard) -> str:
    now = each.now
    return f"usage {now.kv_cache_usage:.0%}, {now.waiting:,} waiting, {now.running:,} running"


def _told(each: Dashboard, *, tells: bool) -> Element | None:
    if not tells:
        return None
    told = each.diagnosis()
    fine = told.verdict.advice.gravity is Gravity.FINE
    return h(
        "p",
        h("b", str(told.verdict), class_=f"kv-finding kv-finding-{'fine' if fine else 'trouble'}"),
        f" {told.verdict.advice.title}",
        class_="kv-panel-verdict",
    )


def _top(shown: tuple[Dashboard, ...]) -> int:
    """A round upper end for the numbers of requests, one for all panels."""
    most = max(max(s.waiting, s.running) for each in shown for s in each.samples)
    step = int(10 ** max(len(str(most)) - 1, 1))
    return -(-most // step) * step


def draw(*, seed: float, verdicts: str) -> View:
    """Draw four servers.

    Args:
        seed: Which four.
        verdicts: `hidden` or `shown`.
    """
    number, tells = int(seed), verdicts == "shown"
    shown = dashboards(number)
    top = _top(shown)
    needy = next(each for each in shown if each.kind == "memory-bound")
    waiting = sum(each.now.waiting for each in shown)
    rows = (
        (
            each.name,
            f"{each.now.kv_cache_usage:.3f}",
            f"{each.now.waiting:,}",
            f"{each.now.running:,}",
            f"{each.now.preemptions:,}",
            format_seconds(each.ttft_s),
            format_seconds(each.itl_s),
            str(each.diagnosis().verdict) if tells else "hidden",
        )
        for each in shown
    )
    return View(
        title=(
            f"Four servers: {needy.name} alone is short of memory"
            if tells
            else "Four servers, and what their users see. Which one is short of memory?"
        ),
        picture=h("div", *(_panel(each, top, tells=tells) for each in shown), class_="kv-panels"),
        figures=(
            Figure("waiting", "Waiting on all four", f"{waiting:,}", "requests"),
            *(
                Figure(
                    f"usage_{each.name}",
                    f"KV cache usage of {each.name}",
                    f"{100 * each.now.kv_cache_usage:.0f}",
                    "%",
                    f"{each.now.waiting:,} waiting, {each.now.running:,} running",
                )
                for each in shown
            ),
        ),
        caption=(
            "Notice that neither curve says it alone, and what users see says it least: a full "
            "cache may be a server at work, and a queue may wait for something else than blocks. "
            "Open the raw metrics below a panel; they can be pasted into the reader's box further "
            "down."
        ),
        table=Table(
            ("Server", "Usage", "Waiting", "Running", "Preemptions", "TTFT", "ITL", "Diagnosis"),
            tuple(rows),
        ),
        python=(
            "from kvdocs.widgets.dashboards import dashboards\n\n"
            f"servers = dashboards({number})\n"
            "print(sum(server.now.waiting for server in servers))"
        ),
        announce="; ".join(f"{each.name}: {_words(each)}" for each in shown) + ".",
    )


DASHBOARDS: Final = Widget(
    name="dashboards",
    controls=(
        Range(
            "seed",
            "Another four",
            minimum=1,
            maximum=999,
            step=1,
            default="4",
            digits=0,
            fresh=True,
        ),
        Choice(
            "verdicts", "Diagnosis", (("hidden", "hidden"), ("shown", "shown")), default="hidden"
        ),
    ),
    draw=draw,
)
