"""A server as the playground's reader describes it, sized and ready to start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from kvdocs.catalog import get_gpu, get_model
from kvdocs.errors import FlagError, KvdocsError, ParameterError, StartError
from kvdocs.flags import ServerFlags, parse_flags
from kvdocs.gpu import Gpu
from kvdocs.model import Model, kv_cost
from kvdocs.model.cost import stored_cache_dtype
from kvdocs.playground.load import Load
from kvdocs.playground.subject import Subject, catalogue_subject, config_subject
from kvdocs.scenario import LESSON
from kvdocs.server import Server, ServerRun, start_server
from kvdocs.sizing import (
    LESSON_OVERHEAD,
    Budget,
    Capacity,
    Overhead,
    capacity_on,
    early_refusal,
    lesson_budget,
)
from kvdocs.units import GIB, format_bytes

DEFAULT_FLAGS: Final = "--gpu-memory-utilization 0.9 --max-model-len 32768"
_CONFIG_NAME: Final = "my-model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A server to try: a model, GPUs and flags. What is None is the catalogue's or the lesson's.

    Attributes:
        model: Catalogue id of the model.
        config: Text of a `config.json`, which then counts in place of `model`; "" for none.
        weight_bytes: Bytes of all weights.
        gpu: Catalogue id of each GPU.
        memory_bytes: Memory of a GPU as CUDA reports it.
        bandwidth_bytes_per_s: Its peak memory bandwidth.
        flops: Its peak dense bf16 operations per second.
        activation_bytes: Workspace on a GPU (the activation peak of its start-up log).
        non_torch_bytes: CUDA context on a GPU.
        flags: Flags as one types them after `vllm serve`.

    Examples:
        >>> sized = Setup().size()
        >>> sized.capacity.kv_pool_tokens, sized.refusal
        (407714, '')
    """

    model: str = LESSON.model
    config: str = ""
    weight_bytes: float | None = None
    gpu: str = LESSON.gpu
    memory_bytes: float | None = None
    bandwidth_bytes_per_s: float | None = None
    flops: float | None = None
    activation_bytes: float | None = None
    non_torch_bytes: float | None = None
    flags: str = DEFAULT_FLAGS

    def size(self, *, typical_tokens: int | None = None) -> Sized:
        """Size it and start it, as far as it starts.

        Args:
            typical_tokens: Length of a typical request; it matters for models that mix kinds of
                layers.

        Raises:
            ParameterError: A field that cannot be read, by its name.
        """
        with told_at("flags"):
            flags = parse_flags(words(self.flags))
        with told_at("config" if self.config else "model"):
            subject = _subject(self, flags)
        with told_at("gpu"):
            gpu = _gpu(self)
        with told_at("flags"):
            return _Parts(self, subject, gpu, replace(flags, model="")).sized(typical_tokens)

    def simulate(self, load: Load) -> ServerRun:
        """Run a load to its end.

        Args:
            load: What comes: `Made` or `Trace`.

        Raises:
            ParameterError: A field that cannot be read.
            StartError: The server does not start.

        Examples:
            >>> from kvdocs.playground.load import Made
            >>> Setup().simulate(Made(num_requests=5)).num_preemptions
            0
        """
        server = self.size(typical_tokens=load.typical_tokens).started()
        return server.simulate(load.requests())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A set-up with its memory planned.

    Attributes:
        setup: What was asked for.
        subject: The model and its weights.
        gpu: Each GPU.
        flags: All flags.
        budget: How a GPU's memory is divided.
        capacity: What the pool holds.
        token_bytes: Bytes of keys and values a token, over all GPUs.
        server: The server; None when it does not start.
        refusal: Why it does not start; "" when it does.
        notes: What to know about the figures.
    """

    setup: Setup
    subject: Subject
    gpu: Gpu
    flags: ServerFlags
    budget: Budget
    capacity: Capacity
    token_bytes: int
    server: Server | None
    refusal: str
    notes: tuple[str, ...]

    @property
    def model(self) -> Model:
        """The layers' cache layout."""
        return self.subject.model

    @property
    def name(self) -> str:
        """Model and GPUs in a few words."""
        count = self.flags.world_size
        cards = f"{count} × {self.gpu.name}" if count > 1 else self.gpu.name
        return f"{self.subject.name.rpartition('/')[2]} on {cards}"

    def started(self) -> Server:
        """The server.

        Raises:
            StartError: It does not start.
        """
        if self.server is None:
            raise StartError(self.refusal)
        return self.server

    @property
    def command(self) -> str:
        """The `vllm serve` that starts it."""
        path = f"./{_CONFIG_NAME}" if self.setup.config else self.subject.name
        return " ".join(["vllm serve", path, *map(shlex.quote, words(self.setup.flags))])


@contextmanager
def told_at(name: str) -> Iterator[None]:
    """Give what is refused within the name of the field it is about.

    Args:
        name: The field.

    Raises:
        ParameterError: In place of any other error of the package.
    """
    try:
        yield
    except ParameterError:
        raise
    except KvdocsError as error:
        raise ParameterError(str(error), name=name) from error


def words(flags: str) -> list[str]:
    r"""Split a line of flags as a shell does; line ends and their backslashes are blanks.

    Args:
        flags: The line.

    Raises:
        FlagError: A quotation mark without its second.

    Examples:
        >>> words("vllm serve m \\\n  --max-model-len 32K")
        ['vllm', 'serve', 'm', '--max-model-len', '32K']
    """
    try:
        return shlex.split(flags.replace("\\\r\n", " ").replace("\\\n", " "))
    except ValueError as error:
        raise FlagError(f"the flags end within a quotation ({error}); close it") from error


def _subject(setup: Setup, flags: ServerFlags) -> Subject:
    if setup.config:
        return config_subject(setup.config, name=_CONFIG_NAME, weight_bytes=setup.weight_bytes)
    return catalogue_subject(get_model(flags.model or setup.model), weight_bytes=setup.weight_bytes)


def _gpu(setup: Setup) -> Gpu:
    card = get_gpu(setup.gpu)
    if setup.memory_bytes is not None:
        total = int(setup.memory_bytes)
        card = replace(
            card, memory_bytes=total, nvidia_smi_memory_bytes=total, cuda_memory_bytes=total
        )
    if setup.bandwidth_bytes_per_s is not None:
        card = replace(card, memory_bandwidth_bytes_per_s=setup.bandwidth_bytes_per_s)
    if setup.flops is not None:
        card = replace(card, dense_bf16_flops=setup.flops)
    return card


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a set-up comes to before its memory is planned."""

    setup: Setup
    subject: Subject
    gpu: Gpu
    flags: ServerFlags

    def sized(self, typical_tokens: int | None) -> Sized:
        """Plan the memory, and start the server if it starts."""
        budget, flags, model = self.budget(), self.flags, self.subject.model
        plan = capacity_on(self.gpu, model, budget, flags)
        refusal = _too_heavy(budget) or early_refusal(budget) or plan.refusal or ""
        server = None if refusal else self.start(budget, typical_tokens)
        notes = (*self.subject.notes, *plan.notes, *(server.notes if server else ()))
        cost = kv_cost(
            model,
            kv_cache_dtype=stored_cache_dtype(model, self.gpu, flags.kv_cache_dtype),
            tensor_parallel_size=flags.tensor_parallel_size,
            pipeline_parallel_size=flags.pipeline_parallel_size,
        )
        return Sized(
            setup=self.setup,
            subject=self.subject,
            gpu=self.gpu,
            flags=flags,
            budget=budget,
            capacity=plan,
            token_bytes=cost.bytes_per_token,
            server=server,
            refusal=refusal,
            notes=tuple(dict.fromkeys(notes)),
        )

    def start(self, budget: Budget, typical_tokens: int | None) -> Server:
        """Start the server."""
        return start_server(
            self.subject.model,
            self.gpu,
            self.flags,
            available=budget,
            weights=self.subject.weights,
            typical_tokens=typical_tokens,
            model_name=self.subject.name,
        )

    def budget(self) -> Budget:
        """The lesson's budget, with what was measured in the place of its round numbers."""
        setup, flags = self.setup, self.flags
        overhead = Overhead(
            activation_bytes=_given(setup.activation_bytes, LESSON_OVERHEAD.activation_bytes),
            non_torch_bytes=_given(setup.non_torch_bytes, LESSON_OVERHEAD.non_torch_bytes),
        )
        lesson = lesson_budget(
            self.gpu,
            weights_bytes=self.subject.weight_bytes,
            tensor_parallel_size=flags.world_size,
            utilization=flags.gpu_memory_utilization,
            overhead=overhead,
        )
        on_gpu = lesson.weights_bytes - flags.cpu_offload_gb * GIB
        if on_gpu < 0:
            raise FlagError(
                f"--cpu-offload-gb {flags.cpu_offload_gb:g} is more than the weights on each GPU, "
                f"{format_bytes(lesson.weights_bytes, 'GiB')}"
            )
        return replace(
            lesson,
            total_bytes=self.gpu.total_memory_bytes,
            weights_bytes=on_gpu,
            kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
        )


def _too_heavy(budget: Budget) -> str:
    """Why the weights are not even loaded; "" when they are."""
    if budget.weights_bytes <= budget.free_bytes:
        return ""
    return (
        f"CUDA out of memory: {format_bytes(budget.weights_bytes, 'GB')} of weights do not fit a "
        f"GPU of {format_bytes(budget.total_bytes, 'GB')}."
    )


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
