"""Sums over the beginning of a growing list, in steps that grow with its logarithm."""

from __future__ import annotations


class Fenwick:
    """A list of whole numbers that can be appended to, changed and summed up to any place.

    Peter M. Fenwick, *A New Data Structure for Cumulative Frequency Tables*, Software: Practice
    and Experience 24(3), 1994. Append, add and sum each take O(log n).

    Examples:
        >>> sums = Fenwick()
        >>> for value in (5, 0, 7):
        ...     sums.append(value)
        >>> sums.add(1, 2)
        >>> [sums.sum_of(count) for count in range(4)]
        [0, 5, 7, 14]
    """

    def __init__(self) -> None:
        self._tree = [0]

    def __len__(self) -> int:
        return len(self._tree) - 1

    def append(self, value: int) -> None:
        """Put a number at the end.

        Args:
            value: The number.
        """
        tree = self._tree
        place = len(tree)
        lowest = place - (place & -place)
        below = place - 1
        while below > lowest:
            value += tree[below]
            below &= below - 1
        tree.append(value)

    def add(self, index: int, change: int) -> None:
        """Change a number.

        Args:
            index: Which, from 0.
            change: What to add to it.
        """
        tree = self._tree
        place, end = index + 1, len(tree)
        while place < end:
            tree[place] += change
            place += place & -place

    def sum_of(self, count: int) -> int:
        """The sum of the first numbers.

        Args:
            count: How many of them.
        """
        tree, total = self._tree, 0
        while count:
            total += tree[count]
            count &= count - 1
        return total
