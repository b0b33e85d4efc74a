"""Run every measurement on the built site; print tables, write build/bench.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from bench import startup

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench.json"


def main() -> int:
    """Measure; the exit code says only whether measuring worked."""
    site = ROOT / "site"
    if not (site / "index.html").is_file():
        print("site/ is missing: run `make site` first", file=sys.stderr)
        return 1
    machine = {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    results = {"machine": machine, "startup": startup.measure(site)}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(startup.table(results["startup"]))
    print(f"\n{machine['cpus']} CPUs, load {machine['load_1min']:.1f}; all visits in {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
