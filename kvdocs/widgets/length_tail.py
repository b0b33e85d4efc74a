"""Widget `length-tail`: a pool filled again and again with requests of very unequal length."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kvdocs.html import Element, h, svg
from kvdocs.scenario import size_lesson
from kvdocs.widgets.controls import Steps
from kvdocs.widgets.timeline import Timeline
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget
from kvdocs.workload import LogNormal

FILLINGS: Final = 60
SHORTEST: Final = 128
"""Shortest request, in tokens."""
HEIGHT: Final = 100
"""Units of a drawing's height."""
_Z_95: Final = 1.6448536269514722
"""95% of a normal distribution lie below this many standard deviations."""


class Fillings:
    """Fillings of the lesson's pool, made when asked for: requests arrive until one does not fit.

    Args:
        median: Half of the requests are shorter, in tokens.
        tail: One request in 20 is longer than so many medians.
        longest: The longest request accepted, in tokens; longer draws become this long.

    Examples:
        >>> lengths = Fillings(4096, 4, 32768).lengths(1)
        >>> sum(lengths) <= 407_714 < sum(lengths) + 32768
        True
    """

    def __init__(self, median: int, tail: int, longest: int) -> None:
        self.distribution = LogNormal(
            median=median, p95=median * tail, low=SHORTEST, high=max(SHORTEST, longest)
        )
        self.pool = size_lesson().pool_tokens
        self._lengths: list[tuple[int, ...]] = []

    def lengths(self, number: int) -> tuple[int, ...]:
        """Return the lengths of the requests in a filling, from 1, in order of arrival."""
        while len(self._lengths) < number:
            rng = random.Random(f"filling {len(self._lengths)}")  # noqa: S311 - a workload
            self._lengths.append(self._fill(rng))
        return self._lengths[number - 1]

    def _fill(self, rng: random.Random) -> tuple[int, ...]:
        filled: list[int] = []
        left = self.pool
        while (drawn := self.distribution.draw(rng)) <= left:
            filled.append(drawn)
            left -= drawn
        return tuple(filled)

    def counts(self, number: int) -> list[int]:
        """Return how many requests fitted in each of the first fillings."""
        return [len(self.lengths(each)) for each in range(1, number + 1)]


@lru_cache(maxsize=2)
def fillings(median: int, tail: int, longest: int) -> Fillings:
    """Return the fillings for a distribution of lengths."""
    return Fillings(median, tail, longest)


def mean_length(distribution: LogNormal) -> float:
    """Mean of a log-normal distribution cut off at both ends, in tokens.

    With X = exp(mu + sigma Z): low P(X < low) + high P(X > high) + the mean of what lies between,
    exp(mu + sigma^2 / 2) times the normal weight between the ends shifted by sigma (Johnson, Kotz
    and Balakrishnan, Continuous Univariate Distributions, vol. 1, chapter 14).

    Args:
        distribution: The lengths.

    Examples:
        >>> round(mean_length(LogNormal(median=1000, p95=3000)))  # exp(mu + sigma^2 / 2)
        1250
    """
    mu = math.log(distribution.median)
    sigma = (math.log(distribution.p95) - mu) / _Z_95
    low = (math.log(distribution.low) - mu) / sigma
    high = (math.log(distribution.high) - mu) / sigma
    between = math.exp(mu + sigma * sigma / 2) * (_below(high - sigma) - _below(low - sigma))
    return distribution.low * _below(low) + distribution.high * (1 - _below(high)) + between


def _below(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


@dataclass(frozen=True, slots=True)
class Answer:
    """How many requests fit, by two ways to reckon.

    Attributes:
        mean: Mean length, in tokens.
        by_average: Pool over mean length.
        by_longest: Pool over the longest request accepted.
        counts: What really fitted in each filling so far.
    """

    mean: float
    by_average: int
    by_longest: int
    counts: list[int]

    @property
    def too_few(self) -> int:
        """Fillings in which fewer fitted than the average promises."""
        return sum(count < self.by_average for count in self.counts)


def answer(filled: Fillings, number: int) -> Answer:
    """Return both answers, and what happened in the first fillings.

    Args:
        filled: The fillings.
        number: How many of them.
    """
    mean = mean_length(filled.distribution)
    return Answer(
        mean=mean,
        by_average=int(filled.pool // mean),
        by_longest=filled.pool // filled.distribution.high,
        counts=filled.counts(number),
    )


# The picture ----------------------------------------------------------------------------------


def _pool_bar(filled: Fillings, number: int) -> Element:
    """Draw the requests of a filling in the pool, to scale; the longest stands out."""
    lengths = filled.lengths(number)
    longest = lengths.index(max(lengths)) if lengths else None
    paths = {"odd": "", "even": "", "longest": ""}
    start = 0
    for index, length in enumerate(lengths):
        name = "longest" if index == longest else ("even", "odd")[index % 2]
        paths[name] += f"M{start} 0h{length}v{HEIGHT}h-{length}z"
        start += length
    return svg(
        "svg",
        *(svg("path", d=path, class_=f"kv-filled-{name}") for name, path in paths.items() if path),
        view_box=f"0 0 {filled.pool} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )


def _right(most: int) -> int:
    """Return the end of an axis that holds the largest number, with round quarters."""
    unit = 4 * (5 if most < 100 else 25)
    return (most // unit + 1) * unit


def _histogram(found: Answer) -> Element:
    """Draw how often how many requests fitted, with both answers."""
    right = _right(max(found.by_average, found.by_longest, *found.counts))
    often = Counter(found.counts)
    top = 1 + max(3, *often.values())
    bars = "".join(
        f"M{count + 0.1} {HEIGHT}v-{HEIGHT * times / top:.1f}h0.8V{HEIGHT}z"
        for count, times in sorted(often.items())
    )
    last = found.counts[-1]
    newest = f"M{last + 0.1} {HEIGHT}v-{HEIGHT * often[last] / top:.1f}h0.8V{HEIGHT}z"
    drawing = svg(
        "svg",
        svg("path", d=bars, class_="kv-times"),
        svg("path", d=newest, class_="kv-times-now"),
        svg("path", d=f"M{found.by_longest + 0.5} 0V{HEIGHT}", class_="kv-series-first"),
        svg("path", d=f"M{found.by_average + 0.5} 0V{HEIGHT}", class_="kv-series-second"),
        view_box=f"0 0 {right} {HEIGHT}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )
    ticks = (h("span", f"{right * share // 4:,}") for share in range(5))
    axis = h("div", *ticks, class_="kv-scale", aria_hidden="true")
    return h("div", drawing, axis, class_="kv-histogram")


def _sample(name: str, text: str) -> Element:
    line = svg("path", d="M0 5h32", class_=f"kv-series-{name}")
    swatch = svg("svg", line, view_box="0 0 32 10", class_="kv-series-sample", aria_hidden="true")
    return h("li", swatch, h("span", text))


def _picture(filled: Fillings, number: int, found: Answer) -> Element:
    lengths = filled.lengths(number)
    longest = max(lengths, default=0)
    words = (
        f"Filling {number}: {len(lengths)} requests fill the pool, the longest of {longest:,} "
        f"tokens. Over {number} fillings between {min(found.counts)} and {max(found.counts)} "
        "fitted."
    )
    return h(
        "div",
        h(
            "p",
            h("span", f"Filling {number}: the pool, to scale"),
            h("b", f"{len(lengths)} requests; the longest, marked, has {longest:,} tokens"),
            class_="kv-strip-name",
        ),
        h("div", _pool_bar(filled, number), class_="kv-filling"),
        h(
            "p",
            h("span", "How many requests fitted, and how often"),
            h("b", f"{min(found.counts)} to {max(found.counts)} in {number} fillings"),
            class_="kv-strip-name",
        ),
        _histogram(found),
        h(
            "ul",
            _sample("first", f"sized from the longest request: {found.by_longest}"),
            _sample("second", f"sized from the average request: {found.by_average}"),
            class_="kv-series",
        ),
        class_="kv-tail",
        role="img",
        aria_label=words,
    )


def _figures(filled: Fillings, found: Answer) -> tuple[Figure, ...]:
    pool, longest = filled.pool, filled.distribution.high
    return (
        Figure(
            "by_longest",
            "Sized from the longest request",
            f"{found.by_longest:,}",
            "at once",
            f"{pool:,} ÷ {longest:,} tokens",
        ),
        Figure(
            "by_average",
            "Sized from the average request",
            f"{found.by_average:,}",
            "at once",
            f"{pool:,} ÷ {found.mean:,.0f} tokens",
        ),
        Figure(
            "too_few",
            "Fillings with fewer than the average says",
            f"{found.too_few}",
            f"of {len(found.counts)}",
            f"fewest: {min(found.counts)}",
        ),
    )


def _table(filled: Fillings, found: Answer) -> Table:
    rows = tuple(
        (
            str(number),
            str(count),
            f"{sum(filled.lengths(number)):,}",
            f"{max(filled.lengths(number)):,}",
        )
        for number, count in enumerate(found.counts, 1)
    )
    return Table(("Filling", "Requests that fitted", "Tokens", "Longest, tokens"), rows)


def draw(*, filling: int, median: int, tail: int, longest: int) -> View:
    """Draw one filling of the pool, and what all so far have shown.

    Args:
        filling: Which, from 1.
        median: Half of the requests are shorter, in tokens.
        tail: One request in 20 is longer than so many medians.
        longest: `--max-model-len`: the longest request accepted.
    """
    filled = fillings(median, tail, longest)
    found = answer(filled, filling)
    share = found.too_few / filling
    return View(
        title=(
            f"The average promises {found.by_average} requests at once; in {share:.0%} of the "
            "fillings fewer fitted"
        ),
        picture=_picture(filled, filling, found),
        figures=_figures(filled, found),
        caption=(
            "Notice that the average is a middle and not a floor: whenever long requests come "
            "together, fewer fit, and the rest must wait or be preempted. Sized from the longest "
            "request that is accepted, the number always holds, whoever comes; that is what the "
            "start-up log's maximum concurrency is."
        ),
        table=_table(filled, found),
        python=(
            "from kvdocs.widgets.length_tail import answer, fillings\n\n"
            f"print(answer(fillings({median}, {tail}, {longest}), {filling}).by_longest)"
        ),
        announce=f"Filling {filling}: {found.counts[-1]} requests fitted.",
    )


LENGTH_TAIL: Final = Widget(
    name="length-tail",
    controls=(
        Timeline(
            name="filling",
            label="Filling",
            minimum=1,
            maximum=FILLINGS,
            default="20",
            interval_ms=500,
        ),
        Steps("median", "Median length", (1024, 2048, 4096, 8192), "1024", unit="tokens"),
        Steps("tail", "1 in 20 is longer than", (2, 4, 8, 16), "8", unit="medians"),
        Steps("longest", "--max-model-len", (16384, 32768, 65536, 131072), "32768", unit="tokens"),
    ),
    draw=draw,
)
