"""What a batch computes, and the parts of the time that takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class Load(Protocol):
    """The work in one batch, summed up; the engine's `StepLoad` is one."""

    @property
    def num_tokens(self) -> int:
        """Tokens computed."""

    @property
    def num_seqs(self) -> int:
        """Requests in the batch."""

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV cache read."""

    @property
    def query_key_pairs(self) -> int:
        """Scores attention computes."""


class SequenceWork(NamedTuple):
    """One sequence's part of a batch.

    Attributes:
        new_tokens: Tokens computed now: 1 for a decode, a chunk of the prompt for a prefill.
        context: Tokens before them whose KV is in the cache.
    """

    new_tokens: int
    context: int = 0


class Bound(StrEnum):
    """What a step mostly waits for."""

    WEIGHTS = "weights"
    KV = "kv"
    COMPUTE = "compute"
    OVERHEAD = "overhead"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step, taken apart. All in seconds.

    Attributes:
        weights_s: Reading the weights in use, once.
        kv_s: Reading keys, values and states.
        matmul_s: Matrix products: projections, MLP, head.
        attention_s: Scores and weighted sums.
        overhead_s: What a step costs whatever it does.
        link_s: All-reduces between GPUs.
        seconds: The whole step, in whole ticks.
    """

    weights_s: float
    kv_s: float
    matmul_s: float
    attention_s: float
    overhead_s: float
    link_s: float
    seconds: float

    @property
    def compute_s(self) -> float:
        """All arithmetic."""
        return self.matmul_s + self.attention_s

    @property
    def shares(self) -> dict[Bound, float]:
        """Seconds of the step that each of the five takes; they add up to the step."""
        reads_weights = self.weights_s >= self.matmul_s
        reads_kv = self.kv_s >= self.attention_s
        return {
            Bound.WEIGHTS: self.weights_s if reads_weights else 0.0,
            Bound.KV: self.kv_s if reads_kv else 0.0,
            Bound.COMPUTE: (0.0 if reads_weights else self.matmul_s)
            + (0.0 if reads_kv else self.attention_s),
            Bound.OVERHEAD: self.overhead_s,
            Bound.LINK: self.link_s,
        }

    @property
    def binds(self) -> Bound:
        """What takes the largest part of the step."""
        shares = self.shares
        return max(shares, key=lambda bound: shares[bound])


def context_read(work: SequenceWork, window: int) -> int:
    """Tokens of KV read: all so far, or from where the oldest new token's window begins.

    Args:
        work: The sequence's part of the batch.
        window: Tokens a layer looks back, itself included; 0 is all.

    Examples:
        >>> context_read(SequenceWork(1, 99), 0), context_read(SequenceWork(1, 99), 64)
        (100, 64)
    """
    total = work.context + work.new_tokens
    return min(total, window - 1 + work.new_tokens) if window else total


def count_pairs(work: SequenceWork, window: int) -> int:
    """Scores: each new token with all before it and itself, or as many as the window holds.

    Args:
        work: The sequence's part of the batch.
        window: Tokens a layer looks back, itself included; 0 is all.

    Examples:
        >>> count_pairs(SequenceWork(4), 0), count_pairs(SequenceWork(4), 2)
        (10, 7)
    """
    new, context = work
    if not window:
        return new * context + new * (new + 1) // 2
    growing = min(new, max(window - context, 0))  # tokens that still see everything before them
    return growing * context + growing * (growing + 1) // 2 + (new - growing) * window
