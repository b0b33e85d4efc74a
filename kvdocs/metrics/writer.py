"""Write the page: the families of vLLM 0.33.0 `vllm/v1/metrics/loggers.py`, in its order.

Printed as prometheus_client does for its text format 0.0.4: labels sorted, counters with `_total`,
and for every counter and histogram a family of `_created` times behind it. Families that only
appear with special settings, and those of the Python process, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kvdocs.metrics.histogram import Histogram
from kvdocs.metrics.snapshot import EngineSnapshot
from kvdocs.metrics.text import format_labels, format_value

_Series: TypeAlias = Iterable[tuple[Mapping[str, str], float]]


class _Family(NamedTuple):
    """A gauge or counter: its values per engine, told apart by labels of their own."""

    name: str
    kind: str
    documentation: str
    series: Callable[[EngineSnapshot], _Series]


def _one(value: Callable[[EngineSnapshot], float]) -> Callable[[EngineSnapshot], _Series]:
    return lambda engine: [({}, value(engine))]


def _by(
    label: str, value: Callable[[EngineSnapshot], Mapping[str, float]]
) -> Callable[[EngineSnapshot], _Series]:
    return lambda engine: [({label: key}, number) for key, number in value(engine).items()]


_FINISH_REASONS: Final = ("stop", "length", "abort", "error", "repetition")
_REJECTIONS: Final = ("max_num_queued_reqs", "max_num_queued_tokens")

_BEFORE_HISTOGRAMS: Final = (
    _Family(
        "num_requests_running",
        "gauge",
        "Number of requests in model execution batches.",
        _one(lambda e: e.running),
    ),
    _Family(
        "num_requests_waiting",
        "gauge",
        "Number of requests waiting to be processed.",
        _one(lambda e: e.waiting),
    ),
    _Family(
        "num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling "
        "capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, "
        "blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
        _by("reason", lambda e: {"capacity": e.waiting_capacity, "deferred": e.waiting_deferred}),
    ),
    _Family(
        "engine_sleep_state",
        "gauge",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
        "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        _by("sleep_state", lambda _: {"awake": 1, "weights_offloaded": 0, "discard_all": 0}),
    ),
    _Family(
        "kv_cache_usage_perc",
        "gauge",
        "KV-cache usage. 1 means 100 percent usage.",
        _one(lambda e: e.kv_cache_usage),
    ),
    _Family(
        "prefix_cache_queries",
        "counter",
        "Prefix cache queries, in terms of number of queried tokens.",
        _one(lambda e: e.prefix_queries),
    ),
    _Family(
        "prefix_cache_hits",
        "counter",
        "Prefix cache hits, in terms of number of cached tokens.",
        _one(lambda e: e.prefix_hits),
    ),
    _Family(
        "external_prefix_cache_queries",
        "counter",
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms "
        "of number of queried tokens.",
        _one(lambda e: e.external_queries),
    ),
    _Family(
        "external_prefix_cache_hits",
        "counter",
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of "
        "number of cached tokens.",
        _one(lambda e: e.external_hits),
    ),
    _Family(
        "mm_cache_queries",
        "counter",
        "Multi-modal cache queries, in terms of number of queried items.",
        _one(lambda _: 0),
    ),
    _Family(
        "mm_cache_hits",
        "counter",
        "Multi-modal cache hits, in terms of number of cached items.",
        _one(lambda _: 0),
    ),
    _Family(
        "num_preemptions",
        "counter",
        "Cumulative number of preemption from the engine.",
        _one(lambda e: e.preemptions),
    ),
    _Family(
        "prompt_tokens",
        "counter",
        "Number of prefill tokens processed.",
        _one(lambda e: e.prompt_tokens),
    ),
    _Family(
        "prompt_tokens_by_source",
        "counter",
        "Number of prompt tokens by source.",
        _by(
            "source",
            lambda e: {
                "local_compute": e.prompt_tokens_computed,
                "local_cache_hit": e.prompt_tokens_cached,
                "external_kv_transfer": e.prompt_tokens_transferred,
            },
        ),
    ),
    _Family(
        "prompt_tokens_cached",
        "counter",
        "Number of cached prompt tokens (local + external).",
        _one(lambda e: e.prompt_tokens_cached + e.prompt_tokens_transferred),
    ),
    _Family(
        "prompt_tokens_cached_by_source",
        "counter",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host "
        "(offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or "
        "external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + "
        "vllm:external_prefix_cache_hits.",
        _by(
            "source",
            lambda e: {
                "device": e.prefix_hits,
                "host": 0,
                "p2p": 0,
                "disk": 0,
                "external_unspecified": e.external_hits,
            },
        ),
    ),
    _Family(
        "generation_tokens",
        "counter",
        "Number of generation tokens processed.",
        _one(lambda e: e.generation_tokens),
    ),
    _Family(
        "request_success",
        "counter",
        "Count of successfully processed requests.",
        _by("finished_reason", lambda e: {r: e.finished.get(r, 0) for r in _FINISH_REASONS}),
    ),
)

_REJECTED: Final = _Family(
    "admission_rejections",
    "counter",
    "Number of admission attempts rejected by a queue limit, by reason.",
    _by("reason", lambda e: {reason: e.rejected.get(reason, 0) for reason in _REJECTIONS}),
)

_HISTOGRAMS: Final = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": "Histogram of maximum number of requested generation "
    "tokens.",
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per "
    "request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "request_prefill_kv_computed_tokens": "Histogram of new KV tokens computed during prefill "
    "(excluding cached tokens).",
}


def write_metrics(engines: Sequence[EngineSnapshot]) -> str:
    """The page a server shows at `/metrics`.

    Args:
        engines: One snapshot per engine behind it.

    Returns:
        Text in Prometheus's format 0.0.4.

    Examples:
        >>> page = write_metrics([EngineSnapshot(model_name="llama", running=3)])
        >>> print(page[:page.index("3.0") + 3])
        # HELP vllm:num_requests_running Number of requests in model execution batches.
        # TYPE vllm:num_requests_running gauge
        vllm:num_requests_running{engine="0",model_name="llama"} 3.0
    """
    return "".join(f"{line}\n" for line in _lines(engines))


def _lines(engines: Sequence[EngineSnapshot]) -> Iterator[str]:
    for family in _BEFORE_HISTOGRAMS:
        yield from _family(family, engines, _engine_labels)
    yield from _family(_REJECTED, engines[:1], _model_label)
    for name, documentation in _HISTOGRAMS.items():
        yield from _histogram_family(f"vllm:{name}", name, documentation, engines)
    yield from _head("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
    for engine in engines:
        labels = {**engine.cache_config, "engine": str(engine.engine)}
        yield f"vllm:cache_config_info{format_labels(labels)} 1.0"


def _engine_labels(engine: EngineSnapshot) -> dict[str, str]:
    return {"model_name": engine.model_name, "engine": str(engine.engine)}


def _model_label(engine: EngineSnapshot) -> dict[str, str]:
    return {"model_name": engine.model_name}


def _head(name: str, kind: str, documentation: str) -> list[str]:
    return [f"# HELP {name} {documentation}", f"# TYPE {name} {kind}"]


def _family(
    family: _Family,
    engines: Sequence[EngineSnapshot],
    common: Callable[[EngineSnapshot], dict[str, str]],
) -> Iterator[str]:
    name = f"vllm:{family.name}"
    suffix = "_total" if family.kind == "counter" else ""
    by_engine = [family.series(engine) for engine in engines]
    rows = [
        (engine, format_labels({**common(engine), **labels}), value)
        for alike in zip(*by_engine, strict=True)  # vLLM goes through its label values outermost
        for engine, (labels, value) in zip(engines, alike, strict=True)
    ]
    yield from _head(name + suffix, family.kind, family.documentation)
    for _, labels_text, value in rows:
        yield f"{name}{suffix}{labels_text} {format_value(value)}"
    if suffix:
        yield from _created(name, family.documentation, [(e, text) for e, text, _ in rows])


def _created(
    name: str, documentation: str, rows: Iterable[tuple[EngineSnapshot, str]]
) -> Iterator[str]:
    lines = [
        f"{name}_created{labels} {format_value(engine.created)}"
        for engine, labels in rows
        if engine.created is not None
    ]
    if lines:
        yield from _head(f"{name}_created", "gauge", documentation)
        yield from lines


def _histogram_family(
    name: str, key: str, documentation: str, engines: Sequence[EngineSnapshot]
) -> Iterator[str]:
    shown = [engine for engine in engines if key in engine.histograms]
    if not shown:
        return
    yield from _head(name, "histogram", documentation)
    for engine in shown:
        yield from _histogram(name, _engine_labels(engine), engine.histograms[key])
    rows = [(engine, format_labels(_engine_labels(engine))) for engine in shown]
    yield from _created(name, documentation, rows)


def _histogram(name: str, labels: dict[str, str], histogram: Histogram) -> Iterator[str]:
    cumulative = histogram.cumulative
    for bound, count in zip((*histogram.bounds, float("inf")), cumulative, strict=True):
        le = format_labels({**labels, "le": format_value(bound)})
        yield f"{name}_bucket{le} {format_value(count)}"
    yield f"{name}_count{format_labels(labels)} {format_value(cumulative[-1])}"
    yield f"{name}_sum{format_labels(labels)} {format_value(histogram.total)}"
