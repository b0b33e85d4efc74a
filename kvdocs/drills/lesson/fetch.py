"""Step 19: how long KV is on its way, and from which length fetching it pays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvdocs.drills.drill import Drill, Misconception
from kvdocs.drills.kinds import Number, Prediction
from kvdocs.drills.lesson.plain_models import PLAIN_MODELS, PlainModel
from kvdocs.drills.prose import working
from kvdocs.drills.quantities import Count
from kvdocs.html import Element
from kvdocs.offload.crossing import Comparison, MoveOrRecompute
from kvdocs.offload.tier import read_route
from kvdocs.scenario import lesson_timer, size_lesson
from kvdocs.timing import Efficiency
from kvdocs.units import GB, format_bytes, format_number, format_seconds

REACHED: Final = Efficiency().link
"""Share of a link's peak that is reached."""
_GIGABITS: Final = (25, 40, 100, 200, 400)
_LEAST_MS: Final = 100
_LENGTHS: Final = (4096, 8192, 16_384, 32_768, 65_536)


@dataclass(frozen=True, slots=True)
class Fetch:
    """A prompt's KV on its way over a network.

    Attributes:
        model: The model.
        tokens: Tokens of the prompt.
        gigabits: The network's rate, in Gbit/s.
    """

    model: PlainModel
    tokens: int
    gigabits: int

    @property
    def num_bytes(self) -> int:
        """Bytes to fetch."""
        return self.tokens * self.model.bytes_per_token()

    @property
    def bytes_per_s(self) -> float:
        """What the network carries, all of it reached."""
        return self.gigabits * GB / 8

    @property
    def milliseconds(self) -> float:
        """How long it takes."""
        return 1e3 * self.num_bytes / (self.bytes_per_s * REACHED)


def _draw_fetch(rng: random.Random) -> Fetch:
    while True:
        model = PlainModel(rng.choice(PLAIN_MODELS))
        drawn = Fetch(model, rng.choice(_LENGTHS), rng.choice(_GIGABITS))
        if drawn.milliseconds >= _LEAST_MS:
            return drawn


def _fetch_question(p: Fetch) -> str:
    return (
        f"A prompt of {p.tokens:,} tokens for {p.model.name}, which keeps "
        f"{format_bytes(p.model.bytes_per_token(), 'KiB')} a token. Its KV lies on another "
        f"machine, behind a network sold as {p.gigabits} Gbit/s of which {REACHED:.0%} is "
        "reached. How many milliseconds does fetching it take?"
    )


def _fetch_misconceptions(p: Fetch) -> Iterator[Misconception]:
    truth = p.milliseconds
    yield Misconception(
        "took bits for bytes",
        truth / 8,
        f"Eight times too fast: {p.gigabits} Gbit/s are bits. A byte has eight.",
    )
    yield Misconception(
        "turned bits the wrong way",
        truth * 8,
        "Eight times too slow: you divided the link by eight twice, or counted the cache in bits.",
    )
    yield Misconception(
        "reached all of the link",
        truth * REACHED,
        f"That is at the rate on the box. Only {REACHED:.0%} of it is reached.",
    )
    yield Misconception(
        "reached all, in bytes",
        truth * REACHED / 8,
        f"That is {p.gigabits} gigabytes a second, all of it reached. The network is sold in bits, "
        f"and {REACHED:.0%} of it is reached.",
    )
    yield Misconception(
        "counted both directions",
        truth / 2,
        "Half of it: as if both directions carried the same bytes. A link's rate is that of one "
        "direction, and the KV travels one way.",
    )
    yield Misconception(
        "took a KiB for a thousand bytes",
        truth * 1000 / 1024,
        "That is with 1,000 bytes to a KiB. It has 1,024; the network's giga is 10⁹.",
    )


def _fetch_hints(p: Fetch) -> tuple[str, ...]:
    return (
        "First the bytes of the whole prompt, then the bytes a second that arrive.",
        f"The KV is {p.num_bytes:,} bytes.",
        (
            f"{p.gigabits} Gbit/s are {format_number(p.bytes_per_s / GB, 3)} GB/s, before anything "
            "is lost."
        ),
    )


def _fetch_solution(p: Fetch) -> tuple[str | Element, ...]:
    reached = p.bytes_per_s * REACHED
    return (
        working(
            (
                f"{p.tokens:,} × {p.model.bytes_per_token():,} B = {p.num_bytes / GB:.3f} GB",
                "the prompt's KV",
            ),
            (
                f"{p.gigabits} Gbit/s / 8 × {REACHED:g} = {format_number(reached / GB, 3)} GB/s",
                "what arrives",
            ),
            (
                (
                    f"{p.num_bytes / GB:.3f} / {format_number(reached / GB, 3)} = "
                    f"{p.milliseconds / 1e3:.3f} s"
                ),
                f"{_MILLISECONDS.show(p.milliseconds)}; the latency of some µs does not count",
            ),
        ),
        (
            "Networks are sold in bits, memory and disks in bytes. And NVLink is often sold as the "
            "sum of both directions: halve that first."
        ),
    )


_MILLISECONDS: Final = Count("milliseconds", ("ms", "millisecond"), digits=2)

FETCH_TIME: Final = Drill(
    id="time-to-fetch",
    kind=Number(_MILLISECONDS),
    first=Fetch(PlainModel("meta-llama/Llama-3.1-70B"), 8192, 100),
    draw=_draw_fetch,
    question=_fetch_question,
    answer=lambda p: p.milliseconds,
    misconceptions=_fetch_misconceptions,
    hints=_fetch_hints,
    solution=_fetch_solution,
)
"""Compute how long a prompt's KV takes over a network."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The lesson's server, and KV behind a network.

    Attributes:
        gigabits: The network's rate, in Gbit/s.
    """

    gigabits: int

    @property
    def both(self) -> MoveOrRecompute:
        """Fetching against computing."""
        return self._over(REACHED)

    @property
    def tokens(self) -> int:
        """Length from which fetching is faster."""
        return self.both.moves_from(_LONGEST)

    @property
    def straight(self) -> int:
        """The same by a straight line through the times that the question tells."""
        short, long = (self.both.at(tokens) for tokens in _KNOWN)
        fetch, low, high = (
            each / tokens
            for each, tokens in (
                (short.move_s, short.tokens),
                (short.recompute_s, short.tokens),
                (long.recompute_s, long.tokens),
            )
        )
        return round(short.tokens + (fetch - low) / (high - low) * (long.tokens - short.tokens))

    @property
    def tokens_at_peak(self) -> int:
        """The same if all of the network were reached."""
        return self._over(1.0).moves_from(_LONGEST)

    def _over(self, reached: float) -> MoveOrRecompute:
        route = read_route(f"{self.gigabits} Gbit/s")
        efficiency = Efficiency(link=reached)
        return MoveOrRecompute(lesson_timer(), size_lesson().cost, route, efficiency=efficiency)


_LONGEST: Final = 131_072
_KNOWN: Final = (1024, 32_768)
"""Lengths whose times the question tells."""


def _crossing_question(p: Crossing) -> str:
    short, long = (p.both.at(tokens) for tokens in _KNOWN)
    return (
        f"A developer's session lies on another machine, behind {p.gigabits} Gbit/s "
        f"({REACHED:.0%} of it reached); a token of it has 131,072 bytes. The lesson's H100 can "
        f"fetch its KV, or compute it again: {short.tokens:,} tokens in "
        f"{format_seconds(short.recompute_s)} ({_us(short)} each), {long.tokens:,} in "
        f"{format_seconds(long.recompute_s)} ({_us(long)} each). Long "
        "sessions are worth fetching. From about how many tokens on?"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


def _us(one: Comparison) -> str:
    """Microseconds to compute one of its tokens."""
    return f"{1e6 * one.recompute_s / one.tokens:.2f} µs"


def _crossing_misconceptions(p: Crossing) -> Iterator[Misconception]:
    yield Misconception(
        "always",
        1,
        "A copy is not faster by nature. Here a token takes longer to travel than to compute, "
        "unless the prompt is so long that attention weighs in.",
    )
    yield Misconception(
        "reached all of the link",
        p.tokens_at_peak,
        f"That is with all of the link. With {REACHED:.0%} of it, only longer ones are worth it.",
    )
    yield Misconception(
        "at the end",
        _LONGEST,
        "That is the longest prompt the model takes. It is worth it well before.",
    )


def _crossing_solution(p: Crossing) -> tuple[str | Element, ...]:
    at, (short, long) = p.both.at(p.tokens), (p.both.at(tokens) for tokens in _KNOWN)
    rate, tiny = p.gigabits / 8, p.both.stretches(_LONGEST)[0]
    return (
        working(
            (
                (
                    f"131,072 B / ({rate:g} GB/s × {REACHED:g}) = "
                    f"{1e6 * at.move_s / at.tokens:.2f} µs"
                ),
                "to fetch one token, at every length",
            ),
            (
                f"{_ms(short.recompute_s)} / {short.tokens:,} = {_us(short)}",
                "to compute one token of a short prompt",
            ),
            (
                f"{_ms(long.recompute_s)} / {long.tokens:,} = {_us(long)}",
                "of a long one: so much more for each token before it",
            ),
            (
                (
                    f"({1e6 * at.move_s / at.tokens:.2f} µs − {_us(short)}) / "
                    f"({_us(long)} − {_us(short)}) × {long.tokens - short.tokens:,} + "
                    f"{short.tokens:,} ≈ {round(p.straight, -2):,}"
                ),
                "where a straight line through both is as dear as fetching; exactly computed:",
            ),
            (
                f"{_ms(at.recompute_s)} / {at.tokens:,} = {_us(at)}",
                f"to compute one token of {at.tokens:,}: the crossing point",
            ),
        ),
        (
            "Each token of a prompt looks at all before it, so computing gets dearer by the token, "
            "and fetching does not."
        ),
        (
            f"Prompts of up to {tiny.last:,} tokens are fetched faster too: a step that computes "
            "them reads all the weights, however few they are."
        ),
    )


WHEN_FETCHING_PAYS: Final = Drill(
    id="when-fetching-pays",
    kind=Prediction(Count("tokens"), tolerance=0.1),
    first=Crossing(25),
    draw=lambda rng: Crossing(rng.choice((25, 28, 30, 32, 36, 40, 45, 50))),
    question=_crossing_question,
    answer=lambda p: p.tokens,
    misconceptions=_crossing_misconceptions,
    hints=lambda p: (
        (
            f"{p.gigabits} Gbit/s are {p.gigabits / 8:g} GB/s. How long is one token on its way, "
            f"with {REACHED:.0%} of that?"
        ),
        (
            "A token's time to compute grows by nearly the same amount with every thousand tokens "
            f"of the prompt: from {_us(p.both.at(_KNOWN[0]))} to {_us(p.both.at(_KNOWN[1]))} over "
            f"{_KNOWN[1] - _KNOWN[0]:,}. About where does it reach the time on the way?"
        ),
    ),
    solution=_crossing_solution,
)
"""Predict the crossing point of a network."""
