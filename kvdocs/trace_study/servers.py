"""Whole servers with pools of several sizes: what the one pass leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kvdocs.errors import WorkloadError
from kvdocs.server import Latency, Server
from kvdocs.workload import WorkloadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """What a server with a pool of one size did with the workload.

    Attributes:
        num_blocks: Blocks that requests can hold.
        finished: Requests that got all their tokens.
        refused: Requests that would never fit.
        hit_ratio: Share of the prompt tokens of the others that was found at admission.
        preemptions: Running requests that lost their blocks.
        ttft: Time to first token, waiting included; None when nothing came that far.
    """

    num_blocks: int
    finished: int
    refused: int
    hit_ratio: float
    preemptions: int
    ttft: Latency | None


def simulate_pools(
    requests: Sequence[WorkloadRequest], server: Server, sizes: Iterable[int]
) -> Iterator[ServerResult]:
    """Run a workload on the same server with pools of several sizes.

    Unlike the one pass, requests run at the same time: they hold blocks while they run, wait for
    each other, and one that comes before another has computed their common prefix computes it too.

    Args:
        requests: The requests.
        server: The server; its block size must go with the workload's.
        sizes: Blocks that requests can hold, each at least 1.

    Yields:
        One result a size, in the order given.

    Raises:
        WorkloadError: A size below 1, or a block size that cuts across the trace's blocks.
        LivelockError: Requests that take each other's blocks for ever.

    Examples:
        >>> from kvdocs.engine import ConstantTimer, EngineConfig
        >>> from kvdocs.workload import Part, Parts
        >>> ask = lambda who, when: WorkloadRequest(id=who, arrival_s=when, output_tokens=9,
        ...     prompt=Parts((Part("system", 64), Part(who, 36))))
        >>> server = Server(config=EngineConfig(), timer=ConstantTimer(0.25))
        >>> (result,) = simulate_pools([ask("ann", 0.0), ask("bob", 9.0)], server, [20])
        >>> result.hit_ratio
        0.32
    """
    for num_blocks in sizes:
        if num_blocks < 1:
            raise WorkloadError(f"a pool of {num_blocks} blocks is not possible; use 1 or more")
        config = replace(server.config, num_blocks=num_blocks + 1)  # one is the null block
        run = replace(server, config=config).simulate(requests, interval_s=None)
        refused = {record.id for record in run.refused}
        asked = sum(one.num_prompt_tokens for one in requests if one.id not in refused)
        yield ServerResult(
            num_blocks=num_blocks,
            finished=len(run.finished),
            refused=len(refused),
            hit_ratio=run.hit_tokens / asked if asked else 0.0,
            preemptions=run.num_preemptions,
            ttft=run.latency("ttft"),
        )
