"""The files that commands read: those of the disk, or of a simulated machine."""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, Protocol


class FileKind(StrEnum):
    """What stands under a name."""

    FILE = "file"
    FOLDER = "folder"
    NOTHING = "nothing"


class Files(Protocol):
    """Where names of files lead."""

    def kind(self, name: str) -> FileKind:
        """Say what stands under a name.

        Args:
            name: Path of a file or folder.
        """

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading.

        Args:
            name: Path of the file.

        Raises:
            OSError: It cannot be opened.
            ValueError: The name cannot be that of a file.
        """


class DiskFiles:
    """The computer's own files."""

    def kind(self, name: str) -> FileKind:
        """Say what stands under a name; one that cannot be a path is that of nothing."""
        try:
            path = Path(name)
            if path.is_dir():
                return FileKind.FOLDER
            return FileKind.FILE if path.exists() else FileKind.NOTHING
        except (OSError, ValueError):
            return FileKind.NOTHING

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return Path(name).open("rb")


FILES: Final[ContextVar[Files]] = ContextVar("FILES", default=DiskFiles())  # noqa: B039 - no state
"""Where the commands of this context find files."""
