"""A whole simulated server: requests in, steps, latencies and metrics out.

`start_server` plans the memory and refuses as vLLM would; `Server.simulate` runs a workload to its
end; `Server.open` gives a `Simulation` to run and look at step by step; `LiveServer` lets load and
limits change while time goes forth and back.

    adapt, arrivals         workloads       records, run    what came of them
    start, server, lesson   the server      page, story     metrics page, one request's story
    simulation              the loop        live            for playing
"""

from kvdocs.server.adapt import to_prompt, to_spec
from kvdocs.server.arrivals import ListedArrivals
from kvdocs.server.lesson import lesson_server
from kvdocs.server.live import LIMITS, Change, LiveArrivals, LiveServer, Load
from kvdocs.server.page import snapshot
from kvdocs.server.records import FinishReason, RequestRecord, Sample
from kvdocs.server.run import Latency, ServerRun
from kvdocs.server.server import Server
from kvdocs.server.simulation import EngineKind, Simulation
from kvdocs.server.start import check_limits, start_server

__all__ = [
    "LIMITS",
    "Change",
    "EngineKind",
    "FinishReason",
    "Latency",
    "ListedArrivals",
    "LiveArrivals",
    "LiveServer",
    "Load",
    "RequestRecord",
    "Sample",
    "Server",
    "ServerRun",
    "Simulation",
    "check_limits",
    "lesson_server",
    "snapshot",
    "start_server",
    "to_prompt",
    "to_spec",
]
