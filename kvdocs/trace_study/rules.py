"""What counts as a block, what is looked up, and what takes up room."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvdocs.blocks import blocks_for
from kvdocs.engine.prompt import Segment, SegmentPrompt
from kvdocs.errors import WorkloadError
from kvdocs.workload import Blocks, Parts, Unshared, WorkloadRequest

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens in a block where the workload does not say (vLLM's default on CUDA)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a cache keeps prefixes. The defaults are vLLM's.

    Attributes:
        keep_outputs: Whether generated tokens take up room too. vLLM keeps the full blocks of
            prompt and output alike; nobody asks for the output of a trace again, but it pushes
            other blocks out.
        keep_partial: Whether a prompt's last block is kept and hit even when it is not full. vLLM
            keeps full blocks only (0.33.0 `kv_cache_manager.py`, allocate_slots); Mooncake's
            traces have a hash for it.
        compute_last: Whether a prompt's last token is always computed, so that the block it is
            in is never hit (vLLM 0.33.0 `kv_cache_manager.py`, get_computed_blocks).
    """

    keep_outputs: bool = True
    keep_partial: bool = False
    compute_last: bool = True


VLLM: Final = Rules()
"""As a vLLM server caches."""
STORE: Final = Rules(keep_outputs=False, keep_partial=True, compute_last=False)
"""As a store of prompts counts that keeps whatever has a hash, Mooncake's traces among them."""


class Reference(NamedTuple):
    """What one request asks of the cache.

    Attributes:
        keys: One per block that another request may have too, in order. Blocks are equal when
            their keys and all keys before them are.
        num_lookups: How many of them, from the first, can be hit by this request.
        num_private: Further blocks it leaves behind that nobody will ask for.
    """

    keys: Sequence[Hashable]
    num_lookups: int
    num_private: int


def block_size_of(request: WorkloadRequest) -> int:
    """The block size a workload is best studied at, from a request of it.

    Args:
        request: One that says what it shares, if there is any.

    Returns:
        That of the trace's keys; 16 for prompts known token by token, or by length alone.

    Examples:
        >>> block_size_of(WorkloadRequest(id="a", prompt=Blocks(9, 512, (1,)), output_tokens=1))
        512
    """
    prompt = request.prompt
    return prompt.block_size if isinstance(prompt, Blocks) else DEFAULT_BLOCK_SIZE


def reference(request: WorkloadRequest, block_size: int, rules: Rules) -> Reference:
    """What a request asks of a cache.

    Args:
        request: The request.
        block_size: Tokens in a block.
        rules: How the cache keeps prefixes.

    Raises:
        WorkloadError: A block size that does not go with the trace's, or with partial blocks.

    Examples:
        >>> prompt = Blocks(1200, 512, (7, 8, 9))
        >>> request = WorkloadRequest(id="a", prompt=prompt, output_tokens=400)
        >>> reference(request, 512, VLLM)
        Reference(keys=(7, 8), num_lookups=2, num_private=1)
        >>> reference(request, 512, STORE)
        Reference(keys=(7, 8, 9), num_lookups=3, num_private=0)
    """
    tokens = request.num_prompt_tokens
    keys = _keys(request, block_size, rules)
    in_prompt = blocks_for(tokens, block_size) if rules.keep_partial else tokens // block_size
    num_blocks = in_prompt
    if rules.keep_outputs:  # the last token generated is never read, so never kept
        num_blocks = max(in_prompt, (tokens + request.output_tokens - 1) // block_size)
    lookups = min(len(keys), in_prompt)
    if rules.compute_last:
        lookups = min(lookups, (tokens - 1) // block_size)
    return Reference(keys, lookups, num_blocks - len(keys))


def _keys(request: WorkloadRequest, block_size: int, rules: Rules) -> Sequence[Hashable]:
    prompt = request.prompt
    if isinstance(prompt, Unshared):
        return ()
    if isinstance(prompt, Parts):
        return tuple(_parts_keys(prompt, request.output_tokens, block_size, rules))
    if not rules.keep_partial:
        return prompt.keys_at(block_size)
    if block_size != prompt.block_size:
        raise WorkloadError(
            f"block size {block_size} splits the trace's blocks of {prompt.block_size} tokens, and "
            "nothing is known of parts of a block that is not full; leave the block size out"
        )
    return prompt.keys


def _parts_keys(
    prompt: Parts, output_tokens: int, block_size: int, rules: Rules
) -> Iterator[Hashable]:
    """What full blocks are cut from, those of the output too where later prompts quote it."""
    cut = SegmentPrompt(
        [Segment(*part) for part in prompt.parts], output_source=prompt.output_source or None
    )
    tokens = prompt.num_tokens
    if rules.keep_outputs and prompt.output_source:
        tokens += output_tokens - 1
    for stop in range(block_size, tokens + 1, block_size):
        yield cut.pieces(stop - block_size, stop)
