"""The lesson's drills: solutions pass, wrong answers get their message, for many numbers."""

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.drills.browser import check, show
from kvdocs.drills.drill import MAX_HINTS, Misconception, Outcome
from kvdocs.drills.frame import element
from kvdocs.drills.kinds import Choice, Code, Ordering, State
from kvdocs.drills.kinds.playground import Playground
from kvdocs.drills.registry import DRILLS, get_drill
from kvdocs.errors import DrillError, KvdocsError
from kvdocs.pages import drill
from kvdocs.units import parse_bytes
from kvdocs.widgets.registry import get_widget

SEEDS = range(60)
LESSONS = Path(__file__).resolve().parents[1] / "docs" / "lessons"
WIDE = ("</p><script>alert(1)</script>", '<img src=x onerror="alert(1)">')
every_drill = pytest.mark.parametrize("one", DRILLS.values(), ids=list(DRILLS))


def ask(drill_id, answer, seed=0):
    return json.loads(check(drill_id, seed, json.dumps(answer)))


@every_drill
class TestEveryDrill:
    def test_its_answer_is_right_as_the_page_sends_it(self, one):
        for seed in SEEDS:
            posed = one.pose(seed)
            verdict = posed.check(one.kind.written(posed.answer))
            assert (verdict.outcome, verdict.done) == (Outcome.RIGHT, True), (seed, verdict)

    def test_every_wrong_answer_gets_its_message(self, one):
        for seed in SEEDS:
            posed = one.pose(seed)
            for mistake in posed.misconceptions:
                verdict = posed.check(one.kind.written(mistake.answer))
                assert verdict.outcome is Outcome.WRONG, (seed, mistake.name, verdict)
                assert mistake.message in verdict.message, (seed, mistake.name, verdict)

    def test_every_misconception_tells_something_for_some_numbers(self, one):
        recorded, told = set(), set()
        for seed in SEEDS:
            posed = one.pose(seed)
            recorded |= {mistake.name for mistake in one.misconceptions(posed.params)}
            told |= {mistake.name for mistake in posed.misconceptions}
        assert recorded
        assert recorded == told

    def test_no_message_gives_the_answer_away(self, one):
        if isinstance(one.kind, (Choice, Ordering, State, Playground, Code)):
            return
        for seed in SEEDS:
            posed = one.pose(seed)
            answer = one.kind.written(posed.answer)
            for mistake in posed.misconceptions:
                assert not re.search(rf"(?<![\d.,]){re.escape(answer)}", mistake.message), seed

    def test_the_solution_names_the_answer(self, one):
        if isinstance(one.kind, (Choice, Ordering, State, Playground, Code)):
            return
        for seed in SEEDS:
            posed = one.pose(seed)
            number = one.kind.written(posed.answer).split()[0]
            assert number in "".join(map(str, posed.solution)), seed

    def test_it_has_one_to_three_hints_and_a_solution(self, one):
        for seed in SEEDS:
            posed = one.pose(seed)
            assert 1 <= len(posed.hints) <= MAX_HINTS
            assert all(posed.hints)
            assert posed.solution

    def test_another_one_draws_other_numbers_and_the_same_seed_the_same(self, one):
        posed = one.pose()
        for _ in range(10):
            other = one.pose(posed.next_seed())
            assert other.params != posed.params
            assert one.pose(other.seed).params == other.params
            posed = other

    def test_the_static_form_is_complete(self, one):
        html = str(drill(one.id))
        posed = one.pose()
        assert html.startswith(f'<kv-drill id="{one.id}" name="{one.id}" seed="0" state="static"')
        assert f"Hint {len(posed.hints)} of {len(posed.hints)}" in html
        assert "Show the solution" in html
        for part in posed.solution:
            assert str(part)[:20].split("`")[0].split("&")[0] in html

    def test_the_browser_shows_what_the_build_printed(self, one):
        shown = json.loads(show(one.id, 0))
        assert shown["html"] in str(element(one.pose(), ident="x"))
        assert shown["seed"] == 0
        assert shown["announce"] == one.pose().question

    def test_a_new_question_has_a_new_key_for_what_is_typed(self, one):
        keys = {
            re.search(r'data-key="(\w+)"', str(drill(one.id, seed=seed)))[1]
            for seed in (0, one.pose().next_seed())
        }
        assert len(keys) == 2

    @pytest.mark.parametrize("answer", ["", "  ", None, 7, [], {}, ["x"], {"model": "no"}, *WIDE])
    def test_whatever_is_sent_gets_a_verdict_and_stays_text(self, one, answer):
        told = ask(one.id, answer)
        assert told["verdict"] in {"right", "wrong", "unreadable"}
        assert told["message"]
        assert "<script" not in told["html"]
        assert "<img" not in told["html"]


@pytest.mark.parametrize(
    ("drill_id", "truth"),
    [
        # The lesson's reference figures, from its outline and vLLM's arithmetic.
        ("pool-at-another-utilization", "224,609"),  # (0.6 x 80 - 18.56) GB / 131,072 B
        ("cache-of-a-larger-model", "2.5"),
        ("bytes-per-token-from-a-config", "256 KiB"),
        ("fp8-bytes-per-token", "160 KiB"),
        ("fp8-long-conversation", "5.4 GB"),
        ("share-of-the-pool", "67"),  # 53.44 GB of 80 GB
        ("how-many-fit", "49"),
        ("where-the-memory-went", "KV pool"),
        # 1,199 stored tokens x 131,072 B; 119 is where n*256 + n(n-1)/2 passes 100 (n + 255).
        ("reads-of-the-next-token", "157.2 MB"),
        ("recompute-hundredfold", "119"),
        ("conversations-on-four-gpus", "33"),  # 130.8 GB / (12,000 x 320 KiB) = 33.3
        ("context-for-n-developers", "4,077"),  # 407,714 / 100
        ("littles-law", "540,000"),  # 3 a second x 15 s x 12,000
        ("slabs-at-the-limit", "24"),  # 407,714 / 16,384 = 24.9
        ("slabs-that-hold-a-token", "8.83"),  # 24 x 1,500 of 407,714
        (
            "blocks-of-three-requests",
            "84",
        ),  # 62.5, 15.6 and 4.1 blocks, each rounded up; added first: 83
        ("blocks-and-waste", "18"),  # 8 + 10 + 0; added first: 2
        ("read-the-start-up-line", "64 KiB"),
        ("which-flag-changed", "--max-model-len"),
        ("prefix-hit-tokens", "992"),  # 62 blocks of 16 in 1,000 tokens
        ("who-is-preempted", "B"),
        ("which-server-needs-memory", "hugo"),
        ("fp8-with-scales", "66"),  # 2 x 32 x 8 x (128 + 4) bytes
        ("fp8-step-reads", "40.8 GB"),  # 48 x 8,192 x 65,536 + 2 x (8.03e9 - 128,256 x 4,096)
        ("fp8-what-binds-next", "max-num-seqs"),
    ],
)
def test_the_lessons_own_case_has_the_known_answer(drill_id, truth):
    assert ask(drill_id, truth)["verdict"] == "right"


def test_the_order_of_four_models_is_known_from_their_papers():
    # 68.6 KiB (latent 512 + 64), 128, 320, 512 KiB: published layer counts and heads.
    order = [
        "deepseek-ai/DeepSeek-V3",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-70B",
        "meta-llama/Llama-2-7b-hf",
    ]
    assert ask("order-by-kv-per-token", order)["verdict"] == "right"


class TestNumbers:
    @pytest.mark.parametrize(
        "text",
        [
            "224,609", "224609", "224.6k", "224 609", "224\N{NO-BREAK SPACE}609 tokens",
            "2.24609e5",
            "224_609", "224'609", "~224k", "about 224,609 tokens", " 224,609 TOKENS ",
        ],
    )  # fmt: skip
    def test_a_count_is_read_as_people_write_it(self, text):
        assert ask("pool-at-another-utilization", text)["verdict"] == "right", text

    @pytest.mark.parametrize(
        "text",
        [
            "5.37 GB", "5.37GB", "5.0 GiB", "5GiB", "5Gi", "5,369 MB", "5.369e9 B", "5.37", "5.4",
            "5,368,709,120 bytes".replace("bytes", "B"), "5120 MiB", "≈ 5.37 gb",
        ],
    )  # fmt: skip
    def test_an_amount_is_read_in_any_unit(self, text):
        assert ask("fp8-long-conversation", text)["verdict"] == "right", text

    @pytest.mark.parametrize("text", ["2.5", "2.5x", "2.5 times", "2.5×", "= 2.5"])
    def test_a_ratio_is_read_as_people_write_it(self, text):
        assert ask("cache-of-a-larger-model", text)["verdict"] == "right", text

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "nothing was typed"),
            ("many", "write it like"),
            ("5,37 GB", "decimals with a point"),
            ("0,125", "decimals with a point"),
            ("5 parsecs", "allowed are"),
            ("nan", "write it like"),
            ("1e999 GB", "too large"),
            ("5 GB 3", "write it like"),
            ("9" * 100, "write it like"),
        ],
    )
    def test_what_cannot_be_read_is_told_what_is_allowed(self, text, said):
        told = ask("fp8-long-conversation", text)
        assert told["verdict"] == "unreadable"
        assert said.lower() in told["message"].lower()
        assert not told["done"]

    def test_a_word_for_a_count_is_told_what_is_asked_for(self):
        told = ask("pool-at-another-utilization", "5 GB")
        assert told["verdict"] == "unreadable"
        assert "number of tokens" in told["message"]

    @pytest.mark.parametrize("seed", range(20))
    def test_gb_for_gib_is_recognised(self, seed):
        posed = get_drill("fp8-long-conversation").pose(seed)
        told = ask(posed.drill.id, f"{posed.answer / 2**30:.4f} GB", seed)
        assert told["verdict"] == "wrong"
        assert "right in GiB, but this says GB" in told["message"]

    def test_kb_for_kib_is_recognised(self):
        told = ask("fp8-bytes-per-token", "160 KB")
        assert "right in KiB, but this says kB" in told["message"]

    def test_a_bare_number_in_the_other_unit_is_recognised(self):
        told = ask("fp8-long-conversation", "5")
        assert "a bare number is read as GB" in told["message"]

    def test_a_wrong_number_without_a_story_is_told_its_side(self):
        assert ask("how-many-fit", "47")["message"] == "Too low."
        assert ask("how-many-fit", "3k")["message"].startswith("Too high, by more than 10 times")

    def test_an_exact_count_takes_no_neighbour(self):
        assert ask("how-many-fit", "48")["verdict"] == "wrong"
        assert ask("how-many-fit", "49.0")["verdict"] == "right"

    @given(st.text(max_size=80))
    def test_no_text_breaks_it(self, text):
        told = ask("fp8-long-conversation", text)
        assert told["verdict"] in {"right", "wrong", "unreadable"}

    @given(st.floats(min_value=1e3, max_value=1e15), st.sampled_from(["GB", "GiB", "MiB", "TB"]))
    def test_what_it_prints_it_reads(self, value, unit):
        quantity = get_drill("fp8-long-conversation").kind.quantity
        text = f"{value:,.3f} {unit}"
        assert quantity.read(text) == parse_bytes(text)


class TestPredictions:
    def test_any_guess_reveals_the_truth_beside_it(self):
        told = ask("pool-at-another-utilization", "1")
        assert told["done"]
        assert ">1 token<" in told["html"]
        assert ">224,609 tokens<" in told["html"]

    def test_what_cannot_be_read_reveals_nothing(self):
        told = ask("pool-at-another-utilization", "<b>x</b>")
        assert not told["done"]
        assert "224,609" not in told["html"]
        assert "&lt;b&gt;" in told["html"]

    @pytest.mark.parametrize(
        ("guess", "verdict"),
        [("202,149", "right"), ("247,069", "right"), ("202,000", "wrong"), ("248,000", "wrong")],
    )
    def test_a_guess_within_a_tenth_is_a_hit(self, guess, verdict):
        assert ask("pool-at-another-utilization", guess)["verdict"] == verdict

    @pytest.mark.parametrize(("guess", "verdict"), [("62", "right"), ("61", "wrong")])
    def test_a_percentage_may_be_off_by_points(self, guess, verdict):
        assert ask("share-of-the-pool", guess)["verdict"] == verdict  # 66.8 % and 5 points

    def test_the_usual_wrong_guess_is_explained(self):
        # 407,714 × 0.6 / 0.9
        assert "scaled with the share" in ask("pool-at-another-utilization", "271,809")["message"]
        # 70.6 / 8.03 billion parameters
        assert "ratio of the parameters" in ask("cache-of-a-larger-model", "8.8")["message"]
        # query heads: 80 × 64 / (32 × 32)
        assert "query heads" in ask("cache-of-a-larger-model", "5")["message"]

    def test_a_wild_guess_is_told_how_far_off_it_is(self):
        assert "4.5× too high" in ask("pool-at-another-utilization", "1M")["message"]
        assert "14% too high" in ask("pool-at-another-utilization", "256k")["message"]
        below = ask("pool-at-another-utilization", "-5")
        assert (below["verdict"], below["message"][:16]) == ("unreadable", "'-5' is below 0.")


class TestChoices:
    def test_a_wrong_pick_is_ruled_out_with_its_reason_and_the_answer_kept(self):
        told = ask("where-the-memory-went", "weights")
        assert told["ruled_out"]["value"] == "weights"
        assert "16.06 GB" in told["ruled_out"]["html"]
        assert not told["done"]

    def test_every_wrong_option_has_a_reason(self):
        one = get_drill("where-the-memory-went")
        for seed in SEEDS:
            posed = one.pose(seed)
            wrong = {option.value for option in one.kind.options(posed.params)} - {posed.answer}
            assert {mistake.answer for mistake in posed.misconceptions} == wrong

    def test_no_pick_asks_for_one(self):
        assert "pick one" in ask("where-the-memory-went", "")["message"]

    def test_the_right_part_depends_on_the_model(self):
        one = get_drill("where-the-memory-went")
        assert {one.pose(seed).answer for seed in SEEDS} == {"weights", "KV pool"}


class TestOrderings:
    def test_it_never_starts_in_the_right_order(self):
        one = get_drill("order-by-kv-per-token")
        for seed in SEEDS:
            posed = one.pose(seed)
            shown = [item.value for item in one.kind.items(posed.params)]
            assert posed.check(shown).outcome is Outcome.WRONG

    def test_a_wrong_order_is_told_how_many_stand_right(self):
        posed = get_drill("order-by-kv-per-token").pose()
        first, second, third, fourth = posed.answer
        assert posed.check([first, second, fourth, third]).message.startswith("2 of 4")

    def test_the_order_of_the_parameters_is_recognised(self):
        posed = get_drill("order-by-kv-per-token").pose()
        assert "order of the parameters" in posed.check(list(posed.params.by_parameters)).message

    def test_each_item_has_two_named_buttons_off_at_the_ends(self):
        html = str(drill("order-by-kv-per-token"))
        assert html.count('<button type="button" class="kv-move"') == 8
        assert "Move DeepSeek-V3 up" in html
        assert html.count('data-move="up" aria-disabled="true"') == 1
        assert html.count('data-move="down" aria-disabled="true"') == 1

    @pytest.mark.parametrize("raw", [["a"], ["meta-llama/Llama-3.1-8B"] * 4, "x"])
    def test_a_broken_order_is_not_judged(self, raw):
        assert get_drill("order-by-kv-per-token").pose().check(raw).outcome is Outcome.UNREADABLE


class TestStates:
    def test_the_sentence_says_what_the_picture_shows(self):
        told = ask("larger-model-smaller-cache", {"model": "meta-llama/Llama-3.1-70B"})
        assert told["verdict"] == "wrong"
        assert "takes 320 KiB a token" in told["message"]
        assert "no smaller cache" in told["message"]

    def test_a_narrow_dtype_does_not_count(self):
        params = {"model": "deepseek-ai/DeepSeek-V3", "kv_cache_dtype": "fp8"}
        told = ask("larger-model-smaller-cache", params)
        assert told["verdict"] == "wrong"
        assert "back to auto" in told["message"]

    def test_deepseek_does_it(self):
        told = ask("larger-model-smaller-cache", {"model": "deepseek-ai/DeepSeek-V3"})
        assert told["verdict"] == "right"

    def test_what_the_picture_refuses_is_told_as_the_picture_does(self):
        told = ask("larger-model-smaller-cache", {"config": "<script>"})
        assert told["verdict"] == "unreadable"
        assert "does not take this" in told["message"]

    def test_a_missing_picture_is_told(self):
        assert "not on this page" in ask("larger-model-smaller-cache", "")["message"]


class TestWaysOut:
    """A refusal, preemption and a queue have several ways out; each counts and is named."""

    REFUSED: ClassVar = {"gpu_memory_utilization": "0.4"}

    @pytest.mark.parametrize(
        ("change", "way"),
        [
            ({"max_model_len": "65536"}, "by a shorter maximum length"),
            ({"max_model_len": "-1"}, "by a shorter maximum length"),
            ({"command": "--max-model-len 100000"}, "by a shorter maximum length"),
            ({"kv_cache_dtype": "fp8"}, "by smaller tokens"),
            ({"gpu_memory_utilization": "0.5"}, "by more memory"),
            ({"tensor_parallel_size": "2"}, "by more memory"),
            ({"gpu": "h200-sxm-141gb"}, "by more memory"),
            ({"command": "vllm serve Qwen/Qwen2.5-7B-Instruct"}, "by another model"),
            ({"kv_cache_dtype": "fp8", "max_model_len": "8192"}, "length and smaller tokens"),
        ],
    )
    def test_every_way_to_start_again_counts_and_is_named(self, change, way):
        told = ask("make-it-start", self.REFUSED | change)
        assert told["verdict"] == "right"
        assert way in told["message"]
        assert "There are others" in told["message"]

    @pytest.mark.parametrize("change", [{}, {"max_model_len": "131072"}, {"block_size": "64"}])
    def test_what_does_not_help_is_no_way(self, change):
        assert ask("make-it-start", self.REFUSED | change)["verdict"] == "wrong"

    def test_the_server_of_the_page_refuses_until_it_is_touched(self):
        page = next(LESSONS.glob("part-2/07-*.md")).read_text(encoding="utf-8")
        share = re.search(r'widget\("startup", gpu_memory_utilization="([\d.]+)"', page)[1]
        told = ask("make-it-start", {"gpu_memory_utilization": share})
        assert (told["verdict"], "still refuses" in told["message"]) == ("wrong", True)

    def test_every_control_of_the_solution_is_offered_and_starts_the_server(self):
        offered = {control.name: control for control in get_widget("startup").controls}
        for seed in SEEDS:
            posed = get_drill("make-it-start").pose(seed)
            text = "".join(str(part) for part in posed.drill.solution(posed.params))
            ways = re.findall(r"--([a-z-]+) ([a-z0-9]+)", text)
            names = ["max-model-len", "kv-cache-dtype", "tensor-parallel-size"]
            assert [flag for flag, _ in ways] == names
            for flag, value in ways:
                name = flag.replace("-", "_")
                assert value in dict(offered[name].options)
                change = posed.params.controls | {name: value}
                assert ask("make-it-start", change, seed=seed)["verdict"] == "right"

    def test_parameters_of_a_model_with_vision_are_said_to_be_its_text_models(self):
        shown = {"model": "google/gemma-3-12b-it"}  # 12.2 billion with its vision tower
        told = ask("larger-model-smaller-cache", shown)["message"]
        assert "11.8 billion parameters in its text model" in told
        plain = ask("larger-model-smaller-cache", {"model": "microsoft/phi-4"})["message"]
        assert "14.7 billion parameters and" in plain

    def test_every_server_that_must_start_refuses_because_of_the_length(self):
        for seed in SEEDS:
            p = get_drill("make-it-start").parameters(seed)
            assert "To serve at least one request" in p.server.capacity.refusal

    def test_a_refusal_for_want_of_any_memory_is_another_one(self):
        told = ask("make-it-refuse", {"gpu_memory_utilization": "0.2"})
        assert "another refusal" in told["message"]

    def test_a_smaller_gpu_makes_it_refuse_too(self):
        told = ask("make-it-refuse", {"gpu": "l4-24gb"})
        assert told["verdict"] == "right"

    @pytest.mark.parametrize(
        ("change", "way"),
        [
            ({"num_blocks": "64"}, "More blocks"),
            ({"max_num_seqs": "4"}, "Fewer at once"),
            ({"num_blocks": "48", "max_num_seqs": "6"}, "More blocks and fewer requests"),
        ],
    )
    def test_every_way_out_of_preemption_is_named(self, change, way):
        told = ask("drive-out-of-preemption", {"step": "180"} | change)
        assert told["verdict"] == "right"
        assert way in told["message"]

    @pytest.mark.parametrize(
        ("change", "way"),
        [
            ({"prompts": "snippets"}, "Less context"),
            ({"rate": "1"}, "Fewer arrivals"),
            ({"rate": "1.5", "kv_cache_dtype": "fp8"}, "Smaller tokens"),
        ],
    )
    def test_every_way_to_drain_the_queue_is_named(self, change, way):
        told = ask("drain-the-queue", {"second": "240"} | change)
        assert told["verdict"] == "right"
        assert way in told["message"]

    def test_each_problem_of_the_queue_has_two_ways_out(self):
        one = get_drill("drain-the-queue")
        seen = {}
        for posed in map(one.pose, SEEDS):
            seen[posed.params] = posed.seed
        assert len(seen) >= 3
        for params, seed in seen.items():
            for way in (params.way, params.other_way):
                told = ask("drain-the-queue", {"second": "240"} | dict(way), seed)
                assert told["verdict"] == "right", (params, way)

    def test_the_last_admitted_pays_whoever_needs_the_block(self):
        for seed in SEEDS:
            posed = get_drill("who-is-preempted").pose(seed)
            assert posed.answer == posed.params.names[-1]

    def test_a_changed_first_token_finds_nothing(self):
        one = get_drill("prefix-hit-tokens")
        stamped = [posed for posed in map(one.pose, SEEDS) if posed.params.case.value == "stamp"]
        assert {posed.answer for posed in stamped} == {0}

    def test_the_same_prompt_in_whole_blocks_lacks_its_last_block(self):
        one = get_drill("prefix-hit-tokens")
        whole = [
            posed
            for posed in map(one.pose, SEEDS)
            if posed.params.case.value == "same" and posed.params.length % 16 == 0
        ]
        assert whole
        assert all(posed.answer == posed.params.length - 16 for posed in whole)


class TestCode:
    def code(self, source, seed=0):
        return ask("mend-the-formula", source, seed)

    def test_what_it_starts_with_is_wrong_and_says_what_was_returned(self):
        start = get_drill("mend-the-formula").kind.start(None)
        told = self.code(start)
        assert told["verdict"] == "wrong"
        assert "returned 524,288; expected was 131,072" in told["message"]

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("def bytes_per_token(config)\n    pass", "line 1: SyntaxError"),
            ("x = 1", "no function 'bytes_per_token'"),
            ("def bytes_per_token(config):\n    return config['nope']", "line 2: KeyError"),
            ("def bytes_per_token(config):\n    return bytes_per_token(config)", "RecursionError"),
            ("import sys\nsys.exit('bye')", "line 2: SystemExit: bye"),
            ("input('?')", "EOFError: input() has nobody to ask"),
            ("def bytes_per_token(config):\n    pass", "nothing (None)"),
            ("def bytes_per_token(config):\n    return '<b>'", "'<b>' (str)"),
            ("def bytes_per_token(config):\n    return True", "returned True"),
            ("def bytes_per_token(config):\n    config.clear()\n    return 1", "returned 1;"),
            ("def bytes_per_token(config):\n    return [0] * 10**6", "…"),
            ("", "between 1 and 20,000"),
            ("#" * 20_001, "these are 20,001"),
            ("\0", "null bytes"),
        ],
    )
    def test_code_that_fails_is_told_where_and_why(self, source, said):
        told = self.code(source)
        assert told["verdict"] != "right"
        assert said in told["message"]

    def test_values_that_cannot_be_printed_or_compared_are_survived(self):
        source = (
            "class Odd:\n"
            "    def __repr__(self): raise ValueError\n"
            "    def __eq__(self, other): raise ValueError\n"
            "    __hash__ = None\n"
            "def bytes_per_token(config):\n    return Odd()"
        )
        assert "an object of type Odd (Odd)" in self.code(source)["message"]

    def test_what_is_printed_is_shown_cut_and_escaped(self):
        told = self.code("def bytes_per_token(config):\n    print('<i>' * 9999)\n    return 0")
        assert 3_000 < len(told["html"].replace("&lt;", "<").replace("&gt;", ">")) < 5_000
        assert "&lt;i&gt;&lt;i&gt;" in told["html"]
        assert "<i>" not in told["html"]


def test_an_unknown_drill_is_named_with_the_known_ones():
    with pytest.raises(DrillError, match=r"no drill is called 'nope'; there are .*bytes-per-token"):
        get_drill("nope")
    assert issubclass(DrillError, KvdocsError)


def test_a_mistake_that_hits_the_right_answer_is_not_told():
    one = get_drill("bytes-per-token-from-a-config")
    no_head_dim = next(
        one.pose(seed) for seed in SEEDS if "head_dim" not in one.pose(seed).params.shown_config
    )
    names = {mistake.name for mistake in no_head_dim.misconceptions}
    assert "took hidden size over query heads" not in names
    assert Misconception("x", 1, "y").seen is None


class TestFetching:
    def test_a_70b_prompt_over_100_gigabit_takes_what_the_sum_says(self):
        # 8,192 x 327,680 B over 12.5 GB/s, 60% of it reached
        posed = get_drill("time-to-fetch").pose()
        assert posed.answer == pytest.approx(8192 * 327_680 / 7.5e9 * 1e3)
        assert posed.check("358").outcome is Outcome.RIGHT
        assert "A byte has eight" in posed.check("44.7").message
        assert "one direction" in posed.check("179").message

    def test_the_crossing_point_is_where_both_take_as_long(self):
        posed = get_drill("when-fetching-pays").pose()
        at = posed.params.both.at(int(posed.answer))
        assert at.move_s == pytest.approx(at.recompute_s, rel=1e-3)
        assert posed.check("79k").outcome is Outcome.RIGHT

    def test_a_tier_hits_all_or_nothing_of_a_scan(self):
        one = get_drill("scan-through-a-tier")
        found = {}
        for seed in range(40):
            posed = one.pose(seed)
            fits = posed.params.working_set <= posed.params.tier_gb * 1e9
            found.setdefault(posed.answer, set()).add(fits)
        assert found == {"none": {False}, "all": {True}}
        first = one.pose().params
        assert first.best == pytest.approx(first.share, abs=1e-3)
