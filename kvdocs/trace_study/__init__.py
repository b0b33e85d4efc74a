"""What a cache of any size would find of a workload, in one pass.

Examples:
    >>> import random
    >>> from kvdocs.workload import Fixed, poisson, shared_prefixes
    >>> rng = random.Random(1)
    >>> load = shared_prefixes(rng, arrivals=poisson(rng, rate=4), num_requests=200,
    ...     num_repositories=4, system_tokens=1024, repository=Fixed(8192), question=Fixed(256),
    ...     outputs=Fixed(128))
    >>> study = study_trace(load)
    >>> curve = study.curve()
    >>> [f"{curve.hit_ratio_at(tokens):.0%}" for tokens in (10_000, 40_000, 160_000)]
    ['38%', '96%', '96%']
    >>> sum(study.hit_tokens(2500)) == curve.hit_tokens(2500)
    True
"""

from kvdocs.trace_study.curve import HitCurve
from kvdocs.trace_study.plain import simulate_lru
from kvdocs.trace_study.rules import STORE, VLLM, Rules
from kvdocs.trace_study.study import TraceStudy, study_in_slices, study_trace

__all__ = [
    "STORE",
    "VLLM",
    "HitCurve",
    "Rules",
    "TraceStudy",
    "simulate_lru",
    "study_in_slices",
    "study_trace",
]
