"""What a diagnosis goes by: one server's figures, wherever they were read."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from kvdocs.errors import DiagnosisError


class Prompts(StrEnum):
    """What the prompts have in common, as far as somebody says so."""

    UNKNOWN = "unknown"
    SHARED = "shared"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One server's figures. Shares are 0 to 1; None is what nobody said.

    Attributes:
        who: Engine and model as the source names them; "" for the only one.
        source: What was read, in words.
        moments: How many moments were read: scrapes, or log lines.
        seconds: Time from the first to the last.
        running: Requests in the batch; the median, when several moments were read.
        waiting: Requests waiting; likewise.
        deferred: Of those, requests that wait for something other than room.
        has_connector: Whether tokens were looked up beyond the GPU, in a tier or another server.
        kv_cache_usage: Share of the cache that requests hold; the median.
        usage_growth: Usage at the last moment less that at the first.
        running_steady: Whether the same number ran at each of several moments.
        prompt_tokens_per_s: Prompt tokens computed per second.
        generation_tokens_per_s: Tokens generated per second.
        prompt_per_output: Prompt tokens computed for each token generated.
        output_tokens: Tokens generated between the first moment and the last.
        requests_finished: Requests that finished in between, or since the start.
        preemptions: Preemptions in between, or since the start.
        preemptions_per_request: The same for each request finished or running.
        preempting_lines: Share of log lines that report preemptions.
        prefix_hit_rate: Share of the tokens looked up that were found.
        prefix_hits: Tokens found since the start.
        lookups_per_prompt_token: Tokens looked up for each prompt token.
        prompt_tokens: Length of a prompt on average.
        ttft_first_s: Time to first token of a prompt that the server has not seen.
        ttft_again_s: Time to first token of the same prompt again.
        prompts: What the prompts have in common.
        max_num_seqs: `--max-num-seqs`.
        max_num_batched_tokens: `--max-num-batched-tokens`.
        gpu_memory_utilization: `--gpu-memory-utilization`.
        pipeline_parallel_size: `--pipeline-parallel-size`.
        block_size: Tokens in a block.
        bytes_per_token: Bytes of KV that a token takes.
        pool_tokens: Tokens that the pool holds.
        gpu_blocks: Blocks as V0 printed them.
        kv_memory_bytes: Bytes that the log says are left for the cache.
        gpu_used_bytes: Used memory of the GPU, as `nvidia-smi` shows it.
        gpu_total_bytes: All its memory.
        refused_tokens: Length of a prompt that was refused for lack of blocks.
        tier_tokens: Tokens loaded from a tier in one retrieval.
        tier_bytes: Their bytes.
        tier_seconds: The time that took.
        tier_hit_tokens: Tokens that the tier had for a request.
        tier_needed_tokens: Of them, tokens that the GPU did not have.
        tier_short_of_bytes: Size of a chunk for which the tier had no room.
        reload_s: Time to first token with the tier.
        recompute_s: Time to first token without it.
        recompute_tokens_per_s: Prompt tokens the server computes per second when it does little
            else.
        passing_bytes: Bytes stored in the tier between two uses of what is kept.
        tier_capacity_bytes: Bytes that the tier holds.
        transfers: Transfers counted.
        transfer_bytes: Bytes of a transfer on average.
        transfer_s: Its time on average.
        transfer_parts: Pieces of memory it was made of.
        printed_bytes_per_s: Bandwidth as printed.
        link_bytes_per_s: Bandwidth the link can have.
        misread: What is wrong with units, names or queries, each in a sentence.
        old_names: Old metric names that were mapped, each in a sentence.
        notes: What else to know about the readings.
    """

    who: str = ""
    source: str = ""
    moments: int = 0
    seconds: float | None = None
    running: float | None = None
    waiting: float | None = None
    deferred: float | None = None
    has_connector: bool = False
    kv_cache_usage: float | None = None
    usage_growth: float | None = None
    running_steady: bool | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    prompt_per_output: float | None = None
    output_tokens: float | None = None
    requests_finished: float | None = None
    preemptions: float | None = None
    preemptions_per_request: float | None = None
    preempting_lines: float | None = None
    prefix_hit_rate: float | None = None
    prefix_hits: float | None = None
    lookups_per_prompt_token: float | None = None
    prompt_tokens: float | None = None
    ttft_first_s: float | None = None
    ttft_again_s: float | None = None
    prompts: Prompts = Prompts.UNKNOWN
    max_num_seqs: float | None = None
    max_num_batched_tokens: float | None = None
    gpu_memory_utilization: float | None = None
    pipeline_parallel_size: float | None = None
    block_size: float | None = None
    bytes_per_token: float | None = None
    pool_tokens: float | None = None
    gpu_blocks: float | None = None
    kv_memory_bytes: float | None = None
    gpu_used_bytes: float | None = None
    gpu_total_bytes: float | None = None
    refused_tokens: float | None = None
    tier_tokens: float | None = None
    tier_bytes: float | None = None
    tier_seconds: float | None = None
    tier_hit_tokens: float | None = None
    tier_needed_tokens: float | None = None
    tier_short_of_bytes: float | None = None
    reload_s: float | None = None
    recompute_s: float | None = None
    recompute_tokens_per_s: float | None = None
    passing_bytes: float | None = None
    tier_capacity_bytes: float | None = None
    transfers: float | None = None
    transfer_bytes: float | None = None
    transfer_s: float | None = None
    transfer_parts: float | None = None
    printed_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    misread: tuple[str, ...] = ()
    old_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def told(self, figures: Mapping[str, Any]) -> Evidence:
        """The same with figures that somebody knows; they outrank what was read.

        Args:
            figures: Numbers by field name; `prompts` is `shared` or `unrelated`.

        Raises:
            DiagnosisError: A name that is not one of the figures, or no number of 0 or more.

        Examples:
            >>> Evidence(running=3).told({"waiting": "4"}).waiting
            4.0
        """
        read: dict[str, Any] = {name: _read(name, value) for name, value in figures.items()}
        return replace(self, **read)

    def figures(self) -> dict[str, float]:
        """The figures that are known, by name."""
        known = ((name, getattr(self, name)) for name in TOLD if name != "prompts")
        return {name: value for name, value in known if value is not None}


_WORDS: Final = frozenset(
    {"who", "source", "misread", "old_names", "notes", "running_steady", "has_connector"}
)
TOLD: Final = tuple(field.name for field in fields(Evidence) if field.name not in _WORDS)
"""Names of the figures that can be told."""


def _read(name: str, value: Any) -> float | Prompts:
    if name not in TOLD:
        near = difflib.get_close_matches(name[:60], TOLD, n=3) or TOLD
        known = " or ".join(near) if len(near) < 4 else ", ".join(near)
        raise DiagnosisError(f"{name[:60]!r} is not a figure that can be told; there is {known}")
    if name == "prompts":
        try:
            return Prompts(str(value))
        except ValueError:
            raise DiagnosisError(
                f"prompts is {str(value)[:60]!r}; it may be {', '.join(Prompts)}"
            ) from None
    return _number(name, value)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and (number >= 0 or name == "usage_growth")):
        raise DiagnosisError(f"{name} is {str(value)[:60]!r}; it must be a number of 0 or more")
    if name in _SHARES and number > 1:
        raise DiagnosisError(f"{name} is {number:g}; it is a share, at most 1 (not a percentage)")
    return number


_SHARES: Final = frozenset(
    {"kv_cache_usage", "prefix_hit_rate", "preempting_lines", "gpu_memory_utilization"}
)
