"""Find a model, a GPU or a link by any name people type."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kvdocs.catalog.entries import CatalogModel, Link, load_gpus, load_links, load_models
from kvdocs.errors import CatalogError
from kvdocs.gpu import Gpu

_Entry = TypeVar("_Entry")
_SHOWN_NAME = 60


def _key(name: str) -> str:
    return "-".join(name.strip().lower().replace("_", "-").split())


def _index(named: Iterable[tuple[Iterable[str], _Entry]]) -> dict[str, _Entry]:
    """Map every name to its entry; the first entry to claim a name keeps it."""
    index: dict[str, _Entry] = {}
    for names, entry in named:
        for name in names:
            index.setdefault(_key(name), entry)
    return index


def _find(index: Mapping[str, _Entry], name: str, *, what: str, hint: str) -> _Entry:
    entry = index.get(_key(name[:_SHOWN_NAME]))
    if entry is not None:
        return entry
    shown = name if len(name) <= _SHOWN_NAME else name[:_SHOWN_NAME] + "…"
    near = difflib.get_close_matches(_key(name[:_SHOWN_NAME]), index, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    raise CatalogError(f"the catalogue has no {what} {shown!r}{meant} {hint}")


def _short(model_id: str) -> str:
    return model_id.rpartition("/")[2]


@functools.cache
def models() -> tuple[CatalogModel, ...]:
    """All models, ordered by id.

    Examples:
        >>> models()[0].id
        '01-ai/Yi-34B'
    """
    return load_models()


def model_ids() -> tuple[str, ...]:
    """The id of every model, in the same order.

    Examples:
        >>> "Qwen/Qwen3-8B" in model_ids()
        True
    """
    return tuple(model.id for model in models())


@functools.cache
def _model_index() -> dict[str, CatalogModel]:
    full = [((model.id,), model) for model in models()]
    aliases = [(model.aliases, model) for model in models()]
    short = [((_short(model.id), *map(_short, model.aliases)), model) for model in models()]
    return _index([*full, *aliases, *short])


def get_model(name: str) -> CatalogModel:
    """Find a model.

    Args:
        name: Its id, with or without the organisation, or an alias; upper or lower case.

    Raises:
        CatalogError: No such model; the nearest names are offered.

    Examples:
        >>> get_model("gpt-oss-20b").id
        'openai/gpt-oss-20b'
        >>> get_model("meta-llama/Llama-3.1-8B-Instruct").id
        'meta-llama/Llama-3.1-8B'
        >>> get_model("gpt-os-20b")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        kvdocs.errors.CatalogError: the catalogue has no model 'gpt-os-20b'; did you mean ...
    """
    hint = "`kvdocs models` lists them; any other model can be read from its config.json"
    return _find(_model_index(), name, what="model", hint=hint)


@functools.cache
def _gpu_entries() -> tuple[tuple[str, tuple[str, ...], Gpu], ...]:
    return load_gpus()


def gpus() -> tuple[Gpu, ...]:
    """All GPUs, the lesson's round one first.

    Examples:
        >>> len(gpus())
        27
    """
    return tuple(gpu for _, _, gpu in _gpu_entries())


def gpu_ids() -> tuple[str, ...]:
    """The id of every GPU, in the order of `gpus`.

    Examples:
        >>> gpu_ids()[0]
        'lesson-h100-80gb'
    """
    return tuple(gpu_id for gpu_id, _, _ in _gpu_entries())


@functools.cache
def _gpu_index() -> dict[str, Gpu]:
    named = [((gpu_id, gpu.name, *aliases), gpu) for gpu_id, aliases, gpu in _gpu_entries()]
    return _index(named)


def get_gpu(name: str) -> Gpu:
    """Find a GPU.

    Args:
        name: Its id (`h100-sxm-80gb`), a short name (`h100`, `4090`) or the maker's name.

    Raises:
        CatalogError: No such GPU; the nearest names are offered.

    Examples:
        >>> get_gpu("H100").name, get_gpu("lesson-h100-80gb").total_memory_bytes
        ('H100-SXM5-80GB', 80000000000)
        >>> get_gpu("h1000")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        kvdocs.errors.CatalogError: the catalogue has no GPU 'h1000'; did you mean h100 ...
    """
    hint = "`kvdocs gpus` lists them"
    return _find(_gpu_index(), name, what="GPU", hint=hint)


@functools.cache
def links() -> tuple[Link, ...]:
    """All links, slowest kind first within a family.

    Examples:
        >>> [link.id for link in links()][:3]
        ['pcie3', 'pcie4', 'pcie5']
    """
    return load_links()


def get_link(name: str) -> Link:
    """Find a link.

    Args:
        name: Its id, such as `nvlink4`, `ib-ndr` or `ethernet-100`.

    Raises:
        CatalogError: No such link; the nearest names are offered.

    Examples:
        >>> get_link("pcie5").bytes_per_s
        64000000000.0
    """
    index = _index(((link.id, link.name), link) for link in links())
    allowed = ", ".join(link.id for link in links())
    return _find(index, name, what="link", hint=f"Allowed are {allowed}")
