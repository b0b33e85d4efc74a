"""Widget `fp8-before-after`: one server with a bf16 and with an fp8 cache, and what binds next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from kvdocs.catalog import get_gpu
from kvdocs.errors import ConfigError, FlagError, ParameterError, WorkloadError
from kvdocs.html import Element, h, svg
from kvdocs.scenario import LESSON, lesson_timer
from kvdocs.smaller_cache import BeforeAfter, CacheState, Demand, Limit, before_after
from kvdocs.timing import Bound, Weights
from kvdocs.units import GB, KIB, format_number
from kvdocs.widgets.controls import Choice, Steps
from kvdocs.widgets.memory import bar_label
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

MODELS: Final = (
    ("meta-llama/Llama-3.1-8B", "Llama 3.1 8B"),
    ("meta-llama/Llama-3.2-3B", "Llama 3.2 3B"),
    ("Qwen/Qwen3-8B", "Qwen3 8B"),
    ("Qwen/Qwen3-14B", "Qwen3 14B"),
    ("Qwen/Qwen3-32B", "Qwen3 32B"),
    ("mistralai/Mistral-Small-24B-Instruct-2501", "Mistral Small 24B"),
    ("google/gemma-3-12b-it", "Gemma 3 12B"),
    ("openai/gpt-oss-20b", "gpt-oss 20B"),
)
GPUS: Final = (
    "lesson-h100-80gb",
    "h200-sxm-141gb",
    "b200-sxm-180gb",
    "mi300x-192gb",
    "l40s-48gb",
    "l4-24gb",
    "rtx-4090-24gb",
)
GAIN_WORDS: Final = {
    Limit.POOL: "a pool twice as large",
    Limit.MAX_NUM_SEQS: "--max-num-seqs twice as large",
    Limit.REQUESTS: "twice the requests",
    Limit.KV: "half the KV bytes to read",
    Limit.WEIGHTS: "half the weight bytes to read",
    Limit.COMPUTE: "arithmetic twice as fast",
    Limit.OVERHEAD: "half the overhead",
}
BIND_WORDS: Final = {
    Limit.POOL: "the pool",
    Limit.MAX_NUM_SEQS: "--max-num-seqs",
    Limit.REQUESTS: "nothing of the server: more requests would be served",
    Limit.KV: "reading keys and values",
    Limit.WEIGHTS: "reading the weights",
    Limit.COMPUTE: "arithmetic",
    Limit.OVERHEAD: "overhead",
}
_PART_WORDS: Final = {
    Bound.WEIGHTS: "weights",
    Bound.KV: "KV",
    Bound.COMPUTE: "arithmetic",
    Bound.OVERHEAD: "overhead",
}
_FILLS: Final = {
    Bound.WEIGHTS: "kv-mem kv-mem-weights",
    Bound.KV: "kv-mem kv-mem-kv-used",
    Bound.COMPUTE: "kv-mem kv-time-compute",
    Bound.OVERHEAD: "kv-mem kv-mem-untouched",
}
_MOST_BOXES: Final = 120
_LABELLED: Final = 0.13
"""Share of a bar from which a part's name stands on it."""


def part_seconds(state: CacheState) -> dict[Bound, float]:
    """Seconds of one decode step by what it waits for.

    Args:
        state: The server.
    """
    shares = state.decode.step.shares
    return {bound: shares[bound] for bound in _PART_WORDS}


def _ms(seconds: float) -> str:
    return f"{format_number(seconds * 1e3, 1)} ms"


# The picture ----------------------------------------------------------------------------------


def _row(name: str, bar: Element | None, value: str) -> Element:
    return h(
        "div",
        h("span", name, class_="kv-ba-name"),
        h("div", bar, class_="kv-ba-bar"),
        h("b", value, class_="kv-ba-value"),
        class_="kv-ba-row",
    )


def _sequences(state: CacheState, per_box: int) -> Element:
    """Draw the pool as sequences, to scale; those that run are filled."""
    run, fits = state.running, state.fits
    lines = "".join(f"M{each} 0v10" for each in range(per_box, fits, per_box))
    return svg(
        "svg",
        svg("rect", width=fits, height=10, class_="kv-mem kv-mem-kv-free"),
        svg("rect", width=run, height=10, class_="kv-mem kv-mem-kv-used"),
        svg("path", d=lines, class_="kv-ba-lines") if lines else None,
        view_box=f"0 0 {fits} 10",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )


def _parts(parts: Mapping[Bound, float], *, prompt: float, longest: float) -> Element:
    """Draw a time as its parts; the longest of the pair is the whole width."""
    named = [("prompt", _FILLS[Bound.COMPUTE], prompt)] if prompt else []
    named += [(_PART_WORDS[bound], _FILLS[bound], seconds) for bound, seconds in parts.items()]
    drawn = (
        h(
            "div",
            svg(
                "svg",
                svg("rect", width="100%", height="100%", class_=fill),
                aria_hidden="true",
            ),
            bar_label(word, seconds / longest) if seconds / longest >= _LABELLED else None,
            class_="kv-bar-part",
            style=f"width:{100 * seconds / longest:.3f}%",
        )
        for word, fill, seconds in named
        if seconds
    )
    return h("div", *drawn, class_="kv-bar kv-bar-low")


def _pool_rows(both: BeforeAfter) -> Iterator[Element]:
    most = max(both.before.fits, both.after.fits)
    per_box = 10 ** max(0, math.ceil(math.log10(max(most, 1) / _MOST_BOXES)))
    context = f"{both.before.demand.context:,} tokens"
    boxes = "one box = one sequence" if per_box == 1 else f"one box = {per_box:,} sequences"
    pool = format_number(both.before.pool_bytes / GB)
    yield h(
        "p",
        f"The pool, {pool} GB with either: {boxes} of {context}; filled = running",
        class_="kv-part-name",
    )
    for name, state in _named(both):
        if state.starts:
            yield _row(
                name, _sequences(state, per_box), f"{state.fits:,} fit, {state.running:,} run"
            )
        else:
            yield _row(name, None, "does not start")


def _time_rows(both: BeforeAfter) -> Iterator[Element]:
    longest = max(sum(part_seconds(state).values()) for _, state in _named(both) if state.starts)
    yield h("p", "One decode step, a token for each that runs, to scale", class_="kv-part-name")
    for name, state in _named(both):
        if state.starts:
            bar = _parts(part_seconds(state), prompt=0, longest=longest)
            yield _row(name, bar, _ms(state.decode.step.seconds))
    requests = {
        name: (sum(turn.seconds() for turn in state.prefill), state.decode.share)
        for name, state in _named(both)
    }
    whole = max(
        prompt + share * sum(part_seconds(state).values())
        for (prompt, share), (_, state) in zip(requests.values(), _named(both), strict=True)
    )
    output = both.before.demand.output
    yield h(
        "p",
        f"GPU time of one request: its prompt, and its share of {output:,} decode steps",
        class_="kv-part-name",
    )
    for name, state in _named(both):
        prompt, share = requests[name]
        shared = {bound: share * seconds for bound, seconds in part_seconds(state).items()}
        if state.starts:
            bar = _parts(shared, prompt=prompt, longest=whole)
            yield _row(name, bar, f"{state.tokens_per_s:,.0f} tokens/s")


def _key() -> Element:
    """Say what the parts of a time are, for where a bar has no room for a word."""
    items = (
        h(
            "li",
            svg(
                "svg",
                svg("rect", width="100%", height="100%", class_=_FILLS[bound]),
                class_="kv-swatch",
                aria_hidden="true",
            ),
            h("span", "arithmetic, prompts too" if bound is Bound.COMPUTE else word),
        )
        for bound, word in _PART_WORDS.items()
    )
    return h("ul", *items, class_="kv-key")


def _gain(state: CacheState, limit: Limit) -> Element:
    """Draw one gain; the largest is marked as what binds."""
    if not state.starts:
        return h("span", "does not start", class_="kv-ba-gain")
    gain = state.gains[limit] - 1
    binds = limit is state.binds
    bar = h("i", style=f"width:{100 * max(0.0, min(gain, 1)):.1f}%")
    text = h("span", f"{100 * gain:+.0f}%" if round(100 * gain) else "0", class_="kv-ba-percent")
    word = h("b", "binds", class_="kv-ba-binds") if binds else None
    return h("span", bar, text, word, class_=f"kv-ba-gain{' kv-ba-most' if binds else ''}")


def _gains(both: BeforeAfter) -> Element:
    rows = (
        h(
            "div",
            h("span", GAIN_WORDS[limit], class_="kv-ba-limit"),
            _gain(both.before, limit),
            _gain(both.after, limit),
            class_="kv-ba-gains-row",
        )
        for limit in Limit
    )
    head = h(
        "div",
        h("span", "", class_="kv-ba-limit"),
        h("span", "bf16"),
        h("span", "fp8"),
        class_="kv-ba-gains-row kv-ba-head",
    )
    return h(
        "div",
        h(
            "p",
            "What binds: tokens per second gained by this alone",
            class_="kv-part-name",
        ),
        head,
        *rows,
        class_="kv-ba-gains",
    )


def _named(both: BeforeAfter) -> tuple[tuple[str, CacheState], ...]:
    return ("bf16", both.before), ("fp8", both.after)


def _said(name: str, state: CacheState) -> str:
    if not state.starts:
        return f"With {name} the server does not start."
    return (
        f"With {name}: {state.fits:,} sequences fit, {state.running:,} run, a decode step takes "
        f"{_ms(state.decode.step.seconds)}, {state.tokens_per_s:,.0f} tokens a second; what binds "
        f"is {BIND_WORDS[state.binds]}."
    )


def _picture(both: BeforeAfter) -> Element:
    words = " ".join(_said(name, state) for name, state in _named(both))
    times = (*_time_rows(both), _key()) if both.after.starts else ()
    return h(
        "div", *_pool_rows(both), *times, _gains(both), class_="kv-ba", role="img", aria_label=words
    )


# Words and numbers ----------------------------------------------------------------------------


def _figures(both: BeforeAfter) -> tuple[Figure, ...]:
    before, after = both.before, both.after
    kib = " → ".join(f"{each.bytes_per_token / KIB:,.0f}" for each in (before, after))
    fits = Figure(
        "fits",
        "Sequences in the fp8 pool",
        f"{after.fits:,}",
        "",
        f"{before.fits:,} in bf16; {kib} KiB a token",
    )
    if not before.starts:
        return (fits,)
    steps = [format_number(state.decode.step.seconds * 1e3, 1) for state in (before, after)]
    return (
        fits,
        Figure(
            "step",
            "Decode step",
            " → ".join(steps),
            "ms",
            f"{before.running:,} → {after.running:,} sequences in it",
        ),
        Figure(
            "tokens_per_s_ratio",
            "Tokens per second",
            format_number(both.tokens_per_s_ratio),
            "times as many",
            f"{after.tokens_per_s:,.0f} ÷ {before.tokens_per_s:,.0f}; prompts take "
            f"{before.prefill_share:.0%} → {after.prefill_share:.0%} of the time",
        ),
    )


def _table(both: BeforeAfter) -> Table:
    states = [state for _, state in _named(both)]

    def row(name: str, *cells: str) -> tuple[str, ...]:
        return (name, *cells)

    rows = [
        row("Weights, GB", *(format_number(state.weights_bytes / GB) for state in states)),
        row("Pool, GB", *(format_number(state.pool_bytes / GB) for state in states)),
        row("Tokens in the pool", *(f"{state.pool_tokens:,}" for state in states)),
        row("Sequences that fit", *(f"{state.fits:,}" for state in states)),
        row("Running", *(f"{state.running:,}" for state in states)),
        row("Waiting", *(f"{state.waiting:,}" for state in states)),
        row("Capped by", *(state.cap.value for state in states)),
        *(
            row(
                f"Decode step: {word}, ms",
                *(format_number(part_seconds(state)[bound] * 1e3, 1) for state in states),
            )
            for bound, word in _PART_WORDS.items()
        ),
        row("Prompts' share of time", *(f"{state.prefill_share:.0%}" for state in states)),
        row("Tokens per second", *(f"{state.tokens_per_s:,.0f}" for state in states)),
        *(
            row(
                f"Gain by {GAIN_WORDS[limit]}",
                *(
                    f"{100 * (state.gains[limit] - 1):+.0f}%" if state.starts else "none"
                    for state in states
                ),
            )
            for limit in Limit
        ),
    ]
    return Table(("Quantity", "bf16", "fp8"), tuple(rows))


def _title(both: BeforeAfter) -> str:
    before, after = both.before, both.after
    if not after.starts:
        return "With neither cache does one request fit"
    if not before.starts:
        return f"Only with fp8 does a request fit: {after.fits:,} at once"
    fits = f"fp8 holds {after.fits:,} sequences instead of {before.fits:,}"
    gain = f"gives {format_number(both.tokens_per_s_ratio)} times the tokens"
    if before.binds is after.binds:
        return f"{fits} and {gain}; what binds, before and after: {after.binds.value}"
    return f"{fits} and {gain}; what binds: {before.binds.value}, then {after.binds.value}"


def _caption(both: BeforeAfter, weights: Weights) -> str:
    after = both.after
    begin = (
        f"Notice what stays: the weights, {_weight_words(after, weights)}. A full pool holds twice "
        "as many sequences and takes as long to read; what that is worth depends on what else a "
        "request costs. "
    )
    cap = {
        Limit.POOL: "The pool still caps how many run.",
        Limit.MAX_NUM_SEQS: "Now --max-num-seqs caps how many run: it must grow with the pool.",
        Limit.REQUESTS: "Nobody waits any more: all requests run.",
    }
    return begin + (cap[after.cap] if after.starts else after.refusal)


def _weight_words(state: CacheState, weights: Weights) -> str:
    """Say how many bytes the weights have, and how many of them a step reads."""
    whole = f"{format_number(state.weights_bytes / GB)} GB"
    read = weights.bytes_read(max(state.running, 1))
    if weights.num_experts or read > 0.99 * state.weights_bytes:
        return whole
    return (
        f"{whole}, and the time to read {format_number(read / GB)} GB of them (of the input "
        "embedding only some rows are looked up)"
    )


def _python(demand: Demand, model: str, gpu: str) -> str:
    return (
        "from kvdocs.smaller_cache import Demand, before_after\n\n"
        f"demand = Demand(context={demand.context}, output={demand.output}, "
        f"requests={demand.requests}, max_num_seqs={demand.max_num_seqs})\n"
        f"both = before_after(demand, model={model!r}, gpu={gpu!r})\n"
        "print(both.after.fits)"
    )


def draw(
    *, model: str, gpu: str, context: int, output: int, requests: int, max_num_seqs: int
) -> View:
    """Draw a server with either cache.

    Args:
        model: Catalogue id.
        gpu: Catalogue id.
        context: Tokens of each request at its end.
        output: Tokens of its output.
        requests: Requests there at once.
        max_num_seqs: `--max-num-seqs`.

    Raises:
        ParameterError: An output as long as the context, or a context the model does not take.
    """
    try:
        demand = Demand(
            context=context, output=output, requests=requests, max_num_seqs=max_num_seqs
        )
    except WorkloadError as error:
        raise ParameterError(f"{error}; choose a shorter answer", name="output") from error
    try:
        both = before_after(demand, model=model, gpu=gpu)
    except (FlagError, ConfigError) as error:
        name = dict(MODELS)[model]
        raise ParameterError(
            f"{name} does not take requests of {context:,} tokens; choose fewer", name="context"
        ) from error
    return View(
        title=_title(both),
        picture=_picture(both),
        figures=_figures(both),
        caption=_caption(both, lesson_timer(model=model, gpu=gpu).weights),
        table=_table(both),
        python=_python(demand, model, gpu),
        announce=" ".join(_said(name, state) for name, state in _named(both)),
    )


FP8_BEFORE_AFTER: Final = Widget(
    name="fp8-before-after",
    controls=(
        Choice("model", "Model", MODELS, LESSON.model),
        Choice("gpu", "GPU", tuple((name, get_gpu(name).name) for name in GPUS), LESSON.gpu),
        Steps(
            "context",
            "Prompt and answer",
            (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072),
            "8192",
            "tokens",
        ),
        Steps("output", "of it the answer", (128, 256, 512, 1024, 2048, 4096), "1024", "tokens"),
        Steps(
            "requests",
            "Requests at once",
            (1, 4, 16, 32, 64, 100, 200, 400, 800, 1600),
            "200",
        ),
        Steps("max_num_seqs", "--max-num-seqs", (8, 16, 32, 64, 128, 256, 512, 1024), "256"),
    ),
    draw=draw,
)
