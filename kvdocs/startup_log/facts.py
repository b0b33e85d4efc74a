"""One start's figures, asked for by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvdocs.model import Model
    from kvdocs.startup_log.interval import Interval
    from kvdocs.startup_log.lines import Reading
    from kvdocs.startup_log.reader import Row, Start
    from kvdocs.startup_log.text import Source

Severity = Literal["info", "warning", "error"]

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens in a block unless the log or a flag says otherwise: vLLM's default in every version
(`config/cache.py`)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion.

    Attributes:
        code: Stable kebab-case name for programs.
        text: A sentence with the numbers, for people.
        severity: `error` if the server cannot start so, `warning` if a reader would be misled or
            memory is wasted, else `info`.
    """

    code: str
    text: str
    severity: Severity = "info"


@dataclass(frozen=True, slots=True)
class KnownLayout:
    """What a config says of the model's KV cache, for comparison with a log.

    Attributes:
        bytes_per_token_per_gpu: Of the parts that grow with every token, on one GPU.
        bytes_per_token_all_layers: On one GPU, if every stage's layers stood on it.
        window_bytes_per_token: Of layers that forget beyond their window.
        constant_bytes_per_sequence: Of recurrent state.
        layers: Layers that keep anything.
        full_heads_bytes_per_token: What a latent cache cost on one GPU when vLLM still kept it as
            full heads (V0 before 0.7.1); 0 for other models.
        alternatives: Other reasons a log may show another figure: text to bytes per token.
    """

    bytes_per_token_per_gpu: float
    bytes_per_token_all_layers: float
    window_bytes_per_token: float = 0
    constant_bytes_per_sequence: float = 0
    layers: int = 0
    full_heads_bytes_per_token: float = 0
    alternatives: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_hybrid(self) -> bool:
        """Whether a request's bytes are not simply its tokens times a rate."""
        return bool(self.window_bytes_per_token or self.constant_bytes_per_sequence)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the findings may use of one start.

    Attributes:
        start: The start as read.
        settings: Flags by name: those of the log, overruled by those the caller gave.
        layout: What the config says, when one was given.
        model: The config itself, parsed.
    """

    start: Start
    settings: Mapping[str, str]
    layout: KnownLayout | None = None
    model: Model | None = None
    _readings: dict[str, list[tuple[Source, Reading]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for row in self.start.rows:
            for figure, reading in row.numbers.items():
                self._readings.setdefault(figure, []).append((row.source, reading))

    def rows(self, *names: str) -> list[Row]:
        """The rows of some line patterns, in order."""
        return [row for row in self.start.rows if row.name in names]

    def has(self, name: str) -> bool:
        """Whether a line pattern occurred."""
        return any(row.name == name for row in self.start.rows)

    def readings(self, figure: str) -> list[tuple[Source, Reading]]:
        """Every reading of a figure with who printed it."""
        return self._readings.get(figure, [])

    def last(self, figure: str) -> Reading | None:
        """The last reading of a figure: what the server settled on."""
        found = self.readings(figure)
        return found[-1][1] if found else None

    def lowest(self, figure: str) -> Reading | None:
        """The smallest reading of a figure: the rank that binds."""
        found = [reading for _, reading in self.readings(figure)]
        return min(found, key=_value) if found else None

    def interval(self, figure: str) -> Interval | None:
        """The interval of the last reading of a figure."""
        reading = self.last(figure)
        return reading.interval if reading else None

    def setting(self, name: str) -> float | None:
        """A flag's number."""
        return float(self.settings[name]) if name in self.settings else None

    def parallel(self, name: str) -> int:
        """A parallel size from the flags; 1 when not given."""
        return max(1, int(float(self.settings.get(f"{name}_parallel_size", "1"))))

    @property
    def max_model_len(self) -> float | None:
        """The longest request allowed, in tokens, from the lines or else the flags."""
        reading = self.last("max_model_len")
        return reading.value if reading else self.setting("max_model_len")

    @property
    def version(self) -> tuple[int, ...]:
        """The version of vLLM as numbers; empty when the log does not say."""
        for row in self.start.rows:
            if "vllm_version" in row.words:
                return _numbers(row.words["vllm_version"])
        return ()

    @property
    def is_v0(self) -> bool:
        """Whether the lines are of the engine of vLLM up to 0.10."""
        names = ("profile-0.6", "profile-total", "profile-parts", "refused-tokens")
        return any(self.has(name) for name in names) or self.last("num_cpu_blocks") is not None

    @property
    def engine(self) -> str:
        """Whose log it is, by most lines; empty when none is known."""
        counts = self.start.engines.most_common(1)
        return counts[0][0] if counts else ""


def _value(reading: Reading) -> float:
    return reading.value


def _numbers(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: "0.11.0rc2.dev98" is (0, 11, 0)."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
