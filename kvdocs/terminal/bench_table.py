"""The result of a benchmark as a table, with vLLM's names of the figures.

Figures, names and columns: vLLM 0.33.0 `vllm/benchmarks/serve.py`, `benchmark`. What only the
server knows, and why a request failed, the real tool does not print: those are notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from kvdocs.server.records import FinishReason, RequestRecord
from kvdocs.terminal.output import Kind, Piece
from kvdocs.terminal.served import BenchRun

_NAMES: Final = {
    "ttft": ("TTFT", "time to first token"),
    "tpot": ("TPOT", "time per output token after it"),
    "itl": ("ITL", "time between two tokens"),
    "e2el": ("E2EL", "time to the last token"),
}
_NAME_WIDTH: Final = 40
_WIDTH: Final = 50


def result(run: BenchRun) -> tuple[Piece, ...]:
    """Lay the result out: the tool's table, and the lesson's notes on it.

    Args:
        run: A benchmark that has ended.
    """
    pieces = [Piece(Kind.OUT, _table(run), wide=True)]
    refused = next((record.refusal for record in run.records if record.refusal), "")
    if refused:
        pieces.append(Piece(Kind.NOTE, f"# first failure: {refused}"))
    if run.samples:
        pieces.append(Piece(Kind.NOTE, _pool(run), wide=True))
    return tuple(pieces)


def _table(run: BenchRun) -> str:
    good = [record for record in run.records if record.reason is FinishReason.LENGTH]
    lines = [*_summary(run, good)]
    for metric in run.bench.percentile_metrics:
        lines += _latency(metric, run, good)
    return "\n".join(lines)


def _row(name: str, value: str) -> str:
    return f"{name:<{_NAME_WIDTH}} {value}"


def _heading(text: str) -> str:
    return f"{text:-^{_WIDTH}}"


def _summary(run: BenchRun, good: Sequence[RequestRecord]) -> list[str]:
    seconds = (run.ended or run.started) - run.started
    prompt = sum(record.num_prompt_tokens for record in good)
    output = sum(record.num_output_tokens for record in good)
    per_second = 1 / seconds if seconds else 0.0
    rate = run.bench.request_rate
    rows = [
        ("Successful requests:", f"{len(good)}"),
        ("Failed requests:", f"{len(run.records) - len(good)}"),
    ]
    if run.bench.max_concurrency is not None:
        rows.append(("Maximum request concurrency:", f"{run.bench.max_concurrency}"))
    if math.isfinite(rate):
        rows.append(("Request rate configured (RPS):", f"{rate:.2f}"))
    rows += [
        ("Benchmark duration (s):", f"{seconds:.2f}"),
        ("Total input tokens:", f"{prompt}"),
        ("Total generated tokens:", f"{output}"),
        ("Request throughput (req/s):", f"{len(good) * per_second:.2f}"),
        ("Output token throughput (tok/s):", f"{output * per_second:.2f}"),
        ("Peak concurrent requests:", f"{_peak(good):.2f}"),
        ("Total token throughput (tok/s):", f"{(prompt + output) * per_second:.2f}"),
    ]
    return [_row(name, value) for name, value in rows]


def _peak(records: Iterable[RequestRecord]) -> int:
    """Most requests under way at once."""
    changes = [change for r in records for change in ((r.arrival_s, 1), (r.finished_s, -1))]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _latency(metric: str, run: BenchRun, good: Sequence[RequestRecord]) -> list[str]:
    name, about = _NAMES[metric]
    counted = run.gaps if metric == "itl" else _counted(metric, good)
    wanted = [
        (f"Mean {name} (ms):", _mean(counted)),
        (f"Median {name} (ms):", percentile(counted, 50)),
    ]
    wanted += [
        (f"P{share:g} {name} (ms):", percentile(counted, share))
        for share in run.bench.metric_percentiles
    ]
    return [_heading(about), *(_row(label, f"{1000 * value:.2f}") for label, value in wanted)]


def _counted(metric: str, good: Iterable[RequestRecord]) -> dict[float, int]:
    counted: dict[float, int] = {}
    for record in good:
        value = {"ttft": record.ttft_s, "tpot": record.tpot_s, "e2el": record.e2e_s}[metric]
        if value is not None:
            counted[value] = counted.get(value, 0) + 1
    return counted


def _mean(counted: dict[float, int]) -> float:
    count = sum(counted.values())
    return sum(value * number for value, number in counted.items()) / count if count else 0.0


def percentile(counted: dict[float, int], share: float) -> float:
    """A percentile as numpy takes it: between two observations, in proportion.

    Args:
        counted: Observations with how often each occurred.
        share: Above 0, at most 100.

    Examples:
        >>> percentile({1.0: 1, 2.0: 1, 4.0: 1}, 75)
        3.0
        >>> percentile({}, 50)
        0.0
    """
    count = sum(counted.values())
    if not count:
        return 0.0
    place = (count - 1) * share / 100
    low = _at(counted, math.floor(place))
    return low + (place - math.floor(place)) * (_at(counted, math.ceil(place)) - low)


def _at(counted: dict[float, int], index: int) -> float:
    """The observation at a place, from 0, of all in order."""
    seen = 0
    for value in sorted(counted):
        seen += counted[value]
        if seen > index:
            return value
    return max(counted)


def _pool(run: BenchRun) -> str:
    """What the server's own figures were meanwhile."""
    samples = run.samples
    first, last = samples[0].preemptions, samples[-1].preemptions
    lost = sum(record.num_preemptions for record in run.records)
    rows = (
        ("# Peak requests running:", f"{max(sample.running for sample in samples)}"),
        ("# Peak requests waiting:", f"{max(sample.waiting for sample in samples)}"),
        ("# Peak KV cache usage:", f"{max(s.kv_cache_usage for s in samples):.1%}"),
        ("# Preemptions:", f"{max(lost, last - first)}"),
    )
    return "\n".join(["# on the server meanwhile", *(_row(*row) for row in rows)])
