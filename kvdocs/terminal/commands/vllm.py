"""`vllm`: version, help, and its subcommands `serve` and `bench serve`."""

from __future__ import annotations

from typing import Final

from kvdocs.startup_log.writer import VERSION
from kvdocs.terminal.command import Call, Command, near
from kvdocs.terminal.commands import bench, serve
from kvdocs.terminal.output import Result, fail, out

SUBCOMMANDS: Final = ("serve", "bench")
_USAGE: Final = "usage: vllm [-h] [-v] {serve,bench} ..."
_HELP: Final = f"""\
{_USAGE}

vLLM, as far as this machine simulates it:

  serve         start a server: vllm serve MODEL [flags]
  bench serve   send it requests and time them

  -v, --version
  -h, --help    also after a subcommand: vllm serve --help
"""


def _vllm(call: Call) -> Result:
    first, rest = (call.words[0], call.words[1:]) if call.words else ("", ())
    within = Call(call.machine, rest, call.stdin, call.in_background)
    if first == "serve":
        return serve.run(within)
    if first == "bench":
        return bench.run(within)
    if first in ("-v", "--version", "version"):
        return out(call.machine, VERSION)
    if first in ("", "-h", "--help"):
        return out(call.machine, _HELP.rstrip())
    note = near(first, SUBCOMMANDS) or "here there are vllm serve and vllm bench serve"
    error = f"{_USAGE}\nvllm: error: argument subparser: invalid choice: '{first[:60]}'"
    return fail(call.machine, error, status=2, note=f"# {note}")


VLLM: Final = Command("start a server, or send it load: vllm serve, vllm bench serve", _vllm)
