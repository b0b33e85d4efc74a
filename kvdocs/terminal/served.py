"""What the machine's server has done until now: its metrics, its log, its benchmarks.

The state holds only when the server started and which benchmarks it got. The rest is simulated
when somebody looks, by `kvdocs.server`, and kept until the clock has moved on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Final

from kvdocs.metrics import EngineSnapshot
from kvdocs.server import RequestRecord, Sample, Simulation, start_server
from kvdocs.server import Server as SimulatedServer
from kvdocs.server.arrivals import Arrival
from kvdocs.stats_log import write_stats_line
from kvdocs.terminal.bench import Bench, make_requests, parse_bench
from kvdocs.terminal.machine import Load, Machine, Server
from kvdocs.terminal.plan import PID, Plan, make_plan
from kvdocs.timing import Weights, to_grid
from kvdocs.workload import WorkloadRequest

_SAMPLE_S: Final = 0.25
_MOST_LOG_LINES: Final = 2_000


class _Queue:
    """The requests of one benchmark, of which only so many may be under way."""

    def __init__(self, requests: Sequence[WorkloadRequest], limit: int | None) -> None:
        self.pending = deque(requests)
        self.free = limit if limit is not None else math.inf
        self.freed_at = 0.0

    @property
    def next_time(self) -> float:
        """When the next request is sent, as far as is known now."""
        if not self.pending or not self.free:
            return math.inf
        return max(self.pending[0].arrival_s, self.freed_at)


class BenchArrivals:
    """The requests of all benchmarks. A benchmark with a limit sends the next when one has ended.

    Source: vLLM's `vllm/benchmarks/serve.py`, where a semaphore of `--max-concurrency` holds
    requests back, and latency counts from when they are sent.
    """

    def __init__(self) -> None:
        self._queues: list[_Queue] = []
        self._of: dict[str, _Queue] = {}
        self._count = 0

    def add(self, requests: Sequence[WorkloadRequest], limit: int | None) -> None:
        """Add a benchmark.

        Args:
            requests: Its requests, in order of time.
            limit: How many may be under way; None is no limit.
        """
        queue = _Queue(requests, limit)
        self._queues.append(queue)
        self._of |= {request.id: queue for request in requests}

    def next_time(self) -> float:
        """When the next request arrives, as far as is known now."""
        return min((queue.next_time for queue in self._queues), default=math.inf)

    def pop(self) -> Arrival:
        """Take the next request."""
        queue = min(self._queues, key=lambda one: one.next_time)
        arrival = Arrival(queue.next_time, self._count, queue.pending.popleft())
        queue.free -= 1
        self._count += 1
        return arrival

    def ended(self, request_id: str, time: float) -> None:
        """Hear that a request has ended."""
        queue = self._of[request_id]
        queue.free += 1
        queue.freed_at = max(queue.freed_at, time)


@dataclass(frozen=True, slots=True)
class BenchRun:
    """What became of one benchmark.

    Attributes:
        bench: Its options.
        started: When it began, in seconds on the machine's clock.
        ended: When its last request ended; None while some are under way.
        records: Its requests that have ended. Their times count from when the server was ready.
        samples: The server's metrics while it ran.
        gaps: Times between tokens, by length in seconds, with how often each occurred.
    """

    bench: Bench
    started: float
    ended: float | None
    records: tuple[RequestRecord, ...]
    samples: tuple[Sample, ...]
    gaps: dict[float, int]


class Served:
    """One server's past, which can be run on.

    Args:
        gpu: Catalogue id of the machine's GPUs.
        server: The server.
    """

    def __init__(self, gpu: str, server: Server) -> None:
        plan = make_plan(gpu, server.words)
        self.key = (gpu, server.words, server.started)
        self.ready = server.started + plan.startup_seconds
        self.loads: tuple[Load, ...] = ()
        self.server = simulated(plan)
        self.shares = shares_prompts(server.loads)
        self._arrivals = BenchArrivals()
        self._gaps: list[dict[int, int]] = []
        self.simulation = Simulation(
            self.server.config,
            self.server.timer,
            self._arrivals,
            interval_s=_SAMPLE_S,
            keep_log=True,
        )

    def add(self, loads: Sequence[Load]) -> None:
        """Let further benchmarks come.

        Args:
            loads: None of them starts before the present.
        """
        for load in loads:
            start = to_grid(max(0.0, load.started - self.ready))
            self.simulation.run_until(start)
            self._gaps.append(dict(self.simulation.tally.gaps))
            bench = parse_bench(load.words)
            name = f"b{len(self.loads)}-"
            requests = make_requests(bench, start=start, name=name, shares=self.shares)
            self._arrivals.add(requests, bench.max_concurrency)
            self.loads = (*self.loads, load)

    def run(self, index: int) -> BenchRun:
        """What became of a benchmark until now.

        Args:
            index: Which, from 0.
        """
        from kvdocs.engine.tally import GAP_RESOLUTION  # noqa: PLC0415 - nothing else needs it

        load = self.loads[index]
        bench = parse_bench(load.words)
        records = tuple(r for r in self.simulation.records if r.id.startswith(f"b{index}-"))
        start = max(0.0, load.started - self.ready)
        end = max((record.finished_s for record in records), default=start)
        before = self._gaps[index]
        gaps = {
            length * GAP_RESOLUTION: count - before.get(length, 0)
            for length, count in self.simulation.tally.gaps.items()
            if count > before.get(length, 0)
        }
        return BenchRun(
            bench=bench,
            started=load.started,
            ended=self.ready + end if len(records) == bench.num_prompts else None,
            records=records,
            samples=tuple(s for s in self.simulation.samples if start <= s.time_s <= end),
            gaps=gaps,
        )


def shares_prompts(loads: Sequence[Load]) -> bool:
    """Whether two benchmarks send the same prompts: they have the same seed."""
    seeds = [parse_bench(load.words).seed for load in loads]
    return len(set(seeds)) < len(seeds)


def simulated(plan: Plan) -> SimulatedServer:
    """The server of a plan, ready to take requests.

    Args:
        plan: The plan.

    Raises:
        StartError: It does not start.
        FlagError: A flag that vLLM would refuse, or that is not simulated.
    """
    entry = plan.entry
    weights = Weights.from_entry(entry)
    return start_server(
        entry.model,
        plan.gpu,
        plan.flags,
        available=plan.budget,
        weights=weights,
        model_name=plan.served_name,
    )


_kept: list[Served] = []
"""The last server looked at: only a matter of speed, what is seen does not depend on it."""


def served(machine: Machine, until: float | None = None) -> Served | None:
    """The past of the machine's server.

    Args:
        machine: The machine.
        until: Up to when, in seconds on its clock; now when not given, to the end of all
            benchmarks when infinite.

    Returns:
        None when no server runs.
    """
    server = machine.running
    if server is None:
        return None
    time = machine.clock if until is None else until
    past = _past(machine.gpu, server, time)
    past.add(server.loads[len(past.loads) :])
    past.simulation.run_until(max(0.0, time - past.ready) if math.isfinite(time) else math.inf)
    return past


def _past(gpu: str, server: Server, until: float) -> Served:
    """The one kept, if it has not run too far; else a new one."""
    for past in _kept:
        new = server.loads[len(past.loads) :]
        first = min(until, *(load.started for load in new), math.inf)
        if (
            past.key == (gpu, server.words, server.started)
            and server.loads[: len(past.loads)] == past.loads
            and past.simulation.now <= max(0.0, first - past.ready)
            and past.shares == shares_prompts(server.loads)
        ):
            return past
    _kept[:] = [Served(gpu, server)]
    return _kept[0]


def snapshot(machine: Machine) -> EngineSnapshot | None:
    """What the server's `/metrics` shows now; None when none runs.

    Args:
        machine: The machine.
    """
    past = served(machine)
    if past is None:
        return None
    began = Machine(clock=past.ready).time.replace(tzinfo=UTC).timestamp()
    return replace(past.server.snapshot(past.simulation), created=began)


def log_of(machine: Machine) -> list[str]:
    """What the last server printed until now.

    Args:
        machine: The machine.
    """
    if machine.server is None:
        return []
    plan = make_plan(machine.gpu, machine.server.words)
    lines = list(plan.log(machine.server.started))
    past = served(machine)
    if past is not None:
        for seconds, line in past.simulation.log[-_MOST_LOG_LINES:]:
            time = Machine(clock=past.ready + seconds).time
            text = write_stats_line(line, time=f"{time:%m-%d %H:%M:%S}")
            lines.append(f"(APIServer pid=1) {text}")
    elif machine.server.ended is not None and plan.refusal is None:
        lines.append(f"# stopped (pid {PID})")
    return lines
