"""`nvidia-smi`: the machine's GPUs, their memory, and who holds it.

Laid out as drivers of 2024 and later do. What this machine does not simulate (temperature, power,
fan) is N/A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.errors import TerminalError
from kvdocs.terminal.command import Call, Command, near
from kvdocs.terminal.machine import Machine
from kvdocs.terminal.output import Result, fail, out
from kvdocs.terminal.plan import PID, plan_of
from kvdocs.terminal.served import served
from kvdocs.units import MIB

DRIVER: Final = "580.95.05"
CUDA: Final = "13.0"
_NAME: Final = "NVIDIA-SMI"
_WIDTH: Final = 89
_CELLS: Final = (41, 24, 22)
_FIRST_WORKER_PID: Final = 153


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as `nvidia-smi` sees it.

    Attributes:
        index: Its number.
        name: Its name.
        total_mib: Memory in MiB, rounded down.
        used_mib: Memory in use, likewise.
        busy: Whether something is computed.
        process: Who holds the memory; empty when nobody does.
        pid: Its process id.
    """

    index: int
    name: str
    total_mib: int
    used_mib: int
    busy: bool
    process: str
    pid: int

    @property
    def utilization(self) -> str:
        """Share of the time in which something was computed."""
        return "100" if self.busy else "0"

    @property
    def bus_id(self) -> str:
        """Where it sits."""
        return f"00000000:{0x1B + 16 * self.index:02X}:00.0"

    @property
    def uuid(self) -> str:
        """A name of its own, made up."""
        return f"GPU-00000000-0000-0000-0000-{self.index:012d}"


def cards(machine: Machine) -> list[Card]:
    """The machine's GPUs now.

    Args:
        machine: The machine.

    Examples:
        >>> [(card.used_mib, card.total_mib) for card in cards(Machine())]
        [(0, 76293)]
    """
    gpu, server = get_gpu(machine.gpu), machine.running
    used, size, busy = 0, 0, False
    if server is not None:
        plan = plan_of(machine, server)
        used, size = int(plan.used_bytes // MIB), plan.flags.world_size
        past = served(machine)
        busy = past is not None and past.simulation.engine.has_unfinished
    found = []
    for index in range(machine.num_gpus):
        mine = index < size
        found.append(
            Card(
                index=index,
                name=gpu.name,
                total_mib=gpu.nvidia_smi_memory_bytes // MIB,
                used_mib=used if mine else 0,
                busy=busy and mine,
                process=_process(index, size) if mine else "",
                pid=PID if size == 1 else _FIRST_WORKER_PID + index,
            )
        )
    return found


def _process(index: int, size: int) -> str:
    return "VLLM::EngineCore" if size == 1 else f"VLLM::Worker_TP{index}"


def _table(machine: Machine) -> str:
    """The plain view."""
    line, frame = _rule("-", "+"), "+" + "-" * _WIDTH + "+"
    head = f" {_NAME} {DRIVER:<23}Driver Version: {DRIVER:<15}CUDA Version: {CUDA:<8}"
    lines = [
        f"{machine.time:%a %b} {machine.time.day:>2} {machine.time:%H:%M:%S %Y}",
        frame,
        f"|{head:<{_WIDTH}}|",
        line,
        _cells(
            " GPU  Name                 Persistence-M",
            " Bus-Id          Disp.A",
            " Volatile Uncorr. ECC",
        ),
        _cells(
            " Fan  Temp   Perf          Pwr:Usage/Cap",
            "           Memory-Usage",
            " GPU-Util  Compute M.",
        ),
        _cells("", "", "               MIG M."),
        _rule("=", "|"),
    ]
    for card in cards(machine):
        usage = f"{card.used_mib:>8}MiB / {card.total_mib:>6}MiB "
        lines += [
            _cells(
                f" {card.index:>3}  {card.name[:27]:<31}On ",
                f"   {card.bus_id} Off",
                " " * 20 + "0",
            ),
            _cells(
                " N/A   N/A    P0              N/A /  N/A",
                usage,
                f"    {card.utilization:>3}%      Default",
            ),
            _cells("", "", "             Disabled"),
            line,
        ]
    return "\n".join([*lines, "", *_processes(machine)])


def _rule(sign: str, ends: str) -> str:
    middle = "+".join(sign * width for width in _CELLS)
    return f"{ends}{middle}{ends}"


def _cells(*texts: str) -> str:
    padded = (f"{text:<{width}}" for text, width in zip(texts, _CELLS, strict=True))
    return f"|{'|'.join(padded)}|"


def _processes(machine: Machine) -> list[str]:
    frame = "+" + "-" * _WIDTH + "+"
    holding = [card for card in cards(machine) if card.process]
    rows = [
        f"  {card.index:>3}   N/A  N/A {card.pid:>15}      C   {card.process:<35}"
        f"{card.used_mib:>8}MiB "
        for card in holding
    ]
    texts = [
        " Processes:",
        "  GPU   GI   CI              PID   Type   Process name                        GPU Memory ",
        "        ID   ID                                                               Usage      ",
        "=" * _WIDTH,
        *(rows or ["  No running processes found"]),
    ]
    return [frame, *(f"|{text:<{_WIDTH}}|" for text in texts), frame]


def _details(machine: Machine, wanted: frozenset[str]) -> str:
    """The long view, as far as there is something to say."""
    time = machine.time
    lines = [
        "==============NVSMI LOG==============",
        "",
        _entry("Timestamp", f"{time:%a %b} {time.day:>2} {time:%H:%M:%S %Y}", 0),
        _entry("Driver Version", DRIVER, 0),
        _entry("CUDA Version", CUDA, 0),
        "",
        _entry("Attached GPUs", str(machine.num_gpus), 0),
    ]
    for card in cards(machine):
        lines.append(f"GPU {card.bus_id}")
        for section, entries in _sections(card).items():
            if wanted and section not in wanted:
                continue
            lines += entries
    return "\n".join(lines)


def _entry(name: str, value: str, depth: int) -> str:
    return f"{'    ' * depth}{name}".ljust(42) + f": {value}"


def _sections(card: Card) -> dict[str, list[str]]:
    process = [
        "    Processes",
        _entry("Process ID", str(card.pid), 2),
        _entry("Type", "C", 3),
        _entry("Name", card.process, 3),
        _entry("Used GPU Memory", f"{card.used_mib} MiB", 3),
    ]
    return {
        "": [_entry("Product Name", card.name, 1), _entry("GPU UUID", card.uuid, 1)],
        "MEMORY": [
            "    FB Memory Usage",
            _entry("Total", f"{card.total_mib} MiB", 2),
            _entry("Reserved", "0 MiB", 2),
            _entry("Used", f"{card.used_mib} MiB", 2),
            _entry("Free", f"{card.total_mib - card.used_mib} MiB", 2),
        ],
        "UTILIZATION": ["    Utilization", _entry("GPU", f"{card.utilization} %", 2)],
        "PIDS": process if card.process else [_entry("Processes", "None", 1)],
    }


_Field = tuple[str, str, Callable[[Card], str]]
_FIELDS: Final[dict[str, _Field]] = {
    "index": ("index", "", lambda card: str(card.index)),
    "name": ("name", "", lambda card: card.name),
    "uuid": ("uuid", "", lambda card: card.uuid),
    "pci.bus_id": ("pci.bus_id", "", lambda card: card.bus_id),
    "driver_version": ("driver_version", "", lambda _: DRIVER),
    "pstate": ("pstate", "", lambda _: "P0"),
    "memory.total": ("memory.total [MiB]", " MiB", lambda card: str(card.total_mib)),
    "memory.reserved": ("memory.reserved [MiB]", " MiB", lambda _: "0"),
    "memory.used": ("memory.used [MiB]", " MiB", lambda card: str(card.used_mib)),
    "memory.free": (
        "memory.free [MiB]",
        " MiB",
        lambda card: str(card.total_mib - card.used_mib),
    ),
    "utilization.gpu": ("utilization.gpu [%]", " %", lambda card: card.utilization),
    "utilization.memory": ("utilization.memory [%]", " %", lambda card: card.utilization),
    "temperature.gpu": ("temperature.gpu", "", lambda _: "N/A"),
    "power.draw": ("power.draw [W]", "", lambda _: "[N/A]"),
}
_ALIASES: Final = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_PROCESS_FIELDS: Final[dict[str, _Field]] = {
    "pid": ("pid", "", lambda card: str(card.pid)),
    "process_name": ("process_name", "", lambda card: card.process),
    "name": ("process_name", "", lambda card: card.process),
    "used_memory": ("used_gpu_memory [MiB]", " MiB", lambda card: str(card.used_mib)),
    "used_gpu_memory": ("used_gpu_memory [MiB]", " MiB", lambda card: str(card.used_mib)),
    "gpu_uuid": ("gpu_uuid", "", lambda card: card.uuid),
}


def _query(call: Call, fields: str, form: str, known: dict[str, _Field]) -> Result:
    names = [_ALIASES.get(name, name) if known is _FIELDS else name for name in fields.split(",")]
    for name in names:
        if name.strip() not in known:
            error = f'Field "{name[:60]}" is not a valid field to query.'
            hint = near(name, list(known), cutoff=0.4) or f"there are {', '.join(known)}"
            return fail(call.machine, error, status=2, note=f"# {hint}")
    parts = form.split(",")
    if "csv" not in parts:
        raise TerminalError("a query needs --format=csv, with or without ,noheader and ,nounits")
    chosen = [known[name.strip()] for name in names]
    rows = cards(call.machine)
    if known is _PROCESS_FIELDS:
        rows = [card for card in rows if card.process]
    lines = [] if "noheader" in parts else [", ".join(head for head, _, _ in chosen)]
    for card in rows:
        units = [("" if "nounits" in parts else unit) for _, unit, _ in chosen]
        cells = (value(card) + unit for (_, _, value), unit in zip(chosen, units, strict=True))
        lines.append(", ".join(cells))
    return out(call.machine, "\n".join(lines), wide=True)


_QUERIES: Final = {"--query-gpu": _FIELDS, "--query-compute-apps": _PROCESS_FIELDS}
_HELP: Final = """\
nvidia-smi                      the GPUs, their memory, and who holds it
nvidia-smi -L                   their names
nvidia-smi -q [-d MEMORY]       the same as a list (MEMORY, UTILIZATION, PIDS)
nvidia-smi --query-gpu=name,memory.total,memory.used,utilization.gpu --format=csv[,noheader,nounits]
nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv"""
FLAGS: Final = (
    "-L",
    "-q",
    "-d",
    "--help",
    "--query-gpu=name,memory.total,memory.used,utilization.gpu",
    "--query-compute-apps=pid,process_name,used_memory",
    "--format=csv",
)


def _run(call: Call) -> Result:
    values, switches = _words(call)
    if "-h" in switches or "--help" in switches:
        return out(call.machine, _HELP, wide=True)
    if "--help-query-gpu" in switches:
        return out(call.machine, "\n".join(_FIELDS))
    for flag, known in _QUERIES.items():
        if flag in values:
            return _query(call, values[flag], values.get("--format", ""), known)
    if "-L" in switches or "--list-gpus" in switches:
        shown = [
            f"GPU {card.index}: {card.name} (UUID: {card.uuid})" for card in cards(call.machine)
        ]
        return out(call.machine, "\n".join(shown))
    if "-q" in switches or "--query" in switches:
        wanted = values.get("-d", values.get("--display", ""))
        return out(call.machine, _details(call.machine, _displays(wanted)), wide=True)
    return out(call.machine, _table(call.machine), wide=True)


_WITH_VALUE: Final = (
    "--query-gpu",
    "--query-compute-apps",
    "--format",
    "-d",
    "--display",
    "-i",
    "--id",
)
_SWITCHES: Final = ("-h", "--help", "-q", "--query", "-L", "--list-gpus", "--help-query-gpu")
_WATCHES: Final = ("-l", "-lms", "--loop", "dmon", "pmon")


def _words(call: Call) -> tuple[dict[str, str], set[str]]:
    values: dict[str, str] = {}
    switches: set[str] = set()
    left = list(call.words)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name in _WATCHES or name.startswith("-l"):
            raise TerminalError("time stands still between commands; run it again instead")
        if name in _WITH_VALUE:
            if not equals and not left:
                raise TerminalError(f"{name} needs a value")
            values[name] = value if equals else left.pop(0)
        elif name in _SWITCHES:
            switches.add(name)
        else:
            raise TerminalError(
                f"{name[:60]!r} is not known here. {near(name, FLAGS)}".rstrip() + " See --help"
            )
    return values, switches


def _displays(text: str) -> frozenset[str]:
    wanted = frozenset(text.upper().split(",")) if text else frozenset()
    for name in wanted - {"MEMORY", "UTILIZATION", "PIDS"}:
        raise TerminalError(f"{name[:30]!r} cannot be shown; MEMORY, UTILIZATION and PIDS can")
    return wanted


NVIDIA_SMI: Final = Command("the GPU's memory, and who holds it", _run, FLAGS)
