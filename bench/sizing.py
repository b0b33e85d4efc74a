"""Sizing one config, and the command line's start, as ratios to what Python itself takes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from kvdocs.catalog import models
from kvdocs.model import kv_cost, parse_config

REPEATS = 200
STARTS = 15


def measure() -> dict[str, float]:
    """Time reading and costing every catalogue config, and `kvdocs --help`."""
    texts = [json.dumps(dict(entry.config)) for entry in models()]
    per_config = [_median_seconds(lambda text=text: kv_cost(parse_config(text))) for text in texts]
    python = _median_start([sys.executable, "-c", "pass"])
    command = _median_start([sys.executable, "-m", "kvdocs", "--help"])
    return {
        "configs": len(texts),
        "median_us": 1e6 * statistics.median(per_config),
        "slowest_us": 1e6 * max(per_config),
        "python_start_ms": 1e3 * python,
        "help_start_ms": 1e3 * command,
    }


def _median_seconds(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(REPEATS // 10):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _median_start(command: Sequence[str]) -> float:
    times = []
    for _ in range(STARTS):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def table(result: dict[str, float]) -> str:
    """Print the figures a line each."""
    ratio = result["help_start_ms"] / result["python_start_ms"]
    speed = f"median {result['median_us']:.0f} µs, slowest {result['slowest_us']:.0f} µs"
    python = f"{ratio:.1f} times `python -c pass` ({result['python_start_ms']:.0f} ms)"
    return "\n".join(
        (
            "Sizing (parse a config.json and cost it), and the start of the command line",
            f"  {result['configs']:.0f} configs: {speed}",
            f"  kvdocs --help: {result['help_start_ms']:.0f} ms, {python}",
        )
    )
