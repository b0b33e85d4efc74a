"""Reading a large log: rate against `wc -l`, and peak memory.

Run from the root: `python -m bench.startup_log`. The log is made up: a start of 2 GPUs, then
traffic (access lines, requests, the statistics line every few lines), then a restart far in.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvdocs.explain import explain
from kvdocs.startup_log.reader import read_log
from kvdocs.units import MB, MIB

SIZE = 200 * MB
START = b"""\
(EngineCore pid=118) INFO 11-30 09:00:00 [core.py:140] Initializing a V1 LLM engine (v0.33.0) \
with config: model='meta-llama/Llama-3.1-8B', max_seq_len=8192, tensor_parallel_size=2, \
kv_cache_dtype=auto
(Worker_TP0 pid=153) INFO 11-30 09:00:30 [x.py:1] Model loading took 7.51 GiB memory and 9.1 seconds
(Worker_TP0 pid=153) INFO 11-30 09:00:42 [x.py:1] Available KV cache memory: 30.0 GiB
(EngineCore pid=118) INFO 11-30 09:00:42 [x.py:1] GPU KV cache size: 491,520 tokens, Maximum \
concurrency for 8,192 tokens per request: 60.00x
"""
ACCESS = b'(APIServer pid=1) INFO:     10.0.3.17:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
STATISTICS = (
    b"(APIServer pid=1) INFO 11-30 12:00:01 [loggers.py:257] Engine 000: Avg prompt throughput: "
    b"1234.5 tokens/s, Avg generation throughput: 345.1 tokens/s, Running: 12 reqs, Waiting: 0 "
    b"reqs, GPU KV cache usage: 34.5%, Prefix cache hit rate: 55.1%\n"
)
REQUEST = (
    b"(APIServer pid=1) INFO 11-30 12:00:01 [logger.py:40] Received request chatcmpl-8f3a7c: "
    b"prompt: 'You are a helpful assistant', params: SamplingParams(n=1, max_tokens=2048)\n"
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured.

    Attributes:
        num_bytes: Size of the log.
        read_seconds: Reading it, best of three.
        explain_seconds: Reading and explaining it.
        wc_seconds: `wc -l` of it, best of three.
        peak_bytes: Most memory Python held while reading.
        num_starts: Starts found; 2 are in it.
    """

    num_bytes: int
    read_seconds: float
    explain_seconds: float
    wc_seconds: float
    peak_bytes: int
    num_starts: int

    @property
    def ratio(self) -> float:
        """How many times as long as `wc -l`."""
        return self.read_seconds / self.wc_seconds


def traffic(size: int) -> Iterator[bytes]:
    """About `size` bytes of what a busy server logs, the same each time."""
    chance = random.Random(7)  # noqa: S311  # the same log each time
    written = 0
    while written < size:
        kind = chance.random()
        line = ACCESS % chance.randrange(1024, 65535)
        if kind > 0.7:
            line = REQUEST if kind < 0.88 else STATISTICS
        piece = line * chance.randrange(1, 4)
        written += len(piece)
        yield piece


def write_log(path: Path, size: int = SIZE) -> None:
    """Write the log to measure."""
    with path.open("wb") as file:
        file.write(START)
        file.writelines(traffic(size * 3 // 4))
        file.write(START)
        file.writelines(traffic(size // 4))


def _seconds(run: Callable[[], None]) -> float:
    """Best of three runs of a callable."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best


def measure(size: int = SIZE) -> Result:
    """Measure reading a log of `size` bytes."""
    wc = shutil.which("wc")
    if wc is None:
        raise SystemExit("wc is not installed, so there is nothing to compare with")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        write_log(path, size)

        def read() -> None:
            with path.open("rb") as file:
                read_log(file)

        def count() -> None:
            subprocess.run([wc, "-l", path], check=True, capture_output=True)  # noqa: S603

        read_seconds, wc_seconds = _seconds(read), _seconds(count)
        began = time.perf_counter()
        with path.open("rb") as file:
            explain(file)
        explain_seconds = time.perf_counter() - began
        tracemalloc.start()
        with path.open("rb") as file:
            log = read_log(file)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return Result(
            num_bytes=path.stat().st_size,
            read_seconds=read_seconds,
            explain_seconds=explain_seconds,
            wc_seconds=wc_seconds,
            peak_bytes=peak,
            num_starts=log.num_starts,
        )


def table(result: Result) -> str:
    """The measurement as a Markdown table."""
    rate = result.num_bytes / MB / result.read_seconds
    return "\n".join(
        (
            f"Reading a log of {result.num_bytes / MB:.0f} MB with {result.num_starts} starts",
            "",
            "| what | measured |",
            "|---|--:|",
            f"| read | {result.read_seconds:.3f} s, {rate:.0f} MB/s |",
            f"| read and explain | {result.explain_seconds:.3f} s |",
            f"| `wc -l`, file in memory | {result.wc_seconds:.3f} s |",
            f"| read / `wc -l` | {result.ratio:.1f} |",
            f"| peak memory | {result.peak_bytes / MIB:.1f} MiB |",
        )
    )


if __name__ == "__main__":
    print(table(measure()))
