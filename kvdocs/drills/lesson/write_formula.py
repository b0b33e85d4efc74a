"""Step 4: the formula as a function, and the two factors that calculators have got wrong.

The function to mend takes query heads, and hidden size over query heads as the head dim. Both have
been reported of published calculators; the second as LMCache issue 688.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Code, CodeCase
from kvdocs.drills.lesson.plain_models import PlainModel
from kvdocs.html import Element, h

_GROUPED: Final = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "microsoft/phi-4")
_WIDE: Final = ("Qwen/Qwen3-32B", "mistralai/Mistral-Small-24B-Instruct-2501", "Qwen/Qwen3-0.6B")
_EVERY_HEAD: Final = "meta-llama/Llama-2-7b-hf"

START: Final = '''\
def bytes_per_token(config):
    """KV bytes of one token in bf16, from the fields of a config.json."""
    layers = config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    head_dim = config["hidden_size"] // heads
    return 2 * layers * heads * head_dim * 2
'''

SOLUTION: Final = '''\
def bytes_per_token(config):
    """KV bytes of one token in bf16, from the fields of a config.json."""
    layers = config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    return 2 * layers * kv_heads * head_dim * 2
'''

_HEADS_ONLY: Final = SOLUTION.replace('config.get("num_key_value_heads", heads)', "heads")
_WIDTH_ONLY: Final = SOLUTION.replace(
    'config.get("head_dim", config["hidden_size"] // heads)', 'config["hidden_size"] // heads'
)


@dataclass(frozen=True, slots=True)
class Formula:
    """The models the function is tried on: one with grouped heads, one with wide heads."""

    grouped: PlainModel
    wide: PlainModel


def _draw(rng: random.Random) -> Formula:
    return Formula(PlainModel(rng.choice(_GROUPED)), PlainModel(rng.choice(_WIDE)))


def _cases(p: Formula) -> tuple[CodeCase, ...]:
    old = PlainModel(_EVERY_HEAD)
    bare = {key: old.shown_config[key] for key in old.shown_config if key != "num_key_value_heads"}
    return (
        CodeCase(p.grouped.name, (p.grouped.shown_config,), p.grouped.bytes_per_token()),
        CodeCase(p.wide.name, (p.wide.shown_config,), p.wide.bytes_per_token()),
        CodeCase(
            "an older file without `num_key_value_heads`",
            (bare,),
            old.bytes_per_token(),
            "Where that field is missing, every query head has its own K and V.",
        ),
    )


def _question(p: Formula) -> str:
    return (
        "This function has been in use for years and is wrong for most models. Mend it, so that "
        f"it is right for {p.grouped.name}, for {p.wide.name} and for older files."
    )


def _misconceptions(p: Formula) -> Iterator[Misconception]:
    def query_heads(returned: tuple[object, ...]) -> bool:
        return returned[0] == p.grouped.query_head_bytes()

    def hidden_size(returned: tuple[object, ...]) -> bool:
        wide = p.wide
        wrong = wide.bytes_per_token() * wide.hidden_over_heads // wide.layers.head_size
        return returned[0] == p.grouped.bytes_per_token() and returned[1] == wrong

    yield Misconception(
        "took query heads",
        _HEADS_ONLY,
        "That is with query heads. Only KV heads, `num_key_value_heads`, leave keys and values.",
        query_heads,
    )
    yield Misconception(
        "took hidden size over query heads",
        _WIDTH_ONLY,
        "That is with hidden size ÷ query heads. This file names its head dim: `head_dim`.",
        hidden_size,
    )


def _hints(_: Formula) -> tuple[str, ...]:
    return (
        "Two factors of the product are wrong: the heads, and the head dim.",
        'A field that may be missing is read with `config.get("head_dim", …)`.',
        "Without `num_key_value_heads`, there are as many KV heads as query heads.",
    )


def _solution(_: Formula) -> tuple[str | Element, ...]:
    report = h("a", "LMCache #688", href="https://github.com/LMCache/LMCache/issues/688")
    return (
        h("pre", h("code", SOLUTION), class_="kv-python", tabindex=0),
        h(
            "p",
            "Published calculators have had both mistakes; the second, for one, in ",
            report,
            ".",
        ),
    )


WRITE_FORMULA: Final = Drill(
    id="mend-the-formula",
    kind=Code("bytes_per_token", lambda _: START, _cases),
    first=Formula(PlainModel("meta-llama/Llama-3.1-8B"), PlainModel("Qwen/Qwen3-32B")),
    draw=_draw,
    question=_question,
    answer=lambda _: SOLUTION,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Mend a function that computes KV bytes per token."""
