"""What a cache of another dtype changes, and what binds next.

A busy server is described by two questions, both answered by computing:

- What caps the sequences that run: the pool, `--max-num-seqs`, or how many requests there are?
- What does the GPU spend its time on: weights, keys and values, arithmetic, or overhead? The
  roofline (`kvdocs.timing`) times a request's prompt, and its share of the decode steps.

What **binds** is asked of the same arithmetic: make each of them twice as good alone (a pool twice
as large, `--max-num-seqs` doubled, twice the requests; half the bytes of weights, or of keys and
values, to read; arithmetic twice as fast; half the overhead), and see which gives most tokens
per second. Nothing is looked up in a table of cases.

Prompts and decode steps are timed apart, though vLLM puts a prompt's chunks into the same steps;
`simulate` runs the same demand through the engine, queue and preemptions included.

Examples:
    >>> demand = Demand(context=8192, output=2048, requests=200, max_num_seqs=64)
    >>> both = before_after(demand)
    >>> both.before.fits, both.before.cap.value, both.after.fits, both.after.cap.value
    (49, 'pool', 99, 'max-num-seqs')
    >>> both.before.binds.value, both.after.binds.value, round(both.tokens_per_s_ratio, 2)
    ('KV reads', 'KV reads', 1.55)
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from kvdocs.engine import StepLoad
from kvdocs.errors import WorkloadError
from kvdocs.flags import ServerFlags
from kvdocs.scenario import LESSON, LessonSize, lesson_timer, size_lesson
from kvdocs.server import lesson_server
from kvdocs.sizing import capacity, default_max_num_batched_tokens
from kvdocs.timing import RooflineTimer, SequenceWork, StepTime
from kvdocs.workload import Fixed, closed_loop

FP8: Final = "fp8"


class Limit(StrEnum):
    """What can keep a server from giving more tokens per second."""

    POOL = "pool"
    MAX_NUM_SEQS = "max-num-seqs"
    REQUESTS = "requests"
    KV = "KV reads"
    WEIGHTS = "weight reads"
    COMPUTE = "compute"
    OVERHEAD = "overhead"


CAPS: Final = (Limit.POOL, Limit.MAX_NUM_SEQS, Limit.REQUESTS)
"""Limits of how many sequences run; the others are parts of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked of a server, and its one flag that limits a step.

    Attributes:
        context: Tokens of each request at its end: prompt and output.
        output: Tokens of the output, fewer than the context.
        requests: Requests that are there at once, running or waiting.
        max_num_seqs: `--max-num-seqs`.

    Examples:
        >>> Demand(context=100, output=100, requests=1, max_num_seqs=1)
        Traceback (most recent call last):
        kvdocs.errors.WorkloadError: 100 output tokens of a context of 100 leave no prompt
    """

    context: int
    output: int
    requests: int
    max_num_seqs: int

    def __post_init__(self) -> None:
        """Refuse demands that are none."""
        for name in ("output", "requests", "max_num_seqs"):
            if getattr(self, name) < 1:
                raise WorkloadError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.prompt < 1:
            raise WorkloadError(
                f"{self.output:,} output tokens of a context of {self.context:,} leave no prompt"
            )

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return self.context - self.output

    @property
    def mean_context(self) -> float:
        """Tokens that a sequence reads in a decode step, on average over its output."""
        return self.prompt + self.output / 2


class Turn(NamedTuple):
    """A step of the engine, and how much of it one request takes.

    Attributes:
        step: The step.
        share: 1 for a chunk of its prompt; for decode steps, outputs over sequences.
    """

    step: StepTime
    share: float

    def seconds(self, *, halved: Limit | None = None) -> float:
        """Seconds that one request takes of the GPU, with one part of the step halved or none.

        Args:
            halved: What is halved; a cap halves nothing.
        """
        step = self.step

        def part(limit: Limit, seconds: float) -> float:
            return seconds / 2 if limit is halved else seconds

        weights = max(part(Limit.WEIGHTS, step.weights_s), part(Limit.COMPUTE, step.matmul_s))
        attention = max(part(Limit.KV, step.kv_s), part(Limit.COMPUTE, step.attention_s))
        overhead = part(Limit.OVERHEAD, step.overhead_s) + step.link_s
        return self.share * (weights + attention + overhead)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """A busy server with one cache dtype.

    Attributes:
        kv_cache_dtype: `--kv-cache-dtype`.
        demand: What is asked of it.
        weights_bytes: Bytes of the weights, which the cache dtype does not change.
        pool_bytes: Bytes of the pool; 0 when nothing is left for one.
        pool_tokens: Tokens that it holds.
        bytes_per_token: KV bytes of a token that every layer keeps whole.
        fits: Sequences of that context that the pool holds; 0 when the server would not start.
        prefill: The steps of one prompt.
        decode: A decode step of all sequences that run; of an empty batch when none does.
        gains: By which factor tokens per second grow when one limit alone is made twice as good.
        refusal: vLLM's words when it would not start; else "".
    """

    kv_cache_dtype: str
    demand: Demand
    weights_bytes: float
    pool_bytes: int
    pool_tokens: int
    bytes_per_token: int
    fits: int
    prefill: tuple[Turn, ...]
    decode: Turn
    gains: Mapping[Limit, float]
    refusal: str = ""

    @property
    def starts(self) -> bool:
        """Whether the server starts with a longest request of that context."""
        return self.fits > 0

    @property
    def running(self) -> int:
        """Sequences in a decode step."""
        return _running(self.fits, self.demand)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self.demand.requests - self.running

    @property
    def cap(self) -> Limit:
        """What caps the sequences that run; of equal caps the first of `CAPS`."""
        limits = (self.fits, self.demand.max_num_seqs, self.demand.requests)
        return CAPS[limits.index(min(limits))]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of all sequences together; 0 when it does not start."""
        seconds = sum(turn.seconds() for turn in (*self.prefill, self.decode))
        return self.demand.output / seconds if self.starts else 0.0

    @property
    def prefill_share(self) -> float:
        """Share of the GPU's time that goes into prompts; 0 when it does not start."""
        prompts = sum(turn.seconds() for turn in self.prefill)
        return prompts / (prompts + self.decode.seconds()) if self.starts else 0.0

    @property
    def binds(self) -> Limit:
        """The limit that gives most when it is made twice as good; the pool when nothing starts."""
        if not self.starts:
            return Limit.POOL
        return max(self.gains, key=lambda limit: self.gains[limit])


def cache_state(
    demand: Demand,
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    kv_cache_dtype: str = "auto",
) -> CacheState:
    """Work out a busy server, in the lesson's round numbers, on one GPU.

    Args:
        demand: What is asked of it.
        model: Catalogue id.
        gpu: Catalogue id.
        kv_cache_dtype: `--kv-cache-dtype`.

    Raises:
        KvdocsError: An unknown model or GPU, or a dtype the model's heads cannot have.

    Examples:
        >>> demand = Demand(context=8192, output=1024, requests=10, max_num_seqs=256)
        >>> state = cache_state(demand)
        >>> state.fits, state.running, state.cap.value, state.decode.step.binds.value
        (49, 10, 'requests', 'weights')
    """
    flags = ServerFlags(kv_cache_dtype=kv_cache_dtype, max_model_len=demand.context)
    size = size_lesson(
        model=model, gpu=gpu, kv_cache_dtype=kv_cache_dtype, max_model_len=demand.context
    )
    timer = lesson_timer(model=model, gpu=gpu, kv_cache_dtype=kv_cache_dtype)
    plan = size.capacity
    fits = plan.max_requests if plan.starts and size.has_pool else 0
    chunk = default_max_num_batched_tokens(size.gpu, flags)
    prefill = tuple(_prefill(timer, demand.prompt, chunk))
    return CacheState(
        kv_cache_dtype=kv_cache_dtype,
        demand=demand,
        weights_bytes=size.budget.weights_bytes,
        pool_bytes=max(size.budget.kv_bytes, 0),
        pool_tokens=size.pool_tokens,
        bytes_per_token=size.cost.bytes_per_token,
        fits=fits,
        prefill=prefill,
        decode=_decode(timer, demand, _running(fits, demand)),
        gains=_gains(size, timer, demand, prefill, fits) if fits else {},
        refusal=plan.refusal or "",
    )


def _running(fits: int, demand: Demand) -> int:
    return min(fits, demand.max_num_seqs, demand.requests)


def _prefill(timer: RooflineTimer, prompt: int, chunk: int) -> Iterator[Turn]:
    """Yield the steps of a prompt that is computed in chunks."""
    for done in range(0, prompt, chunk):
        work = SequenceWork(min(chunk, prompt - done), done)
        yield Turn(timer.step_time([work]), 1.0)


def _decode(timer: RooflineTimer, demand: Demand, running: int) -> Turn:
    """Time a decode step: a token a sequence, each of which reads its whole context."""
    read = round(running * demand.mean_context)
    step = timer.load_time(StepLoad(running, running, read, read))
    return Turn(step, demand.output / running if running else 0.0)


def _gains(
    size: LessonSize, timer: RooflineTimer, demand: Demand, prefill: Sequence[Turn], fits: int
) -> dict[Limit, float]:
    """Try each limit twice as good, alone."""
    running = _running(fits, demand)
    turns = (*prefill, _decode(timer, demand, running))

    def seconds(turns: Iterable[Turn], halved: Limit | None = None) -> float:
        return sum(turn.seconds(halved=halved) for turn in turns)

    flags = ServerFlags(kv_cache_dtype=timer.kv_cache_dtype, max_model_len=demand.context)
    doubled = capacity(timer.model, 2.0 * size.budget.kv_bytes, flags).max_requests
    more = {
        Limit.POOL: _running(doubled, demand),
        Limit.MAX_NUM_SEQS: _running(fits, replace(demand, max_num_seqs=2 * demand.max_num_seqs)),
        Limit.REQUESTS: _running(fits, replace(demand, requests=2 * demand.requests)),
    }
    now = seconds(turns)
    gains = {
        limit: now / seconds((*prefill, _decode(timer, demand, count)))
        for limit, count in more.items()
    }
    for limit in (Limit.KV, Limit.WEIGHTS, Limit.COMPUTE, Limit.OVERHEAD):
        gains[limit] = now / seconds(turns, limit)
    return gains


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The same server with two cache dtypes.

    Attributes:
        before: With the first.
        after: With the second.
    """

    before: CacheState
    after: CacheState

    @property
    def fits_ratio(self) -> float:
        """How many times as many sequences the pool holds.

        Raises:
            ZeroDivisionError: The server did not start before.
        """
        return self.after.fits / self.before.fits

    @property
    def tokens_per_s_ratio(self) -> float:
        """How many times as many tokens per second.

        Raises:
            ZeroDivisionError: The server did not start before.
        """
        return self.after.tokens_per_s / self.before.tokens_per_s


def before_after(
    demand: Demand,
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    before: str = "auto",
    after: str = FP8,
) -> BeforeAfter:
    """Compare a server before and after `--kv-cache-dtype` is changed.

    Args:
        demand: What is asked of it.
        model: Catalogue id.
        gpu: Catalogue id.
        before: `--kv-cache-dtype` before.
        after: The same after.

    Raises:
        KvdocsError: As `cache_state`.

    Examples:
        >>> both = before_after(Demand(context=8192, output=1024, requests=200, max_num_seqs=256))
        >>> round(both.fits_ratio, 2), round(both.tokens_per_s_ratio, 2)
        (2.02, 1.53)
        >>> both.before.binds.value, both.after.binds.value
        ('KV reads', 'compute')
    """
    state = partial(cache_state, demand, model=model, gpu=gpu)
    return BeforeAfter(state(kv_cache_dtype=before), state(kv_cache_dtype=after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a run of the engine gave in its middle half.

    Attributes:
        tokens_per_s: Tokens generated per second.
        running: Sequences that ran, on average.
        waiting: Requests that waited, on average.
        num_preemptions: Preemptions of the whole run.
    """

    tokens_per_s: float
    running: float
    waiting: float
    num_preemptions: int


def simulate(
    demand: Demand,
    *,
    rounds: int = 3,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    kv_cache_dtype: str = "auto",
) -> Simulated:
    """Run the demand through the engine: as many users as requests, each asking anew at once.

    Args:
        demand: What is asked.
        rounds: Requests of each user.
        model: Catalogue id.
        gpu: Catalogue id.
        kv_cache_dtype: `--kv-cache-dtype`.

    Raises:
        StartError: The server would not start.

    Examples:
        >>> run = simulate(Demand(context=2048, output=256, requests=16, max_num_seqs=8))
        >>> round(run.running), round(run.waiting)
        (8, 8)
    """
    flags = ServerFlags(
        gpu_memory_utilization=LESSON.utilization,
        kv_cache_dtype=kv_cache_dtype,
        max_num_seqs=demand.max_num_seqs,
        max_model_len=demand.context,
    )
    requests = closed_loop(
        random.Random(1),  # noqa: S311 - lengths are fixed: nothing is drawn
        num_users=demand.requests,
        requests_per_user=rounds,
        prompts=Fixed(demand.prompt),
        outputs=Fixed(demand.output),
    )
    run = lesson_server(flags, model=model, gpu=gpu).simulate(requests)
    middle = run.samples[len(run.samples) // 4 : max(3 * len(run.samples) // 4, 1)]
    return Simulated(
        tokens_per_s=sum(one.generation_tokens_per_s for one in middle) / len(middle),
        running=sum(one.running for one in middle) / len(middle),
        waiting=sum(one.waiting for one in middle) / len(middle),
        num_preemptions=run.num_preemptions,
    )
