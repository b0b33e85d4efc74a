"""The pool and the bytes per token that divide to the tokens a server holds.

Together the GPUs hold a sequence once where its KV heads can be split; where they cannot (a latent,
or fewer KV heads than GPUs) each holds copies, and only the figures of one GPU divide.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvdocs.model.cost import KVCost
from kvdocs.model.layers import LayerKind, Model
from kvdocs.sizing.capacity import Capacity


@dataclass(frozen=True, slots=True)
class Share:
    """What to divide by what.

    Attributes:
        pool_bytes: KV memory of all GPUs, or of one where they hold copies.
        bytes_per_token: Bytes of a token in that memory.
        copies: What is copied, in words; "" where nothing is.
    """

    pool_bytes: int
    bytes_per_token: int
    copies: str

    @property
    def where(self) -> str:
        """Which GPUs the figures are of, where they are not of all together."""
        return " on each GPU" if self.copies else ""


def share_of(model: Model, cost: KVCost, held: Capacity) -> Share:
    """Return what to divide by what.

    Args:
        model: The model.
        cost: What its tokens cost on these GPUs.
        held: What their memory holds.

    Examples:
        >>> from kvdocs.flags import ServerFlags
        >>> from kvdocs.model import kv_cost, parse_config
        >>> from kvdocs.sizing.capacity import capacity
        >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32,
        ...     "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "max_position_embeddings": 131072})
        >>> for gpus in (8, 16):
        ...     held = capacity(llama, 20e9, ServerFlags(tensor_parallel_size=gpus))
        ...     share_of(llama, kv_cost(llama, tensor_parallel_size=gpus), held)
        Share(pool_bytes=160000000000, bytes_per_token=131072, copies='')
        Share(pool_bytes=20000000000, bytes_per_token=16384, copies='KV heads are copied')
    """
    if not cost.is_copied:
        return Share(held.kv_pool_bytes, cost.bytes_per_token, "")
    latent = model.group(LayerKind.LATENT)
    copies = "every GPU holds a copy" if latent else "KV heads are copied"
    return Share(held.kv_pool_bytes_per_gpu, cost.bytes_per_token_per_gpu, copies)
