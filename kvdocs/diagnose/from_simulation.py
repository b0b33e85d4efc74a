"""Evidence from a simulated server itself, without text in between."""

from __future__ import annotations

from kvdocs.diagnose.evidence import Evidence
from kvdocs.server import Simulation


def evidence_of_simulation(simulation: Simulation) -> Evidence:
    """Evidence of a simulation as it stands, counted since its start.

    Args:
        simulation: A server under way.

    Examples:
        >>> from kvdocs.engine import ConstantTimer, EngineConfig
        >>> from kvdocs.server import ListedArrivals
        >>> from kvdocs.workload import Unshared, WorkloadRequest
        >>> requests = [WorkloadRequest(id=f"r{n}", prompt=Unshared(20), output_tokens=50)
        ...     for n in range(12)]
        >>> simulation = Simulation(EngineConfig(), ConstantTimer(0.5), ListedArrivals(requests))
        >>> simulation.run_until(4.0)
        >>> found = evidence_of_simulation(simulation)
        >>> found.running, found.waiting, found.max_num_seqs
        (8, 4, 8)
    """
    scheduler, counters, config = (
        simulation.engine.scheduler,
        simulation.counters,
        simulation.config,
    )
    running, finished = len(scheduler.running), len(simulation.records)
    computed = counters.prompt_tokens - counters.prompt_tokens_cached
    lengths = [record.num_prompt_tokens for record in simulation.records]
    return Evidence(
        source="a simulated server",
        moments=1,
        seconds=simulation.now,
        running=running,
        waiting=len(scheduler.waiting),
        kv_cache_usage=scheduler.cache.usage,
        prompt_per_output=_ratio(computed, counters.generation_tokens),
        requests_finished=finished,
        preemptions=counters.preemptions,
        preemptions_per_request=counters.preemptions / max(finished, running, 1),
        prefix_hit_rate=_ratio(counters.prefix_cache_hits, counters.prefix_cache_queries),
        prefix_hits=counters.prefix_cache_hits,
        prompt_tokens=_ratio(sum(lengths), len(lengths)),
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        block_size=config.block_size,
        pool_tokens=config.usable_blocks * config.block_size,
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
