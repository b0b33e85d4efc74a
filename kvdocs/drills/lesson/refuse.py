"""Step 7: make a server refuse because one request of maximum length does not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Reached, State
from kvdocs.drills.lesson.terminal_state import command_for, server_of, short_name, too_long
from kvdocs.drills.prose import working
from kvdocs.html import Element
from kvdocs.scenario import LESSON
from kvdocs.units import format_bytes
from kvdocs.widgets.startup import Server

_MODELS: Final = (
    LESSON.model,
    "mistralai/Mistral-Nemo-Instruct-2407",
)
_MOST: Final = (20_000, 40_000, 60_000, 80_000, 100_000)
_SHARES: Final = range(98, 19, -1)
"""Percent of the GPU that the picture offers, from all to little."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """A model, and the longest length that the refusal may name, in tokens."""

    model: str
    most: int

    def with_share(self, percent: int) -> dict[str, str]:
        """Controls: the model on the lesson's GPU with a share of it."""
        share = f"{percent / 100:g}"
        return {"command": command_for(self.model), "gpu_memory_utilization": share}

    def share(self, *, above: bool = False) -> dict[str, str]:
        """The largest share with which it refuses as asked; `above`: by too little."""

        def refuses(controls: dict[str, str]) -> bool:
            server = server_of(controls)
            return too_long(server) and (above or self.is_short(server))

        return next(filter(refuses, map(self.with_share, _SHARES)))

    def is_short(self, server: Server) -> bool:
        """Whether the longest length that would fit is as short as asked."""
        return server.capacity.max_model_len_that_fits <= self.most


def _draw(rng: random.Random) -> Refuse:
    return Refuse(rng.choice(_MODELS), rng.choice(_MOST))


def _question(p: Refuse) -> str:
    return (
        f"In the terminal or in the picture, make the server of {short_name(p.model)} refuse to "
        "start because one request of the maximum length does not fit; its error must name a "
        f"longest length of at most {p.most:,} tokens."
    )


def _is_model(p: Refuse, server: Server) -> bool:
    return server.flags.model == p.model


def _reached(p: Refuse, reached: Reached) -> bool:
    server = server_of(reached.params)
    return _is_model(p, server) and too_long(server) and p.is_short(server)


def _describe(_: Refuse, reached: Reached) -> str:
    server = server_of(reached.params)
    name, held = short_name(server.flags.model), server.capacity
    if server.starts:
        return (
            f"{name} starts: {held.max_model_len:,} tokens are promised to each request, and the "
            f"pool holds {held.kv_cache_size_tokens:,}."
        )
    if too_long(server):
        return (
            f"{name} refuses: {held.max_model_len:,} tokens are asked for, and the longest that "
            f"would fit is {held.max_model_len_that_fits:,}."
        )
    return f"{name} refuses: nothing is left for the cache."


def _misconceptions(p: Refuse) -> Iterator[Misconception]:
    def other_model(reached: Reached) -> bool:
        return not _is_model(p, server_of(reached.params))

    def starts(reached: Reached) -> bool:
        return server_of(reached.params).starts

    def nothing_left(reached: Reached) -> bool:
        return not too_long(server_of(reached.params))

    yield Misconception(
        "another model",
        {"command": command_for("Qwen/Qwen3-8B")},
        f"Asked is {short_name(p.model)}: write `{command_for(p.model)}` as the command line.",
        other_model,
    )
    yield Misconception(
        "promised less",
        p.with_share(90) | {"max_model_len": "8192"},
        "A shorter promise is easier to keep. Promise more, or leave the pool less.",
        starts,
    )
    yield Misconception(
        "left nothing",
        p.with_share(20) | {"gpu": "t4-16gb"},
        "That is another refusal: no length at all would help, the weights alone are too many. "
        "Give it a little more.",
        nothing_left,
    )
    yield Misconception(
        "left too much",
        p.share(above=True),
        f"The right refusal, but it still names more than {p.most:,}. Leave the pool less.",
        lambda reached: too_long(server_of(reached.params)),
    )


def _hints(p: Refuse) -> tuple[str, ...]:
    model_len = server_of(p.with_share(90)).capacity.max_model_len
    share = p.share()["gpu_memory_utilization"]
    return (
        f"The model promises {model_len:,} tokens unless told otherwise. Make the pool smaller.",
        "Two controls do that: a smaller `--gpu-memory-utilization`, or a smaller GPU.",
        f"On the lesson's GPU, set `--gpu-memory-utilization` to {share}.",
    )


def _solution(p: Refuse) -> tuple[str | Element, ...]:
    controls = p.share()
    server = server_of(controls)
    held = server.capacity
    return (
        (
            f"For example with `{command_for(p.model)}` as the command line, "
            f"`--gpu-memory-utilization` at {controls['gpu_memory_utilization']} and the other "
            "controls as they were:"
        ),
        working(
            (format_bytes(held.kv_pool_bytes_per_gpu, "GiB"), "left for the pool"),
            (
                format_bytes(server.request_bytes, "GiB"),
                f"one request of {held.max_model_len:,} tokens",
            ),
            (f"{held.max_model_len_that_fits:,} tokens", "the longest that would fit"),
        ),
        "vLLM checks the promise once, for one request alone on an empty pool.",
    )


REFUSE: Final = Drill(
    id="make-it-refuse",
    kind=State("startup", _reached, _describe),
    first=Refuse(LESSON.model, 100_000),
    draw=_draw,
    question=_question,
    answer=lambda p: p.share(),
    misconceptions=_misconceptions,
    hints=_hints,
    solution=_solution,
)
"""Bring the picture of the start to a refusal because of the length."""
