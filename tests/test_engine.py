"""The engine: what it says about its decisions, what it refuses, how it is timed."""

import math
from dataclasses import replace
from unittest.mock import patch

import pytest

from kvdocs.blocks import ROOT_HASH
from kvdocs.engine import (
    ConstantTimer,
    DistinctPrompt,
    EngineConfig,
    JumpingEngine,
    KeyedPrompt,
    Policy,
    RequestSpec,
    Segment,
    SegmentPrompt,
    Status,
    StepLoad,
    SteppedTimer,
    SteppingEngine,
    TokenPrompt,
    fast_engine,
    run,
)
from kvdocs.engine.events import Preemption, Wait, WaitReason
from kvdocs.engine.scheduler import Scheduler, pairs
from kvdocs.errors import FlagError, NeverFitsError


def spec(name, prompt, out, **more):
    prompt = DistinctPrompt(prompt) if isinstance(prompt, int) else prompt
    return RequestSpec(id=name, prompt=prompt, max_tokens=out, **more)


def engine_with(*specs, **settings):
    engine = SteppingEngine(EngineConfig(**settings))
    for item in specs:
        engine.add(item)
    return engine


class Recorder(SteppedTimer):
    """A timer that remembers what it was asked."""

    def __init__(self):
        self.loads = []

    def seconds(self, load):
        self.loads.append(load)
        return 1.0


# Why -----------------------------------------------------------------------------------------


def test_a_wait_for_blocks_names_the_blocks():
    engine = engine_with(spec("a", 100, 9), spec("b", 100, 9), spec("c", 1, 1), num_blocks=11)
    # a took 7 of 10 blocks; b needs 7 and c stands behind it
    assert engine.step().wait == Wait(
        request_id="b", reason=WaitReason.BLOCKS, needed=7, available=3, num_behind=1
    )


def test_a_wait_for_a_place_or_for_budget_says_so():
    engine = engine_with(spec("a", 8, 9), spec("b", 8, 9), max_num_seqs=1)
    assert engine.step().wait.reason is WaitReason.SEQS
    engine = engine_with(spec("a", 8, 9), spec("b", 8, 9), max_num_batched_tokens=8)
    assert engine.step().wait.reason is WaitReason.BUDGET
    engine = engine_with(
        spec("a", 8, 9), spec("b", 9, 9), max_num_batched_tokens=16, enable_chunked_prefill=False
    )
    wait = engine.step().wait
    assert (wait.reason, wait.needed, wait.available) == (WaitReason.UNSPLIT, 9, 8)


def test_a_preemption_names_victim_and_beneficiary_and_closes_admission():
    engine = engine_with(spec("a", 32, 9), spec("b", 31, 9), num_blocks=5)
    engine.step()
    step = engine.step()  # a needs its third block, and all four are taken
    assert step.preemptions == (
        Preemption(request_id="b", for_request_id="a", freed_blocks=2, lost_tokens=31),
    )
    assert step.wait.reason is WaitReason.PREEMPTION


def test_a_victim_finds_its_own_blocks_again():
    engine = engine_with(spec("a", 32, 4), spec("b", 31, 9), num_blocks=5)
    admissions = [admission for _ in range(6) for admission in engine.step().admissions]
    assert (admissions[-1].request_id, admissions[-1].resumed) == ("b", True)
    assert admissions[-1].hit_tokens == 16


def test_the_less_urgent_is_preempted_even_if_it_was_there_first():
    engine = engine_with(
        spec("late", 32, 9, priority=5),
        spec("soon", 32, 9, priority=1),
        num_blocks=5,
        policy=Policy.PRIORITY,
    )
    engine.step()
    assert [p.request_id for p in engine.step().preemptions] == ["late"]


def test_an_admission_tells_its_hit():
    text = [Segment("system", 40)]
    one = spec("one", SegmentPrompt([*text, Segment("x", 3)]), 1)
    two = spec("two", SegmentPrompt([*text, Segment("y", 3)]), 1)
    step = engine_with(one, two).step()
    assert [admission.hit_tokens for admission in step.admissions] == [0, 32]
    assert step.admissions[1].hit_blocks == (1, 2)


def test_aborting_ends_a_request_in_any_state_and_once():
    engine = engine_with(spec("run", 8, 9), spec("wait", 8, 9), max_num_seqs=1)
    engine.step()
    assert engine.abort("run")
    assert engine.abort("wait")
    assert not engine.abort("run")
    assert not engine.abort("nobody")
    assert engine.requests["run"].status is Status.FINISHED_ABORTED
    assert engine.snapshot().usage == 0


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "settings", "needed", "available"),
    [
        (spec("a", 90, 9), {"num_blocks": 5}, 7, 4),
        (spec("a", 200, 9), {"max_model_len": 200}, 200, 199),
        (spec("a", 20, 1), {"max_num_batched_tokens": 16, "enable_chunked_prefill": False}, 20, 16),
        (spec("a", 0, 1), {}, 1, 0),
    ],
)
def test_what_never_fits_is_refused_at_submission(item, settings, needed, available):
    for engine in (SteppingEngine, JumpingEngine):
        with pytest.raises(NeverFitsError, match="'a'") as refused:
            run(engine(EngineConfig(**settings)), [item])
        assert (refused.value.needed, refused.value.available) == (needed, available)


def test_a_request_that_just_fits_runs_to_its_end():
    # 60 + 5 tokens, the last one not stored: exactly 4 blocks of 16
    (result,) = run(SteppingEngine(EngineConfig(num_blocks=5)), [spec("a", 60, 5)])
    assert result.num_output_tokens == 5
    with pytest.raises(NeverFitsError):
        run(SteppingEngine(EngineConfig(num_blocks=5)), [spec("a", 60, 6)])


@pytest.mark.parametrize(
    "settings",
    [{"num_blocks": 1}, {"block_size": 0}, {"watermark": -0.1}, {"sliding_window": 0}],
)
def test_settings_no_server_takes_are_refused(settings):
    with pytest.raises(FlagError):
        EngineConfig(**settings)


def test_the_jumping_engine_sends_windows_to_the_stepping_one():
    with pytest.raises(FlagError, match="sliding_window is 8"):
        JumpingEngine(EngineConfig(sliding_window=8))
    assert isinstance(fast_engine(EngineConfig(sliding_window=8)), SteppingEngine)
    assert isinstance(fast_engine(EngineConfig()), JumpingEngine)


# Time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [SteppingEngine, JumpingEngine])
def test_an_idle_engine_waits_for_the_next_arrival(engine):
    specs = [spec("a", 5, 2, arrival=1.5), spec("b", 5, 2, arrival=100.25)]
    first, second = run(engine(EngineConfig(), ConstantTimer(0.5)), specs)
    assert (first.admitted_at, first.first_token_at, first.finished_at) == (1.5, 2.0, 2.5)
    assert (second.admitted_at, second.finished_at) == (100.25, 101.25)


@pytest.mark.parametrize("engine", [SteppingEngine, JumpingEngine])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_timer_sees_tokens_and_context(engine, asynchronous):
    timer = Recorder()
    run(engine(EngineConfig(async_scheduling=asynchronous), timer), [spec("a", 5, 3)])
    worked = [load for load in timer.loads if load.num_tokens]
    asked = list(dict.fromkeys(worked))  # the jumping engine may ask twice
    assert asked == [StepLoad(5, 1, 5, 15), StepLoad(1, 1, 6, 6), StepLoad(1, 1, 7, 7)]


@pytest.mark.parametrize("engine", [SteppingEngine, JumpingEngine])
def test_asynchronous_first_token_comes_when_its_batch_is_through(engine):
    class ByTokens(SteppedTimer):
        def seconds(self, load):
            return float(load.num_tokens)

    config = EngineConfig(async_scheduling=True)
    (result,) = run(engine(config, ByTokens()), [spec("a", 7, 3)])
    assert (result.first_token_at, result.finished_at) == (7.0, 9.0)


def test_an_abort_counts_from_its_time():
    (result,) = run(JumpingEngine(EngineConfig()), [spec("a", 5, 1000, abort_at=10.0)])
    assert (result.finished_at, result.num_output_tokens) == (10.0, 10)
    (result,) = run(JumpingEngine(EngineConfig()), [spec("a", 5, 3, arrival=5.0, abort_at=1.0)])
    assert result.status is Status.FINISHED_LENGTH_CAPPED


def test_pairs_count_what_each_token_sees():
    assert pairs(3, 4, 100) == 4 + 5 + 6 + 7
    assert pairs(3, 4, 5) == 4 + 5 + 5 + 5


def test_a_plain_timer_must_say_how_long_a_step_takes():
    with pytest.raises(NotImplementedError):
        SteppedTimer().seconds(StepLoad())


def test_a_stretch_of_decoding_stops_before_an_arrival():
    assert SteppedTimer.decode(
        Recorder(), StepLoad(2, 2, 10, 10), growth=2, clock=0.0, max_steps=9, until=3.5
    ) == (4, 4.0)
    assert ConstantTimer().decode(StepLoad(), growth=0, clock=0.0, max_steps=3, until=math.inf) == (
        3,
        3.0,
    )


# Prompts -------------------------------------------------------------------------------------


def keys(prompt, count, salt=""):
    found, parent = [], ROOT_HASH
    for index in range(count):
        parent = prompt.block_key(index, block_size=4, parent=parent, salt=salt)
        found.append(parent)
    return found


def test_equal_prefixes_have_equal_keys_and_nothing_after_the_first_difference():
    one, two = TokenPrompt((1, 2, 3, 4, 5, 6, 7, 8)), TokenPrompt((1, 2, 3, 4, 5, 6, 7, 9))
    assert [a == b for a, b in zip(keys(one, 2), keys(two, 2), strict=True)] == [True, False]


def test_segments_cut_differently_from_one_text_are_equal():
    whole = SegmentPrompt([Segment("text", 12)])
    parts = SegmentPrompt([Segment("text", 5), Segment("text", 7, start=5)])
    assert keys(whole, 3) == keys(parts, 3)
    assert keys(SegmentPrompt([Segment("text", 8, start=4)]), 2) != keys(whole, 2)


def test_a_later_turn_quotes_an_earlier_answer():
    first = SegmentPrompt([Segment("question", 6)], output_source="answer")
    later = SegmentPrompt([Segment("question", 6), Segment("answer", 6, start=6)])
    assert keys(first, 3) == keys(later, 3)


def test_a_salt_keeps_given_keys_apart():
    prompt = KeyedPrompt(9, ["k0", "k1", "partial"])
    assert prompt.num_shared_blocks(4) == 2
    assert keys(prompt, 2) == ["k0", "k1"]
    assert keys(KeyedPrompt(9, [("t", 0), ("t", 1)]), 2) == [("t", 0), ("t", 1)]
    assert not set(keys(prompt, 2, salt="s")) & {"k0", "k1"}


def test_a_salt_in_the_first_block_keeps_whole_chains_apart():
    prompt = TokenPrompt(range(12))
    assert not set(keys(prompt, 3)) & set(keys(prompt, 3, salt="s"))


def test_private_prompts_share_nothing():
    assert DistinctPrompt(99).num_shared_blocks(4) == 0
    with pytest.raises(NotImplementedError):
        keys(DistinctPrompt(99), 1)


# Work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_jumping_engine_takes_a_turn_only_where_something_is_decided(asynchronous):
    config = EngineConfig(
        num_blocks=20_000, max_num_seqs=256, max_num_batched_tokens=8192, max_model_len=8192
    )
    config = replace(config, async_scheduling=asynchronous)
    specs = [spec(f"r{i}", 512, 128, arrival=i / 20) for i in range(200)]
    counts = []
    for engine in (SteppingEngine, JumpingEngine):
        with patch.object(
            Scheduler, "schedule", autospec=True, side_effect=Scheduler.schedule
        ) as seen:
            results = run(engine(config, ConstantTimer(0.01)), specs)
        counts.append(seen.call_count)
        assert {result.num_output_tokens for result in results} == {128}
    every_turn, decisions = counts
    assert every_turn > 1000
    assert decisions <= 2 * len(specs)  # one for each arrival and one for each end


def test_keyed_prompts_meet_by_their_keys():
    specs = [spec(f"r{i}", KeyedPrompt(4000, range(8)), 500, arrival=i) for i in range(50)]
    config = EngineConfig(num_blocks=500, block_size=512, max_model_len=8192)
    results = run(JumpingEngine(config, ConstantTimer(0.01)), specs)
    # seven full blocks of 512 in common, found by all but the first
    assert [result.hit_tokens for result in results] == [0] + [7 * 512] * 49
