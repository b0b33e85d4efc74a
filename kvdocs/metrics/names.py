"""Which metric means what: vLLM's current and older names, and SGLang's.

vLLM: 0.33.0 `vllm/v1/metrics/loggers.py`, and the same file or `vllm/engine/metrics.py` of the
releases from 0.6 on. SGLang: the metrics collector in `python/sglang/srt`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """How a value is to be read."""

    GAUGE = "gauge"
    SHARE = "share"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    CONFIG = "config"


class Meaning(NamedTuple):
    """What a metric means.

    Attributes:
        field: Field of `ServerMetrics`.
        kind: How its value is read.
        note: What to tell the reader about the name; "" for a current one.
        only: Label and value that a sample must have to count, if any.
        rank: Of several names for one field the lowest counts.
    """

    field: str
    kind: Kind
    note: str = ""
    only: tuple[str, str] | None = None
    rank: int = 0


def _old(field: str, kind: Kind, now: str, when: str, rank: int = 1) -> Meaning:
    return Meaning(field, kind, f"old name, {when}; now {now}", rank=rank)


_V0: Final = "V0 only (gone since vLLM 0.11)"

VLLM: Final[dict[str, Meaning]] = {
    "num_requests_running": Meaning("running", Kind.GAUGE),
    "num_requests_waiting": Meaning("waiting", Kind.GAUGE),
    "num_requests_waiting_by_reason": Meaning(
        "waiting_deferred", Kind.GAUGE, only=("reason", "deferred")
    ),
    "kv_cache_usage_perc": Meaning("kv_cache_usage", Kind.SHARE),
    "gpu_cache_usage_perc": _old(
        "kv_cache_usage", Kind.SHARE, "vllm:kv_cache_usage_perc", "before vLLM 0.12"
    ),
    "num_preemptions": Meaning("preemptions", Kind.COUNTER),
    "prefix_cache_queries": Meaning("prefix_queries", Kind.COUNTER),
    "prefix_cache_hits": Meaning("prefix_hits", Kind.COUNTER),
    "gpu_prefix_cache_queries": _old(
        "prefix_queries", Kind.COUNTER, "vllm:prefix_cache_queries", "vLLM 0.7.3 to 0.11"
    ),
    "gpu_prefix_cache_hits": _old(
        "prefix_hits", Kind.COUNTER, "vllm:prefix_cache_hits", "vLLM 0.7.3 to 0.11"
    ),
    "gpu_prefix_cache_hit_rate": _old(
        "shown_hit_rate", Kind.SHARE, "vllm:prefix_cache_hits / _queries", _V0
    ),
    "external_prefix_cache_queries": Meaning("external_queries", Kind.COUNTER),
    "external_prefix_cache_hits": Meaning("external_hits", Kind.COUNTER),
    "prompt_tokens": Meaning("prompt_tokens", Kind.COUNTER),
    "prompt_tokens_by_source": Meaning(
        "prompt_tokens_computed", Kind.COUNTER, only=("source", "local_compute")
    ),
    "generation_tokens": Meaning("generation_tokens", Kind.COUNTER),
    "request_success": Meaning("requests_finished", Kind.COUNTER),
    "request_prompt_tokens": Meaning("prompt_lengths", Kind.HISTOGRAM),
    "kv_offload_load_time": Meaning("offload_load_seconds", Kind.COUNTER),
    "kv_offload_load_bytes": Meaning("offload_load_bytes", Kind.COUNTER),
    "kv_offload_total_time": Meaning(
        "offload_load_seconds",
        Kind.COUNTER,
        "old name, before vLLM 0.33; now vllm:kv_offload_load_time",
        only=("transfer_type", "CPU_to_GPU"),
        rank=1,
    ),
    "kv_offload_total_bytes": Meaning(
        "offload_load_bytes",
        Kind.COUNTER,
        "old name, before vLLM 0.33; now vllm:kv_offload_load_bytes",
        only=("transfer_type", "CPU_to_GPU"),
        rank=1,
    ),
    "time_to_first_token_seconds": Meaning("ttft", Kind.HISTOGRAM),
    "inter_token_latency_seconds": Meaning("itl", Kind.HISTOGRAM),
    "time_per_output_token_seconds": _old(
        "itl", Kind.HISTOGRAM, "vllm:inter_token_latency_seconds", "before vLLM 0.16"
    ),
    "request_time_per_output_token_seconds": Meaning("tpot", Kind.HISTOGRAM),
    "e2e_request_latency_seconds": Meaning("e2e", Kind.HISTOGRAM),
    "request_queue_time_seconds": Meaning("queue", Kind.HISTOGRAM),
    "time_in_queue_requests": _old("queue", Kind.HISTOGRAM, "vllm:request_queue_time_seconds", _V0),
    "request_prefill_time_seconds": Meaning("prefill", Kind.HISTOGRAM),
    "request_decode_time_seconds": Meaning("decode", Kind.HISTOGRAM),
    "num_requests_swapped": Meaning(
        "swapped", Kind.GAUGE, f"{_V0}: a preempted request is computed again now, not swapped"
    ),
    "cpu_cache_usage_perc": Meaning("cpu_cache_usage", Kind.SHARE, f"{_V0}: swap space"),
    "avg_prompt_throughput_toks_per_s": Meaning(
        "shown_prompt_tokens_per_s", Kind.GAUGE, f"{_V0}: now the rate of vllm:prompt_tokens_total"
    ),
    "avg_generation_throughput_toks_per_s": Meaning(
        "shown_generation_tokens_per_s",
        Kind.GAUGE,
        f"{_V0}: now the rate of vllm:generation_tokens_total",
    ),
    "cache_config_info": Meaning("", Kind.CONFIG),
}

SGLANG: Final[dict[str, Meaning]] = {
    "num_running_reqs": Meaning("running", Kind.GAUGE),
    "num_queue_reqs": Meaning("waiting", Kind.GAUGE),
    "token_usage": Meaning("kv_cache_usage", Kind.SHARE),
    "cache_hit_rate": Meaning(
        "shown_hit_rate", Kind.SHARE, "of the last batch only, and 0 while nothing is prefilled"
    ),
    "num_retracted_requests": Meaning("preemptions", Kind.COUNTER),
    "cached_tokens": Meaning(
        "prefix_hits", Kind.COUNTER, "hits, of all prompt tokens (sglang:prompt_tokens_total)"
    ),
    "prompt_tokens": Meaning("prompt_tokens", Kind.COUNTER),
    "generation_tokens": Meaning("generation_tokens", Kind.COUNTER),
    "num_requests": Meaning("requests_finished", Kind.COUNTER),
    "gen_throughput": Meaning("shown_generation_tokens_per_s", Kind.GAUGE),
    "time_to_first_token_seconds": Meaning("ttft", Kind.HISTOGRAM),
    "inter_token_latency_seconds": Meaning("itl", Kind.HISTOGRAM),
    "time_per_output_token_seconds": _old(
        "itl", Kind.HISTOGRAM, "sglang:inter_token_latency_seconds", "older SGLang"
    ),
    "e2e_request_latency_seconds": Meaning("e2e", Kind.HISTOGRAM),
    "queue_time_seconds": Meaning("queue", Kind.HISTOGRAM),
    "max_total_num_tokens": Meaning("capacity_tokens", Kind.GAUGE),
    "page_size": Meaning("block_size", Kind.GAUGE),
}

SERVERS: Final = {"vllm": VLLM, "sglang": SGLANG}

_SUFFIXES: Final = ("_bucket", "_sum", "_count")


class Found(NamedTuple):
    """A metric that is known.

    Attributes:
        server: Whose it is.
        name: Its name without prefix and suffix.
        suffix: `_bucket`, `_sum` or `_count` of a histogram, else "".
        meaning: What it means.
    """

    server: str
    name: str
    suffix: str
    meaning: Meaning


def look_up(written: str) -> Found | None:
    """What a metric of a page means, or None for one that is not known here.

    Args:
        written: The name as written; `vllm_...`, as some collectors rewrite it, is known too.

    Examples:
        >>> look_up("vllm:gpu_cache_usage_perc").meaning.field
        'kv_cache_usage'
        >>> look_up("process_cpu_seconds_total") is None
        True
    """
    for server, names in SERVERS.items():
        if written.startswith((f"{server}:", f"{server}_")):
            return _among(server, names, written[len(server) + 1 :])
    return None


def _among(server: str, names: dict[str, Meaning], name: str) -> Found | None:
    meaning = names.get(name)
    if meaning is None and name.endswith("_total"):
        name = name.removesuffix("_total")
        meaning = names.get(name)
    if meaning is not None:
        return None if meaning.kind is Kind.HISTOGRAM else Found(server, name, "", meaning)
    for suffix in _SUFFIXES:
        base = name.removesuffix(suffix)
        meaning = names.get(base)
        if base != name and meaning is not None and meaning.kind is Kind.HISTOGRAM:
            return Found(server, base, suffix, meaning)
    return None
