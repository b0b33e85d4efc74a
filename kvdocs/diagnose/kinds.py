"""Troubles to draw by seed: for each a server whose settings and load bring it about.

The draws use `random()` alone, so that a seed gives the same server in every version of Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.diagnose.servers import Readings, SimulatedServer
from kvdocs.diagnose.verdicts import Verdict
from kvdocs.engine import EngineConfig, StepLoad
from kvdocs.scenario import LESSON, lesson_timer
from kvdocs.timing import Efficiency, RooflineTimer, transfer_time
from kvdocs.workload import (
    Fixed,
    Lengths,
    Part,
    Parts,
    Uniform,
    WorkloadRequest,
    closed_loop,
    independent,
    poisson,
)
from kvdocs.workload.numbers import draw_integer

_LENGTH: Final = 131_072


@lru_cache(maxsize=1)
def slow_timer() -> RooflineTimer:
    """The lesson's server with a CPU that takes 40 ms for each step."""
    fast = lesson_timer()
    slow = Efficiency(step_overhead_s=0.04)
    return RooflineTimer(model=fast.model, weights=fast.weights, gpu=fast.gpu, efficiency=slow)


def _config(num_blocks: int, **limits: float | bool) -> EngineConfig:
    settings = {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "max_model_len": _LENGTH,
        "async_scheduling": True,
        **limits,
    }
    return EngineConfig(num_blocks=num_blocks, **settings)  # type: ignore[arg-type]


def _load(
    rng: random.Random, rate: float, until_s: float, prompts: Lengths, outputs: Lengths
) -> tuple[WorkloadRequest, ...]:
    """Requests that share nothing and come at random."""
    found = independent(
        rng,
        arrivals=poisson(rng, rate=rate),
        num_requests=int(rate * until_s * 1.2) + 4,
        prompts=prompts,
        outputs=outputs,
    )
    return tuple(found)


def healthy(rng: random.Random) -> SimulatedServer:
    """A light chat load in a large pool."""
    load = _load(rng, 1 + 3 * rng.random(), 24, Uniform(100, 800), Uniform(50, 250))
    config = _config(draw_integer(rng, 4000, 26000))
    return SimulatedServer(config=config, requests=load, look_s=14, again_s=24)


def healthy_full(rng: random.Random) -> SimulatedServer:
    """As many clients as the pool holds; each asks again when it has its answer."""
    users, prompt, output = (
        draw_integer(rng, *span) for span in ((48, 72), (2500, 3500), (80, 140))
    )
    blocks = -(-(prompt + output) // 16) + 1
    load = closed_loop(
        rng, num_users=users, requests_per_user=8, prompts=Fixed(prompt), outputs=Fixed(output)
    )
    return SimulatedServer(
        config=_config(users * blocks + 1), requests=tuple(load), look_s=12, again_s=20
    )


def _crowd(
    rng: random.Random, users: int, prompts: Lengths, outputs: Lengths
) -> tuple[WorkloadRequest, ...]:
    """Clients each of whom asks again when it has its answer."""
    return tuple(
        closed_loop(rng, num_users=users, requests_per_user=24, prompts=prompts, outputs=outputs)
    )


def memory_bound(rng: random.Random) -> SimulatedServer:
    """Long prompts, short answers, and twice as many clients as the pool holds."""
    fit, prompt = draw_integer(rng, 12, 30), draw_integer(rng, 1200, 3000)
    load = _crowd(rng, 2 * fit, Uniform(prompt - 400, prompt), Uniform(40, 80))
    config = _config(fit * (prompt // 16), watermark=0.04)
    return SimulatedServer(config=config, requests=load, look_s=6, again_s=12)


def max_num_seqs_bound(rng: random.Random) -> SimulatedServer:
    """A small batch, a large pool, and more clients than the batch takes."""
    seqs = draw_integer(rng, 4, 24)
    users = seqs + draw_integer(rng, 2, seqs)
    return SimulatedServer(
        config=_config(draw_integer(rng, 6000, 26000), max_num_seqs=seqs),
        requests=_crowd(rng, users, Uniform(200, 600), Uniform(150, 300)),
        look_s=6,
        again_s=12,
        flags=f"vllm serve {LESSON.model} --max-num-seqs {seqs}",
    )


def prefill_bound(rng: random.Random) -> SimulatedServer:
    """Long prompts with hardly an answer, faster than they can be computed."""
    prompt = draw_integer(rng, 4000, 8000)
    rate = 60_000 / prompt * (1 + rng.random())
    load = _load(rng, rate, 24, Uniform(prompt - 1000, prompt + 1000), Uniform(1, 8))
    config = _config(draw_integer(rng, 16000, 26000))
    return SimulatedServer(config=config, requests=load, look_s=14, again_s=24)


def scheduling_bound(rng: random.Random) -> SimulatedServer:
    """A token budget so small that answers under way leave little of it for prompts."""
    budget, length = draw_integer(rng, 48, 80), draw_integer(rng, 200, 400)
    load = _load(rng, 8 + 4 * rng.random(), 24, Uniform(length - 50, length), Fixed(length))
    return SimulatedServer(
        config=_config(
            draw_integer(rng, 6000, 26000), max_num_seqs=budget, max_num_batched_tokens=budget
        ),
        requests=load,
        look_s=14,
        again_s=24,
        timer=slow_timer(),
    )


def thrashing(rng: random.Random) -> SimulatedServer:
    """Short prompts admitted on trust, long answers, and a pool for a few of them."""
    fit, output = draw_integer(rng, 6, 14), draw_integer(rng, 700, 1200)
    load = _crowd(rng, 3 * fit, Uniform(100, 300), Uniform(output - 200, output))
    config = _config(fit * (output + 200) // 16)
    return SimulatedServer(config=config, requests=load, look_s=15, again_s=30)


def hits_are_preemptions(rng: random.Random) -> SimulatedServer:
    """A server that thrashes, of a version that counts the lookups of preempted requests."""
    return replace(thrashing(rng), counts_again=True)


def changed_first_token(rng: random.Random) -> SimulatedServer:
    """A system prompt that all share, behind a token that none does."""
    system, rate = draw_integer(rng, 600, 2000), 1 + 2 * rng.random()
    arrivals = poisson(rng, rate=rate)
    requests = tuple(
        WorkloadRequest(
            id=f"r{index}",
            prompt=Parts(
                (Part(f"time {index}", 1), Part("system", system), Part(f"q {index}", 60))
            ),
            output_tokens=draw_integer(rng, 50, 250),
            arrival_s=arrival,
        )
        for index, arrival in zip(range(int(rate * 30) + 4), arrivals, strict=False)
    )
    config = _config(draw_integer(rng, 4000, 26000))
    known = {"prompts": "shared"}
    return SimulatedServer(config=config, requests=requests, look_s=14, again_s=24, told=known)


def shorter_than_a_block(rng: random.Random) -> SimulatedServer:
    """Prompts that fill no block."""
    load = _load(rng, 1 + 3 * rng.random(), 24, Uniform(4, 14), Uniform(50, 250))
    config = _config(draw_integer(rng, 4000, 26000))
    return SimulatedServer(config=config, requests=load, look_s=14, again_s=24)


def coarse_blocks(rng: random.Random) -> SimulatedServer:
    """A hybrid model's blocks of hundreds of tokens, and a shared prompt that fills none."""
    block = (528, 784, 1056, 1536)[draw_integer(rng, 0, 3)]
    server = changed_first_token(rng)
    requests = tuple(
        replace(each, prompt=Parts((Part("system", block // 2), Part(each.id, block // 3))))
        for each in server.requests
    )
    config = _config(draw_integer(rng, 200, 800), block_size=block)
    return SimulatedServer(config=config, requests=requests, look_s=14, again_s=24)


def stalled(rng: random.Random) -> SimulatedServer:
    """A prompt longer than the pool at the head of the queue, and others behind it."""
    blocks = draw_integer(rng, 500, 4000)
    load = _load(rng, 0.5 + 2 * rng.random(), 40, Uniform(100, 800), Uniform(50, 250))
    length = blocks * 16 + draw_integer(rng, 100, 4000)
    config = _config(blocks)
    return SimulatedServer(config=config, requests=load, look_s=2, again_s=5, stuck=length)


def answers_growing(rng: random.Random) -> SimulatedServer:
    """A few requests without a limit, alone on the server."""
    requests = tuple(
        WorkloadRequest(
            id=f"r{index}",
            prompt=Parts((Part(f"r{index}", draw_integer(rng, 20, 400)),)),
            output_tokens=100_000,
            arrival_s=index * 0.5,
        )
        for index in range(draw_integer(rng, 1, 6))
    )
    return SimulatedServer(config=_config(26000), requests=requests, look_s=15, again_s=45)


def misread(rng: random.Random) -> SimulatedServer:
    """A healthy server behind an exporter that makes percent of its share."""
    load = _load(rng, 6 + 2 * rng.random(), 20, Uniform(500, 1200), Uniform(150, 250))
    config = _config(draw_integer(rng, 2000, 4000))
    return SimulatedServer(config=config, requests=load, look_s=10, again_s=20, rewrite=_to_percent)


def _to_percent(page: str) -> str:
    def changed(line: str) -> str:
        if not line.startswith("vllm:kv_cache_usage_perc"):
            return line
        name, _, value = line.rpartition(" ")
        return f"{name} {100 * float(value):.4f}"

    return "\n".join(changed(line) for line in page.split("\n"))


_NEEDED: Final = ("num_requests_waiting", "kv_cache_usage_perc")


def not_enough(rng: random.Random) -> SimulatedServer:
    """A healthy server of whose page somebody copied all but the queue, or all but the usage."""
    missing = _NEEDED[draw_integer(rng, 0, 1)]

    def without(page: str) -> str:
        return "\n".join(line for line in page.split("\n") if missing not in line)

    return replace(healthy(rng), rewrite=without)


def full_at_start(rng: random.Random) -> Readings:
    """What `nvidia-smi` shows of a server that has served nobody."""
    share = draw_integer(rng, 60, 95) / 100
    total = get_gpu(LESSON.gpu).nvidia_smi_memory_bytes // 2**20
    used = int(share * total) - draw_integer(rng, 0, 900)
    text = f"| N/A   31C    P0   72W / 700W |  {used}MiB / {total}MiB |      0%      Default |"
    flags = f"vllm serve {LESSON.model} --gpu-memory-utilization {share:g}"
    return Readings((text,), flags=flags)


_TOKEN_BYTES: Final = 131_072
"""Llama 3.1 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes."""


def _tier(rng: random.Random, gb_per_s: float) -> Readings:
    """LMCache's line of a prompt that was loaded over a link, and the time its prefill takes."""
    timer, tokens = lesson_timer(), draw_integer(rng, 1000, 30_000)
    num_bytes = tokens * _TOKEN_BYTES
    seconds = transfer_time(num_bytes, SimpleNamespace(bytes_per_s=gb_per_s * 1e9))
    text = (
        f"LMCache INFO: Retrieved {tokens} out of {tokens} required tokens (from {tokens} total "
        f"tokens). size: {num_bytes / 2**30:.4f} gb, cost {seconds * 1e3:.4f} ms, throughput: "
        f"{num_bytes / 2**30 / seconds:.4f} GB/s"
    )
    chunks = [min(8192, tokens - done) for done in range(0, tokens, 8192)]
    prefill = sum(
        timer.seconds(StepLoad(chunk, 1, 8192 * at + chunk, chunk * (8192 * at + chunk // 2)))
        for at, chunk in enumerate(chunks)
    )
    return Readings((text,), told={"recompute_tokens_per_s": tokens / prefill})


def offload_slower(rng: random.Random) -> Readings:
    """A tier behind a link of a few GB/s, such as one disk."""
    return _tier(rng, 2 + 2 * rng.random())


def offload_pays(rng: random.Random) -> Readings:
    """A tier in CPU memory, over PCIe."""
    return _tier(rng, 24 + 40 * rng.random())


@dataclass(frozen=True, slots=True)
class Kind:
    """A trouble to draw.

    Attributes:
        name: Its name.
        verdict: What the diagnosis is to say.
        draw: Makes a server of a seed's random numbers.
        forms: What a reader may have of it.
    """

    name: str
    verdict: Verdict
    draw: Callable[[random.Random], SimulatedServer | Readings]
    forms: tuple[str, ...] = ("scrape", "scrapes", "log")

    def readings(self, seed: int) -> Readings:
        """What a reader has of the server of a seed.

        Args:
            seed: Any whole number.

        Examples:
            >>> KINDS["stalled"].readings(1).diagnose().verdict.value
            'stalled'
        """
        rng = random.Random(seed)  # noqa: S311 - a simulation, not a secret
        server = self.draw(rng)
        if isinstance(server, Readings):
            return server
        form = self.forms[seed % len(self.forms)]
        found: Readings = getattr(server, form)()
        return found


_PAGES: Final = ("scrape", "scrapes")
_LIST: Final = (
    Kind("healthy", Verdict.HEALTHY, healthy),
    Kind("healthy and full", Verdict.HEALTHY_FULL, healthy_full),
    Kind("full at start-up", Verdict.FULL_AT_START, full_at_start),
    Kind("memory-bound", Verdict.MEMORY_BOUND, memory_bound),
    Kind("scheduling-bound", Verdict.SCHEDULING_OR_COMPUTE_BOUND, scheduling_bound),
    Kind("prefill-bound", Verdict.PREFILL_BOUND, prefill_bound),
    Kind("max-num-seqs-bound", Verdict.MAX_NUM_SEQS_BOUND, max_num_seqs_bound),
    Kind("thrashing", Verdict.THRASHING, thrashing),
    Kind("hits are preemptions", Verdict.HITS_ARE_PREEMPTIONS, hits_are_preemptions, _PAGES),
    Kind("changed first token", Verdict.PREFIX_SHARING_DEFEATED, changed_first_token),
    Kind("shorter than a block", Verdict.PREFIX_SHARING_DEFEATED, shorter_than_a_block, _PAGES),
    Kind("coarse blocks", Verdict.PREFIX_SHARING_DEFEATED, coarse_blocks, _PAGES),
    Kind("stalled", Verdict.STALLED, stalled, _PAGES),
    Kind("answers growing", Verdict.ANSWERS_GROWING, answers_growing, ("scrapes", "log")),
    Kind("offload slower", Verdict.OFFLOAD_SLOWER, offload_slower),
    Kind("offload pays", Verdict.OFFLOAD_PAYS, offload_pays),
    Kind("misread unit", Verdict.METRIC_MISREAD, misread, _PAGES),
    Kind("not enough", Verdict.NOT_ENOUGH, not_enough, _PAGES),
)
KINDS: Final = {kind.name: kind for kind in _LIST}
"""Every trouble, by its name."""
