"""A progress bar on standard error: on a terminal only, and only when a run takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

_PATIENCE_S: Final = 0.5
_REDRAW_S: Final = 0.1
_WIDTH: Final = 40


class Progress:
    """Counts up to a known number; a context manager that wipes its line at the end.

    Args:
        total: What it counts up to.

    Examples:
        >>> with Progress(10) as progress:  # not a terminal here: nothing is drawn
        ...     progress.show(5)
    """

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._wanted = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + _PATIENCE_S
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def show(self, done: int) -> None:
        """Draw, if it is time to.

        Args:
            done: How many are done.
        """
        if not self._wanted:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._drawn = now + _REDRAW_S, True
        filled = _WIDTH * done // self._total
        bar = "#" * filled + "." * (_WIDTH - filled)
        print(f"\r[{bar}] {done:,} of {self._total:,} requests", end="", file=sys.stderr)
        sys.stderr.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
