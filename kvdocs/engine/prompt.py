"""What a request asks with, told apart block by block.

Prefix caching only needs to know which blocks of two requests are equal, so a prompt need not be
a list of tokens. Blocks that no other request can have are *private*: they are never looked up,
and a simulation need not name them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kvdocs.blocks import ROOT_HASH, hash_block

ALL_BLOCKS = sys.maxsize
"""Number of shared blocks of a request whose output, too, can be another's prompt."""


class Prompt(ABC):
    """A prompt of `num_tokens` tokens.

    Attributes:
        num_tokens: Its length.
    """

    num_tokens: int

    @abstractmethod
    def num_shared_blocks(self, block_size: int) -> int:
        """How many leading full blocks of the request another request may also have.

        Args:
            block_size: Tokens in a block.

        Returns:
            A count; `ALL_BLOCKS` if the output's blocks are shared as well.
        """

    @abstractmethod
    def block_key(self, index: int, *, block_size: int, parent: Hashable, salt: str) -> Hashable:
        """The chained key of one shared block.

        Args:
            index: Which block, from 0.
            block_size: Tokens in a block.
            parent: The key of the block before; `ROOT_HASH` for the first.
            salt: Requests with different salts share nothing.

        Returns:
            Equal keys mean equal content and equal history.
        """


@dataclass(frozen=True, slots=True)
class DistinctPrompt(Prompt):
    """A prompt known by its length alone, equal to no other.

    Attributes:
        num_tokens: Its length.
    """

    num_tokens: int

    def num_shared_blocks(self, block_size: int) -> int:
        """None: nobody else has these tokens."""
        del block_size
        return 0

    def block_key(self, index: int, *, block_size: int, parent: Hashable, salt: str) -> Hashable:
        """Never asked for, as no block is shared."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class KeyedPrompt(Prompt):
    """A prompt given as one key per block, as in the Mooncake traces (`hash_ids`).

    A key must stand for the block and all before it, as those do. Keys beyond the last full block
    (the traces name the partial one too) are ignored. The output is private.

    Attributes:
        num_tokens: Its length.
        keys: One key per block of the engine's block size.
    """

    num_tokens: int
    keys: Sequence[Hashable]

    def num_shared_blocks(self, block_size: int) -> int:
        """All full blocks that have a key."""
        return min(len(self.keys), self.num_tokens // block_size)

    def block_key(self, index: int, *, block_size: int, parent: Hashable, salt: str) -> Hashable:
        """The given key; with a salt, in a space of its own."""
        del block_size, parent
        return ("salt", salt, self.keys[index]) if salt else self.keys[index]


@dataclass(frozen=True, slots=True)
class TokenPrompt(Prompt):
    """A prompt given as tokens.

    Attributes:
        tokens: The prompt's tokens.
        output_token: The token at an absolute position of the output; None makes the output
            private (as good as random).

    Examples:
        >>> a, b = TokenPrompt((1, 2, 3, 4, 5)), TokenPrompt((1, 2, 3, 4, 9))
        >>> key = dict(block_size=4, parent=ROOT_HASH, salt="")
        >>> a.block_key(0, **key) == b.block_key(0, **key)
        True
    """

    tokens: Sequence[int]
    output_token: Callable[[int], int] | None = None

    @property
    def num_tokens(self) -> int:  # type: ignore[override]
        """Length of the prompt."""
        return len(self.tokens)

    def num_shared_blocks(self, block_size: int) -> int:
        """All full blocks of the prompt, and of the output when its tokens are known."""
        return len(self.tokens) // block_size if self.output_token is None else ALL_BLOCKS

    def block_key(self, index: int, *, block_size: int, parent: Hashable, salt: str) -> Hashable:
        """The chained hash of the block's tokens."""
        start, stop = index * block_size, (index + 1) * block_size
        tokens = tuple(self.tokens[start:stop])
        if self.output_token is not None:
            first = max(start, len(self.tokens))
            tokens += tuple(self.output_token(position) for position in range(first, stop))
        return _hash(index, parent, tokens, salt)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of some source of text: tokens `start` to `start + num_tokens` of it.

    Attributes:
        source: What it is cut from: a system prompt, a user's words, another request's output.
            A string, a number, or a tuple of those: it is hashed by its `repr`.
        num_tokens: Its length.
        start: Where in the source it begins.
    """

    source: Hashable
    num_tokens: int
    start: int = 0


class SegmentPrompt(Prompt):
    """A prompt put together from stretches of named sources, without naming tokens.

    Two prompts have an equal block when it is cut from the same places of the same sources. That
    makes shared system prompts and conversations cheap to describe.

    Args:
        segments: The prompt's parts in order.
        output_source: Source that the output belongs to, so that a later turn can quote it with
            `Segment(output_source, n, start=position)`, positions counted from the start of this
            request; None makes the output private.

    Examples:
        >>> system = Segment("system", 32)
        >>> one = SegmentPrompt([system, Segment("ann", 10)])
        >>> two = SegmentPrompt([system, Segment("bob", 99)])
        >>> key = dict(block_size=16, parent=ROOT_HASH, salt="")
        >>> one.block_key(1, **key) == two.block_key(1, **key)
        True
        >>> one.num_tokens, one.num_shared_blocks(16)
        (42, 2)
    """

    def __init__(
        self, segments: Sequence[Segment], *, output_source: Hashable | None = None
    ) -> None:
        self.segments = _merge(segments)
        self.output_source = output_source
        self.num_tokens = sum(segment.num_tokens for segment in segments)
        self._starts = list(accumulate((s.num_tokens for s in self.segments), initial=0))

    def num_shared_blocks(self, block_size: int) -> int:
        """All full blocks of the prompt, and of the output when it has a source."""
        return self.num_tokens // block_size if self.output_source is None else ALL_BLOCKS

    def block_key(self, index: int, *, block_size: int, parent: Hashable, salt: str) -> Hashable:
        """The chained hash of the places the block is cut from."""
        pieces = self.pieces(index * block_size, (index + 1) * block_size)
        return _hash(index, parent, pieces, salt)

    def pieces(self, start: int, stop: int) -> tuple[tuple[Hashable, int, int], ...]:
        """What tokens `start` to `stop` of the request are cut from.

        Args:
            start: The first token.
            stop: The first token that is not meant.

        Returns:
            Source, place in it, and length, piece by piece; equal ones are equal tokens.
        """
        pieces = []
        part = bisect_right(self._starts, start) - 1
        while start < stop and part < len(self.segments):
            segment, begin = self.segments[part], self._starts[part]
            end = min(stop, begin + segment.num_tokens)
            pieces.append((segment.source, segment.start + start - begin, end - start))
            start, part = end, part + 1
        if start < stop:
            pieces.append((self.output_source, start, stop - start))
        return tuple(pieces)


def _merge(segments: Sequence[Segment]) -> list[Segment]:
    """Join neighbours that continue each other, so that equal text is described equally."""
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last and last.source == segment.source and last.start + last.num_tokens == segment.start:
            merged[-1] = Segment(last.source, last.num_tokens + segment.num_tokens, last.start)
        elif segment.num_tokens:
            merged.append(segment)
    return merged


def _hash(index: int, parent: Hashable, content: Hashable, salt: str) -> bytes:
    """Chain a block; the salt goes into the first one (vLLM: `generate_block_hash_extra_keys`)."""
    before = parent if isinstance(parent, bytes) else ROOT_HASH
    return hash_block(before, content, (salt,) if salt and index == 0 else ())
