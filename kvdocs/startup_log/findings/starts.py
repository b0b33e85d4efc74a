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
    """A printed pool that changed though the memory did not."""
    pools = before.lowest("printed_pool_tokens"), after.lowest("printed_pool_tokens")
    memories = before.lowest("kv_pool_bytes"), after.lowest("kv_pool_bytes")
    if pools[0] is None or pools[1] is None or min(pools[0].value, pools[1].value) <= 0:
        return
    ratio = pools[1].value / pools[0].value
    if 1 / AMBIGUOUS_RATIO < ratio < AMBIGUOUS_RATIO:
        return
    same = memories[0] and memories[1] and 0.8 < memories[1].value / memories[0].value < 1.25
    if same and before.max_model_len != after.max_model_len:
        yield Finding(
            "pool-follows-max-model-len",
            f"The printed pool went from {count(pools[0].value)} to {count(pools[1].value)} tokens "
            f"({ratio:.2f} times) with the same memory because max_model_len changed: for a hybrid "
            "model it is concurrency x max_model_len. Nothing was gained or lost.",
            "warning",
        )
    elif same:
        yield _meaning_changed(pools[0].value, pools[1].value)


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
