"""Which requests run in a step: vLLM's continuous batching, rule by rule.

A step has two halves. `schedule` gives running requests their tokens and blocks, preempting where
blocks run out, then admits waiting ones. `update` takes the model's output: a token for every
request whose prompt is through, and finishes those that have enough. With asynchronous scheduling
`update` comes one step later, so `schedule` works with placeholders for tokens it does not have.

The rules follow vLLM 0.33.0 `vllm/v1/core/sched/scheduler.py` (schedule, _preempt_request,
update_from_output) and `vllm/v1/core/sched/async_scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvdocs.engine.config import EngineConfig, Policy
from kvdocs.engine.events import (
    Admission,
    Counters,
    Finish,
    Gauges,
    Preemption,
    PrefixStats,
    Wait,
    WaitReason,
)
from kvdocs.engine.kv_cache import Hit, KVCache
from kvdocs.engine.queues import make_queue
from kvdocs.engine.request import Request, Status
from kvdocs.engine.tally import Tally
from kvdocs.engine.timer import NO_LOAD, StepLoad


@dataclass(slots=True)
class Batch:
    """What one call of `schedule` decided.

    Attributes:
        budget: Tokens of the step not yet given out.
        threshold: Largest prefill chunk in this step; 0 is no limit.
        num_tokens: Tokens given to each request, in scheduling order.
        new_blocks: Blocks newly given to each request, where there were any.
        samples: Requests that will generate a token.
        admissions: Waiting requests that started.
        preemptions: Running requests that lost their blocks.
        wait: Why the head of the queue was left waiting, if one was.
        load: The work in the batch, for the timing model.
        stall_s: Seconds it waits for keys and values from outside before it computes.
    """

    budget: int
    threshold: int
    num_tokens: dict[Request, int] = field(default_factory=dict)
    new_blocks: dict[Request, list[int]] = field(default_factory=dict)
    samples: set[Request] = field(default_factory=set)
    admissions: list[Admission] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    wait: Wait | None = None
    load: StepLoad = NO_LOAD
    stall_s: float = 0.0

    def give(self, request: Request, num_tokens: int, new_blocks: list[int]) -> None:
        """Put a request into the batch.

        Args:
            request: A running request, its blocks already taken.
            num_tokens: Tokens to compute.
            new_blocks: Blocks it got for them.
        """
        self.num_tokens[request] = num_tokens
        self.budget -= num_tokens
        if new_blocks:
            self.new_blocks[request] = new_blocks

    def take_back(self, request: Request) -> None:
        """Undo `give`, if there was one: the request was preempted after all.

        Args:
            request: A request that may be in the batch.
        """
        self.budget += self.num_tokens.pop(request, 0)
        self.new_blocks.pop(request, None)


class Scheduler:
    """The running list, the waiting queue, and the rules between them.

    Args:
        config: The settings.
        cache: The KV cache.

    Attributes:
        running: Running requests, in order of admission.
        waiting: Requests that have no blocks.
        counters: What has been counted since the start.
        tally: Gaps between tokens and the like, for histograms.
        ended: Requests that finished or were aborted since the list was last emptied.
        on_batch: Called with the clock and every batch that was decided by the rules.
        clock: Time of the turn under way, in seconds: its start in `schedule`, its end in `update`.
    """

    def __init__(self, config: EngineConfig, cache: KVCache) -> None:
        self.config = config
        self.cache = cache
        self.running: list[Request] = []
        self.waiting = make_queue(config.policy)
        self.clock = 0.0
        self.counters = Counters()
        self.tally = Tally()
        self.ended: list[Request] = []
        self.on_batch: Callable[[float, Batch], None] | None = None
        self._stats = PrefixStats()

    def add(self, request: Request) -> None:
        """Enqueue an arrived request.

        Args:
            request: A new request.
        """
        self.waiting.add(request)

    def abort(self, request: Request) -> None:
        """End a request that the user gave up on, in whatever state it is.

        Args:
            request: A request that has not finished.
        """
        if request.status is Status.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.status = Status.FINISHED_ABORTED
        request.finished_at = self.clock
        self.ended.append(request)
        self.cache.free(request)

    def reconfigure(self, config: EngineConfig) -> None:
        """Go on under other settings.

        Args:
            config: Settings that differ in limits only: the cache and the queue stay.
        """
        self.config = config

    @property
    def has_unfinished(self) -> bool:
        """Whether any request is running or waiting."""
        return bool(self.running) or bool(self.waiting)

    def take_prefix_stats(self) -> PrefixStats:
        """Prefix-cache figures since they were last taken.

        Returns:
            Tokens looked up and found.
        """
        stats, self._stats = self._stats, PrefixStats()
        return stats

    def gauges(self) -> Gauges:
        """What the engine shows now.

        Returns:
            Time, queues, cache usage and a copy of the counters.
        """
        return Gauges(
            clock=self.clock,
            running=len(self.running),
            waiting=len(self.waiting),
            usage=self.cache.usage,
            counters=replace(self.counters),
        )

    # Scheduling -----------------------------------------------------------------------------

    def schedule(self) -> Batch:
        """Decide one step.

        Returns:
            Who computes how many tokens, and what was admitted and preempted.
        """
        batch = Batch(self.config.max_num_batched_tokens, self._threshold())
        self._schedule_running(batch)
        self._schedule_waiting(batch)
        batch.load = self._load(batch)
        for request, num_tokens in batch.num_tokens.items():
            self._advance(request, num_tokens, batch)
        if self.on_batch is not None:
            self.on_batch(self.clock, batch)
        return batch

    def _load(self, batch: Batch) -> StepLoad:
        window = self.config.sliding_window or self.config.max_model_len
        total = kv_tokens = query_key_pairs = 0
        for request, num_tokens in batch.num_tokens.items():
            computed = request.num_computed_tokens
            total += num_tokens
            kv_tokens += min(computed + num_tokens, window)
            query_key_pairs += pairs(computed, num_tokens, window)
        return StepLoad(total, len(batch.num_tokens), kv_tokens, query_key_pairs)

    def _threshold(self) -> int:
        """The prefill limit protects others; a request that is alone has the whole budget."""
        alone = len(self.running) + len(self.waiting) <= 1
        return 0 if alone else self.config.long_prefill_token_threshold

    def _schedule_running(self, batch: Batch, index: int = 0) -> None:
        while index < len(self.running) and batch.budget > 0:
            request = self.running[index]
            num_tokens = self._tokens_to_run(request, batch)
            if num_tokens <= 0:
                index += 1
                continue
            self.cache.drop_skipped(request)
            index = self._make_room(request, num_tokens, batch, index)
            if request.status is Status.RUNNING:
                need = self._slots(request.num_computed_tokens + num_tokens)
                batch.give(request, num_tokens, self.cache.grow(request, need))
                index += 1
            elif self.config.policy is Policy.FCFS:
                return

    def _tokens_to_run(self, request: Request, batch: Batch) -> int:
        if self._output_is_coming(request):
            return 0
        known = request.num_tokens + request.num_output_placeholders
        num_tokens = limit(known - request.num_computed_tokens, batch.threshold)
        room = self.config.max_model_len - 1 - request.num_computed_tokens
        return min(num_tokens, batch.budget, room)

    def _output_is_coming(self, request: Request) -> bool:
        """Whether the output in flight is surely the last (asynchronous scheduling)."""
        placeholders = request.num_output_placeholders
        last = request.num_prompt_tokens + request.max_tokens
        return placeholders > 0 and request.num_computed_tokens + 2 - placeholders >= last

    def _slots(self, num_tokens: int) -> int:
        return min(num_tokens, self.config.max_model_len)

    def _make_room(self, request: Request, num_tokens: int, batch: Batch, index: int) -> int:
        """Preempt until `request` can grow, or is itself the victim.

        Returns:
            Where `request` (or, if it is gone, its successor) now stands in the running list.
        """
        need = self._slots(request.num_computed_tokens + num_tokens)
        while self.cache.blocks_to_grow(request, need) > self.cache.num_free:
            victim_index = self._pick_victim()
            victim = self.running.pop(victim_index)
            batch.take_back(victim)
            index -= victim_index < index
            self._preempt(victim, request, batch)
            if victim is request:
                break
        return index

    def _pick_victim(self) -> int:
        """FCFS: the last admitted. Priority: the least urgent, of those the latest arrival."""
        if self.config.policy is Policy.FCFS:
            return len(self.running) - 1
        return max(
            range(len(self.running)),
            key=lambda i: (self.running[i].priority, self.running[i].arrival),
        )

    def _preempt(self, victim: Request, needy: Request, batch: Batch) -> None:
        """Recomputation is the only way of preempting: all blocks go, output tokens stay.

        What is still in flight is delivered when it returns, but counts nothing any more.
        """
        lost_tokens = victim.num_computed_tokens
        freed_blocks = self.cache.free(victim)
        victim.status = Status.PREEMPTED
        victim.num_computed_tokens = 0
        victim.num_stale_tokens = victim.num_in_flight_tokens
        victim.num_output_placeholders = 0
        victim.num_preemptions += 1
        self.counters.preemptions += 1
        victim.num_lost_tokens += lost_tokens
        victim.last_lost_tokens = lost_tokens
        self.waiting.put_back(victim)
        batch.preemptions.append(
            Preemption(
                request_id=victim.id,
                for_request_id=needy.id,
                freed_blocks=freed_blocks,
                lost_tokens=lost_tokens,
            )
        )

    def _schedule_waiting(self, batch: Batch) -> None:
        """Admit from the head of the queue; the first that cannot run stops all behind it."""
        while self.waiting and batch.wait is None:
            head = self.waiting.peek()
            reason = self._closed(batch)
            if reason is None:
                self._try_admit(head, batch)
            else:
                batch.wait = self._wait(head, reason)

    def _closed(self, batch: Batch) -> WaitReason | None:
        if batch.preemptions:
            return WaitReason.PREEMPTION
        if batch.budget <= 0:
            return WaitReason.BUDGET
        return WaitReason.SEQS if len(self.running) >= self.config.max_num_seqs else None

    def _try_admit(self, request: Request, batch: Batch) -> None:
        hit = self.cache.find_hit(request)
        known = hit.num_tokens + self._received(request, hit)
        num_tokens = limit(request.num_tokens - known, batch.threshold)
        if num_tokens > batch.budget and not self.config.enable_chunked_prefill:
            reason = WaitReason.UNSPLIT
            batch.wait = self._wait(request, reason, num_tokens, batch.budget)
            return
        num_tokens = min(num_tokens, batch.budget)
        needed = self._blocks_to_admit(request, hit, self._slots(known + num_tokens))
        if needed > self.cache.num_free:
            batch.wait = self._wait(request, WaitReason.BLOCKS, needed, self.cache.num_free)
        else:
            self._admit(request, hit, num_tokens, batch)

    def _received(self, request: Request, hit: Hit) -> int:
        """Tokens beyond the hit whose keys and values come with the request, the first time."""
        if request.num_preemptions:
            return 0
        received = min(request.spec.received_tokens, request.num_tokens - 1)
        return max(received - hit.num_tokens, 0)

    def _blocks_to_admit(self, request: Request, hit: Hit, slots: int) -> int:
        """Free blocks an admission needs: for its chunk, and as a gate for its whole sequence."""
        needed = self.cache.blocks_to_admit(request, hit, slots)
        whole = self._slots(request.num_tokens)
        if self.config.scheduler_reserve_full_isl and whole > slots:
            gate = self.cache.blocks_to_admit(request, hit, whole, capped=True)
            needed = max(needed, gate)
        return needed + (self.config.watermark_blocks if self.running else 0)

    def _admit(self, request: Request, hit: Hit, num_tokens: int, batch: Batch) -> None:
        self.waiting.pop_next()
        resumed = request.status is Status.PREEMPTED
        self._count_lookup(request, hit)
        known = hit.num_tokens + self._received(request, hit)
        new_blocks = self.cache.admit(request, hit, self._slots(known + num_tokens))
        request.status = Status.RUNNING
        request.num_computed_tokens = known
        if request.admitted_at is None:
            request.admitted_at = self.clock
            request.hit_tokens = hit.num_tokens
        if resumed:
            request.num_recomputed_tokens += max(request.last_lost_tokens - known, 0)
        self.running.append(request)
        batch.give(request, num_tokens, new_blocks)
        batch.admissions.append(
            Admission(
                request_id=request.id,
                hit_tokens=hit.num_tokens,
                resumed=resumed,
                hit_blocks=hit.blocks,
            )
        )

    def _count_lookup(self, request: Request, hit: Hit) -> None:
        """Count a lookup once per admission; re-admissions apart."""
        if not self.config.enable_prefix_caching:
            return
        stats = self._stats
        if request.num_preemptions:
            stats.preempted_queries += request.num_tokens
            stats.preempted_hits += hit.num_tokens
        else:
            stats.queries += request.num_tokens
            stats.hits += hit.num_tokens
            self.counters.prefix_cache_queries += request.num_tokens
            self.counters.prefix_cache_hits += hit.num_tokens
            self.tally.lookups.add(self.clock, request.num_tokens, hit.num_tokens)

    def _wait(self, head: Request, reason: WaitReason, needed: int = 0, available: int = 0) -> Wait:
        return Wait(
            request_id=head.id,
            reason=reason,
            needed=needed,
            available=available,
            num_behind=len(self.waiting) - 1,
        )

    def _advance(self, request: Request, num_tokens: int, batch: Batch) -> None:
        """Count tokens as computed already now, so that the next step can be scheduled."""
        request.num_computed_tokens += num_tokens
        request.num_in_flight_tokens += num_tokens
        known = request.num_tokens + request.num_output_placeholders
        if request.num_computed_tokens >= known:
            batch.samples.add(request)
            request.num_output_placeholders += self.config.async_scheduling

    # Output ---------------------------------------------------------------------------------

    def update(self, batch: Batch) -> list[Finish]:
        """Take the model's output for a batch.

        Args:
            batch: The oldest batch not yet updated.

        Returns:
            The requests that finished, in scheduling order.
        """
        return [self._finish(request) for request in self._outputs(batch)]

    def _outputs(self, batch: Batch) -> list[Request]:
        finished: list[Request] = []
        for request, num_tokens in batch.num_tokens.items():
            request.num_in_flight_tokens -= num_tokens
            stale = request.num_stale_tokens > 0
            if stale:
                request.num_stale_tokens -= num_tokens
            if request in batch.samples and not request.is_finished:
                self._append_token(request, stale=stale)
                if request.num_tokens >= request.last_token_count:
                    finished.append(request)
        return finished

    def _append_token(self, request: Request, *, stale: bool) -> None:
        request.num_tokens += 1
        self.counters.generation_tokens += 1
        self._date_token(request)
        if not stale and request.num_output_placeholders > 0:
            request.num_output_placeholders -= 1
            stored = request.num_computed_tokens - request.num_in_flight_tokens
            self.cache.cache_full_blocks(request, stored)

    def _date_token(self, request: Request) -> None:
        if request.first_token_at is None:
            request.first_token_at = self.clock
            self.counters.prompt_tokens += request.num_prompt_tokens
            self.counters.prompt_tokens_cached += request.hit_tokens
        else:
            self.tally.add_gaps(self.clock - request.last_token_at)
        request.last_token_at = self.clock

    def _finish(self, request: Request) -> Finish:
        if request.status is Status.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)  # its last token was in flight when it was preempted
        request.status = Status.FINISHED_LENGTH_CAPPED
        request.finished_at = self.clock
        self.ended.append(request)
        self.cache.free(request)
        return Finish(
            request_id=request.id,
            status=request.status,
            num_output_tokens=request.num_output_tokens,
        )


def limit(num_tokens: int, threshold: int) -> int:
    """Tokens of a chunk under a threshold; 0 is none.

    Args:
        num_tokens: Tokens there are to compute.
        threshold: Most tokens of a chunk.

    Examples:
        >>> limit(100, 30), limit(100, 0)
        (30, 100)
    """
    return min(num_tokens, threshold) if threshold else num_tokens


def pairs(num_computed: int, num_tokens: int, window: int) -> int:
    """Scores that attention computes for a stretch of tokens: each sees itself and those before.

    Args:
        num_computed: Tokens before the stretch.
        num_tokens: Tokens in it.
        window: Tokens that one sees at most.

    Returns:
        Pairs of a query and a key.

    Examples:
        >>> pairs(0, 3, 100), pairs(10, 1, 100), pairs(10, 2, 4)
        (6, 11, 8)
    """
    growing = max(0, min(num_tokens, window - num_computed))
    seen = growing * num_computed + growing * (growing + 1) // 2
    return seen + (num_tokens - growing) * window
