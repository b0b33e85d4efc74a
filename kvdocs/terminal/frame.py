"""The terminal as an element of a page: a recorded run, and the prompt that scripts bring alive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvdocs.html import Element, h
from kvdocs.terminal.machine import Machine, to_json
from kvdocs.terminal.output import Kind, Piece
from kvdocs.terminal.session import prompt, run

_HELP = (
    "Tab completes, Esc then Tab leaves. Up and down: what you typed before. ",
    "Ctrl-C drops the line; on an empty one it stops the server. ",
    h("code", "help"),
    " lists the commands.",
)


def piece_element(piece: Piece) -> Element:
    """Some lines of output.

    Args:
        piece: The lines.
    """
    name = f"kv-term-{piece.kind.value}" + (" kv-term-wide" if piece.wide else "")
    if piece.kind is Kind.ERROR:
        return h("samp", h("span", "error: ", class_="kv-hidden"), piece.text, class_=name)
    return h("samp", piece.text, class_=name)


def typed_element(before: str, line: str) -> Element:
    """A line as it was typed, with its prompt.

    Args:
        before: The prompt.
        line: The line.
    """
    return h(
        "div",
        h("span", before + " ", class_="kv-term-prompt"),
        h("kbd", line),
        class_="kv-term-typed",
    )


def pieces_elements(pieces: Iterable[Piece]) -> tuple[Element, ...]:
    """The output of one line, as elements."""
    return tuple(piece_element(piece) for piece in pieces)


def record(machine: Machine, script: Sequence[str]) -> tuple[Machine, tuple[Element, ...]]:
    """Carry out lines, and show them with their output.

    Args:
        machine: The machine before the first.
        script: The lines.

    Returns:
        The machine after the last, and the elements of the transcript.
    """
    shown: list[Element] = []
    for line in script:
        shown.append(typed_element(prompt(machine), line))
        result = run(machine, line)
        machine = result.machine
        shown = [] if result.clears else shown
        shown += pieces_elements(result.pieces)
    return machine, tuple(shown)


def element(
    ident: str,
    script: Sequence[str],
    *,
    machine: Machine,
    title: str,
    shows: str = "",
) -> Element:
    """A whole `<kv-terminal>` in its static form.

    Args:
        ident: The element's id.
        script: The lines of the recorded run.
        machine: The machine before it.
        title: A sentence above it.
        shows: Id of a widget on the page that is to follow the machine's server.
    """
    later, transcript = record(machine, script)
    help_id = f"{ident}-help"
    return h(
        "kv-terminal",
        h(
            "div",
            h("p", title, class_="kv-title"),
            h("p", "Recorded run", class_="kv-status", role="status"),
            class_="kv-head",
        ),
        h(
            "div",
            h(
                "div",
                *transcript,
                class_="kv-term-log",
                role="log",
                tabindex=0,
                aria_label="What was typed on dgx-1, and what came back",
            ),
            _form(ident, prompt(later), help_id),
            class_="kv-term-screen",
        ),
        _keys(),
        h("p", *_HELP, class_="kv-term-help", id=help_id),
        id=ident,
        class_="kv-terminal",
        state="static",
        data_machine=to_json(later),
        data_shows=shows or None,
    )


def _form(ident: str, before: str, help_id: str) -> Element:
    field = f"{ident}-line"
    return h(
        "form",
        h(
            "label",
            h("span", "Command at ", class_="kv-hidden"),
            h("span", before, class_="kv-term-before"),
            for_=field,
            class_="kv-term-prompt",
        ),
        h(
            "input",
            id=field,
            name="line",
            type="text",
            autocomplete="off",
            autocapitalize="none",
            autocorrect="off",
            spellcheck="false",
            enterkeyhint="go",
            aria_describedby=help_id,
        ),
        class_="kv-term-form",
        autocomplete="off",
    )


def _keys() -> Element:
    """The keys that a phone's keyboard does not have."""
    buttons = {"complete": "Complete", "earlier": "Earlier", "later": "Later", "stop": "Ctrl-C"}
    return h(
        "div",
        *(
            h("button", text, type="button", data_key=key, class_="kv-term-key")
            for key, text in buttons.items()
        ),
        class_="kv-term-keys",
        role="group",
        aria_label="Keys of the terminal",
    )
