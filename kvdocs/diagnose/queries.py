"""What is wrong with a query of a dashboard or an alert: names, units, a ratio upside down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kvdocs.metrics.names import Kind, look_up

_NAME: Final = re.compile(r"(?<![\w:])((?:vllm|sglang)[:_]\w{1,100})")
_RATIO: Final = re.compile(r"prefix_cache_queries\w{0,20}[^/]{0,200}/[^/]{0,200}prefix_cache_hits")
_PERCENT: Final = re.compile(
    r"((?:\w{1,20}:)?\w{0,20}cache_usage_perc\w{0,10})(?:\{[^}]{0,400}\})?[)\s]{0,8}[<>]=?\s{0,4}"
    r"([0-9]{1,3}(?:\.[0-9]{1,6})?)(?![\w.])"
)
_COUNTER: Final = re.compile(r"\b(?:rate|increase|irate|delta)\s*\(")
_MOST: Final = 20


def misreadings(queries: Iterable[str]) -> Iterator[str]:
    """Mistakes in queries, each in a sentence.

    Args:
        queries: Lines of a rule or a dashboard.

    Examples:
        >>> list(misreadings(["vllm:kv_cache_usage_perc > 90"]))
        ['vllm:kv_cache_usage_perc is compared with 90; it is a share from 0 to 1, so write 0.9']
        >>> next(misreadings(["rate(prefix_cache_queries[5m]) / rate(prefix_cache_hits[5m])"]))
        'the hit rate is upside down: it is hits / queries, not queries / hits'
    """
    found: dict[str, None] = {}
    for query in queries:
        for told in _mistakes(query):
            if len(found) < _MOST and told not in found:
                found[told] = None
                yield told


def _mistakes(query: str) -> Iterator[str]:
    if _RATIO.search(query):
        yield "the hit rate is upside down: it is hits / queries, not queries / hits"
    for name, bound in _PERCENT.findall(query):
        if float(bound) > 1:
            yield (
                f"{name} is compared with {bound}; it is a share from 0 to 1, "
                f"so write {float(bound) / 100:g}"
            )
    for name in _NAME.findall(query):
        known = look_up(name)
        if known is None:
            continue
        if "old name" in known.meaning.note:
            yield f"{name}: {known.meaning.note}"
        if known.meaning.kind in {Kind.GAUGE, Kind.SHARE} and _COUNTER.search(query):
            yield f"{name} is a gauge: take it as it is, or an average, not a rate"
