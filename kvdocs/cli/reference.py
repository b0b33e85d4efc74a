"""The command line's reference page, from the parsers themselves and from commands that are run."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from contextlib import redirect_stdout

from kvdocs.cli import main
from kvdocs.cli.parser import COMMANDS, command_parser


def commands_table() -> str:
    """All commands as a Markdown table."""
    rows = [f"| [`kvdocs {name}`](#kvdocs-{name}) | {about} |" for name, about in COMMANDS.items()]
    return "\n".join(["| Command | Says |", "| :-- | :-- |", *rows])


def options_table(command: str) -> str:
    """What one command takes, as a Markdown table.

    Args:
        command: One of `kvdocs.cli.parser.COMMANDS`.

    Examples:
        >>> print(options_table("gpus"))
        | Argument | Meaning |
        | :-- | :-- |
        | `--json` | print JSON: a list of objects |
    """
    rows = [_row(action) for action in command_parser(command).arguments() if action.dest != "help"]
    return "\n".join(["| Argument | Meaning |", "| :-- | :-- |", *rows])


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        value = "{" + ",".join(action.choices) + "}"
    if not action.option_strings:
        return f"| `{value}` | {action.help} |"
    names = ", ".join(f"`{f'{flag} {value}'.strip()}`" for flag in action.option_strings)
    return f"| {names} | {action.help} |"


def example(command: str, *, stdin: str = "") -> str:
    """Run a command and show what a terminal would: the command, its output, a status not 0.

    Args:
        command: As typed, starting with `kvdocs`.
        stdin: What it reads from standard input.

    Raises:
        ValueError: The command failed, so the page would show nothing.

    Examples:
        >>> example("kvdocs size llama-3.1-8b --tokens 1K").count("131,072 B")
        1
    """
    output = io.StringIO()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(output):
            status = main(shlex.split(command)[1:])
    finally:
        sys.stdin = before
    if not output.getvalue():
        raise ValueError(f"{command} printed nothing and ended with status {status}")
    shown = f"$ {command}\n{output.getvalue()}"
    if status:
        shown += f"$ echo $?\n{status}\n"
    return f"````console\n{shown}````"
