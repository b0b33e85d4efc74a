"""Run before the memory snapshot is taken: import what pages need, and use each part once.

Freed memory goes into the snapshot too and compresses badly, so little is drawn here and what was
kept of it is dropped; `everything.py` draws the rest once the snapshot is taken.
"""

import gc
import importlib
import linecache
import re
import sys
import zipimport
from functools import _lru_cache_wrapper
from zipimport import zipimporter

for module in ("json", "math", "random", "traceback"):
    importlib.import_module(module)

from kvdocs.drills.browser import show  # noqa: E402 - timed and kept apart from the library
from kvdocs.drills.registry import DRILLS  # noqa: E402
from kvdocs.terminal.browser import run  # noqa: E402
from kvdocs.widgets.browser import update  # noqa: E402
from kvdocs.widgets.registry import WIDGETS  # noqa: E402

# Large and on one page each: compiled there, when they are asked for.
APART = frozenset(
    {"dashboards", "diagnose"}
    | {"cheat-sheet", "read-the-sheet"}
    | {"fp8-before-after", "fp8-tokens-per-second", "fp8-step-reads", "fp8-with-scales"}
    | {"fp8-what-binds-next"}
    | {name for name in DRILLS if name.startswith("bug-")}
    | {"disaggregation-timeline", "move-or-recompute"}
    | {"scan-through-a-tier", "time-to-fetch", "when-fetching-pays"}
    | {"one-flag-that-mends-it"}
)

for registry in (WIDGETS, DRILLS):
    for name in registry:
        if name not in APART:
            registry[name]

update("gpu-memory", "{}")
update("bytes-per-token", "{}")
show("pool-at-another-utilization", 0)
run('{"version":1}', "kvdocs size llama-3.1-8b; vllm serve Llama-3.1-8B | head -1; nvidia-smi")

for held in gc.get_objects():
    if isinstance(held, _lru_cache_wrapper) and held.__module__.startswith("kvdocs."):
        held.cache_clear()

# Where the library's modules lie in its file is read again once the page has that file.
for importer in sys.path_importer_cache.values():
    if isinstance(importer, zipimporter):
        importer.__dict__["_files"] = {}
zipimport.__dict__["_zip_directory_cache"].clear()
sys.path_importer_cache.clear()
re.purge()
linecache.clearcache()
