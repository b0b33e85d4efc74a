"""The flat dictionary of figures of one start: printed ones and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import (
    affine_need,
    agree,
    best_value,
    block_bytes_from_cpu,
    block_size,
    bytes_per_token,
    evidence,
    has_fixed_cost,
    slots,
)
from kvdocs.startup_log.findings.budget import requested
from kvdocs.startup_log.findings.engines import summary_bytes, summary_rate, summary_tokens

if TYPE_CHECKING:
    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.interval import Interval

_PRIVATE: Final = frozenset(
    {
        "k_bytes",
        "v_bytes",
        "kv_bytes",
        "kv_bytes_exact",
        "kv_buffer_bytes",
        "pool_tokens",
        "kv_bytes_per_token",
    }
)
_LOWEST: Final = frozenset({"kv_pool_bytes", "printed_pool_tokens", "max_concurrency"})
_FROM_FLAGS: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
)


def figures_of(facts: Facts) -> dict[str, float]:
    """Every number this start gives, by a name that ends in its unit.

    Printed numbers keep their reading; of several ranks, pool figures are the lowest and others
    the last. Derived ones are absent where the log does not determine them.
    """
    figures = _printed(facts)
    _derive_rate(facts, figures)
    _derive_pool(facts, figures)
    _derive_need(facts, figures)
    return {name: _tidy(value) for name, value in figures.items()}


def _tidy(value: float) -> float:
    """Whole numbers as int, so that JSON shows them so."""
    return int(value) if value == int(value) else value


def _printed(facts: Facts) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in _FROM_FLAGS:
        value = facts.setting(name)
        if value is not None:
            figures[name] = value
    for row in facts.start.rows:
        for name, reading in row.numbers.items():
            if name in _PRIVATE:
                continue
            known = figures.get(name)
            lowest = name in _LOWEST and known is not None
            figures[name] = min(known, reading.value) if lowest and known else reading.value
    if facts.max_model_len:
        figures["max_model_len"] = facts.max_model_len
    budget = requested(facts)
    if budget:
        figures.setdefault("requested_memory_bytes", budget.middle)
    return figures


def _put_interval(figures: dict[str, float], name: str, value: Interval) -> None:
    figures[name] = best_value(value)
    figures[f"{name}_low"] = value.low
    figures[f"{name}_high"] = value.high


def _derive_rate(facts: Facts, figures: dict[str, float]) -> None:
    rate = bytes_per_token(facts) or summary_rate(facts)
    if rate:
        _put_interval(figures, "kv_bytes_per_token_per_gpu", rate)
    per_block = block_bytes_from_cpu(facts)
    if per_block and agree(evidence(facts)):
        _put_interval(figures, "block_bytes", per_block)


def _derive_pool(facts: Facts, figures: dict[str, float]) -> None:
    held = slots(facts)
    tokens = held.middle if held else summary_tokens(facts)
    if tokens:
        figures["kv_pool_tokens"] = tokens
    if facts.engine == "vllm" and ("num_gpu_blocks" in figures or held):
        figures.setdefault("block_size_tokens", block_size(facts))
    size = summary_bytes(facts)
    if size:
        figures.setdefault("kv_pool_bytes", size.middle)
    rate = figures.get("kv_bytes_per_token_per_gpu")
    if tokens and rate:
        figures.setdefault("kv_pool_bytes", tokens * rate)
    concurrency, length = figures.get("max_concurrency"), figures.get("max_model_len")
    if concurrency and length:
        figures["kv_pool_tokens_at_max_model_len"] = concurrency * length
    elif tokens and length:
        figures["max_concurrency"] = tokens / length


def _derive_need(facts: Facts, figures: dict[str, float]) -> None:
    need = affine_need(facts)
    if need is None:
        return
    slope, fixed = need
    figures["kv_bytes_per_further_token"] = slope.middle
    if has_fixed_cost(facts):
        figures["kv_bytes_fixed_per_request"] = fixed.middle
