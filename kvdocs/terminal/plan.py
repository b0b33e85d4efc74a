"""What a `vllm serve` comes to on this machine: its flags, its memory, whether it starts.

Everything is computed by `kvdocs.sizing` from the words typed, in the lesson's round numbers (a
workspace of 1.5 GB, a CUDA context of 1 GB; one GPU's CUDA graphs are left out, as with
`--enforce-eager`). Nothing of it is kept in the machine's state.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.errors import FlagError
from kvdocs.flags import ServerFlags, parse_flags
from kvdocs.gpu import Gpu
from kvdocs.model.cost import resolve_cache_dtype
from kvdocs.scenario import started_budget
from kvdocs.sizing import (
    Budget,
    Capacity,
    capacity_on,
    check_flags,
)
from kvdocs.startup_log import StartupReport, refusal, write_startup
from kvdocs.startup_log.writer import DEFAULT_MODEL
from kvdocs.terminal.machine import MORNING, Machine, Server

DEFAULT_PORT: Final = 8000
PID: Final = 118
"""Process id of the engine, as `kvdocs.startup_log` writes it."""
SERVER_PID: Final = 1
"""Process id of the API server, likewise."""
_LOAD_BYTES_PER_S: Final = 16.06e9 / 12.5
"""Speed at which the lesson's disk gives weights, an assumption: the 8B model in 12.5 s a GPU."""
_STARTUP_S: Final = 42.0
"""What else a start takes, as `kvdocs.startup_log` spaces its lines."""
_REFUSAL_S: Final = 32.0
_MODELS_FOLDER: Final = "models/"


@dataclass(frozen=True, slots=True)
class Plan:
    """A server as it would start.

    Attributes:
        entry: The model.
        name: The model as the command line names it.
        gpu: The GPU.
        flags: All flags.
        budget: How each GPU is divided.
        capacity: What the pool holds.
        served_name: What requests call the model.
        port: Where it listens.
    """

    entry: CatalogModel
    name: str
    gpu: Gpu
    flags: ServerFlags
    budget: Budget
    capacity: Capacity
    served_name: str
    port: int

    @property
    def used_bytes(self) -> float:
        """Bytes it holds of each GPU once it runs.

        By default what it asked for, to the byte; with `--kv-cache-memory-bytes` or a number of
        blocks, what weights, workspace and pool add up to.
        """
        flags = self.flags
        if flags.kv_cache_memory_bytes is None and flags.num_gpu_blocks_override is None:
            return self.budget.requested_bytes
        return self.budget.spent_bytes + self.capacity.kv_pool_bytes_per_gpu

    def report(self, started: float) -> StartupReport:
        """What its start-up log is written from, on GPUs that are empty.

        Args:
            started: When it starts, in seconds on the machine's clock.
        """
        return StartupReport(
            model=self.name,
            budget=self.budget,
            capacity=self.capacity,
            flags=non_default(self.flags),
            kv_cache_dtype=resolve_cache_dtype(self.entry.model, self.flags.kv_cache_dtype),
            tensor_parallel_size=self.flags.tensor_parallel_size,
            data_parallel_size=self.flags.data_parallel_size,
            started=Machine(clock=started).time if started else MORNING,
            load_seconds=self.load_seconds,
        )

    @property
    def load_seconds(self) -> float:
        """How long the weights take to load."""
        return round(self.budget.weights_bytes / _LOAD_BYTES_PER_S, 3)

    @property
    def refusal(self) -> str | None:
        """Why it does not start on an empty GPU, in the words of who refuses; None if it does."""
        return refusal(self.report(0.0))

    @property
    def startup_seconds(self) -> float:
        """How long until it serves, or gives up."""
        return self.load_seconds + (_STARTUP_S if self.refusal is None else _REFUSAL_S)

    def log(self, started: float) -> tuple[str, ...]:
        """The start-up log, as `kvdocs.startup_log` writes it.

        Args:
            started: When it starts, in seconds on the machine's clock.
        """
        lines = write_startup(self.report(started))
        return tuple(line.replace(f":{DEFAULT_PORT}", f":{self.port}") for line in lines)


def plan_of(machine: Machine, server: Server) -> Plan:
    """The plan of a server of the machine.

    Args:
        machine: The machine.
        server: Its server; one that was started, so its words can be read.
    """
    return make_plan(machine.gpu, server.words)


@lru_cache(maxsize=64)
def make_plan(gpu: str, words: tuple[str, ...]) -> Plan:
    """Plan a server.

    Args:
        gpu: Catalogue id of the machine's GPUs.
        words: What follows `vllm serve`.

    Raises:
        FlagError: A flag or value that vLLM would not take.
        CatalogError: A model that the catalogue does not hold.
        ConfigError: A cache dtype that cannot store the model's heads.

    Examples:
        >>> plan = make_plan("lesson-h100-80gb", ("Llama-3.1-8B", "--gpu-memory-utilization=0.9"))
        >>> plan.capacity.kv_pool_tokens, plan.refusal is None
        (407714, True)
    """
    flags = parse_flags(words)
    name = flags.model or DEFAULT_MODEL
    entry = get_model(name.removeprefix("./").removeprefix(_MODELS_FOLDER).rstrip("/"))
    card = get_gpu(gpu)
    flags = replace(flags, model=name)
    check_flags(entry.model, card, flags)
    budget = started_budget(entry, card, flags)
    return Plan(
        entry=entry,
        name=name,
        gpu=card,
        flags=flags,
        budget=budget,
        capacity=capacity_on(card, entry.model, budget, flags),
        served_name=option(words, "--served-model-name") or name,
        port=_port(words),
    )


def option(words: tuple[str, ...], flag: str) -> str:
    """The last value of a flag in a command line, or an empty text.

    Args:
        words: The words.
        flag: The flag as vLLM spells it.

    Examples:
        >>> option(("m", "--port", "1", "--port=8001"), "--port")
        '8001'
    """
    found = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals else "".join(words[index + 1 : index + 2])
    return found


def _port(words: tuple[str, ...]) -> int:
    text = option(words, "--port") or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
        raise FlagError(f"--port {text[:30]!r} is not a port; use 1 to 65535")
    return int(text)


def non_default(flags: ServerFlags) -> dict[str, object]:
    """The flags that differ from vLLM's defaults, as its log names them.

    Examples:
        >>> non_default(ServerFlags(model="m", max_model_len=8192))
        {'max_model_len': 8192}
    """
    plain = ServerFlags()
    hidden = {"model", "others", "auto_fit_max_model_len", "vllm_version"}
    given = {
        field.name: getattr(flags, field.name)
        for field in fields(ServerFlags)
        if field.name not in hidden and getattr(flags, field.name) != getattr(plain, field.name)
    }
    return given | ({"max_model_len": -1} if flags.auto_fit_max_model_len else {})
