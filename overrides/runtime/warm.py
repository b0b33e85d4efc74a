"""Run before the memory snapshot is taken: import what pages need, draw every widget once.

The value of the last line is a checksum of everything that was drawn; the build compares it
between a plain start and a restored one.
"""

import importlib
import json
import zlib

LIBRARY = """
    ast bisect collections contextlib copy csv dataclasses datetime enum fractions functools heapq
    html importlib.resources inspect io itertools json linecache math operator pprint random re
    statistics string textwrap time traceback typing
""".split()

for module in LIBRARY:
    importlib.import_module(module)

from kvdocs.widgets.browser import update  # noqa: E402 - timed and kept apart from the library
from kvdocs.widgets.registry import WIDGETS  # noqa: E402

# Only a checksum is kept: what is drawn here is large, and the memory it grew would not restore.
drawn = 0
for name, widget in WIDGETS.items():
    drawn = zlib.crc32(update(name, "{}").encode(), drawn)
    for control in widget.controls:
        for value, _ in getattr(control, "options", ()):
            drawn = zlib.crc32(update(name, json.dumps({control.name: value})).encode(), drawn)

drawn
