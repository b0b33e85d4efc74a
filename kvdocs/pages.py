"""What the lesson's pages print at build time: widgets, drills and terminals, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvdocs.drills.frame import element as drill_element
from kvdocs.drills.registry import get_drill
from kvdocs.html import Element
from kvdocs.terminal.frame import element as terminal_element
from kvdocs.terminal.machine import Machine
from kvdocs.widgets.frame import element
from kvdocs.widgets.registry import get_widget


def widget(name: str, *, ident: str | None = None, state: Any = None, **params: str) -> Element:
    """Return a widget in its static form, ready to be printed into a page.

    Args:
        name: The widget's name.
        ident: The element's id; the widget's name when not given. Must be unique on a page.
        state: For a simulation that the reader may change while it runs: the changes made so far,
            as its views carry them; the widget's own when not given.
        **params: Parameters that differ from the widget's defaults, as text.

    Raises:
        KvdocsError: No such widget, or a parameter that it does not allow.

    Examples:
        >>> str(widget("gpu-memory"))[:39]
        '<kv-widget id="gpu-memory" name="gpu-me'
    """
    return element(get_widget(name), ident=ident or name, params=params, state=state)


def drill(drill_id: str, *, ident: str | None = None, seed: int = 0) -> Element:
    """Return a drill in its static form: question, hints and worked solution.

    Args:
        drill_id: The drill's id.
        ident: The element's id; the drill's id when not given. Must be unique on a page.
        seed: Draws the numbers; 0 is the lesson's own case.

    Raises:
        DrillError: No such drill.

    Examples:
        >>> str(drill("how-many-fit"))[:43]
        '<kv-drill id="how-many-fit" name="how-many-'
    """
    return drill_element(get_drill(drill_id).pose(seed), ident=ident or drill_id)


def terminal(
    ident: str,
    script: Sequence[str] = (),
    *,
    title: str = "A terminal on dgx-1",
    gpus: int = 1,
    shows: str = "",
) -> Element:
    """Return a terminal: a recorded run, carried out now, and a prompt that goes on from there.

    One a page: the machine behind it is the page's one machine.

    Args:
        ident: The element's id. Must be unique on a page.
        script: The lines typed in the recorded run.
        title: A sentence above it.
        gpus: GPUs of the machine.
        shows: Id of a widget `gpu-memory` or `startup` on the page that is to show its server.

    Examples:
        >>> "68664MiB" in str(terminal("t", ["vllm serve Llama-3.1-8B "
        ...     "--gpu-memory-utilization 0.9", "nvidia-smi"]))
        True
    """
    machine = Machine(num_gpus=gpus)
    return terminal_element(ident, script, machine=machine, title=title, shows=shows)
