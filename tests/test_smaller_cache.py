"""fp8 before and after: pool, sequences, times and what binds, against arithmetic done here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.catalog import get_gpu
from kvdocs.errors import ConfigError, FlagError, WorkloadError
from kvdocs.smaller_cache import CAPS, Demand, Limit, before_after, cache_state, simulate

# Llama 3.1 8B on the lesson's H100, by hand.
POOL = 53.44e9
TOKEN = {"auto": 131_072, "fp8": 65_536}
BANDWIDTH = 0.8 * 3.35e12
FLOPS = 0.5 * 989.4e12
READ_WEIGHTS = 2 * (8_030_261_248 - 128_256 * 4096)  # all but the table of input vectors
BODY = 8_030_261_248 - 2 * 128_256 * 4096
HEAD = 128_256 * 4096
OVERHEAD = 1e-3
LONG_ANSWERS = Demand(context=8192, output=8000, requests=400, max_num_seqs=256)


def by_hand(demand, dtype, *, running, weights=1.0, kv=1.0, compute=1.0):
    """Output tokens per second, from the roofline's definition."""
    read_weights = weights * READ_WEIGHTS / BANDWIDTH
    prompt = demand.context - demand.output
    prefill = 0.0
    for done in range(0, prompt, 8192):
        new = min(8192, prompt - done)
        pairs = sum(done + i + 1 for i in range(new))
        matmul = compute * (2 * BODY * new + 2 * HEAD) / FLOPS
        attention = compute * 32 * 2 * 32 * 256 * pairs / FLOPS
        reading = kv * (done + new) * TOKEN[dtype] / BANDWIDTH
        prefill += OVERHEAD + max(read_weights, matmul) + max(reading, attention)
    tokens = running * (prompt + demand.output / 2)
    matmul = compute * 2 * (BODY + HEAD) * running / FLOPS
    attention = compute * 32 * 2 * 32 * 256 * tokens / FLOPS
    reading = kv * tokens * TOKEN[dtype] / BANDWIDTH
    step = OVERHEAD + max(read_weights, matmul) + max(reading, attention)
    return running * demand.output / (running * prefill + demand.output * step)


DEMANDS = [
    LONG_ANSWERS,
    Demand(context=8192, output=1024, requests=200, max_num_seqs=256),
    Demand(context=1024, output=512, requests=2000, max_num_seqs=64),
    Demand(context=1024, output=512, requests=2000, max_num_seqs=1024),
    Demand(context=32_768, output=1024, requests=100, max_num_seqs=256),
    Demand(context=100, output=99, requests=1, max_num_seqs=1),
]
every_demand = pytest.mark.parametrize("demand", DEMANDS, ids=str)
every_dtype = pytest.mark.parametrize("dtype", ["auto", "fp8"])


class TestOneServer:
    @every_demand
    @every_dtype
    def test_sequences_are_whole_blocks_of_the_pool(self, demand, dtype):
        state = cache_state(demand, kv_cache_dtype=dtype)
        blocks = POOL // (16 * TOKEN[dtype])
        assert state.fits == blocks // -(-demand.context // 16)
        assert state.running == min(state.fits, demand.max_num_seqs, demand.requests)
        assert state.running + state.waiting == demand.requests

    @every_demand
    @every_dtype
    def test_tokens_per_second_are_those_of_the_roofline_by_hand(self, demand, dtype):
        state = cache_state(demand, kv_cache_dtype=dtype)
        expected = by_hand(demand, dtype, running=state.running)
        assert state.tokens_per_s == pytest.approx(expected, rel=1e-4)

    @every_demand
    @every_dtype
    def test_gains_are_what_the_same_arithmetic_gives_with_half_or_twice(self, demand, dtype):
        state = cache_state(demand, kv_cache_dtype=dtype)
        running, now = state.running, by_hand(demand, dtype, running=state.running)
        expected = {
            Limit.KV: by_hand(demand, dtype, running=running, kv=0.5) / now,
            Limit.WEIGHTS: by_hand(demand, dtype, running=running, weights=0.5) / now,
            Limit.COMPUTE: by_hand(demand, dtype, running=running, compute=0.5) / now,
        }
        for limit, gain in expected.items():
            assert state.gains[limit] == pytest.approx(gain, rel=1e-3), limit
        doubled = (2 * POOL // (16 * TOKEN[dtype])) // -(-demand.context // 16)
        for limit, caps in {
            Limit.POOL: (doubled, demand.max_num_seqs, demand.requests),
            Limit.MAX_NUM_SEQS: (state.fits, 2 * demand.max_num_seqs, demand.requests),
            Limit.REQUESTS: (state.fits, demand.max_num_seqs, 2 * demand.requests),
        }.items():
            gain = by_hand(demand, dtype, running=min(caps)) / now
            assert state.gains[limit] == pytest.approx(gain, rel=1e-3), limit

    @every_demand
    @every_dtype
    def test_what_binds_is_the_largest_gain(self, demand, dtype):
        state = cache_state(demand, kv_cache_dtype=dtype)
        assert set(state.gains) == set(Limit)
        assert state.gains[state.binds] == max(state.gains.values())

    def test_a_pool_too_small_for_one_request_binds_and_gives_nothing(self):
        demand = Demand(context=131_072, output=512, requests=8, max_num_seqs=64)
        state = cache_state(demand, gpu="l4-24gb")
        assert (state.fits, state.running, state.tokens_per_s, state.binds) == (0, 0, 0, Limit.POOL)
        assert state.prefill_share == 0
        assert "max seq len (131072)" in state.refusal

    def test_weights_that_leave_no_pool_are_no_server(self):
        demand = Demand(context=2048, output=512, requests=8, max_num_seqs=64)
        state = cache_state(demand, model="meta-llama/Llama-3.1-70B")
        assert (state.pool_bytes, state.fits, state.starts) == (0, 0, False)


class TestBeforeAndAfter:
    @every_demand
    def test_the_weights_do_not_change(self, demand):
        both = before_after(demand)
        assert both.before.weights_bytes == both.after.weights_bytes == 16.06e9
        assert both.before.decode.step.weights_s == both.after.decode.step.weights_s
        assert both.before.pool_bytes == both.after.pool_bytes == POOL

    @every_demand
    def test_a_token_takes_half_and_the_pool_holds_twice_as_many(self, demand):
        both = before_after(demand)
        assert both.before.bytes_per_token == 2 * both.after.bytes_per_token
        assert both.after.pool_tokens // 2 == both.before.pool_tokens
        assert 2 * both.before.fits <= both.after.fits <= 2 * both.before.fits + 1

    def test_a_full_pool_takes_as_long_to_read_and_serves_twice_as_many(self):
        both = before_after(LONG_ANSWERS)
        assert (both.before.cap, both.after.cap) == (Limit.POOL, Limit.POOL)
        assert both.after.decode.step.kv_s == pytest.approx(both.before.decode.step.kv_s, rel=0.02)
        assert both.tokens_per_s_ratio == pytest.approx(2, rel=0.02)

    def test_twice_the_sequences_may_be_worth_an_eighth(self):
        both = before_after(Demand(context=1024, output=512, requests=2000, max_num_seqs=64))
        assert both.fits_ratio == pytest.approx(2, rel=0.01)
        assert both.tokens_per_s_ratio < 1.13
        assert both.before.running == both.after.running == 64
        assert (both.before.binds, both.after.binds) == (Limit.MAX_NUM_SEQS, Limit.MAX_NUM_SEQS)

    def test_max_num_seqs_caps_next_where_the_pool_did(self):
        demand = Demand(context=1024, output=900, requests=200, max_num_seqs=32)
        both = before_after(demand, gpu="l4-24gb")
        pool = 0.9 * get_gpu("l4-24gb").total_memory_bytes - 16.06e9 - 2.5e9
        assert both.before.fits == pool // (1024 * 131_072) < 32
        assert both.after.fits == pool // (1024 * 65_536) > 32
        assert (both.before.cap, both.after.cap) == (Limit.POOL, Limit.MAX_NUM_SEQS)
        assert both.tokens_per_s_ratio < 1.6  # not 2: nine more run, and their reads halve
        assert both.after.gains[Limit.POOL] == 1 < both.after.gains[Limit.MAX_NUM_SEQS]

    def test_max_num_seqs_binds_next_where_kv_reads_bound(self):
        both = before_after(Demand(context=6144, output=6000, requests=400, max_num_seqs=64))
        assert (both.before.running, both.after.running) == (64, 64)
        assert (both.before.binds, both.after.binds) == (Limit.KV, Limit.MAX_NUM_SEQS)

    def test_a_context_that_the_model_does_not_take_is_refused_in_vllms_words(self):
        with pytest.raises(FlagError, match="max_position_embeddings=4096"):
            before_after(DEMANDS[1], model="meta-llama/Llama-2-7b-hf")

    def test_long_prompts_leave_arithmetic_as_the_next_limit(self):
        both = before_after(Demand(context=8192, output=1024, requests=200, max_num_seqs=256))
        assert (both.before.binds, both.after.binds) == (Limit.KV, Limit.COMPUTE)
        assert both.after.prefill_share > both.before.prefill_share > 0.2

    def test_too_few_requests_bind_whatever_the_dtype(self):
        both = before_after(Demand(context=8192, output=1024, requests=10, max_num_seqs=256))
        assert (both.before.cap, both.after.cap) == (Limit.REQUESTS, Limit.REQUESTS)
        assert (both.before.binds, both.after.binds) == (Limit.REQUESTS, Limit.REQUESTS)

    def test_a_scale_per_token_and_head_costs_three_percent_of_the_gain(self):
        demand = DEMANDS[1]
        scaled = cache_state(demand, kv_cache_dtype="fp8_per_token_head")
        assert scaled.bytes_per_token == 32 * 8 * (256 + 2 * 4)
        assert scaled.fits < cache_state(demand, kv_cache_dtype="fp8").fits

    @settings(max_examples=40, deadline=None)
    @given(
        context=st.sampled_from([512, 2048, 8192, 32_768]),
        share=st.floats(0.01, 0.9),
        requests=st.integers(1, 2000),
        max_num_seqs=st.integers(1, 1024),
        model=st.sampled_from(["Qwen3-8B", "Llama-3.1-8B", "gpt-oss-20b", "gemma-3-12b-it"]),
    )
    def test_a_smaller_cache_never_serves_fewer_and_never_more_than_in_proportion(
        self, context, share, requests, max_num_seqs, model
    ):
        output = max(1, int(context * share))
        demand = Demand(
            context=context, output=output, requests=requests, max_num_seqs=max_num_seqs
        )
        both = before_after(demand, model=model)
        assert both.after.fits >= both.before.fits
        # To three in a hundred: a fuller step may need more arithmetic, which halving KV is not.
        assert both.tokens_per_s_ratio >= 0.97
        assert both.tokens_per_s_ratio <= 2.15
        assert all(
            gain >= 0.97 for state in (both.before, both.after) for gain in state.gains.values()
        )


class TestSimulation:
    @pytest.mark.parametrize("dtype", ["auto", "fp8"])
    @pytest.mark.parametrize(
        "demand",
        [
            Demand(context=8192, output=1024, requests=200, max_num_seqs=256),
            Demand(context=2048, output=1024, requests=150, max_num_seqs=1024),
            Demand(context=8192, output=2048, requests=200, max_num_seqs=64),
            Demand(context=1024, output=512, requests=150, max_num_seqs=64),
        ],
        ids=str,
    )
    def test_the_engine_agrees_within_an_eighth(self, demand, dtype):
        state = cache_state(demand, kv_cache_dtype=dtype)
        run = simulate(demand, kv_cache_dtype=dtype)
        assert run.tokens_per_s == pytest.approx(state.tokens_per_s, rel=0.125)
        # Half of the sequences are not at their longest yet, so a few more run than fit for sure.
        assert state.running * 0.95 <= run.running <= state.running * 1.15

    def test_doubling_max_num_seqs_gives_the_computed_gain(self):
        demand = Demand(context=1024, output=512, requests=600, max_num_seqs=64)
        doubled = Demand(context=1024, output=512, requests=600, max_num_seqs=128)
        gain = cache_state(demand).gains[Limit.MAX_NUM_SEQS]
        ran = simulate(doubled).tokens_per_s / simulate(demand).tokens_per_s
        assert ran == pytest.approx(gain, rel=0.08)


class TestRefusals:
    @pytest.mark.parametrize(
        ("sizes", "says"),
        [
            ({"requests": 0}, "requests is 0"),
            ({"max_num_seqs": -1}, "max_num_seqs is -1"),
            ({"output": 0}, "output is 0"),
            ({"output": 8192}, "leave no prompt"),
            ({"context": 0}, "leave no prompt"),
        ],
    )
    def test_a_demand_that_is_none(self, sizes, says):
        good = {"context": 8192, "output": 1024, "requests": 4, "max_num_seqs": 8}
        with pytest.raises(WorkloadError, match=says):
            Demand(**good | sizes)

    def test_a_dtype_that_the_heads_cannot_have(self):
        with pytest.raises(ConfigError):
            before_after(DEMANDS[1], after="fp8_ds_mla")


def test_caps_are_the_limits_of_how_many_run():
    assert tuple(Limit)[:3] == CAPS
