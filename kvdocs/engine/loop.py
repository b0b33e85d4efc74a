"""From a list of requests to what became of each: the loop around an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kvdocs.blocks import blocks_for
from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.events import Gauges
from kvdocs.engine.kv_cache import max_gate_blocks
from kvdocs.engine.request import Request, RequestSpec, Status, last_token_count
from kvdocs.errors import LivelockError, NeverFitsError

MOST_PREEMPTIONS_IN_VAIN: Final = 20_000
"""Preemptions without a token generated in between after which a run counts as livelocked."""


class Engine(Protocol):
    """What the loop asks of an engine, stepping or jumping."""

    config: EngineConfig
    clock: float

    @property
    def requests(self) -> Mapping[str, Request]:
        """Every request ever added, by id."""

    @property
    def has_unfinished(self) -> bool:
        """Whether any request is running or waiting."""

    def add(self, spec: RequestSpec) -> None:
        """Hand a request to the engine.

        Args:
            spec: What the user asks for.
        """

    def abort(self, request_id: str) -> bool:
        """Give up on a request.

        Args:
            request_id: Its id.
        """

    def advance(self, until: float) -> None:
        """Take one turn or several, none of which starts at or after `until`.

        Args:
            until: Seconds on the engine's clock.
        """

    def gauges(self) -> Gauges:
        """What the engine shows now."""


class RequestResult(NamedTuple):
    """What became of one request. Times are seconds on the engine's clock.

    Attributes:
        id: Which request.
        arrival: When it arrived.
        admitted_at: When it first got to run; None if it never did.
        first_token_at: When its first token came out; None if none did.
        finished_at: When it finished or was aborted.
        status: How it ended.
        num_prompt_tokens: Length of its prompt.
        num_output_tokens: Tokens it generated.
        hit_tokens: Prompt tokens found in the prefix cache at its first admission.
        num_preemptions: How often it lost its blocks.
        num_lost_tokens: Tokens it had computed at those moments.
    """

    id: str
    arrival: float
    admitted_at: float | None
    first_token_at: float | None
    finished_at: float | None
    status: Status
    num_prompt_tokens: int
    num_output_tokens: int
    hit_tokens: int
    num_preemptions: int
    num_lost_tokens: int


def check_fits(spec: RequestSpec, config: EngineConfig) -> None:
    """Refuse a request that no waiting would ever let run to its end.

    vLLM itself would let it block the queue for ever (its start-up check is meant to prevent that).

    Args:
        spec: The request.
        config: The engine's settings.

    Raises:
        NeverFitsError: With what it needs and what there is.

    Examples:
        >>> from kvdocs.engine.prompt import DistinctPrompt
        >>> config = EngineConfig(num_blocks=5, max_model_len=200)
        >>> spec = RequestSpec(id="a", prompt=DistinctPrompt(90), max_tokens=9)
        >>> try:
        ...     check_fits(spec, config)
        ... except NeverFitsError as error:
        ...     print(error.needed, error.available)
        7 4
    """
    prompt, last = spec.prompt.num_tokens, last_token_count(spec, config)
    if prompt < 1 or spec.max_tokens < 1:
        raise NeverFitsError(
            f"request {spec.id!r} has {prompt} prompt tokens and max_tokens {spec.max_tokens}; "
            "both must be at least 1",
            request_id=spec.id,
            needed=1,
            available=min(prompt, spec.max_tokens),
        )
    if prompt >= config.max_model_len:
        raise NeverFitsError(
            f"request {spec.id!r} has a prompt of {prompt} tokens; with max_model_len "
            f"{config.max_model_len} it may have at most {config.max_model_len - 1}",
            request_id=spec.id,
            needed=prompt,
            available=config.max_model_len - 1,
        )
    if not config.enable_chunked_prefill and last - 1 > config.max_num_batched_tokens:
        raise NeverFitsError(
            f"request {spec.id!r} may have to compute {last - 1} tokens in one step, as chunked "
            f"prefill is off, but max_num_batched_tokens is {config.max_num_batched_tokens}",
            request_id=spec.id,
            needed=last - 1,
            available=config.max_num_batched_tokens,
        )
    needed = min(blocks_for(last - 1, config.block_size), max_gate_blocks(config))
    if needed > config.usable_blocks:
        raise NeverFitsError(
            f"request {spec.id!r} needs {needed} KV cache blocks of {config.block_size} tokens "
            f"({prompt} tokens of prompt and {last - prompt} of output, the last one not stored), "
            f"but the pool has only {config.usable_blocks}: lower its prompt or max_tokens, or "
            "raise num_blocks",
            request_id=spec.id,
            needed=needed,
            available=config.usable_blocks,
        )


def run(
    engine: Engine,
    specs: Iterable[RequestSpec],
    *,
    observe: Callable[[Gauges], None] | None = None,
) -> list[RequestResult]:
    """Let requests arrive at an engine and run it until all have ended.

    A request joins (or is aborted) before the first turn that starts at or after its time; when
    the engine has nothing to do, the clock moves on to the next arrival.

    Args:
        engine: A fresh engine.
        specs: The requests, in any order; of two that arrive at once the first goes first. An
            abort before the arrival is without effect.
        observe: Called with the gauges after every turn (of the jumping engine: after every jump).

    Returns:
        One result per request, in the order given.

    Raises:
        NeverFitsError: Before anything runs, for the first request that can never run.
        LivelockError: Requests take each other's blocks for ever.

    Examples:
        >>> from kvdocs.engine.prompt import DistinctPrompt
        >>> from kvdocs.engine.stepping import SteppingEngine
        >>> specs = [RequestSpec(id="a", prompt=DistinctPrompt(20), max_tokens=3, arrival=7.0)]
        >>> result = run(SteppingEngine(EngineConfig()), specs)[0]
        >>> result.admitted_at, result.first_token_at, result.finished_at
        (7.0, 8.0, 10.0)
    """
    specs = list(specs)
    for spec in specs:
        check_fits(spec, engine.config)
    arrivals = sorted(specs, key=lambda spec: spec.arrival)
    aborts = _aborts(specs)
    num_added = num_aborted = 0
    watch = _LivelockWatch(engine)
    while True:
        if not engine.has_unfinished:
            if num_added == len(arrivals):
                break
            engine.clock = max(engine.clock, arrivals[num_added].arrival)
        until = math.inf
        while num_added < len(arrivals):
            if arrivals[num_added].arrival > engine.clock:
                until = arrivals[num_added].arrival
                break
            engine.add(arrivals[num_added])
            num_added += 1
        while num_aborted < len(aborts):
            if aborts[num_aborted][0] > engine.clock:
                until = min(until, aborts[num_aborted][0])
                break
            engine.abort(aborts[num_aborted][2])
            num_aborted += 1
        if engine.has_unfinished:
            engine.advance(until)
            watch.check()
            if observe is not None:
                observe(engine.gauges())
    return [_result(engine.requests[spec.id]) for spec in specs]


class _LivelockWatch:
    """Notices when preemptions go on and nothing comes of them.

    First come, first served never preempts the first; a total order of priority and arrival never
    the most urgent. Only a tie in both lets two requests take turns as the victim. In vLLM the
    samples of one request with n > 1 are so tied: `vllm/v1/engine/async_llm.py` add_request
    copies the request, arrival time and all.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._may_tie = engine.config.policy is Policy.PRIORITY
        self._tokens = self._preemptions = 0

    def check(self) -> None:
        """Raise if the last token is too many preemptions ago."""
        if not self._may_tie:
            return
        counters = self._engine.gauges().counters
        if counters.generation_tokens > self._tokens:
            self._tokens, self._preemptions = counters.generation_tokens, counters.preemptions
        in_vain = counters.preemptions - self._preemptions
        if in_vain > MOST_PREEMPTIONS_IN_VAIN:
            raise LivelockError(
                f"{in_vain} preemptions in a row without one token generated: requests of equal "
                "priority and arrival take each other's blocks for ever. Let them arrive one after "
                "another, give them different priorities, or raise num_blocks"
            )


def _aborts(specs: Sequence[RequestSpec]) -> list[tuple[float, int, str]]:
    return sorted(
        (spec.abort_at, index, spec.id)
        for index, spec in enumerate(specs)
        if spec.abort_at is not None and spec.abort_at >= spec.arrival
    )


def _result(request: Request) -> RequestResult:
    return RequestResult(
        id=request.id,
        arrival=request.arrival,
        admitted_at=request.admitted_at,
        first_token_at=request.first_token_at,
        finished_at=request.finished_at,
        status=request.status,
        num_prompt_tokens=request.num_prompt_tokens,
        num_output_tokens=request.num_output_tokens,
        hit_tokens=request.hit_tokens,
        num_preemptions=request.num_preemptions,
        num_lost_tokens=request.num_lost_tokens,
    )
