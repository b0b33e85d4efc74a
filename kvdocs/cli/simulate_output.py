"""What `kvdocs simulate` prints."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kvdocs.cli.fit import Question
from kvdocs.cli.output import heading, indent, print_json, print_notes, table
from kvdocs.metrics import write_metrics
from kvdocs.server import RequestRecord, Server, ServerRun
from kvdocs.stats_log import write_stats_line
from kvdocs.units import format_number, format_seconds

_LATENCIES: Final = {
    "ttft": "TTFT (to the first token)",
    "tpot": "TPOT (per token after it)",
    "itl": "ITL (between two tokens)",
    "e2el": "E2EL (to the last token)",
    "queue": "in the queue",
}
_COLUMNS: Final = (
    "id",
    "arrival_s",
    "queue_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "finish_reason",
    "prompt_tokens",
    "output_tokens",
    "hit_tokens",
    "preemptions",
    "recomputed_tokens",
    "admitted_s",
    "first_token_s",
    "finished_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run and the server it ran on.

    Attributes:
        question: The server as it was asked for.
        server: The server.
        run: What came of the workload.
    """

    question: Question
    server: Server
    run: ServerRun


def _print_summary(result: Result) -> None:
    question, run = result.question, result.run
    gpus = question.flags.world_size
    print(heading(f"{question.subject.name} on {gpus} × {question.gpu.name}, simulated"))
    print(indent(table(_totals(run), align="<>")))
    print(f"\n{heading('latency in ms')}")
    header = ("", "mean", "P50", "P90", "P99", "longest")
    rows = [[about, *_milliseconds(run, name)] for name, about in _LATENCIES.items()]
    print(indent(table(rows, header=header, align="<>>>>>")))
    notes = [f"weights: {question.weights.source}", *result.server.notes]
    if run.refused:
        notes.append(f"request {run.refused[0].id} was refused: {run.refused[0].refusal}")
    print()
    print_notes(notes)


def _totals(run: ServerRun) -> list[list[str]]:
    seconds = run.duration_s or 1.0
    tokens = run.num_prompt_tokens + run.num_output_tokens
    peak = max((sample.kv_cache_usage for sample in run.samples), default=0.0)
    rows = [
        ("requests finished", f"{len(run.finished):,}"),
        ("requests refused", f"{len(run.refused):,}"),
        ("from the first arrival to the last token", format_seconds(run.duration_s)),
        ("prompt tokens", f"{run.num_prompt_tokens:,}"),
        ("  of these found in the prefix cache", f"{run.hit_tokens:,}"),
        ("output tokens", f"{run.num_output_tokens:,}"),
        ("requests per second", format_number(run.requests_per_s)),
        ("output tokens per second", format_number(run.num_output_tokens / seconds)),
        ("all tokens per second", format_number(tokens / seconds)),
        ("preemptions", f"{run.num_preemptions:,}"),
        ("tokens computed again", f"{run.recomputed_tokens:,}"),
        ("most requests running", f"{max((s.running for s in run.samples), default=0):,}"),
        ("most requests waiting", f"{max((s.waiting for s in run.samples), default=0):,}"),
        ("highest KV cache usage", f"{peak:.1%}"),
        ("KV cache blocks", f"{run.config.num_blocks:,} of {run.config.block_size} tokens"),
    ]
    return [list(row) for row in rows]


def _milliseconds(run: ServerRun, name: str) -> list[str]:
    known = run.latency(name)
    if known is None:
        return ["-"] * 5
    values = (known.mean, known.p50, known.p90, known.p99, known.longest)
    return [f"{value * 1e3:,.2f}" for value in values]


def _print_json(result: Result) -> None:
    run = result.run
    print_json(
        {
            "starts": True,
            "model": result.question.subject.name,
            "gpu": result.question.gpu.name,
            "num_gpus": result.question.flags.world_size,
            "settings": asdict(run.config),
            "finished": len(run.finished),
            "refused": len(run.refused),
            "duration_s": run.duration_s,
            "prompt_tokens": run.num_prompt_tokens,
            "output_tokens": run.num_output_tokens,
            "hit_tokens": run.hit_tokens,
            "preemptions": run.num_preemptions,
            "recomputed_tokens": run.recomputed_tokens,
            "requests_per_s": run.requests_per_s,
            "latency_s": {name: _latency_document(run, name) for name in _LATENCIES},
            "samples": [sample._asdict() for sample in run.samples],
            "refusals": {record.id: record.refusal for record in run.refused},
            "notes": list(result.server.notes),
        }
    )


def _latency_document(run: ServerRun, name: str) -> dict[str, Any] | None:
    known = run.latency(name)
    return None if known is None else asdict(known)


def _print_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_row, result.run.requests))


def _row(record: RequestRecord) -> tuple[Any, ...]:
    return (
        record.id,
        record.arrival_s,
        record.queue_s,
        record.ttft_s,
        record.tpot_s,
        record.e2e_s,
        record.reason.value,
        record.num_prompt_tokens,
        record.num_output_tokens,
        record.hit_tokens,
        record.num_preemptions,
        record.recomputed_tokens,
        record.admitted_s,
        record.first_token_s,
        record.finished_s,
    )


def _print_metrics(result: Result) -> None:
    print(write_metrics([result.run.snapshot]), end="")


def _print_log(result: Result) -> None:
    for time, line in result.run.log:
        print(write_stats_line(line, time=_time_of_day(time)))


def _time_of_day(seconds: float) -> str:
    """Month, day and time, as if the server had been started at midnight of 1 January."""
    days, rest = divmod(int(seconds), 86_400)
    return f"01-{1 + days % 31:02d} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _print_story(result: Result) -> None:
    for sentences in result.run.stories.values():
        print("\n".join(sentences))


PRINTERS: Final[dict[str, Callable[[Result], None]]] = {
    "json": _print_json,
    "csv": _print_csv,
    "metrics": _print_metrics,
    "log": _print_log,
    "explain": _print_story,
    "summary": _print_summary,
}
"""How each form of the answer is printed, by the flag that asks for it."""
