"""What a run's figures say about the server, and what to change: the one place that asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from kvdocs.playground.measures import peak_usage
from kvdocs.playground.moment import Moment
from kvdocs.playground.setup import Sized
from kvdocs.server import ServerRun

_FULL = 0.9


def advice(sized: Sized, run: ServerRun, moments: Sequence[Moment]) -> tuple[str, ...]:
    """What to know about a run, the most important first.

    Args:
        sized: The set-up.
        run: What came of it.
        moments: Its moments.
    """
    usage, waiting = peak_usage(run, moments), max(moment.waiting for moment in moments)
    limit = sized.started().config.max_num_seqs
    running = max(moment.running for moment in moments)
    found = []
    if run.num_preemptions:
        found.append(
            f"{run.num_preemptions:,} preemptions: running requests lost their blocks and "
            f"{run.recomputed_tokens:,} tokens were computed again. More cache ends it "
            "(--kv-cache-dtype fp8, a higher --gpu-memory-utilization, more GPUs), or a lower "
            "--max-num-seqs, which makes requests wait instead."
        )
    if waiting > 1 and usage >= _FULL:
        found.append(
            f"The pool was {usage:.0%} full and up to {waiting:,} requests waited: memory is what "
            "limits this server."
        )
    elif waiting > 1 and running >= limit:
        found.append(
            f"Up to {waiting:,} requests waited although the pool was never more than {usage:.0%} "
            f"full: --max-num-seqs {limit:,} is what limits this server."
        )
    elif waiting > 1:
        found.append(
            f"Up to {waiting:,} requests waited although the pool was never more than {usage:.0%} "
            "full: computing prompts is what limits this server (--max-num-batched-tokens, or "
            "fewer requests for each GPU)."
        )
    return tuple(found) or ("Nobody waited: this server can take more.",)
