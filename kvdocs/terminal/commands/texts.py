"""Commands that read text from files or a pipe: cat, grep, head, tail, wc."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kvdocs.errors import TerminalError
from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.commands.options import Options, read_options, whole
from kvdocs.terminal.output import Kind, Piece, Result

_SHORT: Final = re.compile(r"-(\d+)")
_MOST_PATTERN: Final = 200
_RISKY: Final = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+}][^)]*\)[*+{]|\\\d")
"""Patterns that could take for ever: a repeated group that repeats, a back reference."""


class _Text(NamedTuple):
    """A text with the name it was asked for by; empty for a pipe's."""

    name: str
    lines: list[str]


def _read(call: Call, names: Sequence[str], who: str) -> tuple[list[_Text], list[Piece]]:
    """Read files, or the pipe without any; a file that is not there gives an error line."""
    if not names or names == ("-",):
        if call.stdin is None:
            raise TerminalError("it waits for text: name a file, or pipe something into it")
        return [_Text("", call.stdin.splitlines())], []
    texts, errors = [], []
    for name in names:
        try:
            texts.append(_Text(name, call.files.read(name).splitlines()))
        except OSError as error:
            errors.append(Piece(Kind.ERROR, f"{who}: {name}: {error.strerror}"))
    return texts, errors


def _done(call: Call, lines: Iterator[str] | list[str], errors: list[Piece]) -> Result:
    text = "\n".join(lines)
    pieces = [Piece(Kind.OUT, text, _is_wide(text))] if text else []
    return Result(call.machine, (*errors, *pieces), 1 if errors else 0)


def _is_wide(text: str) -> bool:
    """Whether the text is one of columns, as its first lines tell."""
    return text.startswith(("+--", "|", "#", "{"))


def _cat(call: Call) -> Result:
    options = read_options(call.words, switches=("-n",))
    texts, errors = _read(call, options.rest, "cat")
    lines = [line for text in texts for line in text.lines]
    if "-n" in options.switches:
        lines = [f"{number:>6}  {line}" for number, line in enumerate(lines, 1)]
    return _done(call, lines, errors)


def _ends(call: Call, who: str) -> Result:
    """Head and tail."""
    words = [match[1] if (match := _SHORT.fullmatch(word)) else word for word in call.words]
    words = [
        f"-n{word}" if word != given else word
        for word, given in zip(words, call.words, strict=True)
    ]
    options = read_options(words, switches=("-q", "-f"), valued=("-n", "--lines"))
    if "-f" in options.switches:
        raise TerminalError("-f would wait for ever: time stands still here between commands")
    wanted = options.values.get("-n", options.values.get("--lines", "10")).removeprefix("-")
    count = whole(wanted, "-n")
    texts, errors = _read(call, options.rest, who)
    lines: list[str] = []
    for text in texts:
        if len(texts) > 1 and "-q" not in options.switches:
            lines.append(f"==> {text.name} <==")
        lines += (
            text.lines[:count] if who == "head" else text.lines[max(0, len(text.lines) - count) :]
        )
    return _done(call, lines, errors)


def _wc(call: Call) -> Result:
    options = read_options(call.words, switches=("-l", "-w", "-c"))
    texts, errors = _read(call, options.rest, "wc")
    lines = []
    for text in texts:
        body = "".join(f"{line}\n" for line in text.lines)
        counts = {"-l": len(text.lines), "-w": len(body.split()), "-c": len(body.encode())}
        shown = [str(count) for flag, count in counts.items() if _counts(options, flag)]
        lines.append(" ".join([*shown, text.name]).rstrip())
    return _done(call, lines, errors)


def _counts(options: Options, flag: str) -> bool:
    return flag in options.switches or not options.switches


_GREP_SWITCHES: Final = ("-i", "-v", "-n", "-c", "-E", "-F", "-o", "-h", "-w", "-q")
_GREP_VALUED: Final = ("-e", "-m", "-A", "-B", "-C")


def _grep(call: Call) -> Result:
    options = read_options(call.words, switches=_GREP_SWITCHES, valued=_GREP_VALUED)
    rest = list(options.rest)
    if "-e" not in options.values and not rest:
        raise TerminalError("a pattern is missing: grep PATTERN [FILE]")
    pattern = _pattern(options.values.get("-e") or rest.pop(0), options)
    texts, errors = _read(call, tuple(rest), "grep")
    found = [
        (text, numbers)
        for text in texts
        if (numbers := _matching(text.lines, pattern, options)) or "-c" in options.switches
    ]
    result = _done(call, _found_lines(found, pattern, options, several=len(texts) > 1), errors)
    status = 0 if any(numbers for _, numbers in found) else 1
    if "-q" in options.switches:
        return Result(call.machine, tuple(errors), status)
    return Result(call.machine, result.pieces, 2 if errors else status)


def _pattern(text: str, options: Options) -> re.Pattern[str]:
    if len(text) > _MOST_PATTERN:
        raise TerminalError(
            f"a pattern of {len(text)} characters; at most {_MOST_PATTERN} are taken"
        )
    plain = "-F" in options.switches
    if not plain and "-E" not in options.switches:
        text = _basic_to_extended(text)
    text = re.escape(text) if plain else text
    if not plain and _RISKY.search(text):
        raise TerminalError("this pattern could search for ever; use a simpler one")
    if "-w" in options.switches:
        text = rf"\b(?:{text})\b"
    try:
        return re.compile(text, re.IGNORECASE if "-i" in options.switches else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise TerminalError(
            f"this pattern cannot be read ({error}); -F takes it as it is"
        ) from None


def _basic_to_extended(text: str) -> str:
    r"""A pattern as grep reads it without -E: `\|` joins, a bare `|`, `+`, `?`, `(` is itself.

    Examples:
        >>> _basic_to_extended(r"a\|b (x)")
        'a|b \\(x\\)'
    """
    parts = re.findall(r"\\.|.", text, re.DOTALL)
    swapped = {sign: "\\" + sign for sign in "|+?(){}"}
    swapped |= {escaped: sign for sign, escaped in swapped.items()}
    return "".join(swapped.get(part, part) for part in parts)


def _matching(lines: list[str], pattern: re.Pattern[str], options: Options) -> list[int]:
    wanted = "-v" not in options.switches
    most = whole(options.values.get("-m", "1000000"), "-m")
    found = [i for i, line in enumerate(lines) if bool(pattern.search(line)) is wanted]
    return found[:most]


def _found_lines(
    found: list[tuple[_Text, list[int]]],
    pattern: re.Pattern[str],
    options: Options,
    *,
    several: bool,
) -> list[str]:
    shown: list[str] = []
    for text, numbers in found:
        name = f"{text.name}:" if several and "-h" not in options.switches else ""
        if "-c" in options.switches:
            shown.append(f"{name}{len(numbers)}")
            continue
        for index in _with_context(numbers, len(text.lines), options):
            number = f"{index + 1}:" if "-n" in options.switches else ""
            line = text.lines[index]
            texts = [m[0] for m in pattern.finditer(line)] if "-o" in options.switches else [line]
            shown += [f"{name}{number}{part}" for part in texts]
    return shown


def _with_context(numbers: list[int], count: int, options: Options) -> list[int]:
    around = options.values.get("-C", "0")
    before = whole(options.values.get("-B", around), "-B", most=1000)
    after = whole(options.values.get("-A", around), "-A", most=1000)
    if not (before or after):
        return numbers
    spans = (range(max(0, n - before), min(count, n + after + 1)) for n in numbers)
    return sorted({index for span in spans for index in span})


CAT: Final = Command("print a file: cat models/Llama-3.1-8B/config.json", _cat)
GREP: Final = Command("lines that match: … | grep KV", _grep, (*_GREP_SWITCHES, *_GREP_VALUED))
HEAD: Final = Command("first lines: … | head -5", lambda call: _ends(call, "head"))
TAIL: Final = Command("last lines: tail -5 vllm.log", lambda call: _ends(call, "tail"))
WC: Final = Command("count lines: … | wc -l", _wc, ("-l", "-w", "-c"))
