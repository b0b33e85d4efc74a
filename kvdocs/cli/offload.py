"""`kvdocs offload`: move KV or compute it again, and what tiers do for a server under load."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

from kvdocs.cli import OK, REFUSED, load
from kvdocs.cli.fit import Question, add_server_arguments, read_question
from kvdocs.cli.inputs import only_one_stdin
from kvdocs.cli.numbers import amount_of_memory, human_bytes, whole_number
from kvdocs.cli.output import bad, heading, indent, print_json, print_notes, table
from kvdocs.cli.parser import Parser, argument
from kvdocs.cli.simulate import add_efficiency, make_server, read_efficiency, timing_weights
from kvdocs.errors import StartError, UsageError
from kvdocs.model import KVCost, kv_cost
from kvdocs.model.cost import stored_cache_dtype
from kvdocs.offload import (
    Loading,
    MoveOrRecompute,
    Offload,
    OffloadRun,
    Route,
    Tier,
    TierTraffic,
    read_route,
    routes,
    simulate_offload,
)
from kvdocs.server import ServerRun
from kvdocs.timing import Efficiency, RooflineTimer
from kvdocs.units import format_number, format_seconds

DEFAULT_TOKENS: Final = 8192
DEFAULT_MAX_TOKENS: Final = 131_072
LATENCIES: Final = ("ttft", "itl", "e2el")


def add_arguments(parser: Parser) -> None:
    """Say what the command takes beside vLLM's flags."""
    add_server_arguments(parser)
    group = parser.add_argument_group("move or recompute")
    group.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="LINK",
        help="where KV comes from: "
        + ", ".join(route.id for route in routes())
        + ", or your own bandwidth such as '25 Gbit/s' or '3.1 GB/s' (default: all)",
    )
    group.add_argument(
        "--tokens",
        type=argument(whole_number),
        default=DEFAULT_TOKENS,
        metavar="N",
        help=f"length of the prompt whose times are shown (default: {DEFAULT_TOKENS})",
    )
    group.add_argument(
        "--max-tokens",
        type=argument(whole_number),
        metavar="N",
        help="longest prompt in which the crossing is looked for (default: what the model takes)",
    )
    group.add_argument(
        "--batch",
        type=argument(whole_number),
        default=1,
        metavar="N",
        help="prompts of that length at once (default: 1)",
    )
    group.add_argument(
        "--tier",
        action="append",
        default=[],
        metavar="NAME=SIZE@LINK",
        help="simulate a load with this tier instead, such as cpu=100GB@pcie5; nearest first. The "
        "size is that of all tensor-parallel ranks together, as with --kv-offloading-size",
    )
    group.add_argument(
        "--loading",
        choices=tuple(map(str, Loading)),
        default=str(Loading.ASYNC),
        help="async: the request waits for its KV (default, vLLM's OffloadingConnector); sync: the "
        "step does (LMCacheConnectorV1)",
    )
    group.add_argument(
        "--blocks-per-chunk",
        type=argument(whole_number),
        default=1,
        metavar="N",
        help="blocks that move together (default: 1)",
    )
    load.add_arguments(parser)
    add_efficiency(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(own_flags=tuple(parser.own_flags()))


def run(args: Namespace) -> int:
    """Compare, or simulate where tiers are given."""
    question = read_question(args)
    only_one_stdin(question.flags.model, args.weights_bytes, args.trace)
    return _simulate(args, question) if args.tier else _compare(args, question)


def _cost(question: Question) -> KVCost:
    model = question.subject.model
    return kv_cost(
        model,
        kv_cache_dtype=stored_cache_dtype(model, question.gpu, question.flags.kv_cache_dtype),
        tensor_parallel_size=question.flags.tensor_parallel_size,
    )


# Move or recompute ----------------------------------------------------------------------------


def _compare(args: Namespace, question: Question) -> int:
    limit = question.subject.model.max_model_len or DEFAULT_MAX_TOKENS
    most = args.max_tokens or question.flags.max_model_len or limit
    if args.tokens < 1 or most < 1:
        raise UsageError(f"--tokens {args.tokens}, --max-tokens {most}: a prompt has 1 or more")
    timer = RooflineTimer(
        model=question.subject.model,
        weights=timing_weights(question),
        gpu=question.gpu,
        efficiency=read_efficiency(args.efficiency),
        kv_cache_dtype=question.flags.kv_cache_dtype,
        tensor_parallel_size=question.flags.tensor_parallel_size,
    )
    chosen = [read_route(text) for text in args.link] or list(routes())
    cost = _cost(question)
    rows = [
        _row(MoveOrRecompute(timer, cost, route, batch=args.batch), args.tokens, most)
        for route in chosen
    ]
    if args.json:
        print_json(_comparison_document(args, question, rows, most))
    else:
        _print_comparison(args, question, rows, most)
    return OK


def _row(both: MoveOrRecompute, tokens: int, most: int) -> dict[str, Any]:
    at, route = both.at(tokens), both.route
    start = both.moves_from(most)
    return {
        "link": route.id,
        "name": route.name,
        "peak_bytes_per_s": route.bytes_per_s,
        "bytes": at.num_bytes,
        "move_s": at.move_s,
        "recompute_s": at.recompute_s,
        "speedup": at.speedup,
        "moves": at.moves,
        "moves_from_tokens": start if start <= most else None,
        "break_even_bytes_per_s": both.break_even_bytes_per_s(tokens),
        "stretches": [
            {"first": one.first, "last": one.last, "moves": one.moves}
            for one in both.stretches(most)
        ],
    }


def _comparison_document(
    args: Namespace, question: Question, rows: list[dict[str, Any]], most: int
) -> dict[str, Any]:
    return {
        "model": question.subject.name,
        "gpu": question.gpu.name,
        "tensor_parallel_size": question.flags.tensor_parallel_size,
        "tokens": args.tokens,
        "max_tokens": most,
        "batch": args.batch,
        "links": rows,
    }


def _print_comparison(
    args: Namespace, question: Question, rows: list[dict[str, Any]], most: int
) -> None:
    first = rows[0]
    print(heading(f"{question.subject.name} on {question.gpu.name}: move KV, or compute it again?"))
    facts = [
        ["prompt", f"{args.tokens:,} tokens" + (f" × {args.batch}" if args.batch > 1 else "")],
        ["its KV, on one GPU", human_bytes(first["bytes"])],
        ["computing it again", format_seconds(first["recompute_s"])],
        ["takes as long as", f"a link of {first['break_even_bytes_per_s'] / 1e9:,.2f} GB/s"],
    ]
    print(indent(table(facts, align="<<")))
    print()
    header = ("link", "peak", "moving", "times as fast", f"faster, up to {most:,} tokens")
    body = [
        [
            row["link"],
            f"{format_number(row['peak_bytes_per_s'] / 1e9)} GB/s",
            format_seconds(row["move_s"]),
            format_number(row["speedup"], 2),
            _where(row["stretches"], most),
        ]
        for row in rows
    ]
    print(table(body, header=header, align="<>>><"))
    print()
    print_notes(
        [
            "peaks in one direction; 60% of them is taken as reached (--efficiency link=X)",
            f"weights: {question.weights.source}",
        ]
    )


def _where(stretches: list[dict[str, Any]], most: int) -> str:
    """Where moving is faster, in words."""
    wins = [one for one in stretches if one["moves"]]
    if not wins:
        return "never"
    return " and ".join(_stretch(one["first"], one["last"], most) for one in wins)


def _stretch(first: int, last: int, most: int) -> str:
    if first == 1:
        return "always" if last == most else f"up to {last:,}"
    return f"from {first:,}" if last == most else f"{first:,} to {last:,}"


# A server with tiers --------------------------------------------------------------------------


def _tier(text: str, efficiency: Efficiency, ranks: int) -> Tier:
    """One rank's part of a tier: each keeps its share of every token."""
    name, equals, rest = text.partition("=")
    size, at, link = rest.partition("@")
    if not (name and equals and size and at and link):
        raise UsageError(f"--tier {text[:60]!r} is not of the form NAME=SIZE@LINK")
    route: Route = read_route(link)
    capacity = amount_of_memory(size) / ranks
    return Tier.over(route, capacity_bytes=capacity, name=name, efficiency=efficiency)


def _simulate(args: Namespace, question: Question) -> int:
    requests = load.read_load(args)
    efficiency, cost = read_efficiency(args.efficiency), _cost(question)
    offload = Offload(
        tiers=tuple(_tier(text, efficiency, cost.tensor_parallel_size) for text in args.tier),
        bytes_per_token=cost.bytes_per_token_per_gpu + cost.window_bytes_per_token_per_gpu,
        blocks_per_chunk=args.blocks_per_chunk,
        loading=Loading(args.loading),
    )
    try:
        server = make_server(question, requests)
    except StartError as error:
        return _refused(args, str(error))
    with_tiers = simulate_offload(server, requests, offload)
    without = server.simulate(requests, interval_s=None)
    if args.json:
        print_json(_run_document(question, with_tiers, without))
    else:
        _print_run(question, with_tiers, without)
    return OK


def _refused(args: Namespace, text: str) -> int:
    if args.json:
        print_json({"starts": False, "refusal": text})
    else:
        print(f"{bad('The server does not start')}. It says\n{indent(text)}")
    return REFUSED


def _run_document(question: Question, one: OffloadRun, without: ServerRun) -> dict[str, Any]:
    return {
        "model": question.subject.name,
        "gpu": question.gpu.name,
        "starts": True,
        "gpu_hit_tokens": one.gpu_hit_tokens,
        "asked_tokens": one.asked_tokens,
        "tier_hit_tokens": one.tier_hit_tokens,
        "tier_hit_rate": one.tier_hit_rate,
        "optimal_hit_tokens": one.optimal_hit_tokens,
        "computed_tokens": one.computed_tokens,
        "tiers": [_tier_document(tier) for tier in one.tiers],
        "with_tiers": _totals(one.run),
        "without_tiers": _totals(without),
    }


def _tier_document(tier: TierTraffic) -> dict[str, Any]:
    return {field: getattr(tier, field) for field in TierTraffic.__dataclass_fields__}


def _totals(run: ServerRun) -> dict[str, Any]:
    document: dict[str, Any] = {
        "finished": len(run.finished),
        "duration_s": run.duration_s,
        "requests_per_s": run.requests_per_s,
        "output_tokens_per_s": _per_second(run),
    }
    for name in LATENCIES:
        found = run.latency(name)
        if found is not None:
            document[f"{name}_s"] = {"p50": found.p50, "p99": found.p99, "mean": found.mean}
    return document


def _per_second(run: ServerRun) -> float:
    return run.num_output_tokens / run.duration_s if run.duration_s else 0.0


def _print_run(question: Question, one: OffloadRun, without: ServerRun) -> None:
    gpus = question.flags.world_size
    print(heading(f"{question.subject.name} on {gpus} × {question.gpu.name}, with tiers"))
    rate = f"{one.tier_hit_rate:.1%} of {one.asked_tokens:,} tokens asked for"
    facts = [
        ["hits on the GPU", f"{one.gpu_hit_tokens:,} tokens"],
        ["hits in the tiers", f"{one.tier_hit_tokens:,} tokens, {rate}"],
        ["at best, by foresight", f"{one.optimal_hit_tokens:,} tokens"],
    ]
    print(indent(table(facts, align="<<")))
    print()
    ranks = question.flags.tensor_parallel_size
    part = "tier" if ranks == 1 else "tier, one rank's part"
    header = (part, "hit tokens", "in", "out", "evicted", "held")
    print(table([_tier_cells(tier) for tier in one.tiers], header=header, align="<>>>>>"))
    print()
    both = (one.run, without)
    rows = [["output tokens/s", *(format_number(_per_second(run), 1) for run in both)]]
    rows += [
        [f"{name.upper()} {share.upper()}", *(_shown(run, name, share) for run in both)]
        for name in LATENCIES
        for share in ("p50", "p99")
    ]
    print(table(rows, header=("", "with tiers", "without"), align="<>>"))
    print()
    print_notes([f"weights: {question.weights.source}"])


def _tier_cells(tier: TierTraffic) -> list[str]:
    sizes = (tier.loaded_bytes, tier.stored_bytes, tier.evicted_bytes, tier.held_bytes)
    return [tier.name, f"{tier.hit_tokens:,}", *map(human_bytes, sizes)]


def _shown(run: ServerRun, name: str, share: str) -> str:
    found = run.latency(name)
    return "" if found is None else format_seconds(getattr(found, share))
