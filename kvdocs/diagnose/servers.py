"""A simulated server that is in some trouble, and the text that a reader gets of it.

It is Llama 3.1 8B on an H100 by the lesson's roofline; `kvdocs.diagnose.kinds` draws settings and
loads that bring each trouble about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from kvdocs.diagnose.diagnosis import Diagnosis
from kvdocs.diagnose.read import diagnose
from kvdocs.engine import DistinctPrompt, EngineConfig, RequestSpec, StepTimer
from kvdocs.metrics import EngineSnapshot, cache_config_info, write_metrics
from kvdocs.scenario import lesson_timer
from kvdocs.server import ListedArrivals, Simulation, snapshot
from kvdocs.stats_log import write_stats_line
from kvdocs.workload import WorkloadRequest

MODEL: Final = "meta-llama/Llama-3.1-8B"


@lru_cache(maxsize=1)
def fast_timer() -> StepTimer:
    """Times of the lesson's server, by its roofline."""
    return lesson_timer()


@dataclass(frozen=True, slots=True)
class Readings:
    """What a reader has of a server.

    Attributes:
        texts: Pages or log lines.
        seconds: Time between two pages; None when it is not known.
        flags: What is known of the command lines of server and load.
        told: Figures that the reader knows, by field of `Evidence`.
    """

    texts: tuple[str, ...] = ()
    seconds: float | None = None
    flags: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    def diagnose(self) -> Diagnosis:
        """The diagnosis of what was read."""
        return diagnose(*self.texts, seconds=self.seconds, flags=self.flags, **self.told)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedServer:
    """A server with its load, and when to look at it.

    Attributes:
        config: The engine's settings.
        requests: The load.
        look_s: When the first page is scraped, in seconds.
        again_s: When the second is.
        flags: What the reader knows of the command lines of server and load.
        told: Figures that the reader knows, by field of `Evidence`.
        timer: How long a step takes.
        stuck: Tokens of a prompt that comes first and can never fit; 0 for none.
        counts_again: Whether lookups of preempted requests count as well, as before vLLM 0.11.2.
        rewrite: What stands between the server's page and the reader.
    """

    config: EngineConfig
    requests: tuple[WorkloadRequest, ...] = ()
    look_s: float = 20.0
    again_s: float = 40.0
    flags: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    timer: StepTimer = field(default_factory=fast_timer)
    stuck: int = 0
    counts_again: bool = False
    rewrite: Callable[[str], str] = str

    def open(self, *, interval_s: float | None = None) -> Simulation:
        """The server under way, at its start.

        Args:
            interval_s: Seconds between samples; None takes none.
        """
        simulation = Simulation(
            self.config,
            self.timer,
            ListedArrivals(self.requests),
            interval_s=interval_s,
            keep_log=True,
        )
        if self.stuck:
            prompt = DistinctPrompt(self.stuck)
            simulation.engine.add(RequestSpec(id="stuck", prompt=prompt, max_tokens=16))
        return simulation

    def snapshots(self, *times: float) -> list[EngineSnapshot]:
        """What `/metrics` shows at some times.

        Args:
            *times: Seconds, ascending.
        """
        simulation, queries, hits = self.open(), 0, 0
        found = []
        for time in times:
            simulation.run_until(time)
            shown = snapshot(simulation, model_name=MODEL, cache_config=self._cache_config())
            if self.counts_again:
                stats = simulation.engine.scheduler.take_prefix_stats()
                queries += stats.preempted_queries
                hits += stats.preempted_hits
            found.append(
                replace(
                    shown,
                    prefix_queries=shown.prefix_queries + queries,
                    prefix_hits=shown.prefix_hits + hits,
                )
            )
        return found

    def _cache_config(self) -> dict[str, str]:
        config = self.config
        return cache_config_info(
            num_gpu_blocks=config.num_blocks,
            block_size=config.block_size,
            kv_cache_size_tokens=config.num_blocks * config.block_size,
        )

    def scrape(self) -> Readings:
        """One page."""
        return self._readings(self.snapshots(self.again_s), None)

    def scrapes(self) -> Readings:
        """Two pages with the time between them."""
        pages = self.snapshots(self.look_s, self.again_s)
        return self._readings(pages, self.again_s - self.look_s)

    def _readings(self, shown: list[EngineSnapshot], seconds: float | None) -> Readings:
        pages = tuple(self.rewrite(write_metrics([each])) for each in shown)
        return Readings(pages, seconds, self.flags, self.told)

    def log(self) -> Readings:
        """The lines it logs every ten seconds, until the second time."""
        simulation = self.open()
        simulation.run_until(self.again_s + 0.1)
        lines = [write_stats_line(line, time=_time(at)) for at, line in simulation.log]
        return Readings(("\n".join(lines),), None, self.flags, self.told)


def _time(seconds: float) -> str:
    """A time of day as the log's prefix has it, from ten in the morning.

    Examples:
        >>> _time(130)
        '11-30 10:02:10'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"11-30 {10 + minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"
