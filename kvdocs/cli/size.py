"""`kvdocs size`: what a model keeps for every token, and for one sequence."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

from kvdocs.catalog import describe_layers
from kvdocs.cli.inputs import CONFIG_OR_MODEL, Subject, load_subject
from kvdocs.cli.numbers import exact_and_human, human_bytes, whole_number
from kvdocs.cli.output import heading, indent, print_json, print_notes, table
from kvdocs.cli.parser import Parser, argument
from kvdocs.model import KVCost, LayerGroup, kv_cost
from kvdocs.model.cost import group_token_bytes, layer_state_bytes

_LENGTHS: Final = (1024, 8192, 32768, 131072)


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument("model", metavar="CONFIG_OR_MODEL", help=CONFIG_OR_MODEL)
    parser.add_argument(
        "--tokens",
        type=argument(whole_number),
        metavar="N",
        help="length of the sequence to size: 8192, 8k (8,000) or 8K (8,192)",
    )
    parser.add_argument(
        "--kv-cache-dtype",
        default="auto",
        metavar="DTYPE",
        help="as vLLM's flag of that name (default: auto, what the checkpoint asks for)",
    )
    parser.add_argument(
        "-tp",
        "--tensor-parallel-size",
        type=argument(whole_number),
        default=1,
        metavar="N",
        help="GPUs each layer is split over",
    )
    parser.add_argument(
        "-pp",
        "--pipeline-parallel-size",
        type=argument(whole_number),
        default=1,
        metavar="N",
        help="stages the layers are spread over",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Size the model and print it."""
    subject = load_subject(args.model)
    cost = kv_cost(
        subject.model,
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
    )
    if args.json:
        print_json(_document(subject, cost, args.tokens))
    else:
        _print(subject, cost, args.tokens)
    return 0


def _document(subject: Subject, cost: KVCost, tokens: int | None) -> dict[str, Any]:
    model = subject.model
    return {
        "model": subject.name,
        "model_type": model.model_type,
        "num_layers": model.num_layers,
        "max_model_len": model.max_model_len,
        "kv_cache_dtype": cost.kv_cache_dtype,
        "tensor_parallel_size": cost.tensor_parallel_size,
        "pipeline_parallel_size": cost.pipeline_parallel_size,
        "kv_bytes_per_token": cost.bytes_per_token,
        "kv_bytes_per_token_per_gpu": cost.bytes_per_token_per_gpu,
        "window_bytes_per_token": cost.window_bytes_per_token,
        "window_bytes_per_token_per_gpu": cost.window_bytes_per_token_per_gpu,
        "window_tokens": cost.window_tokens,
        "windows": [
            {"tokens": part.tokens, "bytes_per_token": part.bytes_per_token}
            for part in cost.windows
        ],
        "constant_bytes_per_sequence": cost.constant_bytes_per_sequence,
        "constant_bytes_per_sequence_per_gpu": cost.constant_bytes_per_sequence_per_gpu,
        "kv_bytes_at_tokens": tokens,
        "kv_bytes_at": None if tokens is None else cost.sequence_bytes_at(tokens),
        "layers": [_group_document(subject, cost, group) for group in model.layers],
        "notes": [*model.notes, *cost.notes],
    }


def _group_document(subject: Subject, cost: KVCost, group: LayerGroup) -> dict[str, Any]:
    return {
        "kind": str(group.kind),
        "count": group.count,
        "num_kv_heads": group.num_kv_heads,
        "head_size": group.head_size,
        "head_size_v": group.head_size_v,
        "window": group.window,
        "bytes_per_token": _token_bytes(subject, cost, group),
        "constant_bytes": group.count * layer_state_bytes(group, 1),
    }


def _token_bytes(subject: Subject, cost: KVCost, group: LayerGroup) -> int:
    return group_token_bytes(subject.model, group, cost.kv_cache_dtype, 1, group.positions)


def _print(subject: Subject, cost: KVCost, tokens: int | None) -> None:
    print(heading(subject.name))
    print(f"layers: {describe_layers(subject.model)}")
    print(f"cache:  {cost.kv_cache_dtype}, {cost.element_bytes:g} bytes an element\n")
    print(table([*_parts(cost), *_per_gpu(cost)], align="<><"))
    print(f"\n{heading('one sequence')}")
    print(indent(table(_sequences(subject, cost, tokens), align=">>")))
    notes = [*subject.model.notes, *cost.notes]
    limit = subject.model.max_model_len
    if tokens is not None and limit is not None and tokens > limit:
        notes.append(f"the config allows {limit:,} tokens at most")
    print_notes(notes)


def _parts(cost: KVCost) -> list[list[str]]:
    rows = [["every token", *exact_and_human(cost.bytes_per_token)]]
    rows += [
        [f"each of the last {part.tokens:,} tokens", *exact_and_human(part.bytes_per_token)]
        for part in cost.windows
    ]
    if cost.constant_bytes_per_sequence:
        rows.append(["every sequence", *exact_and_human(cost.constant_bytes_per_sequence)])
    return rows


def _per_gpu(cost: KVCost) -> list[list[str]]:
    if cost.tensor_parallel_size * cost.pipeline_parallel_size == 1:
        return []
    parts = (
        ("every token, on one GPU", cost.bytes_per_token_per_gpu),
        ("a token in the window, on one GPU", cost.window_bytes_per_token_per_gpu),
        ("every sequence, on one GPU", cost.constant_bytes_per_sequence_per_gpu),
    )
    return [[name, *exact_and_human(size)] for name, size in parts if size]


def _sequences(subject: Subject, cost: KVCost, tokens: int | None) -> list[list[str]]:
    if tokens is not None:
        lengths = [tokens]
    else:
        limit = subject.model.max_model_len
        lengths = sorted({n for n in _LENGTHS if limit is None or n < limit} | {limit or 1024})
    return [
        [
            f"{n:,} tokens",
            f"{cost.sequence_bytes_at(n):,} B",
            human_bytes(cost.sequence_bytes_at(n)),
        ]
        for n in lengths
    ]
