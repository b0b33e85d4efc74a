"""The playground: any server under any load, in slices, compared and exported.

    setup, subject     a server, described, sized and started
    load, stream       what load comes          trace       a trace read in slices
    moment, session    runs, moment by moment
    fields, flag_line  the form                  differences    two set-ups compared
    pictures, result   what is shown             exports, plot  what is taken away
    browser, page      what the page calls, and its form without scripts

Examples:
    >>> run = Setup().simulate(Made(num_requests=50, rate=1.0))
    >>> len(run.finished), run.num_preemptions
    (50, 0)
"""

from kvdocs.playground.load import Load, Made, Trace
from kvdocs.playground.session import Progress, Run, Session
from kvdocs.playground.setup import DEFAULT_FLAGS, Setup, Sized

__all__ = [
    "DEFAULT_FLAGS",
    "Load",
    "Made",
    "Progress",
    "Run",
    "Session",
    "Setup",
    "Sized",
    "Trace",
]
