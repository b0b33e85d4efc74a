"""A trace file that comes in pieces of text, read in slices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from kvdocs.errors import WorkloadError
from kvdocs.playground.load import MOST_REQUESTS, Trace
from kvdocs.workload import WorkloadRequest, read_trace

_LINES_A_LOOK: Final = 64


class TraceReader:
    r"""Reads a trace: first its text is added, then it is worked through.

    Args:
        name: The file's name.

    Attributes:
        is_done: Whether all is read, or as many requests as are ever played.

    Examples:
        >>> reader = TraceReader("t.csv")
        >>> reader.add("TIMESTAMP,ContextTokens,Gen")
        >>> reader.add("eratedTokens\n2023-11-16 18:15:46.5,374,44\n")
        >>> reader.work(lambda: False)
        >>> reader.is_done, reader.trace().read[0].num_prompt_tokens
        (True, 374)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_done = False
        self._pieces: deque[str] = deque()
        self._characters = self._passed = 0
        self._found: list[WorkloadRequest] = []
        self._requests: Iterator[WorkloadRequest] | None = None

    def add(self, text: str) -> None:
        """Take the next piece of the file.

        Args:
            text: The piece; it may end within a line.
        """
        self._pieces.append(text)
        self._characters += len(text)

    def _lines(self) -> Iterator[str]:
        """The lines; what is read is forgotten piece by piece."""
        begun = ""
        while self._pieces:
            *lines, begun = (begun + self._pieces.popleft()).split("\n")
            for line in lines:
                self._passed += len(line) + 1
                yield line
        self._passed += len(begun)
        yield begun

    @property
    def share(self) -> float:
        """Share of the text that is read."""
        return self._passed / self._characters if self._characters else 0.0

    @property
    def num_requests(self) -> int:
        """Requests found so far."""
        return len(self._found)

    def work(self, is_over: Callable[[], bool]) -> None:
        """Read on until the slice is over, or all is read.

        Args:
            is_over: Whether to give way.

        Raises:
            WorkloadError: A line that cannot be read, with its number.
        """
        if self._requests is None:
            self._requests = read_trace(self._lines())
        for number, request in enumerate(self._requests, 1):
            self._found.append(request)
            if len(self._found) == MOST_REQUESTS:
                break
            if number % _LINES_A_LOOK == 0 and is_over():
                return
        self._pieces.clear()
        self.is_done = True

    def trace(self) -> Trace:
        """The trace, once it is read.

        Raises:
            WorkloadError: It holds no request.
        """
        if not self._found:
            raise WorkloadError(f"{self.name} holds no request, only a header")
        return Trace(name=self.name, read=tuple(self._found))
