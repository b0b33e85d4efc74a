"""Step 18: what a token costs with scales, what an fp8 step reads, what it is worth, what binds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Number, Option, Prediction
from kvdocs.drills.lesson.plain_models import PLAIN_MODELS, PlainModel
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Bytes, Count
from kvdocs.html import Element
from kvdocs.scenario import LESSON, lesson_timer
from kvdocs.smaller_cache import BeforeAfter, CacheState, Demand, Limit, before_after
from kvdocs.units import GB, GIB, format_bytes
from kvdocs.widgets.fp8_before_after import BIND_WORDS, GAIN_WORDS
from kvdocs.widgets.view import Table

# A token with scales --------------------------------------------------------------------------

_SCALED: Final = "fp8_per_token_head"
_SCALE_BYTES: Final = 4


def _scale_bytes(p: PlainModel) -> int:
    """Bytes of a token's scales: one for its key and one for its value, per layer and KV head."""
    return 2 * p.layers.count * p.layers.num_kv_heads * _SCALE_BYTES


def _scales_question(p: PlainModel) -> str:
    return (
        f"{p.name} has {p.layers.count} layers, {p.layers.num_kv_heads} KV heads and head dim "
        f"{p.layers.head_size}. With `--kv-cache-dtype {_SCALED}` every token keeps beside each "
        "key and each value of each head its scale, 4 bytes. What does one token take?"
    )


def _scales_misconceptions(p: PlainModel) -> Iterator[Misconception]:
    fp8, scales = p.bytes_per_token("fp8"), _scale_bytes(p)
    yield Misconception(
        "forgot the scales",
        fp8,
        "That is the numbers alone. Here the scales are stored with every token.",
    )
    yield Misconception(
        "reckoned in bf16",
        p.bytes_per_token(),
        "That is bf16. In fp8 a number takes 1 byte; then come the scales.",
    )
    yield Misconception(
        "one scale for key and value",
        fp8 + scales // 2,
        "A key and its value have a scale each: they differ in size.",
    )
    yield Misconception(
        "a scale per number",
        fp8 * (1 + _SCALE_BYTES),
        "That is a scale for every number, which would be larger than bf16. One scale serves all "
        f"{p.layers.head_size} numbers of a head's key.",
    )


def _scales_solution(p: PlainModel) -> tuple[str | Element, ...]:
    heads = f"2 × {p.layers.count} × {p.layers.num_kv_heads}"
    fp8, whole = p.bytes_per_token("fp8"), p.bytes_per_token(_SCALED)
    return (
        working(
            (f"{heads} × {p.layers.head_size} × 1 B = {fp8:,} B", "the numbers"),
            (f"{heads} × 4 B = {_scale_bytes(p):,} B", "the scales"),
            (f"together {whole:,} B = {format_bytes(whole, 'KiB')}", "a token"),
        ),
        (
            f"{100 * (whole / fp8 - 1):.1f}% more than plain fp8, whose two scales a layer are "
            "kept with the weights and cost a token nothing."
        ),
    )


FP8_SCALES: Final = Drill(
    id="fp8-with-scales",
    kind=Number(Bytes("KiB")),
    first=PlainModel("meta-llama/Llama-3.1-8B"),
    draw=lambda rng: PlainModel(rng.choice(PLAIN_MODELS)),
    question=_scales_question,
    answer=lambda p: p.bytes_per_token(_SCALED),
    misconceptions=_scales_misconceptions,
    hints=lambda p: (
        "Numbers first, then scales.",
        f"The numbers take {format_bytes(p.bytes_per_token('fp8'), 'KiB')}.",
        f"A layer has {2 * p.layers.num_kv_heads} scales for the token.",
    ),
    solution=_scales_solution,
)
"""Compute a token's bytes in an fp8 cache that keeps scales beside its numbers."""

# What a step reads ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepRead:
    """A batch that decodes on the lesson's server, with an fp8 cache.

    Attributes:
        sequences: Sequences in the step.
        context: Tokens that each holds.
    """

    sequences: int
    context: int

    @property
    def weights(self) -> int:
        """Bytes of weights: two for each parameter that a step reads."""
        return round(lesson_timer().weights.bytes_read(self.sequences))

    def kv(self, dtype: str = "fp8") -> int:
        """Bytes of keys and values."""
        token = PlainModel(LESSON.model).bytes_per_token(dtype)
        return self.sequences * self.context * token


def _draw_read(rng: random.Random) -> StepRead:
    return StepRead(
        rng.choice((8, 16, 24, 32, 48, 64)), rng.choice((2048, 4096, 6000, 8192, 10_000))
    )


def _read_question(p: StepRead) -> str:
    return (
        f"The lesson's server decodes {p.sequences} sequences of {p.context:,} tokens each. A step "
        f"reads {format_bytes(p.weights, 'GB', 1)} of weights (of the input embedding only some "
        "rows). A token takes 128 KiB of cache in bf16. With `--kv-cache-dtype fp8`: how much does "
        "a step read, weights and cache together?"
    )


def _read_misconceptions(p: StepRead) -> Iterator[Misconception]:
    yield Misconception(
        "halved the weights too",
        p.weights // 2 + p.kv(),
        "You halved the weights too. The flag is the cache's: the weights stay as they are.",
    )
    yield Misconception(
        "kept bf16",
        p.weights + p.kv("auto"),
        "That is the step with bf16. In fp8 each token's keys and values are half as many bytes.",
    )
    yield Misconception(
        "forgot the weights",
        p.kv(),
        "That is the cache alone. Every step reads the weights too.",
    )
    yield Misconception(
        "read one sequence",
        p.weights + p.kv() // p.sequences,
        f"That is the cache of one sequence. The step reads that of all {p.sequences}.",
    )
    yield Misconception(
        "took GiB for GB",
        p.weights + p.kv() * GB / GIB,
        "You added gibibytes of cache to gigabytes of weights: 1 GiB is 1.074 GB.",
    )


def _read_solution(p: StepRead) -> tuple[str | Element, ...]:
    whole, before = p.weights + p.kv(), p.weights + p.kv("auto")
    return (
        working(
            (
                f"{p.sequences} × {p.context:,} × 65,536 B = {format_bytes(p.kv(), 'GB')}",
                "keys and values",
            ),
            (
                f"+ {format_bytes(p.weights, 'GB')} = {format_bytes(whole, 'GB')}",
                "with the weights",
            ),
        ),
        (
            f"With bf16 it would be {format_bytes(before, 'GB')}: the step reads "
            f"{whole / before:.0%} of that, not half."
        ),
    )


FP8_STEP_READ: Final = Drill(
    id="fp8-step-reads",
    kind=Number(Bytes("GB")),
    first=StepRead(48, 8192),
    draw=_draw_read,
    question=_read_question,
    answer=lambda p: p.weights + p.kv(),
    misconceptions=_read_misconceptions,
    hints=lambda p: (
        "Which of the two parts does the flag change?",
        f"In fp8 a token takes 64 KiB; there are {p.sequences * p.context:,} of them.",
        "A KiB is 1,024 bytes, a GB is 1,000,000,000.",
    ),
    solution=_read_solution,
)
"""Compute what a decode step with an fp8 cache reads."""

# What it is worth, and what binds next ---------------------------------------------------------

_ENOUGH: Final = 0.04
"""How much more the largest gain must give than the second, to be asked for."""


@dataclass(frozen=True)
class Load:
    """The lesson's server under some demand."""

    demand: Demand

    @cached_property
    def both(self) -> BeforeAfter:
        """The server with a bf16 and with an fp8 cache."""
        return before_after(self.demand)

    @property
    def margin(self) -> float:
        """By how much the best gain leads."""
        best, second, *_ = sorted(self.both.after.gains.values(), reverse=True)
        return best - second

    @property
    def described(self) -> str:
        """The demand in a sentence."""
        d = self.demand
        return (
            f"Llama 3.1 8B on the lesson's H100 with `--max-num-seqs {d.max_num_seqs}`. "
            f"{d.requests:,} requests are there at any time, each with a prompt of {d.prompt:,} "
            f"tokens and an answer of {d.output:,}."
        )


def _draw_load(rng: random.Random) -> Load:
    while True:
        context = rng.choice((1024, 2048, 4096, 8192, 16_384))
        output = rng.choice((128, 256, 512, context // 2, 3 * context // 4))
        demand = Demand(
            context=context,
            output=min(output, context - 1),
            requests=rng.choice((4, 16, 32, 100, 400, 1600)),
            max_num_seqs=rng.choice((16, 32, 64, 256, 1024)),
        )
        if Load(demand).margin > _ENOUGH:
            return Load(demand)


def _ms(seconds: float, digits: int = 1) -> str:
    return f"{seconds * 1e3:,.{digits}f} ms"


def _prompt_s(state: CacheState) -> float:
    """Seconds of the GPU that a prompt takes."""
    return sum(turn.seconds() for turn in state.prefill)


def _request_s(state: CacheState) -> float:
    """Seconds of the GPU that a request takes: its prompt, and its share of decode steps."""
    return _prompt_s(state) + state.decode.seconds()


def _request(state: CacheState) -> str:
    """Show what a request takes, as a line of a sum."""
    step = state.decode.step.seconds
    return (
        f"{_ms(_prompt_s(state))} + {state.demand.output:,} × {_ms(step, 2)} / "
        f"{state.running:,} = {_ms(_request_s(state))}"
    )


def _worth_question(p: Load) -> str:
    before = p.both.before
    step = before.decode.step
    return (
        f"{p.described} In bf16 the pool holds {before.fits:,} of them; a decode step of "
        f"{before.running:,} takes {_ms(step.seconds)}, {_ms(step.kv_s)} of it for keys and "
        f"values, and a prompt {_ms(_prompt_s(before))}. In fp8 the pool holds "
        f"{p.both.after.fits:,}. How many times as many tokens per second will fp8 give?"
    )


def _worth_misconceptions(p: Load) -> Iterator[Misconception]:
    yield Misconception(
        "as many as fit",
        p.both.fits_ratio,
        "You took the ratio of the sequences that fit. Tokens per second grow as much only when "
        "nothing but the cache takes room and time.",
    )
    yield Misconception(
        "nothing",
        1.0,
        "Something is gained: each sequence that runs has half as much to read.",
    )
    yield Misconception(
        "a quarter of the bytes",
        4.0,
        "Twice the sequences in half the time would be four times. But a full pool takes as long "
        "to read as before.",
    )


def _worth_solution(p: Load) -> tuple[str | Element, ...]:
    before, after = p.both.before, p.both.after
    times = Count("times", digits=2).show(p.both.tokens_per_s_ratio)
    return (
        working(
            (
                _request(before),
                "of the GPU for a request in bf16: prompt, and share of steps",
            ),
            (_request(after), f"in fp8, where {after.running:,} share a step"),
            (
                f"{_ms(_request_s(before))} / {_ms(_request_s(after))} = {times}",
                f"from {before.tokens_per_s:,.0f} to {after.tokens_per_s:,.0f} tokens/s",
            ),
        ),
        (
            f"Prompts took {before.prefill_share:.0%} of the GPU's time and take "
            f"{after.prefill_share:.0%}: fp8 saves nothing of them."
        ),
    )


FP8_WORTH: Final = Drill(
    id="fp8-tokens-per-second",
    kind=Prediction(Count("times", ("x", "×"), 2), tolerance=0.1),
    first=Load(Demand(context=8192, output=1024, requests=200, max_num_seqs=256)),
    draw=_draw_load,
    question=_worth_question,
    answer=lambda p: p.both.tokens_per_s_ratio,
    misconceptions=_worth_misconceptions,
    hints=lambda p: (
        "A request costs its prompt, of which fp8 saves nothing, and its share of decode steps.",
        (
            f"In bf16 its share is {p.demand.output:,} × "
            f"{_ms(p.both.before.decode.step.seconds)} / {p.both.before.running:,}. In fp8 "
            f"{p.both.after.running:,} share a step: how long does that one take?"
        ),
    ),
    solution=_worth_solution,
)
"""Predict what an fp8 cache is worth in tokens per second."""


def _binds_question(p: Load) -> str:
    after = p.both.after
    return (
        f"{p.described} The cache is fp8 now: {after.fits:,} fit, {after.running:,} run, "
        f"{after.waiting:,} wait. Which of these alone would give most tokens per second?"
    )


def _binds_given(p: Load) -> tuple[Element, ...]:
    after = p.both.after
    step = after.decode.step
    rows = (
        ("reads the weights", f"{step.weights_s * 1e3:.1f} ms"),
        ("reads keys and values", f"{step.kv_s * 1e3:.1f} ms"),
        ("computes with the weights meanwhile", f"{step.matmul_s * 1e3:.1f} ms"),
        ("overhead", f"{step.overhead_s * 1e3:.1f} ms"),
        ("prompts, share of all time", f"{after.prefill_share:.0%}"),
    )
    return (Table(("A decode step", "takes"), rows).element(),)


def _why_not(p: Load, limit: Limit) -> str:
    after = p.both.after
    gain = f"{100 * (after.gains[limit] - 1):.0f}%"
    if limit in {Limit.POOL, Limit.MAX_NUM_SEQS, Limit.REQUESTS} and after.gains[limit] == 1:
        return (
            f"That would give nothing: what caps how many run is {after.cap.value}, and another "
            "cap does not move it."
        )
    return f"That would give {gain}. Something else gives more."


def _binds_misconceptions(p: Load) -> Iterator[Misconception]:
    for limit in _ASKED:
        if limit is not p.both.after.binds:
            yield Misconception(f"took {limit.value}", limit.value, _why_not(p, limit))


def _binds_solution(p: Load) -> tuple[str | Element, ...]:
    after = p.both.after
    now = _request_s(after)
    ranked = sorted(_ASKED, key=lambda limit: after.gains[limit], reverse=True)

    def gain(limit: Limit) -> tuple[str, str]:
        factor = after.gains[limit]
        sum_ = f"{_ms(now)} / {_ms(now / factor)} = {factor:.2f}"
        return f"{sum_}, {100 * (factor - 1):+.0f}%", GAIN_WORDS[limit]

    return (
        working(
            (_request(after), "of the GPU for a request now: prompt, and share of steps"),
            *map(gain, ranked),
        ),
        f"What binds is {BIND_WORDS[after.binds]}.",
    )


def _binds_hints(p: Load) -> tuple[str, ...]:
    after = p.both.after
    return (
        "First: what caps how many run? Of the three caps only the lowest can give anything.",
        (
            "With twice as many in a step, weights and overhead are shared by "
            f"{2 * after.running:,} instead of {after.running:,}; keys and values, arithmetic "
            "and prompts cost each request what they did. Halving one part of the step saves half "
            "of that part alone."
        ),
    )


_ASKED: Final = tuple(limit for limit in Limit if limit is not Limit.OVERHEAD)

FP8_BINDS: Final = Drill(
    id="fp8-what-binds-next",
    kind=Choice(
        lambda _: tuple(
            Option(limit.value, GAIN_WORDS[limit].replace("--max-num-seqs", "`--max-num-seqs`"))
            for limit in _ASKED
        )
    ),
    first=Load(Demand(context=2048, output=1536, requests=1600, max_num_seqs=64)),
    draw=_draw_load,
    question=_binds_question,
    given=_binds_given,
    answer=lambda p: p.both.after.binds.value,
    misconceptions=_binds_misconceptions,
    hints=_binds_hints,
    solution=_binds_solution,
)
"""Say what binds once the cache is fp8."""
