"""Widget `startup`: flags in, and what vLLM prints when it starts, or why it refuses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model, gpu_ids
from kvdocs.errors import CatalogError, ConfigError, FlagError, ParameterError
from kvdocs.flags import ServerFlags, parse_flags
from kvdocs.html import Element, h, svg
from kvdocs.model.cost import resolve_cache_dtype
from kvdocs.scenario import LESSON, started_budget
from kvdocs.sizing import (
    Budget,
    Capacity,
    capacity_on,
    check_flags,
    default_max_num_batched_tokens,
)
from kvdocs.sizing.engine import need_of
from kvdocs.sizing.plan import blocks_per_request
from kvdocs.startup_log.writer import StartupReport, refusal, write_startup
from kvdocs.units import format_bytes, format_number
from kvdocs.widgets.controls import Choice, Range, Text
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.view import NONE, Figure, Table, View
from kvdocs.widgets.widget import Widget

UNSET: Final = ""
"""A quick control that adds no flag."""
LENGTHS: Final = (8192, 16_384, 32_768, 65_536, 131_072)
QUICK: Final = {
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "max_model_len": "--max-model-len",
    "kv_cache_dtype": "--kv-cache-dtype",
    "block_size": "--block-size",
    "tensor_parallel_size": "--tensor-parallel-size",
}
"""The flags that have a control of their own; what is typed wins over it."""
_NO_SHARING: Final = "--no-enable-prefix-caching"
_ALIASES: Final = {
    "-tp": "--tensor-parallel-size",
    "--enable-prefix-caching": _NO_SHARING,
    "--device-memory-utilization": "--gpu-memory-utilization",
}
_STARTERS: Final = ("serve", "vllm.entrypoints.openai.api_server")
_KEY_LINES: Final = ("KV cache size:", "Available KV cache memory:", "ValueError:", "Auto-fit")
_ROUND: Final = (
    "a workspace of 1.5 GB and a CUDA context of 1 GB are the lesson's round numbers; a real server"
    " measures its own"
)
_NO_GRAPHS: Final = (
    "the lesson's round numbers leave CUDA graphs out, as with --enforce-eager; a real server"
    " keeps such recorded steps on the GPU, for speed, unless told not to"
)
_BUFFERS: Final = (
    "on each of several GPUs 1.5 GB stand for NCCL's buffers and CUDA graphs together; the log"
    " prints all of them as CUDA graphs"
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server as it starts, in the lesson's round numbers.

    Attributes:
        command: The words of its command line.
        entry: The model.
        gpu: Catalogue id of the GPU it runs on.
        flags: All its flags.
        budget: What each GPU has.
        capacity: What the pool holds, and whether the server starts.
        request_bytes: Bytes of one request of the maximum length on the GPU that binds.
    """

    command: tuple[str, ...]
    entry: CatalogModel
    gpu: str
    flags: ServerFlags
    budget: Budget
    capacity: Capacity
    request_bytes: int

    @property
    def report(self) -> StartupReport:
        """What its start-up log is written from."""
        return StartupReport(
            model=self.flags.model,
            budget=self.budget,
            capacity=self.capacity,
            flags=_non_default(self.flags),
            kv_cache_dtype=resolve_cache_dtype(self.entry.model, self.flags.kv_cache_dtype),
            tensor_parallel_size=self.flags.tensor_parallel_size,
            data_parallel_size=self.flags.data_parallel_size,
        )

    @property
    def starts(self) -> bool:
        """Whether it comes to serve."""
        return refusal(self.report) is None

    def log(self) -> tuple[str, ...]:
        """What it prints until it serves, or refuses."""
        return write_startup(self.report)


def start(command: str, *, gpu: str = LESSON.gpu, quick: Mapping[str, str] | None = None) -> Server:
    """Start a server, as far as memory is concerned.

    Args:
        command: `vllm serve MODEL --flag value …`, or flags alone for the lesson's model.
        gpu: Catalogue id of the GPU.
        quick: Values of flags that stand before those of the command, by their vLLM names.

    Raises:
        FlagError: A flag or value that vLLM would not take.
        CatalogError: A model that the catalogue does not hold.
        ConfigError: A cache dtype that cannot store the model's heads.

    Examples:
        >>> start("vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.9").capacity.starts
        True
        >>> start("--gpu-memory-utilization 0.4").capacity.max_model_len_that_fits
        102512
    """
    typed = _words(command)
    added = _added(typed, quick or {})
    flags = parse_flags([*added, *typed])
    model = flags.model or LESSON.model
    rest = tuple(_without_model(typed, flags.model))
    entry, card = get_model(model), get_gpu(gpu)
    flags = replace(flags, model=model)
    check_flags(entry.model, card, flags)
    memory = started_budget(entry, card, flags)
    batch = default_max_num_batched_tokens(card, flags)
    held = capacity_on(card, entry.model, memory, flags)
    blocks = blocks_per_request(held.grouping.groups, need_of(flags, batch), held.max_model_len)
    return Server(
        command=("vllm", "serve", model, *added, *rest),
        entry=entry,
        gpu=gpu,
        flags=flags,
        budget=memory,
        capacity=held,
        request_bytes=blocks * held.bytes_per_block,
    )


def _words(command: str) -> list[str]:
    """Split a command as a shell does, and drop what starts the server."""
    text = command.replace("\\\r\n", " ").replace("\\\n", " ")
    try:
        words = shlex.split(text.strip().removeprefix("$ "))
    except ValueError as error:
        raise FlagError(f"a quotation mark is not closed ({error}); close it") from error
    for starter in _STARTERS:
        if starter in words:
            return words[words.index(starter) + 1 :]
    return words


def _flag_of(word: str) -> str:
    name = word.partition("=")[0].replace("_", "-")
    return _ALIASES.get(name, name)


def _added(typed: list[str], quick: Mapping[str, str]) -> list[str]:
    """Flags of the quick controls that are set and not typed."""
    given = {_flag_of(word) for word in typed if word.startswith("-")}
    added: list[str] = []
    for name, value in quick.items():
        flag = QUICK.get(name, _NO_SHARING)
        if value != UNSET and flag not in given:
            added += [flag] if flag == _NO_SHARING else [flag, value]
    return added


def without_share(words: Sequence[str]) -> list[str]:
    """Return a command's words without `--gpu-memory-utilization`, which has a control of its own.

    Args:
        words: The words after `vllm serve`.

    Examples:
        >>> without_share(["m", "--gpu-memory-utilization", "0.4", "--max-model-len", "8K"])
        ['m', '--max-model-len', '8K']
    """
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if _flag_of(word) != QUICK["gpu_memory_utilization"]:
            kept.append(word)
        elif "=" not in word:
            next(rest, None)
    return kept


def _without_model(words: list[str], model: str) -> list[str]:
    if model not in words:
        return [word for word in words if word != f"--model={model}"]
    at = words.index(model)
    first = at - 1 if at and words[at - 1] == "--model" else at
    return [*words[:first], *words[at + 1 :]]


def _non_default(flags: ServerFlags) -> dict[str, object]:
    """The flags that differ from vLLM's defaults, as its log names them."""
    plain = ServerFlags()
    hidden = {"model", "others", "auto_fit_max_model_len", "vllm_version"}
    given = {
        field.name: getattr(flags, field.name)
        for field in fields(ServerFlags)
        if field.name not in hidden and getattr(flags, field.name) != getattr(plain, field.name)
    }
    return given | ({"max_model_len": -1} if flags.auto_fit_max_model_len else {})


def _log_line(line: str) -> Element:
    """Mark what matters in a line; a phone shows its level and its message alone."""
    head, mark, message = line.partition("] ")
    if not mark:
        return h("span", f"{line}\n", class_="kv-log-line")
    process, level, when = head.split(") ", 1)[0], *head.split(") ", 1)[1].split(" ", 1)
    is_key = any(key in message for key in _KEY_LINES)
    return h(
        "span",
        h("span", f"{process}) ", class_="kv-log-head"),
        level,
        h("span", f" {when}{mark}".rstrip(), class_="kv-log-head"),
        " ",
        h("b", message) if is_key else message,
        "\n",
        class_="kv-log-line",
    )


def _terminal(server: Server) -> Element:
    command = shlex.join(server.command)
    return h(
        "pre",
        h(
            "samp",
            h("span", f"{LESSON.machine} $ {command}\n", class_="kv-log-command"),
            *(_log_line(line) for line in server.log()),
        ),
        class_="kv-screen kv-log",
        tabindex=0,
        role="region",
        aria_label="The start-up log",
    )


def _length_bar(num_bytes: int, whole: int, label: str, kind: MemoryKind) -> Element:
    fill = svg(
        "svg",
        svg("rect", width="100%", height="100%", class_=f"kv-mem kv-mem-{kind.value}"),
        aria_hidden="true",
    )
    part = h("div", fill, class_="kv-bar-part", style=f"width:{num_bytes / whole:.4%}")
    name = h("p", f"{label}: {format_bytes(num_bytes, 'GiB')}", class_="kv-part-name")
    return h("div", name, h("div", part, class_="kv-bar kv-bar-low"))


def _comparison(server: Server) -> Element:
    """Draw the pool and one request of the maximum length, to one scale."""
    held = server.capacity
    pool, request = max(0, held.kv_pool_bytes_per_gpu), server.request_bytes
    whole = max(pool, request, 1)
    where = " on each GPU" if server.flags.world_size > 1 else ""
    names = (f"The KV pool{where}", f"One request of {held.max_model_len:,} tokens{where}")
    words = ", ".join(
        f"{name}: {format_bytes(size, 'GiB')}"
        for name, size in zip(names, (pool, request), strict=True)
    )
    bars = h(
        "div",
        _length_bar(pool, whole, names[0], MemoryKind.KV_FREE),
        _length_bar(request, whole, names[1], MemoryKind.KV_USED),
        role="img",
        aria_label=f"To scale: {words}.",
    )
    note = "To scale. A server starts only if its longest request fits the pool."
    return h("div", bars, h("p", note, class_="kv-note"), class_="kv-compare-bars")


def _notes(server: Server) -> Element:
    graphs = _BUFFERS if server.budget.cuda_graph_bytes else _NO_GRAPHS
    notes = [_ROUND, graphs, *server.capacity.notes]
    if server.flags.quantization:
        notes.append("the weights are counted as they are released, whatever --quantization says")
    if server.flags.data_parallel_size > 1:
        notes.append(f"one of {server.flags.data_parallel_size} equal servers is shown")
    shown = (f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(notes))
    return h("div", *(h("p", note, class_="kv-note") for note in shown))


def _figures(server: Server) -> tuple[Figure, ...]:
    held = server.capacity
    return (
        Figure(
            "num_gpu_blocks",
            "Blocks in the pool",
            f"{held.num_gpu_blocks:,}" if server.starts else NONE,
            "",
            f"of {held.block_size} tokens, {format_bytes(held.bytes_per_block, 'KiB')} each",
        ),
        _pool_tokens(server),
        Figure(
            "max_concurrency",
            f"Requests of {held.max_model_len:,} tokens at once",
            f"{held.max_concurrency:.2f}" if server.starts else NONE,
            "",
            "as the log prints it" if server.starts else "not even one",
        ),
        Figure("starts", "Does it start?", "yes" if server.starts else "no", "", _verdict(server)),
    )


def _pool_tokens(server: Server) -> Figure:
    """How many tokens the pool holds, or would."""
    held = server.capacity
    if not server.starts:
        most = held.max_model_len_that_fits
        kept = f"in whole blocks, one kept back: {most:,} for a request" if most else ""
        label = "Tokens the pool would hold"
        return Figure("kv_pool_tokens", label, f"{held.kv_pool_tokens:,}", "", kept)
    spread = server.flags.decode_context_parallel_size
    blocks = f"{held.num_gpu_blocks:,} × {held.block_size}" + (f" × {spread}" if spread > 1 else "")
    plain = len(held.grouping.groups) == 1
    whole = f"in whole blocks {blocks} = {held.kv_block_tokens:,}" if plain else "of the longest"
    return Figure("kv_pool_tokens", "Tokens the pool holds", f"{held.kv_pool_tokens:,}", "", whole)


def _verdict(server: Server) -> str:
    report, held = server.report, server.capacity
    if not report.share_is_free:
        return f"{format_bytes(report.free_at_start, 'GiB')} of the GPU are free"
    if not report.weights_load:
        return "the weights do not load"
    if held.max_model_len_that_fits:
        return f"the longest request that would fit: {held.max_model_len_that_fits:,} tokens"
    return "nothing is left for the cache"


def _table(server: Server) -> Table:
    budget, held = server.budget, server.capacity
    terms = (
        ("the GPU", budget.total_bytes),
        ("may be used (--gpu-memory-utilization)", budget.requested_bytes),
        ("weights", budget.weights_bytes),
        ("workspace", budget.activation_bytes),
        ("CUDA context", budget.non_torch_bytes),
        ("CUDA graphs and buffers", budget.cuda_graph_bytes),
        ("left for KV", budget.kv_bytes),
        (f"one request of {held.max_model_len:,} tokens", server.request_bytes),
    )
    rows = ((name, format_bytes(size, "GB"), format_bytes(size, "GiB")) for name, size in terms)
    return Table(("On each GPU", "GB", "GiB"), tuple(rows))


def _title(server: Server) -> str:
    held, budget, report = server.capacity, server.budget, server.report
    if server.starts:
        return (
            f"It starts: room for {held.kv_cache_size_tokens:,} tokens, or "
            f"{format_number(held.max_concurrency)} requests of {held.max_model_len:,}"
        )
    free = format_bytes(report.free_at_start, "GiB")
    if not report.share_is_free:
        asked = format_bytes(budget.requested_bytes, "GiB")
        return f"It refuses: it may use {asked} of each GPU, and {free} are free"
    if not report.weights_load:
        weights = format_bytes(budget.weights_bytes, "GiB")
        return f"It runs out of memory: the weights take {weights} of each GPU, and {free} are free"
    if budget.kv_bytes <= 0:
        return "It refuses: weights, workspace and context leave nothing for the cache"
    return (
        f"It refuses: one request of {held.max_model_len:,} tokens takes"
        f" {format_bytes(server.request_bytes, 'GiB')}, the pool has"
        f" {format_bytes(held.kv_pool_bytes_per_gpu, 'GiB')}"
    )


def _caption(server: Server) -> str:
    held = server.capacity
    if server.starts:
        return (
            "Notice the line with the KV cache size: it is the capacity of this server, fixed from "
            "here on. The maximum length limits one request; the pool is shared by all of them."
        )
    if not server.report.share_is_free:
        return (
            "The CUDA context is there before vLLM looks at the GPU, so its whole memory is never "
            "free. Leave it some: a smaller --gpu-memory-utilization."
        )
    if not server.report.weights_load:
        return (
            "The weights load before anything is measured. Only a smaller model, smaller weights or"
            " more GPUs help."
        )
    if not held.max_model_len_that_fits:
        return (
            "The weights come first. A larger share of the GPU, a smaller model or more GPUs leave "
            "room for a cache; a shorter maximum length does not."
        )
    return (
        f"Three ways out: ask for at most {held.max_model_len_that_fits:,} tokens "
        "(--max-model-len), give the cache more memory (a larger --gpu-memory-utilization, or more "
        "GPUs), or make tokens smaller (--kv-cache-dtype fp8)."
    )


def _python(server: Server) -> str:
    command = shlex.join(server.command)
    return (
        "from kvdocs.widgets.startup import start\n\n"
        f"server = start({command!r}, gpu={server.gpu!r})\n"
        "log = server.log()\n"
        "print(server.capacity.num_gpu_blocks)"
    )


def draw(*, command: str, gpu: str, gpu_memory_utilization: float, **quick: str) -> View:
    """Draw the start of a server: its log, and the pool beside the longest request.

    Args:
        command: `vllm serve MODEL --flag value …`, or flags alone.
        gpu: Catalogue id of the GPU.
        gpu_memory_utilization: `--gpu-memory-utilization`, unless the command says otherwise.
        **quick: The other flags that have controls, or "".

    Raises:
        ParameterError: Something vLLM would not take, beside the command.
    """
    flags = {"gpu_memory_utilization": f"{gpu_memory_utilization:g}", **quick}
    try:
        server = start(command, gpu=gpu, quick=flags)
    except (FlagError, CatalogError, ConfigError) as error:
        raise ParameterError(str(error), name="command") from error
    held = server.capacity
    return View(
        title=_title(server),
        picture=h("div", _terminal(server), _comparison(server), _notes(server)),
        figures=_figures(server),
        caption=_caption(server),
        table=_table(server),
        python=_python(server),
        announce=(
            f"It starts with {held.num_gpu_blocks:,} blocks."
            if server.starts
            else f"It does not start; {_verdict(server)}."
        ),
    )


_LENGTH_OPTIONS: Final = (
    (UNSET, "the model's own"),
    *((str(length), f"{length:,}") for length in LENGTHS),
    ("-1", "-1: the longest that fits"),
)

STARTUP: Final = Widget(
    name="startup",
    controls=(
        Text(
            "command",
            "Command line, or flags alone (a flag typed here wins over its control below)",
            default=f"vllm serve {LESSON.model}",
            placeholder="--max-model-len 32K --kv-cache-dtype fp8",
            max_characters=4000,
            lines=2,
        ),
        Range(
            "gpu_memory_utilization",
            QUICK["gpu_memory_utilization"],
            minimum=0.2,
            maximum=0.98,
            step=0.01,
            default="0.9",
        ),
        Choice("max_model_len", QUICK["max_model_len"], _LENGTH_OPTIONS, UNSET),
        Choice(
            "kv_cache_dtype",
            QUICK["kv_cache_dtype"],
            ((UNSET, "auto (as the model)"), ("fp8", "fp8")),
            UNSET,
        ),
        Choice(
            "block_size",
            QUICK["block_size"],
            ((UNSET, "default"), *((str(size), str(size)) for size in (16, 32, 64, 128))),
            UNSET,
        ),
        Choice(
            "tensor_parallel_size",
            QUICK["tensor_parallel_size"],
            ((UNSET, "1"), *((str(size), str(size)) for size in (2, 4, 8))),
            UNSET,
        ),
        Choice(
            "prefix_caching",
            "Prefix sharing",
            ((UNSET, "on (default)"), ("off", _NO_SHARING)),
            UNSET,
        ),
        Choice("gpu", "GPU", tuple((name, get_gpu(name).name) for name in gpu_ids()), LESSON.gpu),
    ),
    draw=draw,
)
