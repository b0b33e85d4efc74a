"""`kvdocs diagnose`: read metrics or a log, print what is wrong with the server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from kvdocs.cli.inputs import only_one_stdin, open_binary, text_pieces
from kvdocs.cli.output import (
    bad,
    doubtful,
    good,
    heading,
    indent,
    one_line,
    print_json,
    print_notes,
    table,
)
from kvdocs.cli.parser import Parser
from kvdocs.diagnose import Diagnosis, diagnose
from kvdocs.diagnose.verdicts import Gravity
from kvdocs.errors import UsageError
from kvdocs.units import format_number

_PAINT: Final[dict[Gravity, Callable[[str], str]]] = {
    Gravity.FINE: good,
    Gravity.UNKNOWN: doubtful,
    Gravity.NOTICE: doubtful,
    Gravity.TROUBLE: bad,
}
EPILOG: Final = (
    "FILE is a page of /metrics (two are two scrapes, the earlier first), a log, or queries of a\n"
    "dashboard. --told gives what you know besides, such as --told prompts=shared or\n"
    "--told recompute_s=8.5; with it no file is needed."
)


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="metrics or a log; - for standard input"
    )
    parser.add_argument("--seconds", metavar="S", help="time between two scrapes")
    parser.add_argument(
        "--flags",
        default="",
        metavar="TEXT",
        help="flags of the server or of the load, such as '--max-num-seqs 64'",
    )
    parser.add_argument(
        "--told",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a figure that you know; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Read what was given and print the diagnosis."""
    if not args.files and not args.told:
        raise UsageError("a FILE is needed: a page of /metrics or a log; - for standard input")
    only_one_stdin(*args.files)
    figures = dict(_figure(text) for text in args.told)
    with ExitStack() as stack:
        sources = [
            text_pieces(stack.enter_context(open_binary(name)), name, needed="metrics or a log are")
            for name in args.files
        ]
        told = diagnose(*sources, seconds=_seconds(args.seconds), flags=args.flags, **figures)
    if args.json:
        print_json(told.to_json())
    else:
        _print(told)
    return 0


def _figure(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name in {"seconds", "flags"}:
        raise UsageError(f"--told {text[:60]!r} is not NAME=VALUE; write --told waiting=12")
    return name, value


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--seconds {text[:60]!r} is not a number") from None


def _print(told: Diagnosis) -> None:
    paint = _PAINT[told.verdict.advice.gravity]
    who = f" ({one_line(told.who)})" if told.who else ""
    print(f"{paint(str(told.verdict))}: {told.verdict.advice.title}")
    print(f"confidence: {told.confidence}{who}\n\n{told.verdict.advice.meaning}\n")
    if told.evidence:
        print(heading("evidence"))
        rows = [[name, format_number(value, 3)] for name, value in told.evidence.items()]
        print(f"{indent(table(rows, align='<>'))}\n")
    for title, lines in (
        ("what to change, cheapest first", told.actions),
        ("what would tell more", told.tell_more),
        ("also", tuple(f"{each}: {each.advice.title}" for each in told.also)),
    ):
        if lines:
            print(heading(title))
            print(indent("\n".join(f"- {line}" for line in lines)))
    print_notes([one_line(note) for note in (told.source, *told.notes) if note])
