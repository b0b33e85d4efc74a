"""All drills by id, in the order of the lesson."""

from __future__ import annotations

from typing import Any, Final

from kvdocs.drills.drill import Drill
from kvdocs.drills.lesson.blocks_taken import BLOCK_COUNT, BLOCK_WASTE
from kvdocs.drills.lesson.config_bytes import CONFIG_BYTES
from kvdocs.drills.lesson.developers import DEVELOPERS
from kvdocs.drills.lesson.drain import DRAIN
from kvdocs.drills.lesson.four_gpus import FOUR_GPUS
from kvdocs.drills.lesson.four_servers import FOUR_SERVERS
from kvdocs.drills.lesson.fp8 import FP8_BYTES_PER_TOKEN, FP8_CONVERSATION
from kvdocs.drills.lesson.how_many_fit import HOW_MANY_FIT
from kvdocs.drills.lesson.hundredfold import HUNDREDFOLD
from kvdocs.drills.lesson.kv_order import KV_ORDER
from kvdocs.drills.lesson.littles_law import LITTLES_LAW
from kvdocs.drills.lesson.memory_parts import MEMORY_PARTS
from kvdocs.drills.lesson.model_ratio import MODEL_RATIO
from kvdocs.drills.lesson.next_token_reads import NEXT_TOKEN_READS
from kvdocs.drills.lesson.pool_percent import POOL_PERCENT
from kvdocs.drills.lesson.pool_share import POOL_SHARE
from kvdocs.drills.lesson.preempt import DRIVE_IN, DRIVE_OUT
from kvdocs.drills.lesson.prefix_hits import PREFIX_HITS
from kvdocs.drills.lesson.refuse import REFUSE
from kvdocs.drills.lesson.slabs import SLAB_COUNT, SLAB_SHARE
from kvdocs.drills.lesson.smaller_cache import SMALLER_CACHE
from kvdocs.drills.lesson.start_again import START_AGAIN
from kvdocs.drills.lesson.startup_line import PRINTED_LINE, WHICH_FLAG
from kvdocs.drills.lesson.victim import VICTIM
from kvdocs.drills.lesson.write_formula import WRITE_FORMULA
from kvdocs.errors import DrillError

_ALL: Final[tuple[Drill[Any], ...]] = (
    POOL_SHARE,
    MEMORY_PARTS,
    POOL_PERCENT,
    NEXT_TOKEN_READS,
    HUNDREDFOLD,
    MODEL_RATIO,
    CONFIG_BYTES,
    WRITE_FORMULA,
    KV_ORDER,
    SMALLER_CACHE,
    FOUR_GPUS,
    REFUSE,
    START_AGAIN,
    FP8_BYTES_PER_TOKEN,
    FP8_CONVERSATION,
    DEVELOPERS,
    LITTLES_LAW,
    DRAIN,
    HOW_MANY_FIT,
    SLAB_COUNT,
    SLAB_SHARE,
    BLOCK_COUNT,
    BLOCK_WASTE,
    PRINTED_LINE,
    WHICH_FLAG,
    PREFIX_HITS,
    DRIVE_IN,
    DRIVE_OUT,
    VICTIM,
    FOUR_SERVERS,
)

DRILLS: Final[dict[str, Drill[Any]]] = {drill.id: drill for drill in _ALL}
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
