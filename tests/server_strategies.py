"""Random servers and workloads for the laws of whole servers."""

from hypothesis import strategies as st

from kvdocs.engine import EngineConfig, Policy
from kvdocs.engine.timer import SteppedTimer
from kvdocs.server import LIMITS, Change
from kvdocs.timing import to_grid
from kvdocs.workload import Blocks, Part, Parts, Unshared, WorkloadRequest


class GridTimer(SteppedTimer):
    """Depends on all there is in a load; every time is a whole number of ticks."""

    def seconds(self, load):
        return to_grid(
            1 / 64
            + load.num_tokens / 512
            + load.num_seqs / 4096
            + load.kv_tokens / 2**15
            + load.query_key_pairs / 2**20
        )


@st.composite
def configs(draw, *, sliding=False):
    max_model_len = draw(st.integers(16, 150))
    chunked = draw(st.booleans() | st.just(value=True))
    max_num_seqs = draw(st.integers(1, 6))
    least = max_num_seqs if chunked else max(max_model_len, max_num_seqs)
    return EngineConfig(
        num_blocks=draw(st.integers(4, 40)),
        block_size=draw(st.sampled_from([1, 2, 4, 8])),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=draw(st.integers(least, least + 60)),
        max_model_len=max_model_len,
        enable_prefix_caching=draw(st.booleans() | st.just(value=True)),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.just(0) | st.integers(1, 16)),
        watermark=draw(st.just(0.0) | st.sampled_from([0.05, 0.3])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        policy=draw(st.sampled_from(Policy)),
        async_scheduling=draw(st.booleans()),
        sliding_window=draw(st.integers(1, 30)) if sliding else None,
    )


@st.composite
def prompts(draw, index):
    kind = draw(st.sampled_from(["unshared", "blocks", "parts"]))
    length = draw(st.integers(1, 60))
    if kind == "unshared":
        return Unshared(length)
    shared = draw(st.integers(0, length))
    if kind == "blocks":  # blocks of 8 tokens: every block size drawn divides them
        keys = [place if place < shared // 8 else 1000 * (index + 1) + place for place in range(8)]
        return Blocks(length, 8, tuple(keys[: -(-length // 8)]))
    parts = [Part("system", shared)] if shared else []
    if length > shared:
        parts.append(Part(f"own {index}", length - shared))
    return Parts(tuple(parts))


@st.composite
def conversation(draw, name, arrival):
    """Turns that quote the answers before them."""
    history, before, requests = [Part("system", draw(st.integers(1, 20)))], "", []
    for turn in range(draw(st.integers(2, 3))):
        request_id = f"{name}t{turn}"
        history.append(Part(f"{request_id} question", draw(st.integers(1, 10))))
        prompt = Parts(tuple(history), output_source=request_id)
        output = draw(st.integers(1, 20))
        requests.append(
            WorkloadRequest(
                id=request_id,
                prompt=prompt,
                output_tokens=output,
                arrival_s=arrival,
                follows=before,
                think_s=draw(st.integers(0, 64)) / 16 if before else 0.0,
            )
        )
        history.append(Part(request_id, output, prompt.num_tokens))
        before = request_id
    return requests


@st.composite
def workloads(draw):
    requests = []
    for index in range(draw(st.integers(1, 10))):
        arrival = draw(st.integers(0, 64)) / 16
        if draw(st.integers(0, 4)) == 0:
            requests += draw(conversation(f"c{index}", arrival))
        else:
            requests.append(
                WorkloadRequest(
                    id=f"r{index}",
                    prompt=draw(prompts(index)),
                    output_tokens=draw(st.integers(1, 40)),
                    arrival_s=arrival,
                )
            )
    priorities = {request.id: draw(st.integers(0, 2)) for request in requests}
    return draw(st.permutations(requests)), priorities


@st.composite
def changes(draw, config):
    """Changes of load and limits, in order of time, that vLLM would start with."""
    times = sorted(draw(st.lists(st.integers(0, 160), max_size=5)))
    batch = config.max_num_batched_tokens
    values = {
        "rate": st.sampled_from([0.0, 0.5, 2.0, 6.0]),
        "system_tokens": st.integers(0, 12),
        "max_num_seqs": st.integers(1, min(8, batch)),
        "max_num_batched_tokens": st.integers(batch, batch + 30),
        "long_prefill_token_threshold": st.integers(0, 12),
        "watermark": st.sampled_from([0.0, 0.1, 0.4]),
        "scheduler_reserve_full_isl": st.booleans(),
    }
    assert set(values) >= LIMITS
    names = [draw(st.sampled_from(sorted(values))) for _ in times]
    # a smaller batch than the most that max_num_seqs may become is tried in a test of its own
    return [
        Change(time / 16, name, draw(values[name])) for time, name in zip(times, names, strict=True)
    ]
