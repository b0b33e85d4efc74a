"""How soon blocks are used again, and how many a span of time touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvdocs.errors import WorkloadError
from kvdocs.trace_study.spread import Spread, weighted_spread
from kvdocs.trace_study.study import TraceStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """How soon blocks are used again.

    Attributes:
        num_blocks: Different blocks.
        used_once: Those of them that no later request uses.
        distance_tokens: Stack distances of the blocks that can be hit, in tokens: the room a cache
            needs to still have the block.
        seconds: Time since the block was used last, of the same blocks.
    """

    num_blocks: int
    used_once: int
    distance_tokens: Spread
    seconds: Spread


def reuse(study: TraceStudy) -> Reuse:
    """How soon the blocks of a workload are used again.

    Args:
        study: The study.

    Raises:
        WorkloadError: Nothing is known about what prompts share, or nothing is used again.

    Examples:
        >>> from kvdocs.trace_study import study_trace
        >>> from kvdocs.workload import Part, Parts, WorkloadRequest
        >>> ask = lambda who, when: WorkloadRequest(id=who, arrival_s=when, output_tokens=1,
        ...     prompt=Parts((Part("system", 64), Part(who, 36))))
        >>> found = reuse(study_trace([ask("ann", 0.0), ask("bob", 4.0)]))
        >>> found.num_blocks, found.used_once, found.seconds.p50, found.distance_tokens.largest
        (8, 4, 4.0, 64)
    """
    study.check_shares()
    hits = [
        (request, run) for request in range(study.num_requests) for run in study.hits_of(request)
    ]
    if not hits:
        raise WorkloadError("no block of this workload is used twice")
    arrivals, size = study.arrival_s, study.block_size
    return Reuse(
        num_blocks=study.num_blocks,
        used_once=_used_once(study),
        distance_tokens=weighted_spread(
            ((run.above + place) * size, 1)
            for _, run in hits
            for place in range(1, run.num_blocks + 1)
        ),
        seconds=weighted_spread(
            (arrivals[request] - arrivals[run.owner], run.num_blocks) for request, run in hits
        ),
    )


def _used_once(study: TraceStudy) -> int:
    """Blocks that one request used and no other.

    Both what was new to a request and what no later one used are the end of its path.
    """
    return sum(map(min, study.new_blocks, study.last_used))


def working_set(study: TraceStudy, seconds: float) -> float:
    """Blocks used within the last so many seconds, on average over the trace.

    A block is in the working set at a moment when it was used no longer ago than that, so each use
    keeps it there until the next, but no longer than the window (P. J. Denning, *The working set
    model for program behavior*, Communications of the ACM 11(5), 1968).

    Args:
        study: The study.
        seconds: Length of the window, above 0.

    Raises:
        WorkloadError: A window without length, or a trace all of whose requests come at once.

    Examples:
        >>> from kvdocs.trace_study import study_trace
        >>> from kvdocs.workload import Unshared, WorkloadRequest
        >>> one = lambda when: WorkloadRequest(
        ...     id=f"{when}", prompt=Unshared(160), output_tokens=1, arrival_s=when)
        >>> study = study_trace([one(0.0), one(10.0), one(20.0)])
        >>> working_set(study, 5.0), working_set(study, 20.0)
        (5.0, 15.0)
    """
    if not seconds > 0:
        raise WorkloadError(f"a window of {seconds} s is not possible; use one above 0")
    if not study.duration_s:
        raise WorkloadError("all requests come at the same time: there is no average over time")
    stays = sum(count * min(gap, seconds) for gap, count in _gaps(study))
    return stays / study.duration_s


def _gaps(study: TraceStudy) -> Iterator[tuple[float, int]]:
    """Seconds from each use of a block to the next, or to the trace's end, with their number."""
    arrivals, end = study.arrival_s, max(study.arrival_s)
    for request, arrival in enumerate(arrivals):
        yield end - arrival, study.last_used[request]
        for run in study.runs_of(request):
            yield max(arrival - arrivals[run.owner], 0.0), run.num_blocks
