"""Read a page: one record per engine on it, with what was odd about it said in words."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kvdocs.metrics.histogram import HistogramReading
from kvdocs.metrics.names import Found, Kind, look_up
from kvdocs.metrics.servers import ServerMetrics
from kvdocs.metrics.text import Comment, Problem, Sample, iterate

_MOST_PROBLEMS: Final = 100
_MOST_SERVERS: Final = 10_000
_ENGINE_LABEL: Final = {"vllm": "engine", "sglang": "dp_rank"}
_RANK_LABELS: Final = ("tp_rank", "pp_rank", "moe_ep_rank")

_Key: TypeAlias = tuple[str, str, str, str]

_look_up = functools.lru_cache(maxsize=4096)(look_up)


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """What a page says.

    Attributes:
        servers: One record per engine, in the order they appear.
        problems: The first hundred lines that could not be read.
        num_problems: How many there were.
        num_samples: Values on the page, known or not.
    """

    servers: tuple[ServerMetrics, ...]
    problems: tuple[Problem, ...]
    num_problems: int
    num_samples: int


def read_metrics(source: str | Iterable[str]) -> MetricsPage:
    """Read the page of a vLLM or SGLang server, or of several gathered on one.

    Old names are mapped to what they are called now, shares given in percent become shares; a note
    says so. Nothing on a page makes this raise an error.

    Args:
        source: The text, or its lines.

    Examples:
        >>> page = read_metrics('vllm:gpu_cache_usage_perc{model_name="m"} 87.5')
        >>> page.servers[0].kv_cache_usage
        0.875
        >>> for note in page.servers[0].notes: print(note)
        vllm:gpu_cache_usage_perc: old name, before vLLM 0.12; now vllm:kv_cache_usage_perc
        vllm:gpu_cache_usage_perc is 87.5: read as percent, as a share is at most 1
    """
    collector = _Collector()
    for item in iterate(source):
        collector.take(item)
    return collector.page()


@dataclass(slots=True)
class _Buckets:
    """A histogram while its lines come in."""

    bounds: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    total: float | None = None

    def add(self, suffix: str, labels: Mapping[str, str], value: float) -> bool:
        """Add a line; False when its bound cannot be read."""
        if suffix == "_sum":
            self.total = (self.total or 0.0) + value
        elif suffix == "_count":
            self.count = (self.count or 0.0) + value
        else:
            try:
                bound = float(labels.get("le", ""))
            except ValueError:
                return False
            if math.isnan(bound):
                return False
            self.bounds[bound] = self.bounds.get(bound, 0.0) + value
        return True

    def reading(self) -> HistogramReading:
        bounds = tuple(sorted(self.bounds))
        cumulative = [self.bounds[bound] for bound in bounds]
        for index in range(1, len(cumulative)):  # a page scraped in between may show a dent
            cumulative[index] = max(cumulative[index], cumulative[index - 1])
        last = cumulative[-1] if cumulative else 0.0
        count = last if self.count is None else self.count
        return HistogramReading(bounds, tuple(cumulative), count, self.total or 0.0)


@dataclass(slots=True)
class _Draft:
    """A record while its lines come in."""

    values: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    buckets: dict[str, _Buckets] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def outranked(self, found: Found) -> bool:
        """Whether another name for the same field counts more; a lesser one is forgotten."""
        name, rank = found.meaning.field, found.meaning.rank
        known = self.ranks.get(name, rank)
        if rank < known:
            self.values.pop(name, None)
            self.buckets.pop(name, None)
        self.ranks[name] = min(rank, known)
        return rank > known


class _Collector:
    """Gathers the lines of a page by engine."""

    def __init__(self) -> None:
        self._drafts: dict[_Key, _Draft] = {}
        self._configs: dict[_Key, Mapping[str, str]] = {}
        self._problems: list[Problem] = []
        self._num_problems = 0
        self._num_samples = 0

    def take(self, item: Sample | Problem | Comment) -> None:
        if isinstance(item, Problem):
            self._num_problems += 1
            if self._num_problems <= _MOST_PROBLEMS:
                self._problems.append(item)
        elif isinstance(item, Sample):
            self._num_samples += 1
            found = _look_up(item.name)
            if found is not None:
                self._sample(item, found)

    def _sample(self, sample: Sample, found: Found) -> None:
        meaning, labels = found.meaning, sample.labels
        if meaning.only and labels.get(meaning.only[0]) != meaning.only[1]:
            return
        if found.server == "sglang" and _repeats_another_gpu(labels):
            return
        key = _key(found.server, labels)
        if meaning.kind is Kind.CONFIG:
            self._configs[key] = labels
            return
        if key not in self._drafts and len(self._drafts) >= _MOST_SERVERS:
            return
        draft = self._drafts.setdefault(key, _Draft())
        if meaning.note:
            draft.notes[f"{found.server}:{found.name}: {meaning.note}"] = None
        if draft.outranked(found):
            return
        if not math.isfinite(sample.value) or sample.value < 0:
            draft.notes[f"{sample.name} is {sample.value}: left out"] = None
        elif meaning.kind is Kind.HISTOGRAM:
            buckets = draft.buckets.setdefault(meaning.field, _Buckets())
            if not buckets.add(found.suffix, labels, sample.value):
                draft.notes[f"{sample.name} has a bucket without a bound: left out"] = None
        else:
            _set(draft, sample, found)

    def page(self) -> MetricsPage:
        for key in self._configs:
            if not any(_same_engine(key, other) for other in self._drafts):
                self._drafts[key] = _Draft()
        return MetricsPage(
            servers=tuple(self._server(key, draft) for key, draft in self._drafts.items()),
            problems=tuple(self._problems),
            num_problems=self._num_problems,
            num_samples=self._num_samples,
        )

    def _server(self, key: _Key, draft: _Draft) -> ServerMetrics:
        for other, labels in self._configs.items():
            if _same_engine(other, key):
                _set_config(draft, labels)
        server, model_name, engine, instance = key
        if server == "sglang" and "prefix_hits" in draft.values:
            draft.values.setdefault("prefix_queries", draft.values.get("prompt_tokens", 0.0))
        fields: dict[str, Any] = {**draft.values, **draft.texts}
        fields |= {name: buckets.reading() for name, buckets in draft.buckets.items()}
        return ServerMetrics(
            server=server,
            model_name=model_name,
            engine=engine,
            instance=instance,
            notes=tuple(draft.notes),
            **fields,
        )


def _key(server: str, labels: Mapping[str, str]) -> _Key:
    instance = labels.get("instance") or labels.get("pod", "")
    return server, labels.get("model_name", ""), labels.get(_ENGINE_LABEL[server], ""), instance


def _repeats_another_gpu(labels: Mapping[str, str]) -> bool:
    """Every GPU of a split engine shows the same; the first counts."""
    return any(labels.get(label, "0") not in {"0", ""} for label in _RANK_LABELS)


def _same_engine(config: _Key, other: _Key) -> bool:
    """vllm:cache_config_info carries no model name."""
    return config[0] == other[0] and config[2:] == other[2:]


def _set(draft: _Draft, sample: Sample, found: Found) -> None:
    name, kind, value = found.meaning.field, found.meaning.kind, sample.value
    if kind is Kind.SHARE and value > 1:
        if value > 100:
            draft.notes[f"{sample.name} is {value:g}: more than 100 percent, left out"] = None
            return
        draft.notes[f"{sample.name} is {value:g}: read as percent, as a share is at most 1"] = None
        value /= 100
    if kind is Kind.COUNTER:
        draft.values[name] = draft.values.get(name, 0.0) + value
    elif name not in draft.values:
        draft.values[name] = value
    elif draft.values[name] != value:
        draft.notes[f"{sample.name} stands there more than once: the first counts"] = None


def _set_config(draft: _Draft, labels: Mapping[str, str]) -> None:
    for label, name in _CONFIG_NUMBERS.items():
        text = labels.get(label, "")
        if text.isascii() and text.isdecimal() and len(text) < 20:
            draft.values[name] = float(text)
    if labels.get("cache_dtype"):
        draft.texts["cache_dtype"] = labels["cache_dtype"]


_CONFIG_NUMBERS: Final = {
    "num_gpu_blocks": "num_blocks",
    "block_size": "block_size",
    "kv_cache_size_tokens": "capacity_tokens",
}
