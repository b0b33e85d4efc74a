"""From a workload's requests to the engine's."""

from __future__ import annotations

from kvdocs.engine.config import EngineConfig
from kvdocs.engine.loop import check_fits
from kvdocs.engine.prompt import (
    DistinctPrompt,
    KeyedPrompt,
    Prompt,
    Segment,
    SegmentPrompt,
)
from kvdocs.engine.request import RequestSpec
from kvdocs.errors import NeverFitsError
from kvdocs.workload import Blocks, Unshared, WorkloadRequest


def to_prompt(request: WorkloadRequest, block_size: int) -> Prompt:
    """The prompt as the engine takes it.

    Args:
        request: A workload's request.
        block_size: Tokens in the engine's block.

    Raises:
        WorkloadError: A block size that cuts across the blocks of a trace.

    Examples:
        >>> to_prompt(WorkloadRequest(id="a", prompt=Unshared(9), output_tokens=1), 16)
        DistinctPrompt(num_tokens=9)
    """
    prompt = request.prompt
    if isinstance(prompt, Unshared):
        return DistinctPrompt(prompt.num_tokens)
    if isinstance(prompt, Blocks):
        return KeyedPrompt(prompt.num_tokens, prompt.keys_at(block_size))
    segments = [Segment(*part) for part in prompt.parts]
    return SegmentPrompt(segments, output_source=prompt.output_source or None)


def to_spec(
    request: WorkloadRequest, config: EngineConfig, *, arrival: float, priority: int = 0
) -> RequestSpec:
    """The request as the engine takes it.

    Args:
        request: A workload's request.
        config: The engine's settings.
        arrival: When it arrives, in seconds.
        priority: Low numbers are more urgent; for the priority policy.

    Raises:
        NeverFitsError: It is longer than the server takes, or its blocks are more than there are.
    """
    check_length(request, config)
    spec = RequestSpec(
        id=request.id,
        prompt=to_prompt(request, config.block_size),
        max_tokens=request.output_tokens,
        arrival=arrival,
        priority=priority,
    )
    check_fits(spec, config)
    return spec


def check_length(request: WorkloadRequest, config: EngineConfig) -> None:
    """Refuse what the front-end refuses: prompt and output beyond `max_model_len`.

    The texts are vLLM's (0.11.0 `vllm/entrypoints/openai/serving_engine.py`, _validate_input).

    Raises:
        NeverFitsError: With the tokens it asks for and those it may have.

    Examples:
        >>> request = WorkloadRequest(id="a", prompt=Unshared(2778), output_tokens=8000)
        >>> check_length(request, EngineConfig(max_model_len=4096))
        Traceback (most recent call last):
        kvdocs.errors.NeverFitsError: 'max_tokens' or 'max_completion_tokens' is too large: 8000...
    """
    prompt, most = request.num_prompt_tokens, config.max_model_len
    limit = f"This model's maximum context length is {most} tokens"
    if prompt >= most:
        raise NeverFitsError(
            f"{limit}. However, your request has {prompt} input tokens. Please reduce the length "
            "of the input messages.",
            request_id=request.id,
            needed=prompt,
            available=most - 1,
        )
    if prompt + request.output_tokens > most:
        raise NeverFitsError(
            "'max_tokens' or 'max_completion_tokens' is too large: "
            f"{request.output_tokens}. {limit} and your request has {prompt} input tokens "
            f"({request.output_tokens} > {most} - {prompt}).",
            request_id=request.id,
            needed=prompt + request.output_tokens,
            available=most,
        )
