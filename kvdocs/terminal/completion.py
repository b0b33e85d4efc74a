"""What Tab offers: commands, subcommands, flags and their values, models, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from kvdocs.catalog import gpu_ids, model_ids
from kvdocs.cli.files import FileKind
from kvdocs.flag_names import OTHER_SWITCHES, OTHER_VALUES
from kvdocs.flags import flag_names
from kvdocs.model.dtypes import CACHE_DTYPES
from kvdocs.terminal import bench
from kvdocs.terminal.commands.nvidia_smi import FLAGS as NVIDIA_SMI_FLAGS
from kvdocs.terminal.files import MachineFiles
from kvdocs.terminal.machine import Machine
from kvdocs.terminal.registry import COMMANDS

_LAST: Final = re.compile(r"[^\s|;&]*$")
_OF_FILES: Final = ("cat", "ls", "cd", "grep", "head", "tail", "wc")
_VALUES: Final = {
    "--kv-cache-dtype": ("auto", "fp8", *sorted(CACHE_DTYPES)),
    "--scheduling-policy": ("fcfs", "priority"),
    "--dtype": ("auto", "bfloat16", "float16", "half"),
    "--dataset-name": ("random", "prefix_repetition"),
    "--percentile-metrics": bench.METRICS,
    "--format": ("csv", "csv,noheader", "csv,noheader,nounits"),
    "--gpu": gpu_ids(),
}
_RARE: Final = tuple(
    f"--{name.replace('_', '-')}" for name in sorted(OTHER_VALUES | OTHER_SWITCHES) if len(name) > 3
)
_SERVE_FLAGS: Final = (*flag_names(), "--no-enable-prefix-caching", "--help")


@dataclass(frozen=True, slots=True)
class Completion:
    """What may stand in place of the word before the cursor.

    Attributes:
        start: Where in the line that word begins.
        candidates: What it may become, the likeliest first; each may end in / or =.
    """

    start: int
    candidates: tuple[str, ...]

    @property
    def common(self) -> str:
        """What all candidates begin with.

        Examples:
            >>> Completion(0, ("--max-model-len", "--max-num-seqs")).common
            '--max-'
        """
        first, last = min(self.candidates, default=""), max(self.candidates, default="")
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return "".join(sign for sign, _ in pairs)


def complete(machine: Machine, line: str) -> Completion:
    """Say what the last word of a line may become.

    Args:
        machine: The machine.
        line: The line up to the cursor.

    Examples:
        >>> complete(Machine(), "nvi").candidates
        ('nvidia-smi',)
        >>> complete(Machine(), "vllm serve Llama-3.1-8B --kv-cache-d").candidates
        ('--kv-cache-dtype',)
        >>> complete(Machine(), "cat models/Llama-3.1-8").candidates
        ('models/Llama-3.1-8B/',)
    """
    found = _LAST.search(line)
    word = found[0] if found else ""
    start = len(line) - len(word)
    before = re.split(r"[|;&]+", line[:start])[-1].split()
    flag, equals, value = word.partition("=")
    if equals and flag in _VALUES:
        return Completion(start + len(flag) + 1, _starting(value, _VALUES[flag]))
    return Completion(start, _starting(word, _offers(machine, before, word)))


def _starting(word: str, offers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(offer for offer in offers if offer.startswith(word)))


def _offers(machine: Machine, before: Sequence[str], word: str) -> Iterator[str]:
    if not before:
        yield from sorted(COMMANDS)
    elif before[-1] in _VALUES:
        yield from _VALUES[before[-1]]
    elif before[0] == "vllm":
        yield from _after_vllm(machine, before[1:], word)
    elif before[0] == "kvdocs":
        yield from _after_kvdocs(machine, before[1:], word)
    elif before[0] == "nvidia-smi":
        yield from NVIDIA_SMI_FLAGS
    elif before[0] in COMMANDS:
        yield from COMMANDS[before[0]].flags
        if before[0] in _OF_FILES:
            yield from _files(machine, word)
        if before[0] == "help":
            yield from sorted(COMMANDS)


def _after_vllm(machine: Machine, before: Sequence[str], word: str) -> Iterator[str]:
    if not before:
        yield from ("serve", "bench serve", "--version", "--help")
    elif before[0] == "bench":
        yield from bench.FLAGS if len(before) > 1 else ("serve",)
    elif before[0] == "serve" and word.startswith("-"):
        usual = _starting(word, _SERVE_FLAGS)
        yield from usual or _RARE
    elif before[0] == "serve" and (len(before) == 1 or before[-1] == "--model"):
        yield from _models(machine, word)


def _after_kvdocs(machine: Machine, before: Sequence[str], word: str) -> Iterator[str]:
    if not before:
        yield from COMMANDS["kvdocs"].flags
    elif word.startswith("-"):
        yield from ("--gpu", "--json", "--tokens", "--help", *_SERVE_FLAGS)
    elif before[0] in ("size", "fit"):
        yield from _models(machine, word)


def _models(machine: Machine, word: str) -> Iterator[str]:
    yield from model_ids()
    yield from (name.rpartition("/")[2] for name in model_ids())
    yield from _files(machine, word)


def _files(machine: Machine, word: str) -> Iterator[str]:
    folder, slash, _ = word.rpartition("/")
    files = MachineFiles(machine)
    parent = folder + slash or "."
    if files.kind(parent) is FileKind.FOLDER:
        yield from (folder + slash + name for name in files.names_in(parent))
