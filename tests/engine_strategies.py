"""Random workloads for the laws of the engine, and the Hypothesis profiles they run under.

`HYPOTHESIS_PROFILE=thorough` runs tens of thousands of examples instead of a few hundred.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.loop import check_fits
from kvdocs.engine.prompt import DistinctPrompt, KeyedPrompt, Segment, SegmentPrompt, TokenPrompt
from kvdocs.engine.request import RequestSpec
from kvdocs.engine.timer import SteppedTimer
from kvdocs.errors import NeverFitsError

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("engine", max_examples=150, **COMMON)
settings.register_profile("thorough", max_examples=20_000, **COMMON)
engine_settings = settings.get_profile(
    "thorough" if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else "engine"
)


class LoadTimer(SteppedTimer):
    """A timer that depends on all there is in a load, with sums that are not exact."""

    def seconds(self, load):
        return (
            0.37
            + 0.001 * load.num_tokens
            + 0.013 * load.num_seqs
            + 1e-4 * load.kv_tokens
            + 1e-6 * load.query_key_pairs
        )


@st.composite
def configs(draw, *, sliding=True):
    max_model_len = draw(st.integers(8, 120))
    chunked = draw(st.booleans())
    budget = st.integers(1, 64) if chunked else st.just(max_model_len)
    window = st.integers(1, 50) if sliding else st.nothing()
    return EngineConfig(
        num_blocks=draw(st.integers(4, 40)),
        block_size=draw(st.sampled_from([1, 2, 4, 5, 16])),
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(budget),
        max_model_len=max_model_len,
        enable_prefix_caching=draw(st.booleans() | st.just(value=True)),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.just(0) | st.integers(1, 20)),
        watermark=draw(st.just(0.0) | st.sampled_from([0.05, 0.2, 0.6])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        policy=draw(st.sampled_from(Policy)),
        async_scheduling=draw(st.booleans()),
        sliding_window=draw(st.none() | window),
    )


def tokens(seed, length):
    return tuple((seed * 7919 + place * 31) % 997 for place in range(length))


@st.composite
def prompts(draw, index):
    """Prompts of every kind; few sources, so that prefixes meet."""
    length = draw(st.integers(1, 60))
    source, shared = draw(st.integers(0, 1)), draw(st.integers(0, length))
    kind = draw(st.sampled_from(["distinct", "keyed", "tokens", "outputs", "segments", "quoted"]))
    if kind == "distinct":
        return DistinctPrompt(length)
    if kind == "keyed":
        keys = [(source, i) if i < shared else (index, i) for i in range(length)]
        return KeyedPrompt(length, keys)
    if kind == "tokens":
        return TokenPrompt(tokens(source, shared) + tokens(index + 9, length - shared))
    if kind == "outputs":
        # an output that goes on like the prompt source: later prompts can hit it
        return TokenPrompt(tokens(source, length), lambda place: tokens(source, place + 1)[-1])
    segments = [Segment(source, shared), Segment(("own", index), length - shared)]
    output_source = ("out", source) if kind == "quoted" else None
    if kind == "quoted" and draw(st.booleans()):
        segments = [Segment(source, shared), Segment(output_source, length - shared, start=shared)]
    return SegmentPrompt(segments, output_source=output_source)


@st.composite
def workloads(draw, *, sliding=True):
    """Settings and requests that each can run under them."""
    config = draw(configs(sliding=sliding))
    specs = []
    for index in range(draw(st.integers(1, 12))):
        arrival = draw(st.integers(0, 25))
        if config.policy is Policy.PRIORITY:
            arrival += index / 64  # a tie in priority and arrival may never end: LivelockError
        spec = RequestSpec(
            id=f"r{index}",
            prompt=draw(prompts(index)),
            max_tokens=draw(st.integers(1, 40)),
            arrival=arrival,
            priority=draw(st.integers(0, 2)),
            salt=draw(st.sampled_from(["", "", "x"])),
            abort_at=draw(st.none() | st.none() | st.integers(0, 60)),
        )
        try:
            check_fits(spec, config)
        except NeverFitsError:
            continue
        specs.append(spec)
    return config, specs
