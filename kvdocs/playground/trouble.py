"""The moment of a run by which it is diagnosed: the longest queue, else the fullest pool."""

from __future__ import annotations

from typing import Final

from kvdocs.diagnose import Diagnosis, Evidence, judge
from kvdocs.diagnose.from_simulation import evidence_of_simulation
from kvdocs.server import Simulation

_WORSE: Final = 1.05
"""Evidence counts all requests that have ended, so it is taken only where trouble has grown."""


class Trouble:
    """Watches a server under load, and keeps the evidence of its worst moment.

    Examples:
        >>> from kvdocs.server import lesson_server
        >>> from kvdocs.workload import Unshared, WorkloadRequest
        >>> simulation = lesson_server().open(
        ...     [WorkloadRequest(id="a", prompt=Unshared(100), output_tokens=50)])
        >>> trouble = Trouble()
        >>> simulation.run_until(0.1)
        >>> trouble.watch(simulation)
        >>> trouble.diagnosis.verdict.value
        'healthy'
    """

    def __init__(self) -> None:
        self._evidence: Evidence | None = None
        self._waiting = 0
        self._usage = 0.0

    def watch(self, simulation: Simulation) -> None:
        """Look at the server now.

        Args:
            simulation: The server.
        """
        scheduler = simulation.engine.scheduler
        waiting, usage = len(scheduler.waiting), scheduler.cache.usage
        is_fuller = not waiting and not self._waiting and usage > _WORSE * self._usage
        if self._evidence is None or waiting > _WORSE * self._waiting or is_fuller:
            self._evidence = evidence_of_simulation(simulation)
            self._waiting, self._usage = waiting, usage

    @property
    def diagnosis(self) -> Diagnosis:
        """What is wrong at that moment, or that nothing is."""
        return judge(self._evidence or Evidence())
