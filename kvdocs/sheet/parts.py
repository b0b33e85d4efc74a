"""The lines of a cheat sheet, part by part, each with its figure and the step that explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kvdocs.catalog import get_link
from kvdocs.errors import ConfigError, FlagError
from kvdocs.flags import ServerFlags
from kvdocs.model import LayerGroup, LayerKind
from kvdocs.model.cost import layer_token_bytes
from kvdocs.sheet.line import Grid, Line, Part
from kvdocs.sheet.rules import DIAGNOSIS, METRICS, RULES
from kvdocs.sheet.subject import LENGTHS, Subject
from kvdocs.sizing import default_max_num_batched_tokens, default_max_num_seqs
from kvdocs.timing import SequenceWork, transfer_time
from kvdocs.units import GB, GIB, format_bytes, format_number, format_seconds

STAY_S: Final = 10
"""Seconds that a request of the sheet's Little's law stays."""
SHARED: Final = (6000, 30)
"""Tokens of a shared beginning, and how many share it (the lesson's repository)."""
ANSWER: Final = (1000, 500)
"""Prompt and output whose recomputing is priced, in tokens (step 3)."""
LINKS: Final = ("pcie5", "ethernet-400")
"""Links that keys and values are moved over."""


def parts(subject: Subject) -> tuple[Part, ...]:
    """Return the sheet of a server.

    Args:
        subject: The server.

    Examples:
        >>> from kvdocs.sheet.subject import read_subject
        >>> memory = parts(read_subject())[0]
        >>> memory.lines[-1].what, memory.lines[-1].value
        ('KV pool', '53.44 GB')
    """
    return (
        Part("Memory", tuple(_memory(subject))),
        Part("Bytes per token", tuple(_bytes(subject))),
        Part("What fits", tuple(_fits(subject))),
        Part("Blocks", tuple(_blocks(subject))),
        Part("Time, to about a third", tuple(_time(subject))),
        Part("Flags", tuple(_flags(subject))),
        Part("Metrics", METRICS),
        Part("Diagnosis", DIAGNOSIS),
        Part("Rules of thumb", RULES),
    )


def _gb(num_bytes: float) -> str:
    return format_bytes(
        num_bytes, "GB", 1 if num_bytes >= 100 * GB else 2 if num_bytes >= GB else 3
    )


def _memory(s: Subject) -> Iterator[Line]:
    budget, several = s.budget, s.num_gpus > 1
    each = " on each GPU" if several else ""
    total, share = _gb(budget.total_bytes), f"{budget.utilization:g}"
    claimed = f"{share} × {total}{_sold(s)}"
    yield Line(f"Claimed at start{each}", claimed, 1, _gb(budget.requested_bytes))
    parameters = f"{s.checkpoint.num_parameters / 1e9:,.3g} billion parameters"
    split = f", ÷ {s.num_gpus} GPUs" if several else ""
    yield Line(f"Weights{each}", f"{parameters}{split}", 1, _gb(budget.weights_bytes))
    reserve = budget.activation_bytes + budget.non_torch_bytes + budget.cuda_graph_bytes
    terms = f"{format_number(budget.activation_bytes / GB)} + "
    terms += f"{format_number(budget.non_torch_bytes / GB)} GB"
    if budget.cuda_graph_bytes:
        terms += f" + {format_number(budget.cuda_graph_bytes / GB)} GB buffers"
    yield Line("Workspace, CUDA context", f"{terms}, round numbers", 1, _gb(reserve))
    pool = " − ".join(
        format_number(size / GB) for size in (budget.requested_bytes, budget.weights_bytes, reserve)
    )
    pool = f"{s.num_gpus} × ({pool}) GB" if several else f"{pool} GB"
    yield Line("KV pool", pool, 6 if several else 1, _gb(s.held.kv_pool_bytes))


def _sold(s: Subject) -> str:
    """What the memory is in GiB, who says so, and what the maker calls it, if another number."""
    total, sold = s.budget.total_bytes, s.gpu.memory_bytes
    if total == sold:
        return ""
    seen = "" if s.gpu.cuda_memory_bytes else " by the driver, vLLM sees less"
    return f" ({format_bytes(total, 'GiB', 1)}{seen}; sold as {format_bytes(sold, 'GB')})"


def _bytes(s: Subject) -> Iterator[Line]:
    cost, kib = s.cost, "KiB"
    formula = _formula(s) if s.is_plain else "of the layers that keep every token"
    if cost.bytes_per_token:
        yield Line("One token", formula, 4, format_bytes(cost.bytes_per_token, kib))
    whole = "; vLLM keeps all" if s.model.group(LayerKind.CHUNKED) else " only"
    for window in cost.windows:
        within = f"of the last {window.tokens:,} tokens{whole}"
        yield Line("in windows", within, 4, format_bytes(window.bytes_per_token, kib))
    if cost.constant_bytes_per_sequence:
        state = format_bytes(cost.constant_bytes_per_sequence, "MiB")
        yield Line("state", "once a sequence, whatever its length", 4, state)
    yield from _other_heads(s)
    yield from _other_dtype(s)
    yield Line(f"{s.tokens:,} tokens", _sequence(s), 9, f"{s.sequence_bytes / GIB:,.2f} GiB")
    if s.num_gpus > 1:
        yield from _on_each_gpu(s)


def _sequence(s: Subject) -> str:
    """What a sequence keeps, and what vLLM counts for it where that is more."""
    size = _gb(s.sequence_bytes)
    if s.is_plain:
        return f"one sequence = {size}{s.share.where}"
    if s.is_one_row:
        return f"one sequence = {size}"
    counted = f"{s.sequence_blocks:,} × {format_bytes(s.block_bytes, 'KiB')}{s.share.where}"
    return f"one sequence keeps {size}; vLLM counts {counted}"


def _on_each_gpu(s: Subject) -> Iterator[Line]:
    heads = s.model.num_key_value_heads
    if s.model.group(LayerKind.LATENT):
        size = format_bytes(s.cost.bytes_per_token_per_gpu, "KiB")
        yield Line("Latent on each GPU", "one for all heads: not split, but copied", 6, size)
    elif heads:
        how = f"{heads} ÷ {s.num_gpus} GPUs, at least 1 (then copies)"
        yield Line("KV heads per GPU", how, 6, str(max(1, heads // s.num_gpus)))


def _attention(s: Subject) -> LayerGroup | None:
    """The layers, where all are alike and keep heads of every token."""
    first = s.model.layers[0]
    return first if len(s.model.layers) == 1 and first.kind is LayerKind.FULL else None


def _formula(s: Subject) -> str:
    group, size = _attention(s), format_number(s.cost.element_bytes)
    if group is None:
        kept = (
            (each.count, layer_token_bytes(each, s.cost.kv_cache_dtype, 1))
            for each in s.model.layers
        )
        return " + ".join(f"{count} layers × {each:,} B" for count, each in kept if each)
    if group.head_size != group.head_size_v:
        pair = f"({group.head_size} + {group.head_size_v})"
        return f"{pair} × {group.count} layers × {group.num_kv_heads} KV heads × {size} B"
    return (
        f"2 × {group.count} layers × {group.num_kv_heads} KV heads × {group.head_size} head dim"
        f" × {size} B"
    )


def _other_heads(s: Subject) -> Iterator[Line]:
    group, queries = _attention(s), s.model.num_attention_heads
    if group is None or not queries:
        return
    one = s.cost.bytes_per_token / group.num_kv_heads
    values = f"{format_bytes(queries * one, 'KiB')}, {format_bytes(one, 'KiB')}"
    yield Line("as MHA, as MQA", f"with {queries} KV heads, with 1", 5, values)


def _other_dtype(s: Subject) -> Iterator[Line]:
    other, word = ("auto", "bf16") if s.cost.element_bytes == 1 else ("fp8", "fp8")
    try:
        cost = s.with_dtype(other)
    except (ConfigError, FlagError):
        return
    kinds = [each for each in (cost.bytes_per_token, cost.window_bytes_per_token) if each]
    size = format_number(cost.element_bytes)
    how = f"{size} B a value, whatever the weights are"
    if len(kinds) > 1:
        how = f"{size} B a value; of every token, in windows"
    yield Line(f"{word} cache", how, 8, ", ".join(format_bytes(each, "KiB") for each in kinds))


def _fits(s: Subject) -> Iterator[Line | Grid]:
    n = s.at_once(s.tokens)
    yield Line("Tokens in the pool", _pool_tokens(s), 1, f"{s.pool_tokens:,}")
    yield Line(f"Sequences of {s.tokens:,}", _sequences(s, n), 9, f"{n:,}")
    yield _lengths(s)
    yield Line("Longest request", "what vLLM starts with as --max-model-len", 7, f"{s.longest:,}")
    law = f"in flight = requests/s × seconds each stays; if {STAY_S} s, {n:,} ÷ {STAY_S}"
    yield Line("Little's law", law, 10, f"{format_number(n / STAY_S, 1)} /s")
    how = f"requests/s × seconds × tokens each; 1 /s × {STAY_S} s × {s.tokens:,}"
    share = STAY_S * s.tokens / max(1, s.pool_tokens)
    yield Line("Working set", how, 10, f"{share:.0%} of the pool" if s.held.starts else "")


def _pool_tokens(s: Subject) -> str:
    if not s.is_plain:
        return f"{s.pool_blocks:,} blocks ÷ {s.sequence_blocks:,} a sequence × {s.tokens:,}"
    share = s.share
    copies = f" ({share.copies})" if share.copies else ""
    return f"{_gb(share.pool_bytes)}{share.where} ÷ {share.bytes_per_token:,} B{copies}"


def _sequences(s: Subject, at_once: int) -> str:
    """The division, in blocks where bytes do not say how many fit."""
    share = s.share
    if s.is_plain and share.pool_bytes // s.sequence_bytes == at_once:
        return f"{_gb(share.pool_bytes)} ÷ ({share.bytes_per_token:,} B × {s.tokens:,})"
    return f"{s.pool_blocks:,} blocks ÷ {s.sequence_blocks:,} a sequence"


def _lengths(s: Subject) -> Grid:
    rows = []
    for word, dtype in (("bf16", "auto"), ("fp8", "fp8")):
        try:
            counts = tuple(f"{s.at_once(each, kv_cache_dtype=dtype) or '–'}" for each in LENGTHS)
        except (ConfigError, FlagError):
            continue
        rows.append((word, *counts))
    head = ("at once, of", *(f"{each // 1024}K" for each in LENGTHS))
    return Grid(head, tuple(rows), 9)


def _blocks(s: Subject) -> Iterator[Line]:
    held, (prefix, users) = s.held, SHARED
    size, share, block = held.block_size, s.share, format_bytes(s.block_bytes, "KiB")
    how = f"of {size} tokens: {_gb(share.pool_bytes)}{share.where} ÷ {block}"
    yield Line("Blocks in the pool", how, 13, f"{s.pool_blocks:,}")
    yield Line("A sequence takes", _sequence_blocks(s), 13, f"{s.sequence_blocks:,}")
    yield Line("Empty", "the rest of each sequence's last block", 13, f"≤ {size - 1} tokens")
    slab = s.pool_tokens // s.tokens
    yield Line(
        "Contiguous slabs",
        f"pool ÷ limit, however short they are; at {s.tokens:,}",
        12,
        f"{slab:,}",
    )
    yield Line(
        "Shared beginning",
        f"full blocks once: ⌊{prefix:,} ÷ {size}⌋ for {users} users",
        15,
        f"{prefix // size:,}",
    )
    yield Line(
        "A block's hash",
        "hash before it + its tokens + extras: one change changes all after",
        15,
    )
    yield Line(
        "Pool full",
        "the last admitted is preempted, and recomputed but for cached blocks",
        16,
        f"≤ {format_seconds(s.timer.recompute_time(s.tokens))}",
    )


def _sequence_blocks(s: Subject) -> str:
    """Blocks of a sequence: one row of them, or one for each group of layers."""
    size, counts = s.held.block_size, Counter(s.held.blocks_by_group)
    if s.is_one_row:
        return f"⌈tokens ÷ {size}⌉, as it grows; ⌈{s.tokens:,} ÷ {size}⌉"
    rarest_first = sorted(counts.items(), key=lambda pair: pair[1])
    terms = (
        f"{groups} × {blocks:,}" if groups > 1 else f"{blocks:,}" for blocks, groups in rarest_first
    )
    windows = ", two batches in flight" if s.cost.windows else ""
    return f"by groups of layers{windows}: {' + '.join(terms)}"


def _time(s: Subject) -> Iterator[Line]:
    yield Line("A step", "max(bytes ÷ HBM bandwidth, FLOPs ÷ peak) + overhead", 3)
    alone = s.timer.step_time([SequenceWork(1, s.tokens)])
    yield Line(
        "Decode, one sequence",
        f"reads weights {format_seconds(alone.weights_s)}, cache {format_seconds(alone.kv_s)}",
        2,
        format_seconds(alone.seconds),
    )
    n = max(1, s.at_once(s.tokens))
    full = s.timer.step_time([SequenceWork(1, s.tokens)] * n)
    yield Line(
        f"Decode, {n:,} of them",
        f"reads the cache {format_seconds(full.kv_s)}",
        10,
        format_seconds(full.seconds),
    )
    yield Line(
        "Prefill",
        f"{s.tokens:,} tokens, arithmetic",
        2,
        format_seconds(s.timer.prefill_time(s.tokens)),
    )
    yield _without_cache()
    size = s.cost.sequence_bytes_at(s.tokens)
    links = [get_link(name) for name in LINKS]
    times = (
        f"{link.name}: {format_seconds(transfer_time(size, link, efficiency=s.timer.efficiency))}"
        for link in links
    )
    yield Line("Move one sequence", f"{'; '.join(times)}. Pays if below prefill", 19)


def _without_cache() -> Line:
    prompt, output = ANSWER
    without = output * prompt + output * (output - 1) // 2
    times = without / (prompt + output - 1)
    how = f"n × p + n(n − 1)/2 tokens; p = {prompt:,}, n = {output:,}"
    return Line("Without a cache", how, 3, f"{times:,.0f} × the work")


def _flags(s: Subject) -> Iterator[Line]:
    seqs, batch = (
        default_max_num_seqs(s.gpu, s.flags),
        default_max_num_batched_tokens(s.gpu, s.flags),
    )
    default = f"default {ServerFlags().gpu_memory_utilization:g}"
    share = f"share of the whole GPU: moves the pool; here {s.budget.utilization:g}"
    yield Line("`--gpu-memory-utilization`", share, 1, default)
    yield Line("`--max-model-len`", "limit of one request; reserves nothing", 7)
    yield Line("`--kv-cache-dtype fp8`", "half the bytes per token, and half the reads", 18)
    split = "splits weights and KV heads"
    if s.model.group(LayerKind.LATENT):
        split = "splits weights; the latent is copied to every GPU"
    elif s.share.copies:
        split = "splits weights and KV heads; copies heads if too few"
    yield Line("`--tensor-parallel-size`", split, 6)
    yield Line(
        "`--block-size`",
        "rounding, and how finely beginnings are shared",
        14,
        f"default {s.held.block_size}",
    )
    yield Line("`--enable-prefix-caching`", "equal beginnings are stored once", 15, "default on")
    yield Line("`--max-num-seqs`", "requests in a step", 14, f"default {seqs:,}")
    yield Line(
        "`--max-num-batched-tokens`",
        "tokens in a step; longer prompts in chunks",
        14,
        f"default {batch:,}",
    )
    concurrency = f"{s.held.max_concurrency:.2f}x"
    yield Line(
        "Start-up log",
        f"`GPU KV cache size: {s.held.kv_cache_size_tokens:,} tokens`, "
        f"`Maximum concurrency for {s.tokens:,} tokens per request: {concurrency}`",
        14,
    )
