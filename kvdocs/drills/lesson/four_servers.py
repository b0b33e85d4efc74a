"""Step 17: which of four servers needs memory, by two metrics."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Choice, Option
from kvdocs.drills.prose import working
from kvdocs.html import Element

FULL: Final = 0.9
"""KV usage from which a cache is called full, as on the page."""
_NAMES: Final = ("erin", "finn", "gail", "hugo")


class Finding(StrEnum):
    """What usage and queue say together."""

    MEMORY = "full, and requests wait: memory"
    SCHEDULING = "not full, and requests wait: scheduling or compute"
    BUSY = "full, and nobody waits: busy and healthy"
    SPARE = "not full, and nobody waits: room to spare"


@dataclass(frozen=True, slots=True)
class Server:
    """What a server's `/metrics` say.

    Attributes:
        name: Its host name.
        usage: `vllm:kv_cache_usage_perc`, from 0 to 1.
        waiting: `vllm:num_requests_waiting`.
        running: `vllm:num_requests_running`.
    """

    name: str
    usage: float
    waiting: int
    running: int

    @property
    def finding(self) -> Finding:
        """What it says.

        Examples:
            >>> Server("erin", 0.98, 12, 40).finding.name
            'MEMORY'
        """
        if self.waiting:
            return Finding.MEMORY if self.usage >= FULL else Finding.SCHEDULING
        return Finding.BUSY if self.usage >= FULL else Finding.SPARE

    @property
    def metrics(self) -> str:
        """Its metrics in a line."""
        return f"KV usage {self.usage:.2f} · {self.waiting} waiting · {self.running} running"


@dataclass(frozen=True, slots=True)
class FourServers:
    """Four servers, one of each kind."""

    servers: tuple[Server, ...]

    @property
    def needs_memory(self) -> Server:
        """The one that needs memory."""
        return next(each for each in self.servers if each.finding is Finding.MEMORY)


def _draw(rng: random.Random) -> FourServers:
    def server(*, full: bool, waits: bool) -> Server:
        usage = rng.randint(93, 99) if full else rng.randint(28, 62)
        waiting = rng.randint(6, 90) if waits else 0
        return Server("", usage / 100, waiting, rng.choice((16, 24, 32, 48, 64)))

    kinds = ((True, True), (False, True), (True, False), (False, False))
    drawn = [server(full=full, waits=waits) for full, waits in kinds]
    return FourServers(_named(rng.sample(drawn, len(drawn))))


def _named(servers: list[Server]) -> tuple[Server, ...]:
    return tuple(
        Server(name, each.usage, each.waiting, each.running)
        for name, each in zip(_NAMES, servers, strict=True)
    )


_WHY_NOT: Final = {
    Finding.SCHEDULING: "{waiting} wait, that is true. But with a usage of {usage:.2f} there are "
    "free blocks: they wait for something else, a limit such as `--max-num-seqs` or the prefill.",
    Finding.BUSY: "The cache is full, but nobody waits for it. That is a server at work, and no "
    "request would be sooner with more.",
    Finding.SPARE: "Half empty, and nobody waits. If answers are slow here, memory is not why.",
}


def _misconceptions(p: FourServers) -> Iterator[Misconception]:
    for server in p.servers:
        if server.finding is not Finding.MEMORY:
            told = _WHY_NOT[server.finding].format(waiting=server.waiting, usage=server.usage)
            yield Misconception(f"took it for {server.finding.name}", server.name, told)


def _solution(p: FourServers) -> tuple[str | Element, ...]:
    lines = ((f"{each.name}: {each.metrics}", each.finding.value) for each in p.servers)
    return (
        working(*lines),
        (
            f"So it is `{p.needs_memory.name}`: more cache, smaller tokens, shorter contexts or a "
            "replica. Running requests say little: how many fit depends on how long they are."
        ),
    )


FOUR_SERVERS: Final = Drill(
    id="which-server-needs-memory",
    kind=Choice(lambda p: tuple(Option(each.name, each.name, each.metrics) for each in p.servers)),
    first=FourServers(
        (
            Server("erin", 0.45, 61, 32),
            Server("finn", 0.98, 0, 48),
            Server("gail", 0.31, 0, 64),
            Server("hugo", 0.97, 14, 24),
        )
    ),
    draw=_draw,
    question=lambda _: (
        "Four other servers, and the users of each complain. For which is more KV cache the cure?"
    ),
    answer=lambda p: p.needs_memory.name,
    misconceptions=_misconceptions,
    hints=lambda _: (
        "One number is never enough. Who waits, and is there room?",
        f"Memory is it when the cache is full (from about {FULL:g}) and requests wait as well.",
    ),
    solution=_solution,
)
"""Pick the server that needs memory."""
