"""Reading a `config.json`: from text to a mapping, and one field at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from kvdocs.errors import ConfigError

MAX_CONFIG_BYTES: Final = 8_000_000
"""The largest text read as a config. The largest real one at hand lists every quantized module of
a mixture of experts (MiniMax-M3-NVFP4) and has 3.1 MB."""
_MAX_COUNT: Final = 10**9
_MAX_LAYERS: Final = 10_000


def load(config: Mapping[str, Any] | str | bytes) -> Mapping[str, Any]:
    """Turn what the caller has into a mapping.

    Raises:
        ConfigError: Not the text of one JSON object.

    Examples:
        >>> load('{"model_type": "llama"}')
        {'model_type': 'llama'}
        >>> load("<!doctype html><html>...")
        Traceback (most recent call last):
        kvdocs.errors.ConfigError: this is a web page, not a config.json; open the raw file ...
    """
    if isinstance(config, Mapping):
        return config
    if isinstance(config, bytes):
        _check_length(len(config))
        config = _decode(config)
    if not isinstance(config, str):
        raise ConfigError(
            f"a config is a JSON object (text or mapping); this is a {type(config).__name__}"
        )
    _check_length(len(config))
    return _parse(config)


def _check_length(length: int) -> None:
    if length > MAX_CONFIG_BYTES:
        raise ConfigError(
            f"this is {length:,} bytes; a config.json is far below {MAX_CONFIG_BYTES:,}: paste "
            "only the model's config.json, not a tokenizer, an index or a log"
        )


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("this is not text in UTF-8; a config.json is") from None


def _parse(text: str) -> Mapping[str, Any]:
    text = text.lstrip("\ufeff").strip()
    if not text:
        raise ConfigError("nothing to read; paste the text of a config.json")
    if text[0] == "<":
        raise ConfigError(
            "this is a web page, not a config.json; open the raw file and copy its text"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is not JSON ({_short(str(error))}); {_json_hint(text)}") from None
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"a {type(value).__name__}"
        raise ConfigError(f"a config.json is a JSON object in braces; this is {kind}")
    return value


def _json_hint(text: str) -> str:
    if text[0] != "{":
        return "a config.json starts with {"
    if not text.endswith("}"):
        return "it does not end in }: was it cut off?"
    return "check quotes, commas and braces near there"


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else text[:length] + "…"


def show(value: object) -> str:
    """Quote a value in an error, cut to a length a person reads.

    Examples:
        >>> show("llama"), show([1] * 100)
        ("'llama'", '[1, 1, 1, 1, 1, 1, 1, 1, …]')
    """
    if isinstance(value, str):
        value = _short(value, 60)
    elif isinstance(value, (list, tuple)) and len(value) > 8:
        return f"[{', '.join(_short(repr(item), 20) for item in value[:8])}, …]"
    elif isinstance(value, dict):
        value = dict(list(value.items())[:5])
    return _short(repr(value), 60)


class Fields:
    """One JSON object of a config, read by field name.

    A field that is absent or null counts as missing; a class default fills in only for an absent
    one, since null means that the model has no such thing. Every read checks the type, so that a
    wrong value is refused by name instead of travelling on.

    Attributes:
        data: The object.
        path: Where it stands in the file: empty for the top, else e.g. `text_config`.
        defaults: What the model class fills in for missing fields.
        withheld: Class defaults of fields that must stand in the file here.
        used: Defaults that were filled in.
    """

    __slots__ = ("data", "defaults", "path", "used", "withheld")

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        path: str = "",
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.data = data
        self.path = path
        self.defaults = defaults or {}
        self.withheld: Mapping[str, Any] = {}
        self.used: dict[str, Any] = {}

    def changed(self, changes: Mapping[str, Any]) -> Fields:
        """The same object with some fields replaced.

        Examples:
            >>> Fields({"head_dim": 64}).changed({"head_dim": 128}).get("head_dim")
            128
        """
        copy = Fields({**self.data, **changes}, path=self.path, defaults=self.defaults)
        copy.withheld = self.withheld
        return copy

    def name(self, key: str) -> str:
        """The field's dotted name, for messages.

        Examples:
            >>> Fields({}, path="text_config").name("head_dim")
            'text_config.head_dim'
        """
        return f"{self.path}.{key}" if self.path else key

    def refuse(self, key: str, problem: str) -> NoReturn:
        """Refuse the config because of one field.

        Raises:
            ConfigError: Always.

        Examples:
            >>> Fields({}).refuse("head_dim", "is missing")
            Traceback (most recent call last):
            kvdocs.errors.ConfigError: head_dim is missing
        """
        raise ConfigError(f"{self.name(key)} {problem}", field=self.name(key))

    def get(self, *keys: str) -> Any:
        """The first of the named fields that is there, else the class default, else None.

        Examples:
            >>> Fields({"n_head": 12}, defaults={"head_dim": 64}).get("head_dim", "n_head")
            12
        """
        for key in keys:
            value = self.data.get(key)
            if value is not None:
                return value
        for key in keys:
            value = None if key in self.data else self.defaults.get(key)
            if value is not None:
                self.used[key] = value
                return value
        return None

    def has(self, key: str) -> bool:
        """Whether the file itself holds the field, with a value.

        Examples:
            >>> Fields({"sliding_window": None}).has("sliding_window")
            False
        """
        return self.data.get(key) is not None

    def _key_of(self, keys: tuple[str, ...]) -> str:
        return next((key for key in keys if self.data.get(key) is not None), keys[0])

    def integer(self, *keys: str, least: int = 1, most: int = _MAX_COUNT) -> int:
        """A whole number under one of several names.

        Raises:
            ConfigError: Missing, no whole number, or out of range.

        Examples:
            >>> Fields({"n_head": 12}).integer("num_attention_heads", "n_head")
            12
        """
        value = self.optional_integer(*keys, least=least, most=most)
        if value is None:
            other = f" (or {', '.join(keys[1:])})" if len(keys) > 1 else ""
            self.refuse(keys[0], f"is missing{other}; it is needed to size the cache")
        return value

    def optional_integer(self, *keys: str, least: int = 1, most: int = _MAX_COUNT) -> int | None:
        """As `integer`, but None where the field is missing.

        Examples:
            >>> Fields({"head_dim": 128.0}).optional_integer("head_dim")
            128
        """
        value = self.get(*keys)
        if value is None:
            return None
        key = self._key_of(keys)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"is {show(value)}; a whole number is needed")
        if not least <= value <= most:
            self.refuse(key, f"is {show(value)}; it must be between {least:,} and {most:,}")
        return value

    def layer_count(self, *keys: str) -> int:
        """A number of layers.

        Examples:
            >>> Fields({"n_layer": 12}).layer_count("num_hidden_layers", "n_layer")
            12
        """
        return self.integer(*keys, most=_MAX_LAYERS)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A true/false field.

        Raises:
            ConfigError: Something else stands there.

        Examples:
            >>> Fields({"multi_query": True}).flag("multi_query")
            True
        """
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(key, f"is {show(value)}; true or false is needed")
        return value

    def text(self, key: str) -> str | None:
        """A string field, or None where it is missing.

        Examples:
            >>> Fields({"model_type": "llama"}).text("model_type")
            'llama'
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse(key, f"is {show(value)}; a string is needed")
        return value

    def mapping(self, key: str) -> Fields | None:
        """A nested object, or None where it is missing.

        Examples:
            >>> Fields({"text_config": {"head_dim": 64}}).mapping("text_config").name("head_dim")
            'text_config.head_dim'
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(key, f"is {show(value)}; an object is needed")
        return Fields(value, path=self.name(key))

    def items(self, key: str, *, length: int | None = None) -> list[Any] | None:
        """A list field, or None where it is missing.

        Args:
            key: The field.
            length: The length it must have: one entry per layer.

        Raises:
            ConfigError: No list, or of another length.

        Examples:
            >>> Fields({"kda_layers": [1, 2]}).items("kda_layers", length=2)
            [1, 2]
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            self.refuse(key, f"is {show(value)}; a list is needed")
        if length is not None and len(value) != length:
            self.refuse(
                key, f"has {len(value):,} entries for {length:,} layers; one per layer is needed"
            )
        return list(value)
