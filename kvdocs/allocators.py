"""Two ways to give requests memory for their KV cache, behind one small interface.

* `ContiguousAllocator` reserves one slab of `max_model_len` tokens for each request, as servers
  did before paging: how long the output will be is not known, and tensors had to be contiguous.
* `PagedAllocator` hands out small blocks as the request grows and keeps a block table.

The waste of the first, and how paging ends it, is the subject of the PagedAttention paper (Kwon
et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", SOSP
2023, sections 3.1 and 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kvdocs.blocks import BlockPool, blocks_for
from kvdocs.errors import AllocationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Where the memory went, in tokens.

    Attributes:
        capacity: All there is.
        reserved: Given to requests.
        used: Of that, holding a token's keys and values.
    """

    capacity: int
    reserved: int
    used: int

    @property
    def wasted(self) -> int:
        """Tokens reserved that hold nothing."""
        return self.reserved - self.used


class Allocator(Protocol):
    """What a server needs of its KV memory: questions (`can_...`) and acts."""

    def can_allocate(self, num_tokens: int) -> bool:
        """Whether a new request can be given room.

        Args:
            num_tokens: Tokens it comes with.
        """

    def allocate(self, request_id: str, num_tokens: int) -> None:
        """Give a new request room and store its tokens.

        Args:
            request_id: Its name, not yet known to the allocator.
            num_tokens: Tokens it comes with.
        """

    def can_grow(self, request_id: str, num_tokens: int = 1) -> bool:
        """Whether a request's next tokens can be stored.

        Args:
            request_id: A request that has room.
            num_tokens: Tokens to add.
        """

    def grow(self, request_id: str, num_tokens: int = 1) -> None:
        """Store a request's next tokens.

        Args:
            request_id: A request that has room.
            num_tokens: Tokens to add.
        """

    def free(self, request_id: str) -> None:
        """Take a request's memory back.

        Args:
            request_id: A request that has room.
        """

    def extents(self, request_id: str) -> tuple[range, ...]:
        """Where a request's memory lies: token places, in the order of its tokens.

        Args:
            request_id: A request that has room.
        """

    def usage(self) -> Usage:
        """Where the memory went."""


class ContiguousAllocator:
    """One slab of `max_model_len` tokens for each request, reserved at admission.

    Args:
        capacity: Tokens the memory holds. What does not make a whole slab is of no use.
        max_model_len: Tokens in a slab.

    Examples:
        >>> memory = ContiguousAllocator(10_000, max_model_len=4096)
        >>> memory.allocate("a", 100)
        >>> memory.allocate("b", 200)
        >>> memory.can_allocate(1)
        False
        >>> memory.usage().wasted
        7892
        >>> memory.extents("b")
        (range(4096, 8192),)
    """

    def __init__(self, capacity: int, *, max_model_len: int) -> None:
        self._capacity = capacity
        self._max_model_len = max_model_len
        self._free_slabs = list(range(capacity // max_model_len))
        self._slab_of: dict[str, int] = {}
        self._num_tokens: dict[str, int] = {}

    def can_allocate(self, num_tokens: int) -> bool:
        """Whether a slab is free and the request fits into one."""
        return bool(self._free_slabs) and num_tokens <= self._max_model_len

    def allocate(self, request_id: str, num_tokens: int) -> None:
        """Reserve the first free slab.

        Raises:
            AllocationError: No slab is free, or the request is longer than one.
        """
        _check_new(request_id, self._num_tokens)
        if not self.can_allocate(num_tokens):
            raise AllocationError(
                f"no room for request {request_id!r} of {num_tokens} tokens: "
                f"{len(self._free_slabs)} slabs of {self._max_model_len} tokens are free"
            )
        self._slab_of[request_id] = self._free_slabs.pop(0)
        self._num_tokens[request_id] = num_tokens

    def can_grow(self, request_id: str, num_tokens: int = 1) -> bool:
        """Whether the slab has room left."""
        return self._num_tokens[request_id] + num_tokens <= self._max_model_len

    def grow(self, request_id: str, num_tokens: int = 1) -> None:
        """Store the tokens in the slab.

        Raises:
            AllocationError: The slab is full.
        """
        if not self.can_grow(request_id, num_tokens):
            raise AllocationError(
                f"request {request_id!r} has {self._num_tokens[request_id]} of "
                f"{self._max_model_len} tokens in its slab; {num_tokens} more do not fit"
            )
        self._num_tokens[request_id] += num_tokens

    def free(self, request_id: str) -> None:
        """Give the slab back."""
        del self._num_tokens[request_id]
        self._free_slabs = sorted([*self._free_slabs, self._slab_of.pop(request_id)])

    def extents(self, request_id: str) -> tuple[range, ...]:
        """The slab."""
        start = self._slab_of[request_id] * self._max_model_len
        return (range(start, start + self._max_model_len),)

    def usage(self) -> Usage:
        """A whole slab for each request."""
        return Usage(
            capacity=self._capacity,
            reserved=len(self._slab_of) * self._max_model_len,
            used=sum(self._num_tokens.values()),
        )


class PagedAllocator:
    """Blocks of `block_size` tokens, taken as they are needed.

    Args:
        capacity: Tokens the memory holds. What does not make a whole block is of no use.
        block_size: Tokens in a block.

    Examples:
        >>> memory = PagedAllocator(10_000, block_size=16)
        >>> memory.allocate("a", 100)
        >>> memory.allocate("b", 200)
        >>> memory.usage().wasted
        20
        >>> memory.extents("a")[:2]
        (range(0, 16), range(16, 32))
    """

    def __init__(self, capacity: int, *, block_size: int) -> None:
        self._capacity = capacity
        self._block_size = block_size
        self._pool = BlockPool(capacity // block_size + 1)  # the null block needs no memory here
        self._tables: dict[str, list[int]] = {}
        self._num_tokens: dict[str, int] = {}

    def can_allocate(self, num_tokens: int) -> bool:
        """Whether enough blocks are free."""
        return self._pool.can_take(blocks_for(num_tokens, self._block_size))

    def allocate(self, request_id: str, num_tokens: int) -> None:
        """Take blocks for the tokens there are, and none for those to come.

        Raises:
            AllocationError: Too few blocks are free.
        """
        _check_new(request_id, self._num_tokens)
        self._tables[request_id] = self._pool.take(blocks_for(num_tokens, self._block_size))
        self._num_tokens[request_id] = num_tokens

    def can_grow(self, request_id: str, num_tokens: int = 1) -> bool:
        """Whether the last block has room, or enough blocks are free."""
        return self._pool.can_take(self._missing(request_id, num_tokens))

    def grow(self, request_id: str, num_tokens: int = 1) -> None:
        """Fill the last block, then take new ones.

        Raises:
            AllocationError: Too few blocks are free.
        """
        self._tables[request_id] += self._pool.take(self._missing(request_id, num_tokens))
        self._num_tokens[request_id] += num_tokens

    def _missing(self, request_id: str, num_tokens: int) -> int:
        needed = blocks_for(self._num_tokens[request_id] + num_tokens, self._block_size)
        return needed - len(self._tables[request_id])

    def free(self, request_id: str) -> None:
        """Give the blocks back, the last first."""
        del self._num_tokens[request_id]
        self._pool.release(reversed(self._tables.pop(request_id)))

    def extents(self, request_id: str) -> tuple[range, ...]:
        """The blocks of the block table."""
        size = self._block_size
        return tuple(range((b - 1) * size, b * size) for b in self._tables[request_id])

    def usage(self) -> Usage:
        """Whole blocks; at most one for each request is partly empty."""
        return Usage(
            capacity=self._capacity,
            reserved=sum(map(len, self._tables.values())) * self._block_size,
            used=sum(self._num_tokens.values()),
        )


def _check_new(request_id: str, known: dict[str, int]) -> None:
    if request_id in known:
        raise AllocationError(
            f"request {request_id!r} already has memory: grow it, or free it first"
        )
