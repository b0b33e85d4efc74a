"""KV beyond the GPU's memory: tiers, what moves when, and whether moving beats recomputing.

    tier                    places and routes       store, scheduler, engine   a server with tiers
    crossing                move or recompute       run                        what came of it
    eviction                LRU and the best bound  config                     the settings

Not modelled: layerwise loading, NUMA and pinned-memory effects, failed transfers, copies within
host memory, a full disk's slower writes. A chunk on its way into a tier counts as missing there.
"""

from kvdocs.offload.config import Loading, Offload
from kvdocs.offload.crossing import Comparison, MoveOrRecompute, Stretch
from kvdocs.offload.engine import OffloadEngine
from kvdocs.offload.eviction import lru_hits, optimal_hits
from kvdocs.offload.run import OffloadRun, TierTraffic, simulate_offload
from kvdocs.offload.store import Load
from kvdocs.offload.tier import Route, Tier, get_route, read_route, routes

__all__ = [
    "Comparison",
    "Load",
    "Loading",
    "MoveOrRecompute",
    "Offload",
    "OffloadEngine",
    "OffloadRun",
    "Route",
    "Stretch",
    "Tier",
    "TierTraffic",
    "get_route",
    "lru_hits",
    "optimal_hits",
    "read_route",
    "routes",
    "simulate_offload",
]
