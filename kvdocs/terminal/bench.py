"""`vllm bench serve`: its options as vLLM names them, and the requests that they send.

Options, defaults and data sets: vLLM's `vllm/benchmarks/serve.py` and
`vllm/benchmarks/datasets/`. Of the data sets, `random` and `prefix_repetition` are made here.
"""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvdocs.errors import FlagError
from kvdocs.timing import to_grid
from kvdocs.workload import Parts, Unshared, WorkloadRequest, poisson
from kvdocs.workload.numbers import draw_integer
from kvdocs.workload.request import Part

MOST_PROMPTS: Final = 5_000
"""Requests of one benchmark: more would keep the page waiting."""
MOST_TOKENS: Final = 50_000_000
"""Tokens of one benchmark, for the same reason."""
MOST_SECONDS: Final = 3600.0
"""Simulated time over which requests are sent."""
METRICS: Final = ("ttft", "tpot", "itl", "e2el")
"""What percentiles can be asked of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The options that decide what is sent.

    Attributes:
        dataset_name: `random` or `prefix_repetition`.
        num_prompts: Requests.
        input_len: Tokens of a prompt, without a shared prefix.
        output_len: Tokens of an answer.
        prefix_len: Tokens of a prefix that requests share.
        num_prefixes: Different prefixes (`prefix_repetition`).
        range_ratio: Lengths vary by this share, up and down (`random`).
        request_rate: Requests per second, at random; infinite sends all at once.
        max_concurrency: Requests under way at once; None is no limit.
        seed: Draws lengths and arrivals; equal seeds send equal prompts.
        percentile_metrics: Metrics to print.
        metric_percentiles: Percentiles to print of each.
    """

    dataset_name: str = "random"
    num_prompts: int = 1000
    input_len: int = 1024
    output_len: int = 128
    prefix_len: int = 0
    num_prefixes: int = 1
    range_ratio: float = 0.0
    request_rate: float = math.inf
    max_concurrency: int | None = None
    seed: int = 0
    percentile_metrics: tuple[str, ...] = ("ttft", "tpot", "itl")
    metric_percentiles: tuple[float, ...] = (99.0,)


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise FlagError(f"invalid int value: {text[:30]!r}")
        if int(text) < least:
            raise FlagError(f"must be {least} or more, not {text}")
        return int(text)

    return read


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise FlagError(f"invalid float value: {text[:30]!r}") from None
    if math.isnan(value):
        raise FlagError(f"invalid float value: {text[:30]!r}")
    return value


def _rate(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise FlagError(f"must be above 0, not {text[:30]}")
    return value


def _ratio(text: str) -> float:
    value = _number(text)
    if not 0 <= value < 1:
        raise FlagError(f"must be 0 or more and below 1, not {text[:30]}")
    return value


def _dataset(text: str) -> str:
    if text not in ("random", "prefix_repetition"):
        raise FlagError(
            f"{text[:30]!r} is not simulated; here there are random and prefix_repetition"
        )
    return text


def _metrics(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in METRICS:
            raise FlagError(f"{name[:30]!r} is not one of {', '.join(METRICS)}")
    return names


def _percentiles(text: str) -> tuple[float, ...]:
    found = tuple(_number(part) for part in text.split(",")[:10])
    if not all(0 < value <= 100 for value in found):
        raise FlagError(f"{text[:30]!r} is not a list of percentiles, such as 50,95,99")
    return found


def _one(text: str) -> None:
    if _number(text) != 1:
        raise FlagError("only 1.0, independent arrivals, is simulated")


_READERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "--dataset-name": ("dataset_name", _dataset),
    "--num-prompts": ("num_prompts", _count(1)),
    "--input-len": ("input_len", _count(1)),
    "--output-len": ("output_len", _count(1)),
    "--random-input-len": ("input_len", _count(1)),
    "--random-output-len": ("output_len", _count(1)),
    "--random-prefix-len": ("prefix_len", _count(0)),
    "--random-range-ratio": ("range_ratio", _ratio),
    "--prefix-repetition-prefix-len": ("prefix_len", _count(0)),
    "--prefix-repetition-suffix-len": ("input_len", _count(1)),
    "--prefix-repetition-num-prefixes": ("num_prefixes", _count(1)),
    "--prefix-repetition-output-len": ("output_len", _count(1)),
    "--request-rate": ("request_rate", _rate),
    "--max-concurrency": ("max_concurrency", _count(1)),
    "--seed": ("seed", _count(0)),
    "--percentile-metrics": ("percentile_metrics", _metrics),
    "--metric-percentiles": ("metric_percentiles", _percentiles),
    "--burstiness": ("", _one),
}
"""Field and reader of each option that changes something."""
WITH_VALUE: Final = [
    "--model",
    "--served-model-name",
    "--host",
    "--port",
    "--base-url",
    "--endpoint",
    "--endpoint-type",
    "--backend",
    "--tokenizer",
    "--tokenizer-mode",
    "--label",
    "--num-warmups",
    "--result-dir",
    "--result-filename",
    "--ready-check-timeout-sec",
    "--temperature",
    "--top-p",
    "--top-k",
    "--extra-body",
    "--logprobs",
    "--goodput",
]
"""Options of vLLM's that change nothing here; some of them say where the server is."""
SWITCHES: Final = [
    "--ignore-eos",
    "--disable-tqdm",
    "--save-result",
    "--save-detailed",
    "--trust-remote-code",
    "--profile",
    "--disable-shuffle",
    "--insecure",
    "--skip-tokenizer-init",
]
"""Options without a value, which change nothing here either."""
FLAGS: Final = (*_READERS, *WITH_VALUE, *SWITCHES)
"""All options."""
_PREFIX_DEFAULTS: Final = {"input_len": 256, "prefix_len": 256, "num_prefixes": 10}


def parse_bench(words: Sequence[str]) -> Bench:
    """Read the options.

    Args:
        words: What follows `vllm bench serve`.

    Raises:
        FlagError: An option that vLLM does not have, or a value that is not possible here.

    Examples:
        >>> bench = parse_bench(["--num-prompts=10", "--random-input-len", "8000"])
        >>> bench.num_prompts, bench.input_len, bench.output_len
        (10, 8000, 128)
    """
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        shown, equals, value = word.partition("=")
        flag = "--" + shown.lstrip("-").replace("_", "-")
        if not word.startswith("--") or flag not in FLAGS:
            raise FlagError(f"unrecognized arguments: {shown[:60]}{_nearest(flag)}")
        if flag in SWITCHES:
            continue
        text = value if equals else _take(shown, left)
        if flag in _READERS:
            field, read = _READERS[flag]
            given[field] = _read(flag, read, text)
    given.pop("", None)
    defaults = _PREFIX_DEFAULTS if given.get("dataset_name") == "prefix_repetition" else {}
    return _checked(Bench(**{**defaults, **given}))


def _read(flag: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except FlagError as error:
        raise FlagError(f"argument {flag}: {error}") from None


def _take(flag: str, left: list[str]) -> str:
    if not left or left[0].startswith("--"):
        raise FlagError(f"argument {flag[:60]}: expected one argument")
    return left.pop(0)


def _nearest(flag: str) -> str:
    found = difflib.get_close_matches(flag[:80], FLAGS, n=2)
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def _checked(bench: Bench) -> Bench:
    """Refuse what would keep the page waiting."""
    tokens = bench.num_prompts * (bench.prefix_len + bench.input_len + bench.output_len)
    if bench.num_prompts > MOST_PROMPTS:
        raise FlagError(
            f"argument --num-prompts: {bench.num_prompts:,} are too many for this page; at most "
            f"{MOST_PROMPTS:,}"
        )
    if tokens > MOST_TOKENS:
        raise FlagError(
            f"{tokens:,} tokens are too many for this page; at most {MOST_TOKENS:,}. Send fewer "
            "or shorter prompts"
        )
    if bench.num_prompts / bench.request_rate > MOST_SECONDS:
        raise FlagError(
            f"argument --request-rate: {bench.num_prompts:,} requests at {bench.request_rate:g} "
            f"per second take more than an hour; send fewer, or faster"
        )
    return bench


def make_requests(
    bench: Bench, *, start: float, name: str, shares: bool = False
) -> list[WorkloadRequest]:
    """The requests of a benchmark.

    Args:
        bench: Its options.
        start: When the first may be sent, in seconds on the server's clock.
        name: Tells its requests from those of other benchmarks.
        shares: Whether another benchmark sends the same prompts.

    Examples:
        >>> requests = make_requests(Bench(num_prompts=2), start=5.0, name="b")
        >>> [(r.id, r.arrival_s, r.num_prompt_tokens, r.output_tokens) for r in requests]
        [('b0', 5.0, 1024, 128), ('b1', 5.0, 1024, 128)]
    """
    rng = random.Random(bench.seed)  # noqa: S311 - a simulation
    times = (
        poisson(rng, rate=bench.request_rate, start=start)
        if math.isfinite(bench.request_rate)
        else None
    )
    requests = []
    for index in range(bench.num_prompts):
        length, outputs = (_vary(rng, n, bench.range_ratio) for n in _lengths(bench))
        prefix = draw_integer(rng, 0, bench.num_prefixes - 1) if bench.num_prefixes > 1 else 0
        own = Part(f"{bench.seed} prompt {index} of {length}", length)
        shared = Part(f"{bench.seed} prefix {prefix}", bench.prefix_len)
        parts = (shared, own) if bench.prefix_len else (own,)
        requests.append(
            WorkloadRequest(
                id=f"{name}{index}",
                prompt=Parts(parts) if bench.prefix_len or shares else Unshared(length),
                output_tokens=outputs,
                arrival_s=to_grid(start) if times is None else next(times),
            )
        )
    return requests


def _lengths(bench: Bench) -> tuple[int, int]:
    return bench.input_len, bench.output_len


def _vary(rng: random.Random, length: int, ratio: float) -> int:
    """A length between `1 - ratio` and `1 + ratio` times the given one."""
    if not ratio:
        return length
    low, high = math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio))
    return draw_integer(rng, max(1, low), max(1, high))
