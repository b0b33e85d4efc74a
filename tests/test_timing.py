"""Step times: what they are made of, how near measurements they are, and that jumping is exact."""

import math
import random
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.catalog import get_gpu
from kvdocs.errors import ConfigError, FlagError
from kvdocs.gpu import Gpu
from kvdocs.model import LayerGroup, LayerKind, Model, StatePiece, parse_config
from kvdocs.timing import (
    TICK,
    Bound,
    Efficiency,
    RooflineTimer,
    SequenceWork,
    Weights,
    on_grid,
    to_grid,
    transfer_time,
)
from kvdocs.timing.exact import floor_sum, grains

H100 = get_gpu("h100-sxm-80gb")
GH200 = Gpu("GH200", 96 * 10**9, 10**11, None, 4000e9, 989e12, 1979e12, 64e9, 450e9)
H200 = get_gpu("h200-sxm-141gb")
A100 = Gpu("A100", 80 * 10**9, 85899345920, None, 2039e9, 312e12, None, 32e9, 300e9)

LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
LLAMA_70B = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
WEIGHTS_8B = Weights.from_config(LLAMA_8B, num_parameters=8_030_261_248)
WEIGHTS_70B = Weights.from_config(LLAMA_70B, num_parameters=70_553_706_496)
IDEAL = Efficiency(bandwidth=1, matmul=1, attention=1, link=1, step_overhead_s=0, link_latency_s=0)


class Load(NamedTuple):
    """What the engine's `StepLoad` holds."""

    num_tokens: int
    num_seqs: int
    kv_tokens: int
    query_key_pairs: int


def timer_8b(gpu=H100, **options):
    return RooflineTimer(model=parse_config(LLAMA_8B), weights=WEIGHTS_8B, gpu=gpu, **options)


def windowed(window=64, kinds=(LayerKind.FULL, LayerKind.SLIDING)):
    groups = tuple(
        LayerGroup(kind, (index,), 4, 64, 64, window=window if kind == LayerKind.SLIDING else 0)
        for index, kind in enumerate(kinds)
    )
    return Model("windows", "test", len(groups), 512, 8, 4096, "bfloat16", groups)


def small_timer(model, **options):
    weights = Weights(num_parameters=10**7, num_active_parameters=10**7)
    return RooflineTimer(model=model, weights=weights, gpu=H100, **options)


# Parts -----------------------------------------------------------------------------------------


def test_a_decode_step_reads_the_weights_without_the_input_table_once():
    step = timer_8b(efficiency=IDEAL).step_time([SequenceWork(1, 0)])
    read = (8_030_261_248 - 128256 * 4096) * 2
    assert step.weights_s == pytest.approx(read / 3350e9)
    assert timer_8b(efficiency=IDEAL).step_time([SequenceWork(1)] * 9).weights_s == step.weights_s


def test_a_decode_step_reads_the_kv_of_every_context():
    step = timer_8b(efficiency=IDEAL).step_time([SequenceWork(1, 999), SequenceWork(1, 2999)])
    assert step.kv_s == pytest.approx(4000 * 131072 / 3350e9)


def test_fp8_kv_halves_the_kv_read_and_nothing_else():
    batch = [SequenceWork(1, 4096)] * 64
    bf16 = timer_8b().step_time(batch)
    fp8 = timer_8b(kv_cache_dtype="fp8").step_time(batch)
    assert fp8.kv_s == pytest.approx(bf16.kv_s / 2)
    assert (fp8.weights_s, fp8.matmul_s) == (bf16.weights_s, bf16.matmul_s)


def test_prompt_arithmetic_is_twice_the_parameters_per_token_and_half_a_square_of_scores():
    step = timer_8b(efficiency=IDEAL).step_time([SequenceWork(2048)])
    table = 128256 * 4096
    linear = 2 * (8_030_261_248 - 2 * table) * 2048 + 2 * table
    scores = 32 * 32 * 4 * 128 * (2048 * 2049 / 2)  # layers x heads x (QK + PV) x head size
    assert step.matmul_s == pytest.approx(linear / 989e12)
    assert step.attention_s == pytest.approx(scores / 989e12)


def test_chunks_compute_the_same_scores_as_the_whole_prompt():
    timer = timer_8b(efficiency=IDEAL)
    whole = timer.step_time([SequenceWork(1000)]).attention_s
    parts = [timer.step_time([SequenceWork(250, done)]) for done in range(0, 1000, 250)]
    assert sum(part.attention_s for part in parts) == pytest.approx(whole)


def test_the_parts_that_bind_add_up_to_the_step():
    for batch in ([SequenceWork(1, 9)], [SequenceWork(4096, 0)], [SequenceWork(1, 8192)] * 200):
        step = timer_8b(tensor_parallel_size=2).step_time(batch)
        assert sum(step.shares.values()) == pytest.approx(step.seconds, abs=2 * TICK)


@pytest.mark.parametrize(
    ("batch", "bound"),
    [
        ([SequenceWork(1, 100)], Bound.WEIGHTS),
        ([SequenceWork(1, 8192)] * 48, Bound.KV),
        ([SequenceWork(4096)], Bound.COMPUTE),
        ([], Bound.OVERHEAD),
    ],
)
def test_what_binds_is_named(batch, bound):
    assert timer_8b().step_time(batch).binds == bound


def test_a_window_ends_the_growth_of_kv_and_scores():
    timer = small_timer(windowed(kinds=(LayerKind.SLIDING,)), efficiency=IDEAL)
    near, far = (timer.step_time([SequenceWork(1, n)]) for n in (63, 6300))
    assert near.kv_s == far.kv_s == pytest.approx(64 * 4 * 128 * 2 / 3350e9)
    assert near.attention_s == far.attention_s
    by_hand = sum(min(position + 1, 64) for position in range(50, 150))
    chunk = timer.step_time([SequenceWork(100, 50)]).attention_s
    assert chunk == pytest.approx(by_hand * 8 * 4 * 64 / 989e12)


def test_a_latent_cache_is_read_whole_on_every_gpu():
    latent = LayerGroup(LayerKind.LATENT, tuple(range(61)), 1, 576, 0, rope_head_size=64)
    model = Model("mla", "deepseek_v3", 61, 7168, 128, None, "bfloat16", (latent,))
    steps = [
        small_timer(model, efficiency=IDEAL, tensor_parallel_size=size).step_time(
            [SequenceWork(1, 9999)]
        )
        for size in (1, 8)
    ]
    assert steps[0].kv_s == steps[1].kv_s == pytest.approx(1e4 * 61 * 576 * 2 / 3350e9)
    assert steps[0].attention_s == pytest.approx(8 * steps[1].attention_s, rel=1e-6)
    assert steps[0].attention_s == pytest.approx(1e4 * 61 * 2 * 128 * (576 + 512) / 989e12)


def test_a_recurrent_state_is_read_and_written_once_per_sequence():
    piece = StatePiece("state", rows=1, width=1024, dtype="float32")
    group = LayerGroup(LayerKind.RECURRENT, (0, 1), state=(piece,))
    model = Model("ssm", "mamba2", 2, 64, 0, None, "bfloat16", (group,))
    step = small_timer(model, efficiency=IDEAL).step_time([SequenceWork(1, 5), SequenceWork(1, 50)])
    assert step.kv_s == pytest.approx(2 * 2 * 2 * 1024 * 4 / 3350e9, rel=1e-6)


def test_tensor_parallelism_divides_the_work_and_adds_all_reduces():
    one, four = (
        timer_8b(tensor_parallel_size=size).step_time([SequenceWork(1, 999)] * 8) for size in (1, 4)
    )
    assert four.weights_s == pytest.approx(one.weights_s / 4)
    assert four.kv_s == pytest.approx(one.kv_s / 4)
    moved = 2 * 32 * 8 * 4096 * 2 * 2 * 3 / 4
    assert four.link_s == pytest.approx(2 * 32 * 5e-6 + moved / (450e9 * 0.6))
    assert one.link_s == 0


def test_experts_touched_grow_from_the_chosen_to_all():
    weights = Weights(
        num_parameters=46_700_000_000,
        num_active_parameters=12_900_000_000,
        num_experts=8,
        experts_per_token=2,
    )
    assert weights.experts_touched(1) == pytest.approx(2)
    assert weights.experts_touched(10_000) == pytest.approx(8)
    assert weights.bytes_read(1) == pytest.approx(2 * 12.9e9)
    assert weights.bytes_read(10_000) == pytest.approx(2 * 46.7e9)


def test_tied_and_untied_tables_are_told_apart():
    tied = Weights.from_config({**LLAMA_8B, "tie_word_embeddings": True}, num_parameters=10**10)
    assert tied.embedding_parameters == 0
    assert WEIGHTS_8B.embedding_parameters == 128256 * 4096
    gemma = {"model_type": "gemma2", "vocab_size": 10, "hidden_size": 10}
    assert Weights.from_config(gemma, num_parameters=1000).embedding_parameters == 0


def test_a_nested_expert_config_is_read():
    config = {"num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1, "hidden_size": 1}
    weights = Weights.from_config(config, num_parameters=100, num_active_parameters=40)
    assert (weights.num_experts, weights.experts_per_token) == (8, 2)
    assert weights.expert_parameters == pytest.approx(80)


# Against public measurements ---------------------------------------------------------------------
# Each figure with its source; the allowed error is what the docstring of `Efficiency` admits.


def test_one_sequence_on_gh200_is_near_what_nvidia_measured():
    # Llama 3.1 8B class, bf16, 1,000 in and 1,000 out, one at a time: 165.8 tokens/s, so 6.03 ms
    # (docs.nvidia.com NIM "llama-3-1-nemotron-safety-guard-8b" 1.14.0 performance page)
    step = timer_8b(GH200).step_time([SequenceWork(1, 1500)])
    assert step.seconds == pytest.approx(1 / 165.8, rel=0.08)


def test_one_sequence_of_70b_on_two_h100_is_within_a_quarter_of_what_nvidia_measured():
    # fp8, tp 2, 5,000 in and 500 out, concurrency 1: ITL 18.58 ms, TTFT 406.77 ms
    # (docs.nvidia.com NIM LLM benchmarking 1.0.0, Llama-3.3-70b-instruct, version 1.8.0)
    weights = Weights.from_config(
        LLAMA_70B, num_parameters=70_553_706_496, weight_bytes=70_553_706_496
    )
    timer = RooflineTimer(
        model=parse_config(LLAMA_70B),
        weights=weights,
        gpu=H100,
        tensor_parallel_size=2,
        fp8_matmul=True,
    )
    assert timer.step_time([SequenceWork(1, 5250)]).seconds == pytest.approx(18.58e-3, rel=0.25)
    assert timer.prefill_time(5000) == pytest.approx(406.77e-3, rel=0.15)


def test_a_short_prompt_on_a100_is_near_what_nvidia_measured():
    # bf16, 500 in, concurrency 1: TTFT 48.3 ms (same NIM page, version 1.10.1, A100 80GB SXM)
    assert timer_8b(A100).prefill_time(500) == pytest.approx(48.3e-3, rel=0.1)


def test_an_engine_of_2024_on_h200_was_slower_than_the_model():
    # 8 sequences, 32 in and 128 out: 833.4 ms, so 6.5 ms a step
    # (buildkite.com/vllm/performance-benchmark build 9515, latency_llama8B_tp1)
    timer = timer_8b(H200)
    step = timer.step_time([SequenceWork(1, 96)] * 8).seconds
    assert timer.prefill_time(8 * 32) + 127 * step == pytest.approx(0.8334, rel=0.25)


def test_a_bare_forward_pass_is_faster_than_a_step_of_the_server():
    # 8B on H100 SXM in a CUDA graph: 5.1 ms, without sampling or a server (cloudai.pt, cuda-graphs)
    step = timer_8b().step_time([SequenceWork(1, 100)])
    assert 5.1e-3 < step.seconds < 1.35 * 5.1e-3


# Prompts, recomputation, transfers ---------------------------------------------------------------


def test_a_cached_prefix_saves_its_share_of_the_prompt():
    timer = timer_8b()
    assert timer.prefill_time(8192, cached=8191) < 0.1 * timer.prefill_time(8192)
    assert timer.recompute_time(8192) == timer.prefill_time(8192)
    assert timer.prefill_time(8192, max_num_batched_tokens=512) > timer.prefill_time(8192)


def test_a_transfer_takes_latency_and_bytes_over_bandwidth():
    class Pcie:
        bytes_per_s = 64e9

    half = Efficiency(link=0.5, link_latency_s=0.25)
    assert transfer_time(32e9, Pcie(), efficiency=half) == 1.25


@pytest.mark.parametrize(
    "act",
    [
        lambda: timer_8b(tensor_parallel_size=0),
        lambda: timer_8b(tensor_parallel_size=3),
        lambda: timer_8b(kv_cache_dtype="fp7"),
        lambda: timer_8b(A100, fp8_matmul=True),
        lambda: timer_8b().step_time([SequenceWork(-1)]),
        lambda: timer_8b().prefill_time(10, cached=10),
        lambda: timer_8b().prefill_time(10, max_num_batched_tokens=0),
        lambda: Efficiency(bandwidth=0),
        lambda: Efficiency(step_overhead_s=-1),
        lambda: transfer_time(-1, type("Link", (), {"bytes_per_s": 1.0})),
    ],
)
def test_impossible_settings_are_refused(act):
    with pytest.raises(FlagError):
        act()


@pytest.mark.parametrize(
    "fields",
    [
        {"num_parameters": 10, "num_active_parameters": 11},
        {"num_parameters": 10, "num_active_parameters": 10, "bytes_per_parameter": 0},
        {"num_parameters": 10, "num_active_parameters": 10, "head_parameters": 11},
        {"num_parameters": 9, "num_active_parameters": 9, "num_experts": 2, "experts_per_token": 3},
    ],
)
def test_contradicting_weights_are_refused(fields):
    with pytest.raises(ConfigError):
        Weights(**fields)


# Exactness ---------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 2**40), st.integers(0, 2**38), st.integers(0, 40))
def test_floor_sum_equals_the_loop(count, first, step, bits):
    assert floor_sum(count, first, step, bits) == sum(
        (first + step * i) >> bits for i in range(count)
    )


def test_grains_are_exact_to_half_a_grain():
    assert abs(Fraction(grains(0.1), 2**64) - Fraction(0.1)) <= Fraction(1, 2**65)
    assert on_grid(to_grid(123.456))
    assert not on_grid(123.456)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3000)), min_size=1, max_size=5),
    st.integers(0, 5),
)
def test_a_full_attention_load_takes_what_its_sequences_take(works, tp_bits):
    batch = [SequenceWork(*work) for work in works]
    timer = timer_8b(tensor_parallel_size=2**tp_bits)
    load = Load(
        sum(work.new_tokens for work in batch),
        len(batch),
        sum(work.context + work.new_tokens for work in batch),
        sum(work.context + k for work in batch for k in range(1, work.new_tokens + 1)),
    )
    assert timer.seconds(load) == timer.step_time(batch).seconds == timer.load_time(load).seconds


def one_by_one(timer, load, *, growth, clock, max_steps, until):
    steps = 0
    while steps < max_steps and clock < until:
        clock += timer.seconds(load)
        load = load._replace(
            kv_tokens=load.kv_tokens + growth, query_key_pairs=load.query_key_pairs + growth
        )
        steps += 1
    return steps, clock


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_jumping_equals_stepping_to_the_last_bit(data):
    draw = data.draw
    kinds = draw(st.lists(st.sampled_from([LayerKind.FULL, LayerKind.SLIDING]), min_size=1))
    window = draw(st.integers(1, 400))
    # Slow arithmetic makes attention overtake the reading of KV within the stretch.
    efficiency = Efficiency(attention=draw(st.sampled_from([1.0, 0.01, 0.003])))
    timer = small_timer(windowed(window, tuple(kinds)), efficiency=efficiency)
    num_seqs = draw(st.integers(1, 40))
    kv_tokens = num_seqs * draw(st.integers(1, 600))
    pairs = max(kv_tokens + draw(st.integers(-300, 300)), 0)
    load = Load(num_seqs, num_seqs, kv_tokens, pairs)
    clock = draw(st.one_of(st.floats(0, 1e5), st.integers(0, 2**40).map(lambda n: n * TICK)))
    stretch = {
        "growth": draw(st.integers(0, num_seqs)),
        "clock": clock,
        "max_steps": draw(st.integers(0, 400)),
        "until": clock + draw(st.one_of(st.just(math.inf), st.floats(0, 1))),
    }
    assert timer.decode(load, **stretch) == one_by_one(timer, load, **stretch)


def test_jumping_is_exact_across_the_crossing_of_kv_and_attention():
    efficiency = Efficiency(attention=0.00525)
    timer = small_timer(windowed(kinds=(LayerKind.FULL,)), efficiency=efficiency)
    load = Load(8, 8, 8000, 7600)
    first, last = (timer.load_time(Load(8, 8, 8000 + k, 7600 + k)) for k in (0, 16000))
    assert (first.kv_s > first.attention_s) != (last.kv_s > last.attention_s)
    stretch = {"growth": 8, "clock": 0.0, "max_steps": 2000, "until": math.inf}
    assert timer.decode(load, **stretch) == one_by_one(timer, load, **stretch)


def test_a_stretch_can_be_summed_without_a_loop():
    timer = timer_8b()
    load = Load(32, 32, 32 * 700, 32 * 700)
    steps, clock = one_by_one(timer, load, growth=32, clock=0.0, max_steps=1000, until=math.inf)
    assert steps == 1000
    assert timer.decode_seconds(load, growth=32, steps=1000) == clock


def test_beyond_97_days_it_still_agrees_with_the_loop():
    timer = timer_8b()
    load = Load(4, 4, 4000, 4000)
    stretch = {"growth": 4, "clock": 2.0**23 - 0.05, "max_steps": 50, "until": math.inf}
    assert timer.decode(load, **stretch) == one_by_one(timer, load, **stretch)


def test_the_same_load_takes_the_same_time_on_every_machine():
    # From exact fractions: grains are rounded once per cost, ticks once per step.
    timer = timer_8b(efficiency=IDEAL)
    rng = random.Random(7)  # noqa: S311 - test data
    for _ in range(50):
        seqs = rng.randrange(1, 300)
        load = Load(seqs, seqs, rng.randrange(10**6), rng.randrange(10**6))
        read = grains((8_030_261_248 - 128256 * 4096) * 2.0 / 3350e9)
        matmul = seqs * (
            grains(2 * (8_030_261_248 - 2 * 128256 * 4096) / 989e12)
            + grains(2 * 128256 * 4096 / 989e12)
        )
        kv = load.kv_tokens * grains(131072 / 3350e9)
        scores = load.query_key_pairs * grains(32 * 32 * 4 * 128 / 989e12)
        assert timer.seconds(load) == ((max(read, matmul) + max(kv, scores)) >> 34) * TICK
