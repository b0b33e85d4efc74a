"""What a cache saves: time to first token on an idle GPU, for caches of several sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from kvdocs.timing import Efficiency, HasBandwidth, transfer_time
from kvdocs.trace_study.spread import Spread, spread
from kvdocs.trace_study.study import TraceStudy


class PrefillTimer(Protocol):
    """Whatever times a prompt; `kvdocs.timing.RooflineTimer` does."""

    def prefill_time(
        self, tokens: int, *, cached: int = 0, max_num_batched_tokens: int | None = None
    ) -> float:
        """Seconds to compute a prompt some of whose tokens are cached."""


@dataclass(frozen=True, slots=True)
class LinkedTier:
    """A place for keys and values that is not the GPU's own memory, behind a link.

    Attributes:
        link: What keys and values come back over.
        bytes_per_token: Bytes of keys and values of one token (`kvdocs.model.kv_cost`).
        efficiency: What the link reaches of its peak, and its latency.
    """

    link: HasBandwidth
    bytes_per_token: float
    efficiency: Efficiency | None = None

    def seconds(self, tokens: int) -> float:
        """Time to bring back the keys and values of so many tokens.

        Args:
            tokens: Tokens; none take no time.
        """
        if not tokens:
            return 0.0
        return transfer_time(tokens * self.bytes_per_token, self.link, efficiency=self.efficiency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a cache of one size saves.

    Attributes:
        num_blocks: Blocks in the cache.
        hit_ratio: Share of all prompt tokens found.
        ttft_s: Seconds to the first token, over all requests.
        saved_s: Mean of the seconds saved by the cache, over all requests.
    """

    num_blocks: int
    hit_ratio: float
    ttft_s: Spread
    saved_s: float


DEFAULT_CHUNK: Final = 8192
"""Prompt tokens in a step at most (vLLM 0.33.0's default for a server on a large GPU)."""


def savings(
    study: TraceStudy,
    timer: PrefillTimer,
    sizes: Iterable[int],
    *,
    tier: LinkedTier | None = None,
    max_num_batched_tokens: int = DEFAULT_CHUNK,
) -> Iterator[Saving]:
    """Time to first token with caches of several sizes, each request alone on the GPU.

    What is found need not be computed; from a tier it has to be moved first. Nothing waits for
    anything else: on a busy server a second of prefill saved also shortens every queue behind it,
    which only a simulation shows (`kvdocs.trace_study.servers`).

    Args:
        study: The study.
        timer: Times the prompts.
        sizes: Blocks in each cache.
        tier: Where the cache is; in the GPU's memory, with nothing to move, when not given.
        max_num_batched_tokens: Largest chunk of a prompt in one step.

    Yields:
        One result a size, in the order given.

    Raises:
        WorkloadError: Nothing is known about what prompts share, or a negative size.

    Examples:
        >>> from kvdocs.scenario import lesson_timer
        >>> from kvdocs.trace_study import study_trace
        >>> from kvdocs.workload import Part, Parts, WorkloadRequest
        >>> ask = lambda who: WorkloadRequest(id=who, output_tokens=1,
        ...     prompt=Parts((Part("repository", 6400), Part(who, 100))))
        >>> study = study_trace([ask("ann"), ask("bob")])
        >>> for saving in savings(study, lesson_timer(), [0, 400]):
        ...     print(f"{saving.hit_ratio:.0%}: {saving.ttft_s.mean:.3f} s")
        0%: 0.207 s
        49%: 0.107 s
    """
    lengths = study.prompt_tokens
    seconds = _Seconds(timer, max_num_batched_tokens, tier)
    without = math.fsum(seconds(tokens, 0) for tokens in lengths) / len(lengths)
    for num_blocks in sizes:
        hits = list(study.hit_tokens(num_blocks))
        ttft = spread(map(seconds, lengths, hits))
        yield Saving(
            num_blocks=num_blocks,
            hit_ratio=sum(hits) / sum(lengths),
            ttft_s=ttft,
            saved_s=without - ttft.mean,
        )


def ttft_without_cache(
    study: TraceStudy, timer: PrefillTimer, *, max_num_batched_tokens: int = DEFAULT_CHUNK
) -> Spread:
    """Time to first token when every prompt is computed whole, alone on the GPU.

    It is the most that any cache could save, and all that can be told of a trace without hashes.

    Args:
        study: The study.
        timer: Times the prompts.
        max_num_batched_tokens: Largest chunk of a prompt in one step.
    """
    seconds = _Seconds(timer, max_num_batched_tokens, None)
    return spread(seconds(tokens, 0) for tokens in study.prompt_tokens)


class _Seconds:
    """Seconds to the first token; each pair of lengths is worked out once."""

    def __init__(self, timer: PrefillTimer, chunk: int, tier: LinkedTier | None) -> None:
        self._timer, self._chunk, self._tier = timer, chunk, tier
        self._known: dict[tuple[int, int], float] = {}

    def __call__(self, tokens: int, hit: int) -> float:
        found = self._known.get((tokens, hit))
        if found is None:
            found = self._known[tokens, hit] = self._work_out(tokens, min(hit, tokens - 1))
        return found

    def _work_out(self, tokens: int, cached: int) -> float:
        """The last token is always computed."""
        computed = self._timer.prefill_time(
            tokens, cached=cached, max_num_batched_tokens=self._chunk
        )
        return computed + (self._tier.seconds(cached) if self._tier else 0.0)
