"""What wraps a start-up line: colours, timestamps, ranks, containers, JSON, encodings.

Prefixes need no parser of their own, because phrases are searched anywhere in a line. What is read
from them is who printed the line; what is undone is escaping.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSI: Final = re.compile(r"(?:\x1b|\\u001b|\\x1b|\\033|#033)\[[0-9;?]*[A-Za-z]")
_ESCAPES: Final = {
    "\\n": "\n",
    "\\r": "\n",
    "\\t": "\t",
    '\\"': '"',
    "\\u0027": "'",
    "\\u003e": ">",
    "\\u003c": "<",
    "\\u0026": "&",
    "\\\\": "\\",
}
_ESCAPE: Final = re.compile("|".join(re.escape(escape) for escape in _ESCAPES))
_JSON: Final = re.compile(r"^[^{]{0,120}\{.{0,4000}\"\s*:\s*\"", re.DOTALL)
_SOMEONES_PROMPT: Final = re.compile(
    r"Received request|\bprompt: |\\?[\"'](?:prompt|role)\\?[\"']\s*:"
)

_COMPOSE: Final = re.compile(r"^\s*([\w.-]{1,64}?)\s+\| ")
_KUBERNETES: Final = re.compile(r"^\[pod/([\w.-]+/[\w.-]+)\] ")
_VLLM: Final = re.compile(
    r"\((?P<name>(?:EngineCore|Worker|VllmWorker|RayWorkerWrapper|RayWorkerProc|CoreEngine)[\w-]*)"
    r"(?: rank=(?P<rank>\d+))?(?: pid=(?P<pid>\d+))?(?:, ip=(?P<ip>[\w.:]+))?"
)
_SGLANG: Final = re.compile(r"(?<=[ \[])((?:DP\d+ )?(?:PP\d+ )?TP\d+(?: EP\d+)?|DP\d+)\]")
_TORCH_RANK: Final = re.compile(r"\[(?:rank|RANK) ?(\d+)\]|\bRank (\d+)\b")
_DP: Final = re.compile(r"(?:DP|EngineCore_)(\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """Who printed a line.

    Attributes:
        server: Container, compose service or pod; empty when the line does not say.
        engine: Data-parallel rank as text; empty when there is one engine.
        rank: Process name such as `Worker_TP1` or `TP0`; empty when the line does not say.
    """

    server: str = ""
    engine: str = ""
    rank: str = ""

    def label(self) -> str:
        """The source in one word for a sentence.

        Examples:
            >>> Source(rank="Worker_TP1").label(), Source(engine="2").label(), Source().label()
            ('Worker_TP1', 'DP2', 'the engine')
        """
        name = self.rank or (f"DP{self.engine}" if self.engine else "the engine")
        return f"{self.server}: {name}" if self.server else name


def read_source(line: str) -> Source:
    """Who printed a line, from its prefixes.

    Examples:
        >>> read_source("vllm-1  | (Worker_DP1_TP0 pid=97) INFO 11-30 10:00:00 [x.py:1] text")
        Source(server='vllm-1', engine='1', rank='Worker_DP1_TP0')
        >>> read_source("[2026-09-12 00:22:48 TP1] KV Cache is allocated.")
        Source(server='', engine='', rank='TP1')
    """
    head = line[:400]
    container = _COMPOSE.match(head) or _KUBERNETES.match(head)
    server = container[1] if container else ""
    rank = _rank(head)
    engine = _DP.search(rank)
    name = "" if rank.startswith(("EngineCore", "CoreEngine")) else rank
    return Source(server, engine[1] if engine else "", name)


def _rank(head: str) -> str:
    """The process name in a line's prefix."""
    vllm = _VLLM.search(head)
    if vllm:
        number = vllm["rank"] or ""
        if not number and vllm["name"] in ("RayWorkerWrapper", "VllmWorkerProcess"):
            number = vllm["pid"] or ""
        return f"{vllm['name']}{number}" + (f"@{vllm['ip']}" if vllm["ip"] else "")
    sglang = _SGLANG.search(head)
    if sglang:
        return sglang[1]
    torch = _TORCH_RANK.search(head)
    return f"rank{torch[1] or torch[2]}" if torch else ""


def plain_lines(raw: bytes) -> Iterator[str]:
    r"""A raw line without colours and escapes; several lines when it wraps several as JSON.

    Examples:
        >>> list(plain_lines(rb'{"log":"\u001b[36mA: 1\u001b[0m\nB: 2\n"}'))
        ['{"log":"A: 1', 'B: 2', '"}']
    """
    text = _ANSI.sub("", raw.decode("utf-8", "replace"))
    if "\\" in text and _JSON.match(text):
        text = _ANSI.sub("", _ESCAPE.sub(lambda found: _ESCAPES[found[0]], text))
    yield from (line for line in text.split("\n") if line)


def is_someones_prompt(line: str) -> bool:
    """Whether a line quotes a request: its text is a user's, not the server's.

    Examples:
        >>> is_someones_prompt("Received request cmpl-1: prompt: 'GPU KV cache size: 1 tokens'")
        True
    """
    return _SOMEONES_PROMPT.search(line) is not None


def _is_utf16(head: bytes) -> bool:
    """Whether a log begins with a byte-order mark and text that mostly is Latin."""
    if head[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return False
    zeros = head[2:202].count(0)
    return 3 * zeros >= len(head[2:202])


def as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, re-encoded when a byte-order mark says UTF-16 (a Windows console's `>`)."""
    first = next(chunks, b"")
    if not _is_utf16(first):
        yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    yield decoder.decode(first).encode()
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
