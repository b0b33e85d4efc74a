"""Steps 4 and 5: find a larger model with a smaller cache, in the picture of the formula."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import CatalogModel, get_model, models
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Reached, State
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.model import kv_cost
from kvdocs.units import format_bytes, format_number

_REFERENCES: Final = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-2-7b-hf",
    "microsoft/phi-4",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-70B",
)


def _bytes(entry: CatalogModel) -> int:
    """Bytes of a token while it is in every window: nothing is hidden by a window."""
    cost = kv_cost(entry.model)
    return cost.bytes_per_token + cost.window_bytes_per_token


def _size(entry: CatalogModel, digits: int = 1) -> str:
    """Parameters in words; of the text model, where that is not the whole."""
    part = " in its text model" if entry.is_text_part else ""
    return f"{format_number(entry.num_parameters / 1e9, digits)} billion parameters{part}"


@dataclass(frozen=True, slots=True)
class SmallerCache:
    """A model to beat, by its catalogue id."""

    reference: str

    @property
    def entry(self) -> CatalogModel:
        """Its catalogue entry."""
        return get_model(self.reference)

    @property
    def name(self) -> str:
        """Its name without its maker."""
        return self.reference.rpartition("/")[2]

    def beaten_by(self, entry: CatalogModel) -> bool:
        """Whether a model has more parameters and a smaller cache per token."""
        return self.larger(entry) and _bytes(entry) < _bytes(self.entry)

    def larger(self, entry: CatalogModel) -> bool:
        """Whether a model has more parameters."""
        return entry.num_parameters > self.entry.num_parameters

    @property
    def example(self) -> CatalogModel:
        """The largest model that beats it."""
        return max(filter(self.beaten_by, models()), key=lambda entry: entry.num_parameters)


def _draw(rng: random.Random) -> SmallerCache:
    return SmallerCache(rng.choice(_REFERENCES))


def _question(p: SmallerCache) -> str:
    return (
        f"{p.name} has {_size(p.entry, 2)}, and its token takes "
        f"{format_bytes(_bytes(p.entry), 'KiB')}. In the picture above, find a model with more "
        "parameters whose token takes less. Leave the KV cache dtype at auto."
    )


def _chosen(reached: Reached) -> CatalogModel | None:
    """Return the catalogue model the picture shows, or None for a pasted config."""
    name = reached.params["model"]
    pasted = reached.params["config"].strip() != ""
    return None if pasted or name not in {entry.id for entry in models()} else get_model(name)


def _reached(p: SmallerCache, reached: Reached) -> bool:
    entry = _chosen(reached)
    plain = reached.params["kv_cache_dtype"] == "auto"
    return entry is not None and plain and p.beaten_by(entry)


def _describe(p: SmallerCache, reached: Reached) -> str:
    entry = _chosen(reached)
    if entry is None:
        return "The picture shows a pasted config; choose a model of the list."
    if entry == p.entry:
        return f"That is {p.name} itself; choose another in the picture."
    kib = format_bytes(_bytes(entry), "KiB", 1)
    return (
        f"{entry.id} has {_size(entry)} and takes {kib} a token; {p.name} has "
        f"{format_number(p.entry.num_parameters / 1e9, 1)} billion and takes "
        f"{format_bytes(_bytes(p.entry), 'KiB', 1)}."
    )


def _misconceptions(p: SmallerCache) -> Iterator[Misconception]:
    def narrow(reached: Reached) -> bool:
        return reached.params["kv_cache_dtype"] != "auto"

    def smaller(reached: Reached) -> bool:
        entry = _chosen(reached)
        return entry is not None and not p.larger(entry)

    def same_or_more(reached: Reached) -> bool:
        entry = _chosen(reached)
        return entry is not None and _bytes(entry) >= _bytes(p.entry)

    least = min(models(), key=lambda entry: entry.num_parameters)
    fat = max(filter(p.larger, models()), key=_bytes)
    yield Misconception(
        "narrowed the dtype",
        {"model": p.reference, "kv_cache_dtype": "fp8"},
        "A narrower dtype makes any cache smaller; set it back to auto and change the model.",
        narrow,
    )
    yield Misconception(
        "changed nothing",
        {"model": p.reference},
        "That is the model to beat; choose another.",
        lambda reached: reached.params["model"] == p.reference,
    )
    yield Misconception(
        "took a smaller model",
        {"model": least.id},
        "Fewer parameters is the easy way: it must have more.",
        smaller,
    )
    yield Misconception(
        "took a larger cache",
        {"model": fat.id},
        "More parameters, but no smaller cache. Look for few KV heads, or one "
        "compressed vector in place of heads.",
        same_or_more,
    )


def _hints(p: SmallerCache) -> tuple[str, ...]:
    return (
        "Parameters are not in the formula. Layers, KV heads and head dim are.",
        "DeepSeek and Kimi keep one compressed vector for all heads; Qwen likes few KV heads.",
        f"One that does it: {p.example.id}.",
    )


def _solution(p: SmallerCache) -> tuple[str | Element, ...]:
    beating = sorted(filter(p.beaten_by, models()), key=lambda entry: -entry.num_parameters)
    lines = (
        (
            f"{format_bytes(_bytes(entry), 'KiB', 1)} a token",
            f"{entry.id}, {_size(entry, 0)}",
        )
        for entry in beating[:4]
    )
    return (
        f"{len(beating)} models of the catalogue do. The largest of them:",
        working(*lines),
        (
            f"{p.name} itself takes {format_bytes(_bytes(p.entry), 'KiB', 1)}: a cache does not "
            "follow from a model's size."
        ),
    )


SMALLER_CACHE: Final = Drill(
    id="larger-model-smaller-cache",
    kind=State("bytes-per-token", _reached, _describe),
    first=SmallerCache("meta-llama/Llama-3.1-8B"),
    draw=_draw,
    question=_question,
    answer=lambda p: {"model": p.example.id},
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Bring the picture of the formula to a larger model with a smaller cache."""
