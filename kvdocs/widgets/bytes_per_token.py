"""Widget `bytes-per-token`: the whiteboard formula, with a model's numbers filled in."""

from __future__ import annotations

from typing import Final

from kvdocs.catalog import get_model, models
from kvdocs.errors import ConfigError, FlagError, ParameterError
from kvdocs.html import Element, h
from kvdocs.model import KVCost, LayerGroup, LayerKind, Model, kv_cost, parse_config
from kvdocs.units import MIB, format_bytes, format_number
from kvdocs.widgets.controls import Choice, Text
from kvdocs.widgets.footprint import describe, footprint, layer_token_bytes
from kvdocs.widgets.view import Figure, Table, View
from kvdocs.widgets.widget import Widget

CONVERSATION_TOKENS: Final = 8192
CACHE_DTYPES: Final = (
    ("auto", "auto (as the model: bf16)"),
    ("fp8", "fp8"),
    ("int8_per_token_head", "int8, a scale per token and head"),
    ("nvfp4", "nvfp4"),
)


def _term(sign: str, value: str, word: str) -> Element:
    """Return a factor with the sign before it, which stays with it where the line breaks."""
    factor = h("span", h("b", value), h("small", word), class_="kv-factor")
    return h("span", h("span", sign, class_="kv-operator"), factor, class_="kv-equation-term")


def _heads_factors(group: LayerGroup) -> tuple[tuple[str, str], ...]:
    alike = group.head_size_v == group.head_size
    both = f"({group.head_size} + {group.head_size_v})"
    return (
        *([("2", "key and value")] if alike else []),
        (str(group.count), "layer" if group.count == 1 else "layers"),
        (str(group.num_kv_heads), "KV head" if group.num_kv_heads == 1 else "KV heads"),
        (str(group.head_size), "head dim") if alike else (both, "key + value width"),
    )


def _latent_factors(group: LayerGroup) -> tuple[tuple[str, str], ...]:
    nope = group.head_size - group.rope_head_size
    return (
        (str(group.count), "layers"),
        (f"({nope} + {group.rope_head_size})", "latent + rope width"),
    )


def _group_bytes(group: LayerGroup, cost: KVCost) -> int:
    per_layer = sum(layer_token_bytes(group, cost.kv_cache_dtype)) + group.indexer_bytes_per_token
    return per_layer * group.count


def _values_bytes(group: LayerGroup, cost: KVCost) -> float:
    """Bytes of the stored values alone: what the factors multiply to."""
    return group.elements_per_token * group.count * cost.element_bytes


def _extra(group: LayerGroup) -> str:
    return "sparse indexer" if group.indexer_bytes_per_token else "scales"


def _equation(group: LayerGroup, cost: KVCost) -> Element | None:
    total = _group_bytes(group, cost)
    if total == 0:
        return None
    latent = group.kind is LayerKind.LATENT
    factors = (
        *(_latent_factors(group) if latent else _heads_factors(group)),
        (format_number(cost.element_bytes, 4), "bytes a value"),
    )
    terms = [_term("×" if place else "", *factor) for place, factor in enumerate(factors)]
    extra = total - _values_bytes(group, cost)
    if extra > 0:
        terms.append(_term("+", f"{extra:,.0f} B", _extra(group)))
    return h("div", *terms, _term("=", f"{total:,} B", describe(group)), class_="kv-equation")


def _picture(model: Model, cost: KVCost) -> Element:
    equations = (_equation(group, cost) for group in model.layers)
    state = cost.constant_bytes_per_sequence
    constant = (
        h(
            "p",
            f"And {format_bytes(state, 'MiB')} of recurrent state a sequence, however long it is.",
            class_="kv-note kv-state-note",
        )
        if state
        else None
    )
    notes = (h("p", f"{note[0].upper()}{note[1:]}.", class_="kv-note") for note in cost.notes)
    return h("div", *equations, constant, *notes, footprint(model, cost))


def _figures(cost: KVCost) -> tuple[Figure, ...]:
    conversation = cost.sequence_bytes_at(CONVERSATION_TOKENS)
    figures = [
        Figure(
            "kv_bytes_per_token",
            "One token, for as long as the sequence lives",
            f"{cost.bytes_per_token:,}",
            "B",
            f"= {format_bytes(cost.bytes_per_token, 'KiB')}",
        )
    ]
    if cost.window_tokens:
        figures.append(
            Figure(
                "window_bytes_per_token",
                "One token, while it is inside the window",
                f"{cost.window_bytes_per_token:,}",
                "B",
                f"of the last {cost.window_tokens:,} tokens only",
            )
        )
    if cost.constant_bytes_per_sequence:
        figures.append(
            Figure(
                "constant_bytes_per_sequence",
                "One sequence, whatever its length",
                format_number(cost.constant_bytes_per_sequence / MIB),
                "MiB",
                "recurrent state",
            )
        )
    figures.append(
        Figure(
            "kv_bytes_at_8192",
            f"A conversation of {CONVERSATION_TOKENS:,} tokens",
            format_number(conversation / MIB, 1),
            "MiB",
            f"= {conversation:,} B",
        )
    )
    return tuple(figures)


def _table(model: Model, cost: KVCost) -> Table:
    rows = tuple(
        (
            describe(group),
            str(group.num_kv_heads),
            str(group.head_size),
            f"{_group_bytes(group, cost):,}",
        )
        for group in model.layers
    )
    return Table(("Layers", "KV heads", "Head dim", "Bytes per token"), rows)


def _read_model(model: str, config: str) -> Model:
    if not config.strip():
        return get_model(model).model
    try:
        return parse_config(config, name="your config.json")
    except ConfigError as error:
        raise ParameterError(str(error), name="config") from error


def _title(cost: KVCost) -> str:
    kept = format_bytes(cost.bytes_per_token, "KiB")
    title = f"one token takes {kept}"
    if cost.window_tokens:
        first = format_bytes(cost.bytes_per_token + cost.window_bytes_per_token, "KiB")
        later = kept if cost.bytes_per_token else "nothing"
        title = f"one token takes {first}, and {later} once it has left the window"
    if cost.constant_bytes_per_sequence:
        state = format_bytes(cost.constant_bytes_per_sequence, "MiB")
        title += f", and each sequence {state} of state"
    return title


def _caption(model: Model, cost: KVCost) -> str:
    if cost.window_tokens or cost.constant_bytes_per_sequence:
        return (
            "Notice that one number cannot describe this model: some of its layers stop growing, "
            "so a long conversation costs less than bytes per token times its length."
        )
    return (
        "Notice what is missing: nothing here depends on the prompt or the load. "
        f"{model.name} writes these {cost.bytes_per_token:,} bytes for every token, "
        "the first and the last."
    )


def _python(model: str, kv_cache_dtype: str, *, pasted: bool) -> str:
    if pasted:
        lines = [
            "from pathlib import Path",
            "",
            "from kvdocs.model import kv_cost, parse_config",
            "",
            'model = parse_config(Path("config.json").read_text("utf-8"))',
        ]
    else:
        lines = [
            "from kvdocs.catalog import get_model",
            "from kvdocs.model import kv_cost",
            "",
            f"model = get_model({model!r}).model",
        ]
    cost = f"kv_cost(model, kv_cache_dtype={kv_cache_dtype!r})"
    return "\n".join([*lines, f"print({cost}.bytes_per_token)"])


def draw(*, model: str, kv_cache_dtype: str, config: str) -> View:
    """Draw the formula for a catalogue model or a pasted `config.json`.

    Args:
        model: Catalogue id, used while `config` is empty.
        kv_cache_dtype: vLLM's `--kv-cache-dtype`.
        config: Text of a `config.json`, or "".

    Raises:
        ParameterError: The config cannot be read right, or the dtype does not suit the model.
    """
    read = _read_model(model, config)
    try:
        cost = kv_cost(read, kv_cache_dtype=kv_cache_dtype)
    except (ConfigError, FlagError) as error:
        raise ParameterError(str(error), name="kv_cache_dtype") from error
    return View(
        title=f"{read.name}: {_title(cost)}",
        picture=_picture(read, cost),
        figures=_figures(cost),
        caption=_caption(read, cost),
        table=_table(read, cost),
        python=_python(model, kv_cache_dtype, pasted=bool(config.strip())),
        announce=f"{read.name}: {cost.bytes_per_token:,} bytes per token.",
    )


BYTES_PER_TOKEN: Final = Widget(
    name="bytes-per-token",
    controls=(
        Choice(
            "model",
            "Model and its parameters",
            tuple(
                (entry.id, f"{entry.id}, {format_number(entry.num_parameters / 1e9, 1)}B")
                for entry in models()
            ),
            "meta-llama/Llama-3.1-8B",
        ),
        Choice("kv_cache_dtype", "KV cache dtype", CACHE_DTYPES, "auto"),
        Text(
            "config",
            "Or paste a whole config.json: it then stands in for the model above",
            placeholder='{"model_type": "llama", "num_hidden_layers": 32, …}',
        ),
    ),
    draw=draw,
)
