"""Step 14: bytes per token from a start-up log, and the flag that changed between two."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Number, Option
from kvdocs.drills.lesson.plain_models import PlainModel
from kvdocs.drills.lesson.terminal_state import command_for, server_of
from kvdocs.drills.prose import log, working
from kvdocs.drills.quantities import Bytes
from kvdocs.html import Element
from kvdocs.scenario import LESSON
from kvdocs.units import GB, GIB, format_bytes, format_gib_as_vllm
from kvdocs.widgets.startup import Server

_MEMORY: Final = "Available KV cache memory"
_SIZE: Final = "GPU KV cache size"
_WEIGHTS: Final = "Model loading took"


def _lines(server: Server, *wanted: str) -> tuple[str, ...]:
    """Return the lines of a log that say one of these, without the name of the process."""
    plain = (line.partition(") ")[2] for line in server.log())
    return tuple(line for line in plain if any(words in line for words in wanted))


def _token_bytes(server: Server) -> int:
    return server.capacity.bytes_per_block // server.capacity.block_size


# Bytes per token ------------------------------------------------------------------------------

_MODELS: Final = (
    LESSON.model,
    "Qwen/Qwen3-14B",
    "Qwen/Qwen2.5-7B-Instruct",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "meta-llama/Llama-3.2-3B",
    "microsoft/phi-4",
)
_SHARES: Final = ("0.8", "0.85", "0.9", "0.95")


@dataclass(frozen=True, slots=True)
class Printed:
    """A server on the lesson's GPU whose log is read."""

    model: str
    utilization: str
    kv_cache_dtype: str

    @property
    def server(self) -> Server:
        """The server."""
        return server_of(
            {
                "command": command_for(self.model),
                "gpu_memory_utilization": self.utilization,
                "kv_cache_dtype": self.kv_cache_dtype,
                "max_model_len": "8192",
            }
        )

    @property
    def plain(self) -> PlainModel:
        """The model."""
        return PlainModel(self.model)

    @property
    def tokens(self) -> int:
        """Tokens that the log prints."""
        return self.server.capacity.kv_cache_size_tokens

    @property
    def pool_bytes(self) -> int:
        """Bytes that the log prints, in GiB."""
        return self.server.capacity.kv_pool_bytes

    @property
    def gib(self) -> str:
        """The same as printed."""
        return format_gib_as_vllm(self.pool_bytes)


def _draw_printed(rng: random.Random) -> Printed:
    return Printed(rng.choice(_MODELS), rng.choice(_SHARES), rng.choice(("", "fp8")))


def _printed_misconceptions(p: Printed) -> Iterator[Misconception]:
    server = p.server
    yield Misconception(
        "read GiB as GB",
        p.pool_bytes / GIB * GB / p.tokens,
        "A little too low: the log prints GiB, and 1 GiB is 1,073,741,824 bytes.",
    )
    yield Misconception(
        "took the weights",
        server.budget.weights_bytes / p.tokens,
        "That divides the weights. The memory of the cache stands in another line.",
    )
    yield Misconception(
        "divided by the length",
        p.pool_bytes / server.capacity.max_model_len,
        "That divides by the length of one request. The pool is for all the tokens printed.",
    )
    yield Misconception(
        "doubled for key and value",
        2 * _token_bytes(server),
        "Twice too much, as in bf16 or as if key and value were still to be added. Divide the "
        "memory printed by the tokens printed: both lie in it, in the dtype of this server.",
    )
    yield Misconception(
        "one layer",
        _token_bytes(server) / p.plain.layers.count,
        "That is one layer. All of them lie in that memory, and a token is a token in each.",
    )


def _printed_solution(p: Printed) -> tuple[str | Element, ...]:
    token = _token_bytes(p.server)
    bf16 = format_bytes(p.plain.bytes_per_token(), "KiB")
    told = (
        "Half of it: so this cache is in fp8, which these three lines do not name."
        if p.kv_cache_dtype
        else "The same: so this cache is in bf16."
    )
    return (
        working(
            (f"{p.gib} GiB / {p.tokens:,}", "memory of the pool ÷ tokens it holds"),
            (f"= {format_bytes(token, 'KiB')}", "a token"),
        ),
        f"By its `config.json` {p.plain.name} takes {bf16} a token in bf16. {told}",
    )


PRINTED_LINE: Final = Drill(
    id="read-the-start-up-line",
    kind=Number(Bytes("KiB")),
    first=Printed(LESSON.model, "0.85", "fp8"),
    draw=_draw_printed,
    question=lambda p: (
        f"These lines are from the start of a server of {p.plain.name} on one GPU. How much cache "
        "does one token take?"
    ),
    given=lambda p: (log("The start-up log, in part", _lines(p.server, _WEIGHTS, _MEMORY, _SIZE)),),
    answer=lambda p: _token_bytes(p.server),
    misconceptions=_printed_misconceptions,
    hints=lambda p: (
        "Two of these figures describe the pool: one in bytes, one in tokens.",
        f"{p.gib} GiB hold {p.tokens:,} tokens.",
        "1 GiB is 1,048,576 KiB.",
    ),
    solution=_printed_solution,
)
"""Compute bytes per token from a start-up log."""


# The flag that changed ------------------------------------------------------------------------


class Flag(StrEnum):
    """A flag that may have changed."""

    UTILIZATION = "--gpu-memory-utilization"
    DTYPE = "--kv-cache-dtype"
    LENGTH = "--max-model-len"
    BLOCK = "--block-size"
    SHARING = "--no-enable-prefix-caching"


_SIGNS: Final = {
    Flag.UTILIZATION: "It would move the first line: the memory that is available to the cache.",
    Flag.DTYPE: "It would leave the memory as it is and fit about twice the tokens in it, or half.",
    Flag.LENGTH: "It would leave memory and tokens alone and change for how long a request they "
    "are counted.",
    Flag.BLOCK: "It would move the rounding alone: some tokens more or less, in the same memory.",
    Flag.SHARING: "It would change nothing in these two lines: the pool is as large without it.",
}
_BEFORE: Final = {"gpu_memory_utilization": "0.9", "max_model_len": "8192"}


@dataclass(frozen=True, slots=True)
class Restart:
    """A server of the lesson before and after a control of the picture was set.

    Attributes:
        control: Name of the control.
        value: What it was set to.
        order: The flags as they are offered.
    """

    control: str
    value: str
    order: tuple[Flag, ...]

    @property
    def before(self) -> Server:
        """The server before."""
        return server_of(_BEFORE)

    @property
    def after(self) -> Server:
        """The server after."""
        return server_of({**_BEFORE, self.control: self.value})

    @property
    def changed(self) -> Flag:
        """Which flag moves what is different."""
        before, after = self.before.capacity, self.after.capacity
        signs = {
            Flag.UTILIZATION: before.kv_pool_bytes != after.kv_pool_bytes,
            Flag.DTYPE: _token_bytes(self.before) != _token_bytes(self.after),
            Flag.LENGTH: before.max_model_len != after.max_model_len,
            Flag.BLOCK: before.block_size != after.block_size,
        }
        return next((flag for flag, is_seen in signs.items() if is_seen), Flag.SHARING)


_CHANGES: Final = (
    ("gpu_memory_utilization", "0.8"),
    ("gpu_memory_utilization", "0.95"),
    ("kv_cache_dtype", "fp8"),
    ("max_model_len", "32768"),
    ("max_model_len", "65536"),
    ("block_size", "64"),
    ("block_size", "128"),
    ("prefix_caching", "off"),
)


def _draw_restart(rng: random.Random) -> Restart:
    return Restart(*rng.choice(_CHANGES), tuple(rng.sample(tuple(Flag), len(Flag))))


def _restart_misconceptions(p: Restart) -> Iterator[Misconception]:
    for flag in Flag:
        if flag is not p.changed:
            yield Misconception(f"took it for {flag}", flag.value, _SIGNS[flag])


def _printed_pair(p: Restart) -> tuple[Element, ...]:
    return (
        log("Before", _lines(p.before, _MEMORY, _SIZE)),
        log("After", _lines(p.after, _MEMORY, _SIZE)),
    )


def _restart_solution(p: Restart) -> tuple[str | Element, ...]:
    def figures(server: Server) -> str:
        held = server.capacity
        return (
            f"{format_gib_as_vllm(held.kv_pool_bytes)} GiB, {held.kv_cache_size_tokens:,} tokens, "
            f"{held.max_concurrency:.2f}x of {held.max_model_len:,}"
        )

    told: Mapping[Flag, str] = {
        Flag.UTILIZATION: "The memory changed, and the tokens with it.",
        Flag.DTYPE: "The same memory holds another number of tokens: each takes other bytes.",
        Flag.LENGTH: "Memory and tokens are the same. Only the promise changed.",
        Flag.BLOCK: "The same memory, and a few tokens less: larger blocks, coarser rounding.",
        Flag.SHARING: "Nothing changed. Sharing is about what lies in the blocks, not how many.",
    }
    return (
        working((figures(p.before), "before"), (figures(p.after), "after")),
        f"{told[p.changed]} So it was `{p.changed}`.",
    )


WHICH_FLAG: Final = Drill(
    id="which-flag-changed",
    kind=Choice(lambda p: tuple(Option(flag.value, f"`{flag}`") for flag in p.order)),
    first=Restart("max_model_len", "32768", tuple(Flag)),
    draw=_draw_restart,
    question=lambda _: (
        "The server of `dgx-1` was started again with one flag changed. Which one, by these lines?"
    ),
    given=_printed_pair,
    answer=lambda p: p.changed.value,
    misconceptions=_restart_misconceptions,
    hints=lambda _: (
        "Compare one figure after the other: memory, tokens, length, times.",
        "Which flags can move the first figure that differs?",
    ),
    solution=_restart_solution,
)
"""Tell by two start-up logs which flag changed."""
