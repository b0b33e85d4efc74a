"""Prefill and decode apart: the way of a request, the laws of sending, and when it pays."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.disaggregation import (
    Sending,
    Wire,
    Worker,
    lesson_worker,
    simulate_mixed,
    simulate_split,
    simulate_splits,
)
from kvdocs.engine import ConstantTimer, EngineConfig, JumpingEngine, SteppingEngine
from kvdocs.engine import run as serve
from kvdocs.errors import FlagError, NeverFitsError, WorkloadError
from kvdocs.offload import Route, get_route
from kvdocs.server import lesson_server
from kvdocs.server.adapt import to_spec
from kvdocs.timing import Efficiency, to_grid
from kvdocs.workload import Unshared, WorkloadRequest

WHOLE_PEAK = Efficiency(link=1.0, link_latency_s=0.0)


def worker(step=0.5, *, layers=4, efficiency=WHOLE_PEAK, **options):
    return Worker(
        config=EngineConfig(**{"num_blocks": 400, **options}),
        timer=ConstantTimer(step),
        num_layers=layers,
        bytes_per_token=10,
        efficiency=efficiency,
    )


def route(rate):
    return Route("mine", "mine", rate, rate)


def request(name, prompt=100, output=3, at=0.0):
    return WorkloadRequest(
        id=name, prompt=Unshared(prompt), output_tokens=output, arrival_s=to_grid(at)
    )


def poisson(rate, count, *, prompt=4000, output=128, seed=1):
    rng, now = random.Random(seed), 0.0  # noqa: S311 - a workload, not a secret
    load = []
    for index in range(count):
        now += rng.expovariate(rate)
        load.append(request(f"r{index}", prompt, output, now))
    return load


crowds = st.lists(
    st.tuples(st.integers(1, 900), st.integers(1, 30), st.floats(0, 20)), min_size=1, max_size=12
).map(lambda rows: [request(f"r{i}", *row) for i, row in enumerate(rows)])
rates = st.floats(10.0, 1e6)


# One request ----------------------------------------------------------------------------------


def test_a_lone_request_is_prefilled_sent_and_decoded():
    one = simulate_split(worker(), [request("a")], route(500), sending=Sending.WHOLE).requests[0]
    # 0.5 s of prompt, 1,000 bytes at 500 a second, then a step for each of three tokens.
    assert (one.prefill_end_s, one.sent_s, one.received_s) == (0.5, 0.5, 2.5)
    assert (one.first_token_s, one.finished_s, one.num_output_tokens) == (3.0, 4.0, 3)
    assert (one.ttft_s, one.transfer_s, one.tpot_s, one.num_bytes) == (3.0, 2.0, 0.5, 1000)


def test_layers_overlap_with_the_prompt_they_come_from():
    # A quarter of the prompt is through after 0.125 s; 1,000 bytes at 10,000 a second take 0.1 s.
    one = simulate_split(worker(), [request("a")], route(10_000)).requests[0]
    assert one.sent_s == 0.125
    assert one.received_s == pytest.approx(0.5 + 0.1 / 4, abs=1e-8)


def test_the_decode_worker_computes_one_token_of_the_prompt():
    plain = worker(max_num_batched_tokens=64)
    one = simulate_split(plain, [request("a", prompt=640)], route(1e9)).requests[0]
    assert one.prefill_end_s == 10 * 0.5
    assert one.first_token_s - one.admitted_s == 0.5


def test_one_way_of_a_mixed_worker_is_that_of_the_server():
    lesson = lesson_worker()
    load = poisson(5, 30)
    mixed = simulate_mixed(lesson, load)
    records = lesson_server().simulate(load).requests
    assert [one.first_token_s for one in mixed.requests] == [one.first_token_s for one in records]
    assert [one.finished_s for one in mixed.requests] == [one.finished_s for one in records]
    assert mixed.latency("itl") == lesson_server().simulate(load).latency("itl")


# Laws -----------------------------------------------------------------------------------------


@given(st.floats(0, 1e9), rates, st.integers(1, 100), st.floats(0, 50), st.floats(0, 60))
def test_whole_is_never_there_before_layer_by_layer(num_bytes, rate, layers, prefill_s, free_s):
    ends = {}
    for sending in Sending:
        wire = Wire(rate, 0.0, layers, sending)
        start = max(wire.begin(1.0, 1.0 + prefill_s), free_s)
        ends[sending] = wire.end(num_bytes, start, 1.0 + prefill_s)
    assert ends[Sending.LAYERWISE] <= ends[Sending.WHOLE] * (1 + 1e-12)


@settings(max_examples=60)
@given(crowds, rates, st.integers(1, 3), st.integers(1, 3))
def test_sending_layer_by_layer_never_delivers_later(load, rate, prefill, decode):
    runs = [
        simulate_split(
            worker(),
            load,
            route(rate),
            prefill_workers=prefill,
            decode_workers=decode,
            sending=sending,
        )
        for sending in (Sending.LAYERWISE, Sending.WHOLE)
    ]
    for layered, whole in zip(*(run.requests for run in runs), strict=True):
        assert layered.received_s <= whole.received_s + 1e-8
        assert layered.prefill_end_s == whole.prefill_end_s


@settings(max_examples=60)
@given(crowds, rates, st.floats(1, 100), st.sampled_from(list(Sending)))
def test_more_bandwidth_never_delivers_later(load, rate, factor, sending):
    slow, fast = (
        simulate_split(worker(), load, route(each), sending=sending).requests
        for each in (rate, rate * factor)
    )
    assert all(two.received_s <= one.received_s + 1e-8 for one, two in zip(slow, fast, strict=True))


@given(rates, st.floats(1, 100), st.integers(1, 900), st.sampled_from(list(Sending)))
@settings(max_examples=40)
def test_more_bandwidth_is_never_slower_for_a_request_alone(rate, factor, prompt, sending):
    slow, fast = (
        simulate_split(worker(), [request("a", prompt)], route(each), sending=sending).requests[0]
        for each in (rate, rate * factor)
    )
    assert fast.ttft_s <= slow.ttft_s + 1e-8
    assert fast.e2e_s <= slow.e2e_s + 1e-8


@settings(max_examples=60)
@given(crowds, rates, st.integers(1, 3), st.integers(1, 3), st.sampled_from(list(Sending)))
def test_everybody_is_served_in_the_order_of_causes(load, rate, prefill, decode, sending):
    run = simulate_split(
        worker(),
        load,
        route(rate),
        prefill_workers=prefill,
        decode_workers=decode,
        sending=sending,
    )
    assert {one.id for one in run.requests} == {one.id for one in load}
    wanted = {one.id: one.output_tokens for one in load}
    for one in run.requests:
        times = (one.arrival_s, one.prefill_start_s, one.prefill_end_s, one.received_s)
        assert list(times) == sorted(times)
        assert one.prefill_start_s <= one.sent_s <= one.received_s
        assert one.received_s <= one.admitted_s < one.first_token_s <= one.finished_s
        assert one.num_output_tokens == wanted[one.id]
        assert one.prefill_worker < prefill
        assert one.decode_worker < decode
    assert run.sent_bytes == 10 * sum(one.num_prompt_tokens for one in load)
    assert run.tally.num_gaps == sum(one.output_tokens - 1 for one in load)


def test_a_link_carries_one_prompt_at_a_time():
    load = [request(f"r{index}") for index in range(3)]
    run = simulate_split(worker(), load, route(1000), sending=Sending.WHOLE)
    assert [one.received_s for one in run.requests] == [1.5, 2.5, 3.5]
    apart = simulate_split(
        worker(), load, route(1000), prefill_workers=3, decode_workers=3, sending=Sending.WHOLE
    )
    assert [one.received_s for one in apart.requests] == [1.5, 1.5, 1.5]


def test_a_decode_worker_receives_from_one_at_a_time():
    load = [request(f"r{index}") for index in range(2)]
    run = simulate_split(worker(), load, route(1000), prefill_workers=2, sending=Sending.WHOLE)
    assert [one.received_s for one in run.requests] == [1.5, 2.5]


# When it pays ---------------------------------------------------------------------------------


def test_long_prompts_stall_the_answers_of_mixed_workers_only():
    # A chunk of a 4,000-token prompt takes over 0.1 s; a decode step about 10 ms.
    load = poisson(12, 200)
    mixed, *splits = simulate_splits(lesson_worker(), load, get_route("ib-ndr"), workers=4)
    even = splits[1]
    assert [run.workers for run in (mixed, *splits)] == [4, 4, 4, 4]
    assert even.name == "2 prefill + 2 decode"
    assert mixed.latency("itl").p99 > 0.1
    assert even.latency("itl").p99 < 0.02
    assert even.latency("ttft").p99 > mixed.latency("ttft").p99
    assert even.output_tokens_per_s == pytest.approx(mixed.output_tokens_per_s, rel=0.03)


def test_too_few_prefill_workers_lose_throughput():
    load = poisson(16, 200)
    mixed, starved, *_ = simulate_splits(lesson_worker(), load, get_route("ib-ndr"), workers=4)
    assert starved.output_tokens_per_s < 0.7 * mixed.output_tokens_per_s


def test_a_slow_link_eats_the_gain():
    # 4,000 tokens are 524 MB: over 25 Gbit/s, 60% reached, 0.28 s each; 6 a second is too many.
    load = poisson(6, 60)
    slow = simulate_split(lesson_worker(), load, get_route("ethernet-25"), decode_workers=1)
    fast = simulate_split(lesson_worker(), load, get_route("nvlink4"), decode_workers=1)
    assert slow.latency("transfer").p50 > 1.0
    assert fast.latency("transfer").p50 < 0.01
    assert slow.latency("ttft").p50 > fast.latency("ttft").p50 + 0.5


def test_goodput_counts_requests_that_kept_both_promises():
    run = simulate_mixed(worker(), [request("a"), request("b", at=100.0)])
    assert run.duration_s == 101.5
    assert run.goodput(ttft_s=0.5, tpot_s=0.5) == 2 / 101.5
    assert run.goodput(ttft_s=0.4, tpot_s=0.5) == run.goodput(ttft_s=0.5, tpot_s=0.4) == 0


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: simulate_mixed(worker(), [], workers=0), "workers is 0"),
        (lambda: simulate_split(worker(), [], route(1), prefill_workers=0), "prefill_workers is 0"),
        (lambda: simulate_split(worker(), [], route(1), decode_workers=0), "decode_workers is 0"),
        (lambda: simulate_splits(worker(), [], route(1), workers=1), "at least 2"),
        (lambda: Wire(0.0, 0.0, 1, Sending.WHOLE), "above 0"),
        (lambda: Wire(1.0, 0.0, 0, Sending.WHOLE), "above 0"),
    ],
)
def test_what_is_no_deployment_is_refused(ask, words):
    with pytest.raises(FlagError, match=words):
        ask()


def test_requests_that_cannot_be_run_are_refused():
    with pytest.raises(NeverFitsError):
        simulate_mixed(worker(), [request("a", prompt=5000)])
    follower = WorkloadRequest(id="b", prompt=Unshared(5), output_tokens=1, follows="a")
    with pytest.raises(WorkloadError, match="'b' follows 'a'"):
        simulate_mixed(worker(), [request("a"), follower])


def test_nothing_to_serve_is_served():
    run = simulate_split(worker(), [], route(1))
    assert run.requests == ()
    assert run.latency("ttft") is None
    assert run.output_tokens_per_s == run.goodput(ttft_s=1, tpot_s=1) == 0


def test_a_decoding_answer_waits_for_the_prompt_steps_of_its_worker():
    load = [request("a", output=40), request("b", prompt=4000, at=2.2)]
    run = simulate_mixed(worker(max_num_batched_tokens=1000, max_model_len=8000), load)
    # 39 tokens of `a` are in the way of each chunk but the first.
    assert [step.num_tokens for step in run.prompt_steps] == [100, 999, 999, 999, 999, 4]
    assert [step.start_s for step in run.prompt_steps] == [0.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    assert all(step.end_s - step.start_s == 0.5 for step in run.prompt_steps)
    split = simulate_split(worker(max_model_len=8000), load, route(1e6))
    assert split.prompt_steps == ()


@settings(max_examples=80)
@given(crowds, st.booleans(), st.integers(12, 60), st.integers(0, 1000))
def test_both_engines_take_received_kv_alike(load, late, blocks, received):
    config = EngineConfig(num_blocks=max(blocks, 62), async_scheduling=late, max_num_seqs=4)
    specs = [
        replace(to_spec(one, config, arrival=one.arrival_s), received_tokens=received)
        for one in load
    ]
    engines = SteppingEngine(config, ConstantTimer(0.5)), JumpingEngine(config, ConstantTimer(0.5))
    stepped, jumped = (serve(engine, specs) for engine in engines)
    assert stepped == jumped
    assert engines[0].gauges() == engines[1].gauges()
    work = engines[0].scheduler.tally.work
    if not engines[0].scheduler.counters.preemptions:
        spared = sum(min(received, one.prompt.num_tokens - 1) for one in specs)
        outputs = sum(one.max_tokens - 1 for one in specs)
        assert work.num_tokens == sum(one.prompt.num_tokens for one in specs) - spared + outputs
