"""Every number a diagnosis compares with, and why it is that number."""

from __future__ import annotations

from typing import Final, NamedTuple

from kvdocs.timing import Efficiency

_SLOWEST: Final = Efficiency().link * 10e9 / 8


class Threshold(NamedTuple):
    """A number with its reason.

    Attributes:
        name: What it is compared with.
        value: The number.
        unit: Its unit; "" for a share.
        why: Why this number, or where it is from.
    """

    name: str
    value: float
    unit: str
    why: str


FULL: Final = Threshold(
    "usage of a full cache, from",
    0.9,
    "",
    "SGLang's guide to tuning calls a usage above 0.9 good, and a lower one with a queue a server "
    "that admits too little (docs.sglang.io, hyperparameter tuning).",
)
TIGHT: Final = Threshold(
    "usage of a cache that may be too full for the head of the queue, from",
    0.8,
    "",
    "A waiting request is admitted when its whole prompt fits (vLLM 0.20.2 and later), and prompts "
    "differ: with ten running, one twice the average needs a fifth of the cache. A cache is tight "
    "as well if the room left is less than what a running request holds on average. Our own "
    "choice.",
)
QUEUE: Final = Threshold(
    "waiting requests that are a queue, from, of those running",
    0.05,
    "",
    "By Little's law, waiting ÷ running is the share by which the queue lengthens a request's "
    "stay. Below a twentieth it is requests between two steps.",
)
PREEMPTED: Final = Threshold(
    "preemptions that are steady, from, of requests",
    0.1,
    "",
    "One request in ten computed twice costs about a tenth of the throughput; less, where its "
    "blocks are still in the prefix cache. SGLang's guide takes about one retraction a minute as "
    "harmless; on a server of some load that is far below this.",
)
PREEMPTING_LINES: Final = Threshold(
    "log lines with preemptions that are steady, from, of all lines",
    0.5,
    "",
    "A burst shows in a line or two; what shows in half of them goes on. Our own choice.",
)
NO_HITS: Final = Threshold(
    "hit rate that is none, up to",
    0.01,
    "",
    "A shared prompt of one block in a hundred blocks would give as much. Our own choice.",
)
SOME_HITS: Final = Threshold(
    "hit rate of unrelated prompts that needs an explanation, from",
    0.05,
    "",
    "Random prompts share a chat template at most: tens of tokens of hundreds. Our own choice.",
)
LOOKUPS: Final = Threshold(
    "tokens looked up for each prompt token that are too many, from",
    1.1,
    "",
    "Each prompt is looked up once (vLLM 0.29 and later), so 1. Before, every try of a waiting "
    "request counted, and before 0.11.2 preempted requests with their answers.",
)
COARSE: Final = Threshold(
    "block size too coarse to share, from",
    256,
    "tokens",
    "Attention backends use 16 to 128; only hybrid models get more, raised until a block is as "
    "large as their state (vLLM 0.33.0 platforms/interface.py).",
)
PREFILL: Final = Threshold(
    "prompt tokens computed for each token of output that are heavy, from",
    10,
    "",
    "By the lesson's roofline (8B, H100) a prompt token takes about a tenth of the time of a token "
    "of output in a batch of 64 at 4,096 tokens of context; from 10 to 1, prompts take half.",
)
STARVING: Final = Threshold(
    "tokens per second of a running request that are too few, below",
    5,
    "tokens/s",
    "Adults read 238 words a minute (Brysbaert 2019, doi 10.1016/j.jml.2019.104047), about 5 "
    "tokens a second.",
)
LONG_ANSWER: Final = Threshold(
    "tokens of output, while nobody came or went, that make an answer long, from",
    1000,
    "tokens",
    "Above nearly all answers of the chat traces that vLLM's benchmarks use. Our own choice.",
)
SOON: Final = Threshold(
    "time until the cache is full that is soon, up to",
    600,
    "s",
    "Ten minutes: time for a person to act. Our own choice.",
)
SLOW: Final = Threshold(
    "bandwidth of a slow link, below",
    _SLOWEST,
    "bytes/s",
    f"Ethernet of 10 Gbit/s at {Efficiency().link:.0%} of its peak. A second of it carries "
    f"{_SLOWEST / 131_072:,.0f} tokens of Llama 3.1 8B (128 KiB each); an H100 computes several "
    "times as many.",
)
UNNEEDED: Final = Threshold(
    "share of a tier's hits that must be loaded, below which it is not needed",
    0.01,
    "",
    "vLLM computes at least the last token, so 1 to 16 tokens are loaded for nothing. Our own "
    "choice.",
)
COLD_TO_WARM: Final = Threshold(
    "time to first token, first ÷ again, that shows a cache at work, from",
    3,
    "times",
    "Noise rarely makes a factor of 3; a prefix that is found does. Our own choice.",
)
NEAR: Final = Threshold(
    "distance from a threshold that makes a verdict less sure, up to",
    0.05,
    "of it",
    "A log prints usage to a thousandth but it moves by hundredths from step to step. Our own "
    "choice.",
)

ALL: Final = (
    FULL,
    TIGHT,
    QUEUE,
    PREEMPTED,
    PREEMPTING_LINES,
    NO_HITS,
    SOME_HITS,
    LOOKUPS,
    COARSE,
    PREFILL,
    STARVING,
    LONG_ANSWER,
    SOON,
    SLOW,
    UNNEEDED,
    COLD_TO_WARM,
    NEAR,
)
"""Every threshold."""

USUAL_CAPS: Final = frozenset({128, 256, 1024})
"""Defaults of --max-num-seqs (vLLM 0.33.0 engine/arg_utils.py and config/scheduler.py)."""
MOMENTS_TO_HOLD: Final = 3
"""Moments with the same number running that speak for a limit; two may be chance."""
LOG_INTERVAL_S: Final = 10.0
"""Seconds between statistics lines (vLLM 0.33.0 envs.py, VLLM_LOG_STATS_INTERVAL)."""
