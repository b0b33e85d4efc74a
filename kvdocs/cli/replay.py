"""`kvdocs replay`: run a recorded-format workload and print every decision as JSON."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

from kvdocs.cli.inputs import read_bytes, shown_name
from kvdocs.cli.parser import Parser
from kvdocs.errors import KvdocsError, UsageError
from kvdocs.replay import dump, replay

_MAX_BYTES: Final = 100_000_000
MAX_TOKENS: Final = 20_000_000
"""Prompt tokens of one workload: each is held in memory as a number."""
MAX_BLOCKS: Final = 20_000_000
"""Blocks of one workload: each is an object."""
_NOT_SO: Final = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "workload",
        metavar="WORKLOAD.json",
        help="a JSON object with config and requests; - for standard input",
    )


def run(args: Namespace) -> int:
    """Run the workload and print the document."""
    shown = shown_name(args.workload)
    workload = read_workload(args.workload)
    try:
        _check_size(workload)
        document = replay(workload)
    except KvdocsError as error:
        raise UsageError(f"{shown}: {error}") from None
    except _NOT_SO as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{shown} is not of a workload's form ({reason})") from error
    print(dump(document), end="")
    return 0


def read_workload(name: str) -> Mapping[str, Any]:
    """Read a workload file.

    Args:
        name: Its path, or `-`.

    Raises:
        UsageError: It cannot be read, or is no JSON object with `config` and `requests`.
    """
    shown = shown_name(name)
    try:
        workload = json.loads(read_bytes(name, most=_MAX_BYTES))
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{shown} is not JSON: {error}") from None
    if not isinstance(workload, dict):
        raise UsageError(f"{shown} is not a workload: a JSON object with config and requests")
    if not isinstance(workload.get("requests"), list):
        raise UsageError(f"{shown} is not a workload: requests is missing or not a list")
    if not isinstance(workload.get("config", {}), dict):
        raise UsageError(f"{shown} is not a workload: config is not an object")
    return workload


def _check_size(workload: Mapping[str, Any]) -> None:
    """Refuse what no machine would finish."""
    parts = [part for request in workload["requests"] for part in request["prompt"]]
    tokens = sum(part.get("n", 0) for part in parts)
    if tokens > MAX_TOKENS:
        raise UsageError(f"the prompts have {tokens:,} tokens; at most {MAX_TOKENS:,} are replayed")
    blocks = workload.get("config", {}).get("num_blocks", 0)
    if blocks > MAX_BLOCKS:
        raise UsageError(f"num_blocks is {blocks:,}; at most {MAX_BLOCKS:,} are replayed")
