"""What this log cannot tell, and which line would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import (
    PoolMeaning,
    ambiguous_pool,
    bytes_per_token,
    pool_meaning,
)
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.engines import summary_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts

_CAPACITY: Final = ("printed_pool_tokens", "num_gpu_blocks", "refusal_pool_tokens")


def no_rate(facts: Facts) -> Iterator[Finding]:
    """Bytes per token unknown."""
    if facts.engine != "vllm" or facts.layout or bytes_per_token(facts) or summary_rate(facts):
        return
    if not any(facts.last(figure) for figure in (*_CAPACITY, "refusal_needed_bytes")):
        return
    if ambiguous_pool(facts):
        text = "the pool figures are too far apart to be of one engine"
    elif pool_meaning(facts) in (PoolMeaning.CONCURRENCY, PoolMeaning.ONE_GROUP):
        text = (
            "the printed pool of a hybrid model does not count token slots; the model's "
            "config.json would tell its rate and its fixed part"
        )
    elif facts.last("refusal_needed_bytes"):
        text = "a request has a fixed cost besides; the model's config.json would separate them"
    else:
        line = (
            "the line `… the rest of the memory reserved for KV Cache is …`"
            if facts.is_v0
            else "the line `Available KV cache memory: …`"
        )
        text = f"{line}, or the model's config.json and its parallel sizes, would tell"
    yield Finding("bytes-per-token-unknown", f"Bytes per token cannot be known: {text}.", "warning")


def no_capacity(facts: Facts) -> Iterator[Finding]:
    """Memory known, tokens not."""
    memory = facts.lowest("kv_pool_bytes")
    if memory is None or memory.value <= 0 or facts.layout:
        return
    if any(facts.last(figure) for figure in (*_CAPACITY, "refusal_needed_bytes")):
        return
    yield Finding(
        "pool-tokens-unknown",
        "The memory for KV cache is known, the tokens are not: the line `GPU KV cache size: …` or "
        "the model's config.json would tell.",
        "warning",
    )


def no_length(facts: Facts) -> Iterator[Finding]:
    """Capacity known, longest request not."""
    if facts.max_model_len or not facts.last("printed_pool_tokens"):
        return
    yield Finding(
        "max-model-len-unknown",
        "How many requests fit cannot be known: the line `Maximum concurrency for … tokens per "
        "request` would tell.",
    )


CHECKS: Final = (no_rate, no_capacity, no_length)
