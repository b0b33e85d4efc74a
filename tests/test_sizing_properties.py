"""Properties of capacity that hold for any model, memory and length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvdocs.errors import KvdocsError
from kvdocs.flags import ServerFlags
from kvdocs.model import parse_config
from kvdocs.sizing import capacity, capacity_case
from kvdocs.units import GIB
from tests.model_facts import model_facts

MODELS = [parse_config(fact["config"]) for fact in model_facts()]
models = st.sampled_from(MODELS)
memory = st.floats(-1, 120).map(lambda gib: int(gib * GIB))
lengths = st.integers(1, 1024)


def pool_of(model, available, **flags):
    return capacity(model, available, ServerFlags(**flags))


@given(models, memory, lengths)
def test_blocks_are_whole_and_fit_the_memory(model, available, length):
    pool = pool_of(model, available, max_model_len=length)
    assert pool.num_gpu_blocks * pool.bytes_per_block <= max(available, 0)
    if pool.starts:
        assert (pool.num_gpu_blocks + 1) * pool.bytes_per_block > available
        assert pool.max_concurrency >= 1
        assert pool.refusal is None
    else:
        assert pool.refusal
        assert pool.num_gpu_blocks == 0


@given(models, memory, memory, lengths)
def test_more_memory_never_holds_less(model, first, second, length):
    less, more = sorted((first, second))
    small, large = (pool_of(model, size, max_model_len=length) for size in (less, more))
    assert small.num_gpu_blocks <= large.num_gpu_blocks
    assert small.max_model_len_that_fits <= large.max_model_len_that_fits


@given(models, memory, lengths, lengths)
def test_longer_requests_never_fit_more_often(model, available, first, second):
    short, long = sorted((first, second))
    few = pool_of(model, available, max_model_len=long)
    many = pool_of(model, available, max_model_len=short)
    assert few.max_concurrency <= many.max_concurrency


@given(models, memory)
def test_the_longest_that_fits_starts_and_one_more_does_not(model, available):
    longest = pool_of(model, available, max_model_len=1).max_model_len_that_fits
    if longest:
        assert pool_of(model, available, max_model_len=longest).starts
    if longest < (model.max_model_len or 1):
        assert not pool_of(model, available, max_model_len=longest + 1).starts


@given(models, memory, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 3]))
def test_any_split_is_planned_or_refused(model, available, tensor, pipeline):
    try:
        pool = pool_of(
            model,
            available,
            max_model_len=512,
            tensor_parallel_size=tensor,
            pipeline_parallel_size=pipeline,
        )
    except KvdocsError:
        return
    assert pool.num_gpu_blocks * pool.bytes_per_block <= max(available, 0)


@st.composite
def cases(draw):
    shape = {
        "kv_heads": draw(st.sampled_from([1, 2, 8])),
        "head_size": draw(st.sampled_from([64, 128, 256])),
        "dtype": draw(st.sampled_from(["bfloat16", "fp8"])),
        "block_size": 16,
    }
    layers = [{"type": "full", "n": draw(st.integers(1, 40)), **shape}]
    if draw(st.booleans()):
        window = draw(st.sampled_from([128, 1024]))
        layers.append({"type": "swa", "n": draw(st.integers(1, 60)), "window": window, **shape})
    return {
        "name": "drawn",
        "max_model_len": draw(st.integers(1, 200_000)),
        "auto_fit": draw(st.booleans()),
        "workers": [{"available_bytes": draw(memory), "layers": layers}],
    }


@given(cases())
def test_any_case_gets_blocks_or_an_error_and_its_log(case):
    answer = capacity_case(case)
    assert ("error" in answer) != ("num_blocks" in answer)
    if "num_blocks" in answer:
        assert answer["tensor_bytes"][0] <= case["workers"][0]["available_bytes"]
        assert answer["log"][-1].startswith("GPU KV cache size: ")
        assert answer["max_model_len"] <= case["max_model_len"]
