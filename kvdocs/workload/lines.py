"""Lines of a file or of pasted text, numbered, and errors that name them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from kvdocs.errors import WorkloadError

Source: TypeAlias = Path | str | Iterable[str]
"""A file (`Path`), the text itself (`str`), or its lines."""

_SHOWN: Final = 60


def numbered(source: Source) -> Iterator[tuple[int, str]]:
    r"""Lines that are not blank, with their numbers from 1, without byte order mark and line end.

    Args:
        source: A path, the text, or lines; it is read as it is needed.

    Raises:
        WorkloadError: The file cannot be read or is not UTF-8.

    Examples:
        >>> list(numbered("\ufeffone\r\n\r\ntwo"))
        [(1, 'one'), (3, 'two')]
    """
    if isinstance(source, Path):
        yield from _from_file(source)
        return
    lines = io.StringIO(source, newline=None) if isinstance(source, str) else source
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff").strip() if number == 1 else line.strip()
        if text:
            yield number, text


def _from_file(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from numbered(file)
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from error


def shorten(text: object) -> str:
    """A value as an error message may quote it.

    Args:
        text: Anything.

    Examples:
        >>> shorten("abc"), len(shorten("x" * 1000)) < 70
        ("'abc'", True)
    """
    shown = repr(text)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
