"""Prefill and decode on separate workers, with KV sent between them.

transfer     sending KV, whole or layer by layer
deployment   the same workload on split and on mixed workers
served       what became of each request; latencies, throughput, goodput
"""

from kvdocs.disaggregation.deployment import (
    Worker,
    simulate_mixed,
    simulate_split,
    simulate_splits,
)
from kvdocs.disaggregation.lesson import lesson_worker
from kvdocs.disaggregation.served import DeploymentRun, PromptStep, Served
from kvdocs.disaggregation.transfer import Sending, Wire

__all__ = [
    "DeploymentRun",
    "PromptStep",
    "Sending",
    "Served",
    "Wire",
    "Worker",
    "lesson_worker",
    "simulate_mixed",
    "simulate_split",
    "simulate_splits",
]
