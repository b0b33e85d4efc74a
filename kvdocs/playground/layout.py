"""The form as HTML: set-ups, load, and what of each fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvdocs.html import Element, Node, h
from kvdocs.playground.controls import field
from kvdocs.playground.fields import (
    CHOICES,
    FLAG_VALUES,
    LETTERS,
    NUMBERS,
    TRACE,
    TWO,
    config_box,
    flag_choice,
    flags_box,
    gpu_choice,
    model_choice,
    own_figures,
)
from kvdocs.playground.form import Form
from kvdocs.playground.load import MOST_REQUESTS, Trace
from kvdocs.playground.pictures import memory
from kvdocs.playground.setup import Sized
from kvdocs.units import GB, format_bytes, format_number, format_seconds
from kvdocs.widgets.view import Figure
from kvdocs.workload import summarize

FORM_ID: Final = "simulator-form"
MOST_TRACE_BYTES: Final = 50 * 10**6
"""A larger file is refused."""
_MADE_FIELDS: Final = (
    "num_requests",
    "rate",
    "coming",
    "prompt_tokens",
    "prompt_spread",
    "output_tokens",
    "output_spread",
    "prefix_tokens",
    "num_prefixes",
    "seed",
)


def form_html(
    values: Mapping[str, str], trace: Trace | None = None, *, off: bool = False
) -> Element:
    """Return the whole form.

    Args:
        values: All values, settled.
        trace: The trace that was dropped, if one was.
        off: Whether nothing can be changed, as on the page before its scripts run.
    """
    two = values["compare"] == TWO
    setups = (
        _setup(letter, values, off=off, hidden=letter != LETTERS[0] and not two)
        for letter in LETTERS
    )
    general = h("p", class_="kv-error", data_error_for="*", hidden=True)
    return h(
        "form",
        h("div", *setups, class_="kv-pg-setups", data_two=two),
        _load(values, trace, off=off),
        general,
        id=FORM_ID,
        class_="kv-controls kv-pg-form",
        autocomplete="off",
    )


def _element(control: Any, values: Mapping[str, str]) -> Element:
    element: Element = control.element(values[control.name])
    return element


def _fold(title: str, *content: Node, is_open: bool = False) -> Element:
    inner = h("div", *content, class_="kv-pg-fields")
    return h("details", h("summary", title), inner, class_="kv-pg-fold", open=is_open)


def _setup(letter: str, values: Mapping[str, str], *, off: bool, hidden: bool) -> Element:
    own = own_figures(letter, values[f"{letter}_gpu"])
    boxes = tuple(_element(one, values) for one in own)
    config = values[f"{letter}_config"].strip()
    return h(
        "fieldset",
        h("legend", f"Set-up {letter.upper()}"),
        h(
            "div",
            _element(model_choice(letter), values),
            _element(gpu_choice(letter), values),
            class_="kv-pg-fields",
        ),
        h("p", "config.json below counts, not this model.", class_="kv-note") if config else None,
        _fold(
            "Another model: its config.json",
            _element(config_box(letter), values),
            _file(f"{letter}_config", "or choose the file", ".json,application/json"),
            boxes[0],
            is_open=bool(config),
        ),
        _fold(
            "Own figures of the GPU",
            *boxes[1:],
            is_open=any(values[one.name] for one in own[1:]),
        ),
        _element(flags_box(letter), values),
        h(
            "div",
            *(
                _element(flag_choice(letter, flag, values[f"{letter}_flag_{flag}"]), values)
                for flag in FLAG_VALUES
            ),
            class_="kv-pg-fields kv-pg-flags",
        ),
        class_="kv-pg-setup",
        data_drop=f"{letter}_config",
        disabled=off,
        hidden=hidden,
    )


def _file(name: str, label: str, accept: str) -> Element:
    box = h("input", type="file", accept=accept, data_file=name)
    return field(f"{name}_file", label, box)


def _load(values: Mapping[str, str], trace: Trace | None, *, off: bool) -> Element:
    from_trace = values["source"] == TRACE
    numbers: dict[str, Any] = {**NUMBERS, **CHOICES}
    made = (_element(numbers[name], values) for name in _MADE_FIELDS)
    return h(
        "fieldset",
        h("legend", "Load, the same for both"),
        h(
            "div",
            _element(CHOICES["source"], values),
            _element(CHOICES["compare"], values),
            class_="kv-pg-fields",
        ),
        h("div", *made, class_="kv-pg-fields", hidden=from_trace),
        _trace_fields(values, trace, hidden=not from_trace),
        class_="kv-pg-load",
        data_drop="trace",
        disabled=off,
    )


def _trace_fields(values: Mapping[str, str], trace: Trace | None, *, hidden: bool) -> Element:
    size = format_number(MOST_TRACE_BYTES / 10**6)
    what = (
        "Mooncake JSON lines, an Azure CSV, or a kvdocs workload; drop it here, up to "
        f"{size} MB. It is read in your browser and goes nowhere."
    )
    return h(
        "div",
        h("p", what, class_="kv-note"),
        h(
            "div",
            _file("trace", "Trace file", ".jsonl,.json,.csv,text/csv"),
            _element(NUMBERS["trace_most"], values),
            _element(NUMBERS["trace_speed"], values),
            class_="kv-pg-fields",
        ),
        h("p", trace_words(trace), class_="kv-pg-trace") if trace else None,
        hidden=hidden,
    )


def trace_words(trace: Trace) -> str:
    """What a trace holds, in a sentence.

    Args:
        trace: The trace.
    """
    found = summarize(trace.read)
    span = format_seconds(found.last_arrival_s - found.first_arrival_s)
    more = (
        f"; the first {MOST_REQUESTS:,} come at most" if found.num_requests > MOST_REQUESTS else ""
    )
    return (
        f"{trace.name}: {found.num_requests:,} requests over {span}, prompts of "
        f"{found.mean_prompt_tokens:,.0f} tokens and answers of {found.mean_output_tokens:,.0f} "
        f"on average, the longest {found.longest:,} together{more}."
    )


# What fits ------------------------------------------------------------------------------------


def sized_html(form: Form) -> Element:
    """Return what of each set-up fits, side by side.

    Args:
        form: The form, read.
    """
    panels = (_sized(letter, sized) for letter, sized in form.sized.items())
    return h("div", *panels, class_="kv-pg-panels", data_two=len(form.sized) > 1)


def _sized(letter: str, sized: Sized) -> Element:
    notes = (h("li", note) for note in sized.notes)
    return h(
        "section",
        h("p", h("b", letter.upper()), f" {sized.name}", class_="kv-pg-name"),
        memory(sized),
        _figures(letter, sized) if not sized.refusal else None,
        h("p", f"It does not start. {sized.refusal}", class_="kv-pg-refusal")
        if sized.refusal
        else None,
        h("ul", *notes, class_="kv-pg-notes") if sized.notes else None,
        aria_label=f"Set-up {letter.upper()}: what fits",
    )


def _figures(letter: str, sized: Sized) -> Element:
    plan, cost = sized.capacity, format_bytes(sized.token_bytes, "KiB")
    figures = (
        Figure(
            f"{letter}_pool",
            "Pool",
            f"{plan.kv_block_tokens:,}",
            "tokens",
            f"{plan.num_gpu_blocks:,} blocks in {format_number(plan.kv_pool_bytes / GB)} GB, "
            f"{cost} a token",
        ),
        Figure(
            f"{letter}_longest",
            f"Requests of {plan.max_model_len:,} tokens at once",
            format_number(plan.max_concurrency),
            "",
            "as the start-up log prints it",
        ),
    )
    return h("dl", *(figure.element() for figure in figures), class_="kv-figures")
