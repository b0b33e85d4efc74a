"""The roofline: each kind of work takes as long as its slower part, memory or arithmetic.

The kernels of a step run one after the other. Inside one, reading memory and computing overlap.
So a step takes

    overhead + all-reduces + max(read weights, matrix products) + max(read KV, attention)

Left out, and covered by the efficiencies: activations, writing new KV, sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kvdocs.errors import FlagError
from kvdocs.gpu import Gpu
from kvdocs.model import Model
from kvdocs.model.cost import stored_cache_dtype
from kvdocs.timing.efficiency import Efficiency
from kvdocs.timing.exact import (
    GRAIN_BITS,
    TICK,
    as_ticks,
    floor_sum,
    grains,
    is_exact,
    ticks_until,
)
from kvdocs.timing.step import Load, SequenceWork, StepTime, context_read, count_pairs
from kvdocs.timing.stretch import Line, run_steps, upper
from kvdocs.timing.weights import Weights
from kvdocs.timing.work import attention_work, state_bytes

_ACTIVATION_BYTES: Final = 2  # bf16
_ALL_REDUCES_PER_LAYER: Final = 2  # after attention, after the MLP (arXiv 1909.08053)
_GRAIN: Final = TICK / 2**GRAIN_BITS


class _WindowCost(NamedTuple):
    """Grains of the layers of one window."""

    window: int
    per_token: int
    per_pair: int


class RooflineTimer:
    """Times the steps of one model on one kind of GPU.

    It fits the engine's `StepTimer`. Durations are whole ticks (`kvdocs.timing.exact`), so that
    stepping and jumping agree to the last bit. Windowed layers of a summed-up load count as if
    all its sequences were of equal length; `step_time` counts each sequence as it is.

    Args:
        model: The model's layers.
        weights: Its parameters.
        gpu: The GPU, with the maker's peak figures.
        efficiency: What of the peaks is reached.
        kv_cache_dtype: A value of vLLM's `--kv-cache-dtype`.
        tensor_parallel_size: GPUs each layer is split over.
        fp8_matmul: Whether matrix products run in fp8 (fp8 weights and activations).
        link_bytes_per_s: Peak of the link between the GPUs, one direction; the GPU's NVLink, else
            its PCIe, when not given.

    Raises:
        FlagError: A split or dtype that is not possible, or fp8 on a GPU that has none.
    """

    def __init__(
        self,
        *,
        model: Model,
        weights: Weights,
        gpu: Gpu,
        efficiency: Efficiency | None = None,
        kv_cache_dtype: str = "auto",
        tensor_parallel_size: int = 1,
        fp8_matmul: bool = False,
        link_bytes_per_s: float | None = None,
    ) -> None:
        if tensor_parallel_size < 1:
            raise FlagError(
                f"--tensor-parallel-size {tensor_parallel_size} is not possible; use 1 or more"
            )
        self.model = model
        self.weights = weights
        self.gpu = gpu
        self.efficiency = efficiency or Efficiency()
        self.kv_cache_dtype = stored_cache_dtype(model, gpu, kv_cache_dtype)
        self.tensor_parallel_size = tensor_parallel_size
        self.fp8_matmul = fp8_matmul
        self._flops = self._peak_flops()
        self._bytes_per_s = gpu.memory_bandwidth_bytes_per_s * self.efficiency.bandwidth
        self._overhead = grains(self.efficiency.step_overhead_s)
        self._windows = self._window_costs()
        self._state = grains(
            2 * state_bytes(model, tensor_parallel_size=tensor_parallel_size) / self._bytes_per_s
        )
        matmul_flops = self._flops * self.efficiency.matmul * tensor_parallel_size
        self._per_token = grains(2 * weights.body_parameters / matmul_flops)
        self._per_sample = grains(2 * weights.head_parameters / matmul_flops)
        self._link_latency, self._link_per_token = self._all_reduce(link_bytes_per_s)
        self._weight_grains: dict[int, int] = {}

    def _peak_flops(self) -> float:
        if not self.fp8_matmul:
            return self.gpu.dense_bf16_flops
        if self.gpu.dense_fp8_flops is None:
            raise FlagError(f"{self.gpu.name} has no fp8 arithmetic; leave fp8_matmul off")
        return self.gpu.dense_fp8_flops

    def _window_costs(self) -> tuple[_WindowCost, ...]:
        attention_flops = self.gpu.dense_bf16_flops * self.efficiency.attention
        works = attention_work(
            self.model,
            kv_cache_dtype=self.kv_cache_dtype,
            tensor_parallel_size=self.tensor_parallel_size,
        )
        return tuple(
            _WindowCost(
                work.window,
                grains(work.bytes_per_token / self._bytes_per_s),
                grains(work.flops_per_pair / attention_flops),
            )
            for work in works
        )

    def _all_reduce(self, link_bytes_per_s: float | None) -> tuple[int, int]:
        """Grains per step and per token. A ring moves 2 (n - 1) / n of the data over each link."""
        count = self.tensor_parallel_size
        if count == 1:
            return 0, 0
        peak = link_bytes_per_s or self.gpu.nvlink_bytes_per_s or self.gpu.pcie_bytes_per_s
        times = _ALL_REDUCES_PER_LAYER * self.model.num_layers
        moved = _ACTIVATION_BYTES * self.model.hidden_size * 2 * (count - 1) / count
        per_token = times * moved / (peak * self.efficiency.link)
        return grains(times * self.efficiency.link_latency_s), grains(per_token)

    # One step ---------------------------------------------------------------------------------

    def step_time(self, batch: Iterable[SequenceWork]) -> StepTime:
        """Time of one step, sequence by sequence.

        Args:
            batch: What each sequence computes. An empty one takes the overhead.

        Returns:
            The parts and their sum.

        Raises:
            FlagError: A sequence with negative tokens.
        """
        batch = [SequenceWork(*work) for work in batch]
        for work in batch:
            if work.new_tokens < 0 or work.context < 0:
                raise FlagError(f"{work} has negative tokens; 0 or more are allowed")
        kv = attention = 0
        for window, per_token, per_pair in self._windows:
            kv += per_token * sum(context_read(work, window) for work in batch)
            attention += per_pair * sum(count_pairs(work, window) for work in batch)
        return self._step_time(sum(work.new_tokens for work in batch), len(batch), kv, attention)

    def load_time(self, load: Load) -> StepTime:
        """Time of one step of a summed-up batch, in parts.

        Args:
            load: The batch.
        """
        num_tokens, num_seqs, kv_tokens, pairs = _as_tuple(load)
        kv, attention = self._attend(num_tokens, num_seqs, kv_tokens, pairs)
        return self._step_time(num_tokens, num_seqs, kv, attention)

    def seconds(self, load: Load) -> float:
        """Time of one step of a summed-up batch.

        Args:
            load: The batch; an empty one takes the overhead.

        Returns:
            Seconds, a whole number of ticks.
        """
        num_tokens, num_seqs, kv_tokens, pairs = _as_tuple(load)
        kv, attention = self._attend(num_tokens, num_seqs, kv_tokens, pairs)
        whole = self._fixed(num_tokens, num_seqs) + max(kv + self._state * num_seqs, attention)
        return (whole >> GRAIN_BITS) * TICK

    def _attend(
        self, num_tokens: int, num_seqs: int, kv_tokens: int, pairs: int
    ) -> tuple[int, int]:
        """Grains to read keys and values, and to compute with them."""
        kv = attention = 0
        for window, per_token, per_pair in self._windows:
            if window:
                kv += per_token * min(kv_tokens, num_seqs * (window - 1) + num_tokens)
                attention += per_pair * min(pairs, num_tokens * window)
            else:
                kv += per_token * kv_tokens
                attention += per_pair * pairs
        return kv, attention

    def _fixed(self, num_tokens: int, num_seqs: int) -> int:
        """Grains of everything but attention: it does not change while a batch decodes."""
        if not num_tokens:
            return self._overhead
        matmul = self._per_token * num_tokens + self._per_sample * num_seqs
        link = self._link_latency + self._link_per_token * num_tokens
        return self._overhead + link + max(self._read_weights(num_tokens), matmul)

    def _read_weights(self, num_tokens: int) -> int:
        key = num_tokens if self.weights.num_experts else 0
        found = self._weight_grains.get(key)
        if found is None:
            num_bytes = self.weights.bytes_read(key) / self.tensor_parallel_size
            found = self._weight_grains[key] = grains(num_bytes / self._bytes_per_s)
        return found

    def _step_time(self, num_tokens: int, num_seqs: int, kv: int, attention: int) -> StepTime:
        works = num_tokens > 0
        kv += self._state * num_seqs
        whole = self._fixed(num_tokens, num_seqs) + max(kv, attention)
        matmul = self._per_token * num_tokens + self._per_sample * num_seqs
        link = self._link_latency + self._link_per_token * num_tokens
        return StepTime(
            weights_s=self._read_weights(num_tokens) * _GRAIN if works else 0.0,
            kv_s=kv * _GRAIN,
            matmul_s=matmul * _GRAIN if works else 0.0,
            attention_s=attention * _GRAIN,
            overhead_s=self.efficiency.step_overhead_s,
            link_s=link * _GRAIN if works else 0.0,
            seconds=(whole >> GRAIN_BITS) * TICK,
        )

    # A stretch of decode steps ----------------------------------------------------------------

    def decode(
        self, load: Load, *, growth: int, clock: float, max_steps: int, until: float
    ) -> tuple[int, float]:
        """Run decode steps until `max_steps` are done or one would start at or after `until`.

        Equal to calling `seconds` step by step and adding to the clock, to the last bit: by
        formula where the clock is a whole number of ticks, by adding where it is not.

        Args:
            load: The first step's batch.
            growth: Tokens by which KV and pairs grow from step to step.
            clock: When the first step starts, in seconds.
            max_steps: Steps to run at most.
            until: Time at or after which no more step may start, in seconds.

        Returns:
            Steps run and the clock after them.
        """
        ticks = as_ticks(clock)
        if ticks is None:
            return self._add_up(load, growth, clock, max_steps, until)
        steps, end = 0, ticks_until(until)
        for part in self._parts(load, growth, max_steps):
            run, ticks = run_steps(part, ticks, end)
            steps += run
            if run < part.steps:
                break
        if not is_exact(ticks):
            return self._add_up(load, growth, clock, max_steps, until)
        return steps, ticks * TICK

    def decode_seconds(self, load: Load, *, growth: int, steps: int) -> float:
        """Time of so many decode steps in a row, without a loop.

        Args:
            load: The first step's batch.
            growth: Tokens by which KV and pairs grow from step to step.
            steps: Number of steps, 0 or more.
        """
        return sum(floor_sum(*part) for part in self._parts(load, growth, steps)) * TICK

    def _add_up(
        self, load: Load, growth: int, clock: float, max_steps: int, until: float
    ) -> tuple[int, float]:
        num_tokens, num_seqs, kv_tokens, pairs = _as_tuple(load)
        fixed, state = self._fixed(num_tokens, num_seqs), self._state * num_seqs
        steps = 0
        while steps < max_steps and clock < until:
            grown = steps * growth
            kv, attention = self._attend(num_tokens, num_seqs, kv_tokens + grown, pairs + grown)
            clock += ((fixed + max(kv + state, attention)) >> GRAIN_BITS) * TICK
            steps += 1
        return steps, clock

    def _parts(self, load: Load, growth: int, steps: int) -> Iterator[Line]:
        """The stretch in parts over which the step grows evenly."""
        num_tokens, num_seqs, kv_tokens, pairs = _as_tuple(load)
        fixed = self._fixed(num_tokens, num_seqs)
        state = fixed + self._state * num_seqs

        def at(step: int) -> tuple[int, int]:
            grown = growth * step
            return self._attend(num_tokens, num_seqs, kv_tokens + grown, pairs + grown)

        begin = 0
        for end in self._bends(load, growth, steps):
            kv, attention = at(begin)
            last_kv, last_attention = at(end - 1)
            gaps = max(end - begin - 1, 1)
            reading = Line(end - begin, state + kv, (last_kv - kv) // gaps)
            computing = Line(end - begin, fixed + attention, (last_attention - attention) // gaps)
            yield from upper(reading, computing)
            begin = end

    def _bends(self, load: Load, growth: int, steps: int) -> list[int]:
        """Steps at which a windowed layer stops reading more, ascending, and the end."""
        num_tokens, num_seqs, kv_tokens, pairs = _as_tuple(load)
        bends = {steps}
        for window in (cost.window for cost in self._windows if cost.window and growth):
            kv_room = num_seqs * (window - 1) + num_tokens - kv_tokens
            for room in (kv_room, num_tokens * window - pairs):
                bends.add(room // growth + 1 if room > 0 else steps)
        return sorted(bend for bend in bends if 0 < bend <= steps)

    # Whole prompts ----------------------------------------------------------------------------

    def prefill_time(
        self, tokens: int, *, cached: int = 0, max_num_batched_tokens: int | None = None
    ) -> float:
        """Seconds to compute a prompt that has the GPU to itself.

        Args:
            tokens: Length of the prompt.
            cached: Tokens at its beginning whose KV is there already, fewer than `tokens`.
            max_num_batched_tokens: Largest chunk in a step; the whole prompt when not given.

        Raises:
            FlagError: Nothing left to compute, or a chunk without tokens.
        """
        if not 0 <= cached < tokens:
            raise FlagError(
                f"{cached} of {tokens} prompt tokens cached; 0 or more are possible, and the last "
                "token is always computed"
            )
        if max_num_batched_tokens is not None and max_num_batched_tokens < 1:
            raise FlagError(
                f"max_num_batched_tokens is {max_num_batched_tokens}; it must be at least 1"
            )
        chunk = max_num_batched_tokens or tokens
        return sum(
            self.step_time([SequenceWork(min(chunk, tokens - done), done)]).seconds
            for done in range(cached, tokens, chunk)
        )

    def recompute_time(self, tokens: int, *, max_num_batched_tokens: int | None = None) -> float:
        """Seconds to compute the KV of a preempted sequence again: prompt and output so far.

        Args:
            tokens: Tokens of both.
            max_num_batched_tokens: Largest chunk in a step; all at once when not given.

        Raises:
            FlagError: No tokens.
        """
        return self.prefill_time(tokens, max_num_batched_tokens=max_num_batched_tokens)


def _as_tuple(load: Load) -> tuple[int, int, int, int]:
    return load.num_tokens, load.num_seqs, load.kv_tokens, load.query_key_pairs
