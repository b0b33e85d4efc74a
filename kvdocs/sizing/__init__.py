"""Whether a server starts, and how much it holds: budget, blocks, concurrency, refusals.

Examples:
    >>> from kvdocs.flags import ServerFlags
    >>> from kvdocs.model import parse_config
    >>> llama = parse_config({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    ...     "num_attention_heads": 32, "num_key_value_heads": 8,
    ...     "max_position_embeddings": 131072})
    >>> budget = Budget(total_bytes=80e9, utilization=0.9, weights_bytes=16.06e9,
    ...     activation_bytes=1.5e9, non_torch_bytes=1e9)
    >>> capacity(llama, budget, ServerFlags(max_model_len=131072)).max_requests
    3
"""

from kvdocs.sizing.budget import (
    LESSON_OVERHEAD,
    LESSON_TENSOR_PARALLEL_BYTES,
    LESSON_UTILIZATION,
    Budget,
    BudgetRange,
    Overhead,
    default_max_num_batched_tokens,
    default_max_num_seqs,
    early_refusal,
    free_memory_refusal,
    lesson_budget,
    real_budget,
)
from kvdocs.sizing.capacity import Capacity, capacity, capacity_on, requested_length
from kvdocs.sizing.cases import capacity_case
from kvdocs.sizing.engine import stored_flags
from kvdocs.sizing.groups import Group, Grouping, Part
from kvdocs.sizing.limits import Limits, check_flags, limits_of
from kvdocs.sizing.share import Share, share_of

__all__ = [
    "LESSON_OVERHEAD",
    "LESSON_TENSOR_PARALLEL_BYTES",
    "LESSON_UTILIZATION",
    "Budget",
    "BudgetRange",
    "Capacity",
    "Group",
    "Grouping",
    "Limits",
    "Overhead",
    "Part",
    "Share",
    "capacity",
    "capacity_case",
    "capacity_on",
    "check_flags",
    "default_max_num_batched_tokens",
    "default_max_num_seqs",
    "early_refusal",
    "free_memory_refusal",
    "lesson_budget",
    "limits_of",
    "real_budget",
    "requested_length",
    "share_of",
    "stored_flags",
]
