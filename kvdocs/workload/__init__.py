"""Workloads: made from a seed, or read from a trace file.

The same seed gives the same bytes everywhere: in CPython and in the browser, in any version of
Python. Only `random()` is asked of the generator passed in (the one method whose sequence Python
promises to keep), and logarithms and exponentials are computed here (`kvdocs.workload.numbers`),
as C libraries differ in the last digit.

Examples:
    >>> import random
    >>> rng = random.Random(1)
    >>> requests = shared_prefixes(rng, arrivals=poisson(rng, rate=4), num_requests=3,
    ...     num_repositories=2, system_tokens=1000, repository=Fixed(6000),
    ...     question=Uniform(50, 400), outputs=LogNormal(median=150, p95=900))
    >>> [(request.id, request.num_prompt_tokens) for request in requests]
    [('r0', 7223), ('r1', 7082), ('r2', 7206)]
"""

from kvdocs.workload.arrivals import bursts, fixed_rate, gamma, poisson
from kvdocs.workload.conversations import conversations
from kvdocs.workload.files import write_workload
from kvdocs.workload.lengths import Fixed, Lengths, LogNormal, Uniform
from kvdocs.workload.prompts import closed_loop, independent, shared_prefixes
from kvdocs.workload.request import Blocks, Part, Parts, Unshared, WorkloadRequest
from kvdocs.workload.summary import WorkloadSummary, speed_up, summarize
from kvdocs.workload.traces import read_trace

__all__ = [
    "Blocks",
    "Fixed",
    "Lengths",
    "LogNormal",
    "Part",
    "Parts",
    "Uniform",
    "Unshared",
    "WorkloadRequest",
    "WorkloadSummary",
    "bursts",
    "closed_loop",
    "conversations",
    "fixed_rate",
    "gamma",
    "independent",
    "poisson",
    "read_trace",
    "shared_prefixes",
    "speed_up",
    "summarize",
    "write_workload",
]
