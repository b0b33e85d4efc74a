"""Several starts in one log: which one the figures are of, and what changed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import AMBIGUOUS_RATIO, ambiguous_pool, slots
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import count, gib

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvdocs.startup_log.facts import Facts

FULL_GAIN: Final = 1.9
"""Below this, an fp8 cache did not halve everything the pool holds."""
SHOWN: Final = 6
"""Starts told one by one; of more, the last."""


def several(starts: Sequence[Facts], total: int) -> Iterator[Finding]:
    """One line per start, and which is explained."""
    if total < 2:
        return
    told = "; ".join(_told(facts) for facts in starts[-SHOWN:])
    yield Finding(
        "several-starts",
        f"The log holds {total} starts; figures and findings are of the last. They were: {told}.",
    )
    for before, after in pairwise(starts):
        yield from _changed(before, after)


def _told(facts: Facts) -> str:
    parts = [facts.start.server] if facts.start.server else []
    if facts.max_model_len:
        parts.append(f"max_model_len {count(facts.max_model_len)}")
    memory, held = facts.lowest("kv_pool_bytes"), slots(facts)
    if memory:
        parts.append(f"{gib(memory.value)} for KV")
    pool = facts.lowest("printed_pool_tokens")
    if pool:
        parts.append(f"{count(pool.value)} tokens")
    elif held:
        parts.append(f"{count(held.middle)} tokens")
    if any(row.name.startswith(("refused", "free-below")) for row in facts.start.rows):
        parts.append("refused")
    return ", ".join(parts) or "no capacity line"


def _changed(before: Facts, after: Facts) -> Iterator[Finding]:
    """A printed pool that changed though the memory did not, or by less than the cache dtype."""
    first, second = (facts.lowest("printed_pool_tokens") for facts in (before, after))
    if first is None or second is None or min(first.value, second.value) <= 0:
        return
    ratio = second.value / first.value
    same_length = before.max_model_len == after.max_model_len
    if same_length and _became_fp8(before, after):
        yield from _fp8_gain(before, after)
        return
    if 1 / AMBIGUOUS_RATIO < ratio < AMBIGUOUS_RATIO or not _same_memory(before, after):
        return
    if same_length:
        yield _meaning_changed(first.value, second.value)
        return
    yield Finding(
        "pool-follows-max-model-len",
        f"The printed pool went from {count(first.value)} to {count(second.value)} tokens "
        f"({ratio:.2f} times) because max_model_len did: for a model with windows or recurrent "
        "state it is concurrency x max_model_len, and a longer request shares its fixed cost "
        "among more tokens. On the same memory nothing was gained or lost.",
        "warning",
    )


def _same_memory(before: Facts, after: Facts) -> bool:
    """Whether both starts had about the same KV memory, or neither says."""
    first, second = (facts.lowest("kv_pool_bytes") for facts in (before, after))
    if first is None or second is None:
        return first is second
    return first.value > 0 and 0.8 < second.value / first.value < 1.25


def _became_fp8(before: Facts, after: Facts) -> bool:
    first, second = (facts.settings.get("kv_cache_dtype", "auto") for facts in (before, after))
    return second.startswith("fp8") and not first.startswith("fp8")


def _fp8_gain(before: Facts, after: Facts) -> Iterator[Finding]:
    """What an fp8 cache gave."""
    first, second = (facts.lowest("max_concurrency") for facts in (before, after))
    if first is None or second is None or not first.value:
        return
    gain = second.value / first.value
    less = (
        ": less than twice, because recurrent state does not shrink with the cache dtype"
        if gain < FULL_GAIN
        else ""
    )
    yield Finding(
        "fp8-gain",
        f"The fp8 cache raised maximum concurrency from {first.value:g} to {second.value:g}, "
        f"{gain:.2f} times{less}.",
    )


def _meaning_changed(first: float, second: float) -> Finding:
    return Finding(
        "pool-meaning-changed",
        f"The printed pools of {count(first)} and {count(second)} tokens "
        f"({max(first, second) / min(first, second):.1f} times apart) need not be different "
        "capacities: up to 0.19 vLLM prints the blocks of one KV group (blocks // groups x block "
        "size), since 0.20 maximum concurrency x max_model_len. For a model with windows or "
        "recurrent state the two differ several times on the same blocks. Compare `Maximum "
        "concurrency` at the same max_model_len instead.",
        "warning",
    )


def unexplained_pools(facts: Facts) -> Iterator[Finding]:
    """Two very different pools in what looks like one start."""
    if not ambiguous_pool(facts):
        return
    values = [reading.value for _, reading in facts.readings("printed_pool_tokens")]
    if min(values) > 0:
        yield _meaning_changed(min(values), max(values))
