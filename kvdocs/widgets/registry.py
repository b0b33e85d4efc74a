"""All widgets by name."""

from __future__ import annotations

from typing import Final

from kvdocs.errors import KvdocsError
from kvdocs.widgets.block_map import BLOCK_MAP
from kvdocs.widgets.bytes_per_token import BYTES_PER_TOKEN
from kvdocs.widgets.concurrency import CONCURRENCY
from kvdocs.widgets.decode_reads import DECODE_READS
from kvdocs.widgets.gpu_memory import GPU_MEMORY
from kvdocs.widgets.heads import HEADS
from kvdocs.widgets.length_tail import LENGTH_TAIL
from kvdocs.widgets.preemption import PREEMPTION
from kvdocs.widgets.prefix_tree import PREFIX_TREE
from kvdocs.widgets.recompute import RECOMPUTE
from kvdocs.widgets.server_load import SERVER_LOAD
from kvdocs.widgets.slabs_vs_blocks import SLABS_VS_BLOCKS
from kvdocs.widgets.startup import STARTUP
from kvdocs.widgets.tensor_parallel import TENSOR_PARALLEL
from kvdocs.widgets.widget import Widget

WIDGETS: Final[dict[str, Widget]] = {
    widget.name: widget
    for widget in (
        BLOCK_MAP,
        BYTES_PER_TOKEN,
        CONCURRENCY,
        DECODE_READS,
        GPU_MEMORY,
        HEADS,
        LENGTH_TAIL,
        PREEMPTION,
        PREFIX_TREE,
        RECOMPUTE,
        SERVER_LOAD,
        SLABS_VS_BLOCKS,
        STARTUP,
        TENSOR_PARALLEL,
    )
}
"""Every widget, by its name."""


def get_widget(name: str) -> Widget:
    """Return the widget of that name.

    Raises:
        KvdocsError: No widget has that name.
    """
    if name not in WIDGETS:
        raise KvdocsError(f"no widget is called {name!r}; there are {', '.join(sorted(WIDGETS))}")
    return WIDGETS[name]
