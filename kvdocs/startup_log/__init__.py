"""Start-up logs of LLM servers: written as vLLM prints them, read from whatever was printed.

`kvdocs.explain` draws conclusions from what is read here.

Examples:
    >>> log = read_log("Available KV cache memory: 6.51 GiB")
    >>> round(log.starts[0].rows[0].numbers["kv_pool_bytes"].value / 2**30, 2)
    6.51
"""

from kvdocs.startup_log.reader import Row, Start, StartupLog, read_log
from kvdocs.startup_log.writer import StartupReport, refusal, write_startup

__all__ = [
    "Row",
    "Start",
    "StartupLog",
    "StartupReport",
    "read_log",
    "refusal",
    "write_startup",
]
