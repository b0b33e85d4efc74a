"""Whole servers on random workloads: both engines are one, and nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.engine import EngineConfig
from kvdocs.errors import FlagError, WorkloadError
from kvdocs.metrics import write_metrics
from kvdocs.server import Change, EngineKind, FinishReason, LiveServer, Load, Server
from kvdocs.workload import Uniform
from tests.engine_strategies import engine_settings
from tests.server_strategies import GridTimer, changes, configs, workloads

INTERVAL = 0.25


def everything(server, simulation):
    """All that can be seen of a simulation."""
    return (
        simulation.records,
        simulation.samples,
        simulation.log,
        simulation.counters,
        sorted(simulation.tally.gaps.items()),
        simulation.tally.gap_seconds,
        sorted(simulation.tally.turns.items()),
        simulation.engine.clock,
        write_metrics([server.snapshot(simulation)]),
    )


@engine_settings
@given(config=configs(), workload=workloads())
def test_both_engines_show_the_same_on_random_workloads(config, workload):
    requests, priorities = workload
    server = Server(config=config, timer=GridTimer())
    seen = []
    for kind in EngineKind:
        simulation = server.open(
            requests, engine=kind, interval_s=INTERVAL, priorities=priorities, keep_log=True
        )
        simulation.run_to_end()
        seen.append(everything(server, simulation))
    assert seen[0] == seen[1]


@engine_settings
@given(config=configs() | configs(sliding=True), workload=workloads())
def test_nothing_is_lost_and_times_are_in_order(config, workload):
    requests, priorities = workload
    run = Server(config=config, timer=GridTimer()).simulate(
        requests, priorities=priorities, interval_s=INTERVAL
    )
    by_id = {record.id: record for record in run.requests}
    assert [record.id for record in run.requests] == [request.id for request in requests]
    assert len(run.finished) + len(run.refused) == len(requests)
    for request, record in zip(requests, run.requests, strict=True):
        assert record.arrival_s >= request.arrival_s
        if request.follows:
            thought = by_id[request.follows].finished_s + request.think_s
            assert record.arrival_s == max(thought, request.arrival_s)
        if record.reason is FinishReason.LENGTH:
            assert record.num_output_tokens == request.output_tokens
            check_times(record, config)
    assert run.counters.generation_tokens == run.num_output_tokens
    assert run.counters.prompt_tokens == run.num_prompt_tokens
    assert run.counters.prompt_tokens_cached == run.hit_tokens
    assert run.counters.preemptions == sum(record.num_preemptions for record in run.requests)
    assert run.tally.num_gaps == run.num_output_tokens - len(run.finished)
    assert run.tally.gap_seconds == sum(r.finished_s - r.first_token_s for r in run.finished)
    assert run.samples[-1].running == run.samples[-1].waiting == 0
    assert run.samples[-1].kv_cache_usage == 0
    assert run.samples[-1].finished == len(requests)
    generated = sum(sample.generation_tokens_per_s for sample in run.samples) * INTERVAL
    assert generated == run.num_output_tokens


def check_times(record, config):
    """It waited, then its prompt took at least its tokens' share of the steps."""
    assert record.queue_s == record.admitted_s - record.arrival_s >= 0
    to_compute = record.num_prompt_tokens - record.hit_tokens
    steps = -(-to_compute // config.max_num_batched_tokens)
    prefill = steps / 64 + to_compute / 512  # what GridTimer takes for steps and tokens alone
    assert record.ttft_s >= record.queue_s + prefill
    assert record.e2e_s >= record.ttft_s


def live(config, engine):
    load = Load(rate=3.0, prompts=Uniform(1, 30), outputs=Uniform(1, 20))
    return LiveServer(
        config, GridTimer(), load, seed=5, engine=engine, interval_s=INTERVAL, checkpoint_s=1.0
    )


@settings(engine_settings, max_examples=engine_settings.max_examples // 3)
@given(data=st.data(), config=configs())
def test_a_live_server_shows_the_same_whichever_way_one_got_there(data, config):
    planned = data.draw(changes(config))
    times = [time / 16 for time in data.draw(st.lists(st.integers(0, 170), min_size=1, max_size=4))]
    server = Server(config=config, timer=GridTimer())
    wandering = live(config, EngineKind.STEPPING)
    try:
        for time in times:
            # on the way somebody plays with other changes
            wandering.at(time, planned[: len(planned) // 2])
            there = everything(server, wandering.at(time, planned))
            assert there == everything(server, live(config, EngineKind.STEPPING).at(time, planned))
            assert there == everything(server, live(config, EngineKind.JUMPING).at(time, planned))
    except FlagError as error:
        assert "must be greater than or equal to max_num_seqs" in str(error)  # noqa: PT017


def test_a_change_acts_from_its_time_on():
    config = EngineConfig(num_blocks=200, max_num_seqs=2)
    server = live(config, EngineKind.STEPPING)
    busy = Change(0.0, "rate", 30.0)
    wider = [busy, Change(4.0, "max_num_seqs", 8)]
    running = {sample.time_s: sample.running for sample in server.at(9.0, wider).samples}
    assert max(count for time, count in running.items() if time <= 4) == 2
    assert max(count for time, count in running.items() if time > 4) == 8
    assert max(sample.running for sample in server.at(9.0, [busy]).samples) == 2


def test_a_stopped_load_drains_and_comes_back():
    config = EngineConfig(num_blocks=200)
    planned = [Change(3.0, "rate", 0.0), Change(30.0, "rate", 5.0)]
    server = live(config, EngineKind.JUMPING)
    assert server.at(29.0, planned).is_done
    assert not server.at(33.0, planned).is_done


@pytest.mark.parametrize("name", ["num_blocks", "policy", "nonsense"])
def test_what_needs_another_server_cannot_change(name):
    with pytest.raises(WorkloadError, match=f"'{name}' cannot change while the server runs"):
        live(EngineConfig(), EngineKind.STEPPING).at(2.0, [Change(1.0, name, 5)])


def test_a_refused_change_leaves_the_server_as_it_was():
    config = EngineConfig(num_blocks=200)
    server, fresh = live(config, EngineKind.STEPPING), live(config, EngineKind.STEPPING)
    with pytest.raises(FlagError, match="must be greater than or equal to"):
        server.at(5.0, [Change(2.0, "max_num_batched_tokens", 4)])
    shown = Server(config=config, timer=GridTimer())
    assert everything(shown, server.at(3.0)) == everything(shown, fresh.at(3.0))


def test_changes_must_be_in_order():
    with pytest.raises(WorkloadError, match="order of time"):
        live(EngineConfig(), EngineKind.STEPPING).at(
            9.0, [Change(2.0, "rate", 1.0), Change(1.0, "rate", 2.0)]
        )
