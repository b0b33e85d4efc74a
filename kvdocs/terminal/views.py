"""The machine's server for others on the page: its facts, and the parameters of widgets."""

from __future__ import annotations

import shlex
from typing import Any, Final

from kvdocs.errors import KvdocsError
from kvdocs.terminal.commands.nvidia_smi import cards
from kvdocs.terminal.machine import Machine, Server
from kvdocs.terminal.plan import Plan, plan_of
from kvdocs.terminal.served import snapshot

_SHARES: Final = (0.5, 0.98)
"""The utilizations that the gpu-memory widget shows."""


def facts(machine: Machine) -> dict[str, Any]:
    """What a page may want to know of the machine.

    Args:
        machine: The machine.

    Returns:
        `running`, `clock_s`, the GPUs' memory in MiB, and of a running server its model, flags,
        pool, and what its metrics show now.

    Examples:
        >>> facts(Machine())["memory_used_mib"]
        [0]
    """
    found: dict[str, Any] = {
        "running": machine.running is not None,
        "clock_s": machine.clock,
        "memory_used_mib": [card.used_mib for card in cards(machine)],
        "memory_total_mib": [card.total_mib for card in cards(machine)],
        "status": machine.status,
    }
    server = machine.server
    if server is not None:
        found |= _server_facts(machine, server)
    return found


def _server_facts(machine: Machine, server: Server) -> dict[str, Any]:
    plan = plan_of(machine, server)
    found: dict[str, Any] = {
        "model": plan.entry.id,
        "refused": plan.refusal is not None,
        "gpu_memory_utilization": plan.flags.gpu_memory_utilization,
        "kv_cache_dtype": plan.flags.kv_cache_dtype,
        "max_model_len": plan.capacity.max_model_len,
        "max_model_len_that_fits": plan.capacity.max_model_len_that_fits,
        "kv_pool_tokens": plan.capacity.kv_pool_tokens if plan.refusal is None else 0,
    }
    shown = snapshot(machine)
    if shown is not None:
        found |= {
            "requests_running": shown.running,
            "requests_waiting": shown.waiting,
            "kv_cache_usage": shown.kv_cache_usage,
            "preemptions": shown.preemptions,
        }
    return found


def widget_params(machine: Machine) -> dict[str, dict[str, str]]:
    """Parameters, by widget, with which it shows the last server that was started.

    Args:
        machine: The machine.

    Returns:
        Nothing for a widget that cannot show it: no server was started, it does not run (the
        start itself is shown all the same), or its flags are beyond what the controls allow.

    Examples:
        >>> from kvdocs.terminal.session import run
        >>> refused = run(Machine(), "vllm serve Llama-3.1-8B --gpu-memory-utilization 0.4").machine
        >>> widget_params(refused)["startup"]["gpu_memory_utilization"]
        '0.4'
    """
    server = machine.server
    if server is None:
        return {}
    plan = plan_of(machine, server)
    found = {"startup": _startup(machine, plan, server)}
    if machine.running is not None:
        found["gpu-memory"] = _gpu_memory(machine, plan)
    return {name: params for name, params in found.items() if _is_shown(name, params)}


def _startup(machine: Machine, plan: Plan, server: Server) -> dict[str, str]:
    from kvdocs.widgets.startup import without_share  # noqa: PLC0415 - pages import both

    words = [plan.entry.id if word == plan.name else word for word in server.words]
    return {
        "command": shlex.join(("vllm", "serve", *without_share(words))),
        "gpu": machine.gpu,
        "gpu_memory_utilization": f"{plan.flags.gpu_memory_utilization:g}",
    }


def _gpu_memory(machine: Machine, plan: Plan) -> dict[str, str]:
    return {
        "model": plan.entry.id,
        "gpu": machine.gpu,
        "utilization": f"{plan.flags.gpu_memory_utilization:g}",
        "kv_cache_dtype": plan.flags.kv_cache_dtype,
    }


def _is_shown(name: str, params: dict[str, str]) -> bool:
    from kvdocs.widgets.registry import get_widget  # noqa: PLC0415 - pages import both

    try:
        get_widget(name).view(**params)
    except KvdocsError:
        return False
    return True
