"""The decision table and what belongs to it, as HTML for the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvdocs.diagnose.signals import SIGNALS
from kvdocs.diagnose.table import DOMAINS, ROWS, Row
from kvdocs.diagnose.thresholds import ALL, Threshold
from kvdocs.diagnose.verdicts import Verdict
from kvdocs.drills.prose import spans
from kvdocs.html import Element, Node, h
from kvdocs.units import format_bytes, format_number


def _table(label: str, head: Sequence[str], rows: Iterable[Sequence[Node]]) -> Element:
    """A table that scrolls by itself on a narrow screen."""
    body = (
        h("tr", h("th", row[0], scope="row"), *(h("td", cell) for cell in row[1:])) for row in rows
    )
    table = h(
        "table",
        h("thead", h("tr", *(h("th", title, scope="col") for title in head))),
        h("tbody", *body),
        class_="kv-rules",
    )
    return h("div", table, class_="kv-scroll", tabindex=0, role="group", aria_label=label)


def signals_table() -> Element:
    """What each signal asks, and what its values mean.

    Examples:
        >>> "Who waits?" in str(signals_table())
        True
    """
    rows = (
        (
            h("code", signal.name),
            h("span", *spans(signal.question)),
            h("ul", *(h("li", h("b", value), f": {means}") for value, means in _values(signal))),
        )
        for signal in SIGNALS
    )
    return _table("The signals", ("Signal", "Asks", "Values"), rows)


def _values(signal: Any) -> Iterable[tuple[str, str]]:
    return [(value, means) for value, means in signal.values.items()]


def decision_table() -> Element:
    """The rows in their order, a column for each signal.

    Examples:
        >>> str(decision_table()).count("<tr>") == len(ROWS) + 1
        True
    """
    rows: list[list[Node]] = [
        [str(number), h("code", row.verdict), *_conditions(row), str(row.confidence)]
        for number, row in enumerate(ROWS, 1)
    ]
    return _table("The decision table", ("Row", "Verdict", *DOMAINS, "Surest"), rows)


def _conditions(row: Row) -> Iterable[str]:
    """What a row asks of each signal, by what is left out where that is shorter."""
    for name, domain in DOMAINS.items():
        allowed = row.when.get(name, domain)
        left_out = [value for value in domain if value not in allowed]
        if not left_out:
            yield "any"
        elif len(left_out) < len(allowed):
            yield f"not {' or '.join(left_out)}"
        else:
            yield " or ".join(allowed)


def verdicts_table() -> Element:
    """What each verdict means and what to do.

    Examples:
        >>> "memory-bound" in str(verdicts_table())
        True
    """
    rows = (
        (
            h("code", verdict),
            h(
                "div",
                h("p", h("b", _sentence(verdict.advice.title))),
                h("p", *spans(verdict.advice.meaning)),
            ),
            h("ol", *(h("li", *spans(action)) for action in verdict.advice.actions)),
        )
        for verdict in Verdict
    )
    return _table("The verdicts", ("Verdict", "Meaning", "Actions, the cheapest first"), rows)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def thresholds_table() -> Element:
    """Every threshold with its reason.

    Examples:
        >>> "Little" in str(thresholds_table())
        True
    """
    rows = ((threshold.name, _shown(threshold), threshold.why) for threshold in ALL)
    return _table("The thresholds", ("Threshold", "Value", "Why"), rows)


def _shown(threshold: Threshold) -> str:
    if threshold.unit == "bytes/s":
        return f"{format_bytes(threshold.value, 'GB')}/s"
    return f"{format_number(threshold.value, 3)} {threshold.unit}".strip()


def confusion_table(document: Mapping[str, Any]) -> Element:
    """How often each kind of simulated server got which verdict.

    Args:
        document: What `python -m bench.diagnosis` writes.

    Examples:
        >>> kinds = {"healthy": {"expected": "healthy", "counts": {"healthy": 9, "stalled": 1}}}
        >>> "stalled: 1" in str(confusion_table({"seeds": 10, "kinds": kinds}))
        True
    """
    rows = []
    for name, row in document["kinds"].items():
        expected, counts = row["expected"], row["counts"]
        others = [f"{each}: {count}" for each, count in counts.items() if each != expected]
        shown = ", ".join(others) or "none"
        rows.append((name, h("code", expected), f"{counts.get(expected, 0):,}", shown))
    head = ("Kind of server", "Right verdict", f"Of {document['seeds']:,}", "Other verdicts")
    return _table("Verdicts on simulated servers", head, rows)
