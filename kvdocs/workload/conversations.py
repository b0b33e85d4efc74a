"""Conversations: every turn sends the whole history again, its own answers included."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.lengths import Lengths
from kvdocs.workload.numbers import draw_exponential
from kvdocs.workload.prompts import take
from kvdocs.workload.request import Part, Parts, WorkloadRequest


@dataclass(frozen=True, slots=True)
class _Style:
    """How all conversations of a workload go."""

    turns: Lengths
    messages: Lengths
    outputs: Lengths
    think_s: float
    system_tokens: int
    max_tokens: int
    wait_for_answer: bool


def conversations(
    rng: random.Random,
    *,
    arrivals: Iterable[float],
    num_conversations: int,
    turns: Lengths,
    messages: Lengths,
    outputs: Lengths,
    think_s: float,
    system_tokens: int = 0,
    max_tokens: int = 131_072,
    wait_for_answer: bool = True,
) -> list[WorkloadRequest]:
    """Users who talk: each prompt is the system prompt and all messages and answers so far.

    Args:
        rng: Where randomness comes from.
        arrivals: When the conversations begin.
        num_conversations: How many.
        turns: Questions in a conversation.
        messages: Lengths of the questions.
        outputs: Lengths of the answers.
        think_s: Mean time before the next question, in seconds (exponential).
        system_tokens: Length of the system prompt that all share; 0 for none.
        max_tokens: A conversation ends before a turn would exceed this length.
        wait_for_answer: Whether a question follows the answer to the one before (`follows`); if
            not, it comes `think_s` after that question, answered or not.

    Returns:
        All turns by arrival; of equal ones, the earlier conversation first.

    Raises:
        WorkloadError: Fewer arrivals than conversations, or a negative length or time.

    Examples:
        >>> from kvdocs.workload import Fixed, conversations, fixed_rate
        >>> first, second = conversations(random.Random(1), arrivals=fixed_rate(rate=1),
        ...     num_conversations=1, turns=Fixed(2), messages=Fixed(20), outputs=Fixed(100),
        ...     think_s=5, system_tokens=50)
        >>> first.num_prompt_tokens, second.num_prompt_tokens, second.follows
        (70, 190, 'c0t0')
        >>> [tuple(part) for part in second.prompt.parts]
        [('system', 50, 0), ('c0t0 question', 20, 0), ('c0t0', 100, 70), ('c0t1 question', 20, 0)]
    """
    if think_s < 0 or system_tokens < 0 or max_tokens < 1:
        raise WorkloadError(
            f"think_s {think_s}, system_tokens {system_tokens}, max_tokens {max_tokens}; the first "
            "two must not be negative and the last at least 1"
        )
    style = _Style(turns, messages, outputs, think_s, system_tokens, max_tokens, wait_for_answer)
    requests = [
        request
        for index, arrival in enumerate(take(arrivals, num_conversations))
        for request in _conversation(rng, f"c{index}", arrival, style)
    ]
    return sorted(requests, key=lambda request: request.arrival_s)


def _conversation(
    rng: random.Random, name: str, arrival: float, style: _Style
) -> Iterator[WorkloadRequest]:
    history = [Part("system", style.system_tokens)] if style.system_tokens else []
    before, think_s = "", 0.0
    for turn in range(style.turns.draw(rng)):
        request_id = f"{name}t{turn}"
        history.append(Part(f"{request_id} question", style.messages.draw(rng)))
        output = style.outputs.draw(rng)
        prompt = Parts(tuple(history), output_source=request_id)
        if prompt.num_tokens + output > style.max_tokens:
            return
        yield WorkloadRequest(
            id=request_id,
            prompt=prompt,
            output_tokens=output,
            arrival_s=arrival,
            follows=before if style.wait_for_answer else "",
            think_s=think_s if style.wait_for_answer else 0.0,
        )
        history.append(Part(request_id, output, prompt.num_tokens))
        before = request_id
        think_s = to_grid(draw_exponential(rng, style.think_s))
        arrival = to_grid(arrival + think_s)
