"""Which catalogue models a rate could belong to."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kvdocs.catalog import models
from kvdocs.errors import KvdocsError
from kvdocs.model import kv_cost
from kvdocs.startup_log.arithmetic import context_parallel
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.config_check import implied_rate
from kvdocs.startup_log.findings.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.interval import Interval

SHOWN: Final = 8
TOO_WIDE: Final = 0.02
"""A relative interval wider than this fits too many models to be worth a list."""
_TP_SIZES: Final = (1, 2, 4, 8)
_CACHE_DTYPES: Final = ("auto", "fp8")


def candidates(facts: Facts) -> Iterator[Finding]:
    """Catalogue models whose KV cache costs what the log implies."""
    value = implied_rate(facts)
    if facts.layout or value is None or value.middle <= 0 or value.width > TOO_WIDE * value.middle:
        return
    rate = value.scaled(context_parallel(facts))
    fitting = [f"{name} ({how})" for name, how in _fitting(facts, rate).items()]
    if not fitting:
        yield Finding(
            "no-catalogue-model-fits",
            f"No catalogue model costs {count(rate.middle)} bytes per token and GPU with a 16-bit "
            "or fp8 cache and these parallel sizes; the model's config.json would tell.",
        )
        return
    more = f" and {len(fitting) - SHOWN} more" if len(fitting) > SHOWN else ""
    yield Finding(
        "model-candidates",
        f"Catalogue models that cost this much per token and GPU, each on the fewest GPUs: "
        f"{', '.join(fitting[:SHOWN])}{more}.",
    )


def _fitting(facts: Facts, rate: Interval) -> dict[str, str]:
    """Fitting models with how they fit: on the fewest GPUs, with a 16-bit cache if possible."""
    found: dict[str, str] = {}
    for size, dtype in _ways(facts):
        told = f"tp {size}" if dtype == "auto" else f"tp {size}, {dtype} cache"
        for name, context_length, cost in _costs(dtype, size, facts.parallel("pipeline")):
            if cost in rate and context_length >= (facts.max_model_len or 0):
                found.setdefault(name, told)
    return found


def _ways(facts: Facts) -> list[tuple[int, str]]:
    """Parallel sizes and cache dtypes to try, those the log states alone."""
    known = "tensor_parallel_size" in facts.settings
    sizes = (facts.parallel("tensor"),) if known else _TP_SIZES
    cache = facts.settings.get("kv_cache_dtype")
    return [(size, dtype) for size in sizes for dtype in ((cache,) if cache else _CACHE_DTYPES)]


@lru_cache(maxsize=64)
def _costs(
    dtype: str, tensor_parallel: int, pipeline_parallel: int
) -> tuple[tuple[str, int, int], ...]:
    """Name, context length and bytes per token and GPU of every catalogue model.

    Left out are models that cannot be run so, or that keep windows or states too.
    """
    found = []
    for entry in models():
        try:
            cost = kv_cost(
                entry.model,
                kv_cache_dtype=dtype,
                tensor_parallel_size=tensor_parallel,
                pipeline_parallel_size=pipeline_parallel,
            )
        except KvdocsError:
            continue
        if not (cost.window_bytes_per_token or cost.constant_bytes_per_sequence):
            found.append((entry.id, entry.context_length, cost.bytes_per_token_per_gpu))
    return tuple(found)


CHECKS: Final = (candidates,)
