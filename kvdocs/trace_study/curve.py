"""Hits of a cache of every size."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from kvdocs.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class HitCurve:
    """Prompt tokens found in an LRU cache, for every size of it.

    Attributes:
        block_size: Tokens in a block.
        prompt_tokens: Tokens of all prompts.
        found: Tokens found in a cache of 0, 1, 2 … blocks, up to where nothing is evicted.

    Examples:
        >>> curve = HitCurve(16, 100, array("q", [0, 16, 32, 32, 48]))
        >>> curve.hit_ratio(2), curve.ideal_ratio, curve.hit_ratio(1000)
        (0.32, 0.48, 0.48)
        >>> curve.smallest(0.9 * curve.ideal_ratio)
        4
    """

    block_size: int
    prompt_tokens: int
    found: array[int] = field(repr=False)

    def hit_tokens(self, num_blocks: int) -> int:
        """Prompt tokens found in a cache of some size.

        Args:
            num_blocks: Blocks in the cache.

        Raises:
            WorkloadError: A negative size.
        """
        if num_blocks < 0:
            raise WorkloadError(f"a cache of {num_blocks} blocks is not possible; use 0 or more")
        return self.found[min(num_blocks, len(self.found) - 1)]

    def hit_ratio(self, num_blocks: int) -> float:
        """Share of all prompt tokens found in a cache of some size.

        Args:
            num_blocks: Blocks in the cache.

        Raises:
            WorkloadError: A negative size.
        """
        return self.hit_tokens(num_blocks) / self.prompt_tokens

    def hit_ratio_at(self, tokens: int) -> float:
        """Share of all prompt tokens found in a cache that holds so many tokens.

        Args:
            tokens: Tokens the cache has room for; whole blocks of them are used.

        Raises:
            WorkloadError: A negative size.
        """
        return self.hit_ratio(tokens // self.block_size)

    @property
    def ideal_ratio(self) -> float:
        """Share found when nothing is ever evicted."""
        return self.found[-1] / self.prompt_tokens

    def smallest(self, hit_ratio: float) -> int:
        """Blocks of the smallest cache with at least some hit ratio.

        Args:
            hit_ratio: From 0 to `ideal_ratio`.

        Raises:
            WorkloadError: More than any cache reaches.
        """
        if not hit_ratio <= self.ideal_ratio:
            raise WorkloadError(
                f"no cache finds {hit_ratio:.2%} of these prompts; one that never evicts finds "
                f"{self.ideal_ratio:.2%}"
            )
        return bisect_left(self.found, hit_ratio * self.prompt_tokens)
