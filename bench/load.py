"""The server and the load that are measured; runs unchanged in CPython and in Pyodide."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable

from kvdocs.catalog import get_gpu, get_model
from kvdocs.flags import ServerFlags
from kvdocs.server import EngineKind, Server, start_server
from kvdocs.timing import Weights
from kvdocs.workload import Fixed, WorkloadRequest, independent, poisson

RATES = {"all at once": 0.0, "40 a second": 40.0}
"""Requests per second; 0 for all at once."""
MEMORY = 53.44e9
"""Bytes for the cache: Llama 3.1 8B on one H100 as the lesson reckons."""


def server(*, block_size: int = 16, max_model_len: int = 8192) -> Server:
    """Llama 3.1 8B on an H100, prefix cache on."""
    entry = get_model("llama-3.1-8b")
    weights = Weights.from_config(entry.config, num_parameters=entry.num_parameters)
    flags = ServerFlags(max_model_len=max_model_len, block_size=block_size)
    return start_server(entry.model, get_gpu("h100"), flags, available=MEMORY, weights=weights)


def requests(count: int, rate: float) -> list[WorkloadRequest]:
    """Prompts of 512 tokens, outputs of 128."""
    rng = random.Random(0)  # noqa: S311 - the same load each time
    arrivals: Iterable[float] = poisson(rng, rate=rate) if rate else [0.0] * count
    return independent(
        rng, arrivals=arrivals, num_requests=count, prompts=Fixed(512), outputs=Fixed(128)
    )


def seconds(
    on: Server,
    load: list[WorkloadRequest],
    engine: EngineKind = EngineKind.JUMPING,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """Time of one run, by default of the processor: the machine may be busy with other things."""
    gc.collect()
    start = clock()
    on.simulate(load, engine=engine)
    return clock() - start


def requests_per_second(
    clock: Callable[[], float], count: int = 1000, repeats: int = 5
) -> dict[str, float]:
    """The jumping engine's best of some runs."""
    on = server()
    return {
        name: count / min(seconds(on, requests(count, rate), clock=clock) for _ in range(repeats))
        for name, rate in RATES.items()
    }
