"""Several ranks and engines: which binds, what is replicated, what adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import ambiguous_pool, context_parallel
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import count, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.lines import Reading
    from kvdocs.startup_log.text import Source


def binding_rank(facts: Facts) -> Iterator[Finding]:
    """The rank with the least room sets the blocks of all."""
    for figure in ("kv_pool_bytes", "printed_pool_tokens", "free_after_weights_bytes"):
        by_rank = _by_rank(facts, figure)
        values = {reading.value for _, reading in by_rank}
        if len(values) < 2 or len({source.engine for source, _ in by_rank}) > 1:
            continue
        if figure == "printed_pool_tokens" and ambiguous_pool(facts):
            continue
        source, least = min(by_rank, key=_reading_value)
        who = (
            source.label()
            if source.rank or source.engine
            else "One rank (the lines do not name it)"
        )
        most = max(values)
        shown = (count, " tokens") if figure == "printed_pool_tokens" else (gib, "")
        low, high = (f"{shown[0](value)}{shown[1]}" for value in (least.value, most))
        yield Finding(
            "binding-rank",
            f"{who} binds: {low} against up to {high} on another rank. All ranks get "
            "the fewest blocks; what others have more stays unused.",
            "warning",
        )
        return


def _by_rank(facts: Facts, figure: str) -> list[tuple[Source, Reading]]:
    return list(facts.readings(figure))


def _reading_value(item: tuple[Source, Reading]) -> float:
    return item[1].value


def data_parallel(facts: Facts) -> Iterator[Finding]:
    """Each data-parallel engine has its own pool; capacities add up."""
    engines: dict[str, Reading] = {}
    for source, reading in facts.readings("max_concurrency"):
        engines.setdefault(source.engine, reading)
    if len(engines) < 2:
        return
    total = sum(reading.value for reading in engines.values())
    yield Finding(
        "data-parallel-sum",
        f"{len(engines)} data-parallel engines have a pool each: together {total:.2f} requests of "
        "maximum length. Each request uses the pool of its own engine only.",
    )


def unlabelled_concurrency(facts: Facts) -> Iterator[Finding]:
    """Two different concurrency figures that no line tells apart."""
    values = {
        reading.value
        for source, reading in facts.readings("max_concurrency")
        if not (source.engine or source.rank)
    }
    if len(values) < 2 or facts.last("printed_pool_tokens"):
        return
    low, high = min(values), max(values)
    yield Finding(
        "concurrency-differs",
        f"Maximum concurrency is {low:g}x in one line and {high:g}x in another, "
        f"{high / low:.2f} times as much. A model with one latent KV head (MLA) is copied to every "
        "tensor-parallel GPU, so data-parallel engines, whose lines add up, hold about as many "
        "times more as there are GPUs.",
        "warning",
    )


def context_parallel_note(facts: Facts) -> Iterator[Finding]:
    """One sequence's tokens spread over several GPUs."""
    size = context_parallel(facts)
    if size <= 1:
        return
    pool = facts.lowest("printed_pool_tokens")
    share = (
        f"; of the {count(pool.value)} printed, each GPU holds {count(pool.value / size)}"
        if (pool)
        else ""
    )
    yield Finding(
        "context-parallel",
        f"Context parallelism spreads each sequence over {count(size)} GPUs, so the pool counts "
        f"{count(size)} times one GPU's tokens{share}.",
    )


CHECKS: Final = (binding_rank, data_parallel, unlabelled_concurrency, context_parallel_note)
