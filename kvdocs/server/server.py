"""The server: settings and a timing model, ready to take a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvdocs.engine import EngineConfig, StepTimer
from kvdocs.engine.scheduler import Batch
from kvdocs.errors import WorkloadError
from kvdocs.metrics import EngineSnapshot, cache_config_info
from kvdocs.server.arrivals import ListedArrivals
from kvdocs.server.page import snapshot
from kvdocs.server.run import ServerRun
from kvdocs.server.simulation import AnyEngine, EngineKind, Simulation
from kvdocs.server.story import Watcher
from kvdocs.sizing import Capacity
from kvdocs.workload import WorkloadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that has started. `start_server` makes one from a model, a GPU and flags.

    Attributes:
        config: The engine's settings.
        timer: How long a step takes.
        model_name: What the metrics page calls the model.
        capacity: How its memory was planned; None for one made by hand.
        cache_config: Labels of `vllm:cache_config_info`.
        notes: What to know about the simulation.

    Examples:
        >>> from kvdocs.engine import ConstantTimer
        >>> from kvdocs.workload import Unshared
        >>> server = Server(config=EngineConfig(), timer=ConstantTimer(0.25))
        >>> run = server.simulate([WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=5)])
        >>> run.requests[0].ttft_s, run.requests[0].tpot_s, run.end_s
        (0.25, 0.25, 1.25)
    """

    config: EngineConfig
    timer: StepTimer
    model_name: str = "model"
    capacity: Capacity | None = None
    cache_config: Mapping[str, str] = field(default_factory=cache_config_info)
    notes: tuple[str, ...] = ()

    def open(
        self,
        requests: Iterable[WorkloadRequest],
        *,
        engine: EngineKind | AnyEngine = EngineKind.JUMPING,
        interval_s: float | None = 1.0,
        priorities: Mapping[str, int] | None = None,
        keep_log: bool = False,
    ) -> Simulation:
        """Let a workload come to the server, but do not run it yet.

        Args:
            requests: The workload.
            engine: How to run, or a fresh engine with the server's settings and timing model.
            interval_s: Seconds between samples; None takes none.
            priorities: Priorities by id, for the priority policy.
            keep_log: Whether to note a statistics line every 10 s.

        Raises:
            WorkloadError: Ids that are used twice, or requests that follow none.
        """
        return Simulation(
            self.config,
            self.timer,
            ListedArrivals(requests),
            engine=engine,
            interval_s=interval_s,
            priorities=priorities,
            keep_log=keep_log,
        )

    def simulate(
        self,
        requests: Iterable[WorkloadRequest],
        *,
        engine: EngineKind | AnyEngine = EngineKind.JUMPING,
        interval_s: float | None = 1.0,
        priorities: Mapping[str, int] | None = None,
        watch: Sequence[str] = (),
        on_end: Callable[[int], None] | None = None,
    ) -> ServerRun:
        """Run a workload to its end.

        Args:
            requests: The workload.
            engine: How to run, or a fresh engine with the server's settings and timing model.
            interval_s: Seconds between samples; None takes none, and no statistics lines.
            priorities: Priorities by id, for the priority policy.
            watch: Ids of requests whose story is to be told.
            on_end: Called with the number of requests that have ended, whenever some have.

        Raises:
            WorkloadError: Ids that are used twice, requests that follow none, or a request to watch
                that is not there.
        """
        simulation = self.open(
            requests,
            engine=engine,
            interval_s=interval_s,
            priorities=priorities,
            keep_log=interval_s is not None,
        )
        watchers = _watch(simulation, watch)
        simulation.on_end = on_end
        simulation.run_to_end()
        records = tuple(sorted(simulation.records, key=lambda record: record.place))
        by_id = {record.id: record for record in records if record.id in watch}
        return ServerRun(
            config=self.config,
            requests=records,
            samples=tuple(simulation.samples),
            log=tuple(simulation.log),
            counters=simulation.counters,
            tally=simulation.tally,
            end_s=max((record.finished_s for record in records), default=0.0),
            simulation=simulation,
            model_name=self.model_name,
            cache_config=self.cache_config,
            stories={one.request_id: tuple(one.tell(by_id[one.request_id])) for one in watchers},
        )

    def snapshot(self, simulation: Simulation) -> EngineSnapshot:
        """What `/metrics` shows now; `kvdocs.metrics.write_metrics` prints it.

        Args:
            simulation: A run of this server, under way or done.
        """
        return snapshot(simulation, model_name=self.model_name, cache_config=self.cache_config)


def _watch(simulation: Simulation, ids: Sequence[str]) -> list[Watcher]:
    if not ids:
        return []
    known = {request.id for request in _listed(simulation)}
    for name in ids:
        if name not in known:
            some = ", ".join(sorted(known, key=lambda one: (len(one), one))[:3])
            raise WorkloadError(f"there is no request {name!r}; ids are like {some}")
    watchers = [Watcher(name, simulation) for name in ids]

    def see(clock: float, batch: Batch) -> None:
        for watcher in watchers:
            watcher.see(clock, batch)

    def join(request_id: str) -> None:
        for watcher in watchers:
            watcher.join(request_id)

    simulation.engine.scheduler.on_batch = see
    simulation.on_join = join
    return watchers


def _listed(simulation: Simulation) -> tuple[WorkloadRequest, ...]:
    arrivals = simulation.arrivals
    return arrivals.requests if isinstance(arrivals, ListedArrivals) else ()
