"""Step 5: models in the order of their KV bytes per token, which is not that of their size."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kvdocs.catalog import get_model
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Option, Ordering
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.model import LayerKind, kv_cost
from kvdocs.units import format_bytes, format_number

_MODELS: Final = (
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-405B",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-235B-A22B",
    "mistralai/Mixtral-8x22B-v0.1",
    "microsoft/phi-4",
    "zai-org/GLM-4.5-Air",
)
_COUNT: Final = 4
_LEAST_STEP: Final = 1.1


def _name(model: str) -> str:
    return model.rpartition("/")[2].removesuffix("-hf").removesuffix("-Instruct")


def _kv_bytes(model: str) -> int:
    return kv_cost(get_model(model).model).bytes_per_token


def _parameters(model: str) -> int:
    return get_model(model).num_parameters


@dataclass(frozen=True, slots=True)
class KvOrder:
    """A few models, in the order they are shown at first."""

    models: tuple[str, ...]

    @property
    def by_kv(self) -> tuple[str, ...]:
        """The smallest cache first."""
        return tuple(sorted(self.models, key=_kv_bytes))

    @property
    def by_parameters(self) -> tuple[str, ...]:
        """The smallest model first."""
        return tuple(sorted(self.models, key=_parameters))


def _tells(p: KvOrder) -> bool:
    """Whether the caches are apart, unlike the sizes, and not shown in the right order."""
    sizes = [_kv_bytes(model) for model in p.by_kv]
    apart = all(more >= _LEAST_STEP * less for less, more in pairwise(sizes))
    return apart and p.by_kv not in (p.by_parameters, p.models)


def _draw(rng: random.Random) -> KvOrder:
    while True:
        drawn = KvOrder(tuple(rng.sample(_MODELS, _COUNT)))
        if _tells(drawn):
            return drawn


def _heads(model: str) -> str:
    layers = get_model(model).model.layers[0]
    if layers.kind is LayerKind.LATENT:
        return f"{layers.count} layers, one compressed vector of {layers.head_size} numbers a layer"
    heads = "head" if layers.num_kv_heads == 1 else "heads"
    return f"{layers.count} layers, {layers.num_kv_heads} KV {heads} of {layers.head_size} numbers"


def _items(p: KvOrder) -> tuple[Option, ...]:
    return tuple(
        Option(
            model,
            _name(model),
            f"{format_number(_parameters(model) / 1e9, 1)} billion parameters; {_heads(model)}",
        )
        for model in p.models
    )


def _misconceptions(p: KvOrder) -> Iterator[Misconception]:
    yield Misconception(
        "ordered by parameters",
        p.by_parameters,
        "That is the order of the parameters, and they are not in the formula: layers, KV "
        "heads and head dim are.",
    )
    yield Misconception(
        "turned it round",
        p.by_kv[::-1],
        "The order is right, but upside down: the smallest cache belongs at the top.",
    )


def _hints(p: KvOrder) -> tuple[str, ...]:
    latent = any(get_model(model).model.group(LayerKind.LATENT) for model in p.models)
    vector = "A compressed vector serves as key and value in one: without the factor 2."
    return (
        "Parameters do not tell. Multiply 2 × layers × KV heads × numbers.",
        *([vector] if latent else []),
        f"{_name(p.by_kv[0])} belongs at the top.",
    )


def _solution(p: KvOrder) -> tuple[str | Element, ...]:
    lines = (
        (f"{format_bytes(_kv_bytes(model), 'KiB', 1)} a token", f"{_name(model)}: {_heads(model)}")
        for model in p.by_kv
    )
    large, small = next(
        (large, small)
        for small in reversed(p.by_kv)
        for large in p.by_kv[: p.by_kv.index(small)]
        if _parameters(large) > _parameters(small)
    )
    return (
        working(*lines),
        (
            f"{_name(large)} has more parameters than {_name(small)}, and the smaller cache. A "
            "cache grows with layers and KV heads (or the width of a compressed vector), not "
            "with parameters."
        ),
    )


KV_ORDER: Final = Drill(
    id="order-by-kv-per-token",
    kind=Ordering(_items, first="the smallest cache", last="the largest"),
    first=KvOrder(
        (
            "meta-llama/Llama-3.1-8B",
            "deepseek-ai/DeepSeek-V3",
            "meta-llama/Llama-2-7b-hf",
            "meta-llama/Llama-3.1-70B",
        )
    ),
    draw=_draw,
    question=lambda _: "Put these models in the order of their KV bytes per token, in 16 bit.",
    answer=lambda p: p.by_kv,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Order models by KV bytes per token."""
