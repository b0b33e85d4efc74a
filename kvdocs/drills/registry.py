"""All drills by id, in the order of the lesson."""

from __future__ import annotations

from typing import Any, Final

from kvdocs.by_name import ByName
from kvdocs.drills.drill import Drill
from kvdocs.errors import DrillError

_PLACES: Final = {
    "pool-at-another-utilization": "pool_share:POOL_SHARE",
    "where-the-memory-went": "memory_parts:MEMORY_PARTS",
    "share-of-the-pool": "pool_percent:POOL_PERCENT",
    "reads-of-the-next-token": "next_token_reads:NEXT_TOKEN_READS",
    "recompute-hundredfold": "hundredfold:HUNDREDFOLD",
    "cache-of-a-larger-model": "model_ratio:MODEL_RATIO",
    "bytes-per-token-from-a-config": "config_bytes:CONFIG_BYTES",
    "mend-the-formula": "write_formula:WRITE_FORMULA",
    "order-by-kv-per-token": "kv_order:KV_ORDER",
    "larger-model-smaller-cache": "smaller_cache:SMALLER_CACHE",
    "conversations-with-other-heads": "fewer_heads:FEWER_HEADS",
    "conversations-on-four-gpus": "four_gpus:FOUR_GPUS",
    "make-it-refuse": "refuse:REFUSE",
    "make-it-start": "start_again:START_AGAIN",
    "fp8-bytes-per-token": "fp8:FP8_BYTES_PER_TOKEN",
    "fp8-long-conversation": "fp8:FP8_CONVERSATION",
    "sequences-of-a-longer-context": "longer_context:LONGER_CONTEXT",
    "context-for-n-developers": "developers:DEVELOPERS",
    "queue-left-alone": "queue_ahead:QUEUE_AHEAD",
    "littles-law": "littles_law:LITTLES_LAW",
    "drain-the-queue": "drain:DRAIN",
    "fillings-below-the-average": "bad_fillings:BAD_FILLINGS",
    "how-many-fit": "how_many_fit:HOW_MANY_FIT",
    "slabs-at-the-limit": "slabs:SLAB_COUNT",
    "slabs-that-hold-a-token": "slabs:SLAB_SHARE",
    "blocks-of-three-requests": "blocks_taken:BLOCK_COUNT",
    "blocks-and-waste": "blocks_taken:BLOCK_WASTE",
    "read-the-start-up-line": "startup_line:PRINTED_LINE",
    "which-flag-changed": "startup_line:WHICH_FLAG",
    "prefix-hit-tokens": "prefix_hits:PREFIX_HITS",
    "drive-into-preemption": "preempt:DRIVE_IN",
    "drive-out-of-preemption": "preempt:DRIVE_OUT",
    "who-is-preempted": "victim:VICTIM",
    "which-server-needs-memory": "four_servers:FOUR_SERVERS",
    "fp8-tokens-per-second": "smaller_bytes:FP8_WORTH",
    "fp8-step-reads": "smaller_bytes:FP8_STEP_READ",
    "fp8-with-scales": "smaller_bytes:FP8_SCALES",
    "fp8-what-binds-next": "smaller_bytes:FP8_BINDS",
    "bug-latent-stored-twice": "exhibits:LATENT_DRILL",
    "bug-states-counted-as-layers": "exhibits:HYBRID_DRILL",
    "bug-reads-by-query-heads": "exhibits:READS_DRILL",
    "bug-quarter-of-a-head": "exhibits:SPLIT_DRILL",
    "bug-window-left-out": "exhibits:WINDOW_LEFT_OUT_DRILL",
    "bug-window-ignored": "exhibits:WINDOW_IGNORED_DRILL",
    "bug-gib-printed-as-gb": "exhibits:UNIT_DRILL",
    "bug-part-of-a-block": "exhibits:PREFIX_DRILL",
    "bug-dtype-of-the-weights": "exhibits:DTYPE_DRILL",
    "when-fetching-pays": "fetch:WHEN_FETCHING_PAYS",
    "time-to-fetch": "fetch:FETCH_TIME",
    "scan-through-a-tier": "scan:SCAN",
    "read-the-sheet": "read_sheet:READ_SHEET",
    "one-flag-that-mends-it": "one_flag:ONE_FLAG",
}

DRILLS: Final[ByName[Drill[Any]]] = ByName(Drill, "kvdocs.drills.lesson", _PLACES)
"""Every drill, by its id."""


def get_drill(drill_id: str) -> Drill[Any]:
    """Return the drill of that id.

    Raises:
        DrillError: No drill has that id.
    """
    if drill_id not in DRILLS:
        known = ", ".join(sorted(DRILLS))
        raise DrillError(f"no drill is called {drill_id[:60]!r}; there are {known}")
    return DRILLS[drill_id]
