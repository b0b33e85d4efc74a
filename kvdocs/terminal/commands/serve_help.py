"""`vllm serve --help`: the flags that bear on the cache, in the lesson's words."""

from __future__ import annotations

import textwrap
from typing import Final

from kvdocs.flag_names import OTHER_SWITCHES, OTHER_VALUES
from kvdocs.flags import flag_names

_WIDTH: Final = 96
_INDENT: Final = " " * 6
_ABOUT: Final = {
    "--gpu-memory-utilization SHARE": "share of the whole GPU that the server may use (default: "
    "0.92)",
    "--max-model-len TOKENS": "longest request, prompt and answer together; 32k is 32,000 and 32K "
    "is 32,768; -1 or auto takes the longest that fits (default: the model's own limit)",
    "--kv-cache-dtype DTYPE": "how a value is stored in the cache: auto (as the model), bfloat16, "
    "fp8, ... (default: auto)",
    "--block-size TOKENS": "tokens in a block of the cache (default: 16)",
    "--kv-cache-memory-bytes BYTES": "size of the cache on each GPU, in place of what is left",
    "--num-gpu-blocks-override BLOCKS": "number of blocks, in place of what fits",
    "--max-num-seqs REQUESTS": "requests running at once (default here: 1024)",
    "--max-num-batched-tokens TOKENS": "tokens computed in one step (default here: 8192)",
    "--enable-prefix-caching, --no-enable-prefix-caching": "share equal leading blocks (default: "
    "on)",
    "--enable-chunked-prefill, --no-enable-chunked-prefill": "spread a prompt over steps "
    "(default: on)",
    "--scheduling-policy {fcfs,priority}": "who goes first (default: fcfs)",
    "--watermark SHARE": "share of the blocks kept free when a request is admitted (default: 0.0)",
    "-tp, --tensor-parallel-size GPUS": "GPUs each layer is split over (default: 1)",
    "--dtype DTYPE": "what the weights are served in (default: auto)",
    "--port PORT": "where it listens (default: 8000)",
    "--served-model-name NAME": "what requests call the model (default: as given)",
}


def help_text(topic: str = "") -> str:
    """The help.

    Args:
        topic: `all` lists every flag by name; anything else explains the main ones.

    Examples:
        >>> help_text().splitlines()[0]
        'usage: vllm serve [model_tag] [options]'
    """
    lines = ["usage: vllm serve [model_tag] [options]", ""]
    if topic == "all":
        names = sorted({*flag_names(), *map(_flag, OTHER_VALUES | OTHER_SWITCHES)})
        lines += textwrap.wrap("  ".join(names), width=_WIDTH, break_on_hyphens=False)
        return "\n".join(lines)
    lines += ["Start a server. The flags that shape its cache:", ""]
    for flag, about in _ABOUT.items():
        lines.append(f"  {flag}")
        lines += textwrap.wrap(
            about, width=_WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
        )
    lines += ["", "All other flags are taken too and change nothing here: vllm serve --help=all"]
    return "\n".join(lines)


def _flag(name: str) -> str:
    dashes = "-" if len(name) <= 3 else "--"
    return dashes + name.replace("_", "-")
