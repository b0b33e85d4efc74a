"""Time of a widget's update (compute, draw, JSON) in Pyodide under Node: played, scrubbed, changed.

Run from the root, after `npm run build`: `python -m bench.widget_step [WIDGET …]`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def measure(names: list[str]) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of processor time of every update, by widget and kind of update."""
    command = ["node", str(HERE / "widget_step.mjs"), *names]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)  # noqa: S603 - our own script
    measured: dict[str, dict[str, list[float]]] = json.loads(run.stdout)
    return measured


def percentile(times: list[float], share: float) -> float:
    """Return the time that a share of the updates does not exceed."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def table(measured: dict[str, Any]) -> str:
    """Return the 50th and 95th percentile and the longest of each kind of update, and of all."""
    lines = [
        f"{'widget, CPU ms in Pyodide on Node':<36}{'updates':>8}{'p50':>8}{'p95':>8}{'max':>8}"
    ]
    for name, kinds in measured.items():
        everything = [time for times in kinds.values() for time in times]
        for label, times in (*kinds.items(), ("all", everything)):
            if times:
                figures = (percentile(times, 0.5), percentile(times, 0.95), max(times))
                shown = "".join(f"{figure:8.1f}" for figure in figures)
                lines.append(f"{name + ': ' + label:<36}{len(times):8}{shown}")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    print(table(measure(sys.argv[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
