"""Widget `move-or-recompute`: fetching KV against computing it, over the prompt's length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.catalog import get_gpu, get_model, gpu_ids, model_ids
from kvdocs.errors import KvdocsError, ParameterError
from kvdocs.html import Element, h, svg
from kvdocs.model import kv_cost
from kvdocs.offload.crossing import MoveOrRecompute, Stretch
from kvdocs.offload.tier import Route, get_route, read_route, routes
from kvdocs.scenario import LESSON
from kvdocs.timing import RooflineTimer, Weights
from kvdocs.units import GIB, format_bytes, format_number, format_seconds
from kvdocs.widgets.controls import Choice, Steps, Text
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

SHORTEST: Final = 32
LONGEST: Final = 131_072
PROMPTS: Final = tuple(2**power for power in range(5, 18))
"""Prompts to choose from, in tokens."""
HEIGHT: Final = 100
WIDTH: Final = 1000
_POINTS: Final = 60
_TICKS: Final = ("32", "256", "2K", "16K", "128K")
_CACHE_DTYPES: Final = (("auto", "bf16 (or the model's)"), ("fp8", "fp8"))
_GPU_COUNTS: Final = tuple((str(count), str(count)) for count in (1, 2, 4, 8))


@dataclass(frozen=True, slots=True)
class Setup:
    """What is compared.

    Attributes:
        model: Catalogue id of the model.
        gpu: Catalogue id of the GPU.
        num_gpus: GPUs that split the model.
        route: Where KV comes from.
        kv_cache_dtype: `--kv-cache-dtype`.
        batch: Prompts at once.
    """

    model: str = LESSON.model
    gpu: str = LESSON.gpu
    num_gpus: int = 1
    route: Route = get_route("ethernet-25")  # noqa: RUF009 - a frozen entry of the catalogue
    kv_cache_dtype: str = "auto"
    batch: int = 1

    @property
    def longest(self) -> int:
        """Longest prompt looked at: what the model takes, up to the chart's end."""
        return min(get_model(self.model).model.max_model_len or LONGEST, LONGEST)

    @property
    def weights_fit(self) -> bool:
        """Whether the GPUs' memory holds the weights."""
        weights = Weights.from_entry(get_model(self.model))
        num_bytes = weights.num_parameters * weights.bytes_per_parameter
        return num_bytes <= self.num_gpus * get_gpu(self.gpu).memory_bytes


@lru_cache(maxsize=8)
def comparison(setup: Setup) -> MoveOrRecompute:
    """Return both times as functions of the prompt's length.

    Args:
        setup: What is compared.

    Raises:
        KvdocsError: A model that cannot be split so, or a cache dtype it does not have.

    Examples:
        >>> comparison(Setup()).moves_from(LONGEST)
        78646
    """
    entry = get_model(setup.model)
    weights = Weights.from_entry(entry)
    timer = RooflineTimer(
        model=entry.model,
        weights=weights,
        gpu=get_gpu(setup.gpu),
        kv_cache_dtype=setup.kv_cache_dtype,
        tensor_parallel_size=setup.num_gpus,
    )
    cost = kv_cost(
        entry.model,
        kv_cache_dtype=timer.kv_cache_dtype,
        tensor_parallel_size=setup.num_gpus,
    )
    return MoveOrRecompute(timer, cost, setup.route, batch=setup.batch)


# The picture ----------------------------------------------------------------------------------


def _lengths(longest: int) -> list[int]:
    """Lengths spread evenly over the logarithmic axis."""
    ratio = (longest / SHORTEST) ** (1 / (_POINTS - 1))
    return [round(SHORTEST * ratio**place) for place in range(_POINTS)]


def _across(tokens: float) -> float:
    """Place of a length on the axis."""
    share = math.log(tokens / SHORTEST) / math.log(LONGEST / SHORTEST)
    return round(WIDTH * min(max(share, 0.0), 1.0), 1)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Powers of ten from the bottom to the top."""

    bottom: int
    top: int

    @classmethod
    def of(cls, values: Sequence[float]) -> _Scale:
        bottom, top = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(bottom, max(top, bottom + 1))

    def down(self, value: float) -> float:
        """Place of a value, from the top."""
        return round(HEIGHT * (self.top - math.log10(value)) / (self.top - self.bottom), 1)

    @property
    def decades(self) -> range:
        """The powers of ten on it."""
        return range(self.bottom, self.top + 1)


def _path(lengths: Sequence[int], values: Sequence[float], scale: _Scale) -> str:
    points = zip(lengths, values, strict=True)
    return "M" + "L".join(f"{_across(tokens):g} {scale.down(value):g}" for tokens, value in points)


def _won(stretches: Sequence[Stretch]) -> str:
    """Path of the areas over which moving is faster."""
    return "".join(
        f"M{_across(max(one.first, SHORTEST)):g} 0V{HEIGHT}H{_across(one.last):g}V0z"
        for one in stretches
        if one.moves and one.last > SHORTEST
    )


def _sample(name: str, text: str) -> Element:
    shape = "M0 1h32v8h-32z" if name == "moves" else "M0 5h32"
    line = svg("path", d=shape, class_=f"kv-{name}")
    swatch = svg("svg", line, view_box="0 0 32 10", class_="kv-series-sample", aria_hidden="true")
    return h("li", swatch, h("span", text))


def _crossing(stretches: Sequence[Stretch]) -> int:
    """The length from which moving is faster to the end; 0 where there is none."""
    last = stretches[-1]
    return last.first if last.moves and last.first > 1 else 0


def _key(setup: Setup, stretches: Sequence[Stretch]) -> Element:
    crossing = _crossing(stretches)
    return h(
        "ul",
        _sample("series-first", f"fetch the KV: {setup.route.name}"),
        _sample("series-second", "compute it again"),
        _sample("moves", "where fetching is faster"),
        _sample("change-mark", f"crossing point: {crossing:,} tokens") if crossing else None,
        class_="kv-series",
    )


def _drawing(setup: Setup, tokens: int, stretches: Sequence[Stretch]) -> Element:
    both = comparison(setup)
    lengths = _lengths(setup.longest)
    found = [both.at(length) for length in lengths]
    moving, computing = [one.move_s for one in found], [one.recompute_s for one in found]
    scale = _Scale.of([*moving, *computing])
    grid = "".join(f"M0 {scale.down(10.0**each):g}h{WIDTH}" for each in scale.decades)
    crossing = _crossing(stretches)
    drawing = svg(
        "svg",
        svg("path", d=_won(stretches), class_="kv-moves"),
        svg("path", d=grid, class_="kv-grid"),
        svg("path", d=_path(lengths, computing, scale), class_="kv-series-second"),
        svg("path", d=_path(lengths, moving, scale), class_="kv-series-first"),
        svg("path", d=f"M{_across(crossing):g} 0V{HEIGHT}", class_="kv-change-mark")
        if crossing >= SHORTEST
        else None,
        svg("path", d=f"M{_across(tokens):g} 0V{HEIGHT}", class_="kv-now"),
        view_box=f"0 0 {WIDTH} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    ticks = (
        h("span", f"{value} {unit}", style=f"top:{scale.down(10.0**each):g}%")
        for each in scale.decades
        for value, unit in (_time(10.0**each),)
    )
    return h("div", h("div", *ticks, class_="kv-ticks"), drawing, class_="kv-log-plot")


def _picture(setup: Setup, tokens: int, stretches: Sequence[Stretch]) -> Element:
    now = comparison(setup).at(tokens)
    fetch, compute = format_seconds(now.move_s), format_seconds(now.recompute_s)
    words = (
        f"Time against the prompt's length, both on scales of powers. At {tokens:,} tokens: "
        f"{fetch} to fetch, {compute} to compute. {_title(setup, stretches)}."
    )
    return h(
        "div",
        _key(setup, stretches),
        h(
            "p",
            h("span", "Time until the KV is on the GPU, by tokens of the prompt"),
            h("b", f"{tokens:,} tokens: {fetch} to fetch, {compute} to compute"),
            class_="kv-strip-name",
        ),
        _drawing(setup, tokens, stretches),
        h(
            "div",
            *(h("span", tick) for tick in _TICKS),
            class_="kv-scale",
        ),
        *(h("p", note, class_="kv-note") for note in _notes(setup)),
        role="img",
        aria_label=words,
    )


# Words ----------------------------------------------------------------------------------------


def _notes(setup: Setup) -> Iterator[str]:
    """What the controls do not say of a model."""
    if setup.longest < LONGEST:
        yield f"{setup.model} takes at most {setup.longest:,} tokens: its curves end there."
    if not setup.weights_fit:
        gpus = "these GPUs" if setup.num_gpus > 1 else "this GPU"
        yield f"{setup.model} is too large for {gpus} (times as if its weights fitted)."


def _title(setup: Setup, stretches: Sequence[Stretch]) -> str:
    where = f"over {setup.route.name}"
    wins = [one for one in stretches if one.moves]
    last = stretches[-1]
    if len(stretches) == 1:
        way = "Fetching KV" if last.moves else "Computing KV again"
        return (
            f"{way} {where} is faster at every length"
            if last.moves
            else (f"{way} is faster at every length than fetching it {where}")
        )
    if last.moves:
        tiny = f"Up to {wins[0].last:,} and from" if len(wins) > 1 else "From"
        return f"{tiny} {last.first:,} tokens on, fetching KV {where} is faster than computing it"
    return f"Beyond {wins[-1].last:,} tokens, computing KV is faster than fetching it {where}"


def _size(num_bytes: float) -> str:
    return format_bytes(num_bytes, "GiB" if num_bytes >= GIB else "MiB")


def _rate(bytes_per_s: float) -> str:
    return f"{format_number(bytes_per_s / 1e9, 3)} GB/s"


def _figures(setup: Setup, tokens: int) -> tuple[Figure, ...]:
    both = comparison(setup)
    now, crossing = both.at(tokens), both.moves_from(setup.longest)
    reached = 0.6 * setup.route.bytes_per_s
    never = crossing > setup.longest
    prompts = f"{setup.batch} × {tokens:,}" if setup.batch > 1 else f"{tokens:,}"
    return (
        Figure(
            "crossing",
            "Fetching is faster" if crossing == 1 else "Fetching is faster from",
            "–" if never else "at every length" if crossing == 1 else f"{crossing:,}",
            "" if never or crossing == 1 else "tokens on",
            f"looked for up to {setup.longest:,} tokens",
        ),
        Figure(
            "move",
            f"Fetching {prompts} tokens",
            *_time(now.move_s),
            f"{_size(now.num_bytes)} ÷ {_rate(reached)} (60% of {_rate(setup.route.bytes_per_s)})",
        ),
        Figure(
            "recompute",
            f"Computing {prompts} tokens",
            *_time(now.recompute_s),
            "one prefill, nothing else running, by roofline",
        ),
        Figure(
            "break_even",
            "Peak bandwidth at which both take as long",
            format_number(both.break_even_bytes_per_s(tokens) / 1e9),
            "GB/s",
            f"{format_number(8 * both.break_even_bytes_per_s(tokens) / 1e9, 1)} Gbit/s; a peak, of "
            "which 60% is delivered",
        ),
    )


def _time(seconds: float) -> tuple[str, str]:
    """A time and its unit; minutes are written out."""
    value, _, unit = format_seconds(seconds).partition(" ")
    return (value, unit) if " " not in unit else (f"{seconds:,.0f}", "s")


def _table(setup: Setup) -> Table:
    both = comparison(setup)
    rows = []
    for tokens in PROMPTS:
        if tokens <= setup.longest:
            now = both.at(tokens)
            rows.append(
                (
                    f"{tokens:,}",
                    _size(now.num_bytes),
                    format_seconds(now.move_s),
                    format_seconds(now.recompute_s),
                    "fetching" if now.moves else "computing",
                )
            )
    return Table(("Tokens", "KV on one GPU", "Fetching", "Computing", "Faster"), tuple(rows))


def _python(setup: Setup, own: str) -> str:
    return (
        "from kvdocs.offload import read_route\n"
        "from kvdocs.widgets.move_or_recompute import Setup, comparison\n\n"
        f"route = read_route({(own or setup.route.id)!r})\n"
        f"setup = Setup({setup.model!r}, {setup.gpu!r}, {setup.num_gpus}, route,\n"
        f"    {setup.kv_cache_dtype!r}, {setup.batch})\n"
        "print(comparison(setup).moves_from(setup.longest))"
    )


def _route(link: str, own: str) -> Route:
    """The reader's own link, else the chosen one."""
    if not own.strip():
        return get_route(link)
    try:
        return read_route(own)
    except KvdocsError:
        raise ParameterError(
            f"Your own link: {own.strip()[:40]!r} is no bandwidth; write 40 Gbit/s, or 5 GB/s",
            name="own",
        ) from None


def draw(
    *,
    tokens: int,
    model: str,
    gpu: str,
    num_gpus: str,
    link: str,
    own: str,
    kv_cache_dtype: str,
    batch: int,
) -> View:
    """Draw both times against the prompt's length.

    Args:
        tokens: Length of the prompt whose figures are shown.
        model: Catalogue id.
        gpu: Catalogue id.
        num_gpus: GPUs that split the model.
        link: Id of a route.
        own: The reader's own link; "" for none.
        kv_cache_dtype: `--kv-cache-dtype`.
        batch: Prompts of that length at once.
    """
    setup = Setup(model, gpu, int(num_gpus), _route(link, own), kv_cache_dtype, batch)
    tokens = min(tokens, max(prompt for prompt in PROMPTS if prompt <= setup.longest))
    stretches = comparison(setup).stretches(setup.longest)
    title = _title(setup, stretches)
    return View(
        title=title,
        picture=_picture(setup, tokens, stretches),
        figures=_figures(setup, tokens),
        caption=(
            "Notice the two shapes. Fetching is a straight line: twice the tokens, twice the time. "
            "Computing starts flat, as even one token reads all the weights, and bends up at the "
            "end, as attention grows with the square of the length. So very short prompts and long "
            "ones are the first that are worth fetching."
        ),
        table=_table(setup),
        python=_python(setup, own.strip()),
        announce=f"{title}.",
        params={"tokens": str(tokens)},
    )


def _options(names: Sequence[str], shown: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, shown(name)) for name in names)


MOVE_OR_RECOMPUTE: Final = Widget(
    name="move-or-recompute",
    controls=(
        Steps("tokens", "Prompt", PROMPTS, "32768", unit="tokens"),
        Choice(
            "link",
            "The KV comes over",
            tuple((route.id, f"{route.name}, {_rate(route.bytes_per_s)}") for route in routes()),
            "ethernet-25",
        ),
        Text("own", "or your own link", placeholder="40 Gbit/s, or 5 GB/s", lines=1),
        Choice("model", "Model", _options(model_ids(), str), LESSON.model),
        Choice("gpu", "GPU", _options(gpu_ids(), lambda name: get_gpu(name).name), LESSON.gpu),
        Choice("num_gpus", "GPUs that split it", _GPU_COUNTS, "1"),
        Choice("kv_cache_dtype", "KV cache dtype", _CACHE_DTYPES, "auto"),
        Steps("batch", "Such prompts at once", (1, 2, 4, 8, 16, 32), "1"),
    ),
    draw=draw,
)
