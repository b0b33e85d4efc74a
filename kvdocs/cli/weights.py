"""How many bytes of weights a server loads, and how that is known."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import CatalogModel
from kvdocs.cli.files import FILES, FileKind
from kvdocs.cli.inputs import STDIN, Subject, read_bytes, shown_name
from kvdocs.cli.numbers import amount_of_memory
from kvdocs.cli.parameters import count_parameters, is_quantized, why_not_counted
from kvdocs.cli.parser import Parser, argument
from kvdocs.cli.twins import find_twin, has_16_bit_weights
from kvdocs.errors import UnitError, UsageError
from kvdocs.flags import ServerFlags
from kvdocs.scenario import weights_bytes
from kvdocs.units import format_number, parse_count

INDEX_NAME: Final = "model.safetensors.index.json"
_MAX_INDEX: Final = 200_000_000
_HOW: Final = (
    "give --weights-bytes: what the log line `Model loading took … GiB` says, times the GPUs, or "
    f"the path of the checkpoint's {INDEX_NAME}"
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a whole model.

    Attributes:
        num_bytes: Their bytes, all GPUs together.
        source: How they are known.
        notes: What to know about them.
    """

    num_bytes: float
    source: str
    notes: tuple[str, ...] = ()


def add_arguments(parser: Parser) -> None:
    """Add the flags that say what the weights are."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--weights-bytes",
        metavar="BYTES",
        help="all weights, such as 16060000000, '15 GiB', or the path of "
        "model.safetensors.index.json",
    )
    group.add_argument(
        "--num-parameters",
        type=argument(parse_count),
        metavar="N",
        help="parameters, such as 8.03B; 2 bytes each are counted",
    )


def weights_of(subject: Subject, flags: ServerFlags, args: Namespace) -> Weights:
    """Find out how many bytes the weights take.

    In this order: what the command line says, the index beside the config, the catalogue, a count
    from the config.

    Args:
        subject: The model.
        flags: The server's flags; `--quantization` changes weights.
        args: `weights_bytes`, `num_parameters` and `profile`.

    Raises:
        UsageError: Nothing tells.
    """
    if args.weights_bytes is not None:
        return _given(args.weights_bytes)
    if args.num_parameters is not None:
        return _from_count(args.num_parameters, subject, flags)
    beside = subject.folder / INDEX_NAME if subject.folder else None
    _check_unquantized(subject, flags)
    if beside is not None and FILES.get().kind(str(beside)) is FileKind.FILE:
        return Weights(read_index(str(beside)), f"total_size of {shown_name(str(beside))}")
    if subject.entry is not None:
        return _from_catalogue(subject.entry, profile=args.profile, name="the catalogue")
    return _from_config(subject, profile=args.profile)


def _given(text: str) -> Weights:
    try:
        size = amount_of_memory(text)
    except UnitError as error:
        if (
            text == STDIN
            or text.endswith(".json")
            or FILES.get().kind(text) is not FileKind.NOTHING
        ):
            return Weights(read_index(text), f"total_size of {shown_name(text)}")
        raise UsageError(f"--weights-bytes: {error}; or name a {INDEX_NAME}") from None
    _check_positive(size, f"--weights-bytes {text}")
    return Weights(size, "as given")


def _check_positive(value: float, what: str) -> None:
    if value < 1:
        raise UsageError(f"{what} is below 1, the least that makes a model")


def read_index(name: str) -> int:
    """Read the bytes of all weights from a checkpoint's index.

    Args:
        name: Path of `model.safetensors.index.json`, or `-`.

    Raises:
        UsageError: It cannot be read, or names no size.
    """
    shown = shown_name(name)
    try:
        size = json.loads(read_bytes(name, most=_MAX_INDEX))["metadata"]["total_size"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{shown} is no {INDEX_NAME}: it has no metadata.total_size") from None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(f"{shown}: metadata.total_size is no number of bytes")
    return size


def _from_count(count: float, subject: Subject, flags: ServerFlags) -> Weights:
    _check_positive(count, f"--num-parameters {count:g}")
    _check_unquantized(subject, flags)
    if is_quantized(subject.config):
        raise UsageError(
            "--num-parameters counts 2 bytes each, but this model's weights are quantized; " + _HOW
        )
    return Weights(round(2 * count), f"{format_number(count)} parameters of 2 bytes")


def _check_unquantized(subject: Subject, flags: ServerFlags) -> None:
    """Refuse `--quantization` where the weights are known as stored, which is not so."""
    entry = subject.entry
    stored = is_quantized(subject.config) or (entry is not None and not has_16_bit_weights(entry))
    if flags.quantization is not None and not stored:
        raise UsageError(
            f"--quantization {flags.quantization} changes the size of weights stored in 16 bit; "
            + _HOW
        )


def _from_catalogue(entry: CatalogModel, *, profile: str, name: str) -> Weights:
    notes = ("the weights are the language model's; a vision or audio part comes on top",)
    nested = "text_config" in entry.config
    if profile == "lesson":
        size, basis = weights_bytes(entry), "parameters to three digits"
    else:
        size, basis = entry.weight_bytes, entry.weight_basis
    return Weights(size, f"{name}: {basis}", notes if nested else ())


def _from_config(subject: Subject, *, profile: str) -> Weights:
    """Count, if that is exact; else find a catalogue model of the same shapes."""
    config = subject.config
    reason = "its weights are quantized" if is_quantized(config) else why_not_counted(config)
    if not reason:
        return _counted(count_parameters(config), profile=profile)
    twin = find_twin(config)
    if twin is None:
        raise UsageError(f"the weights of {subject.name} are not known: {reason}; {_HOW}")
    return _from_catalogue(twin, profile=profile, name=f"as {twin.id}, which has the same shapes")


def _counted(count: int, *, profile: str) -> Weights:
    if profile == "lesson":
        rounded = int(float(f"{count:.2e}"))
        return Weights(
            2 * rounded, f"{rounded:,} parameters (counted, to three digits), 2 bytes each"
        )
    return Weights(2 * count, f"{count:,} parameters counted from the config, 2 bytes each")
