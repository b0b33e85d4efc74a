"""The figures of the metrics page, from a simulation at any moment."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from kvdocs.engine.tally import GAP_RESOLUTION, Tally
from kvdocs.metrics import EngineSnapshot, Histogram, empty_histograms
from kvdocs.server.records import FinishReason, RequestRecord
from kvdocs.server.simulation import Simulation


def snapshot(
    simulation: Simulation, *, model_name: str, cache_config: Mapping[str, str]
) -> EngineSnapshot:
    """What `/metrics` shows now.

    Args:
        simulation: A server under way.
        model_name: `--served-model-name`.
        cache_config: Labels of `vllm:cache_config_info`.
    """
    scheduler, counters = simulation.engine.scheduler, simulation.counters
    finished = Counter(
        str(record.reason)
        for record in simulation.records
        if record.reason is not FinishReason.REFUSED
    )
    return EngineSnapshot(
        model_name=model_name,
        running=len(scheduler.running),
        waiting_capacity=len(scheduler.waiting),
        kv_cache_usage=scheduler.cache.usage,
        prefix_queries=counters.prefix_cache_queries,
        prefix_hits=counters.prefix_cache_hits,
        preemptions=counters.preemptions,
        prompt_tokens_computed=counters.prompt_tokens - counters.prompt_tokens_cached,
        prompt_tokens_cached=counters.prompt_tokens_cached,
        generation_tokens=counters.generation_tokens,
        finished=dict(finished),
        histograms=_histograms(simulation),
        cache_config=cache_config,
    )


def _histograms(simulation: Simulation) -> dict[str, Histogram]:
    histograms = empty_histograms(simulation.config.max_model_len)
    ttft = histograms["time_to_first_token_seconds"]
    for request in simulation.engine.requests.values():
        if request.first_token_at is not None:
            ttft.observe(request.first_token_at - request.arrival)
    for record in simulation.records:
        if record.ttft_s is not None:
            ttft.observe(record.ttft_s)
        if record.reason is FinishReason.LENGTH:
            _observe(histograms, record)
    _observe_tally(histograms, simulation.tally)
    return histograms


def _observe(histograms: Mapping[str, Histogram], record: RequestRecord) -> None:
    """A finished request (vLLM 0.33.0 `vllm/v1/metrics/stats.py`, update_from_finished_request).

    Time preempted counts inside prefill and decode; decoding that was over with the first token
    took no time per token.
    """
    admitted, first = record.admitted_s or 0.0, record.first_token_s or 0.0
    values = {
        "request_prompt_tokens": record.num_prompt_tokens,
        "request_generation_tokens": record.num_output_tokens,
        "request_max_num_generation_tokens": record.num_output_tokens,
        "request_params_n": 1,
        "request_params_max_tokens": record.max_tokens,
        "request_time_per_output_token_seconds": record.tpot_s or 0.0,
        "e2e_request_latency_seconds": record.finished_s - record.arrival_s,
        "request_queue_time_seconds": admitted - record.arrival_s,
        "request_inference_time_seconds": record.finished_s - admitted,
        "request_prefill_time_seconds": first - admitted,
        "request_decode_time_seconds": record.finished_s - first,
        "request_num_preemptions": record.num_preemptions,
        "request_prefill_kv_computed_tokens": record.num_prompt_tokens - record.hit_tokens,
    }
    for name, value in values.items():
        histograms[name].observe(value)


def _observe_tally(histograms: Mapping[str, Histogram], tally: Tally) -> None:
    gaps = histograms["inter_token_latency_seconds"]
    for length, count in sorted(tally.gaps.items()):
        _observe_many(gaps, length * GAP_RESOLUTION, count)
    gaps.total = tally.gap_seconds
    turns = histograms["iteration_tokens_total"]
    for tokens, count in sorted(tally.turns.items()):
        _observe_many(turns, tokens, count)


def _observe_many(histogram: Histogram, value: float, count: int) -> None:
    histogram.counts[bisect_left(histogram.bounds, value)] += count
    histogram.total += value * count
