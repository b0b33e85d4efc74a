"""The server on workloads one can reckon through."""

import random

import pytest

from kvdocs.catalog import get_gpu, get_model
from kvdocs.engine import ConstantTimer, EngineConfig
from kvdocs.errors import FlagError, NeverFitsError, StartError, WorkloadError
from kvdocs.flags import ServerFlags
from kvdocs.metrics import read_metrics, write_metrics
from kvdocs.scenario import size_lesson
from kvdocs.server import EngineKind, FinishReason, Server, start_server, to_spec
from kvdocs.server.run import latency, percentile
from kvdocs.timing import Weights
from kvdocs.workload import (
    Blocks,
    Fixed,
    LogNormal,
    Part,
    Parts,
    Unshared,
    WorkloadRequest,
    conversations,
    independent,
    poisson,
    shared_prefixes,
)

ENGINES = list(EngineKind)


def server(step_seconds=0.25, **settings):
    return Server(config=EngineConfig(**settings), timer=ConstantTimer(step_seconds))


def seeded(seed):
    return random.Random(seed)  # noqa: S311 - the same workload each time


def ask(name, prompt=16, output=4, **fields):
    prompt = Unshared(prompt) if isinstance(prompt, int) else prompt
    return WorkloadRequest(id=name, prompt=prompt, output_tokens=output, **fields)


@pytest.fixture(scope="module")
def lesson():
    size = size_lesson()
    entry = size.model
    weights = Weights.from_config(entry.config, num_parameters=entry.num_parameters)

    def start(**flags):
        flags = ServerFlags(**{"max_model_len": 8192, **flags})
        return start_server(entry.model, size.gpu, flags, available=size.budget, weights=weights)

    return start


class TestOneRequest:
    @pytest.mark.parametrize("engine", ENGINES)
    def test_times_are_counted_from_arrival(self, engine):
        run = server().simulate([ask("a", arrival_s=2.0)], engine=engine)
        (record,) = run.requests
        assert (record.queue_s, record.ttft_s, record.tpot_s, record.e2e_s) == (0, 0.25, 0.25, 1.0)
        assert run.duration_s == 1.0
        assert record.reason is FinishReason.LENGTH

    @pytest.mark.parametrize("engine", ENGINES)
    def test_who_arrives_during_a_step_waits_for_its_end(self, engine):
        run = server(step_seconds=1.0).simulate([ask("a"), ask("b", arrival_s=0.25)], engine=engine)
        assert run.requests[1].queue_s == 0.75
        assert run.requests[1].ttft_s == 1.75

    @pytest.mark.parametrize("engine", ENGINES)
    def test_the_gap_of_a_preempted_request_spans_its_absence(self, engine):
        # 7 blocks of 4: two requests of 8 + 12 tokens need 5 each in the end
        tight = server(step_seconds=1.0, num_blocks=8, block_size=4, enable_prefix_caching=False)
        run = tight.simulate([ask("a", 8, 12), ask("b", 8, 12)], engine=engine)
        first, second = run.requests
        assert (first.num_preemptions, second.num_preemptions) == (0, 1)
        assert first.finished_s == 12.0
        longest = run.latency("itl").longest
        assert longest > 1.0
        # its tokens came one a second but for that gap
        assert second.finished_s == 12.0 + longest - 1.0
        assert run.latency("itl").count == 22

    @pytest.mark.parametrize("engine", ENGINES)
    def test_recomputed_tokens_are_those_lost_and_not_found_again(self, engine):
        # Each holds 3 of 7 blocks when it has computed 12 tokens. "a" takes the seventh, "b" is
        # preempted with 12 tokens in 3 full blocks, the last of which "a" takes for its 17th token.
        for caching, recomputed in ((False, 12), (True, 4)):
            tight = server(enable_prefix_caching=caching, num_blocks=8, block_size=4)
            run = tight.simulate([ask("a", 8, 12), ask("b", 8, 12)], engine=engine)
            assert run.num_preemptions == 1
            assert run.recomputed_tokens == run.requests[1].recomputed_tokens == recomputed


class TestFollowing:
    def test_a_follower_comes_after_the_answer_and_the_thinking(self):
        requests = [ask("b", follows="a", think_s=5.0), ask("a", arrival_s=1.0)]
        run = server().simulate(requests)
        after, before = run.requests
        assert after.arrival_s == before.finished_s + 5.0

    def test_a_follower_never_comes_before_its_own_time(self):
        run = server().simulate([ask("a"), ask("b", follows="a", think_s=1.0, arrival_s=50.0)])
        assert run.requests[1].arrival_s == 50.0

    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_follower_of_a_short_request_is_not_passed_by_a_long_jump(self, engine):
        requests = [ask("long", 16, 1000), ask("a", 16, 2), ask("b", follows="a", think_s=0.5)]
        run = server().simulate(requests, engine=engine)
        assert run.requests[2].arrival_s == run.requests[1].finished_s + 0.5 == 1.0
        assert run.requests[2].admitted_s == 1.0

    def test_the_answer_is_found_in_the_cache(self):
        requests = conversations(
            seeded(1),
            arrivals=[0.0],
            num_conversations=1,
            turns=Fixed(3),
            messages=Fixed(16),
            outputs=Fixed(17),  # the last token of an answer is never computed by its own request
            think_s=1.0,
        )
        hits = [record.hit_tokens for record in server().simulate(requests).requests]
        assert hits == [0, 32, 64]

    def test_a_follower_of_a_refused_request_comes_all_the_same(self):
        requests = [ask("a", 5000), ask("b", follows="a", think_s=3.0)]
        refused, done = server().simulate(requests).requests
        assert refused.reason is FinishReason.REFUSED
        assert (done.arrival_s, done.reason) == (3.0, FinishReason.LENGTH)

    @pytest.mark.parametrize(
        ("requests", "message"),
        [
            ([ask("a"), ask("a")], "two requests have the id 'a'"),
            ([ask("a", follows="b")], "follows 'b', which is not there"),
            ([ask("a"), ask("b", follows="c"), ask("c", follows="b")], "in a circle"),
        ],
    )
    def test_what_would_never_arrive_is_refused(self, requests, message):
        with pytest.raises(WorkloadError, match=message):
            server().simulate(requests)


class TestRefusals:
    def test_too_long_a_prompt_in_the_front_ends_words(self):
        (record,) = server(max_model_len=100, num_blocks=100).simulate([ask("a", 100)]).requests
        assert record.refusal.startswith("This model's maximum context length is 100 tokens.")
        assert (record.ttft_s, record.e2e_s, record.num_output_tokens) == (None, None, 0)

    def test_too_many_tokens_wanted_in_the_front_ends_words(self):
        (record,) = server(max_model_len=100).simulate([ask("a", 90, 11)]).requests
        assert "(11 > 100 - 90)" in record.refusal

    def test_what_can_never_fit_is_refused_with_the_numbers(self):
        run = server(num_blocks=5, max_model_len=200).simulate([ask("a", 90, 9), ask("b", 16, 4)])
        assert "needs 7 KV cache blocks" in run.requests[0].refusal
        assert run.requests[1].reason is FinishReason.LENGTH

    def test_the_error_has_the_numbers(self):
        with pytest.raises(NeverFitsError) as caught:
            to_spec(ask("a", 90, 11), EngineConfig(max_model_len=100), arrival=0.0)
        assert (caught.value.needed, caught.value.available) == (101, 100)

    def test_a_server_without_room_for_one_request_does_not_start(self, lesson):
        with pytest.raises(StartError, match="To serve at least one request with the model's max"):
            lesson(num_gpu_blocks_override=100)

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ({"pipeline_parallel_size": 2}, "--pipeline-parallel-size 2 is not simulated"),
            ({"data_parallel_size": 2}, "--data-parallel-size 2 is not simulated"),
            (
                {"max_num_seqs": 64, "max_num_batched_tokens": 32},
                "greater than or equal to max_num",
            ),
            (
                {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048},
                "is smaller than max_model_len",
            ),
        ],
    )
    def test_flags_that_do_not_go_together(self, lesson, flags, message):
        with pytest.raises(FlagError, match=message):
            lesson(**flags)


class TestStart:
    def test_the_lessons_server_has_vllms_defaults(self, lesson):
        config = lesson().config
        assert (config.num_blocks, config.block_size) == (25482, 16)
        assert (config.max_num_seqs, config.max_num_batched_tokens) == (1024, 8192)
        assert config.async_scheduling

    def test_without_chunked_prefill_the_batch_holds_a_prompt(self, lesson):
        config = lesson(max_model_len=16384, enable_chunked_prefill=False).config
        assert config.max_num_batched_tokens == 16384

    def test_flags_given_win(self, lesson):
        config = lesson(max_num_seqs=4, max_num_batched_tokens=512, block_size=32).config
        assert (config.max_num_seqs, config.max_num_batched_tokens, config.block_size) == (
            4,
            512,
            32,
        )

    def test_a_model_of_two_kinds_of_layers_is_simulated_by_its_typical_request(self):
        entry, gpu = get_model("gemma-3-27b-it"), get_gpu("h200")
        weights = Weights.from_config(entry.text_config, num_parameters=entry.num_parameters)
        blocks = [
            start_server(
                entry.model,
                gpu,
                ServerFlags(max_model_len=65536),
                available=60e9,
                weights=weights,
                typical_tokens=tokens,
            ).config.num_blocks
            for tokens in (512, 65536)
        ]
        # windows keep less of a long request, so the pool counts for more
        assert blocks[1] > 2 * blocks[0]

    def test_the_page_tells_the_blocks(self, lesson):
        started = lesson()
        run = started.simulate([ask("a", 100, 10)])
        (read,) = read_metrics(write_metrics([run.snapshot])).servers
        assert (read.num_blocks, read.block_size) == (25482, 16)
        assert (read.generation_tokens, read.requests_finished) == (10, 1)


class TestMetrics:
    def test_samples_are_taken_at_every_interval_and_once_after_the_end(self):
        run = server(step_seconds=0.5).simulate([ask("a", 16, 5)], interval_s=1.0)
        assert [sample.time_s for sample in run.samples] == [0.0, 1.0, 2.0, 3.0]
        assert [sample.running for sample in run.samples] == [0, 1, 1, 0]
        assert [sample.generation_tokens_per_s for sample in run.samples] == [0, 2, 2, 1]
        assert [sample.prompt_tokens_per_s for sample in run.samples] == [0, 16, 0, 0]

    def test_usage_is_the_share_of_held_blocks(self):
        run = server(step_seconds=0.5, num_blocks=11).simulate([ask("a", 16, 5)], interval_s=1.0)
        assert run.samples[1].kv_cache_usage == pytest.approx(0.2)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_an_idle_server_logs_once_and_then_falls_silent(self, engine):
        requests = [ask("a", 16, 5), ask("b", 16, 100, arrival_s=65.0)]
        run = server().simulate(requests, engine=engine)
        times = [time for time, _ in run.log]
        assert times == [10.0, 20.0, 70.0, 80.0, 90.0, 100.0]
        first = run.log[0][1]
        assert (first.prompt_tokens_per_s, first.generation_tokens_per_s) == (1.6, 0.5)

    def test_cached_prompt_tokens_do_not_count_as_throughput_in_the_log(self):
        shared = Parts((Part("system", 160),))
        run = server().simulate([ask("a", shared, 60), ask("b", shared, 20, arrival_s=11.0)])
        assert [line.prompt_tokens_per_s for _, line in run.log[:2]] == [16.0, 1.6]
        assert run.log[1][1].prefix_hit_rate == pytest.approx(144 / 320)

    def test_the_page_at_any_time_counts_what_has_happened_until_then(self):
        simulation = (made := server()).open([ask("a", 16, 8), ask("b", 16, 8, arrival_s=1.0)])
        simulation.run_until(1.5)
        page = made.snapshot(simulation)
        assert (page.running, page.generation_tokens, page.finished) == (2, 8, {})
        assert sum(page.histograms["time_to_first_token_seconds"].counts) == 2
        simulation.run_to_end()
        page = made.snapshot(simulation)
        assert page.finished == {"length": 2}
        assert sum(page.histograms["inter_token_latency_seconds"].counts) == 14
        assert sum(page.histograms["e2e_request_latency_seconds"].counts) == 2
        turns = page.histograms["iteration_tokens_total"]
        assert turns.total == 2 * 16 + 2 * 8

    def test_percentiles_lie_between_values(self):
        # the quartiles of 1, 2, 4, 8 by the usual rule (numpy's default)
        assert [percentile([1, 2, 4, 8], share) for share in (0, 0.25, 0.5, 0.75, 1)] == [
            1,
            1.75,
            3,
            5,
            8,
        ]
        assert latency([]) is None
        assert latency([None, 2.0]).p99 == 2.0


class TestLaws:
    def test_littles_law_on_a_steady_run(self, lesson):
        rng = seeded(4)
        requests = independent(
            rng,
            arrivals=poisson(rng, rate=15),
            num_requests=3000,
            prompts=LogNormal(median=400, p95=1500, high=4000),
            outputs=LogNormal(median=120, p95=400, high=1000),
        )
        run = lesson().simulate(requests, interval_s=0.25)
        steady = [s for s in run.samples if 20 <= s.time_s <= requests[-1].arrival_s]
        inside = [r for r in run.requests if r.arrival_s >= 20]
        in_system = sum(s.running + s.waiting for s in steady) / len(steady)
        rate = len(inside) / (requests[-1].arrival_s - 20)
        residence = sum(r.e2e_s for r in inside) / len(inside)
        assert in_system == pytest.approx(rate * residence, rel=0.03)

    def test_a_prefix_shared_by_all_is_hit_by_all_but_the_first(self, lesson):
        rng = seeded(1)
        requests = shared_prefixes(
            rng,
            arrivals=poisson(rng, rate=5),
            num_requests=50,
            num_repositories=1,
            system_tokens=1000,
            repository=Fixed(2000),
            question=Fixed(100),
            outputs=Fixed(50),
        )
        run = lesson().simulate(requests)
        assert [record.hit_tokens for record in run.requests] == [0, *[2992] * 49]

    def test_a_block_size_that_cuts_across_a_traces_blocks_is_refused(self):
        request = ask("a", Blocks(1024, 512, (1, 2)))
        with pytest.raises(WorkloadError, match="cuts across"):
            server(block_size=48, max_model_len=4096).simulate([request])


class TestStories:
    def test_a_preempted_request_and_its_needy_neighbour(self):
        tight = server(step_seconds=1.0, num_blocks=7, block_size=4, enable_prefix_caching=False)
        requests = [ask("a", 8, 12), ask("b", 6, 12)]
        for engine in ENGINES:
            run = tight.simulate(requests, watch=["a", "b"], engine=engine)
            needy, victim = (" ".join(run.stories[name]) for name in "ab")
            assert "request b was preempted for it" in needy
            assert "It was preempted to make room for request a" in victim
            assert "too few free blocks" in victim
            assert "started again" in victim
            assert "preempted once" in victim

    def test_both_engines_tell_the_same(self, lesson):
        rng = seeded(7)
        requests = independent(
            rng,
            arrivals=poisson(rng, rate=60),
            num_requests=120,
            prompts=LogNormal(median=300, p95=2000, high=6000),
            outputs=LogNormal(median=200, p95=600, high=1000),
        )
        tight = lesson(num_gpu_blocks_override=1200)
        ids = [request.id for request in requests]
        one, other = (tight.simulate(requests, watch=ids, engine=kind).stories for kind in ENGINES)
        assert one == other
        assert any("was preempted" in line for story in one.values() for line in story)

    def test_a_refused_request_is_told_why(self):
        run = server(max_model_len=100).simulate([ask("a", 200)], watch=["a"])
        assert "refused: This model's maximum context length" in run.stories["a"][1]

    def test_an_unknown_request_is_named(self):
        with pytest.raises(WorkloadError, match="there is no request 'x'; ids are like a"):
            server().simulate([ask("a")], watch=["x"])


def test_the_same_seed_gives_the_same_bytes(lesson):
    def page():
        rng = seeded(11)
        requests = independent(
            rng,
            arrivals=poisson(rng, rate=30),
            num_requests=200,
            prompts=Fixed(512),
            outputs=LogNormal(median=100, p95=300, high=900),
        )
        run = lesson(num_gpu_blocks_override=2000).simulate(requests)
        return write_metrics([run.snapshot]) + repr(run.samples) + repr(run.requests)

    assert page() == page()
