"""`kvdocs simulate`: a workload on a server, from arrival to the last token."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields

from kvdocs.cli import OK, REFUSED, load
from kvdocs.cli.fit import Question, add_server_arguments, budgets, read_question
from kvdocs.cli.inputs import only_one_stdin
from kvdocs.cli.output import bad, indent, print_json
from kvdocs.cli.parameters import count_parameters
from kvdocs.cli.parser import Parser, argument
from kvdocs.cli.progress import Progress
from kvdocs.cli.simulate_output import PRINTERS, Result
from kvdocs.cli.twins import find_twin
from kvdocs.errors import ConfigError, StartError, UsageError
from kvdocs.server import EngineKind, Server, start_server
from kvdocs.timing import Efficiency, Weights
from kvdocs.workload import WorkloadRequest, summarize


def add_arguments(parser: Parser) -> None:
    """Say what the command takes beside vLLM's flags."""
    add_server_arguments(parser)
    load.add_arguments(parser)
    add_efficiency(parser)
    parser.add_argument(
        "--engine",
        choices=tuple(map(str, EngineKind)),
        default=str(EngineKind.JUMPING),
        help="jumping: from decision to decision (default); stepping: one step at a time, with the "
        "same result",
    )
    parser.add_argument(
        "--interval",
        type=argument(load.read_positive),
        default=1.0,
        metavar="S",
        help="seconds between samples of the metrics in the JSON document (default: 1)",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--csv", action="store_true", help="print CSV: one row a request")
    shown.add_argument("--metrics", action="store_true", help="print the metrics page at the end")
    shown.add_argument("--log", action="store_true", help="print the log's statistics lines")
    shown.add_argument("--explain", metavar="ID", help="tell the story of one request, such as r7")
    parser.set_defaults(own_flags=tuple(parser.own_flags()))


def add_efficiency(parser: Parser) -> None:
    """Add the flag that says what of the peak figures is reached.

    Args:
        parser: A command's parser.
    """
    parser.add_argument(
        "--efficiency",
        action="append",
        default=[],
        metavar="NAME=X",
        help="share of a peak figure that is reached, or seconds that are spent: "
        + ", ".join(f"{field.name} ({field.default})" for field in fields(Efficiency)),
    )


def run(args: Namespace) -> int:
    """Simulate, and print what was asked for."""
    question = read_question(args)
    only_one_stdin(question.flags.model, args.weights_bytes, args.trace)
    requests = load.read_load(args)
    try:
        server = make_server(question, requests)
    except StartError as error:
        return _refused(args, str(error))
    with Progress(len(requests)) as progress:
        result = server.simulate(
            requests,
            engine=EngineKind(args.engine),
            interval_s=args.interval,
            watch=() if args.explain is None else (args.explain,),
            on_end=progress.show,
        )
    name = next((name for name in PRINTERS if getattr(args, name, None)), "summary")
    PRINTERS[name](Result(question=question, server=server, run=result))
    return OK


def _refused(args: Namespace, text: str) -> int:
    if args.json:
        print_json({"starts": False, "refusal": text})
    else:
        print(f"{bad('The server does not start')}. It says\n{indent(text)}")
    return REFUSED


def make_server(question: Question, requests: list[WorkloadRequest]) -> Server:
    """Start the server that is meant.

    Args:
        question: The server, and `--efficiency` among its arguments.
        requests: What will come; their mean length decides how mixed layers are counted.

    Raises:
        StartError: It would not start.
        UsageError: An efficiency that is none.
    """
    summary = summarize(requests)
    typical = (summary.prompt_tokens + summary.output_tokens) // summary.num_requests
    return start_server(
        question.subject.model,
        question.gpu,
        question.flags,
        available=budgets(question).low,
        weights=timing_weights(question),
        efficiency=read_efficiency(question.args.efficiency),
        typical_tokens=typical,
        model_name=question.subject.name,
    )


def read_efficiency(given: list[str]) -> Efficiency:
    """Read `--efficiency NAME=X`, given any number of times.

    Raises:
        UsageError: Not of that form.

    Examples:
        >>> read_efficiency(["link=0.9"]).link
        0.9
    """
    allowed = [field.name for field in fields(Efficiency)]
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name not in allowed or not equals:
            raise UsageError(
                f"--efficiency {text[:40]!r} is not of the form NAME=X; names are "
                f"{', '.join(allowed)}"
            )
        try:
            values[name] = float(value)
        except ValueError:
            raise UsageError(f"--efficiency {name}: {value[:30]!r} is not a number") from None
    return Efficiency(**values)


def timing_weights(question: Question) -> Weights:
    """The parameters as the timing needs them: from the catalogue, counted, or by their bytes.

    Args:
        question: The server.
    """
    subject, size = question.subject, question.weights.num_bytes
    entry = subject.entry or find_twin(subject.config)
    if entry is not None:
        return Weights.from_entry(entry, weight_bytes=size)
    config = subject.config.get("text_config", subject.config)
    try:
        total = count_parameters(config)
    except ConfigError:
        return Weights(num_parameters=int(size // 2), num_active_parameters=int(size // 2))
    experts = {
        name: config["num_experts_per_tok"]
        for name in ("num_local_experts", "num_experts")
        if name in config and "num_experts_per_tok" in config
    }
    active = count_parameters({**config, **experts}) if experts else total
    return Weights.from_config(
        config, num_parameters=total, num_active_parameters=active, weight_bytes=size
    )
