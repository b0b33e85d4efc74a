"""Diagnose simulated servers of each kind and count the verdicts: `python -m bench.diagnosis`.

Writes `bench/diagnosis.json`, which the reference prints and the tests check a sample of.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from kvdocs.diagnose.kinds import KINDS

OUT: Final = Path(__file__).with_name("diagnosis.json")
SEEDS: Final = 1000


def count(name: str, seeds: int = SEEDS) -> dict[str, Any]:
    """The verdicts on a kind of server, and the seeds of those that are not the kind's own."""
    kind = KINDS[name]
    verdicts = [kind.readings(seed).diagnose().verdict for seed in range(seeds)]
    others = {str(seed): each for seed, each in enumerate(verdicts) if each is not kind.verdict}
    return {"expected": kind.verdict, "counts": Counter(verdicts), "others": others}


def main() -> int:
    """Count them all; one process per CPU."""
    parser = argparse.ArgumentParser(prog="python -m bench.diagnosis", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KIND", help="count these again; else all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="servers of each kind")
    parser.add_argument("--processes", type=int, default=None)
    args = parser.parse_args()
    names = args.names or list(KINDS)
    if unknown := [name for name in names if name not in KINDS]:
        parser.error(f"no kind is called {unknown[0]!r}; there are {', '.join(KINDS)}")
    with ProcessPoolExecutor(args.processes) as pool:
        found = dict(zip(names, pool.map(count, names, [args.seeds] * len(names)), strict=True))
    for name, row in found.items():
        print(f"{name:24} {', '.join(f'{each} {n}' for each, n in row['counts'].items())}")
    known = json.loads(OUT.read_text(encoding="utf-8"))["kinds"] if args.names else {}
    document = {"seeds": args.seeds, "kinds": {name: (known | found)[name] for name in KINDS}}
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
