"""`vllm bench serve`: send requests to the running server and time them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from kvdocs.errors import FlagError
from kvdocs.terminal.bench import parse_bench
from kvdocs.terminal.bench_table import result
from kvdocs.terminal.command import Call
from kvdocs.terminal.machine import Load, Machine, Server
from kvdocs.terminal.output import Kind, Piece, Result, fail, out
from kvdocs.terminal.plan import option, plan_of
from kvdocs.terminal.served import served

MOST_LOADS: Final = 20
"""Benchmarks of one server."""
_USAGE: Final = "usage: vllm bench serve [options]"
_HELP: Final = f"""\
{_USAGE}

Send requests to the running server and print how long they took.

  --num-prompts N             requests (default: 1000)
  --random-input-len N        tokens of a prompt (default: 1024)
  --random-output-len N       tokens of an answer (default: 128)
  --random-range-ratio R      lengths vary by this share, up and down (default: 0.0)
  --random-prefix-len N       tokens that all prompts begin with (default: 0)
  --request-rate RATE         requests per second, at random times (default: inf, all at once)
  --max-concurrency N         requests under way at once (default: no limit)
  --dataset-name NAME         random, or prefix_repetition (with --prefix-repetition-prefix-len,
                              -suffix-len, -num-prefixes, -output-len)
  --percentile-metrics LIST   of ttft, tpot, itl, e2el (default: ttft,tpot,itl)
  --metric-percentiles LIST   such as 50,95,99 (default: 99)
  --seed N                    equal seeds send equal prompts (default: 0)

Put & behind it to look around while it runs; `sleep 10` lets ten seconds pass, `wait` waits for it.
"""


def run(call: Call) -> Result:
    """Run a benchmark.

    Args:
        call: The words after `vllm bench`.
    """
    words = call.words
    if words[:1] != ("serve",):
        if not words or words[0] in ("-h", "--help"):
            return out(call.machine, _HELP.rstrip())
        note = "# Here there is vllm bench serve."
        error = (
            "usage: vllm bench <bench_type> [options]\nvllm bench: error: argument bench_type: "
            f"invalid choice: '{words[0][:60]}'"
        )
        return fail(call.machine, error, status=2, note=note)
    words = words[1:]
    if "-h" in words or "--help" in words:
        return out(call.machine, _HELP.rstrip())
    try:
        parse_bench(words)
    except FlagError as error:
        text = str(error)
        who = "vllm" if text.startswith("unrecognized") else "vllm bench serve"
        return fail(call.machine, f"{_USAGE}\n{who}: error: {text}", status=2)
    problem = _problem(call, words)
    if problem is not None:
        return problem
    return _send(call, words)


def _problem(call: Call, words: tuple[str, ...]) -> Result | None:
    server = call.machine.running
    if server is None:
        note = "# No server runs. Start one first: vllm serve meta-llama/Llama-3.1-8B"
        error = "Cannot connect to host 127.0.0.1:8000"
        return fail(call.machine, error, note=note)
    if len(server.loads) >= MOST_LOADS:
        note = f"# At most {MOST_LOADS} benchmarks of one server here: stop it and start it anew."
        return fail(call.machine, "vllm bench serve: this was the last benchmark", note=note)
    port = option(words, "--port")
    plan = plan_of(call.machine, server)
    if port and port != str(plan.port):
        error = f"Cannot connect to host 127.0.0.1:{port[:10]}"
        return fail(call.machine, error, note=f"# The server listens on port {plan.port}.")
    return None


def _send(call: Call, words: tuple[str, ...]) -> Result:
    machine = with_load(call.machine, Load(call.machine.clock, words))
    index = len(machine.running.loads) - 1 if machine.running else 0
    if call.in_background:
        note = "# It runs while you type; sleep lets time pass, wait waits for it."
        return Result(machine, (Piece(Kind.OUT, f"[{index + 1}]"), Piece(Kind.NOTE, note)))
    past = served(machine, math.inf)
    if past is None:
        return Result(machine)
    done = past.run(index)
    later = replace(machine, clock=done.ended or machine.clock)
    return Result(reported(later, index), result(done))


def with_load(machine: Machine, load: Load) -> Machine:
    """The machine with a benchmark more.

    Args:
        machine: A machine whose server runs.
        load: The benchmark.
    """
    server = machine.running
    if server is None:
        return machine
    return replace(machine, server=replace(server, loads=(*server.loads, load)))


def reported(machine: Machine, index: int) -> Machine:
    """The machine after a benchmark's result was printed.

    Args:
        machine: The machine.
        index: Which benchmark.
    """
    server = machine.server
    if server is None:
        return machine
    loads = list(server.loads)
    loads[index] = replace(loads[index], reported=True)
    return replace(machine, server=replace(server, loads=tuple(loads)))


def report_ended(machine: Machine) -> tuple[Machine, tuple[Piece, ...]]:
    """Print the results of background benchmarks that have ended.

    Args:
        machine: The machine.

    Returns:
        The machine, and what is to be printed.
    """
    server = machine.running
    waiting = _unreported(server)
    past = served(machine) if waiting else None
    if server is None or past is None:
        return machine, ()
    pieces: list[Piece] = []
    for index in waiting:
        done = past.run(index)
        if done.ended is not None and done.ended <= machine.clock:
            words = " ".join(server.loads[index].words)
            pieces.append(Piece(Kind.OUT, f"[{index + 1}]+  Done    vllm bench serve {words}"))
            pieces += result(done)
            machine = reported(machine, index)
    return machine, tuple(pieces)


def _unreported(server: Server | None) -> list[int]:
    if server is None:
        return []
    return [index for index, load in enumerate(server.loads) if not load.reported]


def last_end(machine: Machine) -> float:
    """When the last background benchmark ends, in seconds on the machine's clock.

    Args:
        machine: The machine.
    """
    waiting = _unreported(machine.running)
    if not waiting:
        return machine.clock
    past = served(machine, math.inf)
    ends = [past.run(index).ended or machine.clock for index in waiting] if past else []
    return max(ends, default=machine.clock)
