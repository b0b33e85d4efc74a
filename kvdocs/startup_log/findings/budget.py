"""The memory budget: whether its terms add up, and what is wrong when nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import gib
from kvdocs.startup_log.interval import Interval
from kvdocs.startup_log.lines import MISLABELLED
from kvdocs.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts
    from kvdocs.startup_log.reader import Row

ADVICE_BUFFER: Final = 150 * MIB
"""Kept off the two `--kv-cache-memory` suggestions (`v1/worker/gpu_worker.py`)."""
GRAPHS_COUNTED: Final = (0, 20, 2)
"""First version that takes CUDA graphs out of the budget by default
(`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`); a log without a version counts as older."""
_TERM_WORDS: Final = {
    "weights_bytes": "weights",
    "consumed_bytes": "consumed",
    "peak_torch_bytes": "PyTorch peak (weights included)",
    "activation_peak_bytes": "activation peak",
    "non_torch_bytes": "non-torch",
    "cuda_graph_bytes": "CUDA graphs",
}
_TERMS: Final = {
    "profile-0.6": ("peak_torch_bytes", "non_torch_bytes"),
    "profile-parts": ("weights_bytes", "activation_peak_bytes", "non_torch_bytes"),
    "usage-parts": ("weights_bytes", "activation_peak_bytes", "non_torch_bytes"),
    "usage-consumed": ("consumed_bytes", "activation_peak_bytes"),
}


def requested(facts: Facts) -> Interval | None:
    """The GPU memory this server may use, printed or total x utilization."""
    printed = facts.interval("requested_memory_bytes")
    if printed:
        return printed
    total, share = facts.last("total_memory_bytes"), facts.last("gpu_memory_utilization")
    if total is None:
        return None
    value = share.value if share else facts.setting("gpu_memory_utilization")
    return total.interval.scaled(value) if value else None


def identity(facts: Facts) -> Iterator[Finding]:
    """Requested memory less the named parts must be the KV memory."""
    for row in facts.rows(*_TERMS):
        terms = _TERMS[row.name]
        budget, left = requested(facts), facts.interval("kv_pool_bytes")
        if "kv_pool_bytes" in row.numbers:
            left = row.numbers["kv_pool_bytes"].interval
        if budget is None or left is None:
            continue
        with_graphs = (*terms, "cuda_graph_bytes")
        if "cuda_graph_bytes" in row.numbers and _meets(_rest(budget, row, with_graphs), left):
            terms = with_graphs
        parts = " - ".join(f"{gib(row.numbers[term].value)} {_TERM_WORDS[term]}" for term in terms)
        yield _verdict(f"{gib(budget.middle)} - {parts}", _rest(budget, row, terms), left)
        return


def _rest(budget: Interval, row: Row, terms: tuple[str, ...]) -> Interval:
    for term in terms:
        budget = budget - row.numbers[term].interval
    return budget


def _meets(rest: Interval, left: Interval) -> bool:
    slack = 0.011 * 2**30
    return Interval(rest.low - slack, rest.high + slack).meets(left)


def _verdict(subtraction: str, rest: Interval, left: Interval) -> Finding:
    if _meets(rest, left):
        return Finding(
            "budget-adds-up",
            f"The budget adds up: {subtraction} = {gib(left.middle)} for KV cache.",
        )
    return Finding(
        "budget-does-not-add-up",
        f"{subtraction} = {gib(rest.middle)}, but {gib(left.middle)} is printed for KV cache: "
        f"{gib(rest.middle - left.middle)} went to a term that is not printed (CUDA graphs), to "
        "another process, or the lines are of different starts.",
        "warning",
    )


def total_times_share(facts: Facts) -> Iterator[Finding]:
    """The printed request must be total x utilization."""
    total, share = facts.last("total_memory_bytes"), facts.last("gpu_memory_utilization")
    printed = facts.interval("requested_memory_bytes")
    if total is None or share is None or printed is None or not facts.start.rows:
        return
    low = total.interval.low * share.interval.low
    product = Interval(low, total.interval.high * share.interval.high)
    if not product.meets(printed):
        yield Finding(
            "request-is-not-total-times-share",
            f"{gib(total.value)} total x {share.value:g} is {gib(total.value * share.value)}, but "
            f"{gib(printed.middle)} is printed as requested.",
            "warning",
        )


def nothing_left(facts: Facts) -> Iterator[Finding]:
    """No memory for the cache, by a negative figure or vLLM's own words."""
    left = facts.lowest("kv_pool_bytes")
    if left is not None and left.value < 0:
        yield from _negative(facts, left.value)
    elif facts.has("refused-no-memory"):
        shown = f" ({gib(left.value)} was available)" if left else ""
        yield Finding(
            "no-memory-for-kv",
            f"Weights and activations took the whole share of the GPU{shown}: no block fits. Raise "
            "--gpu-memory-utilization, lower --max-num-batched-tokens, use a smaller or quantised "
            "model, or more GPUs (--tensor-parallel-size).",
            "error",
        )


def _negative(facts: Facts, left: float) -> Iterator[Finding]:
    weights = facts.lowest("weights_bytes") or facts.lowest("consumed_bytes")
    room = ""
    if weights:
        room = (
            f" Weights are {gib(weights.value)}, so all that was not activations and graphs came "
            f"to {gib(weights.value + left)}."
        )
    yield Finding(
        "no-memory-for-kv",
        f"The budget is overdrawn: {gib(left)} is left for KV cache, so the server needs "
        f"{gib(-left)} more before the first block.{room} {_raise_share(facts, -left)}"
        "Other ways: lower --max-num-batched-tokens (activation peak), fewer CUDA graph sizes, "
        "quantised weights, or more GPUs (--tensor-parallel-size).",
        "error",
    )
    budget = requested(facts)
    if weights and budget is None and weights.value + left < 0.5 * weights.value:
        yield Finding(
            "weights-exceed-share",
            f"The share of the GPU this server was given is about {gib(weights.value + left)} plus "
            f"activations, less than the weights' {gib(weights.value)}. --gpu-memory-utilization "
            "is a share of the whole card, weights included, not the part kept for KV cache.",
            "error",
        )
    elif weights and budget and budget.high < weights.value:
        yield Finding(
            "weights-exceed-share",
            f"The requested {gib(budget.middle)} are less than the weights' {gib(weights.value)}: "
            "--gpu-memory-utilization is a share of the whole card, weights included.",
            "error",
        )


def _raise_share(facts: Facts, missing: float) -> str:
    """The utilization that would supply the missing bytes."""
    total = facts.last("total_memory_bytes") or facts.last("smi_total_bytes")
    share = facts.last("gpu_memory_utilization")
    value = share.value if share else facts.setting("gpu_memory_utilization")
    if total is None or not value:
        return "Raise --gpu-memory-utilization if the card has that much free. "
    wanted = value + missing / total.value
    if wanted > 1:
        return "No --gpu-memory-utilization up to 1.0 can supply that on this card. "
    return f"That takes --gpu-memory-utilization {wanted + 0.005:.2f} or more. "


def implied_other(facts: Facts) -> Iterator[Finding]:
    """What the budget spends on neither weights nor KV."""
    budget, weights = requested(facts), facts.lowest("weights_bytes")
    left = facts.lowest("kv_pool_bytes")
    if budget is None or weights is None or left is None or facts.rows(*_TERMS):
        return
    other = budget.middle - weights.value - left.value
    yield Finding(
        "implied-other-memory",
        f"{gib(budget.middle)} requested - {gib(weights.value)} weights - {gib(left.value)} KV "
        f"leaves {gib(other)} for activations, non-torch memory and CUDA graphs.",
    )


def free_below_desired(facts: Facts) -> Iterator[Finding]:
    """Start-up refused because other processes hold the memory."""
    if not facts.has("free-below-desired"):
        return
    free, total = facts.last("free_memory_bytes"), facts.last("total_memory_bytes")
    wanted = facts.last("requested_memory_bytes")
    if free is None or total is None or wanted is None:
        yield Finding(
            "free-memory-below-desired",
            "Less memory is free than --gpu-memory-utilization asks for; the line is cut, so the "
            "figures are unknown.",
            "error",
        )
        return
    most = int(free.value / total.value * 100) / 100
    yield Finding(
        "free-memory-below-desired",
        f"Refused: {gib(free.value)} of {gib(total.value)} were free, {gib(wanted.value)} asked "
        f"for. Other processes hold {gib(total.value - free.value)}: stop them (nvidia-smi lists "
        f"them) or set --gpu-memory-utilization {most:.2f} or less. The share is of the whole "
        "card, not of what is free.",
        "error",
    )


def full_gpu(facts: Facts) -> Iterator[Finding]:
    """A GPU that looks full right after the start."""
    used, total = facts.last("smi_used_bytes"), facts.last("smi_total_bytes")
    budget = requested(facts)
    if used and total and used.value > 0.8 * total.value:
        yield Finding(
            "full-gpu-is-healthy",
            f"nvidia-smi shows {gib(used.value)} of {gib(total.value)} in use because the pool is "
            "claimed at start-up, before any request. A full GPU is not a full cache: that is "
            "`GPU KV cache usage` in the running log.",
        )
    elif budget and not facts.has("free-below-desired"):
        yield Finding(
            "full-gpu-is-healthy",
            f"nvidia-smi will show {_shown(facts, budget)} in use from the start on, "
            "idle or not: the pool is claimed before the first request.",
        )


def _shown(facts: Facts, budget: Interval) -> str:
    """What nvidia-smi will show: what was asked for, and graphs where they are not in it."""
    told = facts.last("gpu_memory_utilization_without_graphs") is not None
    if told or facts.version >= GRAPHS_COUNTED:
        return f"about {gib(budget.middle)}"
    return f"at least {gib(budget.middle)} (before 0.20.2, CUDA graphs come on top)"


def graphs(facts: Facts) -> Iterator[Finding]:
    """CUDA graphs: counted in the budget since 0.21."""
    now = facts.last("gpu_memory_utilization")
    like = facts.last("gpu_memory_utilization_without_graphs")
    advised = facts.last("gpu_memory_utilization_suggested")
    if now and like and advised:
        yield Finding(
            "cuda-graphs-in-budget",
            f"CUDA graphs are now taken out of the budget: {now.value:g} acts like {like.value:g} "
            f"did before 0.21. --gpu-memory-utilization {advised.value:g} keeps the old pool.",
        )


def flag_memory(facts: Facts) -> Iterator[Finding]:
    """`--kv-cache-memory-bytes`: given, or advised."""
    if facts.has("kv-cache-memory-flag"):
        yield Finding(
            "kv-memory-set-by-flag",
            "--kv-cache-memory-bytes sets the pool: --gpu-memory-utilization is ignored and "
            "nothing checks that the rest of the GPU suffices.",
        )
    within = facts.last("kv_cache_memory_within_request_bytes")
    whole = facts.last("kv_cache_memory_whole_gpu_bytes")
    if within and whole:
        yield Finding(
            "kv-memory-advice",
            f"vLLM advises --kv-cache-memory {within.value:.0f} ({gib(within.value)}) to stay in "
            f"the share or {whole.value:.0f} ({gib(whole.value)}) to fill the GPU; both keep "
            f"{gib(ADVICE_BUFFER)} in reserve.",
        )


def units(facts: Facts) -> Iterator[Finding]:
    """Sizes labelled "GB" that are GiB."""
    names = {row.name for row in facts.start.rows}
    if names & MISLABELLED or any(name.startswith("sglang-") for name in names):
        yield Finding(
            "gb-means-gib",
            'This version prints "GB" (or "MB") for powers of 1024: '
            f"{_example(facts)}the figures here are read as GiB.",
            "warning",
        )


def _example(facts: Facts) -> str:
    weights = facts.last("weights_bytes")
    if weights is None:
        return ""
    return f"weights of {weights.value / 2**30:.4f} are {weights.value / 1e9:.2f} GB; "


def out_of_memory(facts: Facts) -> Iterator[Finding]:
    """PyTorch ran out of memory."""
    asked = facts.last("oom_request_bytes")
    if asked is None:
        return
    free = facts.last("oom_free_bytes")
    room = f" while {gib(free.value)} was free" if free else ""
    have_pool = facts.last("printed_pool_tokens") or facts.last("num_gpu_blocks")
    when = (
        "after the pool was sized: CUDA graphs or the pool itself do not fit beside what is in "
        "use; lower --gpu-memory-utilization"
        if have_pool
        else "before the pool was sized: weights or the profiling run do not fit; lower "
        "--max-num-batched-tokens or --max-model-len, or use more GPUs"
    )
    yield Finding(
        "cuda-out-of-memory",
        f"PyTorch could not get {gib(asked.value)}{room}, {when}.",
        "error",
    )


CHECKS: Final = (
    identity,
    total_times_share,
    nothing_left,
    implied_other,
    free_below_desired,
    full_gpu,
    graphs,
    flag_memory,
    units,
    out_of_memory,
)
