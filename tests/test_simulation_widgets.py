"""The widgets of running simulations: independent figures, conservation laws, exact scrubbing."""

import json
import math
import random
import re
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.widgets import block_map, length_tail, load_run, preemption, prefix_tree, slab_run
from kvdocs.widgets import recompute as recompute_module
from kvdocs.widgets.browser import update
from kvdocs.widgets.controls import Range, Steps
from kvdocs.widgets.decode_reads import DECODE_PASSES
from kvdocs.widgets.engine_run import EngineRun
from kvdocs.widgets.frame import element
from kvdocs.widgets.memory import MemoryKind
from kvdocs.widgets.registry import WIDGETS, get_widget
from kvdocs.widgets.slabs_vs_blocks import pair
from kvdocs.widgets.timeline import Timeline

SIMULATIONS = {
    name: widget
    for name, widget in WIDGETS.items()
    if any(isinstance(control, Timeline) for control in widget.controls)
}
KIB = 2**10
LESSONS = Path(__file__).resolve().parents[1] / "docs" / "lessons"


def timeline_of(widget):
    return next(control for control in widget.controls if isinstance(control, Timeline))


def figure(name, figure_name, **params):
    return get_widget(name).view(**params).figure(figure_name).value


def forget_runs():
    """Drop what the widgets have kept: the next update starts from nothing."""
    for cached in (
        block_map.run,
        length_tail.fillings,
        load_run.load_run,
        pair,
        preemption.run,
        recompute_module.seconds,
    ):
        cached.cache_clear()


@pytest.mark.parametrize("name", SIMULATIONS)
class TestEverySimulation:
    def test_a_moment_is_the_same_however_it_was_reached(self, name):
        control = timeline_of(WIDGETS[name])
        reach = range(control.minimum, control.maximum + 1, max(1, control.maximum // 9))

        def at(moment):
            return update(name, json.dumps({control.name: str(moment)}))

        forget_runs()
        played = [at(moment) for moment in reach]
        back = [at(moment) for moment in reversed(reach)][::-1]
        forget_runs()
        jumped = [at(moment) for moment in reversed(reach)][::-1]
        assert played == back == jumped

    def test_its_ends_are_drawn_and_what_lies_beyond_is_refused(self, name):
        widget = WIDGETS[name]
        control = timeline_of(widget)
        for moment in (control.minimum, control.maximum):
            assert widget.view(**{control.name: str(moment)}).title
        for bad in (str(control.maximum + 1), "-1", "1.5", "", "x", "9" * 30):
            answer = json.loads(update(name, json.dumps({control.name: bad})))
            assert answer["html"] is None
            assert f"to {control.maximum:,}" in answer["errors"][control.name]

    def test_the_static_picture_is_a_telling_moment_not_the_first(self, name):
        control = timeline_of(WIDGETS[name])
        assert control.minimum < int(control.default) < control.maximum

    def test_the_player_is_native_and_named_and_plays_only_when_asked(self, name):
        html = str(element(WIDGETS[name], ident="x", params={}))
        control = timeline_of(WIDGETS[name])
        slider = re.search(rf'<input type="range" name="{control.name}"[^>]*>', html)[0]
        assert f'aria-valuetext="{control.label} ' in slider
        for word in ("Play", "Back", "Forward"):
            assert f'<span class="kv-word">{word}</span></button>' in html
        assert "playing" not in html
        assert html.index("kv-picture") < html.index("kv-player") < html.index("kv-figures")

    def test_every_setting_of_every_control_is_drawn(self, name):
        widget = WIDGETS[name]
        for control in widget.controls:
            for value in all_settings(control):
                view = widget.view(**{control.name: value})
                assert {len(row) for row in view.table.rows} == {len(view.table.head)}
                assert len(str(view.picture)) < 40_000


def all_settings(control):
    if isinstance(control, Range):
        return [f"{control.minimum:g}", f"{control.maximum:g}"]
    if isinstance(control, Steps):
        return [str(value) for value in control.values]
    return [value for value, _ in getattr(control, "options", ())]


# --- decode-reads -------------------------------------------------------------------------------


class TestDecodeReads:
    def test_a_step_reads_every_earlier_token_and_writes_one(self):
        # Llama 3.1 8B: 128 KiB a token
        assert figure("decode-reads", "kv_read_bytes", step="20") == f"{43 * 128 * KIB:,}"
        assert figure("decode-reads", "kv_written_bytes", step="20") == f"{128 * KIB:,}"
        large = {"model": "meta-llama/Llama-3.1-70B", "prompt": "96"}
        assert figure("decode-reads", "kv_written_bytes", step="1", **large) == f"{320 * KIB:,}"

    def test_the_prefill_reads_nothing_and_writes_the_prompt(self):
        assert figure("decode-reads", "kv_read_bytes", step="0") == "0"
        assert figure("decode-reads", "kv_written_bytes", step="0") == f"{24 * 128 * KIB:,}"

    def test_the_reads_so_far_are_the_sum_of_the_steps(self):
        reads = [
            int(figure("decode-reads", "kv_read_bytes", step=str(step)).replace(",", ""))
            for step in range(DECODE_PASSES + 1)
        ]
        shown = figure("decode-reads", "kv_read_so_far", step=str(DECODE_PASSES))
        assert shown == f"{sum(reads) / 1e6:.1f}"

    def test_read_written_and_later_columns_fill_the_picture(self):
        for step in range(DECODE_PASSES + 1):
            picture = str(get_widget("decode-reads").view(step=str(step)).picture)
            columns = re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', picture)
            assert sum(float(width) for _, width in columns) == pytest.approx(960, abs=0.1)


# --- recompute ----------------------------------------------------------------------------------


class TestRecompute:
    @pytest.mark.parametrize(("prompt", "output"), [(128, 1), (512, 256), (8192, 1024)])
    def test_the_work_is_that_of_each_step_added_up(self, prompt, output):
        without = sum(prompt + made for made in range(output))
        cached = prompt + sum(1 for _ in range(1, output))
        assert recompute_module.tokens_without_cache(prompt, output) == without
        assert recompute_module.tokens_with_cache(prompt, output) == cached
        shown = figure("recompute", "work_ratio", prompt=str(prompt), output=str(output))
        assert float(shown.replace(",", "")) == pytest.approx(without / cached, abs=0.051)

    @pytest.mark.parametrize("prompt", [128, 512, 8192])
    def test_a_hundred_times_the_work_is_reached_there_and_not_a_token_before(self, prompt):
        found = int(figure("recompute", "reaches_100", prompt=str(prompt)).replace(",", ""))

        def ratio(output):
            return sum(prompt + made for made in range(output)) / (prompt + output - 1)

        assert ratio(found) >= 100 > ratio(found - 1)

    def test_the_cache_never_costs_time_and_gains_more_with_every_token(self):
        lines = recompute_module.seconds(512)
        gaps = [slow - quick for quick, slow in zip(*lines, strict=True)]
        assert gaps[0] == 0
        assert all(later >= earlier for earlier, later in pairwise(gaps))

    def test_a_decode_step_of_a_short_context_takes_as_long_as_reading_the_weights(self):
        cached = recompute_module.seconds(128).cached
        step = cached[1] - cached[0]
        # 16.06 GB less the embedding table over 0.8 x 3.35 TB/s, and 1 ms a step
        assert step == pytest.approx((16.06e9 - 1.05e9) / (0.8 * 3.35e12) + 1e-3, rel=0.02)


# --- slabs-vs-blocks ----------------------------------------------------------------------------


class TestSlabsVsBlocks:
    @pytest.mark.parametrize("max_model_len", [128, 256, 512, 1024])
    def test_every_frame_keeps_the_laws_of_memory(self, max_model_len):
        for run in pair(max_model_len):
            for step in range(121):
                frame = run.frame(step)
                places = [
                    place for extents in frame.extents.values() for e in extents for place in e
                ]
                assert len(places) == len(set(places)) == frame.usage.reserved
                assert max(places, default=0) < frame.usage.capacity == 1024
                assert frame.usage.used == sum(frame.tokens.values())
                assert frame.usage.used + frame.usage.wasted == frame.usage.reserved
                assert not set(frame.running) & set(frame.waiting)

    @pytest.mark.parametrize("max_model_len", [128, 256, 512, 1024])
    def test_slabs_never_run_more_than_fit_and_blocks_waste_less_than_one_each(self, max_model_len):
        slabs, blocks = pair(max_model_len)
        for step in range(121):
            assert len(slabs.frame(step).running) <= 1024 // max_model_len
            frame = blocks.frame(step)
            assert frame.usage.wasted < 16 * max(1, len(frame.running))

    def test_both_run_the_same_requests_and_lose_none(self):
        slabs, blocks = pair(256)
        assert slabs.asked == blocks.asked
        for run in (slabs, blocks):
            for step in range(121):
                frame = run.frame(step)
                arrived = sum(asked.arrival <= step for asked in run.asked)
                assert len(frame.running) + len(frame.waiting) + frame.finished == arrived

    def test_as_many_cells_are_drawn_as_there_are(self):
        picture = str(get_widget("slabs-vs-blocks").view().picture)
        panels = picture.split("kv-panel")[2:4]
        for panel in panels:
            cells = re.findall(r'<div class="kv-block[ "]', panel.split("kv-block-tables")[0])
            assert len(cells) == 1024 // 16

    def test_a_workload_that_fills_the_pool_makes_the_last_admitted_give_way(self):
        asked = tuple(slab_run.Asked(60, 60, 0) for _ in range(5))
        run = slab_run.SlabRun(lambda: slab_run_blocks(256), asked)
        assert run.frame(60).preempted > 0
        assert any(frame.waiting for frame in run.frames)
        ended = run.frame(400)
        assert ended.finished == len(asked)
        assert ended.usage.reserved == 0


def slab_run_blocks(capacity):
    from kvdocs.allocators import PagedAllocator  # noqa: PLC0415 - one use

    return PagedAllocator(capacity, block_size=16)


# --- block-map ----------------------------------------------------------------------------------

POOLS = [12, 16, 24, 36, 48]


class TestBlockMap:
    @pytest.mark.parametrize("num_blocks", POOLS)
    @pytest.mark.parametrize("caching", [True, False])
    def test_every_block_is_drawn_once_in_every_frame(self, num_blocks, caching):
        run = block_map.run(num_blocks, caching=caching)
        for step in range(block_map.LAST_STEP + 1):
            contents = block_map.Contents(run, step)
            frame = contents.frame
            kinds = [contents.cell(block).kind for block in range(1, num_blocks + 1)]
            held = kinds.count(MemoryKind.KV_USED) + kinds.count(MemoryKind.SHARED)
            assert held == sum(count > 0 for count in frame.ref_counts[1:])
            assert held + kinds.count(MemoryKind.KV_CACHED) + kinds.count(MemoryKind.KV_FREE) == (
                num_blocks
            )
            assert len(frame.free) == num_blocks - held
            owners = [block for table in frame.tables.values() for block in table]
            assert [owners.count(b) for b in range(1, num_blocks + 1)] == list(frame.ref_counts[1:])
            assert caching or MemoryKind.KV_CACHED not in kinds
            assert caching or MemoryKind.SHARED not in kinds

    def test_the_picture_has_a_cell_for_every_block_and_the_table_a_row(self):
        for num_blocks in POOLS:
            view = get_widget("block-map").view(num_blocks=str(num_blocks))
            cells = str(view.picture).split('class="kv-note"')[0].count('<div class="kv-block ')
            assert cells == len(view.table.rows) == num_blocks

    def test_the_next_to_be_taken_are_taken_next(self):
        run = block_map.run(24)
        for step in range(block_map.LAST_STEP):
            taken = [b for blocks in run.frame(step + 1).step.new_blocks.values() for b in blocks]
            first = list(run.frame(step).free[: len(taken)])
            hit = {b for a in run.frame(step + 1).step.admissions for b in a.hit_blocks}
            freed = bool(run.frame(step + 1).step.preemptions)
            if taken and not hit.intersection(first) and not freed:
                assert sorted(taken) == sorted(first)

    def test_a_second_turn_finds_the_first_turn_in_the_cache(self):
        told = str(get_widget("block-map").view(step="44").picture)
        assert "A+ starts: finds 64 of its tokens in the cache" in told


# --- preemption ---------------------------------------------------------------------------------


class TestPreemption:
    @pytest.mark.parametrize("num_blocks", [24, 40, 80])
    def test_the_victim_is_the_one_admitted_last(self, num_blocks):
        order: list[str] = []
        for frame in preemption.run(num_blocks, 8).frames(preemption.LAST_STEP + 1):
            for lost in frame.step.preemptions:
                assert lost.request_id == order.pop()
            order += [admission.request_id for admission in frame.step.admissions]
            for done in frame.step.finished:
                order.remove(done.request_id)

    @pytest.mark.parametrize("num_blocks", [24, 40, 56])
    def test_the_counts_are_those_of_the_events(self, num_blocks):
        victims = 0
        for step, frame in enumerate(preemption.run(num_blocks, 8).frames(120)):
            victims += len(frame.step.preemptions)
            assert frame.counters.preemptions == victims, step

    def test_tokens_computed_in_all_are_those_wanted_and_those_recomputed(self):
        run = preemption.run(40, 8)
        frames = run.frames(preemption.LAST_STEP + 1)
        assert all(status.is_finished for status in frames[-1].status.values())
        computed = sum(count for frame in frames for _, count in frame.step.scheduled)
        wanted = sum(prompt + output - 1 for prompt, output in preemption.ASKED)
        assert computed == wanted + frames[-1].recomputed
        assert frames[-1].recomputed > 0

    def test_a_pool_for_all_costs_nothing(self):
        assert figure("preemption", "lost_seconds", num_blocks="80") == "0"
        cost = get_widget("preemption").view(num_blocks="24").figure("lost_seconds")
        took, ample = re.findall(r"[\d,]+(?= ms)", cost.formula)
        whole, spare = (int(text.replace(",", "")) for text in (took, ample))
        assert int(cost.value) == whole - spare
        assert figure("preemption", "preemptions", num_blocks="80", step="180") == "0"

    def test_more_blocks_and_fewer_sequences_lead_out_of_it(self):
        counts = [
            int(figure("preemption", "preemptions", step="180", num_blocks=str(blocks)))
            for blocks in (40, 48, 56, 64)
        ]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 0
        assert figure("preemption", "preemptions", step="180", max_num_seqs="4") == "0"


# --- prefix-tree --------------------------------------------------------------------------------


class TestPrefixTree:
    @pytest.mark.parametrize("questions", [1, 2, 8, 12])
    def test_shared_blocks_are_stored_once(self, questions):
        # 2 blocks of system prompt and 6 of repository for all, 1 of its own for each question
        assert (
            figure("prefix-tree", "stored_blocks", questions=str(questions)) == f"{8 + questions}"
        )

    def test_the_hit_rate_is_that_of_seven_questions_finding_eight_blocks(self):
        hits, queries = 7 * 8 * 16, 8 * (8 * 16 + 20)
        assert figure("prefix-tree", "hit_rate") == f"{100 * hits / queries:.1f}"

    def test_a_changed_first_token_changes_every_hash(self):
        assert figure("prefix-tree", "stored_blocks", broken="all") == "72"
        assert figure("prefix-tree", "changed_hashes", broken="all") == "72"
        assert figure("prefix-tree", "hit_rate", broken="all") == "0"

    def test_a_token_in_the_middle_spares_what_stands_before_it(self):
        shared = prefix_tree.share(8, "middle")
        assert shared.changed == 8 * 7
        assert shared.stored == 2 + 8 * 7
        assert shared.hit_tokens == 7 * 2 * 16

    @pytest.mark.parametrize("broken", ["none", "one", "all", "middle"])
    def test_references_add_up_to_the_full_blocks_of_all_prompts(self, broken):
        table = get_widget("prefix-tree").view(broken=broken).table
        assert sum(int(row[2]) for row in table.rows) == 8 * 9
        assert len({row[0] for row in table.rows}) == len(table.rows)
        drawn = str(get_widget("prefix-tree").view(broken=broken).picture).split("kv-note")[0]
        assert drawn.count('<div class="kv-block ') == len(table.rows)


# --- length-tail --------------------------------------------------------------------------------


class TestLengthTail:
    def test_the_longest_request_decides_the_floor(self):
        assert figure("length-tail", "by_longest", longest="32768") == f"{407_714 // 32_768}"
        assert figure("length-tail", "by_longest", longest="131072") == "3"

    @pytest.mark.parametrize(("median", "tail", "longest"), [(4096, 8, 32768), (2048, 2, 16384)])
    def test_no_filling_holds_more_tokens_than_the_pool_or_fewer_requests_than_the_floor(
        self, median, tail, longest
    ):
        filled = length_tail.fillings(median, tail, longest)
        for number in range(1, length_tail.FILLINGS + 1):
            lengths = filled.lengths(number)
            assert sum(lengths) <= 407_714 < sum(lengths) + longest
            assert max(lengths) <= longest
            assert len(lengths) >= 407_714 // longest

    def test_the_mean_is_that_of_many_draws(self):
        distribution = length_tail.Fillings(4096, 8, 32768).distribution
        rng = random.Random(5)  # noqa: S311 - a sample, not a secret
        drawn = [
            min(max(math.exp(rng.gauss(math.log(4096), math.log(8) / 1.644854)), 128), 32768)
            for _ in range(60_000)
        ]
        assert length_tail.mean_length(distribution) == pytest.approx(mean(drawn), rel=0.02)

    def test_the_average_that_the_step_asks_about_is_the_pictures(self):
        view = get_widget("length-tail").view()
        step = next((LESSONS / "part-3").glob("11-*.md")).read_text(encoding="utf-8")
        assert view.figure("by_average").formula == "407,714 ÷ 2,220 tokens"
        assert "question: The average request has 2,220 tokens." in step

    def test_only_one_request_is_marked_as_the_longest(self):
        drawn = str(get_widget("length-tail").view().picture)
        (marked,) = re.findall(r'<path d="([^"]*)" class="kv-filled-longest"', drawn)
        assert marked.count("M") == 1

    def test_the_axis_has_round_quarters(self):
        for most in (1, 59, 99, 100, 246, 999):
            right = length_tail._right(most)
            assert right > most
            assert right % 20 == 0

    def test_fillings_that_fall_short_are_counted(self):
        view = get_widget("length-tail").view(filling="60")
        promised = int(view.figure("by_average").value)
        short = sum(int(row[1]) < promised for row in view.table.rows)
        assert view.figure("too_few").value == str(short)


# --- tensor-parallel ----------------------------------------------------------------------------


class TestTensorParallel:
    def test_the_reference_figures(self):
        assert figure("tensor-parallel", "conversations_gqa") == "48"
        assert figure("tensor-parallel", "conversations_mha") == "6"
        assert figure("tensor-parallel", "pool_bytes") == "130.8"

    def test_the_reserve_comes_out_of_the_pool_four_times(self):
        # 4 x (72 - 35.3 - 2.5 - 6) GB = 112.8 GB; over 8,192 x 327,680 B
        assert figure("tensor-parallel", "pool_bytes", reserve="6") == "112.8"
        assert figure("tensor-parallel", "conversations_gqa", reserve="6") == "42"

    def test_as_many_boxes_are_drawn_as_conversations_fit(self):
        picture = str(get_widget("tensor-parallel").view().picture)
        assert picture.count('class="kv-conversation"') == 48 + 6


# --- server-load --------------------------------------------------------------------------------

SERVER_LOAD = get_widget("server-load")
START = {"rate": "2", "prompts": "files", "output": "400", "max_num_seqs": "256"}


def play(steps, state=None):
    """Send parameters one after the other, handing each state on; return the answers."""
    answers = []
    state = SERVER_LOAD.view().state if state is None else state
    for params in steps:
        answer = json.loads(update("server-load", json.dumps(params), json.dumps(state)))
        assert answer["errors"] == {}
        state = answer["state"]
        answers.append(answer)
    return answers


class TestServerLoad:
    def test_what_is_held_adds_up_in_every_second(self):
        history = load_run.History(START, (), 0)
        now = load_run.moment(120, kv_cache_dtype="auto", history=history)
        assert now.num_blocks == 25_482 - 1  # one block is the null block
        for second in now.seconds:
            held = sum(holder.num_blocks for holder in second.holders)
            assert held / now.num_blocks == pytest.approx(second.sample.kv_cache_usage, abs=1e-9)
            assert len(second.holders) == second.sample.running
            assert 0 <= second.busy <= 1
        times = [second.sample.time_s for second in now.seconds]
        assert times == [float(each) for each in range(121)]

    def test_requests_are_conserved(self):
        history = load_run.History(START, (), 0)
        run = load_run.load_run("auto")
        simulation = run._live.at(90.0, history.changes())
        last = simulation.samples[-1]
        arrived = simulation.arrivals._count
        assert last.running + last.waiting + last.finished == arrived

    def test_the_work_is_that_of_the_tokens(self):
        """Arithmetic of a prompt-only load: 2 FLOPs a parameter and token, at half the peak."""
        start = {**START, "rate": "0.5", "output": "100", "prompts": "snippets"}
        history = load_run.History(start, (), 0)
        now = load_run.moment(200, kv_cache_dtype="auto", history=history)
        work = now.seconds[-1].work
        body = 8.03e9 - 2 * 128256 * 4096
        flops = 2 * body * work.num_tokens + 2 * 128256 * 4096 * work.num_seqs
        flops += 4 * 32 * 32 * 128 * work.query_key_pairs
        busy = sum(second.busy for second in now.seconds)
        assert busy == pytest.approx(flops / (0.5 * 989e12), rel=0.01)

    def test_whole_files_make_a_queue_while_arithmetic_idles(self):
        view = SERVER_LOAD.view()
        assert int(view.figure("waiting").value) > 50
        assert int(view.figure("kv_cache_usage").value) > 80
        assert int(view.figure("compute_busy").value) < 50
        before = SERVER_LOAD.view(second="39")
        assert before.figure("waiting").value == "0"

    def test_half_the_bytes_shorten_the_queue(self):
        fp8 = int(SERVER_LOAD.view(kv_cache_dtype="fp8").figure("waiting").value)
        assert fp8 < int(SERVER_LOAD.view().figure("waiting").value)

    def test_looking_at_another_moment_changes_nothing(self):
        answers = play([{"second": "150"}, {"second": "20"}, {"second": "150"}])
        assert answers[0] == answers[2]
        assert answers[1]["state"] == {**answers[0]["state"], "at": 20}
        assert 'value="snippets" selected' in answers[1]["html"]

    def test_a_change_counts_from_its_moment_on(self):
        changed = play([{"second": "100"}, {"second": "100", "rate": "6"}])
        state = changed[-1]["state"]
        assert state["edits"] == [[40, "prompts", "files"], [100, "rate", "6"]]
        now, then = ({"second": "130", "rate": "6"}, {"second": "99", "rate": "2"})
        later, earlier = (play([params], state)[0]["html"] for params in (now, then))
        assert earlier == play([{"second": "99"}])[0]["html"].replace("\x00", "")
        waiting = re.search(r'data-figure="waiting">([\d,]+)<', later)[1]
        unchanged = SERVER_LOAD.view(second="130").figure("waiting").value
        assert int(waiting) > int(unchanged)

    def test_a_change_in_the_past_drops_what_came_after(self):
        answers = play(
            [
                {"second": "100", "rate": "6"},
                {"second": "30", "rate": "6", "prompts": "files"},
                {"second": "30", "rate": "2", "prompts": "snippets", "output": "100"},
            ]
        )
        assert answers[-1]["state"]["edits"] == [[30, "output", "100"]]

    def test_a_change_and_its_opposite_leave_nothing(self):
        first = play([{"second": "150"}])[0]
        answers = play(
            [
                {"second": "150"},
                {"second": "150", "max_num_seqs": "8"},
                {"second": "150", "max_num_seqs": "256"},
            ]
        )
        assert answers[-1] == first

    def test_an_author_may_start_with_other_parameters(self):
        view = SERVER_LOAD.view(rate="5")
        assert view.state["start"]["rate"] == "5"
        assert view.state["edits"] == SERVER_LOAD.start["edits"]
        html = str(element(SERVER_LOAD, ident="x", params={}, state={"at": 150, "edits": []}))
        assert "&quot;edits&quot;:[]" in html

    @pytest.mark.parametrize(
        "state",
        [
            {},
            [],
            "x",
            7,
            {"at": -1, "edits": []},
            {"at": 5, "edits": [[1, "rate"]]},
            {"at": 5, "edits": [[9, "rate", "1"], [3, "rate", "2"]]},
            {"at": 5, "edits": [[9, "rate", "<b>"]]},
            {"at": 5, "edits": [[9, "rate", "nan"]]},
            {"at": 5, "edits": [[9, "gpu", "1"]]},
            {"at": 5, "edits": [[1, "rate", "1"]] * 500},
            {"at": 5, "edits": [], "start": {"rate": "1e9"}},
        ],
    )
    def test_a_state_that_is_none_is_refused(self, state):
        answer = json.loads(update("server-load", "{}", json.dumps(state)))
        assert answer["html"] is None
        assert "cannot be read" in answer["errors"]["*"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, load_run.LAST_S),
                st.sampled_from([{}, {"rate": "1"}, {"rate": "3"}, {"output": "200"}]),
            ),
            max_size=8,
        )
    )
    def test_the_controls_always_show_what_is_in_force(self, moves):
        history = load_run.History(START, (), 0)
        shown = dict(START)
        for second, change in moves:
            history = history.follow(second, {**shown, **change})
            known, shown = shown, history.in_force(second)
            for name, text in change.items():
                assert shown[name] == text or known[name] == text  # else it was only a look
            assert [edit.at for edit in history.edits] == sorted(edit.at for edit in history.edits)
            again = load_run.History.read(json.loads(json.dumps(history.write())), START)
            assert again == history


def test_an_engine_run_counts_what_is_computed_again():
    from kvdocs.engine import DistinctPrompt, EngineConfig, RequestSpec  # noqa: PLC0415

    specs = [
        RequestSpec(id=name, prompt=DistinctPrompt(30), max_tokens=40) for name in ("A", "B", "C")
    ]
    config = EngineConfig(num_blocks=9, enable_prefix_caching=False)
    frames = EngineRun(config, specs).frames(150)
    lost = sum(loss.lost_tokens for frame in frames for loss in frame.step.preemptions)
    assert frames[-1].recomputed == lost > 0
