"""Tiers behind the KV cache: what moves, what it costs, and when recomputing is faster."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.catalog import get_gpu, get_model, links
from kvdocs.engine import ConstantTimer, EngineConfig
from kvdocs.errors import FlagError
from kvdocs.model import kv_cost
from kvdocs.offload import (
    Comparison,
    Loading,
    MoveOrRecompute,
    Offload,
    Route,
    Tier,
    get_route,
    lru_hits,
    optimal_hits,
    routes,
    simulate_offload,
)
from kvdocs.scenario import lesson_timer
from kvdocs.server import EngineKind, Server, lesson_server
from kvdocs.timing import RooflineTimer, Weights
from kvdocs.units import GIB, MIB
from kvdocs.workload import Part, Parts, Unshared, WorkloadRequest

BLOCK = 16


def tier(capacity=math.inf, *, speed=1e6, write=None, latency=0.0, name="cpu"):
    return Tier(
        name=name,
        capacity_bytes=capacity,
        read_bytes_per_s=speed,
        write_bytes_per_s=write or speed,
        latency_s=latency,
    )


def offload(*tiers, **options):
    return Offload(tiers=tiers, **{"bytes_per_token": 1, **options})


def server(blocks=30, *, timer=None, **options):
    config = EngineConfig(num_blocks=blocks + 1, **options)
    return Server(config=config, timer=timer or ConstantTimer(0.125))


def document(name, tokens, at, *, question=7, output=2):
    parts = (Part(f"doc {name}", tokens), Part(f"question {at}", question))
    return WorkloadRequest(
        id=f"{name}@{at}", prompt=Parts(parts), output_tokens=output, arrival_s=float(at)
    )


def scan(documents, rounds, *, tokens=160, every=100.0):
    """The same documents again and again, each request alone on the server."""
    return [
        document(str(index), tokens, every * (turn * documents + index))
        for turn in range(rounds)
        for index in range(documents)
    ]


def mixed_load(seed_times, sizes):
    return [
        document(str(size % 5), 16 * (1 + size % 7), when, question=1 + size % 20, output=1 + size)
        for when, size in dict(zip(seed_times, sizes, strict=False)).items()
    ]


loads = st.builds(
    mixed_load,
    st.lists(st.integers(0, 40), min_size=1, max_size=14, unique=True),
    st.lists(st.integers(0, 40), min_size=14, max_size=14),
)


# Routes and tiers -----------------------------------------------------------------------------


def test_routes_are_the_catalogues_links_and_disks():
    known = {route.id: route for route in routes()}
    assert {link.id for link in links()} < set(known)
    assert known["nvme4"].bytes_per_s > known["nvme4"].write_bytes_per_s
    assert get_route("PCIE5").bytes_per_s == 64e9
    with pytest.raises(FlagError, match=r"no link or disk is called 'pcie9'.*nvme4"):
        get_route("pcie9")


@pytest.mark.parametrize(
    "wrong", [{"capacity": -1}, {"speed": 0.0}, {"latency": -1.0}, {"capacity": math.nan}]
)
def test_what_is_no_tier_is_refused(wrong):
    with pytest.raises(FlagError, match="tier 'cpu'"):
        tier(**wrong)


def test_a_measured_load_over_pcie_is_met_within_a_quarter():
    # LMCache issue 1740: 10,010 tokens of Qwen3-8B in 33.4 ms, 41.1 GiB/s.
    cpu = Tier.over(get_route("pcie5"), capacity_bytes=math.inf)
    cost = kv_cost(get_model("Qwen3-8B").model).bytes_per_token
    assert cost * 10_010 == pytest.approx(1.3747 * GIB, rel=1e-3)
    assert cpu.read_time(cost * 10_010) == pytest.approx(33.4281e-3, rel=0.25)


# Eviction -------------------------------------------------------------------------------------


def best_by_trying_all(accesses, capacity):
    """Most hits of any policy, by looking at every set of contents that can come about."""
    states = {frozenset(): 0}
    for key in accesses:
        after = {}
        for held, hits in states.items():
            found = hits + (key in held)
            for left in itertools.combinations(held | {key}, min(capacity, len(held | {key}))):
                after[frozenset(left)] = max(after.get(frozenset(left), 0), found)
        states = after
    return max(states.values())


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(0, 4))
def test_the_optimal_policy_is_what_trying_all_finds(accesses, capacity):
    assert optimal_hits(accesses, capacity) == best_by_trying_all(accesses, capacity)


@given(st.lists(st.integers(0, 9), max_size=200), st.integers(0, 12))
def test_lru_never_beats_the_optimum_and_more_room_never_hurts(accesses, capacity):
    assert lru_hits(accesses, capacity) <= optimal_hits(accesses, capacity)
    assert lru_hits(accesses, capacity) <= lru_hits(accesses, capacity + 1)
    assert optimal_hits(accesses, capacity) <= optimal_hits(accesses, capacity + 1)
    assert optimal_hits(accesses, len(set(accesses))) == len(accesses) - len(set(accesses))


@pytest.mark.parametrize(("things", "room"), [(5, 4), (100, 99), (100, 10)])
def test_a_scan_longer_than_the_cache_never_hits_under_lru(things, room):
    accesses = list(range(things)) * 5
    assert lru_hits(accesses, room) == 0
    assert optimal_hits(accesses, room) >= 4 * (room - 1)


# A server with tiers --------------------------------------------------------------------------


@settings(max_examples=60)
@given(loads, st.sampled_from(list(Loading)), st.booleans(), st.integers(12, 40))
def test_tiers_of_zero_bytes_equal_no_tiers(load, loading, late, blocks):
    plain = server(blocks, async_scheduling=late)
    expected = plain.simulate(load, engine=EngineKind.STEPPING).requests
    for tiers in ((), (tier(0),), (tier(15.9), tier(0, name="disk"))):
        run = simulate_offload(plain, load, offload(*tiers, loading=loading))
        assert run.run.requests == expected
        assert run.tier_hit_tokens == 0
    assert plain.simulate(load).requests == expected


@settings(max_examples=60)
@given(
    loads,
    st.sampled_from(list(Loading)),
    st.integers(0, 40),
    st.integers(1, 3),
    st.booleans(),
)
def test_bytes_are_conserved_and_every_request_ends(load, loading, chunks, per_chunk, late):
    size, prompt = 16 * per_chunk, chunks % 2 == 0
    tiers = (tier(chunks * size), tier(3 * chunks * size, speed=1e4, name="disk"))
    settings_ = offload(*tiers, loading=loading, blocks_per_chunk=per_chunk, prompt_only=prompt)
    run = simulate_offload(server(24, async_scheduling=late), load, settings_)
    assert len(run.run.finished) == len(load)
    assert [one.num_output_tokens for one in run.run.requests] == [
        one.output_tokens for one in load
    ]
    for traffic, made in zip(run.tiers, tiers, strict=True):
        assert traffic.stored_bytes == traffic.evicted_bytes + traffic.held_bytes
        assert traffic.held_bytes <= made.capacity_bytes
        assert traffic.loaded_bytes == traffic.hit_tokens
    for place, traffic in enumerate(run.tiers):
        assert traffic.hit_tokens == size * sum(one.chunks[place] for one in run.loads)
    spared = sum(one.num_tokens for one in run.loads)
    assert run.tier_hit_tokens - size * len(run.loads) <= spared <= run.tier_hit_tokens
    assert run.tier_hit_tokens <= run.optimal_hit_tokens
    assert run.tier_hit_tokens <= run.asked_tokens
    engine = run.run.simulation.engine
    assert engine.cache.num_free == engine.config.usable_blocks


@settings(max_examples=40)
@given(loads, st.sampled_from(list(Loading)))
def test_tokens_are_computed_or_hit_or_loaded(load, loading):
    run = simulate_offload(server(100, max_num_seqs=1), load, offload(tier(), loading=loading))
    assert run.run.num_preemptions == 0
    needed = sum(one.num_prompt_tokens + one.output_tokens - 1 for one in load)
    loaded = sum(one.num_tokens for one in run.loads)
    assert run.computed_tokens + run.gpu_hit_tokens + loaded == needed


def test_a_second_visit_loads_what_the_pool_has_lost():
    # The pool holds one document of 10 blocks and its question; the other drives it out.
    load = scan(2, 2)
    run = simulate_offload(server(11), load, offload(tier(speed=1000.0, latency=0.5)))
    assert run.gpu_hit_tokens == 0
    assert [one.num_tokens for one in run.loads] == [160, 160]
    assert run.tiers[0].loaded_bytes == 320
    assert run.tiers[0].stored_bytes == 320  # each document once, questions fill no block
    ttft = [one.ttft_s for one in run.run.requests]
    assert ttft == pytest.approx([0.125, 0.125, 0.5 + 160 / 1000 + 0.125, 0.5 + 160 / 1000 + 0.125])


def test_the_last_token_is_computed_even_when_all_is_there():
    first = document("a", 160, 0, question=16)
    again = WorkloadRequest(id="again", prompt=first.prompt, output_tokens=1, arrival_s=200.0)
    other = document("b", 160, 100, question=16)
    run = simulate_offload(server(12), [first, other, again], offload(tier()))
    assert [one.num_tokens for one in run.loads] == [175]  # 176 of prompt, all 11 blocks fetched
    assert run.tiers[0].hit_tokens == 176


def test_the_transfer_reaches_ttft_and_only_the_loader_waits_when_loading_is_asynchronous():
    # inference-sim issue 1699: an offload whose time does not reach TTFT is worthless.
    first = scan(3, 1)
    again = document("0", 160, 1000.0)
    beside = WorkloadRequest(id="beside", prompt=Unshared(20), output_tokens=40, arrival_s=999.0)
    slow = tier(speed=100.0)  # 160 bytes: 1.6 s
    ttft, gaps = {}, {}
    for loading in Loading:
        run = simulate_offload(server(15), [*first, again, beside], offload(slow, loading=loading))
        ttft[loading] = run.run.requests[3].ttft_s
        gaps[loading] = run.run.latency("itl").longest
    assert ttft[Loading.ASYNC] >= 1.6
    assert ttft[Loading.SYNC] == pytest.approx(1.6 + 0.125)
    assert gaps[Loading.ASYNC] == 0.125  # the other request goes on
    assert gaps[Loading.SYNC] == pytest.approx(1.6 + 0.125, rel=1e-3)  # and here it waits


@given(st.floats(10.0, 1e7), st.floats(1.0, 100.0), st.sampled_from(list(Loading)))
@settings(max_examples=40)
def test_more_bandwidth_is_never_slower_one_request_at_a_time(speed, factor, loading):
    load = scan(3, 3, every=1000.0)
    slow, fast = (
        simulate_offload(server(11), load, offload(tier(speed=each), loading=loading)).run.requests
        for each in (speed, speed * factor)
    )
    for one, two in zip(slow, fast, strict=True):
        assert two.ttft_s <= one.ttft_s + 1e-9
        assert two.e2e_s <= one.e2e_s + 1e-9


@given(st.integers(0, 2**32), st.floats(1.0, 50.0))
@settings(max_examples=30)
def test_more_bandwidth_is_never_slower_when_a_crowd_waits_for_its_documents(seed, factor):
    # All ask at once, so that what is decided depends on the order of requests alone.
    load = scan(6, 1)
    load += [document(str((seed + 7 * i) % 6), 160, 5000.0 + i / 2**20) for i in range(12)]
    times = []
    for speed in (1e3, 1e3 * factor):
        slow = tier(math.inf, speed=speed, write=1e9)
        run = simulate_offload(
            server(26, max_num_seqs=1), load, offload(slow, loading=Loading.SYNC)
        )
        times.append([one.finished_s for one in run.run.requests])
    assert all(two <= one + 1e-9 for one, two in zip(*times, strict=True))


@pytest.mark.parametrize("loading", list(Loading))
@pytest.mark.parametrize("rounds", [2, 5])
def test_scanning_a_working_set_larger_than_the_tier_hits_nothing(loading, rounds):
    # 6 documents of 10 chunks; pool and tier hold 5 each.
    load = scan(6, rounds)
    run = simulate_offload(server(11), load, offload(tier(50 * 16), loading=loading))
    assert run.tier_hit_tokens == run.lru_hit_tokens == run.gpu_hit_tokens == 0
    assert run.tiers[0].stored_bytes == 6 * 160 * rounds
    # The same room would have served most of it, and one more document of room all of it.
    assert run.optimal_hit_tokens >= (rounds - 1) * 4 * 160
    larger = simulate_offload(server(11), load, offload(tier(60 * 16), loading=loading))
    assert larger.tier_hit_tokens == (rounds - 1) * 6 * 160


def test_a_tier_that_lacks_half_a_document_still_serves_heads():
    # Of a prompt the last chunks go out first, so what is left of it is a usable beginning.
    run = simulate_offload(server(11), scan(6, 4), offload(tier(55 * 16)))
    assert run.lru_hit_tokens == 0  # plain LRU would evict the head first
    assert 0 < run.tier_hit_tokens < run.optimal_hit_tokens


def test_a_prompt_larger_than_the_tier_is_not_stored():
    run = simulate_offload(server(), scan(1, 1), offload(tier(9 * 16)))
    assert run.tiers[0].stored_bytes == 0
    assert run.tiers[0].refused_bytes == 160


def test_a_working_set_that_fits_the_gpu_gains_nothing():
    # LMCache issue 1326: 10 documents of 2,000 tokens, asked for 5 times; the pool holds 407,712.
    load = [
        document(str(index), 2000, 10.0 * (turn * 10 + index), question=36)
        for turn in range(5)
        for index in range(10)
    ]
    cpu = Tier.over(get_route("pcie5"), capacity_bytes=64e9)
    run = simulate_offload(lesson_server(), load, offload(cpu, bytes_per_token=131_072))
    assert run.loads == ()
    assert [one.ttft_s for one in run.run.requests] == pytest.approx(
        [one.ttft_s for one in lesson_server().simulate(load).requests]
    )


def test_prompts_that_never_return_drive_shared_ones_out_of_the_tier():
    # vLLM issue 39983: 12 GiB for 6 shared prefixes of 16k tokens is exact, but each of 48 prompts
    # stores 16k tokens of its own as well: 96 GiB through 12 GiB.
    tokens, per_token = 16_384, 131_072
    assert 6 * tokens * per_token == 12 * GIB
    load = [
        document(str(index % 6), tokens, 1000.0 * index, question=tokens, output=1)
        for index in range(48)
    ]
    small = Server(
        config=EngineConfig(num_blocks=2100, max_model_len=40_000, max_num_batched_tokens=40_000),
        timer=ConstantTimer(1.0),
    )
    sizes = {}
    for gib in (12, 108):
        cpu = tier(gib * GIB, speed=1e12)
        sizes[gib] = simulate_offload(small, load, offload(cpu, bytes_per_token=per_token))
    assert sizes[108].tiers[0].stored_bytes == (12 + 96) * GIB
    assert sizes[108].tier_hit_tokens == 42 * tokens
    assert sizes[12].tier_hit_tokens == 0
    assert sizes[12].tiers[0].stored_bytes == 48 * 2 * tokens * per_token


def test_the_nearest_tier_serves_and_the_farther_one_refills_it():
    near, far = tier(20 * 16, speed=1e6, name="cpu"), tier(speed=1e3, name="disk")
    load = scan(3, 2)
    run = simulate_offload(server(11), load, offload(near, far))
    assert [one.chunks for one in run.loads] == [(0, 10), (0, 10), (0, 10)]
    assert run.tiers[0].stored_bytes == 6 * 160
    again = [*load, document("2", 160, 700.0), document("1", 160, 800.0)]
    run = simulate_offload(server(11), again, offload(near, far))
    # 2 is still in the pool, 1 in the near tier.
    assert [one.chunks for one in run.loads][3:] == [(10, 0)]


def test_a_chunk_on_its_way_out_counts_as_missing():
    load = scan(2, 2, every=1.0)
    run = simulate_offload(server(11), load, offload(tier(write=1.0)))
    assert run.loads == ()


def test_lmcache_moves_256_tokens_and_holds_up_the_step():
    made = Offload.lmcache((tier(),), bytes_per_token=1)
    assert (made.blocks_per_chunk, made.loading) == (16, Loading.SYNC)
    # LMCache issue 485: on one of 4 GPUs a chunk of Qwen2.5-72B is 2 x 80 x 256 x 256 x 2 B.
    cost = kv_cost(get_model("Qwen2.5-72B-Instruct").model, tensor_parallel_size=4)
    assert 256 * cost.bytes_per_token_per_gpu == 2 * 80 * 256 * 256 * 2 == 20 * MIB
    run = simulate_offload(server(20), scan(2, 2, tokens=300), made)
    assert [one.num_tokens for one in run.loads] == [256, 256]


def test_what_cannot_be_offloaded_is_refused():
    with pytest.raises(FlagError, match="bytes_per_token is 0"):
        offload(tier(), bytes_per_token=0)
    with pytest.raises(FlagError, match="blocks_per_chunk is 0"):
        offload(tier(), blocks_per_chunk=0)
    with pytest.raises(FlagError, match="full attention only"):
        simulate_offload(server(sliding_window=64), [], offload(tier()))


# Move or recompute ----------------------------------------------------------------------------


def compare(name, *, model="meta-llama/Llama-3.1-8B", batch=1):
    timer = lesson_timer(model=model)
    return MoveOrRecompute(timer, kv_cost(get_model(model).model), get_route(name), batch=batch)


def by_hand(tokens, bytes_per_s):
    """Llama 3.1 8B on an H100: seconds to move and to compute a prompt, from the published figures.

    4,096 wide, 32 layers of 32 query and 8 KV heads of 128, MLP 14,336, vocabulary 128,256.
    """
    layer = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    body, head = 32 * layer + 4096, 4096 * 128_256
    flops = 989e12 * 0.5
    matmul = (2 * body * tokens + 2 * head) / flops
    weights = 2 * (body + head) / (3350e9 * 0.8)
    attention = 4 * 32 * 32 * 128 * (tokens * (tokens + 1) / 2) / flops
    kv = 131_072 * tokens / (3350e9 * 0.8)
    compute = 1e-3 + max(matmul, weights) + max(attention, kv)
    return 5e-6 + 131_072 * tokens / (bytes_per_s * 0.6), compute


@pytest.mark.parametrize("name", ["pcie3", "pcie5", "ethernet-25", "ib-hdr", "ethernet-100"])
@pytest.mark.parametrize("tokens", [1, 100, 1000, 8192, 131_072])
def test_both_times_are_those_of_the_arithmetic_by_hand(name, tokens):
    both = compare(name).at(tokens)
    move, recompute = by_hand(tokens, get_route(name).bytes_per_s)
    assert both.num_bytes == 131_072 * tokens
    assert both.move_s == pytest.approx(move, rel=1e-9)
    assert both.recompute_s == pytest.approx(recompute, rel=0.005)


@pytest.mark.parametrize("gigabit", [10, 25, 32, 40])
def test_the_crossing_point_solves_the_quadratic(gigabit):
    rate = gigabit * 1e9 / 8
    route = Route("mine", "mine", rate, rate)
    timer = lesson_timer()
    found = MoveOrRecompute(timer, kv_cost(get_model("Llama-3.1-8B").model), route)
    # a n^2 + b n + c = 0 with attention, matrix products less the transfer, and the fixed parts.
    flops = 989e12 * 0.5
    a = 4 * 32 * 32 * 128 / 2 / flops
    body = (by_hand(20_000, 1e9)[1] - by_hand(10_000, 1e9)[1]) / 10_000 - a * 30_001
    b = body + a - 131_072 / (rate * 0.6)
    c = 1e-3 + 2 * 4096 * 128_256 / flops - 5e-6
    root = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    assert found.moves_from(2_000_000) == pytest.approx(root, rel=0.01)


@pytest.mark.parametrize("name", ["pcie5", "ethernet-25", "sata3", "ethernet-100"])
def test_stretches_are_what_looking_at_every_length_finds(name):
    found = compare(name)
    most = 3000
    brute = [found.at(tokens).moves for tokens in range(1, most + 1)]
    stretches = found.stretches(most)
    told = [stretch.moves for stretch in stretches for _ in range(stretch.first, stretch.last + 1)]
    assert told == brute


def test_a_slow_link_loses_only_in_the_middle():
    kinds = [stretch.moves for stretch in compare("ethernet-25").stretches(131_072)]
    assert kinds == [True, False, True]
    assert compare("pcie5").moves_from(131_072) == 1
    assert compare("sata3").moves_from(131_072) == 131_073


@given(st.floats(1e8, 1e12), st.floats(1.0, 100.0), st.integers(1, 131_072))
@settings(max_examples=50)
def test_more_bandwidth_never_makes_moving_slower(rate, factor, tokens):
    timer, cost = lesson_timer(), kv_cost(get_model("Llama-3.1-8B").model)
    slow = MoveOrRecompute(timer, cost, Route("a", "a", rate, rate))
    fast = MoveOrRecompute(timer, cost, Route("b", "b", rate * factor, rate))
    assert fast.at(tokens).move_s <= slow.at(tokens).move_s
    assert fast.moves_from(131_072) <= slow.moves_from(131_072)


@given(st.integers(200, 131_072))
@settings(max_examples=30)
def test_at_the_break_even_bandwidth_both_take_as_long(tokens):
    rate = compare("pcie5").break_even_bytes_per_s(tokens)
    timer, cost = lesson_timer(), kv_cost(get_model("Llama-3.1-8B").model)
    both = MoveOrRecompute(timer, cost, Route("x", "x", rate, rate)).at(tokens)
    assert both.move_s == pytest.approx(both.recompute_s, rel=1e-9)


def test_a_smaller_cache_moves_sooner_and_a_batch_makes_recomputing_cheaper():
    # DeepSeek's latent cache is 70,272 bytes a token for 37e9 active parameters.
    latent = kv_cost(get_model("DeepSeek-V3").model).bytes_per_token
    assert latent == 70_272
    alone, many = compare("ethernet-25").at(64), compare("ethernet-25", batch=16).at(64)
    assert many.move_s / alone.move_s > many.recompute_s / alone.recompute_s


def test_with_tensor_parallelism_each_gpu_moves_its_share():
    entry, gpu = get_model("Llama-3.1-70B"), get_gpu("h100")
    weights = Weights.from_config(entry.text_config, num_parameters=entry.num_parameters)
    timer = RooflineTimer(model=entry.model, weights=weights, gpu=gpu, tensor_parallel_size=16)
    cost = kv_cost(entry.model, tensor_parallel_size=16)
    both = MoveOrRecompute(timer, cost, get_route("pcie5")).at(1000)
    assert both.num_bytes == 1000 * 327_680 / 8  # 8 heads: each on two GPUs
    with pytest.raises(FlagError, match="same tensor_parallel_size"):
        MoveOrRecompute(timer, kv_cost(entry.model), get_route("pcie5"))


@pytest.mark.parametrize(("reload_s", "times"), [(1.77, 4.8), (2.7, 3.1), (29.0, 1 / 3.4)])
def test_a_tier_helps_only_if_loading_beats_recomputing(reload_s, times):
    # kvcache-ai/Mooncake issue 467: 8.46 s without a cache; DRAM, GPUDirect storage, Mooncake.
    both = Comparison(10_000, 0, reload_s, 8.46)
    assert both.speedup == pytest.approx(times, rel=0.02)
    assert both.moves == (times > 1)


def test_tcp_between_machines_takes_seconds_for_a_large_model():
    # A report of 0.18 GB/s over TCP: 8k tokens of a 70B model need 14.9 s.
    cost = kv_cost(get_model("Llama-3.1-70B").model).bytes_per_token
    assert Tier.over(Route("tcp", "tcp", 179.4e6 / 0.6, 1e9), capacity_bytes=1).read_time(
        8192 * cost
    ) == pytest.approx(14.9, rel=0.01)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: compare("pcie5", batch=0),
        lambda: compare("pcie5").at(0),
        lambda: compare("pcie5").stretches(0),
        lambda: lru_hits("a", -1),
        lambda: optimal_hits("a", -1),
    ],
)
def test_nothing_to_compare_is_refused(ask):
    with pytest.raises(FlagError):
        ask()
