"""The stepping engine with tiers behind its KV cache."""

from __future__ import annotations

import math

from kvdocs.engine import EngineConfig, SteppingEngine, StepTimer
from kvdocs.engine.scheduler import Batch
from kvdocs.errors import FlagError
from kvdocs.offload.config import Offload
from kvdocs.offload.scheduler import OffloadScheduler
from kvdocs.offload.store import TieredStore


class OffloadEngine(SteppingEngine):
    """A serving engine that keeps KV in tiers.

    Args:
        config: The engine's settings.
        timer: The timing model.
        offload: The settings of offloading.

    Raises:
        FlagError: A sliding window: its blocks are not offloaded here.

    Examples:
        >>> from kvdocs.engine import ConstantTimer, RequestSpec, Segment, SegmentPrompt
        >>> from kvdocs.offload.tier import Tier
        >>> cpu = Tier(name="cpu", capacity_bytes=1e6, read_bytes_per_s=1e3, write_bytes_per_s=1e3)
        >>> offload = Offload(tiers=(cpu,), bytes_per_token=1)
        >>> engine = OffloadEngine(EngineConfig(num_blocks=6), ConstantTimer(1.0), offload)
        >>> def ask(name, text, at):
        ...     prompt = SegmentPrompt([Segment(text, 70)])
        ...     engine.clock = at
        ...     engine.add(RequestSpec(id=name, prompt=prompt, max_tokens=1, arrival=at))
        ...     engine.advance(math.inf)
        >>> ask("a", "one", 0.0)
        >>> ask("b", "two", 10.0)  # evicts what `a` had left in the pool
        >>> ask("c", "one", 20.0)
        >>> engine.store.loads[0].num_tokens
        64
    """

    def __init__(self, config: EngineConfig, timer: StepTimer, offload: Offload) -> None:
        if config.sliding_window is not None:
            raise FlagError(
                f"sliding_window is {config.sliding_window}: offloading is simulated for full "
                "attention only"
            )
        self._offload = offload
        self._num_loads = 0
        super().__init__(config, timer)

    def _make_scheduler(self) -> OffloadScheduler:
        self._loader = OffloadScheduler(self.config, self.cache, self._offload)
        return self._loader

    @property
    def store(self) -> TieredStore:
        """The tiers."""
        return self._loader.store

    def advance(self, until: float) -> None:
        """Take one turn; where nothing can be done but wait for KV, wait.

        Args:
            until: Seconds on the engine's clock.
        """
        ready = self._loader.next_ready_s
        if self.clock < ready < math.inf and self._only_loads:
            self.clock = min(ready, until)
        else:
            super().advance(until)

    def _seconds(self, due: Batch) -> float:
        """As always; but a turn that does nothing but start a load takes no time of its own."""
        started = len(self.store.loads) > self._num_loads
        self._num_loads = len(self.store.loads)
        return 0.0 if started and not due.num_tokens else super()._seconds(due)

    @property
    def _only_loads(self) -> bool:
        in_flight = any(batch.num_tokens for batch in self._in_flight)
        return not (in_flight or self._loader.running or self._loader.waiting)
