"""Step 7: make a server start that refuses, in any of several ways."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Reached, State
from kvdocs.drills.lesson.terminal_state import (
    command_for,
    server_of,
    short_name,
    too_long,
)
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.scenario import LESSON
from kvdocs.widgets.startup import LENGTHS, Server


class Way(StrEnum):
    """A way out of the refusal."""

    LENGTH = "a shorter maximum length"
    DTYPE = "smaller tokens"
    MEMORY = "more memory for the cache"
    MODEL = "another model"


_PRICES: Final = {
    Way.LENGTH: "It costs no memory, only a promise: longer requests are turned away.",
    Way.DTYPE: "Every length takes half the bytes, with a little less precision.",
    Way.MEMORY: "The promise stays whole, and somebody pays for the memory.",
    Way.MODEL: "The promise changed with the model, and so did the answers.",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A server that refuses: a model on a share of a GPU, with the model's own length."""

    model: str
    gpu: str
    utilization: float

    @property
    def controls(self) -> dict[str, str]:
        """The picture's controls that show it."""
        return {
            "command": command_for(self.model),
            "gpu": self.gpu,
            "gpu_memory_utilization": f"{self.utilization:g}",
        }

    @property
    def server(self) -> Server:
        """The server as it refuses."""
        return server_of(self.controls)

    @property
    def shortened(self) -> dict[str, str]:
        """The controls of the first way out: a length that fits."""
        return {**self.controls, "max_model_len": "8192"}

    def ways(self, server: Server) -> tuple[Way, ...]:
        """What a server differs in from the one that refuses, as far as it helps."""
        before = self.server
        if server.flags.model != self.model:
            return (Way.MODEL,)
        found = {
            Way.LENGTH: server.capacity.max_model_len < before.capacity.max_model_len,
            Way.DTYPE: _token_bytes(server) < _token_bytes(before),
            Way.MEMORY: server.capacity.kv_pool_bytes > before.capacity.kv_pool_bytes,
        }
        return tuple(way for way, is_taken in found.items() if is_taken)


def _token_bytes(server: Server) -> float:
    """Bytes a token takes on all GPUs together."""
    held = server.capacity
    return held.bytes_per_block / held.block_size * server.flags.tensor_parallel_size


_REFUSED: Final = (
    Refused(LESSON.model, LESSON.gpu, 0.4),
    Refused(LESSON.model, "rtx-5090-32gb", 0.9),
    Refused(LESSON.model, "a40-48gb", 0.7),
    Refused(LESSON.model, "a100-sxm-40gb", 0.8),
    Refused("mistralai/Mistral-Nemo-Instruct-2407", LESSON.gpu, 0.5),
    Refused("mistralai/Mistral-Nemo-Instruct-2407", "l40s-48gb", 0.9),
    Refused("Qwen/Qwen3-14B", "a100-sxm-40gb", 0.9),
    Refused("Qwen/Qwen3-8B", "rtx-4090-24gb", 0.9),
    Refused("meta-llama/Llama-3.2-3B", "l4-24gb", 0.9),
    Refused("meta-llama/Llama-3.2-3B", "a10-24gb", 0.8),
)
"""Servers that refuse, and start with an fp8 cache alone."""


def _draw(rng: random.Random) -> Refused:
    return rng.choice(_REFUSED)


def _place(p: Refused) -> str:
    return f"{short_name(p.model)} on {_gpu(p.gpu)} with `--gpu-memory-utilization {p.utilization}`"


def _gpu(gpu: str) -> str:
    return "the lesson's GPU" if gpu == LESSON.gpu else f"one {get_gpu(gpu).name}"


def _question(p: Refused) -> str:
    held = p.server.capacity
    return (
        f"{_place(p)} refuses: it promises {held.max_model_len:,} tokens, and at most "
        f"{held.max_model_len_that_fits:,} would fit. Make it start, in the terminal or with "
        "the controls of the picture. There are several ways; any of them counts."
    )


def _reached(p: Refused, reached: Reached) -> bool:
    server = server_of(reached.params)
    return server.starts and bool(p.ways(server))


def _describe(p: Refused, reached: Reached) -> str:
    server = server_of(reached.params)
    name, held = short_name(server.flags.model), server.capacity
    if not server.starts:
        return f"{name} still refuses, with {held.max_model_len:,} tokens asked for."
    ways = p.ways(server)
    if not ways:
        return f"{name} starts with {held.max_model_len:,} tokens a request."
    return f"{name} starts, by {' and '.join(ways)}. {_PRICES[ways[0]]} {_others(ways)}"


def _others(ways: tuple[Way, ...]) -> str:
    """Name the ways not taken."""
    left = [way.value for way in (Way.LENGTH, Way.DTYPE, Way.MEMORY) if way not in ways]
    if not left:
        return "One of these would have been enough."
    return f"There are others: {' or '.join(left)}."


def _misconceptions(p: Refused) -> Iterator[Misconception]:
    def refuses(reached: Reached) -> bool:
        return not server_of(reached.params).starts

    def nothing_left(reached: Reached) -> bool:
        return refuses(reached) and not too_long(server_of(reached.params))

    yield Misconception(
        "left nothing",
        {**p.controls, "gpu_memory_utilization": "0.2"},
        "Now the weights leave nothing for the cache; that was the wrong direction.",
        nothing_left,
    )
    yield Misconception(
        "changed the rounding",
        {**p.controls, "block_size": "32"},
        "The block size only moves the rounding. Ask for less, or find more room.",
        lambda reached: refuses(reached) and reached.params["block_size"] != "",
    )
    yield Misconception(
        "changed nothing that helps",
        p.controls,
        "The error names two of the ways itself: read its last sentences.",
        refuses,
    )


def _hints(p: Refused) -> tuple[str, ...]:
    return (
        "Either the promise becomes smaller, or a token does, or the pool becomes larger.",
        f"The longest that fits is {p.server.capacity.max_model_len_that_fits:,} tokens.",
        (
            "Each of these controls is enough: `--max-model-len`, `--kv-cache-dtype`, "
            "`--tensor-parallel-size`, or another GPU."
        ),
    )


def _fits(controls: Mapping[str, str]) -> str:
    held = server_of(controls).capacity
    return f"starts with room for {held.kv_cache_size_tokens:,} tokens"


def _solution(p: Refused) -> tuple[str | Element, ...]:
    most = p.server.capacity.max_model_len_that_fits
    length = str(max(offered for offered in LENGTHS if offered <= most))
    return (
        "Each of these controls is enough alone:",
        working(
            (
                f"--max-model-len {length}",
                f"{_fits({**p.controls, 'max_model_len': length})}: a smaller promise",
            ),
            (
                "--kv-cache-dtype fp8",
                f"{_fits({**p.controls, 'kv_cache_dtype': 'fp8'})}: smaller tokens",
            ),
            (
                "--tensor-parallel-size 2",
                f"{_fits({**p.controls, 'tensor_parallel_size': '2'})}: a second GPU",
            ),
        ),
        (
            f"Up to {most:,} tokens may be typed in the command line, or `--max-model-len` set to "
            "the longest that fits. A larger GPU or a larger share of it does what a second one "
            "does."
        ),
    )


START_AGAIN: Final = Drill(
    id="make-it-start",
    kind=State("startup", _reached, _describe),
    first=_REFUSED[0],
    draw=_draw,
    question=_question,
    answer=lambda p: p.shortened,
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Bring a server that refuses to a start, by any way."""
