"""The limits of a server's steps, and the flags that vLLM refuses before it looks at any memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvdocs.errors import FlagError
from kvdocs.sizing.budget import default_max_num_batched_tokens, default_max_num_seqs
from kvdocs.sizing.capacity import requested_length

if TYPE_CHECKING:
    from kvdocs.flags import ServerFlags
    from kvdocs.gpu import Gpu
    from kvdocs.model.layers import Model


@dataclass(frozen=True, slots=True)
class Limits:
    """What a step and a request are held to.

    Attributes:
        max_num_seqs: Requests running at once.
        max_num_batched_tokens: Tokens per step.
        max_model_len: Tokens of a request, prompt and output.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int

    def check(self, *, enable_chunked_prefill: bool, long_prefill_token_threshold: int) -> None:
        """Refuse limits that do not go together.

        Source: vLLM 0.33.0 `vllm/config/scheduler.py`, SchedulerConfig.verify_max_model_len.

        Args:
            enable_chunked_prefill: Whether a prompt may be computed over several steps.
            long_prefill_token_threshold: Most prompt tokens per step and request; 0 is no limit.

        Raises:
            FlagError: In vLLM's words.

        Examples:
            >>> Limits(4096, 2048, 131072).check(
            ...     enable_chunked_prefill=True, long_prefill_token_threshold=0)
            Traceback (most recent call last):
            kvdocs.errors.FlagError: max_num_batched_tokens (2048) must be greater than or equal ...
        """
        batch, length = self.max_num_batched_tokens, self.max_model_len
        if batch < length and not enable_chunked_prefill:
            raise FlagError(
                f"max_num_batched_tokens ({batch}) is smaller than max_model_len ({length}). This "
                "effectively limits the maximum sequence length to max_num_batched_tokens and "
                "makes vLLM reject longer sequences. Please increase max_num_batched_tokens or "
                "decrease max_model_len."
            )
        if batch < self.max_num_seqs:
            raise FlagError(
                f"max_num_batched_tokens ({batch}) must be greater than or equal to max_num_seqs "
                f"({self.max_num_seqs})."
            )
        if long_prefill_token_threshold > length:
            raise FlagError(
                f"long_prefill_token_threshold ({long_prefill_token_threshold}) cannot be greater "
                f"than the max_model_len ({length})."
            )


def limits_of(gpu: Gpu, flags: ServerFlags, max_model_len: int) -> Limits:
    """The limits of a server, with vLLM's defaults.

    Source: vLLM 0.33.0 `vllm/engine/arg_utils.py`, where defaults give way to each other and to
    what the user named.

    Args:
        gpu: The GPU, whose memory decides the defaults.
        flags: The server's flags.
        max_model_len: Longest request in tokens.

    Examples:
        >>> from kvdocs.catalog import get_gpu
        >>> from kvdocs.flags import ServerFlags
        >>> limits_of(get_gpu("l4"), ServerFlags(max_num_batched_tokens=128), 8192)
        Limits(max_num_seqs=128, max_num_batched_tokens=128, max_model_len=8192)
    """
    seqs, batch = default_max_num_seqs(gpu, flags), default_max_num_batched_tokens(gpu, flags)
    if flags.max_num_batched_tokens is None:
        if not flags.enable_chunked_prefill:
            batch = max(batch, max_model_len)
        batch = min(batch, seqs * max_model_len)
    if flags.max_num_seqs is None:
        seqs = min(seqs, batch)
    return Limits(seqs, batch, max_model_len)


def check_flags(model: Model, gpu: Gpu, flags: ServerFlags) -> None:
    """Refuse what vLLM refuses before it looks at any memory.

    Args:
        model: The model.
        gpu: The GPU, for the defaults.
        flags: The server's flags.

    Raises:
        FlagError: In vLLM's words.

    Examples:
        >>> from kvdocs.flags import ServerFlags
        >>> from kvdocs.scenario import size_lesson
        >>> size = size_lesson()
        >>> check_flags(size.model.model, size.gpu, ServerFlags(max_num_seqs=10_000))
        Traceback (most recent call last):
        kvdocs.errors.FlagError: max_num_batched_tokens (8192) must be greater than or equal to ...
    """
    limits_of(gpu, flags, requested_length(model, flags)).check(
        enable_chunked_prefill=flags.enable_chunked_prefill,
        long_prefill_token_threshold=flags.long_prefill_token_threshold,
    )
