"""The workload of `kvdocs simulate`: made as `vllm bench serve` makes it, or read from a trace."""

from __future__ import annotations

import itertools
import math
import random
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from kvdocs.cli.inputs import open_binary, shown_name
from kvdocs.cli.numbers import whole_number
from kvdocs.cli.parser import Parser, argument
from kvdocs.errors import UsageError, WorkloadError
from kvdocs.workload import (
    Fixed,
    Lengths,
    Part,
    Parts,
    Uniform,
    Unshared,
    WorkloadRequest,
    gamma,
    read_trace,
    speed_up,
)

_MOST_REQUESTS: Final = 1_000_000
_DEFAULTS: Final = {
    "request_rate": math.inf,
    "num_prompts": 1000,
    "random_input_len": 1024,
    "random_output_len": 128,
    "random_prefix_len": 0,
    "random_range_ratio": 0.0,
    "burstiness": 1.0,
    "seed": 0,
}
"""Those of `vllm bench serve` (vLLM 0.33.0 `vllm/benchmarks/serve.py` and `datasets`)."""
_MADE: Final = frozenset(_DEFAULTS) - {"num_prompts"}


def add_arguments(parser: Parser) -> None:
    """Add the flags that say what load comes."""
    group = parser.add_argument_group("the workload")
    group.add_argument(
        "--trace",
        metavar="FILE",
        help="a trace: Mooncake JSON lines, an Azure CSV, or a kvdocs workload; - for standard "
        "input",
    )
    group.add_argument(
        "--speed-up",
        type=argument(read_positive),
        metavar="X",
        help="play the trace X times as fast",
    )
    group.add_argument(
        "--num-prompts",
        "--num-requests",
        type=argument(whole_number),
        metavar="N",
        help="requests: so many are made (default: 1000), or read from the trace (default: all)",
    )
    group.add_argument(
        "--request-rate",
        "--rate",
        type=argument(_rate),
        metavar="R",
        help="requests per second on average (default: inf, all at once)",
    )
    group.add_argument(
        "--burstiness",
        type=argument(read_positive),
        metavar="B",
        help="1: at random (default); less: in bunches; more: evenly",
    )
    for flag, short, about in (
        ("--random-input-len", "--input-len", "tokens of a prompt (default: 1024)"),
        ("--random-output-len", "--output-len", "tokens of an output (default: 128)"),
        ("--random-prefix-len", "--prefix-len", "tokens before each that all share (default: 0)"),
    ):
        group.add_argument(
            flag, short, type=argument(whole_number), metavar="N", help=about, default=None
        )
    group.add_argument(
        "--random-range-ratio",
        type=argument(_share),
        metavar="S",
        help="lengths vary by this share up and down (default: 0)",
    )
    group.add_argument(
        "--seed", type=argument(whole_number), metavar="N", help="of the random numbers"
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{text[:30]!r} is not a number") from None
    if math.isnan(value):
        raise UsageError(f"{text[:30]!r} is not a number")
    return value


def read_positive(text: str) -> float:
    """Read a number above 0.

    Raises:
        UsageError: It is none.

    Examples:
        >>> read_positive("0.5")
        0.5
    """
    value = _number(text)
    if not 0 < value < math.inf:
        raise UsageError(f"{text[:30]!r} must be above 0")
    return value


def _rate(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise UsageError(f"{text[:30]!r} must be above 0, or inf")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value < 1:
        raise UsageError(f"{text[:30]!r} must be 0 or more and below 1")
    return value


def read_load(args: Namespace) -> list[WorkloadRequest]:
    """The requests that come.

    Args:
        args: What the flags of `add_arguments` say.

    Raises:
        UsageError: Flags that contradict each other.
        WorkloadError: A trace that cannot be read.
    """
    if args.num_prompts is not None and not 1 <= args.num_prompts <= _MOST_REQUESTS:
        raise UsageError(
            f"--num-prompts {args.num_prompts} is not possible; 1 to {_MOST_REQUESTS:,} are"
        )
    if args.trace is None:
        if args.speed_up is not None:
            raise UsageError("--speed-up is for a --trace; use --request-rate")
        return list(_made(args))
    given = sorted(name for name in _MADE if getattr(args, name) is not None)
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{flag} and --trace exclude each other: a trace says what comes when")
    return _from_trace(args)


def _from_trace(args: Namespace) -> list[WorkloadRequest]:
    requests: Iterable[WorkloadRequest] = read_trace(trace_source(args.trace))
    if args.speed_up is not None:
        requests = speed_up(requests, args.speed_up)
    try:
        return list(itertools.islice(requests, args.num_prompts))
    except WorkloadError as error:
        raise UsageError(f"{shown_name(args.trace)}: {error}") from None


def trace_source(name: str) -> Path | Iterator[str]:
    """What `kvdocs.workload.read_trace` reads: a file, or standard input for `-`.

    Args:
        name: The file's name.
    """
    if name != "-":
        return Path(name)
    return _text_of(name)


def _text_of(name: str) -> Iterator[str]:
    with open_binary(name) as handle:
        for line in handle:
            yield line.decode("utf-8", errors="replace")


def _made(args: Namespace) -> Iterator[WorkloadRequest]:
    """As the `random` dataset of `vllm bench serve`, with our own random numbers."""
    values: dict[str, Any] = {
        name: default if getattr(args, name) is None else getattr(args, name)
        for name, default in _DEFAULTS.items()
    }
    rng = random.Random(values["seed"])  # noqa: S311 - a simulation, not a secret
    rate, count = values["request_rate"], values["num_prompts"]
    arrivals: Iterable[float] = itertools.repeat(0.0)
    if rate < math.inf:
        arrivals = gamma(rng, rate=rate, burstiness=values["burstiness"])
    prompts = _lengths("--random-input-len", values["random_input_len"], values)
    outputs = _lengths("--random-output-len", values["random_output_len"], values)
    for index, arrival in enumerate(itertools.islice(arrivals, count)):
        name, own = f"r{index}", prompts.draw(rng)
        prompt: Unshared | Parts = Unshared(own)
        if values["random_prefix_len"]:
            prompt = Parts((Part("prefix", values["random_prefix_len"]), Part(name, own)))
        yield WorkloadRequest(
            id=name, prompt=prompt, output_tokens=outputs.draw(rng), arrival_s=arrival
        )


def _lengths(flag: str, tokens: int, values: dict[str, Any]) -> Lengths:
    spread = values["random_range_ratio"]
    if tokens < 1:
        raise UsageError(f"{flag} is {tokens}; a length is 1 or more")
    if not spread:
        return Fixed(tokens)
    return Uniform(max(1, math.floor(tokens * (1 - spread))), math.ceil(tokens * (1 + spread)))
