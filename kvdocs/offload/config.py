"""What is offloaded, where to, and how it comes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdocs.errors import FlagError
from kvdocs.offload.tier import Tier


class Loading(StrEnum):
    """Who waits while KV comes back.

    ASYNC: only the request it is for; it holds its blocks meanwhile (vLLM's OffloadingConnector,
    status WAITING_FOR_REMOTE_KVS). SYNC: the whole step (LMCacheConnectorV1: the worker fetches
    before the forward pass).
    """

    ASYNC = "async"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """The settings of offloading.

    The defaults are those of vLLM 0.33.0's OffloadingConnector
    (`vllm/distributed/kv_transfer/kv_connector/v1/offloading/`): a chunk is a block, prompts only,
    loads do not hold up others.

    Attributes:
        tiers: Where KV goes, nearest first.
        bytes_per_token: Bytes of a token's KV: `KVCost.bytes_per_token`. With tensor parallelism
            those of one GPU, and of each tier one GPU's share.
        blocks_per_chunk: Blocks that move together.
        loading: Who waits for a load.
        prompt_only: Whether outputs are left out (vLLM: `offload_prompt_only`, since 0.23).

    Raises:
        FlagError: Nothing per token, or chunks without blocks.
    """

    tiers: tuple[Tier, ...]
    bytes_per_token: float
    blocks_per_chunk: int = 1
    loading: Loading = Loading.ASYNC
    prompt_only: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot move."""
        if not self.bytes_per_token > 0:
            raise FlagError(f"bytes_per_token is {self.bytes_per_token}; it must be above 0")
        if self.blocks_per_chunk < 1:
            raise FlagError(f"blocks_per_chunk is {self.blocks_per_chunk}; it must be at least 1")

    @classmethod
    def lmcache(
        cls, tiers: tuple[Tier, ...], *, bytes_per_token: float, block_size: int = 16
    ) -> Offload:
        """Settings as LMCache comes: chunks of 256 tokens, and a step that waits for its loads.

        Source: docs.lmcache.ai, "Configuring LMCache" (`chunk_size`, `save_decode_cache`), and
        vLLM 0.33.0 `vllm/distributed/kv_transfer/kv_connector/v1/lmcache_connector.py`.

        Args:
            tiers: Where KV goes, nearest first.
            bytes_per_token: Bytes of a token's KV.
            block_size: Tokens in the engine's block.
        """
        return cls(
            tiers=tiers,
            bytes_per_token=bytes_per_token,
            blocks_per_chunk=max(1, 256 // block_size),
            loading=Loading.SYNC,
        )
