"""How much of a GPU's peak figures a server gets out of it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kvdocs.errors import FlagError


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Shares of the peak that a step reaches, and what it costs whatever it does.

    The defaults are round figures near public measurements, not a fit. Against measurements that
    they were not taken from (`tests/test_timing.py` has each with its source) they give

    * decode steps: -5% (8B bf16 on GH200), -19% (70B fp8 on two H100s), -24% (8B on H200, an
      engine of 2024) and +30% (8B on H100, a bare forward pass without sampling or server);
    * prompts: +6% (70B fp8, 5,000 tokens, two H100s) and -4% (8B bf16, 500 tokens, A100).

    So trust a time to about a third, and how it changes with batch and context further.

    Attributes:
        bandwidth: Share of peak memory bandwidth. 0.8 is what NVIDIA's AIConfigurator scales it by
            (ai-dynamo/aiconfigurator `systems/*.yaml`, `mem_bw_empirical_scaling_factor`).
        matmul: Share of peak FLOP/s in matrix products over a prompt. inference-sim fits 0.45 on
            H100 and 0.38 on A100 (`hardware_config.json`, `mfuPrefill`); single large products
            reach 0.79 (780 TFLOP/s on H100: gist Chillee/2ec89696db8b7ed1c24461159e325405).
        attention: Share of peak FLOP/s in attention over a prompt. FlashAttention-3 reports up to
            740 TFLOP/s in fp16 (0.75) and FlashAttention-2 0.35 on H100 (arXiv 2407.08608).
        link: Share of peak link bandwidth in transfers and all-reduces. With `link_latency_s` it
            gives the 7 µs that vLLM measures for 0.5 MB over two H100s (vllm-project/vllm
            pull 24111); middle-sized all-reduces over four and eight are slower than this.
        step_overhead_s: Time per step in which the GPU waits or samples: scheduling, input
            preparation, logits, output. An assumption.
        link_latency_s: Time per transfer or all-reduce before the first byte counts: 3.7 to 5.9 µs
            on two to eight H100s for up to 4 kB (sgl-project/sglang pull 2904).

    Examples:
        >>> Efficiency(matmul=0.6).matmul
        0.6
        >>> Efficiency(bandwidth=80)
        Traceback (most recent call last):
        kvdocs.errors.FlagError: bandwidth is 80; it is a share of the peak, above 0 and at most 1
    """

    bandwidth: float = 0.8
    matmul: float = 0.5
    attention: float = 0.5
    link: float = 0.6
    step_overhead_s: float = 1e-3
    link_latency_s: float = 5e-6

    def __post_init__(self) -> None:
        """Refuse shares that are none, and negative times."""
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name.endswith("_s"):
                if not 0 <= value < float("inf"):
                    raise FlagError(f"{name} is {value}; it must be seconds, 0 or more")
            elif not 0 < value <= 1:
                raise FlagError(
                    f"{name} is {value}; it is a share of the peak, above 0 and at most 1"
                )
