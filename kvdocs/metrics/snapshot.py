"""The state of a server that its metrics page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvdocs.metrics.histogram import Histogram

# vLLM 0.33.0 vllm/v1/metrics/buckets.py. fmt: off
LATENCY_BUCKETS: Final = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
TTFT_BUCKETS: Final = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
)
ITL_BUCKETS: Final = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
ITERATION_BUCKETS: Final = tuple(float(2**power) for power in (0, *range(3, 15)))
N_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTION_BUCKETS: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
# fmt: on


def token_buckets(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the longest request.

    Source: vLLM 0.33.0 `vllm/v1/metrics/buckets.py`, `build_1_2_5_buckets`.

    Args:
        max_model_len: Tokens of prompt and output together, at most.

    Examples:
        >>> token_buckets(100)
        (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    """
    digits = len(str(max_model_len))
    bounds = (lead * 10**power for power in range(digits) for lead in (1, 2, 5))
    return tuple(float(bound) for bound in bounds if bound <= max_model_len)


def empty_histograms(max_model_len: int) -> dict[str, Histogram]:
    """All histograms of a page by vLLM's name without `vllm:`, with nothing observed.

    Source: vLLM 0.33.0 `vllm/v1/metrics/loggers.py`, `PrometheusStatLogger`.

    Args:
        max_model_len: Tokens of prompt and output together, at most.

    Examples:
        >>> empty_histograms(4096)["request_params_n"].bounds
        (1.0, 2.0, 5.0, 10.0, 20.0)
    """
    tokens = token_buckets(max_model_len)
    buckets: dict[str, tuple[float, ...]] = {
        "request_prompt_tokens": tokens,
        "request_generation_tokens": tokens,
        "iteration_tokens_total": ITERATION_BUCKETS,
        "request_max_num_generation_tokens": tokens,
        "request_params_n": N_BUCKETS,
        "request_params_max_tokens": tokens,
        "time_to_first_token_seconds": TTFT_BUCKETS,
        "inter_token_latency_seconds": ITL_BUCKETS,
        "request_time_per_output_token_seconds": ITL_BUCKETS,
        "e2e_request_latency_seconds": LATENCY_BUCKETS,
        "request_queue_time_seconds": LATENCY_BUCKETS,
        "request_inference_time_seconds": LATENCY_BUCKETS,
        "request_prefill_time_seconds": LATENCY_BUCKETS,
        "request_decode_time_seconds": LATENCY_BUCKETS,
        "request_num_preemptions": PREEMPTION_BUCKETS,
        "request_prefill_kv_computed_tokens": tokens,
    }
    return {name: Histogram(bounds) for name, bounds in buckets.items()}


def cache_config_info(**fields: object) -> dict[str, str]:
    """Labels of `vllm:cache_config_info`: the settings as Python prints them.

    Those not given have the defaults of vLLM 0.33.0 `vllm/config/cache.py`, `CacheConfig`.

    Args:
        **fields: Fields of CacheConfig, such as `num_gpu_blocks=25482`.

    Examples:
        >>> labels = cache_config_info(num_gpu_blocks=25482)
        >>> labels["num_gpu_blocks"], labels["block_size"], labels["kv_cache_memory_bytes"]
        ('25482', '16', 'None')
    """
    return {name: str(value) for name, value in (_CACHE_CONFIG | fields).items()}


_CACHE_CONFIG: Final[dict[str, object]] = {
    "block_size": 16,
    "cache_dtype": "auto",
    "enable_prefix_caching": True,
    "gpu_memory_utilization": 0.92,
    "is_attention_free": False,
    "kv_cache_dtype_skip_layers": [],
    "kv_cache_max_concurrency": None,
    "kv_cache_memory_bytes": None,
    "kv_cache_size_tokens": None,
    "kv_offloading_backend": "native",
    "kv_offloading_size": None,
    "kv_sharing_fast_prefill": False,
    "mamba_cache_mode": "none",
    "num_cpu_blocks": None,
    "num_gpu_blocks": None,
    "num_gpu_blocks_override": None,
    "prefix_cache_retention_interval": 0,
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": None,
    "user_specified_block_size": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """One engine's figures at one moment. Counters count since its start.

    Attributes:
        model_name: `--served-model-name`.
        engine: Index of the engine (data parallel rank).
        running: Requests in the batch.
        waiting_capacity: Requests waiting for room.
        waiting_deferred: Requests waiting for something else (KV on its way).
        kv_cache_usage: Share of the blocks in use, 0 to 1.
        prefix_queries: Tokens looked up in the prefix cache.
        prefix_hits: Tokens found there.
        external_queries: Tokens looked up beyond the GPU.
        external_hits: Tokens found there.
        preemptions: Preemptions.
        prompt_tokens_computed: Prompt tokens computed here.
        prompt_tokens_cached: Prompt tokens taken from the prefix cache.
        prompt_tokens_transferred: Prompt tokens taken from elsewhere.
        generation_tokens: Tokens generated.
        finished: Requests finished, by reason (`stop`, `length`, `abort`, `error`, `repetition`).
        rejected: Requests refused at the door, by reason.
        histograms: By vLLM's name without `vllm:`; see `empty_histograms`.
        cache_config: Labels of `vllm:cache_config_info`; see `cache_config_info`.
        created: When the counters began, in Unix seconds; None leaves the `_created` lines out, as
            `PROMETHEUS_DISABLE_CREATED_SERIES=True` does.
    """

    model_name: str
    engine: int = 0
    running: int = 0
    waiting_capacity: int = 0
    waiting_deferred: int = 0
    kv_cache_usage: float = 0.0
    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    preemptions: int = 0
    prompt_tokens_computed: int = 0
    prompt_tokens_cached: int = 0
    prompt_tokens_transferred: int = 0
    generation_tokens: int = 0
    finished: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=lambda: empty_histograms(131_072))
    cache_config: Mapping[str, str] = field(default_factory=cache_config_info)
    created: float | None = 0.0

    @property
    def waiting(self) -> int:
        """All requests that wait."""
        return self.waiting_capacity + self.waiting_deferred

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens from all sources."""
        return (
            self.prompt_tokens_computed + self.prompt_tokens_cached + self.prompt_tokens_transferred
        )
