"""`kvdocs gpus`: the GPUs of the catalogue."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from kvdocs.catalog import GpuRow, gpu_rows
from kvdocs.cli.output import print_json, table
from kvdocs.cli.parser import Parser
from kvdocs.units import format_bytes, format_number

_BF16 = "bf16 (fp16 where there is none)"
_HEADER = ("gpu", "name", "as sold", "nvidia-smi", "CUDA", "bandwidth", _BF16, "fp8")


def add_arguments(parser: Parser) -> None:
    """Say what the command takes."""
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


def run(args: Namespace) -> int:
    """Print the GPUs."""
    rows = gpu_rows()
    if args.json:
        print_json([asdict(row) for row in rows])
    else:
        print(table([_cells(row) for row in rows], header=_HEADER, align="<<>>>>>>"))
    return 0


def _cells(row: GpuRow) -> list[str]:
    return [
        row.id,
        row.name,
        format_bytes(row.memory_bytes, "GB"),
        format_bytes(row.nvidia_smi_memory_bytes, "GiB"),
        format_bytes(row.cuda_memory_bytes, "GiB") if row.cuda_memory_bytes else "",
        f"{format_number(row.memory_bandwidth_bytes_per_s / 1e12)} TB/s",
        _teraflops(row.dense_bf16_flops),
        _teraflops(row.dense_fp8_flops) if row.dense_fp8_flops else "",
    ]


def _teraflops(flops: float) -> str:
    return f"{format_number(flops / 1e12, 0)} TFLOPS"
