"""Widget `cheat-sheet`: the whole lesson on one page, for any model and GPU, to be printed."""

from __future__ import annotations

import re
from typing import Final

from kvdocs.catalog import get_gpu, gpu_ids, model_ids
from kvdocs.html import Element, Node, h
from kvdocs.scenario import CONVERSATION_TOKENS, LESSON
from kvdocs.sheet import Grid, Line, Part, Subject, parts, read_subject
from kvdocs.units import format_bytes
from kvdocs.widgets.controls import Choice, Steps, Text
from kvdocs.widgets.memory import MemoryKind, Segment, memory_bar
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

CACHE_DTYPES: Final = (("auto", "auto (as the model: bf16)"), ("fp8", "fp8"))
GPU_COUNTS: Final = (("1", "1"), ("2", "2"), ("4", "4"), ("8", "8"))
TOKENS: Final = tuple(2**power for power in range(10, 18))
_CODE: Final = re.compile(r"`([^`]+)`")


def step_link(step: int) -> Element:
    """Return a link to a step; the site knows where its page is.

    Examples:
        >>> str(step_link(4))
        '<a href="step:4" class="kv-sheet-step" aria-label="Step 4">4</a>'
    """
    return h("a", str(step), href=f"step:{step}", class_="kv-sheet-step", aria_label=f"Step {step}")


def _words(text: str) -> tuple[Node, ...]:
    """Set what stands in backticks as code."""
    pieces = _CODE.split(text)
    return tuple(
        h("code", piece) if index % 2 else piece for index, piece in enumerate(pieces) if piece
    )


def _line(line: Line) -> Element:
    return h(
        "li",
        h("b", *_words(line.what), class_="kv-sheet-what"),
        h("span", *_words(line.how), class_="kv-sheet-how"),
        h("span", line.value, class_="kv-sheet-value") if line.value else None,
        step_link(line.step),
    )


def _grid(grid: Grid) -> Element:
    head = h("tr", *(h("th", title, scope="col") for title in grid.head))
    rows = (
        h("tr", h("th", row[0], scope="row"), *(h("td", cell) for cell in row[1:]))
        for row in grid.rows
    )
    table = h("table", h("thead", head), h("tbody", *rows), class_="kv-sheet-table")
    return h("li", table, step_link(grid.step), class_="kv-sheet-grid")


def _part(part: Part) -> Element:
    lines = (_grid(line) if isinstance(line, Grid) else _line(line) for line in part.lines)
    return h(
        "section",
        h("p", part.title, class_="kv-sheet-title"),
        h("ul", *lines),
        class_="kv-sheet-part",
    )


def _bar(subject: Subject) -> Element:
    budget = subject.budget
    segments = (
        Segment(MemoryKind.WEIGHTS, budget.weights_bytes),
        Segment(MemoryKind.WORKSPACE, budget.activation_bytes + budget.cuda_graph_bytes),
        Segment(MemoryKind.CONTEXT, budget.non_torch_bytes),
        Segment(MemoryKind.KV_FREE, budget.kv_bytes),
        Segment(MemoryKind.UNTOUCHED, budget.total_bytes - budget.requested_bytes),
    )
    each = "each GPU" if subject.num_gpus > 1 else "the GPU"
    return memory_bar(
        segments,
        total_bytes=budget.total_bytes,
        limit_bytes=budget.requested_bytes,
        limit_text=f"vLLM may use {budget.utilization:g} of {each}",
    )


def _dtype_word(subject: Subject) -> str:
    return "fp8" if subject.cost.element_bytes == 1 else "16-bit"


def _name(subject: Subject) -> str:
    return f"{subject.checkpoint.name} on {subject.hardware}, {_dtype_word(subject)} cache"


def _picture(subject: Subject) -> Element:
    note = (
        "Memory, tokens and sequences are exact for these round numbers; times are a roofline, "
        "right to about a third. A number at a line's end is the step that explains it."
    )
    return h(
        "div",
        h("p", h("b", "The KV cache on one page"), f" · {_name(subject)}", class_="kv-sheet-head"),
        _bar(subject),
        h("div", *(_part(part) for part in parts(subject)), class_="kv-sheet-parts"),
        h("p", note, class_="kv-note"),
        h("kv-print"),
        class_="kv-sheet",
    )


def _figures(subject: Subject) -> tuple[Figure, ...]:
    cost = subject.cost
    per_token = cost.bytes_per_token or cost.window_bytes_per_token
    return (
        Figure(
            "sequences",
            f"Sequences of {subject.tokens:,} tokens at once",
            f"{subject.at_once(subject.tokens):,}",
        ),
        Figure("kv_pool_tokens", "Tokens the pool holds", f"{subject.pool_tokens:,}", "tokens"),
        Figure(
            "kv_bytes_per_token",
            "KV bytes per token",
            f"{per_token:,}",
            "B",
            f"= {format_bytes(per_token, 'KiB')}",
        ),
    )


def _table(subject: Subject) -> Table:
    rows = tuple(
        (line.what.replace("`", ""), line.how.replace("`", ""), line.value, str(line.step))
        for part in parts(subject)
        for line in part.lines
        if isinstance(line, Line)
    )
    return Table(("Line", "How", "Figure", "Step"), rows)


def _python(subject: Subject, model: str, gpu: str, *, pasted: bool) -> str:
    subject_arguments = [
        'config=Path("config.json").read_text("utf-8"),' if pasted else f"model={model!r},",
        f"gpu={gpu!r},",
        f"num_gpus={subject.num_gpus},",
        f"kv_cache_dtype={subject.flags.kv_cache_dtype!r},",
        f"tokens={subject.tokens},",
    ]
    return "\n".join(
        [
            *(["from pathlib import Path", ""] if pasted else []),
            "from kvdocs.sheet import parts, read_subject",
            "",
            "subject = read_subject(",
            *(f"    {argument}" for argument in subject_arguments),
            ")",
            "sheet = parts(subject)",
            "print(subject.at_once(subject.tokens))",
        ]
    )


def draw(
    *,
    model: str,
    gpu: str,
    num_gpus: str,
    kv_cache_dtype: str,
    tokens: int,
    config: str,
    weights: str,
) -> View:
    """Draw the sheet of a server.

    Args:
        model: Catalogue id, used while `config` is empty.
        gpu: Catalogue id of the GPU.
        num_gpus: `--tensor-parallel-size`.
        kv_cache_dtype: `--kv-cache-dtype`.
        tokens: Tokens of a sequence.
        config: Text of a `config.json`, or "".
        weights: Parameters or bytes of a pasted model's weights, or "".
    """
    subject = read_subject(
        model=model,
        gpu=gpu,
        num_gpus=int(num_gpus),
        kv_cache_dtype=kv_cache_dtype,
        tokens=tokens,
        config=config,
        weights=weights,
    )
    fits = subject.at_once(subject.tokens)
    return View(
        title=f"{_name(subject)}: {fits:,} sequences of {subject.tokens:,} tokens at once",
        picture=_picture(subject),
        figures=_figures(subject),
        caption=(
            "Notice that four figures carry the rest: the pool, bytes per token, tokens per "
            "sequence, and the bandwidth that every step reads them with."
        ),
        table=_table(subject),
        python=_python(subject, model, gpu, pasted=bool(config.strip())),
        announce=f"{_name(subject)}: {fits:,} sequences of {subject.tokens:,} tokens.",
    )


CHEAT_SHEET: Final = Widget(
    name="cheat-sheet",
    controls=(
        Choice("model", "Model", tuple((name, name) for name in model_ids()), LESSON.model),
        Choice("gpu", "GPU", tuple((name, get_gpu(name).name) for name in gpu_ids()), LESSON.gpu),
        Choice("num_gpus", "GPUs (--tensor-parallel-size)", GPU_COUNTS, "1"),
        Choice("kv_cache_dtype", "KV cache dtype", CACHE_DTYPES, "auto"),
        Steps("tokens", "Tokens per sequence", TOKENS, str(CONVERSATION_TOKENS), "tokens"),
        Text(
            "weights",
            "Weights of a pasted model, if it asks: parameters (8.03B) or memory (15 GiB)",
            lines=1,
            max_characters=60,
        ),
        Text(
            "config",
            "Or paste a config.json: it then stands in for the model above",
            placeholder='{"num_hidden_layers": 32, "hidden_size": 4096, …}',
            lines=2,
        ),
    ),
    draw=draw,
    controls_first=True,
)
