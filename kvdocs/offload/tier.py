"""Places beyond the GPU's memory that hold KV, and the routes that lead there."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.catalog import links
from kvdocs.errors import FlagError
from kvdocs.timing import Efficiency

DISK_LATENCY_S: Final = 1e-4
"""Seconds before a disk's first byte: about one NAND page read. An assumption."""


@dataclass(frozen=True, slots=True)
class Route:
    """A way for KV to travel between the GPU and somewhere else, peak figures.

    Attributes:
        id: Short name, such as `pcie5`.
        name: What it is.
        bytes_per_s: Peak bytes per second towards the GPU.
        write_bytes_per_s: Peak bytes per second away from it.
        latency_s: Seconds before the first byte; with an `Efficiency` the larger of the two counts.
        note: What to know about the figures.
    """

    id: str
    name: str
    bytes_per_s: float
    write_bytes_per_s: float
    latency_s: float = 0.0
    note: str = ""


_DISKS: Final = (
    # Samsung PM9A3 U.2 as announced, 2020-05-14 (heise.de/-4720224).
    Route("nvme4", "NVMe disk, PCIe 4.0 x4", 6.5e9, 3.5e9, DISK_LATENCY_S, "one disk, in order"),
    # Serial ATA Revision 3: 6 Gbit/s a lane, 8b/10b coding.
    Route("sata3", "SATA disk, 6 Gbit/s", 600e6, 600e6, DISK_LATENCY_S, "after 8b/10b coding"),
)


@lru_cache(maxsize=1)
def routes() -> tuple[Route, ...]:
    """All routes: the catalogue's links, then disks.

    Examples:
        >>> [route.id for route in routes()][-3:]
        ['ethernet-400', 'nvme4', 'sata3']
    """
    known = (
        Route(link.id, link.name, link.bytes_per_s, link.bytes_per_s, note=link.note)
        for link in links()
    )
    return (*known, *_DISKS)


def get_route(name: str) -> Route:
    """The route of that id.

    Raises:
        FlagError: There is none.

    Examples:
        >>> get_route("pcie5").bytes_per_s
        64000000000.0
    """
    for route in routes():
        if route.id == name.lower():
            return route
    known = ", ".join(route.id for route in routes())
    raise FlagError(
        f"no link or disk is called {name[:40]!r}; there are {known}; or write 25 Gbit/s, 3.1 GB/s"
    )


_OWN: Final = re.compile(r"([0-9][0-9.,_]*)\s*([kmgt]?)(bit|b)(?:it)?(/s|ps)", re.IGNORECASE)
_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def read_route(text: str) -> Route:
    """The route of that id, or one of your own: bits or bytes per second in one direction.

    Networks are sold in bits (Gbit/s, Gb/s, Gbps), memory and disks in bytes (GB/s).

    Args:
        text: An id, or an amount such as `25 Gbit/s` or `3.1 GB/s`.

    Raises:
        FlagError: Neither.

    Examples:
        >>> read_route("25 Gbit/s").bytes_per_s, read_route("25 GB/s").bytes_per_s
        (3125000000.0, 25000000000.0)
        >>> read_route("nvme4").name
        'NVMe disk, PCIe 4.0 x4'
    """
    match = _OWN.fullmatch(text.strip())
    if match is None:
        return get_route(text)
    number, prefix, unit, _ = match.groups()
    bits = unit != "B"
    try:
        amount = float(number.replace(",", "").replace("_", "")) * _PREFIXES[prefix.lower()]
    except ValueError:
        raise FlagError(f"{text[:40]!r} is no bandwidth; write 25 Gbit/s or 3.1 GB/s") from None
    bytes_per_s = amount / 8 if bits else amount
    if not 0 < bytes_per_s < math.inf:
        raise FlagError(f"{text[:40]!r} moves nothing; a bandwidth must be above 0")
    shown = f"{number} {prefix.upper()}{'bit' if bits else 'B'}/s"
    return Route(text.strip(), f"your own link, {shown}", bytes_per_s, bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A place that holds KV, with what is reached of its bandwidth.

    Bytes flow both ways at once, each way one transfer after the other.

    Attributes:
        name: What it is called in reports.
        capacity_bytes: What it holds; infinite is allowed.
        read_bytes_per_s: Bytes per second towards the GPU, by the slowest link on the way.
        write_bytes_per_s: Bytes per second away from it.
        latency_s: Seconds per transfer before the first byte.

    Raises:
        FlagError: A negative capacity or latency, or no bandwidth.

    Examples:
        >>> cpu = Tier.over(get_route("pcie5"), capacity_bytes=100e9, name="cpu")
        >>> cpu.read_bytes_per_s, round(cpu.read_time(4.29e9), 3)
        (38400000000.0, 0.112)
    """

    name: str
    capacity_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no tier."""
        if not self.capacity_bytes >= 0:
            raise FlagError(f"tier {self.name!r} holds {self.capacity_bytes} bytes; 0 or more can")
        if not (self.read_bytes_per_s > 0 and self.write_bytes_per_s > 0):
            raise FlagError(
                f"tier {self.name!r} reads {self.read_bytes_per_s:g} and writes "
                f"{self.write_bytes_per_s:g} bytes per second; both must be above 0"
            )
        if not 0 <= self.latency_s < math.inf:
            raise FlagError(f"tier {self.name!r} has a latency of {self.latency_s} s; 0 or more")

    @classmethod
    def over(
        cls,
        route: Route,
        *,
        capacity_bytes: float,
        name: str = "",
        efficiency: Efficiency | None = None,
    ) -> Tier:
        """A tier at the end of a route.

        Args:
            route: How to get there.
            capacity_bytes: What it holds.
            name: What it is called; the route's id when empty.
            efficiency: What of the route's peak is reached.
        """
        reached = efficiency or Efficiency()
        return cls(
            name=name or route.id,
            capacity_bytes=capacity_bytes,
            read_bytes_per_s=route.bytes_per_s * reached.link,
            write_bytes_per_s=route.write_bytes_per_s * reached.link,
            latency_s=max(route.latency_s, reached.link_latency_s),
        )

    def read_time(self, num_bytes: float) -> float:
        """Seconds to bring bytes to the GPU.

        Args:
            num_bytes: Bytes, 0 or more.
        """
        return self.latency_s + num_bytes / self.read_bytes_per_s

    def write_time(self, num_bytes: float) -> float:
        """Seconds to take bytes away from the GPU.

        Args:
            num_bytes: Bytes, 0 or more.
        """
        return self.latency_s + num_bytes / self.write_bytes_per_s
