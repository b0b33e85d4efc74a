"""The KV-cache formula on everybody's whiteboard, and where a model departs from it.

The formula multiplies five numbers of a `config.json`. It is right for a model whose layers all
keep K and V of every token, with heads as wide as hidden size / query heads. Most models released
since 2024 differ in at least one of those, and this module says in which, read from the model's own
layers: nothing here knows a model by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from kvdocs.catalog import CatalogModel, models
from kvdocs.model import LayerGroup, LayerKind, Model, kv_cost
from kvdocs.units import format_number

TOKENS: Final = 32_768
"""Length of the sequence the table compares at, where a model's context allows it."""

_BYTES: Final = 2
_SAME: Final = 0.005
_KEEPS_HEADS: Final = (LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED)


def _first(config: Mapping[str, Any], *names: str) -> int:
    """The first of the fields that holds a number."""
    for name in names:
        value = config.get(name)
        if value is not None:
            return int(value)
    raise KeyError(names[0])


def _query_heads(config: Mapping[str, Any]) -> int:
    return _first(config, "num_attention_heads", "n_head")


def _kv_heads(config: Mapping[str, Any]) -> int:
    return _first(config, "num_key_value_heads", "num_attention_heads", "n_head")


def _head_width(config: Mapping[str, Any]) -> Fraction:
    return Fraction(_first(config, "hidden_size", "n_embd"), _query_heads(config))


def _bytes_per_token(config: Mapping[str, Any], heads: int) -> Fraction:
    layers = _first(config, "num_hidden_layers", "n_layer")
    return 2 * layers * heads * _head_width(config) * _BYTES


def naive_bytes_per_token(config: Mapping[str, Any]) -> Fraction:
    """2 x layers x KV heads x (hidden size / query heads) x 2 bytes.

    Args:
        config: The language model's part of a `config.json`. Where it names no KV heads, the
            formula takes the query heads.

    Returns:
        Bytes per token; a fraction where the hidden size is no multiple of the query heads.

    Examples:
        >>> int(naive_bytes_per_token({"num_hidden_layers": 32, "hidden_size": 4096,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8}))
        131072
    """
    return _bytes_per_token(config, _kv_heads(config))


def naive_bytes_per_token_query_heads(config: Mapping[str, Any]) -> Fraction:
    """Give the older variant, 2 x layers x hidden size x 2 bytes, as if no heads shared K and V.

    Examples:
        >>> int(naive_bytes_per_token_query_heads({"num_hidden_layers": 32, "hidden_size": 4096,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8}))
        524288
    """
    return _bytes_per_token(config, _query_heads(config))


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _of_layers(count: int, model: Model) -> str:
    return (
        f"all {count} layers"
        if count == model.num_layers
        else f"{count} of {model.num_layers} layers"
    )


def _with_heads(model: Model) -> tuple[LayerGroup, ...]:
    return tuple(group for kind in _KEEPS_HEADS for group in model.group(kind))


def _latents(model: Model, config: Mapping[str, Any]) -> list[str]:
    heads = _kv_heads(config)
    return [
        f"{_of_layers(group.count, model)} keep one latent of {group.head_size} elements, "
        f"not K and V of {_several(heads, 'head')}"
        for group in _merged(model, LayerKind.LATENT)
    ]


def _indexers(model: Model, _config: Mapping[str, Any]) -> list[str]:
    with_indexer = [group for group in model.layers if group.indexer_bytes_per_token]
    count = sum(group.count for group in with_indexer)
    return [
        f"{_of_layers(count, model)} keep a sparse-attention key of {size} bytes beside it"
        for size in sorted({group.indexer_bytes_per_token for group in with_indexer})
    ]


def _windows(model: Model, tokens: int) -> list[str]:
    reasons = []
    for kind, what in (
        (LayerKind.SLIDING, "keep only the last"),
        (LayerKind.CHUNKED, "keep only the current chunk of"),
    ):
        for window in sorted({group.window for group in model.group(kind)}):
            count = sum(group.count for group in model.group(kind) if group.window == window)
            if window < tokens:
                reasons.append(f"{_of_layers(count, model)} {what} {window:,} tokens")
    return reasons


def _states(model: Model, _config: Mapping[str, Any]) -> list[str]:
    count = model.count(LayerKind.RECURRENT)
    if not count:
        return []
    size = format_number(kv_cost(model).constant_bytes_per_sequence / 1e6, 1)
    return [f"{_of_layers(count, model)} keep a state of fixed size ({size} MB together)"]


def _without(model: Model, _config: Mapping[str, Any]) -> list[str]:
    none, shared = model.count(LayerKind.NONE), model.count(LayerKind.SHARED)
    reasons = [f"{_of_layers(none, model)} keep nothing"] if none else []
    if shared:
        reasons.append(f"{_of_layers(shared, model)} read an earlier layer's cache")
    return reasons


def _exceptions(values: list[tuple[str, int]], naive: str) -> list[str]:
    """Say which values are not the naive one; of how many layers, unless it is so of all.

    Args:
        values: What a group of layers has, and how many layers it is.
        naive: What the formula takes.
    """
    counts: dict[str, int] = {}
    for value, count in values:
        counts[value] = counts.get(value, 0) + count
    others = {value: count for value, count in counts.items() if value != naive}
    if len(counts) == 1:
        return [f"{value}, not {naive}" for value in others]
    return [
        f"{value} in {_several(count, 'layer')}, not {naive}" for value, count in others.items()
    ]


def _width(group: LayerGroup) -> str:
    if group.head_size == group.head_size_v:
        return str(group.head_size)
    return f"{group.head_size} (K) and {group.head_size_v} (V)"


def _widths(model: Model, config: Mapping[str, Any]) -> list[str]:
    values = [(_width(group), group.count) for group in _with_heads(model)]
    naive = format_number(float(_head_width(config)), 1)
    return [f"head width {reason}" for reason in _exceptions(values, naive)]


def _heads(model: Model, config: Mapping[str, Any]) -> list[str]:
    values = [(str(group.num_kv_heads), group.count) for group in _with_heads(model)]
    return [f"KV heads {reason}" for reason in _exceptions(values, str(_kv_heads(config)))]


def _merged(model: Model, kind: LayerKind) -> list[LayerGroup]:
    """One group for each width, so that layers with and without an indexer are counted together."""
    by_width: dict[int, LayerGroup] = {}
    for group in model.group(kind):
        seen = by_width.get(group.head_size)
        positions = (*(seen.positions if seen else ()), *group.positions)
        by_width[group.head_size] = LayerGroup(
            kind, positions, num_kv_heads=group.num_kv_heads, head_size=group.head_size
        )
    return list(by_width.values())


_FROM_STRUCTURE: Final[tuple[Callable[[Model, Mapping[str, Any]], list[str]], ...]] = (
    _latents,
    _indexers,
    _heads,
    _widths,
    _states,
    _without,
)


def reasons(model: Model, config: Mapping[str, Any], *, tokens: int = TOKENS) -> tuple[str, ...]:
    """Say where a model departs from the naive formula, read from its layers.

    Args:
        model: The model as read.
        config: The language model's part of its `config.json`.
        tokens: Length of the sequence; a window as long as that changes nothing.

    Returns:
        One sentence for each departure; empty when the formula holds.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> entry = get_model("llama-3.1-8b")
        >>> reasons(entry.model, entry.text_config)
        ()
    """
    found = _windows(model, tokens)
    for rule in _FROM_STRUCTURE:
        found += rule(model, config)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The naive formula beside the right answer, for one sequence of one model.

    Attributes:
        id: The model's id.
        tokens: Length of the sequence.
        naive_bytes: What the formula says.
        naive_query_heads_bytes: What its variant with query heads says.
        right_bytes: K, V, latents and states the model keeps, without block rounding.
        reasons: Where the model departs from the formula.
    """

    id: str
    tokens: int
    naive_bytes: int
    naive_query_heads_bytes: int
    right_bytes: int
    reasons: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Naive over right: above 1 the formula asks for too much memory."""
        return self.naive_bytes / self.right_bytes

    @property
    def query_heads_ratio(self) -> float:
        """The same for the variant with query heads."""
        return self.naive_query_heads_bytes / self.right_bytes


def compare(entry: CatalogModel, *, tokens: int = TOKENS) -> Comparison:
    """Compare the naive formula with the right answer for one model.

    Args:
        entry: The model.
        tokens: Length of the sequence; the model's context where that is shorter.

    Examples:
        >>> from kvdocs.catalog import get_model
        >>> compare(get_model("llama-3.1-8b")).ratio
        1.0
    """
    length, config = min(tokens, entry.context_length), entry.text_config
    return Comparison(
        id=entry.id,
        tokens=length,
        naive_bytes=int(naive_bytes_per_token(config) * length),
        naive_query_heads_bytes=int(naive_bytes_per_token_query_heads(config) * length),
        right_bytes=kv_cost(entry.model).sequence_bytes_at(length),
        reasons=reasons(entry.model, config, tokens=length),
    )


def comparisons(*, tokens: int = TOKENS) -> tuple[Comparison, ...]:
    """Compare every model of the catalogue, worst ratio first."""
    found = (compare(entry, tokens=tokens) for entry in models())
    return tuple(sorted(found, key=_how_far_off, reverse=True))


def _how_far_off(comparison: Comparison) -> tuple[float, float]:
    off = max(comparison.ratio, 1 / comparison.ratio)
    return (off, comparison.query_heads_ratio)


def format_ratio(ratio: float) -> str:
    """Print a ratio; within half a percent it counts as right.

    Examples:
        >>> format_ratio(24.89), format_ratio(0.625), format_ratio(1.002), format_ratio(71)
        ('24.9x', '0.625x', 'right', '71x')
    """
    if abs(ratio - 1) < _SAME:
        return "right"
    return f"{ratio:.3g}x"


def _mebibytes(num_bytes: int) -> str:
    return format_number(num_bytes / 2**20, 0 if num_bytes >= 2**30 else 1)


def _table_row(comparison: Comparison, tokens: int) -> str:
    short = comparison.id.rpartition("/")[2]
    length = "" if comparison.tokens == tokens else f", {comparison.tokens:,} tokens"
    says = _mebibytes(comparison.naive_bytes)
    with_query = _mebibytes(comparison.naive_query_heads_bytes)
    cells = (
        f"[{short}](https://huggingface.co/{comparison.id}){length}",
        _mebibytes(comparison.right_bytes),
        f"{says}&nbsp;({format_ratio(comparison.ratio)})",
        f"{with_query}&nbsp;({format_ratio(comparison.query_heads_ratio)})",
        "; ".join(comparison.reasons) or "the formula holds",
    )
    return f"| {' | '.join(cells)} |"


def table(*, tokens: int = TOKENS) -> str:
    """Return the comparison of all models as a Markdown table, worst first.

    Args:
        tokens: Length of the sequence; a model with a shorter context is compared at that.

    Examples:
        >>> print(table().splitlines()[0])
        | Model | Right, MiB | Formula, MiB | With query heads, MiB | Why |
    """
    head = "| Model | Right, MiB | Formula, MiB | With query heads, MiB | Why |"
    rule = "| :-- | --: | --: | --: | :-- |"
    rows = (_table_row(comparison, tokens) for comparison in comparisons(tokens=tokens))
    return "\n".join([head, rule, *rows])


def summary(*, tokens: int = TOKENS) -> str:
    """Return one sentence: for how many models each variant is right, and how far off at worst.

    Examples:
        >>> summary().startswith("Of 8")
        True
    """
    found = comparisons(tokens=tokens)
    right = sum(format_ratio(each.ratio) == "right" for each in found)
    with_query = sum(format_ratio(each.query_heads_ratio) == "right" for each in found)
    high = max(found, key=lambda each: each.ratio)
    low = min(found, key=lambda each: each.ratio)
    return (
        f"Of {len(found)} models the formula is right for {right}, its variant with query heads "
        f"for {with_query}. At worst it gives {format_ratio(high.ratio)} (`{high.id}`) and "
        f"{format_ratio(low.ratio)} (`{low.id}`) of what the model keeps."
    )


def _source_text(source: str) -> str:
    """A source as Markdown; an address is shown as the repository or model it lies in."""
    address, _, remark = source.partition(" ")
    if not address.startswith("https://"):
        return source
    place = "/".join(address.removeprefix("https://").split("/")[1:3])
    return f"[{place}]({address}) {remark}".strip()


def sources_table() -> str:
    """Return where each model's facts come from, as a Markdown table.

    Examples:
        >>> print(sources_table().splitlines()[0])
        | Model | Sources |
    """
    rows = (
        f"| `{entry.id}` | {'; '.join(map(_source_text, entry.sources))} |" for entry in models()
    )
    return "\n".join(["| Model | Sources |", "| :-- | :-- |", *rows])
