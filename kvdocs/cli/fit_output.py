"""What `kvdocs fit` prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kvdocs.cli.numbers import human_bytes
from kvdocs.cli.output import bad, doubtful, good, heading, indent, print_notes, table
from kvdocs.cli.weights import Weights
from kvdocs.flags import ServerFlags
from kvdocs.gpu import Gpu
from kvdocs.model import KVCost
from kvdocs.sizing import Budget, BudgetRange, Capacity
from kvdocs.units import format_bytes, format_number

_NON_TORCH: Final = {"real": "non-torch (CUDA context, NCCL)", "lesson": "CUDA context"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server sized.

    Attributes:
        name: The model, as the user called it.
        gpu: The GPU.
        flags: The server's flags.
        profile: `real` or `lesson`.
        weights: The weights, and how they are known.
        cost: What one token and one sequence cost.
        budget: How each GPU's memory is divided: one budget twice, or a range.
        low: The cache with the least left for it.
        high: The cache with the most left for it.
        notes: What to know about the figures.
    """

    name: str
    gpu: Gpu
    flags: ServerFlags
    profile: str
    weights: Weights
    cost: KVCost
    budget: BudgetRange
    low: Capacity
    high: Capacity
    notes: tuple[str, ...]

    @property
    def is_range(self) -> bool:
        """Whether the two ends differ."""
        return self.low != self.high


def to_document(answer: Answer) -> dict[str, Any]:
    """The answer as plain data; where there is a range, its low end, with both ends under `range`.

    Args:
        answer: What to write.
    """
    flags, span = answer.flags, answer.budget
    document = {
        "model": answer.name,
        "gpu": answer.gpu.name,
        "num_gpus": flags.world_size * flags.data_parallel_size,
        "profile": answer.profile,
        "vllm_version": flags.vllm_version,
        "kv_cache_dtype": answer.cost.kv_cache_dtype,
        "kv_bytes_per_token": answer.cost.bytes_per_token,
        "kv_bytes_per_token_per_gpu": answer.cost.bytes_per_token_per_gpu,
        **_capacity_document(answer.low),
        "weights": {"bytes": answer.weights.num_bytes, "source": answer.weights.source},
        "budget_per_gpu": _budget_document(span.low),
        "basis": span.basis,
        "sources": list(span.sources),
        "range": None,
        "notes": list(answer.notes),
    }
    if answer.is_range:
        document["range"] = {
            name: {**_capacity_document(end), "budget_per_gpu": _budget_document(budget)}
            for name, end, budget in (
                ("low", answer.low, span.low),
                ("high", answer.high, span.high),
            )
        }
    return document


def _capacity_document(end: Capacity) -> dict[str, Any]:
    return {
        "kv_pool_bytes": end.kv_pool_bytes,
        "kv_pool_bytes_per_gpu": end.kv_pool_bytes_per_gpu,
        "kv_pool_tokens": end.kv_pool_tokens,
        "num_gpu_blocks": end.num_gpu_blocks,
        "block_size": end.block_size,
        "bytes_per_block": end.bytes_per_block,
        "kv_block_tokens": end.kv_block_tokens,
        "kv_cache_size_tokens": end.kv_cache_size_tokens,
        "max_model_len": end.max_model_len,
        "max_concurrency": end.max_concurrency,
        "max_requests": end.max_requests,
        "replicas": end.replicas,
        "starts": end.starts,
        "refusal": end.refusal,
        "max_model_len_that_fits": end.max_model_len_that_fits,
    }


def _budget_document(budget: Budget) -> dict[str, Any]:
    return {
        **asdict(budget),
        "requested_bytes": budget.requested_bytes,
        "kv_bytes": budget.kv_bytes,
    }


def print_answer(answer: Answer) -> None:
    """Print the budget as a subtraction, what the pool holds, and whether the server starts."""
    flags = answer.flags
    gpus = flags.world_size * flags.data_parallel_size
    print(heading(f"{answer.name} on {gpus} × {answer.gpu.name}"))
    print(f"vLLM {flags.vllm_version}, profile {answer.profile}\n")
    print(heading("memory of each GPU" if gpus > 1 else "memory of the GPU"))
    print(indent(table(_budget_rows(answer), header=_ends(answer), align="<>>")))
    print(f"\n{heading('KV cache')}")
    print(indent(table(_capacity_rows(answer), header=_ends(answer), align="<>>")))
    print(f"\n{_verdict(answer)}")
    print_notes([f"weights: {answer.weights.source}", *_basis(answer), *answer.notes])


def _ends(answer: Answer) -> tuple[str, ...]:
    return ("", "at least", "at most") if answer.is_range else ()


def _basis(answer: Answer) -> list[str]:
    return [f"the range rests on {answer.budget.basis}"] if answer.is_range else []


def _budget_rows(answer: Answer) -> list[list[str]]:
    low = answer.budget.low
    if low.kv_cache_memory_bytes is not None:
        name = "KV cache, set by --kv-cache-memory-bytes"
        return [_row(answer, name, lambda budget: budget.kv_bytes)]
    total = _memory(answer, low.total_bytes)
    rows = [
        _row(answer, f"  {low.utilization:g} of {total}", lambda budget: budget.requested_bytes),
        _row(answer, "- weights", lambda budget: budget.weights_bytes),
        _row(answer, "- activation peak", lambda budget: budget.activation_bytes),
        _row(answer, f"- {_NON_TORCH[answer.profile]}", lambda budget: budget.non_torch_bytes),
    ]
    if low.cuda_graph_bytes or answer.budget.high.cuda_graph_bytes:
        graphs = "- CUDA graphs and buffers"
        rows.append(_row(answer, graphs, lambda budget: budget.cuda_graph_bytes))
    return [*rows, _row(answer, "= KV cache", lambda budget: budget.kv_bytes)]


def _row(answer: Answer, name: str, size: Callable[[Budget], float]) -> list[str]:
    ends = [answer.budget.low, answer.budget.high] if answer.is_range else [answer.budget.low]
    return [name, *(_memory(answer, size(budget)) for budget in ends)]


def _memory(answer: Answer, num_bytes: float) -> str:
    """In GB for the lesson; in GiB, as vLLM's log, for a real server."""
    return format_bytes(num_bytes, "GB" if answer.profile == "lesson" else "GiB")


def _capacity_rows(answer: Answer) -> list[list[str]]:
    memory = "memory, all GPUs" if answer.flags.world_size > 1 else "memory"
    length = answer.low.max_model_len
    at_once = f"requests of {length:,} tokens" if _same_length(answer) else "longest requests"
    rows: list[tuple[str, Callable[[Capacity], str]]] = [
        (memory, lambda end: _memory(answer, end.kv_pool_bytes)),
        ("tokens", lambda end: f"{end.kv_pool_tokens:,}"),
        (f"blocks of {answer.low.block_size} tokens", lambda end: f"{end.num_gpu_blocks:,}"),
        (f"{at_once} at once", lambda end: format_number(end.max_concurrency)),
        ("longest request that fits", lambda end: f"{end.max_model_len_that_fits:,}"),
    ]
    if answer.flags.world_size > 1:
        each = "memory, each GPU"
        rows.insert(0, (each, lambda end: _memory(answer, end.kv_pool_bytes_per_gpu)))
    if answer.low.replicas > 1:
        rows.insert(0, ("copies of the server, each with", lambda end: f"{end.replicas}"))
    ends = [answer.low, answer.high] if answer.is_range else [answer.low]
    return [[name, *(show(end) for end in ends)] for name, show in rows]


def _same_length(answer: Answer) -> bool:
    return answer.low.max_model_len == answer.high.max_model_len


def _verdict(answer: Answer) -> str:
    cost = f"({human_bytes(answer.cost.bytes_per_token)} a token)"
    if answer.low.starts:
        return f"{good('The server starts')} {cost}."
    if answer.high.starts:
        return (
            f"{doubtful('The server may not start')} {cost}: at the low end of the range it says\n"
            f"{indent(str(answer.low.refusal))}"
        )
    return f"{bad('The server does not start')} {cost}. It says\n{indent(str(answer.low.refusal))}"
