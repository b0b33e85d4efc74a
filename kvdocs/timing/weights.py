"""The weights: how many bytes of them a step reads, and how much arithmetic a token needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvdocs.errors import ConfigError
from kvdocs.timing.exact import power

if TYPE_CHECKING:
    from kvdocs.catalog import CatalogModel

_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_k",
)
_TIED_BY_DEFAULT: Final = ("gemma", "cohere", "gpt2", "falcon", "opt", "bloom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Parameters of a model as a step uses them.

    Attributes:
        num_parameters: All parameters.
        num_active_parameters: Parameters one token uses; equal to all in a dense model.
        bytes_per_parameter: 2 in bf16, 1 in fp8.
        embedding_parameters: The input table, of which a step reads only a few rows; 0 when it is
            also the output head.
        head_parameters: The output head, applied only where a token is sampled.
        num_experts: Routed experts per layer; 0 in a dense model.
        experts_per_token: Routed experts that one token uses.

    Examples:
        >>> dense = Weights(num_parameters=8_000_000_000, num_active_parameters=8_000_000_000)
        >>> dense.bytes_read(1) == dense.bytes_read(512) == 16e9
        True
    """

    num_parameters: int
    num_active_parameters: int
    bytes_per_parameter: float = 2.0
    embedding_parameters: int = 0
    head_parameters: int = 0
    num_experts: int = 0
    experts_per_token: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that contradict each other."""
        apart = self.embedding_parameters + self.head_parameters
        if not 0 < self.num_active_parameters <= self.num_parameters:
            raise ConfigError(
                f"{self.num_active_parameters:,} active parameters of {self.num_parameters:,}; "
                "the active ones must be 1 or more, and not more than all"
            )
        if self.bytes_per_parameter <= 0:
            raise ConfigError(f"{self.bytes_per_parameter} bytes per parameter; it must be above 0")
        if apart > self.num_active_parameters:
            raise ConfigError(
                f"embedding and head have {apart:,} parameters, more than the "
                f"{self.num_active_parameters:,} active ones"
            )
        if self.num_experts and not 0 < self.experts_per_token <= self.num_experts:
            raise ConfigError(
                f"{self.experts_per_token} of {self.num_experts} experts per token; 1 to all of "
                "them are possible"
            )

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        num_parameters: int,
        num_active_parameters: int | None = None,
        weight_bytes: float | None = None,
    ) -> Weights:
        """Weights of a model from the language part of its `config.json` and its parameter counts.

        The config gives the vocabulary table and the experts (Hugging Face field names).

        Args:
            config: The config; for a nested one its `text_config`.
            num_parameters: All parameters.
            num_active_parameters: Parameters one token uses; all when not given.
            weight_bytes: Bytes of all weights; 2 per parameter when not given.

        Raises:
            ConfigError: Counts that contradict each other.

        Examples:
            >>> Weights.from_config({"model_type": "llama", "vocab_size": 128256,
            ...     "hidden_size": 4096}, num_parameters=8_030_261_248).head_parameters
            525336576
        """
        table = _count(config, ("vocab_size",)) * _count(config, ("hidden_size", "n_embd"))
        kind = str(config.get("model_type", ""))
        tied = config.get("tie_word_embeddings", kind.startswith(_TIED_BY_DEFAULT))
        experts = _count(config, _EXPERTS)
        return cls(
            num_parameters=num_parameters,
            num_active_parameters=num_active_parameters or num_parameters,
            bytes_per_parameter=(weight_bytes or 2 * num_parameters) / num_parameters,
            embedding_parameters=0 if tied else table,
            head_parameters=table,
            num_experts=experts if experts > 1 else 0,
            experts_per_token=_count(config, _CHOSEN) if experts > 1 else 0,
        )

    @classmethod
    def from_entry(cls, entry: CatalogModel, *, weight_bytes: float | None = None) -> Weights:
        """Weights of a model of the catalogue.

        Args:
            entry: The model.
            weight_bytes: Bytes of all weights; the catalogue's when not given.

        Raises:
            ConfigError: Counts that contradict each other.

        Examples:
            >>> from kvdocs.catalog import get_model
            >>> Weights.from_entry(get_model("llama-3.1-8b")).num_parameters
            8030261248
        """
        return cls.from_config(
            entry.text_config,
            num_parameters=entry.num_parameters,
            num_active_parameters=entry.num_active_parameters,
            weight_bytes=entry.weight_bytes if weight_bytes is None else weight_bytes,
        )

    @property
    def body_parameters(self) -> int:
        """Parameters every token is multiplied by: active ones without embedding and head."""
        return self.num_active_parameters - self.embedding_parameters - self.head_parameters

    @property
    def expert_parameters(self) -> float:
        """Parameters of all routed experts together.

        All = shared + routed and active = shared + routed x chosen / experts give routed.
        """
        if self.num_experts <= self.experts_per_token:
            return 0.0
        idle_share = 1 - self.experts_per_token / self.num_experts
        return (self.num_parameters - self.num_active_parameters) / idle_share

    def experts_touched(self, num_tokens: int) -> float:
        """Expected number of a layer's routed experts that a batch uses.

        If every token chose its k of E experts at random, an expert would be left out by all T
        tokens with probability (1 - k/E)**T. Real routers are less even, so fewer are touched.

        Args:
            num_tokens: Tokens in the batch.

        Examples:
            >>> mixtral = Weights(num_parameters=46_700_000_000, num_experts=8,
            ...     num_active_parameters=12_900_000_000, experts_per_token=2)
            >>> [round(mixtral.experts_touched(tokens), 1) for tokens in (1, 4, 32)]
            [2.0, 5.5, 8.0]
        """
        if not self.num_experts:
            return 0.0
        missed = power(1 - self.experts_per_token / self.num_experts, num_tokens)
        return self.num_experts * (1 - missed)

    def bytes_read(self, num_tokens: int) -> float:
        """Bytes of weights that one step reads: each weight in use once, however many tokens.

        Args:
            num_tokens: Tokens in the batch.

        Examples:
            >>> mixtral = Weights(num_parameters=46_700_000_000, num_experts=8,
            ...     num_active_parameters=12_900_000_000, experts_per_token=2)
            >>> [round(mixtral.bytes_read(tokens) / 1e9) for tokens in (1, 4, 256)]
            [26, 65, 93]
        """
        used = float(self.num_parameters - self.embedding_parameters)
        if self.num_experts:
            untouched = 1 - self.experts_touched(num_tokens) / self.num_experts
            used -= self.expert_parameters * untouched
        return used * self.bytes_per_parameter


def _count(config: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0
