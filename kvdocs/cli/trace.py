"""`kvdocs trace`: what a prefix cache of any size finds of a trace, and what that saves."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterable

from kvdocs.catalog import Link, get_gpu, get_link
from kvdocs.cli import OK
from kvdocs.cli.inputs import CONFIG_OR_MODEL, load_subject, only_one_stdin, shown_name
from kvdocs.cli.load import read_positive, trace_source
from kvdocs.cli.numbers import whole_number
from kvdocs.cli.parser import Parser, argument
from kvdocs.cli.trace_output import Answer, Machine, print_answer, print_document
from kvdocs.cli.twins import find_twin
from kvdocs.engine import EngineConfig
from kvdocs.errors import KvdocsError, UnitError, UsageError, WorkloadError
from kvdocs.model import kv_cost
from kvdocs.server import Server
from kvdocs.timing import RooflineTimer, Weights
from kvdocs.trace_study import STORE, VLLM, HitCurve, TraceStudy, study_trace
from kvdocs.trace_study.latency import DEFAULT_CHUNK, LinkedTier, savings
from kvdocs.trace_study.servers import simulate_pools
from kvdocs.units import parse_bytes
from kvdocs.workload import WorkloadRequest, read_trace, speed_up

_MAX_NUM_SEQS = 256  # vLLM 0.33.0's default on all but the largest GPUs
_LEAST_SHARE = 0.02


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "trace",
        metavar="FILE",
        help="a trace: Mooncake JSON lines, an Azure CSV (lengths and times only), or a kvdocs "
        "workload; - for standard input",
    )
    parser.add_argument(
        "--sizes",
        metavar="LIST",
        help="cache sizes, with commas: tokens such as 500k, or bytes such as 64GB with a --model "
        "(default: 1, 2, 5, 10 … up to where nothing is evicted)",
    )
    parser.add_argument(
        "--block-size",
        type=argument(whole_number),
        metavar="N",
        help="tokens in a block (default: the trace's own; 16 for a kvdocs workload)",
    )
    parser.add_argument(
        "--store",
        action="store_true",
        help="count as a store of prompts: the last block, though not full, is kept and found too, "
        "and outputs take no room",
    )
    parser.add_argument(
        "--num-requests", type=argument(whole_number), metavar="N", help="read the first N only"
    )
    parser.add_argument(
        "--speed-up",
        type=argument(read_positive),
        metavar="X",
        help="let requests come X times as fast; below 1 slower",
    )
    parser.add_argument("--model", metavar="MODEL", help=f"time it: {CONFIG_OR_MODEL}")
    parser.add_argument("--gpu", metavar="GPU", help="on this GPU of `kvdocs gpus`")
    parser.add_argument(
        "--tensor-parallel-size",
        "-tp",
        type=argument(whole_number),
        default=1,
        metavar="N",
        help="on so many of them (default: 1)",
    )
    parser.add_argument(
        "--kv-cache-dtype", default="auto", metavar="DTYPE", help="as vLLM takes it (default: auto)"
    )
    parser.add_argument(
        "--link",
        metavar="LINK",
        help="the cache is behind this link of the catalogue, such as pcie5; not in the GPU",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="also run a whole server with a pool of each of the --sizes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Study the trace and print what was found."""
    only_one_stdin(args.trace, args.model)
    machine = _machine(args)
    if args.simulate and (machine is None or args.sizes is None):
        raise UsageError("--simulate needs --model, --gpu and --sizes")
    if args.link is not None and machine is None:
        raise UsageError("--link needs --model and --gpu")
    link = None if args.link is None else get_link(args.link)
    given = None if args.sizes is None else _given_tokens(args.sizes, machine)
    try:
        requests = _requests(args)
        if args.simulate:
            requests = list(requests)
        study = study_trace(
            requests, block_size=args.block_size, rules=STORE if args.store else VLLM
        )
    except WorkloadError as error:
        raise UsageError(f"{shown_name(args.trace)}: {error}") from None
    answer = _answer(study, given, machine, link)
    if machine is not None and isinstance(requests, list):
        answer.servers.extend(simulate_pools(requests, _server(study, machine), answer.sizes))
    (print_document if args.json else print_answer)(answer)
    return OK


def _requests(args: Namespace) -> Iterable[WorkloadRequest]:
    """The trace's requests, read as they are asked for."""
    requests = read_trace(trace_source(args.trace))
    if args.speed_up is not None:
        requests = speed_up(requests, args.speed_up)
    return itertools.islice(requests, args.num_requests)


def _machine(args: Namespace) -> Machine | None:
    if args.model is None and args.gpu is None:
        return None
    if args.model is None or args.gpu is None:
        raise UsageError("--model and --gpu go together: a prompt's time needs both")
    subject = load_subject(args.model)
    entry = subject.entry or find_twin(subject.config)
    if entry is None:
        raise UsageError(
            f"the weights of {subject.name} are not known; name a model of `kvdocs models`, whose "
            "shapes it may share"
        )
    weights = Weights.from_entry(entry)
    timer = RooflineTimer(
        model=subject.model,
        weights=weights,
        gpu=get_gpu(args.gpu),
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
    )
    cost = kv_cost(subject.model, kv_cache_dtype=args.kv_cache_dtype)
    return Machine(name=subject.name, timer=timer, bytes_per_token=cost.bytes_per_token)


def _given_tokens(text: str, machine: Machine | None) -> list[int]:
    return [_tokens(part.strip(), machine) for part in text.split(",")]


def _tokens(text: str, machine: Machine | None) -> int:
    try:
        return whole_number(text)
    except KvdocsError as error:
        try:
            size = parse_bytes(text)
        except UnitError:
            raise UsageError(f"--sizes: {error}") from None
    if machine is None:
        raise UsageError(f"--sizes: {text!r} is in bytes; that needs a --model and a --gpu")
    if not machine.bytes_per_token:
        raise UsageError(f"--sizes: {machine.name} keeps nothing for each token; give tokens")
    return int(size / machine.bytes_per_token)


def _answer(
    study: TraceStudy, given: list[int] | None, machine: Machine | None, link: Link | None
) -> Answer:
    if not study.shares:
        return Answer(study=study, curve=None, sizes=(), machine=machine)
    curve = study.curve()
    tokens = _round_sizes(curve) if given is None else given
    sizes = tuple(size // study.block_size for size in tokens)
    if machine is None:
        return Answer(study=study, curve=curve, sizes=sizes)
    tier = None if link is None else LinkedTier(link, machine.bytes_per_token)
    saved = list(savings(study, machine.timer, [*sizes, study.num_blocks], tier=tier))
    return Answer(study=study, curve=curve, sizes=sizes, machine=machine, link=link, savings=saved)


def _round_sizes(curve: HitCurve) -> list[int]:
    """1, 2, 5, 10 … tokens, as long as each finds something that the one before does not."""
    last = curve.smallest(curve.ideal_ratio) * curve.block_size
    least, before, sizes = _LEAST_SHARE * curve.ideal_ratio, 0.0, []
    for size in (step * 10**power for power in range(16) for step in (1, 2, 5)):
        if size >= last:
            break
        found = curve.hit_ratio_at(size)
        if found > before + least:
            sizes.append(size)
            before = found
    return sizes


def _server(study: TraceStudy, machine: Machine) -> Server:
    longest = max(map(sum, zip(study.prompt_tokens, study.output_tokens, strict=True)))
    config = EngineConfig(
        block_size=study.block_size,
        max_num_seqs=_MAX_NUM_SEQS,
        max_num_batched_tokens=DEFAULT_CHUNK,
        max_model_len=longest + 1,
    )
    return Server(config=config, timer=machine.timer, model_name=machine.name)
