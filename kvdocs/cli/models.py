"""`kvdocs models`: the models of the catalogue."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from kvdocs.catalog import ModelRow, model_rows
from kvdocs.cli.numbers import human_bytes
from kvdocs.cli.output import print_json, table
from kvdocs.cli.parser import Parser
from kvdocs.units import format_bytes

_HEADER = (
    "model",
    "layers keep",
    "per token",
    "in the window",
    "per sequence",
    "context",
    "text parameters",
    "weights",
)


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


def run(args: Namespace) -> int:
    """Print the models."""
    rows = model_rows()
    if args.json:
        print_json([asdict(row) for row in rows])
    else:
        print(table([_cells(row) for row in rows], header=_HEADER, align="<<>>>>>>"))
    return 0


def _cells(row: ModelRow) -> list[str]:
    return [
        row.id,
        row.layers,
        human_bytes(row.bytes_per_token),
        human_bytes(row.window_bytes_per_token) if row.window_bytes_per_token else "",
        human_bytes(row.constant_bytes_per_sequence) if row.constant_bytes_per_sequence else "",
        f"{row.context_length:,}",
        f"{row.num_parameters / 1e9:,.2f}B",
        format_bytes(row.weight_bytes, "GB", 1),
    ]
