"""Run a recorded-format workload and write down every decision.

The format is that of the workloads in `tests/golden/`, whose outputs were recorded from vLLM
0.33.0's own scheduler. Time is counted in steps: a request arrives, or is aborted, just before
the step it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.events import PrefixStats
from kvdocs.engine.prompt import TokenPrompt
from kvdocs.engine.request import RequestSpec
from kvdocs.engine.stepping import Snapshot, Step, SteppingEngine
from kvdocs.errors import WorkloadError

VLLM_VERSION: Final = "0.33.0"
"""The vLLM release whose decisions are reproduced."""

DEFAULT_CONFIG: Final[Mapping[str, Any]] = {
    "num_blocks": 100,
    "block_size": 16,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 2048,
    "max_model_len": 4096,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "watermark": 0.0,
    "reserve_full_isl": True,
    "policy": "fcfs",
    "async_scheduling": False,
    "sliding_window": None,
}
"""Settings of a workload that names none."""

DEFAULT_MAX_STEPS: Final = 400
STALLED_STEPS: Final = 5
"""Steps in a row without anything to schedule after which a run counts as stalled."""

DONE, STALLED, TRUNCATED = "done", "stalled", "truncated"


def stream_token(seed: int, index: int) -> int:
    """The token at one place of a numbered stream.

    Args:
        seed: Which stream.
        index: Where in it, from 0.

    Returns:
        A token id from 1 to 31999.

    Examples:
        >>> stream_token(1, 0), stream_token(1, 1)
        (7937, 7968)
    """
    return (seed * 7919 + index * 31 + 17) % 31999 + 1


def replay(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Run a workload step by step.

    Args:
        workload: `config`, `requests` and optionally `name`, `max_steps`, `dump_free_queue`.

    Returns:
        The document: `vllm_version`, `workload`, `config`, `status`, `n_steps`, `totals`,
        `requests_end`, `initial_free` and `steps`.

    Raises:
        WorkloadError: The workload has a setting or a request that cannot be read.
        FlagError: A setting has a value that no server takes.

    Examples:
        >>> request = {"id": "a", "at": 0, "prompt": [{"seed": 1, "n": 20}], "out": 2}
        >>> document = replay({"config": {"num_blocks": 8}, "requests": [request]})
        >>> document["status"], document["n_steps"], document["steps"][0]["newb"]
        ('done', 3, [['a', [1, 2]]])
    """
    config = _read_config(workload.get("config", {}))
    specs = read_requests(workload.get("requests", ()))
    run = _Run(
        engine=SteppingEngine(_engine_config(config)),
        specs=specs,
        dump_free_queue=bool(workload.get("dump_free_queue", False)),
    )
    initial_free = run.engine.cache.num_free
    status = run.to_the_end(int(workload.get("max_steps", DEFAULT_MAX_STEPS)))
    return {
        "vllm_version": VLLM_VERSION,
        "workload": workload.get("name", ""),
        "config": config,
        "status": status,
        "n_steps": len(run.records),
        "totals": run.totals,
        "requests_end": [run.request_end(spec) for spec in specs],
        "initial_free": initial_free,
        "steps": run.records,
    }


def dump(document: Mapping[str, Any]) -> str:
    """Write a replay document as JSON, one step a line.

    Args:
        document: What `replay` returned.

    Returns:
        The text, ending in a newline.

    Examples:
        >>> print(dump({"status": "done", "steps": [{"t": 0}, {"t": 1}]}), end="")
        {"status":"done","steps":[
        {"t":0},
        {"t":1}
        ]}
    """
    head = _compact({key: value for key, value in document.items() if key != "steps"})
    steps = ",\n".join(_compact(step) for step in document["steps"])
    return f'{head[:-1]},"steps":[\n{steps}\n]}}\n'


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _read_config(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(DEFAULT_CONFIG))
    if unknown:
        raise WorkloadError(
            f"unknown setting {', '.join(unknown)} in the workload's config; "
            f"allowed are {', '.join(DEFAULT_CONFIG)}"
        )
    return {**DEFAULT_CONFIG, **given}


def _engine_config(config: Mapping[str, Any]) -> EngineConfig:
    settings = dict(config)
    policy = settings.pop("policy")
    if policy not in list(Policy):
        raise WorkloadError(f"policy is {policy!r}; allowed are fcfs and priority")
    reserve = settings.pop("reserve_full_isl")
    return EngineConfig(**settings, policy=Policy(policy), scheduler_reserve_full_isl=reserve)


def read_requests(requests: Sequence[Mapping[str, Any]]) -> list[RequestSpec]:
    """Read a workload's requests; steps become seconds, one each.

    Args:
        requests: Objects with `id`, `at`, `prompt`, `out` and optionally `priority`, `abort`,
            `salt`, `oseed`.

    Returns:
        The requests, in the same order.

    Raises:
        WorkloadError: A field is missing or of the wrong kind, an id is used twice, or a prompt
            quotes a request that does not exist.
    """
    outputs: dict[str, _Output] = {}
    for index, request in enumerate(requests):
        with _naming(index):
            name, seed = request["id"], request.get("oseed", 9000 + index)
            length = sum(
                len(part["ids"]) if "ids" in part else part["n"] for part in request["prompt"]
            )
        if name in outputs:
            raise WorkloadError(f"two requests have the id {name!r}; ids must differ")
        outputs[name] = _Output(seed, length)
    specs = []
    for index, request in enumerate(requests):
        with _naming(index):
            specs.append(_read_request(request, outputs))
    return specs


@contextmanager
def _naming(index: int) -> Iterator[None]:
    """Say which request is at fault."""
    try:
        yield
    except (KeyError, TypeError) as error:
        raise WorkloadError(f"request number {index} lacks or misuses {error}") from error


@dataclass(frozen=True, slots=True)
class _Output:
    """The tokens a request generates: its stream, read from the end of its prompt."""

    seed: int
    start: int

    def token(self, position: int) -> int:
        return stream_token(self.seed, position)


def _read_request(request: Mapping[str, Any], outputs: Mapping[str, _Output]) -> RequestSpec:
    tokens = [token for part in request["prompt"] for token in _segment(part, outputs)]
    return RequestSpec(
        id=request["id"],
        prompt=TokenPrompt(tuple(tokens), outputs[request["id"]].token),
        max_tokens=request["out"],
        arrival=request["at"],
        priority=request.get("priority", 0),
        salt=request.get("salt") or "",
        abort_at=request.get("abort"),
    )


def _segment(part: Mapping[str, Any], outputs: Mapping[str, _Output]) -> Sequence[int]:
    if "ids" in part:
        return list(part["ids"])
    if "out" in part:
        quoted = outputs[part["out"]]
        start = quoted.start + part.get("from", 0)
        return [quoted.token(start + i) for i in range(part["n"])]
    start = part.get("off", 0)
    return [stream_token(part["seed"], start + i) for i in range(part["n"])]


@dataclass(slots=True)
class _Run:
    """A replay under way."""

    engine: SteppingEngine
    specs: Sequence[RequestSpec]
    dump_free_queue: bool
    records: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, int] = field(
        default_factory=lambda: {"preemptions": 0, "queries": 0, "hits": 0, "evictions": 0}
    )

    def to_the_end(self, max_steps: int) -> str:
        stalled = 0
        for t in range(max_steps):
            if self._is_done(t):
                return DONE
            record = self._turn(t)
            self.records.append(record)
            blocked = "run" in record and "sched" not in record and "flush" not in record
            stalled = stalled + 1 if blocked and self.engine.has_unfinished else 0
            if stalled == STALLED_STEPS:
                return STALLED
        return DONE if self._is_done(max_steps) else TRUNCATED

    def _is_done(self, t: int) -> bool:
        return not self.engine.must_step and all(spec.arrival < t for spec in self.specs)

    def _turn(self, t: int) -> dict[str, Any]:
        record: dict[str, Any] = {"t": t}
        added = [spec for spec in self.specs if spec.arrival == t]
        for spec in added:
            self.engine.add(spec)
        leaving = [spec.id for spec in self.specs if spec.abort_at == t]
        aborted = [request_id for request_id in leaving if self.engine.abort(request_id)]
        _put(record, add=[spec.id for spec in added], abort=aborted)
        idle = not self.engine.must_step
        if not idle:
            self._record_step(record)
        if self.dump_free_queue:
            record["fq"] = list(self.engine.cache.pool.free_queue)
        if idle:
            record["idle"] = True
        return record

    def _record_step(self, record: dict[str, Any]) -> None:
        scheduling, flush = self.engine.must_schedule, not self.engine.has_unfinished
        step = self.engine.step()
        if scheduling:
            if flush:
                record["flush"] = True
            _record_schedule(record, step)
        if step.updated:
            _record_update(record, step)
        self.totals["preemptions"] += len(step.preemptions)
        self.totals["evictions"] += len(step.evicted)
        self.totals["queries"] += step.prefix_stats.queries
        self.totals["hits"] += step.prefix_stats.hits

    def request_end(self, spec: RequestSpec) -> list[Any]:
        request = self.engine.requests.get(spec.id)
        if request is None:
            return [spec.id, spec.prompt.num_tokens, 0, 0, "WAITING"]
        return [
            spec.id,
            request.num_prompt_tokens,
            request.num_output_tokens,
            request.num_preemptions,
            str(request.status),
        ]


def _put(record: dict[str, Any], **lists: Sequence[Any]) -> None:
    record.update({key: value for key, value in lists.items() if value})


def _record_schedule(record: dict[str, Any], step: Step) -> None:
    _put(
        record,
        sched=[list(pair) for pair in step.scheduled],
        admit=[
            [a.request_id, a.hit_tokens, a.resumed, list(a.hit_blocks)] for a in step.admissions
        ],
        newb=[[request_id, list(blocks)] for request_id, blocks in step.new_blocks.items()],
        preempt=[preemption.request_id for preemption in step.preemptions],
        evict=list(step.evicted),
    )
    after = step.after_schedule
    record.update(run=list(after.running), wait=list(after.waiting))
    record.update(free=after.free_blocks, cached=after.cached_prefixes)


def _record_update(record: dict[str, Any], step: Step) -> None:
    after = step.after_update
    _put(record, fin=[finish.request_id for finish in step.finished])
    record["stats"] = _gauges(after)
    if step.prefix_stats != PrefixStats():
        stats = step.prefix_stats
        record["pc"] = [stats.queries, stats.hits, stats.preempted_queries, stats.preempted_hits]
    record.update(free2=after.free_blocks, cached2=after.cached_prefixes)


def _gauges(snapshot: Snapshot) -> list[float]:
    return [len(snapshot.running), len(snapshot.waiting), round(snapshot.usage, 6)]
