"""Explain a start-up log: its figures, and what they mean together.

Examples:
    >>> told = explain('''Available KV cache memory: 6.51 GiB
    ... GPU KV cache size: 42,656 tokens
    ... Maximum concurrency for 32,768 tokens per request: 1.30x''')
    >>> told.figures["kv_bytes_per_token_per_gpu"], told.figures["kv_pool_tokens"]
    (163840, 42656)
    >>> [finding.code for finding in told.findings][:2]
    ['pool-capacity', 'implied-bytes-per-token']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvdocs.errors import FlagError
from kvdocs.model import Model, parse_config
from kvdocs.startup_log.arithmetic import layout_rate
from kvdocs.startup_log.facts import Facts, Finding, Severity
from kvdocs.startup_log.figures import figures_of
from kvdocs.startup_log.findings import (
    budget,
    candidates,
    config_check,
    engines,
    gaps,
    plan_check,
    pool,
    ranks,
    refusal,
    starts,
)
from kvdocs.startup_log.layout import known_layout, served_model
from kvdocs.startup_log.reader import read_log
from kvdocs.startup_log.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvdocs.startup_log.facts import KnownLayout
    from kvdocs.startup_log.reader import LogInput, Start, StartupLog

_CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    *refusal.CHECKS,
    *budget.CHECKS[2:3],
    *pool.CHECKS,
    *engines.CHECKS,
    *budget.CHECKS[:2],
    *budget.CHECKS[3:],
    *ranks.CHECKS,
    *config_check.CHECKS,
    *plan_check.CHECKS,
    *candidates.CHECKS,
    *gaps.CHECKS,
    starts.unexplained_pools,
)
_GRAVITY: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a log says and what follows.

    Attributes:
        figures: Numbers by name, each name ending in its unit; of the last start in the log.
        findings: Conclusions: what stops the server first, then warnings, then the rest.
        engine: `vllm`, `sglang`, `tensorrt-llm` or `llama.cpp`; empty if nothing was recognised.
        version: vLLM's version as printed; empty if it is not in the log.
    """

    figures: dict[str, float]
    findings: tuple[Finding, ...]
    engine: str = ""
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`.

        Examples:
            >>> explain("nothing of interest").to_json()["findings"][0]["code"]
            'no-startup-lines'
        """
        return {
            "engine": self.engine,
            "version": self.version,
            "figures": dict(self.figures),
            "findings": [
                {"code": item.code, "severity": item.severity, "text": item.text}
                for item in self.findings
            ],
        }


def explain(
    log: LogInput,
    *,
    config: Mapping[str, Any] | Model | None = None,
    flags: str | Mapping[str, str] = "",
) -> Explanation:
    """Read a start-up log and say what its figures mean.

    Args:
        log: The log: a text, bytes, an open file or an iterable of pieces; any size.
        config: The model's `config.json` as a dictionary, or a parsed model, to compare with.
        flags: The server's flags if the log does not show them, as a command line or by name
            (`{"tensor_parallel_size": "8"}`).

    Returns:
        Figures and findings. What the log does not determine is absent from the figures, with a
        finding that names the line which would tell.

    Raises:
        ConfigError: The config cannot be read right.
    """
    read = read_log(log)
    given = read_settings(flags) if isinstance(flags, str) else dict(flags)
    every = [_facts(start, given, config) for start in read.starts]
    if not every:
        return Explanation({}, (_nothing_found(read),))
    facts, problems = every[-1]
    found = [*problems, *starts.several([item for item, _ in every], read.num_starts)]
    for check in _CHECKS:
        found.extend(check(facts))
    if not found:
        found.append(_no_capacity(facts))
    return Explanation(
        figures=_figures(facts),
        findings=tuple(sorted(_distinct(found), key=_gravity)),
        engine=facts.engine,
        version=_version(facts),
    )


def _facts(
    start: Start, given: Mapping[str, str], config: Mapping[str, Any] | Model | None
) -> tuple[Facts, list[Finding]]:
    """A start with its flags and, if a config is there, its layout."""
    settings = {**start.settings, **given}
    layout: KnownLayout | None = None
    model: Model | None = None
    problems: list[Finding] = []
    if config is None and (served := served_model(settings)):
        config = served.config
        problems.append(
            Finding(
                "model-from-log",
                f"The log names {served.id}, which the catalogue has: its config is used.",
            )
        )
    if config is not None:
        try:
            model = config if isinstance(config, Model) else parse_config(config)
            layout = known_layout(config, settings)
        except FlagError as error:
            problems.append(Finding("flags-contradict-config", str(error), "warning"))
    return Facts(start, settings, layout, model), problems


def _figures(facts: Facts) -> dict[str, float]:
    """The start's figures, with the config's where the log has none."""
    figures = figures_of(facts)
    layout = facts.layout
    if layout is None:
        return figures
    solution = plan_check.solution_of(facts)
    if solution:
        figures["num_gpu_blocks"] = solution.num_blocks
        figures["block_bytes"] = solution.plan.bytes_per_block
        figures["block_size_tokens"] = solution.plan.block_size
        figures["blocks_per_request"] = solution.plan.per_request
        figures["kv_cache_groups"] = solution.plan.groups
        figures["max_concurrency"] = solution.concurrency
        figures.setdefault("kv_pool_bytes", solution.pool_bytes)
        figures["kv_pool_tokens_at_max_model_len"] = int(
            solution.concurrency * figures["max_model_len"]
        )
    rate = layout_rate(facts)
    figures["config_kv_bytes_per_token_per_gpu"] = rate
    if not layout.is_hybrid:
        figures.setdefault("kv_bytes_per_token_per_gpu", rate)
        tokens = figures.get("kv_pool_tokens")
        if tokens:
            figures.setdefault("kv_pool_bytes", tokens * rate)
        if "max_model_len" in figures:
            figures["kv_bytes_at_max_model_len"] = figures["max_model_len"] * rate
    return figures


def _distinct(findings: list[Finding]) -> list[Finding]:
    """Each finding once."""
    return list(dict.fromkeys(findings))


def _gravity(finding: Finding) -> int:
    return _GRAVITY[finding.severity]


def _version(facts: Facts) -> str:
    for row in facts.start.rows:
        if "vllm_version" in row.words:
            return row.words["vllm_version"]
    return ""


def _no_capacity(facts: Facts) -> Finding:
    names = ", ".join(sorted({row.name for row in facts.start.rows}))
    return Finding(
        "no-capacity-lines",
        f"Lines of a start were found ({names}), but none that states memory or capacity.",
        "warning",
    )


def _nothing_found(read: StartupLog) -> Finding:
    return Finding(
        "no-startup-lines",
        f"No start-up line was found in {read.num_bytes:,} bytes. The lines looked for are, for "
        "vLLM, `GPU KV cache size: …`, `Available KV cache memory: …`, `# GPU blocks: …`, the "
        "refusals of a start, and their like in SGLang, TensorRT-LLM and llama.cpp.",
        "warning",
    )
