"""Run before the memory snapshot is taken: import what pages need, draw every widget once.

The value of the last line is everything that was drawn, as JSON; the build compares it between
a plain start and a restored one.
"""

import importlib
import json

LIBRARY = """
    ast bisect collections contextlib copy csv dataclasses datetime enum fractions functools heapq
    html importlib.resources inspect io itertools json linecache math operator pprint random re
    statistics string textwrap time traceback typing
""".split()

for module in LIBRARY:
    importlib.import_module(module)

from kvdocs.widgets.browser import update  # noqa: E402 - timed and kept apart from the library
from kvdocs.widgets.registry import WIDGETS  # noqa: E402

drawn = {name: [update(name, "{}")] for name in WIDGETS}
for name, widget in WIDGETS.items():
    for control in widget.controls:
        for value, _ in getattr(control, "options", ()):
            drawn[name].append(update(name, json.dumps({control.name: value})))

json.dumps(drawn)
