"""Widget `concurrency`: requests at once against their length, for two set-ups side by side.

Every point comes from `kvdocs.sizing`: where a model keeps windows or states the curve bends, as
vLLM's own arithmetic does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from kvdocs.catalog import get_gpu, get_model
from kvdocs.errors import ConfigError, FlagError, ParameterError
from kvdocs.flags import ServerFlags
from kvdocs.html import Element, h, svg
from kvdocs.model import LayerKind, kv_cost
from kvdocs.scenario import LESSON, weights_bytes
from kvdocs.sizing import (
    Budget,
    Capacity,
    capacity,
    default_max_num_batched_tokens,
    lesson_budget,
    share_of,
    stored_flags,
)
from kvdocs.units import GB, format_number
from kvdocs.widgets.chart import FIRST, INK, PAPER, SECOND, Chart, rows
from kvdocs.widgets.controls import Choice, Steps
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

SHORTEST: Final = 1024
LONGEST: Final = 1_048_576
MARKED: Final = (8192, 32_768, 131_072)
"""Lengths at which the number stands beside the curve."""
MODELS: Final = (
    ("meta-llama/Llama-3.1-8B", "Llama 3.1 8B"),
    ("meta-llama/Llama-3.1-70B", "Llama 3.1 70B"),
    ("meta-llama/Llama-2-7b-hf", "Llama 2 7B"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama 4 Scout"),
    ("Qwen/Qwen3-8B", "Qwen3 8B"),
    ("Qwen/Qwen3-32B", "Qwen3 32B"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3 Next 80B"),
    ("mistralai/Mistral-Small-24B-Instruct-2501", "Mistral Small 24B"),
    ("google/gemma-3-12b-it", "Gemma 3 12B"),
    ("google/gemma-3-27b-it", "Gemma 3 27B"),
    ("google/gemma-3n-E4B-it", "Gemma 3n E4B"),
    ("openai/gpt-oss-20b", "gpt-oss 20B"),
    ("openai/gpt-oss-120b", "gpt-oss 120B"),
    ("deepseek-ai/DeepSeek-V3", "DeepSeek V3"),
    ("ai21labs/Jamba-v0.1", "Jamba"),
    ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "Nemotron Super 49B"),
)
GPUS: Final = (
    "lesson-h100-80gb",
    "h100-sxm-80gb",
    "h200-sxm-141gb",
    "b200-sxm-180gb",
    "mi300x-192gb",
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "l40s-48gb",
    "l4-24gb",
    "rtx-4090-24gb",
    "rtx-5090-32gb",
)
CACHE_DTYPES: Final = (("auto", "bf16 cache"), ("fp8", "fp8 cache"))
COUNTS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Setup:
    """A server to compare.

    Attributes:
        letter: How it is called in the picture.
        model: Catalogue id of the model.
        gpu: Catalogue id of the GPU.
        num_gpus: GPUs the model is split over (`--tensor-parallel-size`).
        kv_cache_dtype: `--kv-cache-dtype`.
    """

    letter: str
    model: str
    gpu: str
    num_gpus: int
    kv_cache_dtype: str

    @property
    def name(self) -> str:
        """The set-up in a few words."""
        card = get_gpu(self.gpu).name
        cards = card if self.num_gpus == 1 else f"{self.num_gpus} × {card}"
        cache = ", fp8 cache" if self.kv_cache_dtype == "fp8" else ""
        return f"{dict(MODELS)[self.model]} on {cards}{cache}"


@dataclass(frozen=True, slots=True)
class Curve:
    """How many requests of each length a set-up holds.

    Attributes:
        setup: The set-up.
        points: Length in tokens and requests at once, as vLLM's log prints it, ascending.
        limit: The model's own longest request.
        fits: The longest request that fits, at most `limit`; 0 when the server does not start.
        pool_bytes: KV memory of all its GPUs, or of each where they hold copies.
        copies: What they hold copies of, in words; "" where nothing is copied.
    """

    setup: Setup
    points: tuple[tuple[int, float], ...]
    limit: int
    fits: int
    pool_bytes: int
    copies: str

    def requests(self, tokens: int) -> int:
        """Whole requests of that length at once; 0 where the server would not start with it."""
        if tokens > self.fits:
            return 0
        return int(dict(self.points)[tokens])

    @property
    def pool(self) -> str:
        """The pool in words."""
        each = f" on each GPU ({self.copies})" if self.copies else ""
        return f"{format_number(self.pool_bytes / GB)} GB{each}"

    def why_none(self, tokens: int) -> str:
        """Why `requests` is 0 for that length."""
        if not self.fits:
            return "does not start: the weights leave nothing for the cache"
        if tokens > self.limit:
            return f"its model takes at most {self.limit:,} tokens"
        return f"refused at start: at most {self.fits:,} tokens fit"


def lengths(longest: int) -> tuple[int, ...]:
    """Return the lengths a curve is computed at: powers of two, and the longest.

    Examples:
        >>> lengths(5000)
        (1024, 2048, 4096, 5000)
    """
    reach = min(longest, LONGEST)
    powers = [2**power for power in range(10, 21) if 2**power <= reach]
    return tuple(sorted({*powers, reach})) if reach else ()


def budget(setup: Setup) -> Budget:
    """Return what each GPU of a set-up has, in the lesson's round numbers."""
    card, entry = get_gpu(setup.gpu), get_model(setup.model)
    lesson = lesson_budget(
        card,
        weights_bytes=weights_bytes(entry),
        tensor_parallel_size=setup.num_gpus,
        utilization=LESSON.utilization,
    )
    return replace(lesson, total_bytes=card.total_memory_bytes)


def batch_tokens(setup: Setup) -> int:
    """Return the tokens per step that vLLM takes by default on a set-up's GPU."""
    return default_max_num_batched_tokens(get_gpu(setup.gpu), ServerFlags())


@lru_cache(maxsize=64)
def curve(setup: Setup) -> Curve:
    """Compute a set-up's curve.

    Raises:
        FlagError: A split or dtype that vLLM refuses for this model.
        ConfigError: A cache dtype that cannot store the model's heads.
    """
    model = get_model(setup.model).model
    asked = ServerFlags(
        tensor_parallel_size=setup.num_gpus, kv_cache_dtype=setup.kv_cache_dtype, max_model_len=1
    )
    flags = stored_flags(model, get_gpu(setup.gpu), asked)
    memory, batch = budget(setup), batch_tokens(setup)

    def held(tokens: int) -> Capacity:
        longer = replace(flags, max_model_len=tokens)
        return capacity(model, memory, longer, max_num_batched_tokens=batch)

    shortest = held(1)
    limit = model.max_model_len or LONGEST
    fits = min(shortest.max_model_len_that_fits, limit) if shortest.starts else 0
    points = tuple((tokens, held(tokens).max_concurrency) for tokens in lengths(fits))
    cost = kv_cost(model, kv_cache_dtype=flags.kv_cache_dtype, tensor_parallel_size=setup.num_gpus)
    share = share_of(model, cost, shortest)
    return Curve(setup, points, limit, fits, share.pool_bytes, share.copies)


def _read_curve(setup: Setup) -> Curve:
    try:
        return curve(setup)
    except (FlagError, ConfigError) as error:
        name = f"num_gpus_{setup.letter.lower()}"
        raise ParameterError(f"{setup.letter}: {error}", name=name) from error


_LEAST_REQUESTS: Final = 1
_TEXT: Final = {"text": {"field": "label", "type": "nominal"}}


def _axes(first: Curve, second: Curve) -> dict[str, Any]:
    """Return both scales, the same whether one set-up starts, both or none."""
    reach = max(first.fits, second.fits, MARKED[-1])
    most = max(value for _, value in (*first.points, *second.points, (0, 10.0)))
    return {
        "x": {
            "field": "tokens",
            "type": "quantitative",
            "title": "tokens in each request",
            "scale": {"type": "log", "base": 2, "domain": [SHORTEST, min(reach, LONGEST)]},
            "axis": {
                "grid": False,
                "labelExpr": "datum.value < 1048576 ? datum.value / 1024 + 'K' : '1M'",
                "values": [2**power for power in range(10, 21, 2)],
            },
        },
        "y": {
            "field": "requests",
            "type": "quantitative",
            "title": "requests at once",
            "scale": {"type": "log", "domain": [_LEAST_REQUESTS, most]},
            "axis": {"format": ",d", "values": [1, 10, 100, 1000, 10_000], "titlePadding": 4},
        },
    }


@dataclass(frozen=True, slots=True)
class _Look:
    """What tells one curve from the other, beside its letter."""

    colour: str
    dash: tuple[int, int]
    shape: str
    size: int
    below: bool

    @property
    def number(self) -> dict[str, Any]:
        """The mark of a number that stands clear of the curve."""
        text = {"type": "text", "baseline": "middle", "fontSize": 13, "fontWeight": 600}
        if self.below:
            return text | {"align": "right", "dx": -9, "dy": 9}
        return text | {"align": "left", "dx": 9, "dy": -7}

    @property
    def letter(self) -> dict[str, Any]:
        """The mark of the curve's name, at its start."""
        place = {"align": "left", "dx": 4, "dy": 26 if self.below else -12}
        return self.number | place | {"color": self.colour, "fontSize": 15}


def _points(points: list[tuple[int, float]], labels: list[str]) -> dict[str, Any]:
    tokens, requests = zip(*points, strict=True)
    return rows(tokens=tokens, requests=requests, label=tuple(labels))


def _series(drawn: Curve, look: _Look, axes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a curve's layers: line, marks with their numbers, and its letter."""
    shown = [point for point in drawn.points if point[1] >= _LEAST_REQUESTS]
    if not shown:
        return []
    letter = drawn.setup.letter
    marked = [point for point in shown if point[0] in MARKED] or shown[-1:]
    line = {"type": "line", "color": look.colour, "strokeWidth": 2.5, "strokeDash": look.dash}
    point = {"type": "point", "shape": look.shape, "filled": True, "opacity": 1}
    marks = (
        {"mark": point | {"size": look.size, "color": look.colour}},
        {"mark": look.number | {"stroke": PAPER, "strokeWidth": 4}, "encoding": _TEXT},
        {"mark": look.number | {"color": look.colour}, "encoding": _TEXT},
    )
    numbers = _points(marked, [f"{int(value):,}" for _, value in marked])
    return [
        {"data": _points(shown, [letter] * len(shown)), "mark": line, "encoding": axes},
        {"data": numbers, "encoding": axes, "layer": marks},
        {"data": _points(shown[:1], [letter]), "mark": look.letter, "encoding": axes | _TEXT},
    ]


def _chart(first: Curve, second: Curve, tokens: int) -> Chart:
    axes = _axes(first, second)
    here = {
        "data": rows(tokens=(tokens,)),
        "mark": {
            "type": "rule",
            "color": INK,
            "strokeWidth": 1,
            "strokeDash": [2, 3],
            "clip": True,
        },
        "encoding": {"x": axes["x"]},
    }
    lower = _runs_below(first, second)
    # The circle is larger, so that it is seen where the square lies on it.
    one = _Look(FIRST, (1, 0), "circle", size=130, below=lower)
    other = _Look(SECOND, (7, 4), "square", size=60, below=not lower)
    label = (
        "Requests at once against tokens in each request, both axes logarithmic. "
        f"{_said(first)} {_said(second)}"
    )
    return Chart(
        {"layer": [here, *_series(first, one, axes), *_series(second, other, axes)]}, label
    )


def _runs_below(first: Curve, second: Curve) -> bool:
    """Whether the first curve runs mostly below the second."""
    theirs = dict(second.points)
    shared = [value < theirs[tokens] for tokens, value in first.points if tokens in theirs]
    return sum(shared) * 2 > len(shared)


def _said(drawn: Curve) -> str:
    if not drawn.fits:
        return f"{drawn.setup.letter}, {drawn.setup.name}, does not start."
    counts = ", ".join(
        f"{drawn.requests(tokens):,} of {tokens:,}" for tokens in MARKED if tokens <= drawn.fits
    )
    return f"{drawn.setup.letter}, {drawn.setup.name}: {counts}."


def _key_line(drawn: Curve, css: str) -> Element:
    shape = (
        svg("circle", cx=20, cy=7, r=4.5, class_=f"{css} kv-series-mark")
        if drawn.setup.letter == "A"
        else svg("rect", x=16, y=3, width=8, height=8, class_=f"{css} kv-series-mark")
    )
    sample = svg(
        "svg",
        svg("path", d="M0 7H40", class_=css),
        shape,
        view_box="0 0 40 14",
        class_="kv-series-sample",
        aria_hidden="true",
    )
    pool = f"KV pool of {drawn.pool}"
    end = "does not start" if not drawn.fits else f"{pool}, up to {drawn.fits:,} tokens"
    return h("li", h("b", drawn.setup.letter), sample, h("span", f"{drawn.setup.name}: {end}"))


def _picture(first: Curve, second: Curve, tokens: int) -> Element:
    key = h(
        "ul",
        _key_line(first, "kv-series-first"),
        _key_line(second, "kv-series-second"),
        class_="kv-series",
    )
    note = (
        "Requests as vLLM's start-up log counts them. Both axes are logarithmic; the upright line "
        "is the length chosen below. A curve ends "
        "where one request no longer fits, or at the model's own limit."
    )
    if not (first.fits or second.fits):
        note = "Nothing is drawn: neither server starts. Choose more GPUs, or larger ones."
    notes = (h("p", text, class_="kv-note") for text in (note, *_text_parts(first, second)))
    return h("div", key, _chart(first, second, tokens).element(), *notes)


def _text_parts(first: Curve, second: Curve) -> tuple[str, ...]:
    """Say of which models the text part alone is counted."""
    shown = dict.fromkeys((first.setup.model, second.setup.model))
    parts = " and ".join(dict(MODELS)[model] for model in shown if get_model(model).is_text_part)
    if not parts:
        return ()
    return (
        (
            f"Of {parts} the text part is counted, as with --language-model-only; vision weights "
            "take some more of the pool."
        ),
    )


def _figure(drawn: Curve, tokens: int) -> Figure:
    requests = drawn.requests(tokens)
    setup = drawn.setup
    formula = f"in a pool of {drawn.pool}" if requests else drawn.why_none(tokens)
    return Figure(
        f"requests_{setup.letter.lower()}",
        f"{setup.letter}: requests of {tokens:,} tokens at once",
        f"{requests:,}",
        "",
        formula,
    )


def _figures(first: Curve, second: Curve, tokens: int) -> tuple[Figure, ...]:
    one, other = first.requests(tokens), second.requests(tokens)
    figures = [_figure(first, tokens), _figure(second, tokens)]
    if one and other:
        more, fewer = max(one, other), min(one, other)
        holder = "A holds" if one >= other else "B holds"
        value = format_number(more / fewer)
        figures.append(Figure("ratio", holder, value, "times as many", f"{more:,} ÷ {fewer:,}"))
    return tuple(figures)


def _cell(drawn: Curve, tokens: int) -> str:
    count = drawn.requests(tokens)
    return f"{count:,}" if count else "none"


def _table(first: Curve, second: Curve) -> Table:
    longest = max(first.fits, second.fits, SHORTEST)
    shown = [tokens for tokens in lengths(LONGEST) if tokens <= longest]
    head = ("Tokens in each request", f"A: {first.setup.name}", f"B: {second.setup.name}")
    table_rows = ((f"{tokens:,}", _cell(first, tokens), _cell(second, tokens)) for tokens in shown)
    return Table(head, tuple(table_rows))


def _title(first: Curve, second: Curve, tokens: int) -> str:
    names = [dict(MODELS)[drawn.setup.model] for drawn in (first, second)]
    if names[0] == names[1]:
        names = ["A", "B"]
    takes = (
        f"{name} takes {_cell(drawn, tokens)} at once" if drawn.fits else f"{name} does not start"
        for name, drawn in zip(names, (first, second), strict=True)
    )
    return f"At {tokens:,} tokens a request: {'; '.join(takes)}"


def _bends(drawn: Curve) -> bool:
    return get_model(drawn.setup.model).model.is_hybrid and drawn.fits > SHORTEST


def _in_flight(drawn: Curve) -> str:
    """Why a window's bend comes later than the window."""
    sliding = get_model(drawn.setup.model).model.group(LayerKind.SLIDING)
    if not sliding:
        return ""
    batch, window = batch_tokens(drawn.setup), max(group.window for group in sliding)
    return (
        f" Their window is {window:,} tokens, but the bend comes past {2 * batch:,}: for each"
        f" such layer vLLM also counts room for two batches, of up to {batch:,} tokens each, that"
        " are being computed."
    )


def _caption(first: Curve, second: Curve) -> str:
    bent = [drawn for drawn in (first, second) if _bends(drawn)]
    straight = "Notice the straight line: twice the length, half the requests. "
    if not bent:
        return straight + "The memory moves the line up and down; nothing but the layers bends it."
    who = " and ".join(drawn.setup.letter for drawn in bent)
    verb = "bend" if len(bent) > 1 else "bends"
    return (
        f"{straight}{who} {verb}: some layers keep only the last tokens, or a state of fixed size."
        + _in_flight(bent[0])
    )


def _python(setup: Setup, tokens: int) -> str:
    return (
        "from kvdocs.widgets.concurrency import Setup, curve\n\n"
        f"server = Setup('A', {setup.model!r}, {setup.gpu!r},"
        f" {setup.num_gpus}, {setup.kv_cache_dtype!r})\n"
        f"print(curve(server).requests({tokens}))"
    )


def draw(*, tokens: int, **chosen: Any) -> View:
    """Draw two set-ups' requests at once against the length of each.

    Args:
        tokens: Length the figures are for.
        **chosen: `model_a`, `gpu_a`, `num_gpus_a`, `kv_cache_dtype_a`, and the same for b.

    Raises:
        ParameterError: A split or a cache dtype that vLLM refuses for the model.
    """
    first, second = (
        _read_curve(
            Setup(
                letter.upper(),
                chosen[f"model_{letter}"],
                chosen[f"gpu_{letter}"],
                int(chosen[f"num_gpus_{letter}"]),
                chosen[f"kv_cache_dtype_{letter}"],
            )
        )
        for letter in "ab"
    )
    return View(
        title=_title(first, second, tokens),
        picture=_picture(first, second, tokens),
        figures=_figures(first, second, tokens),
        caption=_caption(first, second),
        table=_table(first, second),
        python=_python(first.setup, tokens),
        announce=(
            f"{tokens:,} tokens: A holds {first.requests(tokens):,} requests, "
            f"B holds {second.requests(tokens):,}."
        ),
    )


def _setup_controls(letter: str, model: str) -> tuple[Choice, ...]:
    upper = letter.upper()
    cards = tuple((name, get_gpu(name).name) for name in GPUS)
    counts = tuple((str(count), f"{count} GPU{'s' * (count > 1)}") for count in COUNTS)
    return (
        Choice(f"model_{letter}", f"{upper}: model", MODELS, model),
        Choice(f"gpu_{letter}", f"{upper}: GPU", cards, LESSON.gpu),
        Choice(f"num_gpus_{letter}", f"{upper}: GPUs", counts, "1"),
        Choice(f"kv_cache_dtype_{letter}", f"{upper}: cache", CACHE_DTYPES, "auto"),
    )


CONCURRENCY: Final = Widget(
    name="concurrency",
    controls=(
        Steps("tokens", "Tokens in each request", lengths(LONGEST), "8192", "tokens"),
        *_setup_controls("a", LESSON.model),
        *_setup_controls("b", "google/gemma-3-12b-it"),
    ),
    draw=draw,
)
