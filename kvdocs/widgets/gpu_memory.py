"""Widget `gpu-memory`: a GPU's memory as one bar, as vLLM divides it when it starts."""

from __future__ import annotations

from typing import Final

from kvdocs.catalog import get_gpu, gpu_ids, model_ids
from kvdocs.html import Element, h
from kvdocs.scenario import LESSON, LessonSize, size_lesson
from kvdocs.units import GB, GIB, MIB, format_bytes, format_number
from kvdocs.widgets.controls import Choice, Range
from kvdocs.widgets.memory import MemoryKind, Segment, memory_bar
from kvdocs.widgets.view import NONE, Figure, Table, View
from kvdocs.widgets.widget import Widget

CACHE_DTYPES: Final = (("auto", "auto (as the model: bf16)"), ("fp8", "fp8"))


def _segments(size: LessonSize) -> tuple[Segment, ...]:
    budget = size.budget
    return (
        Segment(MemoryKind.WEIGHTS, budget.weights_bytes),
        Segment(MemoryKind.WORKSPACE, budget.activation_bytes),
        Segment(MemoryKind.CONTEXT, budget.non_torch_bytes),
        Segment(MemoryKind.KV_FREE, max(0, budget.kv_bytes)),
        Segment(MemoryKind.UNTOUCHED, budget.total_bytes - budget.requested_bytes),
    )


def _columns(row: tuple[str, str, str]) -> Element:
    """One line of nvidia-smi; on a narrow screen the memory goes below the name."""
    name, *rest = row
    return h("span", h("span", name), h("span", *rest, "\n"), class_="kv-smi-columns")


def _nvidia_smi(size: LessonSize) -> Element:
    total = size.gpu.nvidia_smi_memory_bytes // MIB
    starts = size.has_pool and size.capacity.starts
    used = int(size.budget.requested_bytes // MIB) if starts else 0
    rows = (
        ("| GPU  Name                           ", "|          Memory-Usage ", "| GPU-Util |"),
        (
            f"|   0  {size.gpu.name[:30]:<30} ",
            f"| {f'{used}MiB / {total}MiB':>21} ",
            "|       0% |",
        ),
    )
    return h(
        "pre",
        h("samp", "dgx-1 $ nvidia-smi\n", *map(_columns, rows)),
        class_="kv-screen",
        tabindex=0,
        role="region",
        aria_label="What nvidia-smi prints before the first request",
    )


def _picture(size: LessonSize) -> Element:
    budget = size.budget
    share = format_number(budget.utilization, 2)
    requested = format_number(budget.requested_bytes / GB)
    reach, segments = budget.total_bytes, _segments(size)
    if not size.has_pool:
        reach = max(budget.total_bytes, budget.weights_bytes)
        segments = segments[:1]
    bar = memory_bar(
        segments,
        total_bytes=reach,
        limit_bytes=budget.requested_bytes,
        limit_text=f"vLLM may use {share} of the GPU: {requested} GB",
    )
    return h("div", bar, _nvidia_smi(size))


def _tokens_formula(size: LessonSize) -> str:
    if size.has_pool and not size.capacity.starts:
        return f"not one request of {size.capacity.max_model_len:,} fits"
    if size.cost.windows or size.cost.constant_bytes_per_sequence:
        return (
            f"in requests of {size.capacity.max_model_len:,}:"
            f" {format_number(size.capacity.max_concurrency)} at once"
        )
    pool = format_number(size.budget.kv_bytes / GB)
    return f"{pool} GB ÷ {size.cost.bytes_per_token:,} B a token"


def _no_server(size: LessonSize) -> tuple[Figure, ...]:
    """The figures where the weights leave nothing."""
    short = format_number(-size.budget.kv_bytes / GB)
    return (
        Figure("kv_pool_tokens", "Tokens the pool holds", NONE, "", "there is no pool"),
        Figure("kv_pool_bytes", "Left for the KV pool", NONE, "", f"{short} GB are missing"),
        Figure("requested_bytes", "Claimed by vLLM", NONE, "", "it does not start"),
    )


def _figures(size: LessonSize) -> tuple[Figure, ...]:
    if not size.has_pool:
        return _no_server(size)
    budget = size.budget
    requested = Figure(
        "requested_bytes",
        "Claimed by vLLM, before any request",
        format_number(budget.requested_bytes / GIB),
        "GiB",
        f"{format_number(budget.utilization)} × {format_number(budget.total_bytes / GB)} GB "
        f"= {format_number(budget.requested_bytes / GB)} GB",
    )
    pool = Figure(
        "kv_pool_bytes",
        "Left for the KV pool",
        format_number(budget.kv_bytes / GB),
        "GB",
        f"{format_number(budget.requested_bytes / GB)} − {format_number(budget.weights_bytes / GB)}"
        f" − {format_number(budget.activation_bytes / GB)}"
        f" − {format_number(budget.non_torch_bytes / GB)} GB",
    )
    tokens = Figure(
        "kv_pool_tokens",
        "Tokens the pool holds",
        f"{size.pool_tokens:,}" if size.pool_tokens else NONE,
        "tokens" if size.pool_tokens else "",
        _tokens_formula(size),
    )
    return tokens, pool, requested


def _table(size: LessonSize) -> Table:
    rows = tuple(
        (
            segment.kind.word,
            format_number(segment.num_bytes / GB),
            format_number(segment.num_bytes / GIB),
            f"{segment.num_bytes / size.budget.total_bytes:.1%}",
        )
        for segment in _segments(size)
    )
    return Table(("Memory", "GB", "GiB", "of the GPU"), rows)


def _title(size: LessonSize) -> str:
    share = size.budget.requested_bytes / size.budget.total_bytes
    if not size.has_pool:
        need = format_bytes(size.budget.weights_bytes, "GB")
        return f"{size.model.id} does not start here: its weights alone are {need}"
    if not size.capacity.starts:
        pool = format_bytes(size.budget.kv_bytes, "GB")
        length = size.capacity.max_model_len
        return (
            f"{size.model.id} starts here only with a shorter --max-model-len: one request of "
            f"{length:,} tokens does not fit {pool}"
        )
    return (
        f"{share:.0%} of this GPU is taken before the first request; "
        f"{size.budget.kv_bytes / size.budget.total_bytes:.0%} is KV pool, still empty"
    )


def _caption(size: LessonSize) -> str:
    if not size.has_pool:
        return (
            "The weights come first. Where they leave nothing, there is no KV pool and no server: "
            "choose a smaller model, a larger GPU, or spread the model over several."
        )
    return (
        "Notice what moves and what does not: weights, workspace and CUDA context keep their size, "
        "so the pool takes the whole change. The bar is to scale."
    )


def draw(*, model: str, gpu: str, utilization: float, kv_cache_dtype: str) -> View:
    """Draw how vLLM divides a GPU's memory at start-up.

    Args:
        model: Catalogue id of the model.
        gpu: Catalogue id of the GPU.
        utilization: Share of the whole GPU, vLLM's `--gpu-memory-utilization`.
        kv_cache_dtype: vLLM's `--kv-cache-dtype`.
    """
    size = size_lesson(model=model, gpu=gpu, utilization=utilization, kv_cache_dtype=kv_cache_dtype)
    arguments = (
        f"model={model!r},\n    gpu={gpu!r},\n    utilization={utilization:g},\n"
        f"    kv_cache_dtype={kv_cache_dtype!r},"
    )
    python = f"from kvdocs.scenario import size_lesson\n\nsize = size_lesson(\n    {arguments}\n)\n"
    return View(
        title=_title(size),
        picture=_picture(size),
        figures=_figures(size),
        caption=_caption(size),
        table=_table(size),
        python=f"{python}print(size.pool_tokens)",
        announce=f"The KV pool holds {size.pool_tokens:,} tokens.",
    )


GPU_MEMORY: Final = Widget(
    name="gpu-memory",
    controls=(
        Range(
            "utilization",
            "--gpu-memory-utilization",
            minimum=0.5,
            maximum=0.98,
            step=0.01,
            default="0.9",
        ),
        Choice("model", "Model", tuple((name, name) for name in model_ids()), LESSON.model),
        Choice("gpu", "GPU", tuple((name, get_gpu(name).name) for name in gpu_ids()), LESSON.gpu),
        Choice("kv_cache_dtype", "KV cache dtype", CACHE_DTYPES, "auto"),
    ),
    draw=draw,
)
