"""The playground's Python: set-ups, loads, slices, moments, exports, and the page's calls."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.catalog import get_model
from kvdocs.errors import ParameterError, StartError, UsageError, WorkloadError
from kvdocs.flags import parse_flags
from kvdocs.playground import DEFAULT_FLAGS, Made, Session, Setup, Trace, browser
from kvdocs.playground.differences import differences
from kvdocs.playground.exports import EXPORTS, code, command, export_file
from kvdocs.playground.fields import FLAG_VALUES, defaults, settle
from kvdocs.playground.flag_line import flag_value, set_flag
from kvdocs.playground.form import read_form
from kvdocs.playground.layout import form_html, sized_html
from kvdocs.playground.load import SPREADS, lengths
from kvdocs.playground.measures import MEASURES, change
from kvdocs.playground.moment import look
from kvdocs.playground.page import playground
from kvdocs.playground.pictures import MOST_CELLS, blocks_per_cell, cells
from kvdocs.playground.result import moments_of, result_html, worst_moment
from kvdocs.playground.session import MOST_MOMENTS
from kvdocs.playground.stream import Stream
from kvdocs.playground.trace import TraceReader
from kvdocs.server import EngineKind, ListedArrivals
from kvdocs.workload import (
    Blocks,
    Part,
    Parts,
    Unshared,
    WorkloadRequest,
    independent,
    poisson,
    write_workload,
)

FP8 = f"{DEFAULT_FLAGS} --kv-cache-dtype fp8"
BUSY = Made(num_requests=60, rate=4.0, prompt_tokens=6000, output_tokens=200)
SHARING = replace(BUSY, prefix_tokens=2000, num_prefixes=2, prompt_tokens=500)
LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def never():
    return False


def finished(*setups, load=BUSY):
    session = Session(setups or (Setup(),), load)
    session.finish()
    return session


# Set-ups ----------------------------------------------------------------------------------------


class TestSetups:
    def test_the_lessons_server_has_the_lessons_pool(self):
        plan = Setup().size().capacity
        assert (plan.num_gpu_blocks, plan.kv_pool_tokens) == (25_482, 407_714)

    def test_a_figure_of_the_readers_own_counts_in_the_subtraction(self):
        # 0.9 x 40 GB - 16.06 - 2 - 1 GB = 16.94 GB of 131,072 B a token
        sized = Setup(memory_bytes=40e9, activation_bytes=2e9).size()
        assert sized.capacity.kv_pool_tokens == int(16.94e9 / 131_072)
        assert sized.budget.total_bytes == 40e9

    def test_bandwidth_and_arithmetic_change_the_time_and_not_the_memory(self):
        slow = Setup(bandwidth_bytes_per_s=1e12, flops=300e12)
        one, other = Setup().simulate(BUSY), slow.simulate(BUSY)
        assert other.latency("tpot").p50 > 2 * one.latency("tpot").p50
        assert slow.size().capacity == Setup().size().capacity

    def test_a_config_is_counted_to_the_last_parameter(self):
        sized = Setup(config=json.dumps(LLAMA)).size()
        assert sized.token_bytes == 131_072
        # 72 GB - 2 x 8,030,261,248 B - 2.5 GB
        assert (
            sized.capacity.kv_pool_tokens == (72 * 10**9 - 16_060_522_496 - 25 * 10**8) // 131_072
        )

    def test_a_config_that_is_not_counted_takes_the_weights_of_a_twin(self):
        entry = get_model("gpt-oss-20b")
        sized = Setup(config=json.dumps(dict(entry.config))).size()
        assert sized.budget.weights_bytes == entry.weight_bytes
        assert any("the same shapes" in note for note in sized.notes)

    def test_a_config_of_other_shapes_is_counted(self):
        config = LLAMA | {"num_hidden_layers": 16}
        sized = Setup(config=json.dumps(config)).size()
        # 16 layers of 218,112,000 parameters, two tables of 128,256 x 4,096, one norm
        assert sized.subject.weights.num_parameters == 16 * 218_112_000 + 2 * 525_336_576 + 4096
        assert sized.token_bytes == 65_536

    def test_experts_that_a_token_does_not_use_are_not_computed(self):
        config = LLAMA | {
            "model_type": "mixtral",
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "hidden_size": 2048,
            "num_hidden_layers": 8,
        }
        weights = Setup(config=json.dumps(config)).size().subject.weights
        assert weights.num_active_parameters < 0.5 * weights.num_parameters

    def test_weights_that_cannot_be_counted_are_asked_for(self):
        config = json.dumps(LLAMA | {"quantization_config": {"quant_method": "awq"}})
        with pytest.raises(ParameterError, match="enter their size") as refused:
            Setup(config=config).size()
        assert refused.value.name == "weights"
        assert Setup(config=config, weight_bytes=6e9).size().budget.weights_bytes == 6e9

    @pytest.mark.parametrize(
        ("setup", "name", "words"),
        [
            (Setup(flags="--max-num-seq 4"), "flags", "did you mean --max-num-seqs"),
            (Setup(flags="--max-model-len '32K"), "flags", "quotation"),
            (Setup(flags="--pipeline-parallel-size 2"), "flags", "not simulated"),
            (Setup(flags="meta/unheard-of"), "model", "has no model"),
            (Setup(config="{"), "config", "JSON"),
            (Setup(config='{"model_type": "llama"}'), "config", "hidden_layers"),
            (Setup(gpu="h1000"), "gpu", "has no GPU"),
        ],
    )
    def test_what_cannot_be_read_is_named_with_its_field(self, setup, name, words):
        with pytest.raises(ParameterError, match=re.escape(words)) as refused:
            setup.size()
        assert refused.value.name == name

    def test_a_server_that_does_not_start_says_vllms_words_and_runs_nothing(self):
        setup = Setup(flags="--gpu-memory-utilization 0.4")
        assert "estimated maximum model length is 102512" in setup.size().refusal
        with pytest.raises(StartError, match="102512"):
            Session([setup], BUSY)

    def test_weights_larger_than_the_gpu_are_out_of_memory(self):
        assert "140" in Setup(weight_bytes=140e9).size().refusal

    def test_the_whole_gpu_is_never_free(self):
        sized = Setup(flags="--gpu-memory-utilization 1.0").size()
        assert sized.refusal.startswith("Free memory on device cuda:0 (73.57/74.51 GiB)")

    def test_a_sparse_latent_is_packed_on_hopper(self):
        flags = "--tensor-parallel-size 8 --kv-cache-dtype fp8"
        sized = Setup(model="deepseek-ai/DeepSeek-V3.2", gpu="h200-sxm-141gb", flags=flags).size()
        assert sized.token_bytes == 48_068
        assert sized.capacity.num_gpu_blocks == 16_396

    def test_the_command_starts_the_same_server(self):
        setup = Setup(flags="--max-model-len 32K -tp 2 --served-model-name 'my model'")
        flags = parse_flags(setup.size().command.split()[:-2])
        assert flags.model == "meta-llama/Llama-3.1-8B"
        assert (flags.max_model_len, flags.tensor_parallel_size) == (32768, 2)


# The line of flags ------------------------------------------------------------------------------


class TestFlagLine:
    @given(
        st.sampled_from(sorted(FLAG_VALUES)),
        st.sampled_from(
            ["", DEFAULT_FLAGS, "--max-num-seqs=8 -tp 4 --seed 3", "--no-enable-prefix-caching"]
        ),
        st.data(),
    )
    def test_what_a_control_sets_is_what_the_line_then_says(self, flag, line, data):
        values = FLAG_VALUES[flag] or ("on", "off")
        value = data.draw(st.sampled_from(values))
        changed = set_flag(line, flag, value)
        assert flag_value(changed, flag) == value
        others = [other for other in FLAG_VALUES if other != flag]
        assert [flag_value(changed, one) for one in others] == [
            flag_value(line, one) for one in others
        ]

    def test_a_flag_taken_out_is_the_default_again(self):
        assert set_flag("--max-num-seqs 8 --seed 3", "max_num_seqs", "") == "--seed 3"

    def test_a_pasted_command_sets_model_and_flags(self):
        line = "vllm serve Qwen/Qwen3-8B \\\n  --max-model-len 8192"
        values = settle({"a_flags": line, "a_config": "{}"}, "a_flags")
        assert (values["a_model"], values["a_flags"]) == ("Qwen/Qwen3-8B", "--max-model-len 8192")
        assert values["a_config"] == ""
        assert values["a_flag_max_model_len"] == "8192"

    def test_a_pasted_command_with_an_unknown_model_is_kept_and_refused(self):
        line = "vllm serve nobody/nothing --max-num-seqs 8"
        values = settle({"a_flags": line}, "a_flags")
        assert values["a_flags"] == line
        assert "has no model" in read_form(values).errors["a_model"]

    def test_several_changes_at_once_are_all_taken(self):
        names = ("b_flag_kv_cache_dtype", "b_flag_max_num_seqs")
        given = {"b_flags": FP8, **dict(zip(names, ("", "64"), strict=True))}
        values = settle(given, *names)
        assert values["b_flags"] == f"{DEFAULT_FLAGS} --max-num-seqs 64"

    def test_a_line_that_cannot_be_read_is_kept(self):
        values = settle({"a_flags": "--what 3", "a_flag_max_num_seqs": "64"}, "a_flags")
        assert values["a_flags"] == "--what 3"
        assert "--what is not a flag" in read_form(values).errors["a_flags"]


# The form ---------------------------------------------------------------------------------------


class TestForm:
    def test_the_form_begins_with_two_set_ups_that_start(self):
        form = read_form(defaults())
        assert form.errors == {}
        assert [one.refusal for one in form.sized.values()] == ["", ""]
        assert form.load == Made()

    @pytest.mark.parametrize(
        ("name", "raw", "words"),
        [
            ("num_requests", "100001", "whole number from 1 to 100,000"),
            ("num_requests", "2.5", "whole number"),
            ("rate", "-1", "number from 0.001"),
            ("prompt_tokens", "", "whole number from 1"),
            ("coming", "never", "not one of"),
            ("a_memory", "80 apples", "not a number of GB"),
            ("a_bandwidth", "0", "above 0"),
            ("a_config", "{" * 1_000_001, "at most 1,000,000"),
            ("source", "trace", "no trace yet"),
        ],
    )
    def test_a_bad_value_is_kept_and_answered_at_its_field(self, name, raw, words):
        values = settle({name: raw})
        form = read_form(values)
        assert values[name] == raw
        assert list(form.errors) == [name]
        assert words in form.errors[name]

    def test_memory_may_be_written_with_its_unit(self):
        sized = read_form(settle({"a_memory": "74.5 GiB"})).sized["a"]
        assert sized.budget.total_bytes == int(74.5 * 2**30)

    def test_every_label_names_a_control_and_everything_is_escaped(self):
        evil = '<img src=x onerror="alert(1)">'
        html = str(form_html(settle({"a_config": evil, "rate": evil})))
        assert "<img" not in html
        assert html.count("<label") == len(re.findall(r"<label.*?<(?:input|select|textarea)", html))

    def test_what_fits_shows_the_refusal_in_place_of_the_figures(self):
        form = read_form(settle({"b_flags": "--gpu-memory-utilization 0.4"}))
        html = str(sized_html(form))
        assert html.count("It does not start.") == 1
        assert "407,712" in html


# Loads ------------------------------------------------------------------------------------------


class TestLoads:
    def test_a_made_load_is_the_packages_own_drawn_as_it_comes(self):
        load = Made(num_requests=200, rate=3.0, seed=7)
        known = independent(
            random.Random(7 + 2**32),  # noqa: S311 - a test
            arrivals=poisson(random.Random(7), rate=3.0),  # noqa: S311 - a test
            num_requests=200,
            prompts=lengths(load.prompt_tokens, load.prompt_spread),
            outputs=lengths(load.output_tokens, load.output_spread),
        )
        assert list(load.requests()) == known

    @pytest.mark.parametrize("spread", sorted(SPREADS))
    def test_medians_and_spread_are_those_asked_for(self, spread):
        load = Made(num_requests=4000, prompt_tokens=1000, prompt_spread=spread)
        found = sorted(request.num_prompt_tokens for request in load.requests())
        assert found[2000] == pytest.approx(1000, rel=0.1)
        assert found[3800] == pytest.approx(1000 * SPREADS[spread], rel=0.15)

    @pytest.mark.parametrize(
        ("coming", "rough"), [("poisson", 0.1), ("even", 0.01), ("bunches", 0.2)]
    )
    def test_requests_come_at_the_rate_asked_for(self, coming, rough):
        *_, last = Made(num_requests=2000, rate=5.0, coming=coming).requests()
        assert last.arrival_s == pytest.approx(400, rel=rough)

    def test_all_at_once_is_all_at_once(self):
        assert {one.arrival_s for one in replace(BUSY, coming="at once").requests()} == {0.0}

    def test_prompts_share_their_beginnings(self):
        firsts = {request.prompt.parts[0] for request in SHARING.requests()}
        assert firsts == {Part("prefix 0", 2000), Part("prefix 1", 2000)}

    def test_a_stream_hands_out_what_a_list_does(self):
        requests = list(BUSY.requests())
        stream, listed = Stream(iter(requests)), ListedArrivals(requests)
        for _ in requests:
            assert stream.next_time() == listed.next_time()
            assert stream.pop() == listed.pop()
        assert stream.next_time() == float("inf")
        with pytest.raises(IndexError):
            stream.pop()

    def test_a_trace_is_cut_sped_up_and_put_in_order(self):
        read = tuple(
            WorkloadRequest(id=f"r{i}", prompt=Unshared(9), output_tokens=1, arrival_s=float(t))
            for i, t in enumerate((4, 0, 8, 2))
        )
        trace = Trace(name="t", read=read, most=3, speed=2.0)
        assert [(one.id, one.arrival_s) for one in trace.requests()] == [
            ("r1", 0.0),
            ("r0", 2.0),
            ("r2", 4.0),
        ]
        assert (trace.num_requests, trace.span_s, trace.typical_tokens) == (3, 4.0, 10)

    def test_turns_of_a_conversation_still_wait_for_the_answer_before(self):
        first = WorkloadRequest(id="a", prompt=Unshared(90), output_tokens=50)
        second = replace(first, id="b", follows="a", think_s=1.0)
        load = Trace(name="t", read=(first, second))
        run = finished(load=load).outcomes[0]
        assert run.requests[1].arrival_s == run.requests[0].finished_s + 1.0


# Runs -------------------------------------------------------------------------------------------


class TestSessions:
    @settings(max_examples=12, deadline=None)
    @given(st.sampled_from([BUSY, SHARING]), st.integers(1, 30))
    def test_slices_of_any_length_end_as_the_server_does(self, load, patience):
        session = Session([Setup()], load)
        while not session.is_done:
            left = iter(range(patience))
            session.work(lambda left=left: next(left, None) is None)
        known = Setup().simulate(load)
        run = session.outcomes[0]
        assert run.requests == known.requests
        assert run.counters == known.counters
        assert run.latency("itl") == known.latency("itl")

    def test_a_slice_that_is_over_at_once_does_nothing_and_says_how_far_it_is(self):
        session = Session([Setup()], BUSY)
        session.work(lambda: True)
        assert session.progress == (0, 60, 0.0, 1, False)

    def test_every_moment_accounts_for_every_block(self):
        session = finished(Setup(), load=SHARING)
        usable = session.runs[0].server.config.usable_blocks
        for moment in moments_of(session, 0):
            private = sum(holder.num_blocks for holder in moment.holders)
            assert private + moment.shared == moment.held
            assert 0 <= moment.cached <= usable - moment.held
            assert len(moment.holders) == moment.running

    def test_beginnings_in_common_are_shown_as_shared_and_nothing_else_is(self):
        assert max(moment.shared for moment in moments_of(finished(load=SHARING), 0)) >= 125
        assert not any(moment.shared for moment in moments_of(finished(), 0))

    @pytest.mark.parametrize("load", [BUSY, SHARING])
    def test_a_moment_is_what_the_step_by_step_engine_shows(self, load):
        server = Setup().size().started()
        jumping = server.open(load.requests())
        stepping = server.open(load.requests(), engine=EngineKind.STEPPING)
        for time in (2.0, 7.0, 13.0, 19.0):
            jumping.run_until(time)
            stepping.run_until(time)
            one, other = look(jumping), look(stepping)
            assert one._replace(cached=0) == other._replace(cached=0)
            assert one.cached >= other.cached * 0.9

    def test_moments_stay_few_however_long_a_run_is(self):
        load = replace(BUSY, num_requests=400, coming="at once")
        session = finished(load=load)
        times = [place * session.interval_s for place in range(len(session.moments))]
        assert MOST_MOMENTS / 2 < len(times) <= MOST_MOMENTS
        assert times[-1] >= session.outcomes[0].end_s
        ended = [moment.ended for moment in moments_of(session, 0)]
        assert ended == sorted(ended)
        assert ended[-1] == 400

    def test_two_set_ups_get_the_same_requests(self):
        load = replace(BUSY, num_requests=200)
        a, b = finished(Setup(), Setup(flags=FP8), load=load).outcomes
        assert [(r.id, r.arrival_s, r.max_tokens) for r in a.requests] == [
            (r.id, r.arrival_s, r.max_tokens) for r in b.requests
        ]
        assert a.latency("queue").p99 > b.latency("queue").p99

    def test_a_windowed_model_runs_too(self):
        setup = Setup(model="mistralai/Mistral-7B-v0.1", flags="--max-model-len 8192")
        load = replace(BUSY, num_requests=10, prompt_tokens=1000, output_tokens=20)
        session = finished(setup, load=load)
        assert len(session.outcomes[0].finished) == 10

    def test_a_mixed_model_says_how_it_is_simulated(self):
        setup = Setup(model="openai/gpt-oss-20b", flags="--max-model-len 8192")
        assert any("mixes kinds of layers" in note for note in setup.size().notes)

    def test_requests_too_long_are_refused_at_the_door_and_counted(self):
        run = finished(Setup(flags="--max-model-len 4096")).outcomes[0]
        assert len(run.refused) > 30
        assert len(run.refused) + len(run.finished) == 60

    def test_a_block_size_that_cuts_a_traces_blocks_is_told(self):
        request = WorkloadRequest(id="r0", prompt=Blocks(512, 512, (1,)), output_tokens=1)
        session = Session([Setup(flags="--block-size 48")], Trace(name="t", read=(request,)))
        with pytest.raises(WorkloadError, match="cuts across"):
            session.finish()


# Comparing --------------------------------------------------------------------------------------


class TestComparing:
    def test_what_differs_is_named_and_nothing_else(self):
        other = Setup(gpu="l40s-48gb", flags=f"{DEFAULT_FLAGS} --max-num-seqs 64")
        names = [one.what for one in differences(Setup().size(), other.size())]
        assert names == [
            "GPU",
            "GPU memory",
            "memory bandwidth",
            "arithmetic",
            "--max-num-seqs",
            "--max-num-batched-tokens",  # its default follows from the GPU
            "tokens in the pool",
        ]

    def test_a_default_is_shown_as_what_it_comes_to(self):
        other = Setup(flags=f"{DEFAULT_FLAGS} --max-num-seqs 64")
        (found,) = differences(Setup().size(), other.size())
        assert found == ("--max-num-seqs", "default: 1,024", "64")

    def test_set_ups_that_are_alike_do_not_differ(self):
        assert differences(Setup().size(), Setup().size()) == ()

    @pytest.mark.parametrize(
        ("a", "b", "words"),
        [
            (0.0, 0.0, "the same"),
            (100, 101, "+1%"),
            (100, 50, "1/2 of A's"),
            (10, 144, "14 × A's"),
            (2, 0, "none in B"),
        ],
    )
    def test_changes_are_told_in_words(self, a, b, words):
        assert change(a, b) == words

    def test_the_picture_shows_the_longest_queue_first(self):
        session = finished(Setup(), Setup(flags=FP8))
        shown = session.moments[worst_moment(session)][0]
        assert shown.waiting == max(moment.waiting for moment in moments_of(session, 0))


# Pictures ---------------------------------------------------------------------------------------


class TestPictures:
    @pytest.mark.parametrize("usable", [1, 7, 240, 241, 25_481, 2_000_003])
    def test_a_map_has_a_cell_for_each_block_or_a_sample_of_them(self, usable):
        empty = finished(load=replace(BUSY, num_requests=1)).moments[0][0]
        found = cells(empty, usable)
        assert len(found) == pytest.approx(usable / blocks_per_cell(usable), abs=1)
        assert len(found) <= MOST_CELLS

    def test_cells_show_holders_in_proportion(self):
        session = finished()
        now = worst_moment(session)
        moment, usable = session.moments[now][0], session.runs[0].server.config.usable_blocks
        found = cells(moment, usable)
        held = sum("kv-share" in css or "shared" in css for css in found)
        assert held / len(found) == pytest.approx(moment.held / usable, abs=0.02)

    def test_a_hostile_trace_name_stays_text(self):
        evil = "<script>alert(1)</script>"
        request = WorkloadRequest(
            id=evil, prompt=Parts((Part(evil, 20),)), output_tokens=3, arrival_s=0.0
        )
        session = finished(load=Trace(name=evil, read=(request,)))
        every = "".join(str(result_html(session, now)) for now in range(len(session.moments)))
        assert "<script" not in every

    def test_the_picture_is_well_formed_at_every_moment(self):
        session = finished(Setup(), Setup(flags=FP8))
        for now in (0, worst_moment(session), len(session.moments) - 1):
            assert unclosed(str(result_html(session, now))) == []

    def test_the_page_is_complete_without_scripts(self):
        html = str(playground())
        assert unclosed(html) == []
        assert html.count('data-figure="a_pool"') == 1
        for words in ("Time to first token, A", "--kv-cache-dtype", "vllm serve", "Setup("):
            assert words in html
        assert len(re.findall(r"<fieldset[^>]*>", html)) == len(
            re.findall(r"<fieldset[^>]* disabled[^>]*>", html)
        )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        del attrs
        if tag not in {"input", "br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def unclosed(html):
    parser = Tags()
    parser.feed(html)
    return parser.open


# Exports ----------------------------------------------------------------------------------------


class TestExports:
    def test_the_table_holds_every_request_of_every_set_up(self):
        session = finished(Setup(), Setup(flags="--max-model-len 4096"))
        rows = list(csv.DictReader(io.StringIO(export_file(session, "csv").text)))
        assert len(rows) == 120
        assert {row["setup"] for row in rows} == {"A", "B"}
        for row, record in zip(rows, session.outcomes[0].requests, strict=False):
            assert row["id"] == record.id
            assert float(row["ttft_s"]) == record.ttft_s
        refused = [row for row in rows if row["reason"] == "refused"]
        assert refused
        assert "maximum context length" in refused[0]["refusal"]
        assert refused[0]["ttft_s"] == ""

    def test_the_document_holds_what_the_page_shows(self):
        session = finished(Setup(), Setup(flags=FP8))
        found = json.loads(export_file(session, "json").text)
        assert found["load"]["num_requests"] == 60
        a = found["setups"]["A"]
        assert a["setup"]["--gpu-memory-utilization"] == "0.9"
        assert a["figures"].keys() == {measure.name for measure in MEASURES}
        assert a["latency_s"]["queue"]["p99"] == session.outcomes[0].latency("queue").p99
        assert len(a["moments"]) == len(session.moments)

    @pytest.mark.parametrize("what", ["timeline", "latency"])
    def test_charts_are_whole_files_that_need_no_style_sheet(self, what):
        file = export_file(finished(Setup(), Setup(flags=FP8)), what)
        root = ET.fromstring(file.text)  # noqa: S314 - our own
        space = "{http://www.w3.org/2000/svg}"
        assert root.tag == f"{space}svg"
        assert root.find(f"{space}title").text
        assert "var(" not in file.text
        assert "class=" not in file.text
        lines = [path for path in root.iter(f"{space}path") if path.get("fill") == "none"]
        assert len(lines) == 8  # four panels, two set-ups
        assert "nan" not in file.text

    @pytest.mark.parametrize(
        "setup",
        [
            Setup(),
            Setup(config=json.dumps(LLAMA), memory_bytes=60e9, flags=FP8),
            Setup(gpu="l40s-48gb", flags="--max-model-len 16K --max-num-seqs 32"),
        ],
    )
    def test_the_code_runs_and_gives_the_same_figures(self, setup):
        session = finished(setup, load=SHARING)
        assert printed(code(session)) == [expected("A", session.outcomes[0])]

    def test_the_code_of_a_trace_reads_the_file_and_gives_the_same_figures(
        self, tmp_path, monkeypatch
    ):
        read = tuple(BUSY.requests())
        (tmp_path / "t's.jsonl").write_text("".join(write_workload(read)))
        session = finished(load=Trace(name="t's.jsonl", read=read, most=40, speed=3.0))
        monkeypatch.chdir(tmp_path)
        assert printed(code(session)) == [expected("A", session.outcomes[0])]

    def test_the_command_of_each_set_up_is_one_that_vllm_would_read(self):
        session = finished(Setup(), Setup(flags=FP8))
        lines = [line for line in command(session).splitlines() if line.startswith("vllm")]
        assert [parse_flags(line.split()).kv_cache_dtype for line in lines] == ["auto", "fp8"]

    def test_an_unknown_export_names_those_there_are(self):
        with pytest.raises(UsageError, match="csv, json, timeline"):
            export_file(finished(), "pdf")

    def test_every_export_can_be_made_before_the_run_has_ended(self):
        session = Session([Setup()], BUSY)
        session.step()
        assert all(export_file(session, what).text for what in EXPORTS)


def printed(program):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "playground.py", "exec"), {})
    return out.getvalue().splitlines()


def expected(letter, run):
    ttft, queue = run.latency("ttft"), run.latency("queue")
    return f"{letter} {ttft.p50} {ttft.p99} {queue.p99} {run.num_preemptions} {run.end_s}"


# Traces -----------------------------------------------------------------------------------------

MOONCAKE = "".join(
    json.dumps(
        {"timestamp": 500 * i, "input_length": 700, "output_length": 5, "hash_ids": [0, i + 1]}
    )
    + "\n"
    for i in range(300)
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "".join(
    f"2023-11-16 18:{15 + i // 60:02d}:{i % 60:02d}.5000000,{300 + i},{10}\r\n" for i in range(300)
)


def read_whole(reader):
    reader.work(never)
    return reader.trace()


class TestTraces:
    @pytest.mark.parametrize("text", [MOONCAKE, AZURE])
    @pytest.mark.parametrize("size", [1, 7, 4096])
    def test_pieces_of_any_size_and_slices_of_any_length_read_the_same(self, text, size):
        reader = TraceReader("t")
        for start in range(0, len(text), size):
            reader.add(text[start : start + size])
        slices = 0
        while not reader.is_done:
            reader.work(lambda: True)
            slices += 1
        assert slices > 3
        assert reader.share == 1.0
        assert len(reader.trace().read) == 300

    def test_a_bad_line_is_named_by_its_number(self):
        reader = TraceReader("t")
        reader.add(MOONCAKE + '{"timestamp": 1}\n')
        with pytest.raises(WorkloadError, match="line 301 has no input_length"):
            reader.work(never)

    @pytest.mark.parametrize("text", ["", "TIMESTAMP,ContextTokens,GeneratedTokens\n"])
    def test_a_trace_without_requests_is_refused(self, text):
        reader = TraceReader("t")
        reader.add(text)
        with pytest.raises(WorkloadError):
            read_whole(reader)

    def test_reading_stops_where_nothing_more_would_be_played(self, monkeypatch):
        monkeypatch.setattr("kvdocs.playground.trace.MOST_REQUESTS", 50)
        reader = TraceReader("t")
        reader.add(AZURE)
        reader.work(never)
        assert len(reader.trace().read) == 50


# The page's calls -------------------------------------------------------------------------------


def call(name, *args):
    return json.loads(getattr(browser, name)(*args))


def work(number, milliseconds=20):
    draw = False
    return call("work", number, milliseconds, draw)


@pytest.fixture
def small():
    values = {"num_requests": "30", "prompt_tokens": "500", "output_tokens": "20"}
    yield json.dumps(values)
    browser._desk = browser._Desk()


class TestCalls:
    def test_a_run_is_pumped_to_its_end_and_looked_at(self, small):
        number = call("start", small)["session"]
        assert number > 0
        answer = work(number, 0)
        assert (answer["share"], answer["done"], "html" in answer) == (0, False, False)
        while not answer["done"]:
            answer = work(number)
        assert answer["share"] == 1.0
        assert "60 of 60 requests ended" in answer["words"]
        assert call("show", number, 0)["announce"].startswith("At 0")
        assert call("show", number, 10**6)["html"]
        assert call("export", number, "csv")["name"] == "requests.csv"

    def test_steps_go_one_moment_at_a_time(self, small):
        number = call("start", small)["session"]
        assert [call("step", number)["last"] for _ in range(3)] == [1, 2, 3]

    def test_a_session_that_was_dropped_or_replaced_is_gone(self, small):
        first = call("start", small)["session"]
        second = call("start", small)["session"]
        assert work(first) == {"gone": True}
        call("drop", second)
        for name, args in (("step", ()), ("show", (0,)), ("export", ("csv",))):
            assert call(name, second, *args) == {"gone": True}

    def test_what_cannot_run_is_told_at_its_field(self, small):
        values = json.loads(small) | {"b_flags": "--gpu-memory-utilization 0.2", "rate": "x"}
        answer = call("start", json.dumps(values))
        assert answer["session"] == 0
        assert answer["errors"].keys() == {"b_flags", "rate"}
        assert answer["errors"]["b_flags"].startswith("This server does not start:")

    def test_a_bad_form_keeps_the_last_good_sizes(self):
        answer = call("form", json.dumps({"a_config": "{"}), "a_config")
        assert answer["sized"] is None
        assert "{" in answer["params"]["a_config"]
        assert answer["errors"]["a_config"]

    def test_a_trace_is_handed_over_read_and_played(self, small):
        assert call("open_trace", "t.jsonl", len(MOONCAKE)) == {"error": ""}
        browser.add_text(MOONCAKE[:1000])
        browser.add_text(MOONCAKE[1000:])
        answer = call("read_on", 0)
        assert not answer["done"]
        while not answer["done"]:
            answer = call("read_on", 20)
        assert answer["words"].startswith("t.jsonl: 300 requests over ")
        values = json.dumps(json.loads(small) | {"source": "trace", "compare": "one"})
        number = call("start", values)["session"]
        answer = work(number, 10_000)
        assert "300 of 300" in answer["words"]

    def test_a_trace_that_is_no_trace_leaves_the_form_as_it_was(self, small):
        del small
        call("open_trace", "t.csv", 10)
        browser.add_text("hello,world\n1,2\n")
        answer = call("read_on", 20)
        assert answer["done"]
        assert answer["error"].startswith("t.csv was not read: line 1")
        values = json.dumps({"source": "trace"})
        assert "no trace yet" in call("form", values)["errors"]["source"]

    def test_a_trace_given_up_is_forgotten(self, small):
        del small
        call("open_trace", "t.csv", 10)
        browser.drop_trace()
        browser.add_text("TIMESTAMP")
        assert call("read_on", 20)["error"] == "No trace is being read."


def test_every_model_of_the_catalogue_can_be_chosen():
    for name in ("deepseek-ai/DeepSeek-V3", "google/gemma-3-27b-it", "ai21labs/Jamba-v0.1"):
        assert get_model(name).id == name
        sized = Setup(model=name, gpu="b200-sxm-180gb", flags="-tp 8 --max-model-len 8192").size()
        assert sized.refusal == ""
        assert len(str(sized_html(read_form(settle({"a_model": name}))))) > 1000


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        ("--max-model-len 32768", "memory-bound"),
        ("--max-num-seqs 8", "max-num-seqs-bound"),
        ("--max-model-len 32768 --kv-cache-dtype fp8", "prefill-bound"),
    ],
)
def test_a_run_is_diagnosed_at_its_worst_moment(flags: str, verdict: str) -> None:
    session = Session([Setup(flags=flags)], Made())
    session.finish()
    told = session.runs[0].trouble.diagnosis
    assert told.verdict.value == verdict
    assert told.evidence["waiting"] >= 0.95 * max(one.waiting for (one,) in session.moments)
    assert verdict in str(result_html(session, 0))
