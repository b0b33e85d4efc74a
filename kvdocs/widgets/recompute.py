"""Widget `recompute`: the work and time of an answer with the cache, and without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from kvdocs.engine import StepLoad
from kvdocs.html import Element, h, svg
from kvdocs.scenario import lesson_timer
from kvdocs.timing import RooflineTimer
from kvdocs.units import format_number
from kvdocs.widgets.controls import Steps
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

MAX_OUTPUT: Final = 1024
"""Longest answer of the picture, in tokens."""
TIMES: Final = 100
"""The multiple whose place is sought."""
HEIGHT: Final = 100
"""Units of a drawing's height."""


def tokens_with_cache(prompt: int, output: int) -> int:
    """Tokens computed for an answer with the cache: the prompt, then each token but the last.

    Args:
        prompt: Tokens of the prompt.
        output: Tokens of the answer, 1 or more.

    Examples:
        >>> tokens_with_cache(512, 1), tokens_with_cache(512, 100)
        (512, 611)
    """
    return prompt + output - 1


def tokens_without_cache(prompt: int, output: int) -> int:
    """Tokens computed without it: each output token repeats everything so far.

    Args:
        prompt: Tokens of the prompt.
        output: Tokens of the answer, 1 or more.

    Examples:
        >>> tokens_without_cache(512, 1), tokens_without_cache(512, 3)  # 512 + 513 + 514
        (512, 1539)
    """
    return output * prompt + output * (output - 1) // 2


def first_output(reaches: Callable[[int], bool], limit: int) -> int:
    """Smallest output for which a growing ratio has been reached, `limit` + 1 if none has.

    Examples:
        >>> first_output(lambda output: output * output >= 50, 100)
        8
    """
    low, high = 1, limit + 1
    while low < high:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle + 1
    return low


def work_reaches(times: int, prompt: int) -> int:
    """Output tokens at which the work without the cache is so many times that with it.

    Args:
        times: The multiple.
        prompt: Tokens of the prompt.

    Examples:
        >>> work_reaches(100, 512)  # 110 x 512 + 110 x 109 / 2 = 62,315 >= 100 x 621
        110
    """

    def reached(output: int) -> bool:
        return tokens_without_cache(prompt, output) >= times * tokens_with_cache(prompt, output)

    return first_output(reached, 10**7)


def _step_seconds(timer: RooflineTimer, prompt: int) -> Iterator[tuple[float, float]]:
    """Yield the time of each output token's step, with the cache and without."""
    for made in range(MAX_OUTPUT):
        known = prompt + made
        without = timer.seconds(StepLoad(known, 1, known, known * (known + 1) // 2))
        cached = timer.seconds(StepLoad(1, 1, known, known)) if made else without
        yield cached, without


class Lines(NamedTuple):
    """A quantity for answers of 1, 2, … tokens.

    Attributes:
        cached: With the cache.
        without: Without it.
    """

    cached: Sequence[float]
    without: Sequence[float]


@lru_cache(maxsize=2)
def seconds(prompt: int) -> Lines:
    """Return the seconds of answers of 1, 2, … tokens.

    One request alone on the lesson's server, by the roofline (`kvdocs.timing`).

    Args:
        prompt: Tokens of the prompt.
    """
    cached, without = zip(*_step_seconds(lesson_timer(), prompt), strict=True)
    return Lines(tuple(accumulate(cached)), tuple(accumulate(without)))


def _line(values: Sequence[float], *, bottom: int, top: int) -> str:
    """Path of growing values on a scale of powers of ten; the points thin out as it flattens."""
    points = (index for index in range(len(values)) if index < 16 or not (index + 1) % 16)
    scale = HEIGHT / (top - bottom)
    return "M" + "L".join(
        f"{index + 1} {(top - math.log10(values[index])) * scale:.1f}" for index in points
    )


def _panel(
    name: str, lines: Lines, *, output: int, label: Callable[[float], str], mark: int = 0
) -> Element:
    """Draw two growing quantities against the output's length; `mark` is where to draw a line."""
    top = math.ceil(math.log10(lines.without[-1]))
    bottom = math.floor(math.log10(lines.cached[0]))
    decades = range(bottom, top + 1)
    grid = "".join(
        f"M0 {(top - each) * HEIGHT / (top - bottom):.1f}h{MAX_OUTPUT}" for each in decades
    )
    drawing = svg(
        "svg",
        svg("path", d=grid, class_="kv-grid"),
        svg("path", d=_line(lines.without, bottom=bottom, top=top), class_="kv-series-second"),
        svg("path", d=_line(lines.cached, bottom=bottom, top=top), class_="kv-series-first"),
        svg("path", d=f"M{mark} 0V{HEIGHT}", class_="kv-change-mark") if mark else None,
        svg("path", d=f"M{output} 0V{HEIGHT}", class_="kv-now"),
        view_box=f"0 0 {MAX_OUTPUT} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    ticks = (
        h("span", label(10.0**each), style=f"top:{100 * (top - each) / (top - bottom):.1f}%")
        for each in decades
    )
    now = f"{label(lines.without[output - 1])} without, {label(lines.cached[output - 1])} with"
    return h(
        "div",
        h("p", h("span", name), h("b", now), class_="kv-strip-name"),
        h("div", h("div", *ticks, class_="kv-ticks"), drawing, class_="kv-log-plot"),
        h(
            "div",
            *(h("span", f"{tokens:,}") for tokens in (0, 256, 512, 768, MAX_OUTPUT)),
            class_="kv-scale",
        ),
        h("p", "tokens of output", class_="kv-note kv-axis-name"),
        class_="kv-panel",
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:,.3g} s"


def _sample(name: str, text: str) -> Element:
    line = svg("path", d="M0 5h32", class_=f"kv-{name}")
    swatch = svg("svg", line, view_box="0 0 32 10", class_="kv-series-sample", aria_hidden="true")
    return h("li", swatch, h("span", text))


def _picture(prompt: int, output: int, work: Lines, time: Lines) -> Element:
    words = (
        f"Two charts against the output's length, on scales of powers of ten. After {output} "
        f"tokens: {work.without[output - 1]:,} tokens computed without the cache, "
        f"{work.cached[output - 1]:,} with it; {_seconds(time.without[output - 1])} against "
        f"{_seconds(time.cached[output - 1])}."
    )
    reached = work_reaches(TIMES, prompt)
    shown = reached <= MAX_OUTPUT
    mark = reached if shown else 0
    return h(
        "div",
        h(
            "ul",
            _sample(
                "series-second", "without the cache: every step repeats the prefill of all so far"
            ),
            _sample("series-first", "with the cache: every step computes one token"),
            _sample("change-mark", f"{TIMES} times the work: {reached:,} tokens")
            if shown
            else None,
            class_="kv-series",
        ),
        h(
            "div",
            _panel("Tokens computed", work, output=output, label=_count, mark=mark),
            _panel("Time on an H100", time, output=output, label=_seconds),
            class_="kv-panels",
        ),
        role="img",
        aria_label=words,
    )


def _figures(prompt: int, output: int, time: Lines) -> tuple[Figure, ...]:
    without, cached = tokens_without_cache(prompt, output), tokens_with_cache(prompt, output)
    slow, quick = time.without[output - 1], time.cached[output - 1]
    return (
        Figure(
            "reaches_100",
            f"Output at which it is {TIMES} times the work",
            f"{work_reaches(TIMES, prompt):,}",
            "tokens",
            f"smallest n: n × prompt + n (n − 1) ÷ 2 ≥ {TIMES} × (prompt + n − 1)",
        ),
        Figure(
            "work_ratio",
            f"Work of {output:,} tokens without the cache",
            f"{format_number(without / cached, 1)}",
            "times as much",
            f"{without:,} ÷ {cached:,} tokens computed",
        ),
        Figure(
            "time_ratio",
            "Time without the cache",
            f"{format_number(slow / quick, 1)}",
            "times as long",
            f"{_seconds(slow)} ÷ {_seconds(quick)}, one request alone, by roofline",
        ),
    )


def _table(prompt: int, time: Lines) -> Table:
    rows = tuple(
        (
            f"{output:,}",
            f"{tokens_without_cache(prompt, output):,}",
            f"{tokens_with_cache(prompt, output):,}",
            _seconds(time.without[output - 1]),
            _seconds(time.cached[output - 1]),
        )
        for output in (1, 4, 16, 64, 128, 256, 512, 1024)
    )
    head = ("Output tokens", "Computed without", "Computed with", "Time without", "Time with")
    return Table(head, rows)


def draw(*, output: int, prompt: int) -> View:
    """Draw the work and time of an answer with the cache and without.

    Args:
        output: Tokens of the answer.
        prompt: Tokens of the prompt.
    """
    lengths = range(1, MAX_OUTPUT + 1)
    work = Lines(
        [tokens_with_cache(prompt, length) for length in lengths],
        [tokens_without_cache(prompt, length) for length in lengths],
    )
    time = seconds(prompt)
    ratio = tokens_without_cache(prompt, output) / tokens_with_cache(prompt, output)
    return View(
        title=(
            f"Without the cache, an answer of {output:,} tokens is {format_number(ratio, 1)} "
            "times the work"
        ),
        picture=_picture(prompt, output, work, time),
        figures=_figures(prompt, output, time),
        caption=(
            "Notice that time grows apart later than work: a step that computes one token still "
            "reads all the weights, so short repeated prefills are almost free. The gap opens "
            "once a prefill keeps the arithmetic units busy for longer than that."
        ),
        table=_table(prompt, time),
        python=(
            "from kvdocs.widgets.recompute import work_reaches\n\n"
            f"print(work_reaches({TIMES}, {prompt}))"
        ),
        announce=f"{output:,} tokens: {format_number(ratio, 1)} times the work.",
    )


RECOMPUTE: Final = Widget(
    name="recompute",
    controls=(
        Timeline(
            name="output",
            label="Output tokens",
            minimum=1,
            maximum=MAX_OUTPUT,
            default="256",
            frame=8,
            interval_ms=60,
            calm_frame=64,
        ),
        Steps("prompt", "Prompt", (128, 256, 512, 1024, 2048, 4096, 8192), "512", unit="tokens"),
    ),
    draw=draw,
)
