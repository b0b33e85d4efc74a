"""How fast whole servers are simulated: both engines, growth, a real trace, the same in Pyodide."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.load import RATES, requests, seconds, server
from kvdocs.server import EngineKind, Server
from kvdocs.workload import WorkloadRequest, read_trace

ROOT: Final = Path(__file__).resolve().parent.parent
REPEATS: Final = 5
SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
MOONCAKE_BLOCK: Final = 512


def measure(trace: Path | None) -> dict[str, Any]:
    """Measure everything; the trace only when there is one."""
    on = server()
    return {
        "engines": {name: _engines(on, requests(1000, rate)) for name, rate in RATES.items()},
        "growth": {
            name: {str(count): seconds(on, requests(count, rate)) for count in SIZES}
            for name, rate in RATES.items()
        },
        "pyodide": pyodide(),
        "trace": None if trace is None else in_a_process_of_its_own(trace),
    }


def _engines(on: Server, load: list[WorkloadRequest]) -> dict[str, float]:
    """The best of some runs in turn, as requests per second of processor time."""
    took = {kind: float("inf") for kind in EngineKind}
    for _ in range(REPEATS):
        for kind in EngineKind:
            took[kind] = min(took[kind], seconds(on, load, kind))
    return {str(kind): len(load) / best for kind, best in took.items()}


def pyodide() -> dict[str, float]:
    """Requests per second of the jumping engine in Pyodide under Node."""
    run = subprocess.run(  # noqa: S603 - our own script
        ["node", str(ROOT / "bench" / "engine.mjs")],  # noqa: S607 - the node of the path
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    result: dict[str, float] = json.loads(run.stdout)
    return result


def in_a_process_of_its_own(trace: Path) -> dict[str, float]:
    """A trace at its own blocks of 512 tokens; a fresh process, so that its memory is its own."""
    run = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "bench.engine", str(trace)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    result: dict[str, float] = json.loads(run.stdout)
    return result


def run_trace(trace: Path) -> dict[str, float]:
    """Read a trace and simulate it whole."""
    start = time.process_time()
    on = server(block_size=MOONCAKE_BLOCK, max_model_len=131_072)
    done = on.simulate(read_trace(trace))
    return {
        "seconds": time.process_time() - start,
        "requests": len(done.requests),
        "refused": len(done.refused),
        "prompt_tokens": done.num_prompt_tokens,
        "hit_tokens": done.hit_tokens,
        "preemptions": done.num_preemptions,
        "simulated_s": done.end_s,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def table(result: dict[str, Any]) -> str:
    """The result as text, with its goals."""
    lines = ["1,000 requests of 512 in and 128 out, requests per second of processor time", ""]
    lines += [
        "| arrivals | jumping | stepping | ratio | jumping in Pyodide |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, row in result["engines"].items():
        ratio = row["jumping"] / row["stepping"]
        lines.append(
            f"| {name} | {row['jumping']:,.0f} | {row['stepping']:,.0f} | {ratio:.1f} "
            f"| {result['pyodide'][name]:,.0f} |"
        )
    lines += ["", "Seconds for more requests", "", "| arrivals | " + " | ".join(map(_count, SIZES))]
    lines[-1] += " |"
    lines.append("|---|" + "--:|" * len(SIZES))
    for name, row in result["growth"].items():
        lines.append(f"| {name} | " + " | ".join(f"{took:.2f}" for took in row.values()) + " |")
    if result["trace"] is not None:
        row = result["trace"]
        told = f"{row['requests']:,} requests, {row['prompt_tokens']:,} prompt tokens"
        lines.append(f"\nThe trace: {told} in {row['seconds']:.2f} s, {row['megabytes']:.0f} MB")
    return "\n".join([*lines, "", *(_goal(*goal) for goal in goals(result))])


def _count(count: int) -> str:
    return f"{count:,}"


def goals(result: dict[str, Any]) -> list[tuple[str, float, str, float]]:
    """The goals as (what, measured, bound, allowed); all at once is what the peers measure."""
    engines = result["engines"]["all at once"]
    found = [
        ("jumping / stepping", engines["jumping"] / engines["stepping"], "at least", 20),
        ("jumping, requests/s", engines["jumping"], "at least", 10_000),
        ("jumping in Pyodide, requests/s", result["pyodide"]["all at once"], "at least", 3_000),
    ]
    for name, row in result["growth"].items():
        factor = row[str(SIZES[-1])] / row[str(SIZES[0])] / (SIZES[-1] / SIZES[0])
        found.append((f"time per request at 100,000 / at 1,000, {name}", factor, "at most", 1.5))
    if result["trace"] is not None:
        found.append(("the trace, s", result["trace"]["seconds"], "at most", 10))
        found.append(("the trace, MB", result["trace"]["megabytes"], "at most", 500))
    return found


def _goal(what: str, measured: float, bound: str, allowed: float) -> str:
    reached = measured >= allowed if bound == "at least" else measured <= allowed
    verdict = "reached" if reached else "MISSED"
    return f"- {what}: {measured:,.2f}, {bound} {allowed:,g}: {verdict}"


if __name__ == "__main__":
    print(json.dumps(run_trace(Path(sys.argv[1]))))
