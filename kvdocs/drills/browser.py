"""What the page's runtime calls: a drill with new numbers, and the verdict on an answer."""

from __future__ import annotations

import json
from typing import Any

from kvdocs.drills.drill import Posed
from kvdocs.drills.frame import inner, result
from kvdocs.drills.prose import spans
from kvdocs.drills.registry import get_drill
from kvdocs.html import h


def _pose(drill_id: str, seed: int | str) -> Posed[Any]:
    return get_drill(drill_id).pose(int(seed))


def _html(parts: tuple[object, ...]) -> str:
    return "".join(map(str, parts))


def show(drill_id: str, seed: int | str) -> str:
    """Pose a drill with the numbers of a seed.

    Args:
        drill_id: The drill's id.
        seed: The seed.

    Returns:
        A JSON object: `html` (new content of `<kv-drill>`), `seed`, and `announce` (the question,
        for screen readers).

    Raises:
        DrillError: No drill has that id.

    Examples:
        >>> sorted(json.loads(show("how-many-fit", 3)))
        ['announce', 'html', 'seed']
    """
    posed = _pose(drill_id, seed)
    content = {"html": _html(inner(posed)), "seed": posed.seed, "announce": posed.question}
    return json.dumps(content)


def check(drill_id: str, seed: int | str, answer_json: str) -> str:
    """Judge an answer.

    Args:
        drill_id: The drill's id.
        seed: The seed of its numbers.
        answer_json: The answer as the kind of drill sends it: a text, a list, or an object.

    Returns:
        A JSON object: `verdict` (right, wrong, unreadable), `message` (plain text), `html` (the
        result line), `done`, and `ruled_out` (an option's value and the reason as HTML, or null).

    Raises:
        DrillError: No drill has that id.

    Examples:
        >>> json.loads(check("fp8-bytes-per-token", 0, '"160 KiB"'))["verdict"]
        'right'
        >>> json.loads(check("fp8-bytes-per-token", 0, '"many"'))["verdict"]
        'unreadable'
    """
    verdict = _pose(drill_id, seed).check(json.loads(answer_json))
    ruled_out = {"value": verdict.ruled_out, "html": str(h("span", *spans(verdict.message)))}
    answer = {
        "verdict": verdict.outcome.value,
        "message": verdict.message,
        "html": _html(result(verdict)),
        "done": verdict.done,
        "ruled_out": ruled_out if verdict.ruled_out else None,
    }
    return json.dumps(answer)
