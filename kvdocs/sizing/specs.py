"""What one layer's cache looks like to vLLM: its KV cache spec.

Source: vLLM 0.33.0 `vllm/v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class SpecKind(StrEnum):
    """vLLM's spec classes.

    Examples:
        >>> SpecKind.SLIDING.value
        'SlidingWindowSpec'
    """

    FULL = "FullAttentionSpec"
    MLA = "MLAAttentionSpec"
    SLIDING = "SlidingWindowSpec"
    CHUNKED = "ChunkedLocalAttentionSpec"
    MAMBA = "MambaSpec"


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """The cache of one layer on one GPU. Two equal specs may share a group.

    Attributes:
        kind: vLLM's class.
        token_bytes: Bytes per token; 0 for a recurrent state.
        block_size: Tokens per block.
        shape: What else tells specs apart: heads, head sizes, dtype.
        window: Tokens of a sliding window or chunk, else 0.
        state_bytes: Bytes of a recurrent state, else 0.
        padded_page_bytes: Page size the layer is padded up to, else 0.
    """

    kind: SpecKind
    token_bytes: int
    block_size: int
    shape: tuple[int | str, ...] = ()
    window: int = 0
    state_bytes: int = 0
    padded_page_bytes: int = 0

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of this layer.

        Examples:
            >>> LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16).page_bytes
            65536
        """
        if self.padded_page_bytes:
            return self.padded_page_bytes
        return self.state_bytes or self.token_bytes * self.block_size

    def as_full(self, block_size: int) -> LayerSpec:
        """The same layer kept for the whole context, as without the hybrid manager.

        Examples:
            >>> local = LayerSpec(SpecKind.SLIDING, token_bytes=4096, block_size=16, window=128)
            >>> local.as_full(32).kind.value
            'FullAttentionSpec'
        """
        return replace(self, kind=SpecKind.FULL, block_size=block_size, window=0)

    def scaled_to(self, page_bytes: int) -> LayerSpec:
        """The same layer with a page of `page_bytes`: more tokens per block, or padding.

        Source: vLLM 0.33.0 `vllm/v1/core/kv_cache_planning.py`, `unify_kv_cache_spec_page_size`.

        Raises:
            ValueError: A latent layer, whose page can only grow by whole multiples.

        Examples:
            >>> full = LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16)
            >>> full.scaled_to(131072).block_size
            32
        """
        if self.page_bytes == page_bytes:
            return self
        if self.kind == SpecKind.MAMBA:
            return replace(self, padded_page_bytes=page_bytes)
        ratio, rest = divmod(page_bytes, self.page_bytes)
        if not rest:
            return replace(self, block_size=self.block_size * ratio)
        if self.kind == SpecKind.MLA:
            raise ValueError(f"a page of {self.page_bytes} cannot be padded to {page_bytes}")
        return replace(self, padded_page_bytes=page_bytes)


@dataclass(frozen=True, slots=True)
class Need:
    """What decides how many blocks one request takes.

    Attributes:
        max_in_flight_tokens: Tokens scheduled but not yet settled: the batch size times the batches
            in flight (vLLM 0.33.0 `vllm/config/vllm.py`, `max_in_flight_tokens`).
        decode_context_parallel_size: GPUs a sequence's blocks are spread over.
        state_blocks: Blocks a request holds per recurrent group: 2 with prefix caching, else 1.
    """

    max_in_flight_tokens: int
    decode_context_parallel_size: int = 1
    state_blocks: int = 1

    def blocks(self, spec: LayerSpec, max_model_len: int) -> int:
        """Blocks one request of `max_model_len` tokens takes in a group of `spec`.

        Source: `max_memory_usage_bytes` of each class in vLLM's `kv_cache_interface.py`.

        Examples:
            >>> full = LayerSpec(SpecKind.FULL, token_bytes=4096, block_size=16)
            >>> Need(max_in_flight_tokens=2048).blocks(full, 1000)
            63
        """
        size = spec.block_size
        if spec.kind == SpecKind.MAMBA:
            return self.state_blocks
        if spec.kind == SpecKind.SLIDING:
            tokens = min(spec.window - 1 + self.max_in_flight_tokens, max_model_len)
            return -(-tokens // size) + 1
        if spec.kind == SpecKind.CHUNKED:
            return -(-min(spec.window + self.max_in_flight_tokens, max_model_len) // size)
        share = -(-max_model_len // self.decode_context_parallel_size)
        return -(-share // size)
