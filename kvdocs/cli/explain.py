"""`kvdocs explain`: read a start-up log, print its figures and what they mean."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Final

from kvdocs.cli.inputs import (
    CONFIG_OR_MODEL,
    load_subject,
    only_one_stdin,
    open_binary,
    text_pieces,
)
from kvdocs.cli.numbers import human_bytes
from kvdocs.cli.output import bad, doubtful, heading, indent, one_line, print_json, table
from kvdocs.cli.parser import Parser
from kvdocs.explain import Explanation, explain
from kvdocs.startup_log.facts import Finding
from kvdocs.units import format_number

_COLOURS: Final[dict[str, Callable[[str], str]]] = {"error": bad, "warning": doubtful}


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument("log", metavar="LOG", help="the log, however long; - for standard input")
    parser.add_argument(
        "--config",
        metavar="CONFIG_OR_MODEL",
        help=f"what the server served: {CONFIG_OR_MODEL}",
    )
    parser.add_argument(
        "--flags",
        default="",
        metavar="TEXT",
        help="the server's flags that the log does not show, such as '--tensor-parallel-size 8'",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Read the log and print what it says."""
    only_one_stdin(args.log, args.config)
    model = None if args.config is None else load_subject(args.config).model
    with open_binary(args.log) as handle:
        told = explain(
            text_pieces(handle, args.log, needed="a start-up log is"),
            config=model,
            flags=args.flags,
        )
    if args.json:
        print_json(told.to_json())
    else:
        _print(told)
    return 0


def _print(told: Explanation) -> None:
    who = " ".join(word for word in (told.engine, told.version) if word)
    if who:
        print(heading(who))
    if told.figures:
        rows = [_figure(name, value) for name, value in told.figures.items()]
        print(f"{indent(table(rows, align='<><'))}\n")
    for finding in told.findings:
        print(_line(finding))


def _figure(name: str, value: float) -> list[str]:
    is_bytes = "bytes" in name.split("_")
    return [name, format_number(value), human_bytes(value) if is_bytes and value >= 1024 else ""]


def _line(finding: Finding) -> str:
    paint = _COLOURS.get(finding.severity)
    label = paint(finding.severity) if paint else finding.severity
    return f"{label} [{finding.code}] {one_line(finding.text)}"
