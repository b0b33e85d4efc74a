"""Run every measurement; print tables, write build/bench.json.

python -m bench [--only engine|startup] [--trace FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from bench import engine, startup

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench.json"


def main() -> int:
    """Measure; the exit code says only whether measuring worked."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=("engine", "startup"))
    parser.add_argument("--trace", type=Path, help="a Mooncake trace to simulate whole")
    args = parser.parse_args()
    site = ROOT / "site"
    if args.only != "engine" and not (site / "index.html").is_file():
        print("site/ is missing: run `make site` first", file=sys.stderr)
        return 1
    machine = {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    results: dict[str, object] = {"machine": machine}
    if args.only != "engine":
        results["startup"] = startup.measure(site)
        print(startup.table(results["startup"]), end="\n\n")
    if args.only != "startup":
        results["engine"] = engine.measure(args.trace)
        print(engine.table(results["engine"]), end="\n\n")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"{machine['cpus']} CPUs, load {machine['load_1min']:.1f}; all figures in {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
