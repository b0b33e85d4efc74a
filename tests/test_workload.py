"""Workloads made from a seed: their distributions, what they share, and that they never change."""

import hashlib
import math
import random
import subprocess
import sys
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import WorkloadError
from kvdocs.timing import on_grid
from kvdocs.workload import (
    Blocks,
    Fixed,
    LogNormal,
    Part,
    Parts,
    Uniform,
    bursts,
    closed_loop,
    conversations,
    fixed_rate,
    gamma,
    independent,
    poisson,
    shared_prefixes,
    speed_up,
    summarize,
    write_workload,
)
from kvdocs.workload.numbers import exp, ln


def rng(seed=1):
    return random.Random(seed)  # noqa: S311 - simulation, not secrets


def every_kind(seed):
    generator = rng(seed)
    lengths = {"question": Uniform(5, 500), "outputs": LogNormal(median=150, p95=900, high=4000)}
    yield from shared_prefixes(
        generator,
        arrivals=bursts(generator, burst_rate=20, burst_s=3, quiet_s=10, quiet_rate=0.5),
        num_requests=200,
        num_repositories=7,
        system_tokens=700,
        repository=LogNormal(median=6000, p95=30000),
        skew=1.1,
        **lengths,
    )
    yield from conversations(
        generator,
        arrivals=poisson(generator, rate=2),
        num_conversations=50,
        turns=Uniform(1, 8),
        messages=Uniform(5, 300),
        outputs=Uniform(10, 600),
        think_s=20,
        system_tokens=100,
    )


# Numbers -----------------------------------------------------------------------------------------


@given(st.floats(1e-300, 1e300))
def test_ln_is_the_logarithm(x):
    assert ln(x) == pytest.approx(math.log(x), rel=4e-15, abs=4e-15)


@given(st.floats(-700, 700))
def test_exp_is_the_exponential(x):
    assert exp(x) == pytest.approx(math.exp(x), rel=4e-13)


# Arrivals ----------------------------------------------------------------------------------------


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential():
    times = list(islice(poisson(rng(), rate=5), 20_000))
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.2, rel=0.03)
    assert deviation == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0])
def test_gamma_gaps_have_the_mean_and_spread_of_their_burstiness(burstiness):
    times = list(islice(gamma(rng(), rate=5, burstiness=burstiness), 20_000))
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.2, rel=0.05)
    assert deviation == pytest.approx(0.2 / math.sqrt(burstiness), rel=0.05)


def test_bursts_come_at_the_duty_cycle_and_clump():
    stream = bursts(rng(), burst_rate=40, burst_s=2, quiet_s=6)
    times = list(islice(stream, 40_000))
    assert len(times) / times[-1] == pytest.approx(10, rel=0.1)
    per_second = [0] * (int(times[-1]) + 1)
    for time in times:
        per_second[int(time)] += 1
    mean = sum(per_second) / len(per_second)
    variance = sum((count - mean) ** 2 for count in per_second) / len(per_second)
    assert variance > 10 * mean  # a Poisson stream has variance = mean


def test_arrivals_are_whole_ticks_and_never_go_back():
    for stream in (
        poisson(rng(), rate=100),
        fixed_rate(rate=3),
        bursts(rng(), burst_rate=9, burst_s=1, quiet_s=1, quiet_rate=1),
    ):
        times = list(islice(stream, 1000))
        assert all(on_grid(time) for time in times)
        assert times == sorted(times)


# Lengths -----------------------------------------------------------------------------------------


def test_log_normal_lengths_have_the_median_and_the_95th_percentile():
    lengths = LogNormal(median=150, p95=900)
    generator = rng()
    drawn = sorted(lengths.draw(generator) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(150, rel=0.05)
    assert drawn[19_000] == pytest.approx(900, rel=0.08)


def test_lengths_stay_within_their_caps():
    generator = rng()
    capped = LogNormal(median=150, p95=9000, low=100, high=200)
    assert {capped.draw(generator) for _ in range(999)} >= {100, 200}
    assert all(100 <= capped.draw(generator) <= 200 for _ in range(999))
    assert {Uniform(3, 5).draw(generator) for _ in range(200)} == {3, 4, 5}


# Requests ----------------------------------------------------------------------------------------


def test_questions_about_one_repository_share_its_context_and_nothing_more():
    requests = shared_prefixes(
        rng(),
        arrivals=fixed_rate(rate=1),
        num_requests=100,
        num_repositories=5,
        system_tokens=50,
        repository=Uniform(100, 200),
        question=Fixed(10),
        outputs=Fixed(5),
    )
    contexts = {request.prompt.parts[1] for request in requests}
    assert {request.prompt.parts[0] for request in requests} == {Part("system", 50)}
    assert len(contexts) == len({part.source for part in contexts}) == 5
    assert len({request.prompt.parts[2] for request in requests}) == 100


def test_skew_prefers_the_first_repository():
    def share(skew):
        requests = shared_prefixes(
            rng(),
            arrivals=fixed_rate(rate=1),
            num_requests=4000,
            num_repositories=10,
            system_tokens=0,
            repository=Fixed(10),
            question=Fixed(1),
            outputs=Fixed(1),
            skew=skew,
        )
        return sum(r.prompt.parts[0].source == "repository 0" for r in requests) / 4000

    assert share(0) == pytest.approx(0.1, abs=0.02)
    assert share(1) == pytest.approx(1 / sum(1 / k for k in range(1, 11)), abs=0.03)


def test_each_turn_sends_all_messages_and_answers_before_it():
    requests = conversations(
        rng(),
        arrivals=poisson(rng(2), rate=1),
        num_conversations=20,
        turns=Uniform(2, 6),
        messages=Uniform(5, 50),
        outputs=Uniform(5, 50),
        think_s=3,
        system_tokens=40,
    )
    by_id = {request.id: request for request in requests}
    assert [request.arrival_s for request in requests] == sorted(r.arrival_s for r in requests)
    for request in requests:
        if not request.follows:
            assert request.num_prompt_tokens == 40 + request.prompt.parts[1].num_tokens
            continue
        before = by_id[request.follows]
        answer = Part(before.id, before.output_tokens, before.num_prompt_tokens)
        assert request.prompt.parts[:-1] == (*before.prompt.parts, answer)
        assert before.prompt.output_source == before.id
        assert request.arrival_s == before.arrival_s + request.think_s


def test_a_conversation_ends_before_it_grows_too_long():
    requests = conversations(
        rng(),
        arrivals=fixed_rate(rate=1),
        num_conversations=1,
        turns=Fixed(100),
        messages=Fixed(10),
        outputs=Fixed(10),
        think_s=0,
        max_tokens=95,
        wait_for_answer=False,
    )
    assert [r.num_prompt_tokens + r.output_tokens for r in requests] == [20, 40, 60, 80]
    assert not any(request.follows for request in requests)


def test_users_of_a_closed_loop_wait_for_their_own_answers():
    requests = closed_loop(
        rng(),
        num_users=3,
        requests_per_user=4,
        prompts=Fixed(10),
        outputs=Fixed(5),
        think_s=2,
    )
    assert len(requests) == 12
    assert sum(not request.follows for request in requests) == 3
    assert {r.think_s for r in requests if r.follows} == {2.0}


def test_speeding_up_divides_arrivals():
    requests = independent(
        rng(), arrivals=fixed_rate(rate=1), num_requests=5, prompts=Fixed(10), outputs=Fixed(5)
    )
    faster = list(speed_up(requests, 2))
    assert [r.arrival_s for r in faster] == [0, 0.5, 1, 1.5, 2]
    assert summarize(faster).prompt_tokens == 50


@pytest.mark.parametrize(
    "act",
    [
        lambda: poisson(rng(), rate=0),
        lambda: fixed_rate(rate=-1),
        lambda: bursts(rng(), burst_rate=1, burst_s=0, quiet_s=1),
        lambda: bursts(rng(), burst_rate=1, burst_s=1, quiet_s=1, quiet_rate=-1),
        lambda: Fixed(0),
        lambda: Uniform(5, 4),
        lambda: LogNormal(median=10, p95=10),
        lambda: LogNormal(median=10, p95=20, low=9, high=8),
        lambda: independent(
            rng(), arrivals=[1.0], num_requests=2, prompts=Fixed(1), outputs=Fixed(1)
        ),
        lambda: closed_loop(
            rng(), num_users=0, requests_per_user=1, prompts=Fixed(1), outputs=Fixed(1)
        ),
        lambda: speed_up([], 0),
        lambda: summarize([]),
        lambda: Blocks(1000, 512, (1, 2)).keys_at(100),
    ],
)
def test_impossible_workloads_are_refused(act):
    with pytest.raises(WorkloadError):
        act()


# Block keys --------------------------------------------------------------------------------------


@given(
    st.integers(1, 2000),
    st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
    st.integers(0, 40),
)
def test_keys_at_another_block_size_agree_exactly_where_prompts_agree(tokens, block_size, common):
    """Two prompts share their first `common` blocks of 16 tokens, and no key after."""
    count = -(-tokens // 16)
    one = Blocks(tokens, 16, tuple(range(count)))
    two = Blocks(tokens, 16, tuple(k if k < common else k + 10_000 for k in range(count)))
    keys, others = list(one.keys_at(block_size)), list(two.keys_at(block_size))
    assert len(keys) == tokens // block_size == len(set(keys))
    same = [a == b for a, b in zip(keys, others, strict=True)]
    assert same == [(index + 1) * block_size <= common * 16 for index in range(len(keys))]


def test_divided_keys_are_a_sequence():
    keys = Blocks(64, 32, (5, 6)).keys_at(16)
    assert (keys[0], keys[-1], keys[1:3], len(keys)) == (10, 13, [11, 12], 4)
    with pytest.raises(IndexError):
        keys[4]


# Same seed, same bytes ---------------------------------------------------------------------------


def digest(seed):
    return hashlib.sha256("".join(write_workload(every_kind(seed))).encode()).hexdigest()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    assert digest(1) == digest(1) != digest(2)


def test_only_random_is_asked_of_the_generator():
    class Only:
        def __init__(self):
            self.random = rng(1).random

    only = Only()
    times = poisson(only, rate=2)
    assert next(times) == next(poisson(rng(1), rate=2))
    assert LogNormal(median=5, p95=9).draw(only) >= 1


def test_the_bytes_do_not_depend_on_the_hash_seed():
    code = "from tests.test_workload import digest; print(digest(3))"
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == digest(3)


def test_parts_of_a_prompt_add_up():
    assert Parts((Part("a", 3), Part("b", 4, 9))).num_tokens == 7
