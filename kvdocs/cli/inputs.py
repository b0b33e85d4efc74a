"""What commands read: files, folders, standard input, and catalogue names."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from kvdocs.catalog import CatalogError, CatalogModel, get_model
from kvdocs.cli.files import FILES, FileKind
from kvdocs.cli.output import one_line, shorten
from kvdocs.errors import ConfigError, UsageError
from kvdocs.model import Model, parse_config
from kvdocs.model.fields import MAX_CONFIG_BYTES, load

STDIN: Final = "-"
_MAX_NAME: Final = 100
CONFIG_NAME: Final = "config.json"
CONFIG_OR_MODEL: Final = (
    "a config.json, a folder that holds one, - for standard input, or a catalogue model"
)
"""Help text of an argument that `load_subject` reads."""
_PIECE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Subject:
    """The model a command is about.

    Attributes:
        name: What the user called it, fit to print.
        model: Its layers' cache layout.
        config: The `config.json` as it stands, or the catalogue's part of it.
        entry: Its catalogue entry; None when it was read from a file.
        folder: The folder its `config.json` stands in; None when there is none.
    """

    name: str
    model: Model
    config: Mapping[str, Any]
    entry: CatalogModel | None = None
    folder: Path | None = None


def shown_name(name: str) -> str:
    """How a file is called in messages.

    Examples:
        >>> shown_name("-"), shown_name("a/config.json")
        ('standard input', 'a/config.json')
    """
    if name == STDIN:
        return "standard input"
    shown = one_line(name)
    return shown if len(shown) <= _MAX_NAME else "…" + shown[-_MAX_NAME:]


@contextmanager
def open_binary(name: str) -> Iterator[IO[bytes]]:
    """Open a file for reading, or standard input for `-`.

    Raises:
        UsageError: It cannot be opened.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed; name a file instead of -")
        yield sys.stdin.buffer
        return
    try:
        handle = FILES.get().open(name)
    except (OSError, ValueError) as error:
        raise UsageError(_cannot_read(name, error)) from None
    with handle:
        yield handle


def _cannot_read(name: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"cannot read {shown_name(name)}: {reason}"


def read_bytes(name: str, *, most: int) -> bytes:
    """Read a whole file, or standard input for `-`.

    Args:
        name: The file.
        most: Bytes it may have; no more are read, however large it is.

    Raises:
        UsageError: It cannot be read, or is larger.
    """
    with open_binary(name) as handle:
        try:
            data = handle.read(most + 1)
        except OSError as error:
            raise UsageError(_cannot_read(name, error)) from None
    if len(data) > most:
        raise UsageError(f"{shown_name(name)} is larger than {most:,} bytes, which is not expected")
    return data


def text_pieces(handle: IO[bytes], name: str, *, needed: str) -> Iterator[bytes]:
    """A file of text piece by piece, however long.

    Args:
        handle: The open file.
        name: What it was called on the command line.
        needed: What should be in it, such as "a start-up log is".

    Raises:
        UsageError: Nothing is in it, or it is no text.
    """
    first = handle.read(_PIECE)
    if not first.strip():
        raise UsageError(f"{shown_name(name)} is empty; {needed} needed")
    if _is_binary(first):
        raise UsageError(f"{shown_name(name)} is not text; {needed} needed")
    return itertools.chain([first], iter(lambda: handle.read(_PIECE), b""))


def _is_binary(data: bytes) -> bool:
    """Whether a file's beginning is no text: many NULs, and no sign of UTF-16."""
    is_utf16 = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    return not is_utf16 and data.count(0) > len(data) // 100


def only_one_stdin(*names: str | None) -> None:
    """Refuse to read standard input twice.

    Raises:
        UsageError: More than one of the names is `-`.
    """
    if sum(name == STDIN for name in names) > 1:
        raise UsageError("standard input can be read only once; name a file for one of the two -")


def load_subject(name: str) -> Subject:
    """Find the model that a command is about.

    Args:
        name: A `config.json`, a folder that holds one, `-`, or a name the catalogue knows.

    Raises:
        UsageError: It is neither, or cannot be read.
        ConfigError: The config cannot be read right.

    Examples:
        >>> load_subject("llama-3.1-8b").model.num_layers
        32
    """
    if name == STDIN:
        return _from_file(name, None)
    path = Path(name)
    kind = FILES.get().kind(name)
    if kind is FileKind.FOLDER:
        return _from_folder(name, path)
    if kind is FileKind.FILE:
        return _from_file(name, path.parent)
    if name.endswith(".json") or name.startswith((".", "/", "~")):
        raise UsageError(f"there is no file or folder {shorten(name)!r}")
    try:
        return _from_catalogue(name)
    except CatalogError as error:
        raise UsageError(f"there is no file {shorten(name)!r}, and {error}") from None


def _from_catalogue(name: str) -> Subject:
    entry = get_model(name)
    return Subject(entry.id, entry.model, entry.config, entry=entry)


def _from_folder(name: str, folder: Path) -> Subject:
    if FILES.get().kind(str(folder / CONFIG_NAME)) is not FileKind.NOTHING:
        return _from_file(str(folder / CONFIG_NAME), folder)
    try:
        return _from_catalogue(name)
    except CatalogError:
        raise UsageError(f"the folder {shorten(name)!r} holds no {CONFIG_NAME}") from None


def _from_file(name: str, folder: Path | None) -> Subject:
    data = read_bytes(name, most=MAX_CONFIG_BYTES)
    shown = shown_name(name)
    try:
        config = load(data)
        return Subject(shown, parse_config(config, name=shown), config, folder=folder)
    except ConfigError as error:
        raise ConfigError(f"{shown}: {error}", field=error.field) from None
