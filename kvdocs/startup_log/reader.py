"""Read a whole noisy log in one pass and constant memory into the starts it tells of.

Most of a long log is traffic. A block of it is looked at only where it holds a needle of some line
pattern, and far from any start only for the few needles every start has (`_ANCHORS`), so the rate
is that of a handful of substring searches.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from kvdocs.startup_log.lines import PATTERNS, LinePattern, Phase, Reading
from kvdocs.startup_log.settings import read_settings
from kvdocs.startup_log.text import Source, as_utf8, is_someones_prompt, plain_lines, read_source

LogInput = str | bytes | IO[bytes] | IO[str] | Iterable[bytes] | Iterable[str]
"""What can be read: a text, its bytes, an open file, or any iterable of pieces or lines."""

BLOCK: Final = 1 << 18
"""Bytes looked at together: small enough to stay in a processor's cache between searches."""
FULL_SCAN: Final = 4 << 20
"""Bytes after the log's beginning, and after any anchor, that are searched for every needle."""
REACH: Final = 8192
"""Bytes either side of a needle that are read of a line, however long it is."""
MAX_ROWS: Final = 4096
"""Different rows kept of one start."""
MAX_STARTS: Final = 64
"""Starts kept; of more, the last."""

_BY_NEEDLE: Final[dict[bytes, list[LinePattern]]] = {}
for _pattern in PATTERNS:
    _BY_NEEDLE.setdefault(_pattern.needle.encode(), []).append(_pattern)
_ORDER: Final = {id(pattern): index for index, pattern in enumerate(PATTERNS)}

_ANCHORS: Final = (
    b"with config: model",
    b"KV cache size: ",
    b"KV cache memory",
    b"KV Cache is allocated",
    b"paged KV cache",
    b"llama_model_lo",
)
_SEAM: Final = max(map(len, _ANCHORS))


@dataclass(frozen=True, slots=True)
class Row:
    """One phrase of one line.

    Attributes:
        name: The line pattern's name.
        source: Who printed it.
        numbers: Its figures by name.
        words: Its words by name.
    """

    name: str
    source: Source
    numbers: dict[str, Reading]
    words: dict[str, str]


@dataclass(slots=True)
class Start:
    """One start of one server, as far as the log tells of it.

    Attributes:
        server: Container or pod, empty when the lines do not say.
        rows: Its phrases in order, equal ones once.
        settings: Flags and config fields by name, as text.
        engines: Whose lines they are (`vllm`, `sglang`, …), with how many of each.
    """

    server: str = ""
    rows: list[Row] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    engines: Counter[str] = field(default_factory=Counter)
    _seen: set[tuple[object, ...]] = field(default_factory=set)
    _phases: dict[str, Phase] = field(default_factory=dict)

    def add(self, row: Row, pattern: LinePattern) -> None:
        """Keep a row unless an equal one is there or the start is full."""
        key = (
            row.name,
            row.source,
            *((k, v.value) for k, v in row.numbers.items()),
            str(row.words),
        )
        if key in self._seen or len(self.rows) >= MAX_ROWS:
            return
        self._seen.add(key)
        self.rows.append(row)
        if pattern.engine != "any":
            self.engines[pattern.engine] += 1

    def reaches(self, pattern: LinePattern, row: Row) -> bool:
        """Note how far this start has come; False if the row can only be of a new start."""
        if pattern.phase is Phase.ANY:
            return True
        engine = row.source.engine
        before = self._phases.get(engine, Phase.CONFIG)
        if _begins_anew(pattern, before) or self._other_version(row):
            return False
        self._phases[engine] = max(before, pattern.phase)
        return True

    def _other_version(self, row: Row) -> bool:
        version = row.words.get("vllm_version")
        known = (other.words.get("vllm_version") for other in self.rows)
        return version is not None and any(v is not None and v != version for v in known)


def _begins_anew(pattern: LinePattern, before: Phase) -> bool:
    """Whether a line comes too early in a start for one that has got this far.

    Only vLLM finishes one phase on all ranks before the next; elsewhere a draft model loads after
    the target's pool, so only a line that opens a start counts.
    """
    if pattern.phase is Phase.CONFIG:
        return before > Phase.CONFIG
    return pattern.engine == "vllm" and pattern.phase <= Phase.BUDGET and before >= Phase.CAPACITY


@dataclass(frozen=True, slots=True)
class StartupLog:
    """All starts found in a log.

    Attributes:
        starts: In the order they begin; of more than `MAX_STARTS`, the last.
        num_starts: How many there were.
        num_bytes: Bytes read.
    """

    starts: tuple[Start, ...]
    num_starts: int
    num_bytes: int


class _Collector:
    """Sorts rows into starts."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.num_starts = 0
        self._current: dict[str, Start] = {}

    def add(self, row: Row, pattern: LinePattern, settings: dict[str, str]) -> None:
        start = self._current.get(row.source.server)
        if start is None or not start.reaches(pattern, row):
            start = self._open(row.source.server)
            start.reaches(pattern, row)
        start.add(row, pattern)
        for name, value in settings.items():
            start.settings.setdefault(name, value)

    def _open(self, server: str) -> Start:
        start = Start(server)
        self.num_starts += 1
        self.starts.append(start)
        del self.starts[:-MAX_STARTS]
        self._current[server] = start
        while len(self._current) > MAX_STARTS:
            del self._current[next(iter(self._current))]
        return start


def pieces(log: LogInput) -> Iterator[bytes]:
    """The log as bytes, in blocks or as it comes.

    Args:
        log: A text, bytes, an open file or an iterable of pieces.
    """
    if isinstance(log, str):
        log = log.encode("utf-8", "replace")
    if isinstance(log, bytes):
        for at in range(0, len(log), BLOCK):
            yield log[at : at + BLOCK]
    elif hasattr(log, "read"):
        while piece := log.read(BLOCK):
            yield piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")
    else:
        yield from _gathered(log)


def _gathered(parts: Iterable[bytes] | Iterable[str]) -> Iterator[bytes]:
    """Small parts joined to blocks, large ones cut; lines without an end get one."""
    held = io.BytesIO()
    for part in parts:
        piece = part.encode("utf-8", "replace") if isinstance(part, str) else bytes(part)
        held.write(piece)
        if held.tell() >= BLOCK:
            yield from pieces(held.getvalue())
            held = io.BytesIO()
    yield held.getvalue()


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks that end where a line ends, except inside a line longer than a block.

    Args:
        pieces: The log's bytes.
    """
    rest = b""
    for piece in pieces:
        block = rest + piece if rest else piece
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) < 4 * REACH:
            rest = block
            continue
        cut = cut or len(block) - REACH
        rest = block[cut:]
        yield block[:cut]
    yield rest


def _line_around(block: bytes, at: int) -> tuple[int, int]:
    """Bounds of the line at a place, cut to `REACH` either side."""
    begin = block.rfind(b"\n", max(0, at - REACH), at) + 1 or max(0, at - REACH)
    end = block.find(b"\n", at, at + REACH)
    return begin, end if end >= 0 else min(len(block), at + REACH)


def _candidates(block: bytes) -> list[tuple[int, int, list[LinePattern]]]:
    """Lines of a block that hold a needle, in order, with the patterns worth trying."""
    found: dict[tuple[int, int], list[LinePattern]] = {}
    for needle, patterns in _BY_NEEDLE.items():
        at = block.find(needle)
        while at >= 0:
            line = _line_around(block, at)
            found.setdefault(line, []).extend(patterns)
            at = block.find(needle, max(line[1], at + 1))
    return [(begin, end, patterns) for (begin, end), patterns in sorted(found.items(), key=_place)]


def _place(item: tuple[tuple[int, int], list[LinePattern]]) -> tuple[int, int]:
    return item[0]


def _near_starts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces near a start, with the one before each anchor; a line end where any are left out.

    An anchor may lie across two pieces, so their seam is searched too.
    """
    ahead = FULL_SCAN
    skipped = b""
    seam = b""
    for piece in pieces:
        seam += piece[:_SEAM]
        if any(anchor in piece or anchor in seam for anchor in _ANCHORS):
            if skipped:
                yield b"\n" + skipped
            ahead = FULL_SCAN
        if ahead > 0:
            yield piece
        skipped = b"" if ahead > 0 else piece
        seam = piece[-_SEAM:]
        ahead -= len(piece)


def _rows(block: bytes) -> Iterator[tuple[Row, LinePattern, dict[str, str]]]:
    """Every phrase of a block, with the settings its line carries."""
    for begin, end, patterns in _candidates(block):
        ordered = sorted(patterns, key=lambda pattern: _ORDER[id(pattern)])
        for line in plain_lines(block[begin:end]):
            yield from _phrases(line, ordered)


def _phrases(
    line: str, patterns: list[LinePattern]
) -> Iterator[tuple[Row, LinePattern, dict[str, str]]]:
    if is_someones_prompt(line):
        return
    source = read_source(line)
    for pattern in patterns:
        read = pattern.read(line)
        if read is not None:
            yield (
                Row(pattern.name, source, *read),
                pattern,
                read_settings(line) if pattern.settings else {},
            )


def read_log(log: LogInput) -> StartupLog:
    r"""Find every start a log tells of.

    Any noise may stand around and between the lines: colours, ranks, timestamps, container
    prefixes, JSON wrapping, `\r\n`, bytes that are no UTF-8, a cut first or last line. Reads
    once, in constant memory.

    Args:
        log: A text, bytes, an open file (binary is faster) or an iterable of pieces.

    Returns:
        The starts with their rows; none if no known line is in the log.

    Examples:
        >>> log = read_log("vllm-1 | INFO 11-30 GPU KV cache size: 42,656 tokens\r\nnoise\n")
        >>> log.starts[0].rows[0].numbers["printed_pool_tokens"].value
        42656.0
    """
    collector = _Collector()
    counted = _Counted(pieces(log))
    for block in whole_lines(_near_starts(as_utf8(iter(counted)))):
        for row, pattern, settings in _rows(block):
            collector.add(row, pattern, settings)
    return StartupLog(tuple(collector.starts), collector.num_starts, counted.total)


class _Counted:
    """An iterable of pieces that knows how many bytes went by."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.total = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.total += len(piece)
            yield piece
