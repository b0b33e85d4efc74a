"""Commands by name, and how their arguments are read.

A command is a module of this package with `add_arguments(parser)` and `run(args) -> int`. To add
one, write the module and give it a line in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from kvdocs import __version__
from kvdocs.errors import KvdocsError, UsageError

COMMANDS: Final = {
    "size": "what a model keeps for every token, and for one sequence",
    "fit": "whether a server starts, and how many tokens and requests it holds",
    "explain": "read a start-up log: its figures, and what they mean",
    "diagnose": "read metrics or a log: what is wrong with the server, and what to change",
    "simulate": "run a workload or a trace on a server: latencies, metrics, the story of a request",
    "trace": "study a trace: what a prefix cache of any size finds of it, and what that saves",
    "offload": "move KV or compute it again: the crossing point, or a server with tiers",
    "replay": "run a recorded-format workload and print every decision as JSON",
    "models": "list the models of the catalogue",
    "gpus": "list the GPUs of the catalogue",
}
"""Name of every command, with what it does."""

TOP_FLAGS: Final = ("-h", "--help", "--version")
"""What may stand in the place of a command."""

_WIDTH: Final = 96
_SHOWN: Final = 60


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of one width, so that it reads the same everywhere."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{**options, "width": _WIDTH, "max_help_position": 30})


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of printing its usage and leaving."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageError: Always.
        """
        raise UsageError(message.removeprefix("argument "))

    def own_flags(self) -> list[str]:
        """Every flag of this parser, short forms included."""
        return [flag for action in self._actions for flag in action.option_strings]

    def arguments(self) -> list[argparse.Action]:
        """What this parser takes, in the order it was added."""
        return list(self._actions)


def argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse show what a reader of kvdocs says about a value that it does not take.

    Examples:
        >>> from kvdocs.units import parse_count
        >>> argument(parse_count)("8k")
        8000.0
    """

    def convert(text: str) -> Any:
        try:
            return read(text)
        except KvdocsError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def listed() -> str:
    """The commands in a sentence.

    Examples:
        >>> listed().split(", ")[:2]
        ['size', 'fit']
    """
    return ", ".join(COMMANDS)


def top_parser() -> Parser:
    """The parser of `kvdocs` itself: help and version."""
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{about}" for name, about in COMMANDS.items())
    parser = Parser(
        prog="kvdocs",
        usage="kvdocs COMMAND …",
        description=f"Size the KV cache of an LLM server.\n\ncommands:\n{commands}",
        epilog="`kvdocs COMMAND --help` explains a command.\n"
        "Exit status: 0 done, 2 bad input, 3 the server would not start.",
    )
    parser.add_argument("--version", action="version", version=f"kvdocs {__version__}")
    return parser


def command_parser(name: str) -> Parser:
    """The parser of one command; imports the command's module.

    Args:
        name: One of `COMMANDS`.
    """
    module = importlib.import_module(f"kvdocs.cli.{name}")
    about = COMMANDS[name]
    parser = Parser(
        prog=f"kvdocs {name}",
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=getattr(module, "EPILOG", None),
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
    return parser


def run_command(name: str, words: Sequence[str]) -> int:
    """Read a command's words and run it.

    A command that sets `takes_more` gets words it does not know in `args.more`.

    Args:
        name: One of `COMMANDS`.
        words: What follows it.

    Raises:
        KvdocsError: The words, or what they name, cannot be used.
    """
    parser = command_parser(name)
    args, more = parser.parse_known_args([_with_dashes(word) for word in words])
    if more and not getattr(args, "takes_more", False):
        raise UsageError(_unknown(more[0], parser.own_flags(), f"kvdocs {name}"))
    args.more = more
    status: int = args.run(args)
    return status


def _with_dashes(word: str) -> str:
    """A flag written with underscores, as vLLM allows, with dashes."""
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if word.startswith("--") else word


def _unknown(word: str, flags: Sequence[str], who: str) -> str:
    if not word.startswith("-"):
        return f"{word[:_SHOWN]!r} is one argument too many; `{who} --help` lists what it takes"
    flag = word.partition("=")[0][:_SHOWN]
    return f"{flag} is not a flag of {who}{nearest(flag, flags)}"


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the names that come near it.

    Examples:
        >>> nearest("--tokns", ["--tokens", "--json"])
        '; did you mean --tokens?'
        >>> nearest("--x", ["--json", "--tokens"])
        '; allowed are --json, --tokens'
    """
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.6)
    return (
        f"; did you mean {' or '.join(near)}?"
        if near
        else f"; allowed are {', '.join(sorted(known))}"
    )


def unknown_command(name: str) -> str:
    """What to say about a command that is none.

    Examples:
        >>> unknown_command("sise")
        "'sise' is not a command; did you mean size?"
    """
    if name.startswith("-"):
        return f"{name[:_SHOWN]} stands where a command is needed: {listed()}"
    return f"{name[:_SHOWN]!r} is not a command{nearest(name[:_SHOWN], list(COMMANDS))}"
