"""A request of a workload: when it comes, what it asks with, how much it generates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, overload

from kvdocs.errors import WorkloadError


class Part(NamedTuple):
    """A stretch of some named text: tokens `start` to `start + num_tokens` of it.

    Attributes:
        source: Whose text: a system prompt, a repository, a question, another request's answer.
        num_tokens: Length of the stretch.
        start: Where in the source it begins.
    """

    source: str
    num_tokens: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Unshared:
    """A prompt that is like no other.

    Attributes:
        num_tokens: Its length.
    """

    num_tokens: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A prompt put together from named stretches: equal stretches are equal tokens.

    Attributes:
        parts: The stretches in order.
        output_source: Name under which later prompts quote this request's answer, as parts with
            positions counted from the start of this request's prompt; "" when nobody does.

    Examples:
        >>> Parts((Part("system", 1000), Part("question 1", 50))).num_tokens
        1050
    """

    parts: tuple[Part, ...]
    output_source: str = ""

    @property
    def num_tokens(self) -> int:
        """Length of the prompt."""
        return sum(part.num_tokens for part in self.parts)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A prompt known by one key per block, as traces give it.

    Attributes:
        num_tokens: Length of the prompt.
        block_size: Tokens in a block of the trace; the last may hold fewer.
        keys: One key per block. It stands for the block and all before it.
    """

    num_tokens: int
    block_size: int
    keys: tuple[int, ...]

    def keys_at(self, block_size: int) -> Sequence[int]:
        """Keys of the full blocks at an engine's block size.

        Args:
            block_size: Tokens in the engine's block: a divisor or a multiple of the trace's.

        Raises:
            WorkloadError: A block size that cuts across the trace's blocks.

        Examples:
            >>> prompt = Blocks(1200, 512, (7, 8, 9))
            >>> list(prompt.keys_at(256)), list(prompt.keys_at(1024))
            ([14, 15, 16, 17], [8])
        """
        small, large = sorted((block_size, self.block_size))
        if block_size < 1 or large % small:
            raise WorkloadError(
                f"block size {block_size} cuts across the trace's blocks of {self.block_size} "
                "tokens; use a divisor or a multiple of it"
            )
        count = self.num_tokens // block_size
        if block_size >= self.block_size:
            per_key = block_size // self.block_size
            return self.keys[per_key - 1 :: per_key][:count]
        return _Divided(self.keys, self.block_size // block_size, count)


class _Divided(Sequence[int]):
    """Keys of the pieces of blocks, made when asked for: a trace has millions."""

    __slots__ = ("_count", "_keys", "_pieces")

    def __init__(self, keys: tuple[int, ...], pieces: int, count: int) -> None:
        self._keys, self._pieces, self._count = keys, pieces, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        block, piece = divmod(index % self._count, self._pieces)
        return self._keys[block] * self._pieces + piece


Prompt: TypeAlias = Unshared | Parts | Blocks
"""What a request asks with, as far as other requests may share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """One request.

    Attributes:
        id: Its name, unique in the workload.
        prompt: What it asks with.
        output_tokens: Tokens it generates.
        arrival_s: When it arrives, in seconds from the start. A whole number of ticks
            (`kvdocs.timing.to_grid`), so that simulated times add up exactly.
        follows: Request whose answer it waits for; "" when it waits for none. It then arrives
            `think_s` after that one has ended, and not before `arrival_s`.
        think_s: That time, in seconds.
    """

    id: str
    prompt: Prompt
    output_tokens: int
    arrival_s: float = 0.0
    follows: str = ""
    think_s: float = 0.0

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return self.prompt.num_tokens
