"""A line of flags as one types it, and single flags in it set by a control."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from kvdocs.errors import FlagError
from kvdocs.flags import parse_flags
from kvdocs.playground.setup import words

SWITCHES: Final = frozenset({"enable_prefix_caching"})
_SHORT: Final = {"-tp": "tensor_parallel_size", "--tp": "tensor_parallel_size"}
_ALIASES: Final = {"device_memory_utilization": "gpu_memory_utilization"}
_OFF: Final = {"enable_prefix_caching": ("no_enable_prefix_caching", "disable_prefix_caching")}


def name_of(word: str) -> str:
    """The flag a word names, as `ServerFlags` calls it; "" when it is none.

    Examples:
        >>> name_of("--max-num-seqs=8"), name_of("-tp"), name_of("8"), name_of("-1")
        ('max_num_seqs', 'tensor_parallel_size', '', '')
    """
    shown = word.partition("=")[0]
    if shown in _SHORT:
        return _SHORT[shown]
    if not shown.startswith("--"):
        return ""
    name = shown[2:].replace("-", "_")
    return _ALIASES.get(name, name)


def set_flag(line: str, name: str, value: str) -> str:
    """Set a flag in a line, wherever it stands; "" takes it out.

    Args:
        line: The line.
        name: The flag as `ServerFlags` calls it.
        value: Its value as text; of a switch `on` or `off`.

    Raises:
        FlagError: The line cannot be split into words.

    Examples:
        >>> set_flag("-tp 2 --max-num-seqs=8", "max_num_seqs", "16")
        '-tp 2 --max-num-seqs 16'
        >>> set_flag("-tp 2 --max-num-seqs=8", "tensor_parallel_size", "")
        '--max-num-seqs=8'
        >>> set_flag("", "enable_prefix_caching", "off")
        '--no-enable-prefix-caching'
    """
    kept = list(_without(words(line), name))
    flag = name.replace("_", "-")
    if name in SWITCHES:
        kept += [f"--no-{flag}"] if value == "off" else []
    elif value:
        kept += [f"--{flag}", value]
    return shlex.join(kept)


def _without(given: list[str], name: str) -> Iterator[str]:
    rest = iter(given)
    for word in rest:
        found = name_of(word)
        if found == name:
            if name not in SWITCHES and "=" not in word:
                next(rest, None)
        elif found not in _OFF.get(name, ()):
            yield word


def flag_value(line: str, name: str) -> str:
    """What a control of a flag shows: its value in the line, "" when the line does not name it.

    Args:
        line: A line that `parse_flags` takes.
        name: The flag.

    Raises:
        FlagError: A line that it does not take.

    Examples:
        >>> flag_value("--max-model-len 32K", "max_model_len"), flag_value("", "max_model_len")
        ('32768', '')
        >>> flag_value("--no-enable-prefix-caching", "enable_prefix_caching")
        'off'
    """
    flags = parse_flags(words(line))
    if name in SWITCHES:
        return "on" if getattr(flags, name) else "off"
    if name == "max_model_len" and flags.auto_fit_max_model_len:
        return "auto"
    named = any(name_of(word) == name for word in words(line))
    value = getattr(flags, name)
    return f"{value}" if named and value is not None else ""


def split_model(line: str) -> tuple[str, str]:
    """Part a pasted `vllm serve MODEL …` into the model and the flags.

    Args:
        line: The line.

    Returns:
        The model, "" when the line names none, and the line without it and `vllm serve`.

    Examples:
        >>> split_model("vllm serve Qwen/Qwen3-8B --max-num-seqs 8")
        ('Qwen/Qwen3-8B', '--max-num-seqs 8')
        >>> split_model("--max-num-seqs 8")
        ('', '--max-num-seqs 8')
    """
    try:
        model = parse_flags(words(line)).model
    except FlagError:
        return "", line
    if not model:
        return "", line
    kept = [word for word in _without(words(line), "model") if word != model]
    while kept and kept[0] in {"vllm", "serve"}:
        kept.pop(0)
    return model, shlex.join(kept)
