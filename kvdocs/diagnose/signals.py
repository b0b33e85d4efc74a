"""From figures to a few words each: what the decision table asks about.

A signal has a handful of values. Each is read from the evidence by one comparison or two, with the
figures it used, and with a mark when one of them lies so near its threshold that it might as well
have come out on the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvdocs.diagnose import thresholds
from kvdocs.diagnose.evidence import Evidence, Prompts
from kvdocs.diagnose.figures import hit_rate_possible, seconds_to_full
from kvdocs.diagnose.thresholds import Threshold

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """A signal's value.

    Attributes:
        value: One of the signal's values.
        used: Names of the evidence's figures it goes by.
        near: Whether a figure lies near its threshold.
    """

    value: str
    used: tuple[str, ...] = ()
    near: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """Something the decision table asks about.

    Attributes:
        name: Its name.
        question: What it asks.
        values: Its values, each with what it means.
        read: How it is read.
    """

    name: str
    question: str
    values: dict[str, str]
    read: Callable[[Evidence], Reading]


def _is_near(value: float, threshold: Threshold) -> bool:
    return abs(value - threshold.value) <= thresholds.NEAR.value * threshold.value


def _progress(e: Evidence) -> Reading:
    if e.running is None or e.waiting is None:
        return Reading(UNKNOWN)
    tokens = (e.prompt_tokens_per_s or 0) + (e.generation_tokens_per_s or 0)
    made_none = not tokens and not e.output_tokens
    nobody = e.running == 0 and e.waiting > (e.deferred or 0)
    hangs = e.generation_tokens_per_s == 0 and e.prompt_tokens_per_s == 0 and e.moments > 1
    used = ("running", "waiting", "generation_tokens_per_s", "prompt_tokens_per_s")
    if made_none and (nobody or (hangs and e.waiting > 0)):
        return Reading("stalled", used)
    return Reading("fine", used[:2])


def _start(e: Evidence) -> Reading:
    if e.refused_tokens is not None:
        return Reading(
            "never-fits", ("refused_tokens", "gpu_blocks", "block_size", "pipeline_parallel_size")
        )
    if e.gpu_used_bytes is not None and e.gpu_total_bytes:
        target = e.gpu_memory_utilization or 0.9
        used = ("gpu_used_bytes", "gpu_total_bytes", "gpu_memory_utilization")
        share = e.gpu_used_bytes / e.gpu_total_bytes
        return Reading("full" if share >= 0.9 * target else "reserve", used)
    if e.kv_memory_bytes is not None and (e.max_num_batched_tokens or 0) > 16384:
        return Reading("reserve", ("kv_memory_bytes", "max_num_batched_tokens"))
    return Reading(UNKNOWN)


def _tier(e: Evidence) -> Reading:
    compared = _reload_against_recompute(e)
    if compared is not None:
        return compared
    if e.tier_short_of_bytes is not None:
        return Reading("full", ("tier_short_of_bytes",))
    if e.passing_bytes is not None and e.tier_capacity_bytes is not None:
        value = "full" if e.passing_bytes > e.tier_capacity_bytes else "fine"
        return Reading(value, ("passing_bytes", "tier_capacity_bytes"))
    if e.tier_hit_tokens and e.tier_needed_tokens is not None:
        share = e.tier_needed_tokens / e.tier_hit_tokens
        if share <= thresholds.UNNEEDED.value:
            return Reading("unneeded", ("tier_hit_tokens", "tier_needed_tokens"))
    return _link(e)


def _reload_against_recompute(e: Evidence) -> Reading | None:
    if e.reload_s is not None and e.recompute_s is not None:
        value = "slower" if e.reload_s > e.recompute_s else "fine"
        near = abs(e.reload_s - e.recompute_s) <= thresholds.NEAR.value * e.recompute_s
        return Reading(value, ("reload_s", "recompute_s"), near)
    if e.tier_tokens and e.tier_seconds and e.recompute_tokens_per_s:
        loaded = e.tier_tokens / e.tier_seconds
        value = "slower" if loaded < e.recompute_tokens_per_s else "fine"
        used = ("tier_tokens", "tier_seconds", "recompute_tokens_per_s")
        return Reading(value, used)
    return None


def _link(e: Evidence) -> Reading:
    moved = ((e.tier_bytes, e.tier_seconds, "tier"), (e.transfer_bytes, e.transfer_s, "transfer"))
    for size, seconds, name in moved:
        if size and seconds:
            used = (f"{name}_bytes", f"{'tier_seconds' if name == 'tier' else 'transfer_s'}")
            rate = size / seconds
            slow = rate < thresholds.SLOW.value
            return Reading("slow-link" if slow else "fine", used, _is_near(rate, thresholds.SLOW))
    return Reading(UNKNOWN)


def _queue(e: Evidence) -> Reading:
    if e.waiting is None:
        return Reading(UNKNOWN)
    used = ("waiting", "running", "deferred") if e.deferred else ("waiting", "running")
    short = e.waiting < thresholds.QUEUE.value * (e.running or 0)
    if e.waiting == 0 or short:
        return Reading("none", used)
    if e.deferred and e.deferred >= e.waiting / 2:
        return Reading("fetching" if _has_connector(e) else "deferred", used)
    near = e.running is not None and _is_near(e.waiting / max(e.running, 1), thresholds.QUEUE)
    return Reading("some", used, near)


def _has_connector(e: Evidence) -> bool:
    moved = (e.tier_tokens, e.tier_bytes, e.tier_hit_tokens, e.transfers, e.transfer_bytes)
    return bool(e.has_connector) or any(moved)


def _room(e: Evidence) -> Reading:
    usage = e.kv_cache_usage
    if usage is None:
        return Reading(UNKNOWN)
    used = ("kv_cache_usage", "running")
    if usage >= thresholds.FULL.value:
        return Reading("full", used[:1], _is_near(usage, thresholds.FULL))
    next_fits = not e.running or 1 - usage >= usage / e.running
    if usage >= thresholds.TIGHT.value or not next_fits:
        return Reading("tight", used, near=True)
    return Reading("free", used, _is_near(usage, thresholds.TIGHT))


def _preempting(e: Evidence) -> Reading:
    share = e.preemptions_per_request
    if share is None:
        return Reading(UNKNOWN)
    used = ("preemptions", "preemptions_per_request")
    in_bursts = (
        e.preempting_lines is not None and e.preempting_lines < thresholds.PREEMPTING_LINES.value
    )
    if share >= thresholds.PREEMPTED.value and not in_bursts:
        return Reading("steady", used, _is_near(share, thresholds.PREEMPTED))
    return Reading("rare", used, _is_near(share, thresholds.PREEMPTED))


def _sharing(e: Evidence) -> Reading:
    if artefact := _hits_that_are_none(e):
        return artefact
    rate = e.prefix_hit_rate
    if e.block_size and e.prompt_tokens and e.prompt_tokens < e.block_size:
        return Reading("defeated", ("prompt_tokens", "block_size"))
    if e.block_size and e.block_size >= thresholds.COARSE.value:
        possible = hit_rate_possible(e.prompt_tokens, e.block_size) if e.prompt_tokens else 0.2
        if rate is None or rate < possible / 2:
            return Reading("defeated", ("block_size", "prefix_hit_rate", "prompt_tokens"))
    if rate is None:
        return Reading(UNKNOWN)
    if rate <= thresholds.NO_HITS.value and e.prompts is Prompts.SHARED:
        return Reading("defeated", ("prefix_hit_rate",))
    return Reading("fine", ("prefix_hit_rate",))


def _hits_that_are_none(e: Evidence) -> Reading | None:
    if (e.prefix_hit_rate or 0) < thresholds.SOME_HITS.value:
        return None
    if (e.lookups_per_prompt_token or 0) >= thresholds.LOOKUPS.value and e.preemptions:
        return Reading("artefact", ("prefix_hit_rate", "lookups_per_prompt_token", "preemptions"))
    if e.prompts is Prompts.UNRELATED and (e.waiting or e.preemptions):
        return Reading("artefact", ("prefix_hit_rate", "waiting", "preemptions"))
    return None


def _cap(e: Evidence) -> Reading:
    if e.running is None:
        return Reading(UNKNOWN)
    if e.max_num_seqs is not None:
        reached = e.running >= e.max_num_seqs - max(1, 0.05 * e.max_num_seqs)
        return Reading("reached" if reached else "below", ("running", "max_num_seqs"))
    if (e.kv_cache_usage or 0) >= thresholds.TIGHT.value:
        return Reading(UNKNOWN)
    is_held = e.running_steady and e.moments >= thresholds.MOMENTS_TO_HOLD
    if is_held and e.running > 1:
        return Reading("reached", ("running",), near=True)
    if e.running in thresholds.USUAL_CAPS:
        return Reading("reached", ("running",), near=True)
    return Reading(UNKNOWN)


def _prefill(e: Evidence) -> Reading:
    ratio = e.prompt_per_output
    if ratio is None:
        return Reading(UNKNOWN)
    near = _is_near(ratio, thresholds.PREFILL)
    if ratio < thresholds.PREFILL.value:
        return Reading("light", ("prompt_per_output",), near)
    speed = e.generation_tokens_per_s
    if speed is not None and e.running and speed / e.running < thresholds.STARVING.value:
        return Reading("starving", ("prompt_per_output", "generation_tokens_per_s", "running"))
    return Reading("heavy", ("prompt_per_output",), near)


def _growth(e: Evidence) -> Reading:
    if e.usage_growth is None or e.running_steady is None:
        return Reading(UNKNOWN)
    used = ("usage_growth", "running", "output_tokens", "seconds")
    left_or_came = not e.running_steady or e.requests_finished or e.prompt_tokens_per_s
    if left_or_came or not e.running or e.usage_growth < 0.003:
        return Reading("steady", used[:2])
    is_long = (e.output_tokens or 0) / e.running >= thresholds.LONG_ANSWER.value
    left = seconds_to_full(e)
    is_soon = left is not None and left <= thresholds.SOON.value
    return Reading("growing" if is_long or is_soon else "steady", used)


def _metric(e: Evidence) -> Reading:
    if e.misread:
        return Reading("misread")
    if e.prefix_hits == 0 and e.ttft_first_s is not None and e.ttft_again_s:
        found = e.ttft_first_s / e.ttft_again_s >= thresholds.COLD_TO_WARM.value
        used = ("prefix_hits", "ttft_first_s", "ttft_again_s")
        return Reading("misread" if found else "sound", used)
    if e.printed_bytes_per_s and e.link_bytes_per_s:
        above = e.printed_bytes_per_s > e.link_bytes_per_s
        bandwidths = ("printed_bytes_per_s", "link_bytes_per_s")
        return Reading("misread" if above else "sound", bandwidths)
    return Reading("sound")


SIGNALS: Final = (
    Signal(
        "progress",
        "Does anything run?",
        {
            "stalled": "requests wait, nothing runs or no token comes out",
            "fine": "requests run, or nobody is there",
            UNKNOWN: "not shown",
        },
        _progress,
    ),
    Signal(
        "start",
        "What do start-up lines or `nvidia-smi` say?",
        {
            "never-fits": "a prompt was refused for lack of blocks",
            "reserve": "much of the GPU is kept for the largest step",
            "full": "the GPU is as full as it was asked to be",
            UNKNOWN: "not shown",
        },
        _start,
    ),
    Signal(
        "tier",
        "How does KV from a tier or link compare with computing it?",
        {
            "slower": "loading takes longer",
            "full": "the tier has no room, or less than passes through it",
            "slow-link": "slower than Ethernet of 10 Gbit/s",
            "unneeded": "the GPU still has nearly all of it",
            "fine": "loading is quick",
            UNKNOWN: "no tier, or not shown",
        },
        _tier,
    ),
    Signal(
        "queue",
        "Who waits?",
        {
            "some": "requests wait for room or their turn",
            "none": "nobody, or a few between two steps",
            "fetching": "mostly deferred requests, and a connector that fetches KV",
            "deferred": "mostly deferred requests, for what is not shown",
            UNKNOWN: "not shown",
        },
        _queue,
    ),
    Signal(
        "room",
        "Is there room in the cache?",
        {
            "full": "no",
            "tight": "a little, or not for one more request of the average size",
            "free": "yes",
            UNKNOWN: "not shown",
        },
        _room,
    ),
    Signal(
        "preempting",
        "Are running requests preempted?",
        {"steady": "again and again", "rare": "never, or now and then", UNKNOWN: "not shown"},
        _preempting,
    ),
    Signal(
        "sharing",
        "What does the hit rate say?",
        {
            "artefact": "hits are preempted requests' own blocks",
            "defeated": "nothing is found that could be shared",
            "fine": "as it should be, or nothing to share",
            UNKNOWN: "not shown",
        },
        _sharing,
    ),
    Signal(
        "cap",
        "Is the batch as large as it may be?",
        {
            "reached": "as many run as --max-num-seqs allows, or all but a place just freed",
            "below": "fewer run",
            UNKNOWN: "the flag is not known, and Running moves",
        },
        _cap,
    ),
    Signal(
        "prefill",
        "How much of the work is prompts?",
        {
            "starving": "most, and answers crawl",
            "heavy": "half or more",
            "light": "less",
            UNKNOWN: "not shown",
        },
        _prefill,
    ),
    Signal(
        "growth",
        "Do the same requests just grow?",
        {"growing": "yes, and for long or soon to the end", "steady": "no", UNKNOWN: "not shown"},
        _growth,
    ),
    Signal(
        "metric",
        "Is the figure what it is taken for?",
        {"misread": "no", "sound": "nothing speaks against it"},
        _metric,
    ),
)
"""All signals."""


def read_signals(evidence: Evidence) -> dict[str, Reading]:
    """Every signal's value.

    Args:
        evidence: One server's figures.

    Examples:
        >>> read = read_signals(Evidence(running=18, waiting=43, kv_cache_usage=0.959))
        >>> read["queue"].value, read["room"].value, read["cap"].value
        ('some', 'full', 'unknown')
    """
    return {signal.name: signal.read(evidence) for signal in SIGNALS}
