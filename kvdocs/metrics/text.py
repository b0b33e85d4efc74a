"""The text format itself, whoever wrote it: Prometheus 0.0.4 and OpenMetrics 1.0.

Source: prometheus.io, "Exposition formats"; OpenMetrics 1.0, section 5. A line that is neither is
reported with its number, and reading goes on.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SAMPLE: Final = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+"
    rf'(?:\{{(?P<labels>[^"}}]*+(?:{_QUOTED}[^"}}]*+)*+)\}}[ \t]*+)?'
    r"(?P<value>[^ \t{}#]++)"
    r"(?:[ \t]++(?P<time>[^ \t{}#]++))?[ \t]*+(?:#.*+)?"  # after #: an OpenMetrics exemplar
)
_LABEL: Final = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t]*(,?)'
)
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_ESCAPE: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}
_SHOWN: Final = 80
_LONGEST_NUMBER: Final = 400


class Sample(NamedTuple):
    """One measured value.

    Attributes:
        name: As written, e.g. `vllm:prompt_tokens_total`.
        labels: Label values by name.
        value: The value; may be NaN or infinite.
        timestamp: As written (ms in Prometheus, s in OpenMetrics), or None without one.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: float | None = None


class Problem(NamedTuple):
    """A line that could not be read.

    Attributes:
        line_number: From 1.
        reason: What is wrong with it.
        line: Its beginning.
    """

    line_number: int
    reason: str
    line: str

    def __str__(self) -> str:
        return f"line {self.line_number}: {self.reason}: {self.line!r}"


class Comment(NamedTuple):
    """A `# HELP` or `# TYPE` line.

    Attributes:
        kind: `HELP`, `TYPE` or `UNIT`.
        name: The metric.
        text: What is said of it.
    """

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Exposition:
    """A whole page.

    Attributes:
        samples: In the order of the page.
        types: `counter`, `gauge`, `histogram`, ... by metric name.
        helps: Explanations by metric name.
        problems: Lines that could not be read.
    """

    samples: tuple[Sample, ...]
    types: Mapping[str, str]
    helps: Mapping[str, str]
    problems: tuple[Problem, ...]


def parse(source: str | Iterable[str]) -> Exposition:
    r"""Read a page into memory.

    Args:
        source: The text, or its lines.

    Examples:
        >>> page = parse('# TYPE up gauge\nup{job="a b"} 1\nwhat?\n')
        >>> page.samples[0].labels["job"], page.types["up"], page.problems[0].line_number
        ('a b', 'gauge', 3)
    """
    samples: list[Sample] = []
    problems: list[Problem] = []
    said: dict[str, dict[str, str]] = {"TYPE": {}, "HELP": {}, "UNIT": {}}
    for item in iterate(source):
        if isinstance(item, Sample):
            samples.append(item)
        elif isinstance(item, Problem):
            problems.append(item)
        else:
            said[item.kind].setdefault(item.name, item.text)
    return Exposition(tuple(samples), said["TYPE"], said["HELP"], tuple(problems))


def iterate(source: str | Iterable[str]) -> Iterator[Sample | Problem | Comment]:
    r"""Read a page line by line, without keeping it.

    Args:
        source: The text, or its lines.

    Yields:
        What each line that is not blank or a plain comment says.

    Examples:
        >>> [type(item).__name__ for item in iterate("a 1\n# HELP a b\n# hello\n}")]
        ['Sample', 'Comment', 'Problem']
    """
    lines = io.StringIO(source, newline=None) if isinstance(source, str) else source
    ended = False
    for number, raw in enumerate(lines, 1):
        line = raw.removeprefix("\ufeff").strip()
        if not line:
            continue
        if ended:
            yield Problem(number, "text after # EOF", line[:_SHOWN])
            return
        if line[0] != "#":
            yield _sample(number, line)
        elif line == "# EOF":
            ended = True
        elif (comment := _comment(line)) is not None:
            yield comment


def _comment(line: str) -> Comment | None:
    words = line[1:].split(None, 2)
    if len(words) < 2 or words[0] not in {"HELP", "TYPE", "UNIT"}:
        return None
    text = words[2] if len(words) > 2 else ""
    return Comment(words[0], words[1], _unescape(text) if words[0] == "HELP" else text)


def _sample(number: int, line: str) -> Sample | Problem:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return Problem(number, 'not of the form name{label="value"} number', line[:_SHOWN])
    name, raw_labels, raw_value, raw_time = match.groups()
    value = _number(raw_value)
    time = None if raw_time is None else _number(raw_time)
    if value is None or (raw_time is not None and time is None):
        wrong = raw_value if value is None else raw_time
        return Problem(number, f"{wrong[:_SHOWN]!r} is not a number", line[:_SHOWN])
    labels = _labels(raw_labels) if raw_labels else _NO_LABELS
    if labels is None:
        return Problem(number, "the labels cannot be read", line[:_SHOWN])
    return Sample(name, labels, value, time)


_NO_LABELS: Final[dict[str, str]] = {}


@functools.lru_cache(maxsize=4096)
def _labels(text: str) -> dict[str, str] | None:
    """The labels between the braces; a page repeats them, so they are kept."""
    labels: dict[str, str] = {}
    place, comma = 0, ","
    while match := _LABEL.match(text, place):
        if not comma or match[1] in labels:
            return None
        labels[match[1]] = _unescape(match[2])
        place, comma = match.end(), match[3]
    return labels if not text[place:].strip() else None


def _number(text: str) -> float | None:
    fits = len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text)
    return float(text) if fits else None


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _UNESCAPED.get(match[1], match[0]), text)


def format_value(value: float) -> str:
    """A number as prometheus_client 0.26 prints it (`utils.py` floatToGoString).

    Args:
        value: Any number.

    Examples:
        >>> format_value(3), format_value(12345678), format_value(float("inf"))
        ('3.0', '1.2345678e+07', '+Inf')
    """
    text = repr(float(value))
    if text in _SPECIAL:
        return _SPECIAL[text]
    dot = text.find(".")
    if value > 0 and dot > _MOST_DIGITS:
        digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0").rstrip(".")
        return f"{digits}e+{dot - 1:02d}"
    return text


_SPECIAL: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_MOST_DIGITS: Final = 6


def format_labels(labels: Mapping[str, str]) -> str:
    r"""Labels in braces, sorted and escaped; nothing for none.

    Args:
        labels: Label values by name.

    Examples:
        >>> format_labels({"model_name": 'a "b"', "engine": "0"})
        '{engine="0",model_name="a \\"b\\""}'
    """
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(labels[name])}"' for name in sorted(labels)) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
