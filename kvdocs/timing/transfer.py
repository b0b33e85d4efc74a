"""Moving bytes over a link."""

from __future__ import annotations

from typing import Protocol

from kvdocs.errors import FlagError
from kvdocs.timing.efficiency import Efficiency


class HasBandwidth(Protocol):
    """Anything with a peak bandwidth: a link of the catalogue, or one of your own."""

    @property
    def bytes_per_s(self) -> float:
        """Peak bytes per second in one direction."""


def transfer_time(
    num_bytes: float, link: HasBandwidth, *, efficiency: Efficiency | None = None
) -> float:
    """Seconds to move bytes over a link in one direction.

    Args:
        num_bytes: Bytes, 0 or more.
        link: The link.
        efficiency: What the link reaches of its peak, and its latency.

    Raises:
        FlagError: Negative bytes, or a link without bandwidth.

    Examples:
        >>> from types import SimpleNamespace
        >>> pcie5 = SimpleNamespace(bytes_per_s=64e9)
        >>> round(transfer_time(4.29e9, pcie5), 3)
        0.112
    """
    reached = efficiency or Efficiency()
    if num_bytes < 0:
        raise FlagError(f"cannot move {num_bytes} bytes; 0 or more are allowed")
    if not link.bytes_per_s > 0:
        raise FlagError(f"a link of {link.bytes_per_s} bytes per second moves nothing")
    return reached.link_latency_s + num_bytes / (link.bytes_per_s * reached.link)
