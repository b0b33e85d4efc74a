"""Run a block of a lesson page: capped output, short tracebacks, one namespace a page.

The page's *Edit and run* calls this in the browser's Python; it is the standard library alone and
runs unchanged in any other.
"""

from kvdocs.cells.output import Emit, Limits, Output
from kvdocs.cells.runner import Outcome, Page, imported_packages, run_as_json
from kvdocs.cells.shown import Shown, shown

__all__ = [
    "Emit",
    "Limits",
    "Outcome",
    "Output",
    "Page",
    "Shown",
    "imported_packages",
    "run_as_json",
    "shown",
]
