"""One cache of one size, simulated request by request: what the one pass is checked against."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from kvdocs.errors import WorkloadError
from kvdocs.trace_study.rules import Rules, reference
from kvdocs.trace_study.stack import Chains
from kvdocs.workload import WorkloadRequest


def simulate_lru(
    requests: Iterable[WorkloadRequest], num_blocks: int, *, block_size: int, rules: Rules
) -> Iterator[int]:
    """Simulate an LRU cache of blocks that answers one request after the other.

    Args:
        requests: The requests in the order in which they come.
        num_blocks: Blocks in the cache.
        block_size: Tokens in a block.
        rules: How the cache keeps prefixes.

    Yields:
        Prompt tokens each request finds: whole blocks from its first on, until one is not there.

    Raises:
        WorkloadError: A negative size, or a block size that cuts across the trace's blocks.

    Examples:
        >>> from kvdocs.trace_study.rules import VLLM
        >>> from kvdocs.workload import Part, Parts
        >>> ask = lambda who: WorkloadRequest(
        ...     id=who, prompt=Parts((Part("system", 64), Part(who, 8))), output_tokens=1)
        >>> list(simulate_lru([ask("ann"), ask("bob")], 3, block_size=16, rules=VLLM))
        [0, 48]
    """
    if num_blocks < 0:
        raise WorkloadError(f"a cache of {num_blocks} blocks is not possible; use 0 or more")
    chains, lru = Chains(), OrderedDict[object, None]()
    for count, request in enumerate(requests):
        keys, lookups, private = reference(request, block_size, rules)
        blocks = chains.numbers(keys)
        hits = 0
        while hits < lookups and blocks[hits] in lru:
            hits += 1
        yield min(hits * block_size, request.num_prompt_tokens)
        used = [*blocks, *((count, place) for place in range(private))]
        for block in reversed(used):  # the first block ends up as the most recently used
            lru[block] = None
            lru.move_to_end(block)
        while len(lru) > num_blocks:
            lru.popitem(last=False)
