"""A server that would not start for its longest request, and how to start it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvdocs.startup_log.arithmetic import (
    best_value,
    block_size,
    bytes_per_token,
    explicit_block_size,
    layout_rate,
    sums_stages,
)
from kvdocs.startup_log.facts import Finding
from kvdocs.startup_log.findings.wording import count, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvdocs.startup_log.facts import Facts

LARGEST_STAGE: Final = 1.5
"""The largest pipeline stage's layers over the mean: 2 layers against 1.33 at the worst usual."""
V0_LONG_PROFILE: Final = 8_192
"""A whole prefill shorter than this has a small activation peak anyway."""
V0_CHUNKED_FROM: Final = 32_768
"""V0 turns chunked prefill on by itself only above this max_model_len (`engine/arg_utils.py`,
0.5 to 0.10); below, the profiling run is one prefill of the whole length."""


def too_long(facts: Facts) -> Iterator[Finding]:
    """V1: memory needed for one request against memory available."""
    needed, length = facts.last("refusal_needed_bytes"), facts.max_model_len
    if needed is None or not length:
        return
    available, fits = facts.last("refusal_available_bytes"), facts.last("max_model_len_that_fits")
    text = f"Refused: one request of {count(length)} tokens needs {gib(needed.value)} of KV cache"
    if available is None:
        yield Finding(
            "refused-max-model-len",
            f"{text}; the line is cut before the memory available.",
            "error",
        )
        return
    missing = needed.value - available.value
    ways = [f"raise --gpu-memory-utilization {_by(facts, missing)}"]
    if fits:
        ways.insert(0, f"--max-model-len {fits.value:.0f}")
    ways += _other_ways(facts, needed.value, available.value)
    yield Finding(
        "refused-max-model-len",
        f"{text}, {gib(available.value)} is available: {gib(missing)} short. To start: "
        f"{'; or '.join(ways)}.",
        "error",
    )


def _by(facts: Facts, missing: float) -> str:
    """How much utilization a number of bytes is."""
    total = facts.last("total_memory_bytes") or facts.last("smi_total_bytes")
    share = facts.last("gpu_memory_utilization")
    now = share.value if share else facts.setting("gpu_memory_utilization")
    if total is None:
        return f"by what {gib(missing)} is of the card (its total is not in this log)"
    step = missing / total.value + 0.005
    if now is None:
        return f"by {step:.2f}"
    if now + step > 1:
        return f"cannot help: {now + step:.2f} would be needed"
    return f"to {now + step:.2f}"


def _other_ways(facts: Facts, needed: float, available: float) -> list[str]:
    """A one-byte cache and more GPUs, where they could be enough."""
    ways = []
    cache = facts.settings.get("kv_cache_dtype", "")
    if not cache.startswith(("fp8", "int8", "nvfp4")) and needed / 2 <= available:
        ways.append(f"--kv-cache-dtype fp8 (about {gib(needed / 2)} if the cache is 16-bit now)")
    ways.append(
        "a lower --max-num-batched-tokens (a smaller activation peak; its default grows with the "
        "GPU's memory, so name it)"
    )
    gpus = facts.parallel("tensor")
    ways.append(
        f"--tensor-parallel-size {2 * gpus} (halves it while KV heads remain to share out; not for "
        "MLA)"
    )
    return ways


def too_long_v0(facts: Facts) -> Iterator[Finding]:
    """V0: token slots against the longest request."""
    held, length = facts.last("refusal_pool_tokens"), facts.max_model_len
    if held is None or not length:
        return
    value = bytes_per_token(facts)
    rate = layout_rate(facts) or (best_value(value) if value else 0)
    memory = ""
    if rate:
        memory = f" ({gib(held.value * rate)} of the {gib(length * rate)} per GPU it needs)"
    yield Finding(
        "refused-max-model-len",
        f"Refused: the pool holds {count(held.value)} tokens, one request may have {count(length)}"
        f"{memory}. To start: --max-model-len {held.value:.0f}; or raise "
        "--gpu-memory-utilization; or --kv-cache-dtype fp8; or "
        f"--tensor-parallel-size {2 * facts.parallel('tensor')}.",
        "error",
    )
    if V0_LONG_PROFILE < length <= V0_CHUNKED_FROM:
        yield Finding(
            "unchunked-prefill-profile",
            f"Up to {count(V0_CHUNKED_FROM)} tokens V0 profiles one unchunked prefill of the whole "
            f"{count(length)}: the activation peak grows with max_model_len and eats the pool. "
            "--enable-chunked-prefill, or a lower --max-num-batched-tokens, gives it back; a "
            "longer max_model_len may start where this one does not.",
            "warning",
        )


def estimate_block(facts: Facts) -> Iterator[Finding]:
    """An estimate far below what the rate allows shows larger blocks."""
    available, fits = facts.last("refusal_available_bytes"), facts.last("max_model_len_that_fits")
    value = bytes_per_token(facts)
    if available is None or fits is None or value is None or explicit_block_size(facts):
        return
    room = available.interval.over(value)
    if room.low - fits.value <= block_size(facts):
        return
    yield Finding(
        "estimate-rounded-down",
        f"{gib(available.value)} at {count(best_value(value))} bytes a token hold about "
        f"{count(room.middle)} tokens; the estimate {count(fits.value)} is rounded down to whole "
        "blocks larger than 16 tokens.",
    )


def mamba_blocks(facts: Facts) -> Iterator[Finding]:
    """A hybrid model with more sequences than state blocks."""
    asked, held = facts.last("max_num_seqs"), facts.last("num_mamba_blocks")
    if asked is None or held is None:
        return
    yield Finding(
        "refused-mamba-blocks",
        f"Refused: each running sequence of this hybrid model needs one block for its recurrent "
        f"state, and there are {count(held.value)} blocks for --max-num-seqs {count(asked.value)}. "
        f"To start: --max-num-seqs {held.value:.0f} or less. A higher --gpu-memory-utilization "
        f"would have to supply {asked.value / held.value:.2f} times the blocks.",
        "error",
    )


def false_refusal(facts: Facts) -> Iterator[Finding]:
    """Some versions add up all pipeline stages and compare with one stage's memory."""
    stages, layout = facts.parallel("pipeline"), facts.layout
    needed, available = facts.last("refusal_needed_bytes"), facts.last("refusal_available_bytes")
    length = facts.max_model_len
    if layout is None or needed is None or available is None or not length:
        return
    stage = layout.bytes_per_token_per_gpu * length
    if not sums_stages(facts):
        return
    if stage > available.value:
        yield Finding(
            "pipeline-need-summed",
            f"The need is overstated: {gib(needed.value)} is that of all {stages} pipeline stages "
            f"together. The largest stage needs {gib(stage)}, still more than its "
            f"{gib(available.value)}; it holds "
            f"{count(available.value / layout.bytes_per_token_per_gpu)} tokens.",
            "warning",
        )
        return
    yield Finding(
        "false-refusal-pipeline",
        f"This refusal is false: {gib(needed.value)} is the need of all {stages} pipeline stages "
        f"together, compared with the memory of one. The largest stage needs {gib(stage)} of its "
        f"{gib(available.value)} and holds "
        f"{count(available.value / layout.bytes_per_token_per_gpu)} tokens. Upgrade vLLM.",
        "error",
    )


def pipeline_suspected(facts: Facts) -> Iterator[Finding]:
    """Without a config, a need that one stage's share would not reach."""
    stages = facts.parallel("pipeline")
    needed, available = facts.last("refusal_needed_bytes"), facts.last("refusal_available_bytes")
    if stages == 1 or facts.layout or needed is None or available is None:
        return
    share = needed.value * LARGEST_STAGE / stages
    if share > available.value:
        return
    yield Finding(
        "false-refusal-pipeline",
        f"Likely a false refusal: some versions (0.14) add up the need of all {stages} pipeline "
        f"stages and compare it with one stage's memory. If {gib(needed.value)} is the sum, the "
        f"largest stage needs at most about {gib(share)} of its {gib(available.value)} and the "
        "server would start: upgrade vLLM. The model's config.json would settle it.",
        "warning",
    )


def auto_fit(facts: Facts) -> Iterator[Finding]:
    """`--max-model-len -1` took what fits."""
    wanted, fits = facts.last("max_model_len_wanted"), facts.last("max_model_len_that_fits")
    if wanted is None or fits is None:
        return
    yield Finding(
        "max-model-len-auto-fit",
        f"--max-model-len -1 took {count(fits.value)} tokens of the model's {count(wanted.value)}: "
        "longer requests are refused, not truncated.",
        "warning",
    )


CHECKS: Final = (
    false_refusal,
    too_long,
    too_long_v0,
    pipeline_suspected,
    estimate_block,
    mamba_blocks,
    auto_fit,
)
