"""Reading a line as a shell does: words, quotes, pipes, and commands in a row.

Only what the lesson's machine needs. What it does not have (redirection to files, loops,
substitution) is refused by name instead of being misread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvdocs.errors import TerminalError

MOST_CHARACTERS: Final = 20_000
"""A longer line is refused."""
MOST_COMMANDS: Final = 50
"""A line of more commands is refused."""
_OPERATORS: Final = ("&&", "||", "|&", ";", "|", "&")
_ENDS: Final = frozenset({";", "&&", "||", "&"})
_FREE_REDIRECTIONS: Final = ("2>&1", "2>/dev/null", ">/dev/null", "&>/dev/null")
_ESCAPED_IN_QUOTES: Final = frozenset('"\\$`\n')
_BLANK: Final = " \t\r\n"


class Part(NamedTuple):
    """A stretch of a word.

    Attributes:
        text: Its characters, without quotes.
        quoted: Whether they stand for themselves: no `*` matches, no `$` names.
        names: Whether `$name` is replaced in it.
    """

    text: str
    quoted: bool
    names: bool


Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command with what it prints to.

    Attributes:
        words: Its words, the name first.
        drops_out: Whether its standard output goes nowhere.
        drops_errors: Whether its standard error goes nowhere.
        joins: Whether a pipe carries its standard error too.
    """

    words: tuple[Word, ...]
    drops_out: bool = False
    drops_errors: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by pipes, with what stands before them.

    Attributes:
        commands: One or more.
        after: `;`, `&&` or `||`: whether they run depends on the status before.
        in_background: Whether an `&` follows.
    """

    commands: tuple[Command, ...]
    after: str = ";"
    in_background: bool = False


class _Token(NamedTuple):
    """An operator, or a word."""

    operator: str
    word: Word


def parse(line: str) -> tuple[Pipeline, ...]:
    r"""Read a line.

    Args:
        line: What was typed; a backslash at a line's end goes on in the next.

    Raises:
        TerminalError: A quote that is not closed, an operator in the wrong place, or something
            this shell does not have.

    Examples:
        >>> [len(p.commands) for p in parse("ls models | head -2; echo 'a | b'")]
        [2, 1]
        >>> parse("echo 'a")
        Traceback (most recent call last):
        kvdocs.errors.TerminalError: a ' is not closed; close it, or type \' for the sign itself
    """
    if len(line) > MOST_CHARACTERS:
        raise TerminalError(f"{len(line):,} characters are too many; at most {MOST_CHARACTERS:,}")
    pipelines = list(_pipelines(_tokens(line)))
    if sum(len(pipeline.commands) for pipeline in pipelines) > MOST_COMMANDS:
        raise TerminalError(f"at most {MOST_COMMANDS} commands in a line")
    return tuple(pipelines)


def _tokens(line: str) -> Iterator[_Token]:
    at = 0
    while at < len(line):
        if line[at] == "\n":
            yield _Token("\n", ())
            at += 1
        elif line[at] in _BLANK:
            at += 1
        elif line.startswith("\\\n", at):
            at += 2
        elif line[at] == "#":
            at = _end_of_line(line, at)
        elif operator := _operator(line, at):
            yield _Token(operator, ())
            at += len(operator)
        else:
            word, at = _word(line, at)
            yield _Token("", word)


def _end_of_line(line: str, at: int) -> int:
    end = line.find("\n", at)
    return len(line) if end < 0 else end


def _operator(line: str, at: int) -> str:
    for free in _FREE_REDIRECTIONS:
        end = at + len(free)
        if line.startswith(free, at) and (end == len(line) or line[end] in _BLANK + ";|&"):
            return free
    if line[at] in "<>" or (line[at] in "12&" and line.startswith(">", at + 1)):
        raise TerminalError("no redirection: this machine's files cannot be written; pipes work")
    return next((sign for sign in _OPERATORS if line.startswith(sign, at)), "")


def _word(line: str, at: int) -> tuple[Word, int]:
    parts: list[Part] = []
    while at < len(line):
        sign = line[at]
        if sign in _BLANK or sign in ";|&<>":
            break
        if sign == "'":
            part, at = _single(line, at)
        elif sign == '"':
            part, at = _double(line, at)
        elif sign == "\\":
            escaped = line[at + 1 : at + 2].replace("\n", "")
            part, at = Part(escaped, quoted=True, names=False), at + 2
        else:
            part, at = _plain(line, at)
        parts.append(part)
    return tuple(parts), at


def _single(line: str, at: int) -> tuple[Part, int]:
    end = line.find("'", at + 1)
    if end < 0:
        raise TerminalError("a ' is not closed; close it, or type \\' for the sign itself")
    return Part(line[at + 1 : end], quoted=True, names=False), end + 1


def _double(line: str, at: int) -> tuple[Part, int]:
    text: list[str] = []
    at += 1
    while at < len(line) and line[at] != '"':
        if line[at] == "\\" and line[at + 1 : at + 2] in _ESCAPED_IN_QUOTES:
            at += 1
        text.append(line[at])
        at += 1
    if at >= len(line):
        raise TerminalError('a " is not closed; close it, or type \\" for the sign itself')
    return Part("".join(text), quoted=True, names=True), at + 1


def _plain(line: str, at: int) -> tuple[Part, int]:
    start = at
    while at < len(line) and line[at] not in _BLANK and line[at] not in "'\"\\;|&<>":
        if line[at] in "`(" or line.startswith("$(", at):
            raise TerminalError(
                "no command inside a command: ` and ( are for themselves only in quotes"
            )
        at += 1
    return Part(line[start:at], quoted=False, names=True), at


def _pipelines(tokens: Iterator[_Token]) -> Iterator[Pipeline]:
    after, commands, current = ";", list[Command](), _Open()
    for sign, word in tokens:
        if sign == "\n" and not current.words:
            continue  # an empty line, or one that goes on after | or &&
        operator = ";" if sign == "\n" else sign
        if not operator:
            current.words.append(word)
        elif operator in _FREE_REDIRECTIONS:
            current.redirect(operator)
        elif operator in _ENDS:
            commands.append(current.close(operator))
            yield Pipeline(tuple(commands), after, in_background=operator == "&")
            after, commands, current = ";" if operator == "&" else operator, [], _Open()
        else:
            current.joins |= operator == "|&"
            commands.append(current.close(operator))
            current = _Open()
    if current.words:
        commands.append(current.close(""))
        yield Pipeline(tuple(commands), after)
    elif commands or after != ";":
        raise TerminalError(f"a command is missing after {'|' if commands else after}")


class _Open:
    """A command whose end has not come."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.drops_out = self.drops_errors = self.joins = False

    def redirect(self, sign: str) -> None:
        self.joins |= sign == "2>&1"
        self.drops_out |= sign in (">/dev/null", "&>/dev/null")
        self.drops_errors |= sign in ("2>/dev/null", "&>/dev/null")

    def close(self, operator: str) -> Command:
        if not self.words:
            raise TerminalError(f"a command is missing before {operator or 'the end'}")
        return Command(tuple(self.words), self.drops_out, self.drops_errors, self.joins)
