"""What happened in a step of the engine, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from kvdocs.engine.events import Wait, WaitReason
from kvdocs.widgets.engine_run import Frame

_REASONS = {
    WaitReason.SEQS: "as many requests run as --max-num-seqs allows",
    WaitReason.BUDGET: "the step's token budget is used up",
    WaitReason.UNSPLIT: "its prompt does not fit into what is left of the step's token budget",
}


def count(number: int, thing: str) -> str:
    """Return a number of things.

    Examples:
        >>> count(1, "block"), count(0, "token"), count(1200, "token")
        ('1 block', '0 tokens', '1,200 tokens')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def names(ids: tuple[str, ...]) -> str:
    """Return names as a list in prose.

    Examples:
        >>> names(("A",)), names(("A", "B", "C"))
        ('A', 'A, B and C')
    """
    if len(ids) < 2:
        return "".join(ids)
    return f"{', '.join(ids[:-1])} and {ids[-1]}"


def _wait(wait: Wait) -> str:
    if wait.reason is WaitReason.PREEMPTION:
        all_of_them = f" and the {wait.num_behind} behind it stay" if wait.num_behind else " stays"
        outside = f"{wait.request_id}{all_of_them} outside"
        return f"{outside}: in a step that preempts, nobody is admitted."
    behind = f", and {wait.num_behind} behind it" if wait.num_behind else ""
    if wait.reason is WaitReason.BLOCKS:
        return (
            f"{wait.request_id} waits{behind}: it needs {count(wait.needed, 'block')}"
            f" and {wait.available} {'is' if wait.available == 1 else 'are'} free."
        )
    return f"{wait.request_id} waits{behind}: {_REASONS[wait.reason]}."


def _admissions(frame: Frame) -> Iterator[str]:
    for admission in frame.step.admissions:
        verb = "starts again" if admission.resumed else "starts"
        new = len(frame.step.new_blocks.get(admission.request_id, ()))
        found = (
            f" finds {admission.hit_tokens} of its tokens in the cache and"
            if admission.hit_tokens
            else ""
        )
        yield f"{admission.request_id} {verb}:{found} takes {count(new, 'block')}."


def _grown(frame: Frame) -> Iterator[str]:
    started = {admission.request_id for admission in frame.step.admissions}
    grown = tuple(name for name in frame.step.new_blocks if name not in started)
    if grown:
        each = " each" if len(grown) > 1 else ""
        yield f"{names(grown)} {'need' if each else 'needs'} one more block{each}."


def sentences(frame: Frame) -> tuple[str, ...]:
    """Return what happened in a step, the most telling first.

    Args:
        frame: The engine after the step.
    """
    step = frame.step
    told = [
        f"{lost.request_id} is preempted so that {lost.for_request_id} can go on: "
        f"{count(lost.freed_blocks, 'block')} freed, "
        f"KV of {count(lost.lost_tokens, 'token')} lost."
        for lost in step.preemptions
    ]
    if step.evicted:
        blocks = names(tuple(str(block) for block in step.evicted))
        told.append(f"Evicted: block{'s' if len(step.evicted) > 1 else ''} {blocks}.")
    told += _admissions(frame)
    if step.wait:
        told.append(_wait(step.wait))
    told += (
        f"{done.request_id} is done after {count(done.num_output_tokens, 'token')}."
        for done in step.finished
    )
    told += _grown(frame)
    return tuple(told) or (_uneventful(len(step.scheduled)),)


def _uneventful(running: int) -> str:
    if running == 0:
        return "Nobody runs."
    who = "One request computes" if running == 1 else f"{running} requests compute"
    return f"Nothing is decided: {who} a token{' each' if running > 1 else ''}."
