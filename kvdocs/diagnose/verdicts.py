"""What can be wrong with a server: the verdicts, what each means and what to do, cheapest first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class Verdict(StrEnum):
    """What is wrong with a server, or that nothing is."""

    HEALTHY = "healthy"
    HEALTHY_FULL = "healthy-full"
    FULL_AT_START = "full-at-start"
    MEMORY_BOUND = "memory-bound"
    SCHEDULING_OR_COMPUTE_BOUND = "scheduling-or-compute-bound"
    PREFILL_BOUND = "prefill-bound"
    MAX_NUM_SEQS_BOUND = "max-num-seqs-bound"
    THRASHING = "thrashing"
    HITS_ARE_PREEMPTIONS = "hits-are-preemptions"
    PREFIX_SHARING_DEFEATED = "prefix-sharing-defeated"
    ANSWERS_GROWING = "answers-growing"
    STALLED = "stalled"
    WAITING_FOR_KV = "waiting-for-kv"
    DEFERRED = "deferred"
    NEVER_FITS = "never-fits"
    PROFILING_RESERVE = "profiling-reserve"
    OFFLOAD_SLOWER = "offload-slower"
    OFFLOAD_UNNEEDED = "offload-unneeded"
    OFFLOAD_FULL = "offload-full"
    OFFLOAD_PAYS = "offload-pays"
    SLOW_LINK = "slow-link"
    METRIC_MISREAD = "metric-misread"
    NOT_ENOUGH = "not-enough-evidence"

    @property
    def advice(self) -> Advice:
        """What it means and what to do."""
        return ADVICE[self]


class Gravity(IntEnum):
    """How much a verdict matters when several servers are read at once."""

    FINE = 0
    UNKNOWN = 1
    NOTICE = 2
    TROUBLE = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """What a verdict means.

    Attributes:
        title: What its name says in a few words, to stand behind it.
        meaning: What happens on such a server.
        actions: What to change, the cheapest first.
        tell_more: What would make the verdict surer.
        gravity: How much it matters.
    """

    title: str
    meaning: str
    actions: tuple[str, ...]
    tell_more: tuple[str, ...]
    gravity: Gravity = Gravity.TROUBLE


_TWO_SCRAPES: Final = "A second scrape half a minute later: counters say little, their growth does."
_START_LINE: Final = "The start-up line `GPU KV cache size: … tokens`, for counting in tokens."
_FLAGS: Final = "The server's flags, above all --max-num-seqs and --max-num-batched-tokens."

ADVICE: Final[dict[Verdict, Advice]] = {
    Verdict.HEALTHY: Advice(
        "nobody waits, and there is room to spare",
        "Nobody waits, and blocks are free. If answers are slow here, memory is not why.",
        (
            (
                "Nothing on this server. If it is slow all the same, look at the load balancer and "
                "at the time per output token."
            ),
        ),
        (_TWO_SCRAPES,),
        Gravity.FINE,
    ),
    Verdict.HEALTHY_FULL: Advice(
        "full, and nobody waits",
        "The cache is full and nobody waits: a server at work. Cached blocks that nobody holds "
        "count as free, so this is requests, not leftovers.",
        ("Nothing. Set an alert on the queue, not on the cache.",),
        (_TWO_SCRAPES, "Preemptions over time: none means that it stays so."),
        Gravity.FINE,
    ),
    Verdict.FULL_AT_START: Advice(
        "healthy: the server reserves its memory when it starts",
        "A server takes its share of the GPU before the first request. `nvidia-smi` shows the "
        "reservation, never how much of the cache is in use.",
        (
            "Nothing. Read vllm:kv_cache_usage_perc for what is in use.",
            "Lower --gpu-memory-utilization only if something else must share the GPU.",
        ),
        ("A scrape of /metrics.",),
        Gravity.FINE,
    ),
    Verdict.MEMORY_BOUND: Advice(
        "the cache is full, and requests wait for blocks",
        "The head of the queue waits until running requests give blocks back.",
        (
            (
                "Give the cache what is free: a higher --gpu-memory-utilization, a lower "
                "--max-num-batched-tokens."
            ),
            "Make tokens smaller: --kv-cache-dtype fp8 holds twice as many.",
            "Make requests shorter: max_tokens, less context, a shared prefix put first.",
            "Add memory: tensor parallelism, a larger GPU, or another replica.",
        ),
        (_TWO_SCRAPES, _START_LINE, "How long prompts and answers are."),
    ),
    Verdict.SCHEDULING_OR_COMPUTE_BOUND: Advice(
        "requests wait although blocks are free",
        "There is room in the cache, so more of it would change nothing: a limit or the GPU's "
        "arithmetic holds the queue.",
        (
            "Compare Running with --max-num-seqs; raise it if they are equal.",
            "Compare tokens per step with --max-num-batched-tokens; raise it if steps are full.",
            "Look at the CPU of the API server and of the engine process.",
            "Add a replica.",
        ),
        (_FLAGS, _TWO_SCRAPES),
    ),
    Verdict.PREFILL_BOUND: Advice(
        "prompts take the steps, and the rest waits behind them",
        "Each step's token budget goes to prompts. At that moment the cache is not the limit, and "
        "its usage does not show the overload: watch the queue and the time to first token.",
        (
            "Put what prompts share first, token for token the same, so that it is cached.",
            "Set --long-prefill-token-threshold, so that long prompts leave room for answers.",
            (
                "Raise --max-num-batched-tokens, if time to first token matters more than the pace "
                "of answers."
            ),
            "Shorten prompts.",
            "Add replicas or prefill workers: it is arithmetic that is short.",
        ),
        (_TWO_SCRAPES, "What prompts have in common, and so what hit rate to expect."),
    ),
    Verdict.MAX_NUM_SEQS_BOUND: Advice(
        "the batch is as large as it may get",
        "As many requests run as may run; blocks are free.",
        (
            "Raise --max-num-seqs step by step, watching preemptions and time per output token.",
            "Add a replica, if time per output token is already too long.",
        ),
        (_FLAGS, "Whether Running stays at the same number."),
    ),
    Verdict.THRASHING: Advice(
        "running requests are preempted again and again",
        "Blocks run out under running requests; the last admitted loses its own and starts again "
        "later. Up to all of its work is done twice: blocks still in the prefix cache are found.",
        (
            "Admit fewer: a lower --max-num-seqs, or some --watermark.",
            "Cap answers with max_tokens.",
            "Make tokens smaller: --kv-cache-dtype fp8.",
            "Add memory: a higher --gpu-memory-utilization, more GPUs, another replica.",
        ),
        (_START_LINE, "How long prompts and answers are."),
    ),
    Verdict.HITS_ARE_PREEMPTIONS: Advice(
        "the hit rate is preempted requests finding their own blocks again",
        "The prompts have little in common; what hits are requests that lost their place and find "
        "what is left of their own blocks. The server is short of memory.",
        (
            "Do not read this hit rate as sharing.",
            "Admit fewer: a lower --max-num-seqs.",
            "Give the cache more, or make tokens smaller (--kv-cache-dtype fp8).",
            "Upgrade: vLLM counts such lookups apart since 0.11.2, once per admission since 0.29.",
        ),
        ("vllm:num_preemptions_total, twice.", "What prompts have in common."),
    ),
    Verdict.PREFIX_SHARING_DEFEATED: Advice(
        "what could be shared is computed every time",
        "Only full blocks with the same whole history are found. A prompt shorter than a block, a "
        "changed first token, another cache_salt, or the blocks of hundreds of tokens that hybrid "
        "models get, and nothing is.",
        (
            "See that prefix caching is on and supported (--enable-prefix-caching).",
            "Put what is shared first, without a timestamp, name or random id before it.",
            "Use one cache_salt for those who may share.",
            "Count in whole blocks: what is shared must fill at least one.",
            (
                "On hybrid models set --prefix-match-unit, or make the state smaller with "
                "--mamba-ssm-cache-dtype; a smaller --block-size is raised again."
            ),
        ),
        (
            "Two prompts as the server gets them, token by token.",
            "The line `Setting attention block size to … tokens`.",
        ),
    ),
    Verdict.ANSWERS_GROWING: Advice(
        "nothing ends, so the cache fills",
        "The same requests run on and nobody joins or leaves. That is no leak: each token of an "
        "answer stays until its request ends.",
        (
            "Ask for max_tokens, and for a stop token with a base model.",
            "Watch preemptions: V1 prints no warning when the cache is full.",
        ),
        (_START_LINE, "max_tokens of the running requests."),
        Gravity.NOTICE,
    ),
    Verdict.STALLED: Advice(
        "requests wait, and nothing runs or no token comes out",
        "The cache is not the reason: there is room. Either the scheduler hangs, or the head of "
        "the queue can never fit and holds up all behind it.",
        (
            "Look at the log for the last error, and abort the request at the head of the queue.",
            "Restart the server.",
            "Upgrade, and report it with the log if it comes back. Sizing changes nothing.",
        ),
        ("A second scrape: does any counter move?", "The length of the oldest waiting prompt."),
    ),
    Verdict.WAITING_FOR_KV: Advice(
        "requests wait for KV that is on its way to them",
        "They are deferred, not short of room: their KV comes from another tier or another server. "
        "They hold blocks meanwhile.",
        (
            "Look at the transfers: bandwidth of the link, and failures.",
            "Compare the time of a transfer with computing the prompt again.",
        ),
        ("vllm:num_requests_waiting_by_reason and the connector's own metrics.",),
    ),
    Verdict.DEFERRED: Advice(
        "requests are held back, and not for want of room",
        "The scheduler passes them over for now: a grammar is being compiled, their LoRA adapter "
        "has no place in the batch, or their KV is on its way from a connector.",
        (
            "See what they have in common: structured output, an adapter, or a connector.",
            "Grammars: use the same schema again, so that it is compiled once.",
            "Adapters: raise --max-loras, if many are in use at once.",
            "A connector: look at its transfers.",
        ),
        ("vllm:external_prefix_cache_queries_total: above zero, a connector is at work.", _FLAGS),
    ),
    Verdict.NEVER_FITS: Advice(
        "a request needs more blocks than one may ever have",
        "No waiting helps. With vLLM's old engine and pipeline parallelism the printed blocks are "
        "split over the stages' engines, so one request gets only its part.",
        (
            "Send shorter requests, and lower --max-model-len to what fits.",
            "Give the cache more memory, or spread the model over more GPUs.",
            "Upgrade, if this is vLLM's old engine (V0).",
        ),
        ("The start-up lines with the capacity.",),
    ),
    Verdict.PROFILING_RESERVE: Advice(
        "memory is kept for the largest step; the cache gets the rest",
        "At start-up the server runs its largest batch once and keeps room for it: "
        "--max-num-batched-tokens tokens, and as many images as may come.",
        (
            "Lower --max-num-batched-tokens to 2,048 to 8,192.",
            "Lower --limit-mm-per-prompt.",
            "Raise --gpu-memory-utilization.",
        ),
        ("The start-up line `… GiB for peak activation …`.",),
        Gravity.NOTICE,
    ),
    Verdict.OFFLOAD_SLOWER: Advice(
        "loading from the tier is slower than computing again",
        "Loading KV takes longer than the prefill that it saves.",
        (
            "Switch the tier off for short prompts, or altogether.",
            "Use larger pages or chunks, so that fewer and larger transfers are made.",
            "Use a faster tier: CPU memory before disk, disk before the network.",
        ),
        ("Time to first token of a prompt that is in the tier, and of one that is nowhere.",),
    ),
    Verdict.OFFLOAD_UNNEEDED: Advice(
        "the GPU still holds what the tier has",
        "Nearly all that the tier has is still in the GPU's own prefix cache.",
        (
            "Leave it, or switch it off: it cannot help with this load.",
            "To measure a tier, use a working set larger than the GPU's pool.",
        ),
        ("Tokens of the working set, beside the pool's.",),
        Gravity.NOTICE,
    ),
    Verdict.OFFLOAD_FULL: Advice(
        "what is stored in the tier pushes out what is needed",
        "A tier smaller than what passes through it keeps nothing until it is asked for again.",
        (
            "Store less: only prompts, or only what has been looked up before.",
            "Make the tier larger; --kv-offloading-size counts all tensor-parallel ranks together.",
        ),
        ("Bytes of the working set, beside the tier's, those of all ranks together.",),
    ),
    Verdict.OFFLOAD_PAYS: Advice(
        "the tier or link does its work",
        "Loading takes less time than computing again would.",
        ("Nothing.",),
        ("Time to first token with and without the tier.",),
        Gravity.FINE,
    ),
    Verdict.SLOW_LINK: Advice(
        "transfers take several times as long as a prefill",
        "Over less than 10 Gbit/s a long prompt's KV is on its way for seconds.",
        (
            "See that RDMA is used and not TCP.",
            "Send fewer bytes: --kv-cache-dtype fp8, or send only long prompts.",
            "Put prefill and decode on one machine.",
        ),
        ("How many bytes a token has, and how long prompts are.",),
    ),
    Verdict.METRIC_MISREAD: Advice(
        "a wrong unit, an old name, or a query the wrong way round",
        "A dashboard or rule reads something else than it says.",
        (
            "Use current names: vllm:kv_cache_usage_perc, which is a share from 0 to 1.",
            "Hit rate is rate(hits) / rate(queries), in tokens.",
            "Check the rule against one page of /metrics, read by eye.",
        ),
        ("The page as the server itself shows it.",),
        Gravity.NOTICE,
    ),
    Verdict.NOT_ENOUGH: Advice(
        "it does not say who waits and how full the cache is",
        "What was read does not say who waits and how full the cache is.",
        (
            "Read /metrics of the server itself: usage, running and waiting together.",
            "Or take some of the lines that the server logs every ten seconds.",
        ),
        (
            (
                "vllm:num_requests_waiting, vllm:num_requests_running and vllm:kv_cache_usage_perc "
                "of one moment."
            ),
            _TWO_SCRAPES,
        ),
        Gravity.UNKNOWN,
    ),
}
"""What each verdict means."""
