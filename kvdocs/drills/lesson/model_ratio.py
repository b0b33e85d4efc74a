"""Step 4: how many times the cache of a larger model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Prediction
from kvdocs.drills.lesson.plain_models import PLAIN_MODELS, PlainModel
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.units import format_bytes, format_number

_LEAST_RATIO: Final = 1.5


@dataclass(frozen=True, slots=True)
class ModelRatio:
    """Two models, the larger second."""

    small: PlainModel
    large: PlainModel

    @property
    def parameters(self) -> float:
        """Times the parameters."""
        return self.large.entry.num_parameters / self.small.entry.num_parameters

    @property
    def kv(self) -> float:
        """Times the KV bytes per token."""
        return self.large.bytes_per_token() / self.small.bytes_per_token()

    @property
    def query_heads(self) -> float:
        """The same, had every query head its own K and V."""
        return self.large.query_head_bytes() / self.small.query_head_bytes()

    @property
    def layers(self) -> float:
        """Times the layers."""
        return self.large.layers.count / self.small.layers.count


def _draw(rng: random.Random) -> ModelRatio:
    """Draw two models that differ: in parameters, and otherwise in their cache."""
    while True:
        pair = sorted(
            (PlainModel(name) for name in rng.sample(PLAIN_MODELS, 2)),
            key=lambda model: model.entry.num_parameters,
        )
        drawn = ModelRatio(*pair)
        if drawn.parameters >= _LEAST_RATIO and abs(drawn.parameters / drawn.kv - 1) > 0.2:
            return drawn


def _billions(model: PlainModel) -> str:
    return f"{format_number(model.entry.num_parameters / 1e9, 1)} billion"


def _question(p: ModelRatio) -> str:
    return (
        f"{p.large.name} has {_billions(p.large)} parameters, {p.small.name} "
        f"{_billions(p.small)}: {format_number(p.parameters, 1)} times as many. How many times the "
        "KV bytes per token?"
    )


def _shape(model: PlainModel) -> str:
    layers = model.layers
    return f"2 × {layers.count} × {layers.num_kv_heads} × {layers.head_size} × 2 B"


def _misconceptions(p: ModelRatio) -> Iterator[Misconception]:
    yield Misconception(
        "scaled with the parameters",
        round(p.parameters, 2),
        "That is the ratio of the parameters, and they are not in the formula. A model's "
        "weights grow with depth and width squared, its cache with depth, KV heads and head dim.",
    )
    yield Misconception(
        "took query heads",
        round(p.query_heads, 2),
        "That is the ratio with query heads. Only KV heads (`num_key_value_heads`) leave keys "
        "and values behind.",
    )
    yield Misconception(
        "turned it round",
        round(1 / p.kv, 2),
        f"That is {p.small.name} in terms of {p.large.name}; asked was the other way round.",
    )
    yield Misconception(
        "took layers alone",
        round(p.layers, 2),
        "That is the ratio of the layers. These two differ in KV heads or head dim as well.",
    )


def _hints(p: ModelRatio) -> tuple[str, ...]:
    return (
        "Which factors of the formula differ between the two? The parameters are none of them.",
        (
            f"{p.small.name}: {p.small.layers.count} layers, {p.small.layers.num_kv_heads} KV "
            f"heads, head dim {p.small.layers.head_size}."
        ),
        (
            f"{p.large.name}: {p.large.layers.count} layers, {p.large.layers.num_kv_heads} KV "
            f"heads, head dim {p.large.layers.head_size}."
        ),
    )


def _solution(p: ModelRatio) -> tuple[str | Element, ...]:
    small, large = p.small.bytes_per_token(), p.large.bytes_per_token()
    return (
        working(
            (f"{_shape(p.small)} = {format_bytes(small, 'KiB')}", f"a token of {p.small.name}"),
            (f"{_shape(p.large)} = {format_bytes(large, 'KiB')}", f"a token of {p.large.name}"),
            (f"{large:,} / {small:,} = {format_number(p.kv)}", "times"),
        ),
        (
            f"Not {format_number(p.parameters, 1)}: parameters are not in the formula. A model's "
            "weights grow with depth and width squared, its cache with depth, KV heads and head "
            "dim."
        ),
    )


MODEL_RATIO: Final = Drill(
    id="cache-of-a-larger-model",
    kind=Prediction(Count("times", ("x", "×", "time"), digits=2)),
    first=ModelRatio(PlainModel("meta-llama/Llama-3.1-8B"), PlainModel("meta-llama/Llama-3.1-70B")),
    draw=_draw,
    question=_question,
    answer=lambda p: p.kv,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Predict the ratio of two models' KV bytes per token."""
