"""Trace files of real services, read line by line."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.files import MARK, read_workload
from kvdocs.workload.lines import Source, numbered, shorten
from kvdocs.workload.request import Blocks, Unshared, WorkloadRequest

MOONCAKE_BLOCK: Final = 512
"""Tokens in a block of the Mooncake traces (kvcache-ai/Mooncake `FAST25-release/traces`)."""

_AZURE_FIELDS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_AZURE_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_MOST_TOKENS: Final = 10**9
_MOST_SECONDS: Final = 2**22


def read_trace(source: Source) -> Iterator[WorkloadRequest]:
    """Read a trace, whichever of the known formats it has.

    Known are Mooncake's JSON lines (`timestamp` in ms, `input_length`, `output_length`,
    `hash_ids` of 512-token blocks), Azure's CSV (TIMESTAMP, ContextTokens, GeneratedTokens) and
    what `write_workload` writes. Blank lines, Windows line ends and a byte order mark do no harm.

    Args:
        source: A `Path`, the text itself, or its lines; it is read as requests are asked for.

    Yields:
        The requests in the file's order. Arrivals count from the file's zero (Mooncake) or from
        its first line (Azure).

    Raises:
        WorkloadError: A format or a line that cannot be read, with the line's number.

    Examples:
        >>> text = '''TIMESTAMP,ContextTokens,GeneratedTokens
        ... 2023-11-16 18:15:46.5000000,374,44
        ... 2023-11-16 18:15:50.7500000,396,109'''
        >>> [(r.arrival_s, r.num_prompt_tokens, r.output_tokens) for r in read_trace(text)]
        [(0.0, 374, 44), (4.25, 396, 109)]
    """
    lines = numbered(source)
    first = next(lines, None)
    if first is None:
        raise WorkloadError("the trace is empty: no line holds anything")
    return _reader(first)(chain([first], lines))


def _reader(
    first: tuple[int, str],
) -> Callable[[Iterable[tuple[int, str]]], Iterator[WorkloadRequest]]:
    number, text = first
    if text.startswith("{"):
        return read_workload if MARK in text else _mooncake
    if text.split(",")[0].strip().strip('"').upper() == "TIMESTAMP":
        return _azure
    raise WorkloadError(
        f"line {number}: {shorten(text)} begins no known trace; known are Mooncake (JSON lines "
        "with timestamp, input_length, output_length, hash_ids), Azure (a CSV with the header "
        f"{','.join(_AZURE_FIELDS)}) and kvdocs workloads"
    )


def _mooncake(lines: Iterable[tuple[int, str]]) -> Iterator[WorkloadRequest]:
    for index, (number, text) in enumerate(lines):
        row = _json_object(number, text)
        tokens = _count(row, "input_length", number)
        yield WorkloadRequest(
            id=f"r{index}",
            prompt=_mooncake_prompt(row, tokens, number),
            output_tokens=_count(row, "output_length", number),
            arrival_s=_milliseconds(row, number),
        )


def _json_object(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"line {number} is not JSON ({error}): {shorten(text)}") from error
    if not isinstance(row, dict):
        raise WorkloadError(f"line {number} is {shorten(text)}; it must be a JSON object")
    return row


def _field(row: dict[str, Any], name: str, number: int) -> Any:
    if name not in row:
        raise WorkloadError(
            f"line {number} has no {name}; it has {shorten(', '.join(row)) if row else 'nothing'}"
        )
    return row[name]


def _count(row: dict[str, Any], name: str, number: int) -> int:
    value = _field(row, name, number)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST_TOKENS:
        raise WorkloadError(
            f"line {number}: {name} is {shorten(value)}; it must be a whole number of tokens, 1 to "
            f"{_MOST_TOKENS:,}"
        )
    return value


def _milliseconds(row: dict[str, Any], number: int) -> float:
    value = _field(row, "timestamp", number)
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not 0 <= value <= _MOST_SECONDS * 1000:
        raise WorkloadError(
            f"line {number}: timestamp is {shorten(value)}; it must be milliseconds from the "
            "start, 0 or more"
        )
    return to_grid(value / 1000)


def _mooncake_prompt(row: dict[str, Any], tokens: int, number: int) -> Blocks | Unshared:
    if "hash_ids" not in row:
        return Unshared(tokens)
    keys = row["hash_ids"]
    if not isinstance(keys, list) or not all(type(key) is int for key in keys):
        raise WorkloadError(
            f"line {number}: hash_ids is {shorten(keys)}; it must be a list of whole numbers"
        )
    full, whole = tokens // MOONCAKE_BLOCK, -(-tokens // MOONCAKE_BLOCK)
    if not full <= len(keys) <= whole:
        raise WorkloadError(
            f"line {number}: {len(keys)} hash_ids for an input_length of {tokens}; blocks of "
            f"{MOONCAKE_BLOCK} tokens give {whole}, or {full} without a last one that is not full"
        )
    return Blocks(tokens, MOONCAKE_BLOCK, tuple(keys))


def _azure(lines: Iterable[tuple[int, str]]) -> Iterator[WorkloadRequest]:
    rows = iter(lines)
    columns = _azure_columns(*next(rows))
    start: int | None = None
    for index, (number, text) in enumerate(rows):
        cells = [cell.strip().strip('"') for cell in text.split(",")]
        if len(cells) <= max(columns):
            raise WorkloadError(
                f"line {number}: {shorten(text)} has {len(cells)} cells; the header names "
                f"{max(columns) + 1} or more"
            )
        time = _azure_time(cells[columns[0]], number)
        start = time if start is None else start
        yield WorkloadRequest(
            id=f"r{index}",
            prompt=Unshared(_cell(cells[columns[1]], "ContextTokens", number)),
            output_tokens=_cell(cells[columns[2]], "GeneratedTokens", number),
            arrival_s=_since(start, time, number),
        )


def _azure_columns(number: int, header: str) -> tuple[int, int, int]:
    names = [name.strip().strip('"').lower() for name in header.split(",")]
    missing = [name for name in _AZURE_FIELDS if name.lower() not in names]
    if missing:
        raise WorkloadError(
            f"line {number}: the header {shorten(header)} lacks {', '.join(missing)}; an Azure "
            f"trace has {','.join(_AZURE_FIELDS)}"
        )
    time, context, generated = (names.index(name.lower()) for name in _AZURE_FIELDS)
    return time, context, generated


def _azure_time(text: str, number: int) -> int:
    """Nanoseconds since year 1, by whole numbers: the files have 100 ns steps."""
    match = _AZURE_TIME.fullmatch(text)
    day = _day(match) if match else 0
    if match is None or not day:
        raise WorkloadError(
            f"line {number}: TIMESTAMP is {shorten(text)}; it must look like "
            "2023-11-16 18:15:46.6805900"
        )
    hour, minute, second = (int(part) for part in match.groups()[3:6])
    seconds = day * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 10**9 + int((match[7] or "0").ljust(9, "0"))


def _day(match: re.Match[str]) -> int:
    """The day's number, or 0 when there is no such day."""
    year, month, day = (int(part) for part in match.groups()[:3])
    try:
        return dt.date(year, month, day).toordinal()
    except ValueError:
        return 0


def _since(start: int, time: int, number: int) -> float:
    if not 0 <= time - start <= _MOST_SECONDS * 10**9:
        raise WorkloadError(
            f"line {number}: TIMESTAMP is {(time - start) / 1e9:.3f} s after the first; it must be "
            f"0 to {_MOST_SECONDS:,} s"
        )
    return to_grid((time - start) / 1e9)


def _cell(text: str, name: str, number: int) -> int:
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    return _count({name: value or text}, name, number)
