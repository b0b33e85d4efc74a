"""The widgets about moving KV: figures by hand, every model, the reader's own link."""

import pytest

from kvdocs.catalog import get_link, model_ids
from kvdocs.errors import ParameterError
from kvdocs.offload.tier import routes
from kvdocs.units import parse_bytes
from kvdocs.widgets.disaggregation_timeline import REQUESTS, Scene, both, stalled
from kvdocs.widgets.registry import get_widget

MOVE = get_widget("move-or-recompute")
APART = get_widget("disaggregation-timeline")


def milliseconds(figure):
    return float(figure.value.replace(",", "")) * {"µs": 1e-3, "ms": 1, "s": 1e3}[figure.unit]


class TestMoveOrRecompute:
    @pytest.mark.parametrize("link", ["pcie5", "ethernet-25", "ib-ndr"])
    @pytest.mark.parametrize("tokens", [256, 8192, 131_072])
    def test_fetching_is_bytes_over_what_is_reached_of_the_link(self, link, tokens):
        shown = milliseconds(MOVE.view(link=link, tokens=str(tokens)).figure("move"))
        expected = 131_072 * tokens / (0.6 * get_link(link).bytes_per_s) * 1e3 + 5e-3
        assert shown == pytest.approx(expected, rel=0.01, abs=0.06)

    def test_the_break_even_bandwidth_is_bytes_over_the_computing_time(self):
        view = MOVE.view(tokens="8192")
        rate = float(view.figure("break_even").value)
        seconds = milliseconds(view.figure("recompute")) / 1e3
        assert rate == pytest.approx(131_072 * 8192 / seconds / 0.6 / 1e9, rel=0.01)

    def test_the_table_changes_its_mind_at_the_crossing(self):
        view = MOVE.view(link="nvme4")
        crossing = int(view.figure("crossing").value.replace(",", ""))
        assert f"and from {crossing:,} tokens on" in view.title
        faster = {int(row[0].replace(",", "")): row[4] for row in view.table.rows}
        assert all(
            (faster[tokens] == "fetching") == (tokens >= crossing)
            for tokens in faster
            if tokens >= 512
        )
        sizes = {row[0]: row[1] for row in view.table.rows}
        assert parse_bytes(sizes["8,192"]) == 2**30

    def test_the_readers_own_link_is_read_in_bits_and_in_bytes(self):
        by_bits, by_bytes = (MOVE.view(own=own) for own in ("40 Gbit/s", "5 GB/s"))
        assert by_bits.figure("crossing") == by_bytes.figure("crossing")
        assert "your own link, 40 Gbit/s" in by_bits.title
        with pytest.raises(ParameterError, match="40 Gbit/s, or 5 GB/s"):
            MOVE.view(own="fast")

    def test_where_one_way_always_wins_it_is_said(self):
        always = MOVE.view(link="pcie5")
        assert always.title.endswith("is faster at every length")
        assert always.figure("crossing").value == "at every length"
        never = MOVE.view(own="1 Mbit/s")
        assert never.figure("crossing").value == "–"
        assert "Beyond" in never.title or "at every length" in never.title

    def test_the_slider_stops_where_the_model_does(self):
        view = MOVE.view(model="meta-llama/Llama-2-7b-hf", tokens="32768")
        assert view.params == {"tokens": "4096"}
        assert "4,096 tokens" in view.figure("move").label
        assert "takes at most 4,096 tokens" in str(view.picture)

    def test_a_model_too_large_for_the_gpus_is_named(self):
        said = "as if its weights fitted"
        assert said in str(MOVE.view(model="meta-llama/Llama-3.1-70B").picture)
        assert said not in str(MOVE.view(model="meta-llama/Llama-3.1-70B", num_gpus="4").picture)

    @pytest.mark.parametrize("model", model_ids())
    def test_every_model_of_the_catalogue_can_be_drawn(self, model):
        assert MOVE.view(model=model).title

    @pytest.mark.parametrize("route", [route.id for route in routes()])
    def test_every_link_can_be_drawn(self, route):
        assert str(MOVE.view(link=route, batch="8", num_gpus="2").picture)


class TestDisaggregationTimeline:
    def test_answers_stall_on_mixed_workers_only(self):
        split, mixed = both(Scene())
        assert stalled(split) == 0
        assert int(APART.view().figure("stalled").value) == stalled(mixed) > 0
        assert len(split.requests) == len(mixed.requests) == REQUESTS

    def test_the_parts_of_the_first_token_add_up(self):
        for one in both(Scene())[0].requests:
            there = one.first_token_s - one.received_s
            parts = one.queue_s + one.prefill_end_s - one.prefill_start_s + one.transfer_s + there
            assert there > 0
            assert parts == pytest.approx(one.ttft_s)

    def test_what_sending_adds_grows_as_the_link_slows(self):
        added = [
            both(Scene(link=link, sending="whole", rate=1.0))[0].latency("transfer").p50
            for link in ("nvlink4", "ib-ndr", "ethernet-100", "ethernet-25")
        ]
        # 4,096 tokens are 512 MiB; at one request a second none waits for the link.
        for seconds, rate in zip(added, (450e9, 50e9, 12.5e9, 3.125e9), strict=True):
            assert seconds == pytest.approx(2**29 / (0.6 * rate) + 5e-6, rel=0.01)

    def test_smaller_chunks_make_shorter_stalls(self):
        longest = [both(Scene(chunk=chunk))[1].latency("itl").longest for chunk in (512, 8192)]
        assert longest[0] < longest[1] / 3

    def test_the_same_requests_come_at_every_setting(self):
        here, there = both(Scene()), both(Scene(prefill=3, decode=1, link="pcie5"))
        assert [one.arrival_s for one in here[0].requests] == [
            one.arrival_s for one in there[1].requests
        ]
