"""The story of one request in sentences, from the engine's events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvdocs.engine.events import Preemption, Wait, WaitReason
from kvdocs.engine.request import Request
from kvdocs.engine.scheduler import Batch
from kvdocs.server.records import FinishReason, RequestRecord
from kvdocs.server.simulation import Simulation
from kvdocs.units import format_seconds

_REASONS = {
    WaitReason.BLOCKS: "too few free blocks",
    WaitReason.SEQS: "max_num_seqs requests running",
    WaitReason.BUDGET: "a token budget used up",
    WaitReason.UNSPLIT: "a prompt too long for the rest of the token budget, and not to be split",
    WaitReason.PREEMPTION: "a preemption in the same step, after which nobody is admitted",
}


@dataclass(slots=True)
class _Spell:
    """A time of waiting, from arrival or preemption to admission."""

    start: float
    ahead: int
    reasons: dict[WaitReason, float] = field(default_factory=dict)
    as_head: Wait | None = None


class Watcher:
    """Notes what happens to one request.

    Attributes:
        request_id: Which.
    """

    def __init__(self, request_id: str, simulation: Simulation) -> None:
        self.request_id = request_id
        self._simulation = simulation
        self._spell: _Spell | None = None
        self._since: tuple[float, WaitReason] | None = None
        self._reason: WaitReason | None = None
        self._sentences: list[tuple[float, str]] = []

    def see(self, clock: float, batch: Batch) -> None:
        """Take in what a batch decided.

        Args:
            clock: When its step began.
            batch: The batch.
        """
        self._reason = None if batch.wait is None else batch.wait.reason
        request = self._simulation.engine.requests.get(self.request_id)
        if request is None:
            return
        self._count_wait(clock)
        for admission in batch.admissions:
            if admission.request_id == self.request_id:
                self._admit(request, clock, admission.hit_tokens, resumed=admission.resumed)
        for preemption in batch.preemptions:
            self._preempt(request, clock, preemption)
        if self._spell is not None and batch.wait is not None:
            self._wait(clock, batch.wait)

    def join(self, request_id: str) -> None:
        """Hear that a request has joined the queue.

        Args:
            request_id: Which.
        """
        if request_id != self.request_id:
            return
        engine = self._simulation.engine
        self._spell = _Spell(engine.requests[request_id].arrival, self._num_ahead())
        if self._reason is not None:  # while the head is stuck no new batch says so
            self._since = (engine.clock, self._reason)

    def _num_ahead(self) -> int:
        waiting = self._simulation.engine.scheduler.waiting
        ids = [request.id for request in waiting]
        return ids.index(self.request_id) if self.request_id in ids else 0

    def _count_wait(self, clock: float) -> None:
        if self._spell is not None and self._since is not None:
            start, reason = self._since
            waited = self._spell.reasons.get(reason, 0.0)
            self._spell.reasons[reason] = waited + clock - start
        self._since = None

    def _wait(self, clock: float, wait: Wait) -> None:
        spell = self._spell
        if spell is None:
            return
        self._since = (clock, wait.reason)
        if wait.request_id == self.request_id and spell.as_head is None and wait.needed:
            spell.as_head = wait

    def _admit(self, request: Request, clock: float, hit_tokens: int, *, resumed: bool) -> None:
        spell = self._spell or _Spell(request.arrival, 0)
        waited = clock - spell.start
        if waited:
            self._say(clock, _waiting(spell, waited))
        # its new tokens are not there yet, so this is the length it was admitted with
        rest = request.num_tokens - hit_tokens
        found = f"{hit_tokens:,} tokens were in the prefix cache, " if hit_tokens else ""
        what = "started again" if resumed else "was admitted"
        self._say(clock, f"It {what}: {found}{rest:,} tokens were left to compute.")
        self._spell = None

    def _preempt(self, request: Request, clock: float, preemption: Preemption) -> None:
        lost, freed = preemption.lost_tokens, preemption.freed_blocks
        needy, victim = preemption.for_request_id, preemption.request_id
        if victim == self.request_id:
            whom = "itself, being the last in line" if needy == victim else f"request {needy}"
            self._say(
                clock,
                f"It was preempted to make room for {whom}: {freed:,} blocks were freed and KV of "
                f"{lost:,} tokens lost, after {request.num_output_tokens:,} tokens of output.",
            )
            self._spell = _Spell(clock, 0)
        elif needy == self.request_id:
            self._say(
                clock,
                f"It needed a block and none was free: request {victim} was preempted for it and "
                f"gave up {freed:,} blocks.",
            )

    def _say(self, clock: float, sentence: str) -> None:
        self._sentences.append((clock, sentence))

    def tell(self, record: RequestRecord) -> Iterator[str]:
        """The story.

        Args:
            record: What became of the request.
        """
        yield (
            f"{_at(record.arrival_s)} Request {record.id} arrived with a prompt of "
            f"{record.num_prompt_tokens:,} tokens and asked for {record.max_tokens:,}."
        )
        if record.reason is FinishReason.REFUSED:
            yield f"{_at(record.arrival_s)} It was refused: {record.refusal}"
            return
        said = [*self._sentences, *_milestones(record)]
        said.sort(key=lambda entry: entry[0])
        for time, sentence in said:
            yield f"{_at(time)} {sentence}"


def _at(time: float) -> str:
    return f"{time:10.3f} s "


def _waiting(spell: _Spell, waited: float) -> str:
    sentence = f"It had waited {format_seconds(waited)}"
    if spell.ahead:
        sentence += f", at first behind {spell.ahead:,} other{'s' if spell.ahead > 1 else ''}"
    parts = [
        f"{format_seconds(seconds)} for {_REASONS[reason]}"
        for reason, seconds in sorted(spell.reasons.items(), key=lambda item: -item[1])
        if seconds
    ]
    counted = sum(spell.reasons.values())
    if waited - counted > 0:
        parts.append(f"{format_seconds(waited - counted)} for the end of a step")
    sentence += ": " + ", ".join(_as_cause(part) for part in parts)
    if spell.as_head is not None:
        unit = "tokens" if spell.as_head.reason is WaitReason.UNSPLIT else "blocks"
        sentence += (
            f"; when it came to the head of the queue it needed {spell.as_head.needed:,} {unit} "
            f"and {spell.as_head.available:,} were free"
        )
    return sentence + "."


def _as_cause(part: str) -> str:
    return part.replace(" for ", " because of ", 1) if " for the end" not in part else part


def _milestones(record: RequestRecord) -> Iterator[tuple[float, str]]:
    if record.first_token_s is not None and record.ttft_s is not None:
        yield (
            record.first_token_s,
            f"Its first token came, {format_seconds(record.ttft_s)} after its arrival.",
        )
    took = format_seconds(record.finished_s - record.arrival_s)
    if record.reason is FinishReason.ABORT:
        why = "was aborted"
    elif record.num_output_tokens == record.max_tokens:
        why = "had all the tokens it asked for and finished (length)"
    else:
        why = "had reached max_model_len and finished (length)"
    sentence = f"It {why}: {record.num_output_tokens:,} tokens, {took} after its arrival"
    if record.tpot_s is not None:
        sentence += f", {format_seconds(record.tpot_s)} per token after the first"
    if record.num_preemptions:
        times = "once" if record.num_preemptions == 1 else f"{record.num_preemptions:,} times"
        sentence += (
            f". It was preempted {times}, and {record.recomputed_tokens:,} tokens were computed "
            "again for that"
        )
    yield record.finished_s, sentence + "."
