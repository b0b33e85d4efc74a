r"""The lesson's terminal: a shell on the simulated machine `dgx-1`.

    machine             the state           shell        words, quotes, pipes
    session             a line, carried out  completion   what Tab offers
    commands, registry  what can be typed    plan, served what the server takes, and has done
    frame, browser      its place on a page, and what the page calls

Examples:
    >>> result = run(Machine(), "vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.9")
    >>> run(result.machine, "nvidia-smi --query-gpu=memory.used --format=csv,noheader").out
    '68664 MiB\n'
"""

from kvdocs.terminal.machine import Machine
from kvdocs.terminal.output import Kind, Piece, Result
from kvdocs.terminal.session import interrupt, prompt, run

__all__ = ["Kind", "Machine", "Piece", "Result", "interrupt", "prompt", "run"]
