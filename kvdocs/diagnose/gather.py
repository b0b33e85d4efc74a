"""Sort a paste of any size into metrics pages, log lines and queries, in bounded time and memory.

Only blocks that hold a known word are looked at line by line, and of those the first and the last
few MiB: a page stands at the beginning, and of a log the end counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kvdocs.startup_log.reader import LogInput, pieces, whole_lines
from kvdocs.startup_log.text import as_utf8, plain_lines

_WORDS: Final = (
    b"vllm:",
    b"vllm_",
    b"sglang:",
    b"sglang_",
    b" reqs",
    b"-req",
    b"etract",
    b"tokens",
    b"cache_usage",
    b"prefix_cache_",
    b"prefix cache hit",
    b"successful transfers",
    b"Failed to allocate memory",
    b"blocks: ",
    b"MiB / ",
    b"KV cache memory",
    b"block size to",
    b"preemption",
    b"max_num_",
    b"--max-num-",
)
HEAD_BYTES: Final = 1 << 20
"""Bytes of telling blocks that are read from the beginning."""
TAIL_BYTES: Final = 2 << 20
"""Bytes of telling blocks that are read from the end."""
MAX_SAMPLES: Final = 100_000
"""Samples of a page that are read; one engine shows some hundreds."""
MAX_LOG_LINES: Final = 20_000
"""Log lines that are read, the last ones."""
_SHORTEST: Final = 10
_LONGEST: Final = 16_384
_SAMPLE: Final = re.compile(
    r"\s*(?P<head>(?:vllm|sglang)[:_]\w+\s*(?:\{.*\})?)\s+[-+.\w]+(?:\s+[-+.\d]+)?\s*(?:#.*)?"
)
_QUERY: Final = re.compile(r"\w*(?:cache_usage|prefix_cache|num_requests|token_usage)\w*")
_TOLD: Final = ("# HELP", "# TYPE", "# UNIT", "#HELP")


@dataclass(slots=True)
class Gathered:
    """What a paste holds.

    Attributes:
        pages: Lines of the first metrics page and, if there are more, of the last.
        log: Log lines that hold a known word.
        queries: Lines that name a metric but are neither samples nor log lines.
        num_bytes: Bytes read.
        notes: What was left out.
    """

    pages: list[list[str]] = field(default_factory=list)
    log: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LOG_LINES))
    queries: list[str] = field(default_factory=list)
    num_bytes: int = 0
    notes: dict[str, None] = field(default_factory=dict)


class _Pages:
    """Splits samples into pages: where the first sample of a page comes again, another begins."""

    def __init__(self) -> None:
        self._pages: list[list[str]] = []
        self._first = ""
        self._seen: set[str] = set()
        self.notes: dict[str, None] = {}

    def add(self, head: str, line: str) -> None:
        if not self._pages or head == self._first:
            self._open(head)
        if head in self._seen:
            self.notes[f"{head[:80]} stands there more than once: the first counts"] = None
        elif len(self._seen) >= MAX_SAMPLES:
            self.notes[f"only the first {MAX_SAMPLES:,} samples were read"] = None
        else:
            self._seen.add(head)
            self._pages[-1].append(line)

    def _open(self, head: str) -> None:
        if len(self._pages) > 1 and len(self._pages[-1]) <= len(self._pages[-2]) // 2:
            self._pages.pop()  # a stray repetition, not a page
        self._pages.append([])
        del self._pages[1:-2]
        self._first, self._seen = head, set()

    def pages(self) -> list[list[str]]:
        most = max(map(len, self._pages), default=0)
        whole = [page for page in self._pages if 2 * len(page) >= most]
        return whole if len(whole) < 3 else [whole[0], whole[-1]]


def gather(*sources: LogInput) -> Gathered:
    r"""Read texts, files or pieces.

    Args:
        *sources: What was pasted, or the files named; pages in the order of their scrapes.

    Examples:
        >>> found = gather("vllm:num_requests_running 3\nRunning: 3 reqs, Waiting: 0 reqs")
        >>> found.pages, list(found.log)
        ([['vllm:num_requests_running 3']], ['Running: 3 reqs, Waiting: 0 reqs'])
    """
    found, pages = Gathered(), _Pages()
    for source in sources:
        for line in _telling_lines(source, found):
            _sort(line, found, pages)
    found.pages = pages.pages()
    some = list(pages.notes)[:_MOST_NOTES]
    found.notes |= dict.fromkeys(some)
    return found


_MOST_NOTES: Final = 5
_MOST_QUERIES: Final = 100


def _sort(line: str, found: Gathered, pages: _Pages) -> None:
    sample = _SAMPLE.fullmatch(line)
    if sample is not None:
        pages.add(sample["head"], line)
    elif _QUERY.search(line) and " reqs" not in line:
        if not line.startswith(_TOLD) and len(found.queries) < _MOST_QUERIES:
            found.queries.append(line)
    else:
        found.log.append(line)


def _telling_lines(source: LogInput, found: Gathered) -> Iterator[str]:
    for block in _telling_blocks(source, found):
        for raw in block.split(b"\n"):
            if len(raw) > _SHORTEST and any(word in raw for word in _WORDS):
                yield from (line.rstrip("\r") for line in plain_lines(raw[:_LONGEST]))


def _telling_blocks(source: LogInput, found: Gathered) -> Iterable[bytes]:
    """The first and the last blocks that hold a known word."""
    head = 0
    tail: deque[bytes] = deque()
    kept = left_out = 0
    for block in whole_lines(as_utf8(pieces(source))):
        found.num_bytes += len(block)
        if not any(word in block for word in _WORDS):
            continue
        if head < HEAD_BYTES:
            head += len(block)
            yield block
            continue
        tail.append(block)
        kept += len(block)
        while kept > TAIL_BYTES:
            dropped = len(tail.popleft())
            kept -= dropped
            left_out += dropped
    if left_out:
        found.notes[f"{left_out:,} bytes in the middle were left out"] = None
    yield from tail
