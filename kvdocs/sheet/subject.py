"""What a cheat sheet is about: one model on one or several GPUs, in the lesson's round numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kvdocs.catalog import CatalogModel, get_gpu, get_model
from kvdocs.cli.parameters import count_parameters, is_quantized, why_not_counted
from kvdocs.errors import ConfigError, FlagError, ParameterError, UnitError
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.model import KVCost, LayerKind, Model, kv_cost, parse_config
from kvdocs.model.cost import stored_cache_dtype
from kvdocs.scenario import CONVERSATION_TOKENS, LESSON, weights_bytes
from kvdocs.sizing import (
    Budget,
    Capacity,
    Share,
    capacity_on,
    lesson_budget,
    share_of,
)
from kvdocs.timing import RooflineTimer, Weights
from kvdocs.units import format_bytes, parse_bytes, parse_count

LENGTHS: Final = (1024, 8192, 32_768, 131_072)
"""Lengths whose concurrency stands side by side, in tokens."""
UNLIMITED: Final = 1_048_576
"""Tokens taken for the longest request where a config names none."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model with its weights.

    Attributes:
        name: As it is called.
        model: Its layers.
        config: The language part of its `config.json`.
        weights_bytes: Bytes of the weights.
        num_parameters: All parameters.
        num_active_parameters: Parameters that one token uses.
    """

    name: str
    model: Model
    config: Mapping[str, Any]
    weights_bytes: float
    num_parameters: int
    num_active_parameters: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A server to make a sheet for.

    Attributes:
        checkpoint: The model and its weights.
        gpu: Each of its GPUs.
        flags: The server's flags; `max_model_len` is `tokens`.
        tokens: Tokens of a sequence.
        budget: What each GPU has.
        cost: What a token and a sequence cost.
        held: What the pool holds.
        timer: How long a step takes.
    """

    checkpoint: Checkpoint
    gpu: Gpu
    flags: ServerFlags
    tokens: int
    budget: Budget
    cost: KVCost
    held: Capacity
    timer: RooflineTimer

    @property
    def model(self) -> Model:
        """The model's layers."""
        return self.checkpoint.model

    @property
    def num_gpus(self) -> int:
        """GPUs that each layer is split over."""
        return self.flags.tensor_parallel_size

    @property
    def hardware(self) -> str:
        """The GPUs in words."""
        return self.gpu.name if self.num_gpus == 1 else f"{self.num_gpus} × {self.gpu.name}"

    @property
    def is_plain(self) -> bool:
        """Whether every token costs the same, as the whiteboard formula says."""
        return not (self.cost.windows or self.cost.constant_bytes_per_sequence)

    @property
    def share(self) -> Share:
        """The pool and the bytes per token that divide to the tokens it holds."""
        return share_of(self.model, self.cost, self.held)

    @property
    def sequence_bytes(self) -> int:
        """Bytes that a sequence keeps; where every token is copied, on each GPU."""
        if self.is_plain:
            return self.share.bytes_per_token * self.tokens
        if self.model.group(LayerKind.CHUNKED):  # vLLM keeps the whole context in them, too.
            return (self.cost.bytes_per_token + self.cost.window_bytes_per_token) * self.tokens
        return self.cost.sequence_bytes_at(self.tokens)

    @property
    def sequence_blocks(self) -> int:
        """Blocks that vLLM counts for a sequence, over all groups of layers."""
        return sum(self.held.blocks_by_group)

    @property
    def is_one_row(self) -> bool:
        """Whether a sequence's blocks hold its tokens one after another, as in a single group."""
        return self.sequence_blocks == -(-self.tokens // self.held.block_size)

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on all GPUs, or on each where they hold copies."""
        return self.held.bytes_per_block * (1 if self.share.copies else self.num_gpus)

    @property
    def pool_blocks(self) -> int:
        """Blocks in the pool, whether or not a sequence fits."""
        return self.held.kv_pool_bytes_per_gpu // self.held.bytes_per_block

    @property
    def pool_tokens(self) -> int:
        """Tokens in the pool; in sequences of `tokens` where not every token costs the same."""
        if self.is_plain:
            return self.share.pool_bytes // self.share.bytes_per_token
        return self.pool_blocks * self.tokens // self.sequence_blocks

    @property
    def longest(self) -> int:
        """The longest request that the server starts with, in tokens."""
        return min(self.held.max_model_len_that_fits, self.model.max_model_len or UNLIMITED)

    def with_dtype(self, kv_cache_dtype: str) -> KVCost:
        """The cost with another cache dtype.

        Raises:
            ConfigError: The dtype cannot store this model's heads.
            FlagError: The dtype is not one that vLLM takes for it.
        """
        return _cost(self.model, self.gpu, kv_cache_dtype, self.num_gpus)

    def at_once(self, tokens: int, *, kv_cache_dtype: str | None = None) -> int:
        """Whole sequences of that length at once; 0 where the server would not start with it.

        Args:
            tokens: Tokens of each.
            kv_cache_dtype: `--kv-cache-dtype`; the sheet's own when None.
        """
        if tokens > (self.model.max_model_len or UNLIMITED):
            return 0
        dtype = self.flags.kv_cache_dtype if kv_cache_dtype is None else kv_cache_dtype
        flags = replace(self.flags, max_model_len=tokens, kv_cache_dtype=dtype)
        held = capacity_on(self.gpu, self.model, self.budget, flags)
        return held.max_requests if held.starts else 0


def read_subject(
    *,
    model: str = LESSON.model,
    gpu: str = LESSON.gpu,
    num_gpus: int = 1,
    kv_cache_dtype: str = "auto",
    tokens: int = CONVERSATION_TOKENS,
    config: str = "",
    weights: str = "",
) -> Subject:
    """Put together what a sheet needs.

    Args:
        model: Catalogue id, used while `config` is empty.
        gpu: Catalogue id of the GPU.
        num_gpus: `--tensor-parallel-size`.
        kv_cache_dtype: `--kv-cache-dtype`.
        tokens: Tokens of a sequence; shortened to the model's longest.
        config: Text of a `config.json`, or "".
        weights: Of a pasted model: parameters (`8.03B`) or memory (`15 GiB`); "" to count them.

    Raises:
        ParameterError: Something that cannot be read, or a server that has no room for a cache.
    """
    checkpoint = _pasted(config, weights) if config.strip() else _from_catalogue(get_model(model))
    card = get_gpu(gpu)
    length = min(tokens, checkpoint.model.max_model_len or UNLIMITED)
    flags = ServerFlags(
        kv_cache_dtype=kv_cache_dtype, tensor_parallel_size=num_gpus, max_model_len=length
    )
    lesson = lesson_budget(
        card, weights_bytes=checkpoint.weights_bytes, tensor_parallel_size=num_gpus
    )
    budget = replace(lesson, total_bytes=card.total_memory_bytes)
    _check_room(checkpoint, budget, num_gpus)
    try:
        cost = _cost(checkpoint.model, card, kv_cache_dtype, num_gpus)
        held = capacity_on(card, checkpoint.model, budget, flags)
        timer = _timer(checkpoint, card, flags)
    except (ConfigError, FlagError) as error:
        name = "num_gpus" if num_gpus > 1 else "kv_cache_dtype"
        raise ParameterError(str(error), name=name) from error
    if not held.bytes_per_block:
        raise ParameterError("no layer of this model keeps anything for a sequence", name="config")
    return Subject(checkpoint, card, flags, length, budget, cost, held, timer)


def _cost(model: Model, gpu: Gpu, kv_cache_dtype: str, num_gpus: int) -> KVCost:
    """What a token costs as this GPU stores it."""
    dtype = stored_cache_dtype(model, gpu, kv_cache_dtype)
    return kv_cost(model, kv_cache_dtype=dtype, tensor_parallel_size=num_gpus)


def _from_catalogue(entry: CatalogModel) -> Checkpoint:
    return Checkpoint(
        name=entry.id,
        model=entry.model,
        config=entry.text_config,
        weights_bytes=weights_bytes(entry),
        num_parameters=entry.num_parameters,
        num_active_parameters=entry.num_active_parameters,
    )


def _pasted(config: str, weights: str) -> Checkpoint:
    try:
        model = parse_config(config, name="your model")
    except ConfigError as error:
        raise ParameterError(str(error), name="config") from error
    whole = json.loads(config)
    text = whole.get("text_config", whole)
    size = _weights_bytes(whole, text, weights)
    count = round(size / 2)
    return Checkpoint("your model", model, text, size, count, count)


def _weights_bytes(whole: Mapping[str, Any], text: Mapping[str, Any], given: str) -> float:
    """Bytes of a pasted model's weights: as given, else counted where that is exact."""
    if given.strip():
        return _read_weights(given)
    reason = "its weights are quantized" if is_quantized(whole) else why_not_counted(text)
    if reason:
        raise ParameterError(
            f"the weights of this model are not known: {reason}. Write its parameters, such as "
            "8.03B, or the memory they take, such as 15 GiB",
            name="weights",
        )
    return 2 * float(f"{count_parameters(text):.2e}")


def _read_weights(given: str) -> float:
    try:
        size = 2 * parse_count(given)
    except UnitError:
        try:
            size = parse_bytes(given)
        except UnitError as error:
            raise ParameterError(
                f"{given.strip()[:40]!r} is neither a number of parameters, such as 8.03B, nor an "
                "amount of memory, such as 15 GiB",
                name="weights",
            ) from error
    if size < 1:
        raise ParameterError("weights must be more than nothing", name="weights")
    return size


def _check_room(checkpoint: Checkpoint, budget: Budget, num_gpus: int) -> None:
    if budget.kv_bytes > 0:
        return
    share = format_bytes(budget.requested_bytes * num_gpus, "GB", 1)
    need = format_bytes(checkpoint.weights_bytes, "GB", 1)
    raise ParameterError(
        f"{checkpoint.name} has {need} of weights, and vLLM may use {share} here: nothing is left "
        "for a cache. Choose more GPUs, or a larger one",
        name="num_gpus",
    )


def _timer(checkpoint: Checkpoint, gpu: Gpu, flags: ServerFlags) -> RooflineTimer:
    weights = Weights.from_config(
        checkpoint.config,
        num_parameters=checkpoint.num_parameters,
        num_active_parameters=checkpoint.num_active_parameters,
        weight_bytes=checkpoint.weights_bytes,
    )
    return RooflineTimer(
        model=checkpoint.model,
        weights=weights,
        gpu=gpu,
        kv_cache_dtype=flags.kv_cache_dtype,
        tensor_parallel_size=flags.tensor_parallel_size,
    )
