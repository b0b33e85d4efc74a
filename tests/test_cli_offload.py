"""`kvdocs offload`: the comparison, the run with tiers, and what is refused."""

import json

import pytest

SERVER = ("llama-3.1-8b", "--gpu", "lesson")


def documents(turns, different, *, blocks=80, every=4000):
    """A Mooncake trace: documents of 512-token blocks, asked for in turn."""
    return "".join(
        json.dumps(
            {
                "timestamp": every * turn,
                "input_length": 512 * blocks,
                "output_length": 10,
                "hash_ids": [1000 * (turn % different) + block for block in range(blocks)],
            }
        )
        + "\n"
        for turn in range(turns)
    )


@pytest.fixture
def offload(kvdocs):
    def run(*words, stdin=""):
        return kvdocs("offload", *SERVER, *words, stdin=stdin)

    return run


def test_the_table_names_every_link_and_where_it_wins(offload):
    status, out, err = offload("--tokens", "8K")
    assert (status, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["pcie5"].endswith("always")
    assert "and from 78," in lines["ethernet-25"]
    assert lines["sata3"].split()[-3:-1] == ["up", "to"]
    assert "8,192 tokens" in out


def test_bits_and_bytes_of_an_own_link_are_told_apart(offload):
    words = ("--link", "40 Gbit/s", "--link", "5 GB/s", "--link", "40Gbps", "--tokens", "8192")
    links = offload(*words, "--json").document["links"]
    # 1 GiB at 60% of 5 GB/s, after 5 µs.
    assert [link["move_s"] for link in links] == pytest.approx([2**30 / 3e9 + 5e-6] * 3)
    assert len({link["moves_from_tokens"] for link in links}) == 1
    assert links[0]["bytes"] == 2**30


def test_a_faster_link_reached_fully_crosses_earlier(offload):
    words = ("--link", "ethernet-25", "--json")
    usual = offload(*words).document["links"][0]["moves_from_tokens"]
    fully = offload(*words, "--efficiency", "link=1").document["links"][0]["moves_from_tokens"]
    assert fully < usual


def test_a_crossing_beyond_the_longest_prompt_is_null(offload):
    document = offload("--link", "ethernet-25", "--max-tokens", "8K", "--json").document
    assert document["max_tokens"] == 8192
    assert document["links"][0]["moves_from_tokens"] is None


def test_an_fp8_cache_moves_in_half_the_time(offload):
    half = offload("--link", "pcie5", "--kv-cache-dtype", "fp8", "--json").document["links"][0]
    full = offload("--link", "pcie5", "--json").document["links"][0]
    assert half["bytes"] * 2 == full["bytes"]


def test_a_tier_that_holds_the_documents_serves_them(offload):
    # 12 documents of 40,960 tokens: 491,520, the pool holds 407,712.
    words = ("--trace", "-", "--tier", "cpu=100GB@pcie5", "--json")
    document = offload(*words, stdin=documents(24, 12)).document
    cpu = document["tiers"][0]
    assert cpu["name"] == "cpu"
    assert cpu["stored_bytes"] == 12 * 40_960 * 131_072
    assert document["tier_hit_tokens"] == cpu["hit_tokens"] == cpu["loaded_bytes"] / 131_072
    assert document["tier_hit_tokens"] > 11 * 40_000
    assert document["with_tiers"]["ttft_s"]["mean"] < document["without_tiers"]["ttft_s"]["mean"]
    assert document["with_tiers"]["finished"] == document["without_tiers"]["finished"] == 24


def test_a_tier_smaller_than_the_scan_serves_nothing(offload):
    words = ("--trace", "-", "--tier", "cpu=50GB@pcie5", "--json")
    document = offload(*words, stdin=documents(36, 12)).document
    assert document["tier_hit_tokens"] == document["gpu_hit_tokens"] == 0
    assert document["optimal_hit_tokens"] > 10 * 40_960
    assert document["with_tiers"]["ttft_s"] == document["without_tiers"]["ttft_s"]


def test_a_tiers_size_is_that_of_all_ranks(offload):
    # Each of two ranks keeps half of every token: 50 GB hold the same nine documents.
    for flags in ((), ("--tensor-parallel-size", "2")):
        words = ("--trace", "-", "--tier", "cpu=50GB@pcie5", *flags, "--json")
        cpu = offload(*words, stdin=documents(24, 12)).document["tiers"][0]
        assert cpu["held_bytes"] * max(1, len(flags)) == pytest.approx(50e9, rel=0.001)
    words = ("--trace", "-", "--tier", "cpu=50GB@pcie5", "--tensor-parallel-size", "2")
    assert "tier, one rank's part" in offload(*words, stdin=documents(3, 3))[1]


def test_the_run_is_printed_for_people(offload):
    words = ("--trace", "-", "--tier", "cpu=100GB@pcie5", "--tier", "disk=1TB@nvme4")
    status, out, err = offload(*words, stdin=documents(6, 3))
    assert (status, err) == (0, "")
    assert all(word in out for word in ("cpu", "disk", "with tiers", "without", "TTFT P99"))


def test_a_server_that_does_not_start_ends_with_3(kvdocs):
    words = ("offload", "llama-3.1-70b", "--gpu", "lesson", "--tier", "cpu=1GB@pcie5")
    status, out, _ = kvdocs(*words)
    assert status == 3
    assert "does not start" in out
    assert kvdocs(*words, "--json").document["starts"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--link", "pcie9"), "no link or disk is called 'pcie9'"),
        (("--link", "0 Gbit/s"), "moves nothing"),
        (("--link", "1.2.3 GB/s"), "is no bandwidth"),
        (("--tokens", "0"), "a prompt has 1 or more"),
        (("--batch", "0"), "a batch of 0 prompts"),
        (("--tier", "cpu"), "not of the form NAME=SIZE@LINK"),
        (("--tier", "cpu=x@pcie5"), "x"),
        (("--tier", "cpu=1GB@pcie9"), "no link or disk"),
        (("--efficiency", "link=2"), "share of the peak"),
        (("--tier", "cpu=1GB@pcie5", "--blocks-per-chunk", "0"), "blocks_per_chunk is 0"),
    ],
)
def test_what_cannot_be_read_is_refused(kvdocs, words, said):
    assert said in kvdocs.refuses("offload", *SERVER, *words)
