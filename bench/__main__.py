"""Run every measurement; print tables, write build/bench.json.

`python -m bench` runs all, `python -m bench sizing startup_log` runs those named.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import engine, sizing, startup, startup_log, widget_step

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "build" / "bench.json"
SITE: Final = ROOT / "site"


def _benches(trace: Path | None) -> dict[str, tuple[Callable[[], Any], Callable[[Any], str]]]:
    """Name to what measures and what prints."""
    return {
        "sizing": (sizing.measure, sizing.table),
        "startup_log": (startup_log.measure, startup_log.table),
        "engine": (lambda: engine.measure(trace), engine.table),
        "widget_step": (lambda: widget_step.measure([]), widget_step.table),
        "startup": (lambda: startup.measure(SITE), startup.table),
    }


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def main() -> int:
    """Measure; the exit code says only whether measuring worked."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(_benches(None))}")
    parser.add_argument("--trace", type=Path, help="a Mooncake trace to simulate whole")
    args = parser.parse_args()
    benches = _benches(args.trace)
    names = args.names or list(benches)
    if unknown := [name for name in names if name not in benches]:
        parser.error(f"no bench is called {unknown[0]!r}; there are {', '.join(benches)}")
    if "startup" in names and not (SITE / "index.html").is_file():
        print("site/ is missing: run `make site` first", file=sys.stderr)
        return 1
    results: dict[str, Any] = {"machine": _machine()}
    for name in names:
        measure, table = benches[name]
        result = measure()
        results[name] = dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result
        print(f"{table(result)}\n", flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    machine = results["machine"]
    print(f"{machine['cpus']} CPUs, load {machine['load_1min']:.1f} at the start; written to {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
