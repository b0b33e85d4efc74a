"""A workload in one pass: what it asks for, and where in the LRU stack it found it."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field

from kvdocs.errors import WorkloadError
from kvdocs.trace_study.curve import HitCurve
from kvdocs.trace_study.rules import VLLM, Reference, Rules, block_size_of, reference
from kvdocs.trace_study.stack import PrefixStack, Run
from kvdocs.workload import Unshared, WorkloadRequest

NOTHING_SHARED = (
    "nothing is known about what these prompts have in common, so no hit ratio can be told: an "
    "Azure trace has lengths and times only; use one with block hashes, such as Mooncake's"
)
"""What is said where a hit ratio is asked for and cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStudy:
    """What one pass over a workload found. `study_trace` makes it.

    A few numbers a request and four a run are kept, no request and no key.

    Attributes:
        block_size: Tokens in a block.
        rules: How the cache keeps prefixes.
        arrival_s: When each request came, in seconds.
        prompt_tokens: Length of each prompt.
        output_tokens: Length of each output.
        lookups: Blocks of each prompt that could be hit at all.
        shares: Whether anything is known about what prompts share.
        run_ends: For each request, where its runs end in `runs`.
        runs: Blocks used again, as `kvdocs.trace_study.stack.Run`, flat: owner, above, num_blocks.
        new_blocks: For each request, blocks that none before it used.
        last_used: For each request, blocks it used that no later one did.
    """

    block_size: int
    rules: Rules
    shares: bool
    arrival_s: array[float] = field(repr=False)
    prompt_tokens: array[int] = field(repr=False)
    output_tokens: array[int] = field(repr=False)
    lookups: array[int] = field(repr=False)
    run_ends: array[int] = field(repr=False)
    runs: array[int] = field(repr=False)
    new_blocks: array[int] = field(repr=False)
    last_used: array[int] = field(repr=False)

    @property
    def num_requests(self) -> int:
        """Requests."""
        return len(self.prompt_tokens)

    @property
    def num_blocks(self) -> int:
        """Different blocks: a cache of so many never evicts."""
        return sum(self.new_blocks)

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return max(self.arrival_s) - min(self.arrival_s)

    def runs_of(self, request: int) -> Iterator[Run]:
        """Blocks that a request used again, from its first.

        Args:
            request: Which, from 0.
        """
        begin = self.run_ends[request - 1] if request else 0
        for place in range(3 * begin, 3 * self.run_ends[request], 3):
            yield Run(*self.runs[place : place + 3])

    def hits_of(self, request: int) -> Iterator[Run]:
        """Blocks that a request could hit, from its first; the others it used again were computed.

        Args:
            request: Which, from 0.
        """
        left = self.lookups[request]
        for run in self.runs_of(request):
            if left <= 0:
                return
            yield Run(run.owner, run.above, min(run.num_blocks, left))
            left -= run.num_blocks

    def hit_tokens(self, num_blocks: int) -> Iterator[int]:
        """Prompt tokens each request finds in a cache of some size, in order.

        Args:
            num_blocks: Blocks in the cache.

        Raises:
            WorkloadError: Nothing is known about what prompts share.
        """
        self.check_shares()
        for request, tokens in enumerate(self.prompt_tokens):
            blocks = sum(
                min(run.num_blocks, max(num_blocks - run.above, 0)) for run in self.hits_of(request)
            )
            yield min(blocks * self.block_size, tokens)

    def curve(self) -> HitCurve:
        """Hit tokens of a cache of every size.

        Raises:
            WorkloadError: Nothing is known about what prompts share.
        """
        self.check_shares()
        gains = array("q", bytes(8 * (self.num_blocks + 1)))
        for request, tokens in enumerate(self.prompt_tokens):
            done = 0
            for run in self.hits_of(request):
                gains[run.above] += self.block_size
                gains[run.above + run.num_blocks] -= self.block_size
                done += run.num_blocks
                missing = done * self.block_size - tokens
                if missing > 0:  # the last block is not full
                    gains[run.above + run.num_blocks - 1] -= missing
                    gains[run.above + run.num_blocks] += missing
        per_block = itertools.accumulate(gains)
        found = itertools.accumulate(itertools.islice(per_block, self.num_blocks), initial=0)
        return HitCurve(self.block_size, sum(self.prompt_tokens), array("q", found))

    def check_shares(self) -> None:
        """Refuse questions that only block keys answer.

        Raises:
            WorkloadError: Nothing is known about what prompts share.
        """
        if not self.shares:
            raise WorkloadError(NOTHING_SHARED)


def study_trace(
    requests: Iterable[WorkloadRequest], *, block_size: int | None = None, rules: Rules = VLLM
) -> TraceStudy:
    """Study a workload in one pass.

    Args:
        requests: The requests in the order in which they come; read one by one.
        block_size: Tokens in a block; that of the trace's keys when not given, else 16.
        rules: How the cache keeps prefixes.

    Raises:
        WorkloadError: No requests, or a block size that cuts across the trace's blocks.

    Examples:
        >>> from kvdocs.workload import read_trace
        >>> study = study_trace(read_trace('''
        ... {"timestamp": 0, "input_length": 1500, "output_length": 9, "hash_ids": [1, 2, 3]}
        ... {"timestamp": 9, "input_length": 1400, "output_length": 9, "hash_ids": [1, 2, 4]}'''))
        >>> curve = study.curve()
        >>> [curve.hit_tokens(num_blocks) for num_blocks in range(3)], curve.prompt_tokens
        ([0, 512, 1024], 2900)
    """
    steps = study_in_slices(requests, block_size=block_size, rules=rules)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            study: TraceStudy = end.value
            return study


def study_in_slices(
    requests: Iterable[WorkloadRequest],
    *,
    block_size: int | None = None,
    rules: Rules = VLLM,
    every: int = 500,
) -> Generator[int, None, TraceStudy]:
    """Study a workload a slice at a time, so that a page can show progress, or stop.

    Args:
        requests: The requests in the order in which they come; read one by one.
        block_size: Tokens in a block; that of the trace's keys when not given, else 16.
        rules: How the cache keeps prefixes.
        every: Requests in a slice.

    Yields:
        Requests studied so far, after each slice.

    Returns:
        The study (`yield from` gives it, or the `StopIteration`'s value).

    Raises:
        WorkloadError: No requests, or a block size that cuts across the trace's blocks.

    Examples:
        >>> from kvdocs.workload import Unshared
        >>> load = [WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1)] * 5
        >>> list(study_in_slices(load, every=2))
        [2, 4]
    """
    notes = _Notes(rules)
    rest = iter(requests)
    head = list(itertools.islice(rest, every))
    if not head:
        raise WorkloadError("the workload has no requests")
    if block_size is None:
        telling = (one for one in head if not isinstance(one.prompt, Unshared))
        block_size = block_size_of(next(telling, head[0]))
    for count, request in enumerate(itertools.chain(head, rest), 1):
        notes.add(request, block_size)
        if count % every == 0:
            yield count
    return notes.study(block_size)


class _Notes:
    """A study being made."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._stack = PrefixStack()
        self._arrivals = array("d")
        self._prompts, self._outputs, self._lookups = array("q"), array("q"), array("q")
        self._run_ends, self._runs = array("q"), array("q")
        self._new_blocks = array("q")
        self._shares = False

    def add(self, request: WorkloadRequest, block_size: int) -> None:
        """Let the next request use its blocks, and note what it found."""
        asked: Reference = reference(request, block_size, self._rules)
        known = self._stack.num_blocks
        runs = self._stack.use(asked.keys, asked.num_private)
        self._new_blocks.append(self._stack.num_blocks - known)
        for run in runs:
            self._runs.extend(run)
        self._run_ends.append(len(self._runs) // 3)
        self._arrivals.append(request.arrival_s)
        self._prompts.append(request.num_prompt_tokens)
        self._outputs.append(request.output_tokens)
        self._lookups.append(asked.num_lookups)
        self._shares |= not isinstance(request.prompt, Unshared)

    def study(self, block_size: int) -> TraceStudy:
        """What was noted."""
        return TraceStudy(
            block_size=block_size,
            rules=self._rules,
            shares=self._shares,
            arrival_s=self._arrivals,
            prompt_tokens=self._prompts,
            output_tokens=self._outputs,
            lookups=self._lookups,
            run_ends=self._run_ends,
            runs=self._runs,
            new_blocks=self._new_blocks,
            last_used=array("q", map(self._stack.last_used_by, range(len(self._prompts)))),
        )
