"""What a metrics page says about one server, whatever its software and version call it."""

from __future__ import annotations

from dataclasses import dataclass

from kvdocs.metrics.histogram import HistogramReading


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """One engine's figures. Shares are 0 to 1; None is what the page does not show.

    Attributes:
        server: `vllm` or `sglang`.
        model_name: The model's label, "" without one.
        engine: The engine's label (SGLang: its data parallel rank), "" without one.
        instance: Label that tells several servers on one page apart (`instance`, `pod`), else "".
        running: Requests in the batch.
        waiting: Requests waiting.
        waiting_deferred: Those of them that wait for something other than room.
        swapped: Requests moved to CPU memory (V0).
        kv_cache_usage: Share of the KV cache in use.
        cpu_cache_usage: Share of the CPU swap space in use (V0).
        preemptions: Preemptions since start.
        prefix_queries: Tokens looked up in the prefix cache since start.
        prefix_hits: Tokens found there since start.
        shown_hit_rate: Hit rate that the page itself shows (V0, SGLang).
        external_queries: Tokens looked up beyond the GPU since start.
        external_hits: Tokens found there.
        prompt_tokens: Prompt tokens since start.
        prompt_tokens_computed: Those of them computed here.
        generation_tokens: Tokens generated since start.
        requests_finished: Requests finished since start.
        prompt_lengths: Tokens of the prompts of finished requests.
        offload_load_seconds: Time spent loading KV from the offload tier since start.
        offload_load_bytes: Bytes loaded from it.
        shown_prompt_tokens_per_s: Rate that the page itself shows (V0).
        shown_generation_tokens_per_s: Rate that the page itself shows (V0, SGLang).
        ttft: Time to first token, in seconds.
        itl: Time between tokens, in seconds.
        tpot: Mean time per output token of each request, in seconds.
        e2e: Time from arrival to end, in seconds.
        queue: Time in the waiting queue, in seconds.
        prefill: Time in prefill, in seconds.
        decode: Time in decode, in seconds.
        num_blocks: KV cache blocks.
        block_size: Tokens in a block.
        capacity_tokens: Tokens the cache holds, where the page says so.
        cache_dtype: `--kv-cache-dtype`.
        notes: Old names, converted units, values that were left out.
    """

    server: str
    model_name: str = ""
    engine: str = ""
    instance: str = ""
    running: float | None = None
    waiting: float | None = None
    waiting_deferred: float | None = None
    swapped: float | None = None
    kv_cache_usage: float | None = None
    cpu_cache_usage: float | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    shown_hit_rate: float | None = None
    external_queries: float | None = None
    external_hits: float | None = None
    prompt_tokens: float | None = None
    prompt_tokens_computed: float | None = None
    generation_tokens: float | None = None
    requests_finished: float | None = None
    prompt_lengths: HistogramReading | None = None
    offload_load_seconds: float | None = None
    offload_load_bytes: float | None = None
    shown_prompt_tokens_per_s: float | None = None
    shown_generation_tokens_per_s: float | None = None
    ttft: HistogramReading | None = None
    itl: HistogramReading | None = None
    tpot: HistogramReading | None = None
    e2e: HistogramReading | None = None
    queue: HistogramReading | None = None
    prefill: HistogramReading | None = None
    decode: HistogramReading | None = None
    num_blocks: float | None = None
    block_size: float | None = None
    capacity_tokens: float | None = None
    cache_dtype: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells this engine from others on the page."""
        return self.server, self.model_name, self.engine, self.instance

    @property
    def prefix_hit_rate(self) -> float | None:
        """Share of looked-up tokens found since start, else the rate the page shows.

        Examples:
            >>> ServerMetrics(server="vllm", prefix_queries=200, prefix_hits=50).prefix_hit_rate
            0.25
        """
        if self.prefix_queries and self.prefix_hits is not None:
            return self.prefix_hits / self.prefix_queries
        return self.shown_hit_rate

    @property
    def tokens_in_cache(self) -> float | None:
        """Token slots of the cache: as shown, else blocks times their size."""
        if self.capacity_tokens is not None:
            return self.capacity_tokens
        if self.num_blocks is None or self.block_size is None:
            return None
        return self.num_blocks * self.block_size
