"""The form's fields: what they are called, what they start with, what they allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvdocs.catalog import get_gpu, get_model, gpu_ids, model_ids
from kvdocs.errors import CatalogError, FlagError
from kvdocs.flags import ServerFlags
from kvdocs.playground.controls import Number, Own
from kvdocs.playground.flag_line import SWITCHES, flag_value, set_flag, split_model
from kvdocs.playground.load import MOST_REQUESTS, Made
from kvdocs.playground.setup import DEFAULT_FLAGS
from kvdocs.scenario import LESSON
from kvdocs.sizing import LESSON_OVERHEAD
from kvdocs.units import GB, format_number
from kvdocs.widgets.controls import Choice, Text

MORE_MEMORY: Final = DEFAULT_FLAGS.replace(" 0.9 ", " 0.95 ")
"""What the page begins with in set-up B: the first thing that is tried, and not the cure."""
LETTERS: Final = ("a", "b")
"""Prefixes of the two set-ups' fields."""
TWO: Final = "two"
TRACE: Final = "trace"
MADE: Final = "made"

_DEFAULTS: Final = ServerFlags()
FLAG_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "gpu_memory_utilization": ("0.5", "0.6", "0.7", "0.8", "0.85", "0.9", "0.92", "0.95"),
    "max_model_len": ("auto", "4096", "8192", "16384", "32768", "65536", "131072"),
    "kv_cache_dtype": ("fp8",),
    "tensor_parallel_size": ("2", "4", "8"),
    "max_num_seqs": ("8", "16", "32", "64", "128", "256", "512", "1024"),
    "max_num_batched_tokens": ("1024", "2048", "4096", "8192", "16384", "32768"),
    "block_size": ("16", "32", "64", "128"),
    "enable_prefix_caching": (),
}
"""Flags with a control of their own, and the values it offers."""
_DEFAULT_WORDS: Final = {
    "gpu_memory_utilization": f"{_DEFAULTS.gpu_memory_utilization} (default)",
    "max_model_len": "the model's own",
    "kv_cache_dtype": "auto (as the model)",
    "tensor_parallel_size": "1 (default)",
    "max_num_seqs": "default of the GPU",
    "max_num_batched_tokens": "default of the GPU",
    "block_size": "16 (default)",
}

_MADE: Final = Made()
NUMBERS: Final = {
    number.name: number
    for number in (
        Number(
            name="num_requests",
            label="How many",
            minimum=1,
            maximum=MOST_REQUESTS,
            default=f"{_MADE.num_requests}",
            stops=("100", "300", "600", "1000", "3000", "10000", "30000", "100000"),
        ),
        Number(
            name="rate",
            label="Rate",
            minimum=0.001,
            maximum=10_000,
            default=f"{_MADE.rate:g}",
            stops=("0.25", "0.5", "1", "1.5", "2", "2.5", "3", "4", "6", "8", "12", "20", "50"),
            unit="requests/s",
            whole=False,
        ),
        Number(
            name="prompt_tokens",
            label="Prompt, median",
            minimum=1,
            maximum=1_000_000,
            default=f"{_MADE.prompt_tokens}",
            stops=("100", "300", "500", "1000", "2000", "4000", "8000", "16000", "32000", "64000"),
            unit="tokens",
        ),
        Number(
            name="output_tokens",
            label="Answer, median",
            minimum=1,
            maximum=100_000,
            default=f"{_MADE.output_tokens}",
            stops=("1", "50", "100", "200", "400", "800", "1600", "3200", "8000"),
            unit="tokens",
        ),
        Number(
            name="prefix_tokens",
            label="Shared beginning",
            minimum=0,
            maximum=1_000_000,
            default=f"{_MADE.prefix_tokens}",
            stops=("0", "256", "512", "1024", "2048", "4096", "8192", "16384"),
            unit="tokens",
        ),
        Number(
            name="num_prefixes",
            label="Different beginnings",
            minimum=1,
            maximum=100_000,
            default=f"{_MADE.num_prefixes}",
            stops=("1", "2", "5", "10", "20", "50", "100", "1000"),
        ),
        Number(name="seed", label="Seed", minimum=0, maximum=10**9, default=f"{_MADE.seed}"),
        Number(
            name="trace_most",
            label="At most",
            minimum=1,
            maximum=MOST_REQUESTS,
            default=f"{MOST_REQUESTS}",
            stops=("500", "1000", "3000", "10000", "30000", "100000"),
            unit="requests",
        ),
        Number(
            name="trace_speed",
            label="Speed",
            minimum=0.001,
            maximum=1000,
            default="1",
            stops=("0.25", "0.5", "1", "2", "4", "8", "16"),
            unit="times",
            whole=False,
        ),
    )
}
SPREAD_WORDS: Final = (
    ("alike", "all alike"),
    ("some", "p95 is 2 × the median"),
    ("tail", "p95 is 5 × the median"),
)
CHOICES: Final = {
    choice.name: choice
    for choice in (
        Choice("compare", "Compare", ((TWO, "A and B, side by side"), ("one", "A alone")), TWO),
        Choice("source", "Requests", ((MADE, "made here"), (TRACE, "from a trace file")), MADE),
        Choice(
            "coming",
            "They come",
            (
                ("poisson", "at random"),
                ("even", "evenly"),
                ("bunches", "in bunches"),
                ("at once", "all at once"),
            ),
            _MADE.coming,
        ),
        Choice("prompt_spread", "Prompt lengths", SPREAD_WORDS, _MADE.prompt_spread),
        Choice("output_spread", "Answer lengths", SPREAD_WORDS, _MADE.output_spread),
    )
}


def model_choice(letter: str) -> Choice:
    """The choice of a set-up's model."""
    options = tuple((name, name) for name in model_ids())
    return Choice(f"{letter}_model", "Model", options, LESSON.model)


def gpu_choice(letter: str) -> Choice:
    """The choice of a set-up's GPU."""
    options = tuple((gpu_id, get_gpu(gpu_id).name) for gpu_id in gpu_ids())
    return Choice(f"{letter}_gpu", "GPU", options, LESSON.gpu)


def config_box(letter: str) -> Text:
    """The box for a set-up's `config.json`."""
    return Text(
        f"{letter}_config",
        "config.json, pasted or dropped here",
        placeholder='{"model_type": "llama", "num_hidden_layers": 32, …}',
        max_characters=1_000_000,
        lines=5,
    )


def flags_box(letter: str) -> Text:
    """The box for a set-up's flags."""
    default = DEFAULT_FLAGS if letter == "a" else MORE_MEMORY
    return Text(f"{letter}_flags", "vllm serve", default, max_characters=4000, lines=2)


def own_figures(letter: str, gpu_id: str = LESSON.gpu) -> tuple[Own, ...]:
    """Figures of the reader's own, beside what counts without them.

    Args:
        letter: Prefix of the set-up.
        gpu_id: Its GPU.
    """
    gpu = get_gpu(gpu_id)
    return (
        Own(
            name=f"{letter}_weights",
            label="Weights",
            known="as released, or counted",
        ),
        Own(
            name=f"{letter}_memory",
            label="Memory as CUDA reports it",
            known=format_number(gpu.total_memory_bytes / GB),
        ),
        Own(
            name=f"{letter}_bandwidth",
            label="Memory bandwidth",
            unit="TB/s",
            known=format_number(gpu.memory_bandwidth_bytes_per_s / 1e12),
            factor=1e12,
            is_bytes=False,
        ),
        Own(
            name=f"{letter}_flops",
            label="Arithmetic, dense bf16",
            unit="TFLOP/s",
            known=format_number(gpu.dense_bf16_flops / 1e12),
            factor=1e12,
            is_bytes=False,
        ),
        Own(
            name=f"{letter}_workspace",
            label="Workspace",
            known=format_number(LESSON_OVERHEAD.activation_bytes / GB),
        ),
        Own(
            name=f"{letter}_context",
            label="CUDA context",
            known=format_number(LESSON_OVERHEAD.non_torch_bytes / GB),
        ),
    )


def flag_choice(letter: str, flag: str, value: str = "") -> Choice:
    """The control of a flag; a value it does not offer is offered too when it is the present one.

    Args:
        letter: Prefix of the set-up.
        flag: The flag.
        value: Its present value.
    """
    label = f"--{flag.replace('_', '-')}"
    if flag in SWITCHES:
        return Choice(
            _flag_name(letter, flag), label, (("on", "on (default)"), ("off", "off")), "on"
        )
    values = FLAG_VALUES[flag]
    offered = values if value in {"", *values} else (value, *values)
    options = (("", _DEFAULT_WORDS[flag]), *((each, each) for each in offered))
    return Choice(_flag_name(letter, flag), label, options, "")


def _flag_name(letter: str, flag: str) -> str:
    return f"{letter}_flag_{flag}"


def defaults() -> dict[str, str]:
    """The form as the page begins with it.

    Examples:
        >>> defaults()["b_flag_gpu_memory_utilization"]
        '0.95'
    """
    values = {name: number.default for name, number in NUMBERS.items()}
    values |= {name: choice.default for name, choice in CHOICES.items()}
    for letter in LETTERS:
        for choice in (model_choice(letter), gpu_choice(letter)):
            values[choice.name] = choice.default
        values[config_box(letter).name] = ""
        values |= {own.name: "" for own in own_figures(letter)}
        values[f"{letter}_flags"] = flags_box(letter).default
        _follow_line(values, letter)
    return values


def complete(given: Mapping[str, str]) -> dict[str, str]:
    """The form's values, defaults for those not given; what is no field is left out.

    Args:
        given: Values by name.
    """
    return {name: given.get(name, default) for name, default in defaults().items()}


def settle(given: Mapping[str, str], *changed: str) -> dict[str, str]:
    """Bring line and controls of the flags to say the same, after some of them were changed.

    Args:
        given: Values of the form.
        *changed: Names of the fields the reader changed.

    Returns:
        All values. A line that cannot be read stays as it is, and so do its controls.

    Examples:
        >>> settle({"a_flag_max_num_seqs": "64"}, "a_flag_max_num_seqs")["a_flags"]
        '--gpu-memory-utilization 0.9 --max-model-len 32768 --max-num-seqs 64'
        >>> settle({"a_flags": "vllm serve Qwen/Qwen3-8B -tp 2"}, "a_flags")["a_model"]
        'Qwen/Qwen3-8B'
    """
    values = complete(given)
    for letter in LETTERS:
        if f"{letter}_flags" in changed:
            _take_model(values, letter)
        for flag in FLAG_VALUES:
            if _flag_name(letter, flag) in changed:
                _set_in_line(values, letter, flag)
        _follow_line(values, letter)
    return values


def _set_in_line(values: dict[str, str], letter: str, flag: str) -> None:
    line = f"{letter}_flags"
    try:
        values[line] = set_flag(values[line], flag, values[_flag_name(letter, flag)])
    except FlagError:
        return  # the line's own message says what is wrong with it


def _take_model(values: dict[str, str], letter: str) -> None:
    """Move the model of a pasted command to the field of the model, if the catalogue has it."""
    model, line = split_model(values[f"{letter}_flags"])
    if not model:
        values[f"{letter}_flags"] = line
        return
    try:
        found = get_model(model)
    except CatalogError:
        return
    values |= {f"{letter}_model": found.id, f"{letter}_config": "", f"{letter}_flags": line}


def _follow_line(values: dict[str, str], letter: str) -> None:
    line = values[f"{letter}_flags"]
    try:
        found = {_flag_name(letter, flag): flag_value(line, flag) for flag in FLAG_VALUES}
    except FlagError:
        for flag in FLAG_VALUES:
            values.setdefault(_flag_name(letter, flag), "on" if flag in SWITCHES else "")
        return
    values |= found
