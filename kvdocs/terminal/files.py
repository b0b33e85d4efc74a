"""The machine's files: a folder per model of the catalogue, a note, and the server's log.

Read only. Nothing here touches the files of the computer it runs on.
"""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import IO, Final

from kvdocs.catalog import models
from kvdocs.cli.files import FileKind
from kvdocs.terminal.machine import HOME, Machine

CONFIG: Final = "config.json"
LOG: Final = f"{HOME}/vllm.log"
"""What the last server printed."""
_README: Final = """\
dgx-1 is simulated: its GPU, its server and its clock exist in this page only.
Memory, capacity and refusals are computed as vLLM 0.33.0 computes them.
Time passes when you run something: `sleep 30` costs you nothing.

models/     one folder a model, with the fields of its config.json that decide its size
vllm.log    what the last `vllm serve` printed, once there was one
`help`      what can be typed here
"""


@lru_cache(maxsize=1)
def _fixed() -> dict[str, str]:
    """Files that are always there."""
    found = {f"{HOME}/README.txt": _README}
    for entry in models():
        folder = f"{HOME}/models/{entry.id.rpartition('/')[2]}"
        found[f"{folder}/{CONFIG}"] = json.dumps(dict(entry.config), indent=2) + "\n"
    return found


@lru_cache(maxsize=1)
def _folders() -> frozenset[str]:
    found = set()
    for path in _fixed():
        folder = posixpath.dirname(path)
        while folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(found)


class MachineFiles:
    """The files as a command of the machine sees them.

    Args:
        machine: The machine.

    Examples:
        >>> files = MachineFiles(Machine())
        >>> files.read("models/Llama-3.1-8B/config.json").count("num_hidden_layers")
        1
        >>> files.kind("models").value, files.kind("nowhere").value
        ('folder', 'nothing')
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def path(self, name: str) -> str:
        """The full path of a name.

        Args:
            name: A path, from the shell's folder unless it begins with / or ~.
        """
        if name == "~" or name.startswith("~/"):
            name = HOME + name[1:]
        path = posixpath.normpath(posixpath.join(self._machine.cwd, name))
        return "/" + path.lstrip("/")

    def kind(self, name: str) -> FileKind:
        """Say what stands under a name."""
        path = self.path(name)
        if path in _folders():
            return FileKind.FOLDER
        return FileKind.FILE if path in _fixed() or self._is_log(path) else FileKind.NOTHING

    def _is_log(self, path: str) -> bool:
        return path == LOG and self._machine.server is not None

    def read(self, name: str) -> str:
        """The text of a file.

        Args:
            name: Its path.

        Raises:
            OSError: There is none.
        """
        path = self.path(name)
        if path in _folders():
            raise IsADirectoryError(21, "Is a directory")
        if self._is_log(path):
            from kvdocs.terminal.served import log_of  # noqa: PLC0415 - it needs the engine

            return "".join(f"{line}\n" for line in log_of(self._machine))
        if path not in _fixed():
            raise FileNotFoundError(2, "No such file or directory")
        return _fixed()[path]

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return io.BytesIO(self.read(name).encode())

    def names_in(self, folder: str) -> list[str]:
        """What stands in a folder, sorted; folders end in a slash.

        Args:
            folder: Its path.
        """
        start = self.path(folder).rstrip("/") + "/"
        paths = [*_fixed(), LOG] if self._machine.server is not None else list(_fixed())
        found = {
            rest + "/" if slash else rest
            for path in paths
            if path.startswith(start)
            for rest, slash, _ in [path.removeprefix(start).partition("/")]
        }
        return sorted(found, key=str.lower)

    def matching(self, pattern: str) -> Iterator[str]:
        """The names that a pattern with `*` and `?` matches, sorted.

        Args:
            pattern: The pattern, with or without folders.
        """
        folder, _, last = pattern.rpartition("/")
        if "*" in folder or "?" in folder:
            parents = [name for name in self.matching(folder) if self.kind(name) == FileKind.FOLDER]
        else:
            parents = [folder]
        rooted = "/" if pattern.startswith("/") and not folder else ""
        for parent in parents:
            for name in self.names_in(parent or rooted or "."):
                if fnmatchcase(name.rstrip("/"), last):
                    yield f"{rooted}{parent}{'/' if parent else ''}{name.rstrip('/')}"
