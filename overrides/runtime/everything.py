"""Draw everything the browser can be asked for first, and return a checksum of it.

The build compares it between a plain start and a restored one.
"""

import json
import zlib

from kvdocs.drills.browser import show
from kvdocs.drills.registry import DRILLS
from kvdocs.terminal.browser import complete, run
from kvdocs.widgets.browser import update
from kvdocs.widgets.registry import WIDGETS


def checksum(name: str, params: dict[str, str], start: int) -> int:
    """Draw a widget; a refusal that Python raises names the widget and its parameters."""
    try:
        return zlib.crc32(update(name, json.dumps(params)).encode(), start)
    except Exception as error:
        error.add_note(f"while drawing {name} with {params}")
        raise


drawn = 0
for name, widget in WIDGETS.items():
    drawn = checksum(name, {}, drawn)
    for control in widget.controls:
        for value, _ in getattr(control, "options", ()):
            drawn = checksum(name, {control.name: value}, drawn)

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
