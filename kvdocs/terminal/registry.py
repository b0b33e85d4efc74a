"""All commands by name."""

from __future__ import annotations

from typing import Final

from kvdocs.terminal.command import Call, Command
from kvdocs.terminal.commands.curl import CURL
from kvdocs.terminal.commands.folders import CD, LS, PWD
from kvdocs.terminal.commands.nvidia_smi import NVIDIA_SMI
from kvdocs.terminal.commands.package import KVDOCS
from kvdocs.terminal.commands.processes import JOBS, KILL, PKILL, PS, SLEEP, WAIT
from kvdocs.terminal.commands.shell_commands import (
    CLEAR,
    DATE,
    ECHO,
    EXIT,
    FALSE,
    HISTORY,
    HOSTNAME,
    TRUE,
    WHOAMI,
)
from kvdocs.terminal.commands.texts import CAT, GREP, HEAD, TAIL, WC
from kvdocs.terminal.commands.vllm import VLLM
from kvdocs.terminal.output import Result, out

_GROUPS: Final[dict[str, dict[str, Command]]] = {
    "The server": {
        "vllm": VLLM,
        "nvidia-smi": NVIDIA_SMI,
        "curl": CURL,
        "kill": KILL,
        "pkill": PKILL,
        "ps": PS,
        "jobs": JOBS,
        "kvdocs": KVDOCS,
    },
    "Time": {"sleep": SLEEP, "wait": WAIT, "date": DATE},
    "Files and text": {
        "ls": LS,
        "cat": CAT,
        "cd": CD,
        "pwd": PWD,
        "grep": GREP,
        "head": HEAD,
        "tail": TAIL,
        "wc": WC,
    },
    "The shell": {"echo": ECHO, "history": HISTORY, "clear": CLEAR, "exit": EXIT},
}
_KEYS: Final = """\
Keys
  Tab completes, up and down bring back what you typed, Ctrl-C drops the line (on an empty line it
  stops the server), Ctrl-L clears the screen. Esc, then Tab, leaves the terminal.
Also
  a | b   a && b   a || b   a; b   a &   'quotes'   "quotes"   \\   *   $?"""


def _help(call: Call) -> Result:
    if call.words and call.words[0] in COMMANDS:
        return out(call.machine, f"{call.words[0]}: {COMMANDS[call.words[0]].about}")
    lines = []
    for title, commands in _GROUPS.items():
        lines.append(title)
        lines += [f"  {name:<12}{command.about}" for name, command in commands.items()]
    return out(call.machine, "\n".join([*lines, _KEYS]))


COMMANDS: Final[dict[str, Command]] = {
    **{name: command for group in _GROUPS.values() for name, command in group.items()},
    "help": Command("this list", _help),
    "hostname": HOSTNAME,
    "whoami": WHOAMI,
    "true": TRUE,
    "false": FALSE,
}
"""Every command, by its name."""
