"""Hits of every cache size in one pass: textbook figures, plain simulation, whole servers."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.engine import ConstantTimer, EngineConfig
from kvdocs.errors import WorkloadError
from kvdocs.server import Server
from kvdocs.timing import Efficiency
from kvdocs.trace_study import STORE, VLLM, Rules, simulate_lru, study_in_slices, study_trace
from kvdocs.trace_study.fenwick import Fenwick
from kvdocs.trace_study.latency import LinkedTier, savings
from kvdocs.trace_study.reuse import reuse, working_set
from kvdocs.trace_study.rules import reference
from kvdocs.trace_study.servers import simulate_pools
from kvdocs.trace_study.spread import spread, weighted_spread
from kvdocs.trace_study.stack import Chains
from kvdocs.workload import Blocks, Part, Parts, Unshared, WorkloadRequest, read_trace

BLOCK = 4


def request(index, prompt, output=1, arrival=None):
    return WorkloadRequest(
        id=f"r{index}",
        prompt=prompt,
        output_tokens=output,
        arrival_s=float(index if arrival is None else arrival),
    )


def pages(text):
    """A textbook's reference string: each request asks for one block."""
    return [request(i, Blocks(BLOCK, BLOCK, (int(page),))) for i, page in enumerate(text.split())]


# --- textbooks ----------------------------------------------------------------------------------

BELADY = "1 2 3 4 1 2 5 1 2 3 4 5"
"""L. A. Belady, R. A. Nelson, G. S. Shedler, CACM 12(6), 1969; LRU faults as in any textbook."""
SILBERSCHATZ = "7 0 1 2 0 3 0 4 2 3 0 3 2 1 2 0 1 7 0 1"
"""Silberschatz, Galvin, Gagne, Operating System Concepts, chapter on virtual memory."""


@pytest.mark.parametrize(
    ("text", "frames", "faults"),
    [
        (BELADY, 1, 12),
        (BELADY, 3, 10),
        (BELADY, 4, 8),
        (BELADY, 5, 5),
        (SILBERSCHATZ, 3, 12),
        (SILBERSCHATZ, 6, 6),
    ],
)
def test_faults_are_those_of_the_textbooks(text, frames, faults):
    study = study_trace(pages(text), rules=STORE)
    assert len(text.split()) - study.curve().hit_tokens(frames) // BLOCK == faults


def test_stack_distances_are_those_written_down_by_hand():
    study = study_trace(pages("1 2 3 3 2 1 1"), rules=STORE)
    found = [[run.above + 1 for run in study.runs_of(i)] for i in range(study.num_requests)]
    assert found == [[], [], [], [1], [2], [3], [1]]


def test_a_block_behind_a_missing_one_is_no_hit():
    system, other = Blocks(9, BLOCK, (1, 2)), Blocks(9, BLOCK, (3, 4))
    study = study_trace([request(0, system), request(1, other), request(2, system)])
    assert [study.curve().hit_tokens(size) for size in range(6)] == [0, 0, 0, 4, 8, 8]


# --- against plain simulation -------------------------------------------------------------------


def by_hand(requests, num_blocks, rules):
    """The definition, in lists: what is kept, most recent first, and leading blocks found."""
    kept, found = [], []
    for place, one in enumerate(requests):
        keys, lookups, private = reference(one, BLOCK, rules)
        chain = [tuple(keys[: end + 1]) for end in range(len(keys))]
        hits = 0
        while hits < lookups and chain[hits] in kept:
            hits += 1
        found.append(min(hits * BLOCK, one.num_prompt_tokens))
        used = [*chain, *(("private", place, i) for i in range(private))]
        kept = [*used, *(block for block in kept if block not in used)][:num_blocks]
    return found


@st.composite
def keyed(draw):
    """A prompt of some blocks; few keys, so that much is shared, also after other histories."""
    keys = draw(st.lists(st.integers(0, 2), max_size=5))
    return Blocks(len(keys) * BLOCK + draw(st.integers(1, BLOCK - 1)), BLOCK, (*keys, 9))


@st.composite
def quoting(draw):
    """A turn of one of two conversations, each turn as long as it likes."""
    who = draw(st.sampled_from("ab"))
    parts = (Part("system", 6), Part(who, draw(st.integers(1, 13))))
    return Parts(parts, output_source=draw(st.sampled_from(["", who])))


prompts = st.one_of(keyed(), quoting(), st.builds(Unshared, st.integers(1, 14)))
loads = st.lists(st.tuples(prompts, st.integers(1, 9)), min_size=1, max_size=14).map(
    lambda pairs: [request(i, prompt, output) for i, (prompt, output) in enumerate(pairs)]
)
all_rules = st.builds(
    Rules, keep_outputs=st.booleans(), keep_partial=st.booleans(), compute_last=st.booleans()
)


@given(loads, all_rules)
def test_one_pass_equals_plain_simulation_at_every_size(requests, rules):
    study = study_trace(requests, block_size=BLOCK, rules=rules)
    if not study.shares:
        return
    curve = study.curve()
    for size in range(study.num_blocks + 2):
        expected = by_hand(requests, size, rules)
        assert list(study.hit_tokens(size)) == expected, size
        assert curve.hit_tokens(size) == sum(expected), size
        simulated = simulate_lru(requests, size, block_size=BLOCK, rules=rules)
        assert list(simulated) == expected, size


@given(loads, all_rules)
def test_more_room_never_finds_less(requests, rules):
    keyed_too = [*requests, request(99, Blocks(BLOCK, BLOCK, (1,)))]
    study = study_trace(keyed_too, block_size=BLOCK, rules=rules)
    found = list(study.curve().found)
    assert found == sorted(found)
    assert found[-1] <= study.curve().prompt_tokens


@given(loads)
def test_every_use_of_a_block_is_counted_once(requests):
    study = study_trace(requests, block_size=BLOCK)
    asked = [reference(one, BLOCK, VLLM) for one in requests]
    used = [len(one.keys) + one.num_private for one in asked]
    for index, expected in enumerate(used):
        again = sum(run.num_blocks for run in study.runs_of(index))
        assert again + study.new_blocks[index] == expected
    assert sum(study.last_used) == sum(study.new_blocks) == study.num_blocks


@given(st.lists(st.tuples(keyed(), st.integers(1, 9)), min_size=1, max_size=10))
def test_a_server_that_answers_one_at_a_time_lies_between_two_neighbouring_sizes(pairs):
    # While it runs, a request holds one block that is not full: room for one block less.
    chains = Chains()  # the server takes keys at their word, so they must stand for all before
    requests = [
        request(
            i, Blocks(p.num_tokens, BLOCK, tuple(chains.numbers(p.keys))), output, arrival=1000 * i
        )
        for i, (p, output) in enumerate(pairs)
    ]
    study = study_trace(requests, block_size=BLOCK)
    config = EngineConfig(block_size=BLOCK, max_model_len=1000)
    server = Server(config=config, timer=ConstantTimer(0.25))
    longest = max(-(-(p.num_tokens + output) // BLOCK) for p, output in pairs)
    sizes = range(longest, study.num_blocks + 3)
    for result in simulate_pools(requests, server, sizes):
        asked = sum(one.num_prompt_tokens for one in requests)
        low, high = (study.curve().hit_tokens(result.num_blocks - less) for less in (1, 0))
        assert result.refused == 0
        assert low <= round(result.hit_ratio * asked) <= high


# --- sums that grow -----------------------------------------------------------------------------


@given(st.lists(st.integers(-9, 9)), st.lists(st.tuples(st.integers(0, 30), st.integers(-9, 9))))
def test_sums_are_those_of_a_list(values, changes):
    sums, plain = Fenwick(), []
    for value in values:
        sums.append(value)
        plain.append(value)
        for index, change in changes:
            if index < len(plain):
                sums.add(index, change)
                plain[index] += change
    assert len(sums) == len(plain)
    assert [sums.sum_of(n) for n in range(len(plain) + 1)] == [
        sum(plain[:n]) for n in range(len(plain) + 1)
    ]


# --- what is refused, and what cannot be told ---------------------------------------------------


def test_a_trace_without_hashes_has_lengths_but_no_hit_ratio():
    study = study_trace([request(0, Unshared(100)), request(1, Unshared(50))])
    assert list(study.prompt_tokens) == [100, 50]
    for ask in (study.curve, lambda: list(study.hit_tokens(9)), lambda: reuse(study)):
        with pytest.raises(WorkloadError, match="Azure"):
            ask()


def test_a_prompt_without_hashes_takes_up_room_in_a_trace_with_them():
    kept = Blocks(9, BLOCK, (1, 2))
    study = study_trace([request(0, kept), request(1, Unshared(40)), request(2, kept)])
    assert study.curve().smallest(study.curve().ideal_ratio) == 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: study_trace([]), "no requests"),
        (lambda: study_trace(pages("1"), block_size=3), "cuts across"),
        (lambda: study_trace(pages("1"), block_size=2, rules=STORE), "leave the block size out"),
        (lambda: study_trace(pages("1")).curve().hit_tokens(-1), "-1 blocks"),
        (lambda: study_trace(pages("1")).curve().smallest(0.5), "no cache finds 50.00%"),
        (lambda: list(simulate_lru([], -1, block_size=4, rules=VLLM)), "-1 blocks"),
        (lambda: reuse(study_trace(pages("1 2"))), "used twice"),
        (lambda: working_set(study_trace(pages("1 2")), 0), "above 0"),
        (lambda: working_set(study_trace(pages("1")), 1), "at the same time"),
        (lambda: spread([]), "nothing"),
        (lambda: list(simulate_pools(pages("1"), SERVER, [0])), "0 blocks"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(WorkloadError, match=message):
        call()


def test_slices_tell_how_far_they_are_and_give_the_same_study():
    requests = pages(BELADY)
    steps = study_in_slices(iter(requests), every=5)
    assert [next(steps), next(steps)] == [5, 10]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == study_trace(requests)


# --- reuse and working set ----------------------------------------------------------------------


def test_reuse_is_counted_by_block():
    long, short = Blocks(17, BLOCK, (1, 2, 3, 4)), Blocks(9, BLOCK, (1, 2))
    found = reuse(study_trace([request(0, long), request(2, short), request(5, long)]))
    assert (found.num_blocks, found.used_once) == (4, 0)
    assert found.seconds.count == found.distance_tokens.count == 6
    assert found.seconds.mean == pytest.approx((2 * 2 + 2 * 3 + 2 * 5) / 6)
    assert found.distance_tokens.largest == 16


@given(loads, st.floats(0.5, 20))
def test_the_working_set_is_what_a_clock_would_count(requests, window):
    study = study_trace([*requests, request(len(requests), Unshared(BLOCK))], block_size=BLOCK)
    at, last = [], {}
    for index, one in enumerate(requests):
        keys, _, private = reference(one, BLOCK, VLLM)
        chain = [tuple(keys[: end + 1]) for end in range(len(keys))]
        for block in (*chain, *(("private", index, place) for place in range(private))):
            at.append((last.get(block), index))
            last[block] = index
    stays = sum(min(window, now - before) for before, now in at if before is not None)
    stays += sum(min(window, len(requests) - when) for when in last.values())
    assert working_set(study, window) == pytest.approx(stays / len(requests))


def test_a_percentile_is_a_figure_that_occurs():
    found = weighted_spread([(10.0, 1), (1.0, 98), (5.0, 1)])
    assert (found.p50, found.p95, found.p99, found.largest) == (1.0, 1.0, 5.0, 10.0)
    assert found.count == 100


# --- latency ------------------------------------------------------------------------------------


class OneSecondAToken:
    def prefill_time(self, tokens, *, cached=0, max_num_batched_tokens=None):
        assert cached < tokens
        assert max_num_batched_tokens == 8192
        return float(tokens - cached)


class Link:
    bytes_per_s = 100.0


def test_what_is_saved_is_what_was_found():
    prompt = Blocks(9, BLOCK, (1, 2))
    study = study_trace([request(0, prompt), request(1, prompt)])
    none, half, all_of_it = savings(study, OneSecondAToken(), [0, 1, 2])
    assert (none.saved_s, none.ttft_s.mean, none.hit_ratio) == (0, 9, 0)
    assert (half.saved_s, half.ttft_s.mean) == (2, 7)
    assert (all_of_it.saved_s, all_of_it.ttft_s.largest) == (4, 9)
    assert all_of_it.hit_ratio == 8 / 18


def test_a_prompt_found_whole_still_computes_its_last_token():
    study = study_trace(pages("1 1"), rules=STORE)
    (saving,) = savings(study, OneSecondAToken(), [1])
    assert saving.ttft_s.mean == (4 + 1) / 2


def test_a_tier_takes_time_to_read():
    prompt = Blocks(9, BLOCK, (1, 2))
    study = study_trace([request(0, prompt), request(1, prompt)])
    slow = LinkedTier(Link(), 50.0, Efficiency(link=0.5, link_latency_s=3.0))
    (saving,) = savings(study, OneSecondAToken(), [2], tier=slow)
    assert saving.ttft_s.largest == (9 - 8) + 3 + 8 * 50 / (100 * 0.5)
    assert saving.saved_s == (9 - 12) / 2


SERVER = Server(config=EngineConfig(block_size=BLOCK), timer=ConstantTimer(0.25))


def test_a_server_counts_what_would_never_fit():
    big = request(1, Unshared(BLOCK * 50))
    results = list(simulate_pools([request(0, Unshared(9)), big], SERVER, [10, 60]))
    assert [(one.finished, one.refused) for one in results] == [(1, 1), (2, 0)]


# --- the public traces, where they are at hand --------------------------------------------------

PUBLIC = {
    "mooncake_conversation_trace.jsonl": (12031, 0.3736, 0.3734, 0.3664, 0.0554, 0.2935, 0.3708),
    "mooncake_synthetic_trace.jsonl": (3993, 0.6512, 0.6504, 0.6396, 0.1492, 0.5822, 0.6512),
}
"""Requests; ideal ratios by tokens, with and without blocks that are not full, and by blocks; and
ratios with room for 1,024,000, 10,240,000 and 51,200,000 tokens. Another program found them.
`KVDOCS_TRACES=folder pytest tests/test_trace_study.py` checks them against the files in a folder.
"""

if "KVDOCS_TRACES" in os.environ:
    FOLDER = Path(os.environ["KVDOCS_TRACES"])

    @pytest.mark.parametrize("name", PUBLIC)
    def test_a_public_trace_is_found_as_another_program_found_it(name):
        requests, with_partial, full_only, by_blocks, *at_sizes = PUBLIC[name]
        store = study_trace(read_trace(FOLDER / name), rules=STORE)
        curve = store.curve()
        assert store.num_requests == requests
        assert round(curve.ideal_ratio, 4) == with_partial
        sizes = (1_024_000, 10_240_000, 51_200_000)
        assert [round(curve.hit_ratio_at(size), 4) for size in sizes] == at_sizes
        hits = sum(run.num_blocks for i in range(requests) for run in store.hits_of(i))
        assert round(hits / sum(store.lookups), 4) == by_blocks
        server = study_trace(read_trace(FOLDER / name)).curve()
        assert round(server.ideal_ratio, 4) == full_only

    @pytest.mark.parametrize("name", PUBLIC)
    def test_the_page_says_what_a_public_trace_gives(name):
        page = (Path(__file__).parents[1] / "docs/reference/trace-study.md").read_text("utf-8")
        study = study_trace(read_trace(FOLDER / name))
        store = study_trace(read_trace(FOLDER / name), rules=STORE).curve()
        curve = study.curve()
        room = [curve.smallest(share * curve.ideal_ratio) * 512 for share in (0.5, 0.9)]
        shares = [curve.ideal_ratio, store.ideal_ratio]
        means = [spread(lengths).mean for lengths in (study.prompt_tokens, study.output_tokens)]
        cells = [f"{study.num_requests:,}", *(f"{mean:,.0f}" for mean in means)]
        cells += [*(f"{share:.2%}" for share in shares), *(f"{tokens:,}" for tokens in room)]
        assert f"| {' | '.join(cells)} |" in page

    def test_the_page_says_what_whole_servers_found(kvdocs):
        page = (Path(__file__).parents[1] / "docs/reference/trace-study.md").read_text("utf-8")
        trace = str(FOLDER / "mooncake_synthetic_trace.jsonl")
        words = ("trace", trace, "--sizes", "2m", "--model", "llama-3.1-8b", "--gpu", "h100")
        for speed in ("0.1", "0.3", "1"):
            found = kvdocs(*words, "--simulate", "--speed-up", speed, "--json").document
            assert f"{found['servers'][0]['hit_ratio']:.2%}" in page
        assert f"curve gives {found['caches'][0]['hit_ratio']:.2%}" in page
