"""One attention layer, with and without a KV cache, for any number of KV heads.

Floating-point addition depends on its order, so two ways to compute the same thing agree to the
last bit only if they add in the same order. Here every sum has a length and an order that depend on
the model's widths and on a token's place in the sequence, never on how many tokens are computed
together: each element of a projection is one `sum` over the width, and each token attends by
itself. So

- prefill and decode with a cache equal recomputing everything, bit for bit, in every dtype;
- GQA and MQA equal MHA whose KV heads are copies, bit for bit.

A matrix product from a BLAS library (`multiplied`) chooses its own order by the shape of its
operands. With it the projections of a prompt and those of one token at a time differ by rounding:
by no more than `reordering_bound`.

No positions are encoded. A rotary encoding turns a key by its own place alone, so cached keys never
change with it either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kvdocs.errors import ConfigError

Array: TypeAlias = npt.NDArray[Any]
Store: TypeAlias = Callable[[Array], Array]
"""What a cache does to keys or values [tokens, KV heads, head size]: what is read back later."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of one layer.

    Attributes:
        num_heads: Query heads.
        num_kv_heads: KV heads: as many as query heads is MHA, 1 is MQA, between is GQA.
        head_size: Elements of a key, a value and a query.

    Examples:
        >>> Heads(32, 8, 128).group_size
        4
        >>> Heads(32, 5, 128)
        Traceback (most recent call last):
        kvdocs.errors.ConfigError: 32 query heads cannot share 5 KV heads evenly; ...
    """

    num_heads: int
    num_kv_heads: int
    head_size: int

    def __post_init__(self) -> None:
        """Refuse heads that cannot be grouped."""
        if min(self.num_heads, self.num_kv_heads, self.head_size) < 1:
            raise ConfigError(f"{self}: each must be 1 or more")
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"{self.num_heads} query heads cannot share {self.num_kv_heads} KV heads evenly; "
                f"use a divisor of {self.num_heads}"
            )

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads


def project(weights: Array, x: Array) -> Array:
    """Project each token by itself: every element is one sum over the width.

    Args:
        weights: [heads, head size, width].
        x: [tokens, width].

    Returns:
        [tokens, heads, head size].
    """
    products = x[:, None, None, :] * weights
    return np.asarray(products.sum(axis=-1))


@dataclass(frozen=True, slots=True)
class Layer:
    """The projections of one attention layer.

    Attributes:
        heads: Its heads.
        w_q: To queries: [query heads, head size, width].
        w_k: To keys: [KV heads, head size, width].
        w_v: To values: [KV heads, head size, width].

    Examples:
        >>> layer = Layer.random(Heads(8, 2, 16), width=64, seed=7)
        >>> layer.w_q.shape, layer.w_k.shape
        ((8, 16, 64), (2, 16, 64))
    """

    heads: Heads
    w_q: Array
    w_k: Array
    w_v: Array

    @classmethod
    def random(
        cls, heads: Heads, *, width: int, seed: int, dtype: npt.DTypeLike = np.float32
    ) -> Layer:
        """Draw a layer's weights.

        Args:
            heads: Its heads.
            width: Elements of a token's vector.
            seed: The same seed gives the same layer.
            dtype: Of the weights, and of all that is computed with them.
        """
        rng = np.random.default_rng(seed)

        def drawn(num_heads: int) -> Array:
            shape = (num_heads, heads.head_size, width)
            return np.asarray(rng.standard_normal(shape) / np.sqrt(width), dtype)

        return cls(
            heads, drawn(heads.num_heads), drawn(heads.num_kv_heads), drawn(heads.num_kv_heads)
        )

    def with_copied_kv_heads(self) -> Layer:
        """The same layer as MHA: each KV head once for every query head that shares it."""
        heads = Heads(self.heads.num_heads, self.heads.num_heads, self.heads.head_size)
        times = self.heads.group_size
        return Layer(
            heads, self.w_q, np.repeat(self.w_k, times, axis=0), np.repeat(self.w_v, times, axis=0)
        )

    def keys_values(self, x: Array) -> tuple[Array, Array]:
        """Keys and values of tokens, each [tokens, KV heads, head size].

        Args:
            x: [tokens, width].
        """
        return project(self.w_k, x), project(self.w_v, x)


def multiplied(weights: Array, x: Array) -> Array:
    """Project as `project` does, by one matrix product over all tokens (BLAS).

    Args:
        weights: [heads, head size, width].
        x: [tokens, width].
    """
    flat = weights.reshape(-1, weights.shape[-1])
    return np.asarray((x @ flat.T).reshape(len(x), *weights.shape[:2]))


def reordering_bound(weights: Array, x: Array) -> Array:
    """By how much two orders of addition can differ in each element of a projection.

    Either sum of n products is within n u / (1 - n u) of the true one, relative to the sum of the
    products' sizes; u is half the spacing of numbers near 1 (Higham: Accuracy and Stability of
    Numerical Algorithms, section 3.1).

    Args:
        weights: [heads, head size, width].
        x: [tokens, width].
    """
    unit = float(np.finfo(x.dtype).eps) / 2
    width = weights.shape[-1]
    sizes = project(np.abs(weights).astype(np.float64), np.abs(x).astype(np.float64))
    return np.asarray(2 * width * unit / (1 - width * unit) * sizes)


def attend(heads: Heads, query: Array, keys: Array, values: Array) -> Array:
    """Attention of one token.

    Args:
        heads: The layer's heads.
        query: [query heads, head size].
        keys: Of this token and all before it: [tokens, KV heads, head size].
        values: The same.

    Returns:
        [query heads, head size].

    Examples:
        >>> one = np.ones((1, 2))
        >>> attend(Heads(1, 1, 2), one, np.ones((3, 1, 2)), np.full((3, 1, 2), 5.0))
        array([[5., 5.]])
    """
    grouped = query.reshape(heads.num_kv_heads, heads.group_size, heads.head_size)
    scores = (keys[:, :, None, :] * grouped).sum(axis=-1) / np.sqrt(
        heads.head_size, dtype=query.dtype
    )
    weights = np.exp(scores - scores.max(axis=0))
    summed = (weights[..., None] * values[:, :, None, :]).sum(axis=0)
    return np.asarray((summed / weights.sum(axis=0)[..., None]).reshape(query.shape))


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave, and what it took.

    Attributes:
        outputs: [tokens, query heads, head size].
        projected: Tokens whose keys and values were computed, counted each time.
    """

    outputs: Array
    projected: int


def without_cache(layer: Layer, x: Array) -> Run:
    """Compute each token's attention with the keys and values of all before it made anew.

    Args:
        layer: The layer.
        x: The tokens: [tokens, width].
    """
    queries = project(layer.w_q, x)
    outputs = []
    projected = 0
    for last in range(len(x)):
        keys, values = layer.keys_values(x[: last + 1])
        projected += last + 1
        outputs.append(attend(layer.heads, queries[last], keys, values))
    return Run(np.stack(outputs), projected)


def as_computed(numbers: Array) -> Array:
    """Store keys or values in the dtype they are computed in."""
    return numbers


def with_cache(
    layer: Layer,
    x: Array,
    *,
    prompt: int,
    store_keys: Store = as_computed,
    store_values: Store = as_computed,
) -> Run:
    """Compute the same with a KV cache: prefill for the prompt, then decode, a token a step.

    As in vLLM every token reads its keys and values from the cache, its own too.

    Args:
        layer: The layer.
        x: The tokens: [tokens, width].
        prompt: How many of them are the prompt, 1 or more.
        store_keys: What the cache does to keys.
        store_values: What it does to values.

    Raises:
        ConfigError: No prompt, or one longer than the tokens.

    Examples:
        >>> layer = Layer.random(Heads(8, 2, 16), width=64, seed=7)
        >>> x = np.random.default_rng(1).standard_normal((20, 64)).astype(np.float32)
        >>> cached, anew = with_cache(layer, x, prompt=12), without_cache(layer, x)
        >>> bool((cached.outputs == anew.outputs).all()), cached.projected, anew.projected
        (True, 20, 210)
    """
    if not 1 <= prompt <= len(x):
        raise ConfigError(f"a prompt of {prompt} of {len(x)} tokens; it must be 1 to {len(x)}")
    shape = (len(x), layer.heads.num_kv_heads, layer.heads.head_size)
    keys, values = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
    outputs: list[Array] = []
    for start, end in ((0, prompt), *((at, at + 1) for at in range(prompt, len(x)))):
        new_keys, new_values = layer.keys_values(x[start:end])
        keys[start:end], values[start:end] = store_keys(new_keys), store_values(new_values)
        queries = project(layer.w_q, x[start:end])
        outputs += (
            attend(layer.heads, query, keys[: at + 1], values[: at + 1])
            for at, query in enumerate(queries, start)
        )
    return Run(np.stack(outputs), len(x))
