"""The lines of a cheat sheet that no model and no GPU changes."""

from __future__ import annotations

from typing import Final

from kvdocs.sheet.line import Line
from kvdocs.units import GB, GIB

METRICS: Final = (
    Line("`vllm:kv_cache_usage_perc`", "blocks in use ÷ blocks; 1 is full", 17),
    Line("`vllm:num_requests_running`, `…_waiting`", "in the batch, and in the queue", 17),
    Line("`vllm:num_preemptions_total`", "grows: blocks run out under way", 16),
    Line("`vllm:prefix_cache_hits_total`", "÷ `…_queries_total` = hit rate, in tokens", 15),
    Line("`vllm:time_to_first_token_seconds`", "TTFT: queue + prefill", 17),
    Line("`vllm:inter_token_latency_seconds`", "ITL: one step; TPOT is its mean per answer", 17),
)
DIAGNOSIS: Final = (
    Line("GPU full, usage 0", "healthy: claimed at start, not yet used", 1),
    Line("Cache full, queue", "memory: shorter context, fp8, more GPUs", 17),
    Line("Cache not full, queue", "as a rule compute, or a limit: `--max-num-seqs`", 17),
    Line("Cache full, nobody waits", "healthy: the pool is for that", 17),
    Line("Preemptions, steadily", "more cache, or a lower `--max-num-seqs`", 16),
    Line("Hit rate 0", "front of the prompt changes, or shares no full block", 15),
    Line("Refuses to start", "one request of `--max-model-len` does not fit", 7),
)
RULES: Final = (
    Line("1 GiB", "`nvidia-smi`: MiB, vLLM's log: GiB, makers: GB", 1, f"{GIB / GB:.3f} GB"),
    Line("Twice the context", "half the sequences, where every layer keeps every token", 9),
    Line("Size for the longest requests", "you accept; the average is only a middle", 11),
    Line("Half the bytes per token", "twice the sequences, and the next bottleneck", 18),
    Line("KV heads, not parameters", "decide the cache", 5),
    Line("Decode waits for memory", "prefill for arithmetic: so batch", 3),
    Line("Move or recompute", "whichever is faster for this length and link", 19),
)
