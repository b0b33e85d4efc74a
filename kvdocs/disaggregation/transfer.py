"""Sending a prompt's KV from where it was computed to where it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdocs.errors import FlagError
from kvdocs.offload.tier import Route
from kvdocs.timing import Efficiency


class Sending(StrEnum):
    """When KV leaves.

    WHOLE: all of it when the prompt is through (vLLM 0.33.0 NixlConnector: the decode worker
    pulls once the prefill worker has finished). LAYERWISE: each layer as soon as it is computed,
    while the next ones still are (Splitwise, arXiv 2311.18677, section 4.3; Mooncake, arXiv
    2407.00079, section 5.2).
    """

    WHOLE = "whole"
    LAYERWISE = "layerwise"


@dataclass(frozen=True, slots=True)
class Wire:
    """One transfer's way: what is reached of a link, and how the KV is cut.

    Messages on the wire overlap, so a latency counts once a transfer, however it is cut.

    Attributes:
        bytes_per_s: Bytes per second.
        latency_s: Seconds from sending to arriving, beyond that.
        num_layers: Layers of the model.
        sending: When KV leaves.

    Raises:
        FlagError: No bandwidth, a negative latency, or no layers.
    """

    bytes_per_s: float
    latency_s: float
    num_layers: int
    sending: Sending

    def __post_init__(self) -> None:
        """Refuse what carries nothing."""
        if not self.bytes_per_s > 0 or not self.latency_s >= 0 or self.num_layers < 1:
            raise FlagError(
                f"a wire of {self.bytes_per_s:g} bytes per second, {self.latency_s:g} s of latency "
                f"and {self.num_layers} layers; bandwidth and layers must be above 0"
            )

    @classmethod
    def over(
        cls,
        route: Route,
        *,
        num_layers: int,
        sending: Sending,
        efficiency: Efficiency | None = None,
    ) -> Wire:
        """A wire over a link.

        Args:
            route: The link.
            num_layers: Layers of the model.
            sending: When KV leaves.
            efficiency: What of the link's peak is reached.
        """
        reached = efficiency or Efficiency()
        latency = max(route.latency_s, reached.link_latency_s)
        return cls(route.bytes_per_s * reached.link, latency, num_layers, sending)

    def begin(self, prefill_start_s: float, prefill_end_s: float) -> float:
        """When the first bytes are there to be sent.

        Args:
            prefill_start_s: When computing the prompt began.
            prefill_end_s: When it ended.
        """
        if self.sending is Sending.WHOLE:
            return prefill_end_s
        return prefill_start_s + (prefill_end_s - prefill_start_s) / self.num_layers

    def end(self, num_bytes: float, start_s: float, prefill_end_s: float) -> float:
        """When the last byte has left.

        The last layer cannot leave before it is computed, nor before the wire is done with the
        others.

        Args:
            num_bytes: Bytes of the whole prompt's KV.
            start_s: When the first bytes leave.
            prefill_end_s: When computing the prompt ended.

        Examples:
            >>> wire = Wire(100.0, 0.0, 10, Sending.LAYERWISE)  # 1,000 bytes: 10 s, 1 s a layer
            >>> wire.end(1000, wire.begin(0.0, 20.0), 20.0)  # the last layer only
            21.0
            >>> wire.end(1000, wire.begin(0.0, 5.0), 5.0)  # the wire is the slower
            10.5
        """
        seconds = num_bytes / self.bytes_per_s
        if self.sending is Sending.WHOLE:
            return start_s + seconds
        return max(start_s + seconds, prefill_end_s + seconds / self.num_layers)
