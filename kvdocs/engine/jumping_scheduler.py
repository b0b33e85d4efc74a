"""The scheduler's rules with decoding requests handled as a group, for the jumping engine.

A turn costs as much as it has events, not as much as it has requests. Where the order of requests
could matter in a way the group does not know, all are brought up to date and the rules of
`kvdocs.engine.scheduler` decide, request by request.
"""

from __future__ import annotations

import math
from collections import deque

from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.counting import CountedRequest, CountingKVCache, counted
from kvdocs.engine.decoding import Decoding
from kvdocs.engine.events import Finish, WaitReason
from kvdocs.engine.kv_cache import Hit
from kvdocs.engine.request import Request, Status
from kvdocs.engine.scheduler import Batch, Scheduler
from kvdocs.engine.timer import StepLoad

_NOTHING_ELSE = Batch(0, 0)
"""The batch of a turn in which only decoding requests ran: they are in no batch."""


class JumpingScheduler(Scheduler):
    """The scheduler's rules, with the decoding requests handled as a group.

    Args:
        config: The settings, without a sliding window.
        cache: The KV cache.

    Attributes:
        turn: Number of the current turn.
        decoding: Requests that compute one token a turn.
        pending: The batch whose output is still to come, with asynchronous scheduling. Decoding
            requests are not in it: their token in flight goes without saying.
    """

    def __init__(self, config: EngineConfig, cache: CountingKVCache) -> None:
        super().__init__(config, cache)
        self.turn = 0
        self.decoding = Decoding(config.block_size)
        self._counts = cache
        self._others: list[CountedRequest] = []
        self._first_tokens: list[CountedRequest] = []
        self._num_admissions = 0
        self._head_is_stuck = False
        self.pending = Batch(0, 0)

    def add(self, request: Request) -> None:
        """Enqueue an arrived request; with priorities it may be the new head."""
        super().add(request)
        self._head_is_stuck &= self.config.policy is Policy.FCFS

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other settings; the head of the queue may get its chance."""
        super().reconfigure(config)
        self._head_is_stuck = False

    def abort(self, request: Request) -> None:
        """End a request that the user gave up on."""
        self._head_is_stuck = False
        if request in self.decoding.requests:
            self._leave(counted(request))
        elif request.status is Status.RUNNING:
            self._others.remove(counted(request))
        super().abort(request)

    # One turn -------------------------------------------------------------------------------

    def _schedule_running(self, batch: Batch, index: int = 0) -> None:
        count, blocks = self._decode_demand()
        plan = self._smooth_plan(batch, count, blocks)
        if plan is not None:
            self._counts.take(blocks)
            batch.budget -= count
            filling = self._filling_shared_blocks()
            for request, num_tokens in plan:
                self._cache_decoded_blocks(filling, before=request.admission)
                need = self._slots(request.num_computed_tokens + num_tokens)
                batch.give(request, num_tokens, self.cache.grow(request, need))
            self._cache_decoded_blocks(filling)
        elif self._goes_in_order(batch, count):
            self._grow_in_order(batch)
            batch.budget -= self._decode_demand()[0]
            self._cache_decoded_blocks(self._filling_shared_blocks())
            self._others = [r for r in self._others if r.status is Status.RUNNING]
            super()._schedule_running(batch, len(self.running) - len(self._others))
        else:
            self._bring_up_to_date()
            super()._schedule_running(batch, index)

    def _goes_in_order(self, batch: Batch, count: int) -> bool:
        """Whether decoding requests all come before the others and victims come from behind."""
        fcfs = self.config.policy is Policy.FCFS
        return fcfs and count <= batch.budget and self._others_last()

    def _grow_in_order(self, batch: Batch) -> None:
        """Give decoding requests their new blocks one by one, preempting where none is left."""
        unscheduled = self._due_unscheduled()
        for request in sorted(self.decoding.needing_block(self.turn), key=_admission):
            if request.status is not Status.RUNNING or request in unscheduled:
                continue
            while self.cache.num_free == 0 and request.status is Status.RUNNING:
                self._preempt(self.running.pop(), request, batch)
            if request.status is Status.RUNNING:
                self._counts.take(1)

    def _preempt(self, victim: Request, needy: Request, batch: Batch) -> None:
        if victim in self.decoding.requests:
            self._leave(counted(victim))
            if self.config.async_scheduling:
                self.pending.num_tokens[victim] = victim.num_in_flight_tokens
                self.pending.samples.add(victim)
        super()._preempt(victim, needy, batch)

    def _smooth_plan(
        self, batch: Batch, count: int, blocks: int
    ) -> list[tuple[CountedRequest, int]] | None:
        """Tokens for those not decoding, if nobody's turn can depend on the order; else None.

        Args:
            batch: The step's batch, still empty.
            count: Tokens that decoding takes.
            blocks: Blocks that decoding takes.
        """
        budget = batch.budget - count
        if not self._others:
            return [] if budget >= 0 and blocks <= self.cache.num_free else None
        wanted = [(request, self._tokens_to_run(request, batch)) for request in self._others]
        enough = sum(max(num_tokens, 0) for _, num_tokens in wanted) <= budget
        if budget < 0 or not (enough or self._others_last()):
            return None
        plan = []
        for request, most in wanted:
            num_tokens = min(most, budget)
            if num_tokens > 0:
                plan.append((request, num_tokens))
                budget -= num_tokens
                need = self._slots(request.num_computed_tokens + num_tokens)
                blocks += self.cache.blocks_to_grow(request, need)
        return plan if blocks <= self.cache.num_free else None

    def _others_last(self) -> bool:
        return self.running[len(self.running) - len(self._others) :] == self._others

    def _due_unscheduled(self) -> list[CountedRequest]:
        """Requests whose last token is already in flight (asynchronous scheduling)."""
        return self.decoding.due(self.turn) if self.config.async_scheduling else []

    def _decode_demand(self) -> tuple[int, int]:
        """Tokens and new blocks that decoding takes in this turn."""
        needing = self.decoding.needing_block(self.turn)
        spared = self._due_unscheduled()
        blocks = len(needing) - sum(request in needing for request in spared)
        return self.decoding.count - len(spared), blocks

    def _filling_shared_blocks(self) -> deque[CountedRequest]:
        """Decoding requests that fill a block which others may hit, in the order of admission.

        A block is full in the turn that schedules its last token or, with asynchronous scheduling,
        in the turn after: only then is that token known.
        """
        if not self.decoding.num_shared:
            return deque()
        ahead = not self.config.async_scheduling
        needing = self.decoding.needing_block(self.turn + ahead)
        unscheduled = self._due_unscheduled()
        return deque(sorted((r for r in needing if r not in unscheduled), key=_admission))

    def _cache_decoded_blocks(
        self, filling: deque[CountedRequest], before: float = math.inf
    ) -> None:
        """Register filled blocks in the order of the running list: of twins the first counts."""
        ahead = not self.config.async_scheduling
        while filling and filling[0].admission < before:
            request = filling.popleft()
            gone = self.turn - request.synced_turn
            num_tokens = request.num_computed_tokens + gone + ahead
            self._counts.register(request, num_tokens // self.config.block_size)

    def _load(self, batch: Batch) -> StepLoad:
        count, context = self._decode_load()  # one token sees as many keys as it has context
        if not batch.num_tokens:
            return StepLoad(count, count, context, context)
        load = super()._load(batch)
        return StepLoad(
            load.num_tokens + count,
            load.num_seqs + count,
            load.kv_tokens + context,
            load.query_key_pairs + context,
        )

    def _decode_load(self) -> tuple[int, int]:
        spared = self._due_unscheduled()
        count = self.decoding.count - len(spared)
        context = self.decoding.context + count
        for request in spared:
            context -= request.num_computed_tokens + self.turn - request.synced_turn
        return count, context

    def _admit(self, request: Request, hit: Hit, num_tokens: int, batch: Batch) -> None:
        super()._admit(request, hit, num_tokens, batch)
        admitted = counted(request)
        admitted.admission = self._num_admissions
        self._num_admissions += 1
        self._others.append(admitted)

    def _outputs(self, batch: Batch) -> list[Request]:
        """Requests that finish: of the batch and of those decoding, in scheduling order."""
        self.counters.generation_tokens += self.decoding.count
        finished = super()._outputs(batch)
        for request in sorted(self.decoding.due(self.turn), key=_admission):
            self._leave(request)
            self._counts.register(request, request.num_tokens // self.config.block_size)
            computed = request.num_computed_tokens + (not self.config.async_scheduling)
            request.num_computed_tokens = computed
            request.num_blocks = -(-computed // self.config.block_size)
            request.num_tokens += 1
            request.last_token_at = self.clock
            finished.append(request)
        self.decoding.context += self.decoding.count
        return sorted(finished, key=_admission) if len(finished) > 1 else finished

    def update_all(self, due: Batch, seconds: float) -> list[Finish]:
        """Take the output of a turn that was decided by the rules.

        Args:
            due: The oldest batch not yet updated.
            seconds: How long the turn took.

        Returns:
            The requests that finished, in scheduling order.
        """
        counters = self.counters
        before = counters.prompt_tokens + counters.generation_tokens
        self._tally_decoding(seconds)
        finished = self.update(due)
        brought = counters.prompt_tokens + counters.generation_tokens - before
        self.tally.add_turns(brought)
        return finished

    def tally_first_turn(self, seconds: float) -> None:
        """Count the tokens of the first turn of a jump.

        Args:
            seconds: How long the turn took.
        """
        before = self.counters.prompt_tokens
        self._tally_decoding(seconds)
        brought = self.decoding.count + self.counters.prompt_tokens - before
        self.tally.add_turns(brought)

    def _tally_decoding(self, seconds: float) -> None:
        """Count the gaps before the tokens of decoding requests.

        A gap is one turn, but for requests that had no token in the turn before.
        """
        regular = self.decoding.count
        for request in self._first_tokens:
            if request in self.decoding.requests:
                self._date_token(request)
                regular -= 1
        self._first_tokens.clear()
        self.tally.add_gaps(seconds, regular)

    def end_turn(self, batch: Batch, *, finished: bool) -> None:
        """Sort requests into those that decode from now on and the others.

        Args:
            batch: What was scheduled in this turn.
            finished: Whether a request finished in it.
        """
        pure = not (batch.num_tokens or batch.preemptions or finished)
        self._head_is_stuck = pure and batch.wait is not None and self._sticks(batch.wait.reason)
        self.turn += 1
        others, self._others = self._others, []
        for request in others:
            if request.status is not Status.RUNNING:
                continue
            if self._is_decoding(request):
                self._join(request)
            else:
                self._others.append(request)
        self.decoding.forget_before(self.turn)

    def _sticks(self, reason: WaitReason) -> bool:
        """Whether the head stays where it is while others decode and none of them ends.

        Free blocks only get fewer and so do hits; but a chunk may shrink with its hit, and decoded
        blocks may become hits.
        """
        if reason in (WaitReason.SEQS, WaitReason.BUDGET):
            return True
        gated = self.config.scheduler_reserve_full_isl or reason is WaitReason.UNSPLIT
        return gated and not self.decoding.num_shared

    def _is_decoding(self, request: CountedRequest) -> bool:
        left = request.num_tokens - request.num_computed_tokens
        if self.config.async_scheduling:
            return left == 0 and request.num_output_placeholders == 1
        return left == 1

    def _join(self, request: CountedRequest) -> None:
        self.decoding.join(request, self.turn)
        if self.pending.num_tokens.pop(request, 0):
            self.pending.samples.remove(request)
        if request.first_token_at is None or request.last_token_at != self.clock:
            self._first_tokens.append(request)

    def _leave(self, request: CountedRequest) -> None:
        """Bring a decoding request up to date: blocks that its tokens filled, token in flight."""
        self.decoding.leave(request, self.turn)
        if self.turn > request.synced_turn:
            stored = request.num_computed_tokens - self.config.async_scheduling
            self._counts.register(request, stored // self.config.block_size)
            request.num_in_flight_tokens = int(self.config.async_scheduling)
            request.last_token_at = self.clock

    def _bring_up_to_date(self) -> None:
        """Turn the group back into single requests, also in the batch whose output is to come."""
        decoding = set(self.decoding.requests)
        for request in decoding:
            self._leave(request)
        self._others = [counted(request) for request in self.running]
        if self.config.async_scheduling:
            was, self.pending.num_tokens = self.pending.num_tokens, {}
            for request in self._others:
                if request in decoding or request in was:
                    self.pending.num_tokens[request] = request.num_in_flight_tokens
            self.pending.samples |= decoding

    # Many turns -----------------------------------------------------------------------------

    def num_uneventful_turns(self) -> int:
        """How many turns from now on are sure to decide nothing.

        Requests may finish at the end of the last one. With asynchronous scheduling they are not
        scheduled in it any more, and the budget they leave may go to somebody who waits.

        Returns:
            A number of turns, 0 if the next one must be taken by the rules.
        """
        stuck = not self.waiting or self._head_is_stuck
        alike = not self._others and not self.decoding.num_shared
        fits = 0 < self.decoding.count <= self.config.max_num_batched_tokens
        if not (stuck and alike and fits):
            return 0
        budget_opens = self.config.async_scheduling and bool(self.waiting)
        turns = self.decoding.next_due() - self.turn + (not budget_opens)
        at_most = self.decoding.count * (turns // self.config.block_size + 1)
        return turns if at_most <= self.cache.num_free else self._turns_until_short(turns)

    def _turns_until_short(self, most: int) -> int:
        """Turns that the free blocks last for, by bisection."""
        enough, too_many = 0, most + 1
        while too_many - enough > 1:
            middle = (enough + too_many) // 2
            if self.decoding.blocks_needed(self.turn, middle) > self.cache.num_free:
                too_many = middle
            else:
                enough = middle
        return enough

    def decode_load(self, turns_ahead: int = 0) -> StepLoad:
        """The batch of an uneventful turn.

        Args:
            turns_ahead: How many turns from now.

        Returns:
            Its load.
        """
        count = self.decoding.count
        context = self.decoding.context + count * (turns_ahead + 1)
        return StepLoad(count, count, context, context)

    def jump(self, num_turns: int) -> None:
        """Let uneventful turns go by, and finish who is due at the end of the last.

        Args:
            num_turns: At most `num_uneventful_turns()`.
        """
        num_tokens = (num_turns - 1) * self.decoding.count
        self._counts.take(self.decoding.blocks_needed(self.turn, num_turns - 1))
        self.decoding.context += num_tokens
        self.counters.generation_tokens += num_tokens
        self.turn += num_turns - 1
        _, blocks = self._decode_demand()
        self._counts.take(blocks)
        if self.config.async_scheduling:
            self.pending = Batch(0, 0)
            self.pending.load = self._load(self.pending)
        if self.update(_NOTHING_ELSE):
            self._head_is_stuck = False
        self.turn += 1
        self.decoding.forget_before(self.turn)


def _admission(request: Request) -> int:
    return counted(request).admission
