"""`kvdocs fit`: whether a server starts, and how many tokens and requests it holds."""

from __future__ import annotations

import difflib
from argparse import Namespace
from dataclasses import dataclass, replace
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.cli import REFUSED, weights
from kvdocs.cli.fit_output import Answer, print_answer, to_document
from kvdocs.cli.inputs import CONFIG_OR_MODEL, Subject, load_subject, only_one_stdin
from kvdocs.cli.numbers import amount_of_memory, human_bytes
from kvdocs.cli.output import print_json
from kvdocs.cli.parser import Parser, argument, nearest
from kvdocs.errors import FlagError, UsageError
from kvdocs.flags import CURRENT_VERSION, ServerFlags, flag_names, parse_flags
from kvdocs.gpu import Gpu
from kvdocs.model import KVCost, LayerKind, kv_cost
from kvdocs.model.cost import stored_cache_dtype
from kvdocs.scenario import LESSON
from kvdocs.sizing import (
    LESSON_UTILIZATION,
    Budget,
    BudgetRange,
    Capacity,
    capacity_on,
    check_flags,
    early_refusal,
    lesson_budget,
    real_budget,
)

REAL: Final = "real"
LESSON_PROFILE: Final = "lesson"
NO_BEARING: Final = {
    "--dtype": "float16",
    "--enable-chunked-prefill": "",
    "--kv-offloading-backend": "lmcache",
    "--kv-offloading-size": "8",
    "--long-prefill-token-threshold": "512",
    "--max-num-seqs": "64",
    "--scheduler-reserve-full-isl": "",
    "--scheduling-policy": "priority",
    "--swap-space": "2",
    "--watermark": "0.1",
}
"""Flags of `kvdocs.flags` that change how a server runs, not what fits here; each with a value."""
VLLM_FLAGS: Final = tuple(name for name in flag_names() if name not in NO_BEARING)
"""Flags of vLLM that bear on the answer; its other flags are accepted and change nothing."""
EPILOG: Final = (
    "Every flag of `vllm serve` is taken as it stands in your command line. These bear on the\n"
    "answer: " + " ".join(VLLM_FLAGS) + "."
)


def add_arguments(parser: Parser) -> None:
    """Say what the command takes beside vLLM's flags."""
    add_server_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(own_flags=tuple(parser.own_flags()))


def add_server_arguments(parser: Parser) -> None:
    """Add what says which server is meant, beside vLLM's flags.

    Args:
        parser: The command's parser; `own_flags` is to be set when it is complete.
    """
    parser.usage = f"{parser.prog} CONFIG_OR_MODEL --gpu GPU [vLLM's flags] [options]"
    parser.epilog = _wrapped(EPILOG)
    parser.set_defaults(takes_more=True, own_flags=None, who=parser.prog)
    parser.add_argument("--gpu", metavar="GPU", help="a GPU of `kvdocs gpus`, such as h100 or 4090")
    parser.add_argument(
        "--profile",
        choices=(REAL, LESSON_PROFILE),
        help="real: the memory CUDA reports, vLLM's defaults, overheads of public logs (default); "
        "lesson: the round numbers of the lesson (default for the lesson's own GPU)",
    )
    weights.add_arguments(parser)
    for flag, about in _OVERHEADS.items():
        parser.add_argument(flag, type=argument(amount_of_memory), metavar="BYTES", help=about)
    parser.add_argument(
        "--vllm-version",
        default=CURRENT_VERSION,
        metavar="X.Y.Z",
        help=f"the release whose defaults and flags apply (default: {CURRENT_VERSION})",
    )


_OVERHEADS: Final = {
    "--activation": "activation peak of one GPU, such as '1.5 GiB', from its start-up log",
    "--non-torch": "memory of one GPU outside torch (CUDA context, NCCL), from its start-up log",
    "--cuda-graphs": "CUDA graphs of one GPU; none when --activation and --non-torch are given",
}


def _wrapped(text: str) -> str:
    import textwrap  # noqa: PLC0415 - for --help only

    return textwrap.fill(text, width=96, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that decides the answer."""

    subject: Subject
    gpu: Gpu
    flags: ServerFlags
    profile: str
    weights: weights.Weights
    args: Namespace


def run(args: Namespace) -> int:
    """Size the server, print it, and say by the exit status whether it starts."""
    answer = _answer(read_question(args))
    if args.json:
        print_json(to_document(answer))
    else:
        print_answer(answer)
    return 0 if answer.low.starts else REFUSED


def read_question(args: Namespace) -> Question:
    """Find out which server is meant.

    Args:
        args: What a parser with `add_server_arguments` read.

    Raises:
        KvdocsError: It is not said, or cannot be read.
    """
    if args.gpu is None:
        raise UsageError("--gpu is missing; `kvdocs gpus` lists them")
    gpu = get_gpu(args.gpu)
    is_lessons = gpu is get_gpu(LESSON.gpu)
    args.profile = args.profile or (LESSON_PROFILE if is_lessons else REAL)
    flags = _server_flags(args)
    only_one_stdin(flags.model, args.weights_bytes)
    subject = load_subject(flags.model)
    known = weights.weights_of(subject, flags, args)
    return Question(subject, gpu, flags, args.profile, known, args)


def _server_flags(args: Namespace) -> ServerFlags:
    """Read vLLM's flags; the lesson's utilization comes first, so that a given one wins."""
    first = []
    if args.profile == LESSON_PROFILE:
        first = ["--gpu-memory-utilization", str(LESSON_UTILIZATION)]
    try:
        flags = parse_flags([*first, *args.more], vllm_version=args.vllm_version)
    except FlagError as error:
        raise FlagError(_with_own_flags(str(error), args)) from None
    if not flags.model:
        raise UsageError(f"the model is missing: {CONFIG_OR_MODEL}")
    return flags


def _with_own_flags(message: str, args: Namespace) -> str:
    """Offer this command's own flags too, where vLLM's parser knows none."""
    flag, _, rest = message.partition(" ")
    near = difflib.get_close_matches(flag, args.own_flags, n=1, cutoff=0.7)
    if not (near and rest.startswith("is not a flag")):
        return message
    return f"{flag} is not a flag of {args.who}{nearest(flag, args.own_flags)}"


def _answer(question: Question) -> Answer:
    flags, model = question.flags, question.subject.model
    check_flags(model, question.gpu, flags)
    span = budgets(question)
    low = _capacity(question, span.low)
    high = low if span.high == span.low else _capacity(question, span.high)
    cost = kv_cost(
        model,
        kv_cache_dtype=stored_cache_dtype(model, question.gpu, flags.kv_cache_dtype),
        tensor_parallel_size=flags.tensor_parallel_size,
        pipeline_parallel_size=flags.pipeline_parallel_size,
    )
    notes = (*model.notes, *cost.notes, *question.weights.notes, *low.notes)
    notes = (*notes, *_copy_notes(question, cost), *_gpu_notes(question))
    return Answer(
        name=question.subject.name,
        gpu=question.gpu,
        flags=flags,
        profile=question.profile,
        weights=question.weights,
        cost=cost,
        budget=span,
        low=low,
        high=high,
        notes=tuple(dict.fromkeys(notes)),
    )


def _copy_notes(question: Question, cost: KVCost) -> tuple[str, ...]:
    """Say that tensor parallelism does not divide a latent, so that the division is right."""
    flags = question.flags
    copies = flags.tensor_parallel_size // flags.decode_context_parallel_size
    if copies == 1 or not question.subject.model.group(LayerKind.LATENT):
        return ()
    size = human_bytes(cost.bytes_per_token_per_gpu)
    who = "every GPU holds" if flags.decode_context_parallel_size == 1 else f"{copies} GPUs hold"
    note = (
        f"{who} a copy of the latent: a token takes {size} on each GPU that holds it, so the "
        "tokens follow from the memory of each GPU, not of all"
    )
    return (note,)


def _gpu_notes(question: Question) -> tuple[str, ...]:
    if question.profile == LESSON_PROFILE or question.gpu.cuda_memory_bytes is not None:
        return ()
    return ("the GPU's total is what nvidia-smi shows; CUDA reports a little less",)


def _capacity(question: Question, budget: Budget) -> Capacity:
    model = question.subject.model
    planned = capacity_on(question.gpu, model, budget, question.flags)
    error = early_refusal(budget)
    return planned if error is None else planned.refused(error)


def budgets(question: Question) -> BudgetRange:
    """How each GPU's memory is divided.

    Args:
        question: The server.
    """
    if question.profile == LESSON_PROFILE:
        span = _lesson_budgets(question)
    else:
        span = real_budget(
            question.gpu, weights_bytes=question.weights.num_bytes, flags=question.flags
        )
    return _with_measured(span, question.args)


def _lesson_budgets(question: Question) -> BudgetRange:
    flags = question.flags
    if flags.cpu_offload_gb:
        raise UsageError("--cpu-offload-gb needs --profile real; the lesson has no such server")
    budget = lesson_budget(
        question.gpu,
        weights_bytes=question.weights.num_bytes,
        tensor_parallel_size=flags.world_size,
        utilization=flags.gpu_memory_utilization,
    )
    budget = replace(budget, kv_cache_memory_bytes=flags.kv_cache_memory_bytes)
    return BudgetRange(low=budget, high=budget, basis="the lesson's round numbers", sources=())


def _with_measured(span: BudgetRange, args: Namespace) -> BudgetRange:
    """Put measured terms in the place of assumed ones."""
    given = {
        "activation_bytes": args.activation,
        "non_torch_bytes": args.non_torch,
        "cuda_graph_bytes": args.cuda_graphs,
    }
    measured = {name: size for name, size in given.items() if size is not None}
    if {"activation_bytes", "non_torch_bytes"} <= set(measured):
        # vLLM's log names the graphs apart only where they count.
        measured.setdefault("cuda_graph_bytes", 0.0)
    if not measured:
        return span
    low, high = replace(span.low, **measured), replace(span.high, **measured)
    if low == high:
        return BudgetRange(low=low, high=high, basis="measured, as given", sources=())
    return replace(span, low=low, high=high)
