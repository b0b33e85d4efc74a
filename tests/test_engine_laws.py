"""Laws that hold after every step, on random workloads; and both engines are one."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given

from kvdocs.blocks import NULL_BLOCK
from kvdocs.engine import loop
from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.events import WaitReason
from kvdocs.engine.jumping import JumpingEngine, fast_engine
from kvdocs.engine.loop import check_fits, run
from kvdocs.engine.prompt import DistinctPrompt
from kvdocs.engine.request import RequestSpec
from kvdocs.engine.scheduler import Scheduler
from kvdocs.engine.stepping import SteppingEngine
from kvdocs.engine.timer import ConstantTimer
from kvdocs.errors import LivelockError, NeverFitsError
from kvdocs.replay import DEFAULT_CONFIG, read_requests
from tests.engine_strategies import LoadTimer, engine_settings, workloads

GOLDEN = Path(__file__).parent / "golden"
ENDLESS = "x27_priority_tie"
NAMES = sorted(path.name.removesuffix(".out.json") for path in GOLDEN.glob("*.out.json"))
NAMES.remove(ENDLESS)
MOST_TURNS = 20_000


class WatchedEngine(SteppingEngine):
    """A stepping engine that checks the laws after every step."""

    turns = 0

    def step(self):
        step = super().step()
        self.turns += 1
        assert self.turns < MOST_TURNS, "livelock"
        assert step.end >= step.start
        assert step.end == self.clock
        self.check_blocks()
        self.check_buckets()
        self.check_work(step)
        return step

    def check_blocks(self):
        pool = self.cache.pool
        free = list(pool.free_queue)
        held = Counter(
            block
            for request in self.requests.values()
            for block in request.blocks
            if block != NULL_BLOCK
        )
        assert len(free) == len(set(free)) == pool.num_free
        assert not set(free) & set(held)
        assert set(free) | set(held) == set(range(1, pool.num_blocks))
        assert {block: count for block, count in enumerate(pool.ref_counts) if count} == held
        for request in self.requests.values():
            own = [block for block in request.blocks if block != NULL_BLOCK]
            assert len(own) == len(set(own))
        for key, blocks in pool._blocks_of.items():
            assert blocks
            assert all(pool.key_of(block) == key for block in blocks)
        assert sum(map(len, pool._blocks_of.values())) == len(pool._key_of)
        # the order that lets the jumping engine count: plain blocks first, then cached ones
        cached = [block in pool._key_of for block in free]
        assert cached == sorted(cached)

    def check_buckets(self):
        running, waiting = self.scheduler.running, list(self.scheduler.waiting)
        ended = [request for request in self.requests.values() if request.is_finished]
        buckets = [request.id for request in [*running, *waiting, *ended]]
        assert sorted(buckets) == sorted(self.requests)
        for request in [*waiting, *ended]:
            assert request.blocks == []

    def check_work(self, step):
        """Whoever waits has a reason, and nobody waits while nothing runs."""
        waiting = step.after_schedule.waiting
        assert (step.wait is None) == (not waiting)
        if step.wait is None:
            return
        assert step.wait.num_behind == len(waiting) - 1
        if step.wait.reason in (WaitReason.BLOCKS, WaitReason.UNSPLIT):
            assert step.wait.needed > step.wait.available
        if step.wait.reason is WaitReason.SEQS:
            assert len(step.after_schedule.running) == self.config.max_num_seqs
        if step.wait.reason is WaitReason.BUDGET:
            counts = sum(count for _, count in step.scheduled)
            assert counts == self.config.max_num_batched_tokens
        assert step.after_schedule.running or step.preemptions


def decisions(engine, specs):
    """Run to the end, noting every decision with its time, and the gauges."""
    log, gauges = [], {}
    admit, preempt, finish = Scheduler._admit, Scheduler._preempt, Scheduler._finish

    def noted_admit(self, request, hit, num_tokens, batch):
        log.append((self.clock, "admit", request.id, hit.num_tokens, num_tokens))
        return admit(self, request, hit, num_tokens, batch)

    def noted_preempt(self, victim, needy, batch):
        result = preempt(self, victim, needy, batch)
        log.append((self.clock, batch.preemptions[-1]))
        return result

    def noted_finish(self, request):
        result = finish(self, request)
        log.append((self.clock, result))
        return result

    def observe(gauge):
        gauges[gauge.clock] = gauge

    with (
        patch.object(Scheduler, "_admit", noted_admit),
        patch.object(Scheduler, "_preempt", noted_preempt),
        patch.object(Scheduler, "_finish", noted_finish),
    ):
        results = run(engine, specs, observe=observe)
    return results, log, engine.clock, gauges


def assert_one_result(config, specs, timer):
    results, log, clock, gauges = decisions(SteppingEngine(config, timer), specs)
    fast_results, fast_log, fast_clock, fast_gauges = decisions(fast_engine(config, timer), specs)
    assert fast_log == log
    assert fast_results == results
    assert fast_clock == clock
    assert fast_gauges.items() <= gauges.items()


@engine_settings
@given(workload=workloads())
def test_laws_hold_after_every_step(workload):
    config, specs = workload
    results = run(WatchedEngine(config), specs)
    assert [result.id for result in results] == [spec.id for spec in specs]
    for result, spec in zip(results, specs, strict=True):
        assert result.status.is_finished
        assert result.finished_at >= result.arrival
        if spec.abort_at is None:
            left = config.max_model_len - result.num_prompt_tokens
            assert result.num_output_tokens == min(spec.max_tokens, left)
            assert result.arrival <= result.admitted_at < result.first_token_at
            assert result.first_token_at <= result.finished_at


@engine_settings
@given(workload=workloads(sliding=False))
def test_both_engines_decide_alike_on_random_workloads(workload):
    config, specs = workload
    assert_one_result(config, specs, LoadTimer())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("policy", list(Policy))
def test_both_engines_decide_alike_in_a_crowd_that_does_not_fit(policy, asynchronous):
    config = EngineConfig(
        num_blocks=400,
        max_num_seqs=40,
        max_num_batched_tokens=512,
        policy=policy,
        async_scheduling=asynchronous,
    )
    specs = [
        RequestSpec(
            id=f"r{i}",
            prompt=DistinctPrompt(64 + i * 37 % 150),
            max_tokens=20 + i * 53 % 180,
            arrival=i * 0.9,
            priority=i % 3,
        )
        for i in range(120)
    ]
    assert_one_result(config, specs, ConstantTimer(0.25))
    assert sum(result.num_preemptions for result in run(JumpingEngine(config), specs)) > 10


@pytest.mark.parametrize("timer", [ConstantTimer(), LoadTimer()], ids=["constant", "load"])
@pytest.mark.parametrize("name", NAMES)
def test_both_engines_decide_alike_on_recorded_workloads(name, timer):
    config, specs = recorded(name)
    assert_one_result(config, [spec for spec in specs if fits(spec, config)], timer)


@pytest.mark.parametrize("engine", [SteppingEngine, JumpingEngine])
def test_requests_that_evict_each_other_for_ever_are_reported(engine, monkeypatch):
    monkeypatch.setattr(loop, "MOST_PREEMPTIONS_IN_VAIN", 500)
    config, specs = recorded(ENDLESS)
    with pytest.raises(LivelockError, match="equal priority and arrival"):
        run(engine(config), specs)
    one_after_the_other = [replace(spec, arrival=index) for index, spec in enumerate(specs)]
    assert all(result.num_output_tokens == 8 for result in run(engine(config), one_after_the_other))


def recorded(name):
    workload = json.loads((GOLDEN / f"{name}.json").read_text())
    settings = {**DEFAULT_CONFIG, **workload["config"]}
    reserve, policy = settings.pop("reserve_full_isl"), Policy(settings.pop("policy"))
    config = EngineConfig(**settings, policy=policy, scheduler_reserve_full_isl=reserve)
    return config, read_requests(workload["requests"])


def fits(spec, config):
    try:
        check_fits(spec, config)
    except NeverFitsError:
        return False
    return True


def test_a_recorded_stall_is_refused_elsewhere():
    workload = json.loads((GOLDEN / "o17_toolong.json").read_text())
    config = EngineConfig(**workload["config"])
    with pytest.raises(NeverFitsError, match="'big' needs 13 KV cache blocks"):
        run(JumpingEngine(config), read_requests(workload["requests"]))
