"""Run before the memory snapshot is taken: import what pages need, draw everything once.

The value of the last line is a checksum of everything that was drawn; the build compares it
between a plain start and a restored one.
"""

import gc
import importlib
import json
import zlib
from functools import _lru_cache_wrapper

LIBRARY = (
    "ast bisect collections contextlib copy csv dataclasses datetime enum fractions functools "
    "heapq html importlib.resources inspect io itertools json linecache math operator pprint "
    "random re statistics string textwrap time traceback typing"
)

for module in LIBRARY.split():
    importlib.import_module(module)

from kvdocs.drills.browser import show  # noqa: E402 - timed and kept apart from the library
from kvdocs.drills.registry import DRILLS  # noqa: E402
from kvdocs.terminal.browser import complete, run  # noqa: E402
from kvdocs.widgets.browser import update  # noqa: E402
from kvdocs.widgets.registry import WIDGETS  # noqa: E402


def checksum(name: str, params: dict[str, str], start: int) -> int:
    """Draw a widget; only a checksum is kept, for freed memory goes into the snapshot too."""
    try:
        return zlib.crc32(update(name, json.dumps(params)).encode(), start)
    except Exception as error:
        error.add_note(f"while drawing {name} with {params}")
        raise


def forget_runs() -> None:
    """Drop what simulations keep of a run: the browser makes it anew when it is looked at."""
    for held in gc.get_objects():
        if isinstance(held, _lru_cache_wrapper) and held.__module__.startswith("kvdocs.widgets."):
            held.cache_clear()


drawn = 0
for name, widget in WIDGETS.items():
    drawn = checksum(name, {}, drawn)
    for control in widget.controls:
        for value, _ in getattr(control, "options", ()):
            drawn = checksum(name, {control.name: value}, drawn)
    forget_runs()

for name in DRILLS:
    drawn = zlib.crc32(show(name, 0).encode(), drawn)

state = '{"version":1}'
for line in (
    "vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4",
    "vllm serve Llama-3.1-8B --gpu-memory-utilization 0.9; nvidia-smi; nvidia-smi -q",
    "vllm bench serve --num-prompts 20 --request-rate 10; tail vllm.log | grep KV",
    "curl -s localhost:8000/metrics | head -3; ls models/L*; cat README.txt; help",
    "kvdocs size llama-3.1-8b; kvdocs fit llama-3.1-8b --gpu h100; kvdocs gpus; kvdocs models",
    "cat vllm.log | kvdocs explain -; kill 118",
):
    answer = run(state, line)
    drawn = zlib.crc32(answer.encode(), drawn)
    state = json.loads(answer)["machine"]
drawn = zlib.crc32(complete(state, "vllm serve Llama-3.1-8B --kv").encode(), drawn)

drawn  # noqa: B018 - the build reads it
