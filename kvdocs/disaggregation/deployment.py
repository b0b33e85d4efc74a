"""Prefill and decode on workers of their own, or on the same ones.

Requests go to workers in turn, as they arrive. The flow is that of vLLM 0.33.0 with a proxy and
the NixlConnector (`vllm/distributed/kv_transfer/kv_connector/v1/nixl/`): the prefill worker runs
the request for one token that nobody sees, the decode worker gets the KV, computes the prompt's
last token and generates all tokens.

Not modelled: blocks that a prefill worker holds until they were read, blocks that a decode worker
takes before they arrive, prefixes that a decode worker already has, requests that follow others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kvdocs.disaggregation.served import (
    DeploymentRun,
    PromptStep,
    Served,
    check_workers,
    merge,
)
from kvdocs.disaggregation.transfer import Sending, Wire
from kvdocs.engine import EngineConfig, RequestResult, RequestSpec, StepTimer, run
from kvdocs.engine.events import Counters
from kvdocs.engine.scheduler import Batch
from kvdocs.engine.tally import Tally
from kvdocs.errors import FlagError, WorkloadError
from kvdocs.offload.tier import Route
from kvdocs.server import EngineKind
from kvdocs.server.adapt import to_spec
from kvdocs.server.simulation import make_engine
from kvdocs.timing import Efficiency, to_grid
from kvdocs.workload import WorkloadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What each worker is: one GPU, or a tensor-parallel group.

    Attributes:
        config: The engine's settings.
        timer: The timing model.
        num_layers: Layers of the model.
        bytes_per_token: Bytes of a token's KV: `KVCost.bytes_per_token`; of a group those of one
            GPU, which sends over a link of its own.
        efficiency: What of a link's peak is reached.
    """

    config: EngineConfig
    timer: StepTimer
    num_layers: int
    bytes_per_token: float
    efficiency: Efficiency | None = None


@dataclass(frozen=True, slots=True)
class _Answers:
    """What some workers made of their requests."""

    results: dict[str, RequestResult]
    tallies: tuple[Tally, ...]
    counters: tuple[Counters, ...]
    prompt_steps: tuple[PromptStep, ...]


def simulate_mixed(
    worker: Worker, requests: Iterable[WorkloadRequest], *, workers: int = 1
) -> DeploymentRun:
    """Run a workload on workers that all do both, chunk by chunk (`--enable-chunked-prefill`).

    Args:
        worker: What each worker is.
        requests: The workload.
        workers: How many.

    Raises:
        FlagError: No workers.
        NeverFitsError: A request that no worker can ever run.
        WorkloadError: A request that follows another.

    Examples:
        >>> from kvdocs.engine import ConstantTimer
        >>> from kvdocs.workload import Unshared
        >>> worker = Worker(config=EngineConfig(), timer=ConstantTimer(0.5), num_layers=4,
        ...     bytes_per_token=10)
        >>> load = [WorkloadRequest(id="a", prompt=Unshared(100), output_tokens=3)]
        >>> simulate_mixed(worker, load).requests[0].finished_s
        1.5
    """
    check_workers(workers=workers)
    specs = _specs(requests, worker.config)
    answers = _answer(worker, [specs[number::workers] for number in range(workers)])
    served = tuple(
        _mixed(answers.results[spec.id], place % workers) for place, spec in enumerate(specs)
    )
    return DeploymentRun(
        name="mixed",
        workers=workers,
        requests=served,
        tally=merge(answers.tallies),
        num_preemptions=sum(one.preemptions for one in answers.counters),
        prompt_steps=answers.prompt_steps,
    )


def simulate_split(
    worker: Worker,
    requests: Iterable[WorkloadRequest],
    route: Route,
    *,
    prefill_workers: int = 1,
    decode_workers: int = 1,
    sending: Sending = Sending.LAYERWISE,
) -> DeploymentRun:
    """Run a workload on prefill workers and decode workers, with KV sent between them.

    A worker sends to one other at a time, and receives from one at a time; prompts that are
    through first go first.

    Args:
        worker: What each worker is.
        requests: The workload.
        route: The link between any two workers.
        prefill_workers: Workers that compute prompts.
        decode_workers: Workers that generate.
        sending: When KV leaves.

    Raises:
        FlagError: No workers of a kind.
        NeverFitsError: A request that no worker can ever run.
        WorkloadError: A request that follows another.

    Examples:
        >>> from kvdocs.engine import ConstantTimer
        >>> from kvdocs.workload import Unshared
        >>> worker = Worker(config=EngineConfig(), timer=ConstantTimer(0.5), num_layers=4,
        ...     bytes_per_token=10, efficiency=Efficiency(link=1, link_latency_s=0))
        >>> load = [WorkloadRequest(id="a", prompt=Unshared(100), output_tokens=3)]
        >>> wire = Route("mine", "mine", 1000, 1000)  # 1,000 bytes: 1 s
        >>> one = simulate_split(worker, load, wire, sending=Sending.WHOLE).requests[0]
        >>> one.prefill_end_s, one.received_s, one.first_token_s, one.finished_s
        (0.5, 1.5, 2.0, 3.0)
        >>> one = simulate_split(worker, load, wire).requests[0]
        >>> one.sent_s, one.received_s
        (0.125, 1.125)
    """
    check_workers(prefill_workers=prefill_workers, decode_workers=decode_workers)
    specs = _specs(requests, worker.config)
    prompts = [replace(spec, max_tokens=1) for spec in specs]
    prefilled = _answer(worker, [prompts[each::prefill_workers] for each in range(prefill_workers)])
    ways = [(place % prefill_workers, place % decode_workers) for place in range(len(specs))]
    wire = Wire.over(
        route, num_layers=worker.num_layers, sending=sending, efficiency=worker.efficiency
    )
    sent = _send(wire, worker.bytes_per_token, [prefilled.results[s.id] for s in specs], ways)
    arrived = [
        replace(spec, arrival=received, received_tokens=spec.prompt.num_tokens)
        for spec, (_, received) in zip(specs, sent, strict=True)
    ]
    decoded = _answer(worker, [arrived[each::decode_workers] for each in range(decode_workers)])
    served = tuple(
        _split(prefilled.results[spec.id], decoded.results[spec.id], times, way, worker)
        for spec, times, way in zip(specs, sent, ways, strict=True)
    )
    return DeploymentRun(
        name=f"{prefill_workers} prefill + {decode_workers} decode",
        workers=prefill_workers + decode_workers,
        requests=served,
        tally=merge(decoded.tallies),
        num_preemptions=sum(one.preemptions for one in (*prefilled.counters, *decoded.counters)),
        prompt_steps=decoded.prompt_steps,
    )


def simulate_splits(
    worker: Worker,
    requests: Iterable[WorkloadRequest],
    route: Route,
    *,
    workers: int,
    sending: Sending = Sending.LAYERWISE,
) -> tuple[DeploymentRun, ...]:
    """Run a workload on so many workers in every way: mixed, then all splits.

    Args:
        worker: What each worker is.
        requests: The workload.
        route: The link between any two workers.
        workers: How many, 2 or more.
        sending: When KV leaves.

    Raises:
        FlagError: Fewer than two workers.
    """
    if workers < 2:
        raise FlagError(f"workers is {workers}; a split needs at least 2")
    requests = list(requests)
    splits = (
        simulate_split(
            worker,
            requests,
            route,
            prefill_workers=count,
            decode_workers=workers - count,
            sending=sending,
        )
        for count in range(1, workers)
    )
    return (simulate_mixed(worker, requests, workers=workers), *splits)


def _specs(requests: Iterable[WorkloadRequest], config: EngineConfig) -> list[RequestSpec]:
    specs = []
    for request in requests:
        if request.follows:
            raise WorkloadError(
                f"request {request.id!r} follows {request.follows!r}: here all arrivals are given"
            )
        specs.append(to_spec(request, config, arrival=request.arrival_s))
    return sorted(specs, key=lambda spec: spec.arrival)


def _answer(worker: Worker, shares: Sequence[Sequence[RequestSpec]]) -> _Answers:
    """Let each worker run its share."""
    results: dict[str, RequestResult] = {}
    engines, steps = [], []
    for number, share in enumerate(shares):
        engine = make_engine(EngineKind.JUMPING, worker.config, worker.timer)
        seen = _Watch(number, worker.timer)
        engine.scheduler.on_batch = seen
        results |= {result.id: result for result in run(engine, share)}
        steps += seen.steps
        engines.append(engine)
    return _Answers(
        results,
        tuple(engine.scheduler.tally for engine in engines),
        tuple(engine.gauges().counters for engine in engines),
        tuple(steps),
    )


class _Watch:
    """Notes the steps that compute prompts; one token alone is a decode, or the last of one."""

    def __init__(self, number: int, timer: StepTimer) -> None:
        self.steps: list[PromptStep] = []
        self._number = number
        self._timer = timer

    def __call__(self, clock: float, batch: Batch) -> None:
        tokens = sum(count for count in batch.num_tokens.values() if count > 1)
        if tokens:
            end = clock + self._timer.seconds(batch.load)
            self.steps.append(PromptStep(self._number, clock, end, tokens))


def _send(
    wire: Wire,
    bytes_per_token: float,
    prefilled: Sequence[RequestResult],
    ways: Sequence[tuple[int, int]],
) -> list[tuple[float, float]]:
    """When each prompt's KV began to leave, and when all of it was there."""
    out_free: dict[int, float] = {}
    in_free: dict[int, float] = {}
    sent = [(0.0, 0.0)] * len(prefilled)
    order = sorted(range(len(prefilled)), key=lambda place: _through(prefilled[place]))
    for place in order:
        result, (source, target) = prefilled[place], ways[place]
        ready = wire.begin(result.admitted_at or 0.0, _through(result))
        start = max(ready, out_free.get(source, 0.0), in_free.get(target, 0.0))
        end = wire.end(result.num_prompt_tokens * bytes_per_token, start, _through(result))
        out_free[source] = in_free[target] = end
        sent[place] = (start, to_grid(end + wire.latency_s))
    return sent


def _through(result: RequestResult) -> float:
    """When the prompt was through."""
    return result.first_token_at or 0.0


def _mixed(result: RequestResult, number: int) -> Served:
    first = _through(result)
    return Served(
        id=result.id,
        arrival_s=result.arrival,
        prefill_start_s=result.admitted_at or 0.0,
        prefill_end_s=first,
        sent_s=first,
        received_s=first,
        admitted_s=first,
        first_token_s=first,
        finished_s=result.finished_at or 0.0,
        num_prompt_tokens=result.num_prompt_tokens,
        num_output_tokens=result.num_output_tokens,
        prefill_worker=number,
        decode_worker=number,
    )


def _split(
    prefilled: RequestResult,
    decoded: RequestResult,
    times: tuple[float, float],
    way: tuple[int, int],
    worker: Worker,
) -> Served:
    return Served(
        id=prefilled.id,
        arrival_s=prefilled.arrival,
        prefill_start_s=prefilled.admitted_at or 0.0,
        prefill_end_s=_through(prefilled),
        sent_s=times[0],
        received_s=times[1],
        admitted_s=decoded.admitted_at or 0.0,
        first_token_s=_through(decoded),
        finished_s=decoded.finished_at or 0.0,
        num_prompt_tokens=prefilled.num_prompt_tokens,
        num_output_tokens=decoded.num_output_tokens,
        prefill_worker=way[0],
        decode_worker=way[1],
        num_bytes=prefilled.num_prompt_tokens * worker.bytes_per_token,
    )
