"""A workload as a file: JSON lines, the first of which names the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kvdocs.errors import WorkloadError
from kvdocs.timing.exact import to_grid
from kvdocs.workload.lines import shorten
from kvdocs.workload.request import Blocks, Part, Parts, Prompt, Unshared, WorkloadRequest

MARK: Final = '"kvdocs_workload"'
_VERSION: Final = 1


def write_workload(requests: Iterable[WorkloadRequest]) -> Iterator[str]:
    """A workload as lines, each with its line end; `read_trace` reads them back.

    Args:
        requests: The requests.

    Yields:
        The header, then one line per request.

    Examples:
        >>> from kvdocs.workload import Unshared, WorkloadRequest, write_workload
        >>> request = WorkloadRequest(id="a", prompt=Unshared(512), output_tokens=128)
        >>> print("".join(write_workload([request])), end="")
        {"kvdocs_workload": 1}
        {"id": "a", "arrival_s": 0.0, "prompt": 512, "output_tokens": 128}
    """
    yield f"{{{MARK}: {_VERSION}}}\n"
    for request in requests:
        row: dict[str, Any] = {
            "id": request.id,
            "arrival_s": request.arrival_s,
            "prompt": _prompt_to_json(request.prompt),
            "output_tokens": request.output_tokens,
        }
        if request.follows:
            row |= {"follows": request.follows, "think_s": request.think_s}
        yield json.dumps(row) + "\n"


def _prompt_to_json(prompt: Prompt) -> Any:
    if isinstance(prompt, Unshared):
        return prompt.num_tokens
    if isinstance(prompt, Parts):
        parts = [list(part) for part in prompt.parts]
        return {"parts": parts, "output_source": prompt.output_source}
    return {
        "num_tokens": prompt.num_tokens,
        "block_size": prompt.block_size,
        "keys": list(prompt.keys),
    }


def read_workload(lines: Iterable[tuple[int, str]]) -> Iterator[WorkloadRequest]:
    """Read what `write_workload` wrote.

    Args:
        lines: Numbered lines, the header first.

    Raises:
        WorkloadError: A line that it would not have written, with its number.

    Examples:
        >>> row = '{"id": "a", "arrival_s": 0, "prompt": 5, "output_tokens": 1}'
        >>> [r.id for r in read_workload([(1, '{"kvdocs_workload": 1}'), (2, row)])]
        ['a']
    """
    for index, (number, text) in enumerate(lines):
        try:
            row = json.loads(text)
            if index:
                yield _request(row)
            elif row != {MARK.strip('"'): _VERSION}:
                raise ValueError(f"only version {_VERSION} is known")  # noqa: TRY301 - one message
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise WorkloadError(
                f"line {number} is not as write_workload writes it "
                f"({type(error).__name__}: {error}): {shorten(text)}"
            ) from error


def _request(row: dict[str, Any]) -> WorkloadRequest:
    return WorkloadRequest(
        id=_text(row["id"]),
        prompt=_prompt_from_json(row["prompt"]),
        output_tokens=_whole(row["output_tokens"], 1),
        arrival_s=_seconds(row["arrival_s"]),
        follows=_text(row.get("follows", "")),
        think_s=_seconds(row.get("think_s", 0.0)),
    )


def _prompt_from_json(value: Any) -> Prompt:
    if not isinstance(value, dict):
        return Unshared(_whole(value, 1))
    if "keys" in value:
        keys = tuple(_whole(key, None) for key in value["keys"])
        num_tokens, block_size = _whole(value["num_tokens"], 1), _whole(value["block_size"], 1)
        if not num_tokens // block_size <= len(keys) <= -(-num_tokens // block_size):
            raise ValueError(f"{len(keys)} keys do not fit {num_tokens} tokens")
        return Blocks(num_tokens, block_size, keys)
    parts = tuple(
        Part(_text(source), _whole(num_tokens, 1), _whole(start, 0))
        for source, num_tokens, start in value["parts"]
    )
    if not parts:
        raise ValueError("a prompt needs a part")
    return Parts(parts, _text(value["output_source"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _whole(value: Any, low: int | None) -> int:
    if type(value) is not int or (low is not None and not low <= value <= 10**9):
        raise TypeError(f"{value!r} is not a whole number that can stand here")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 2**22:
        raise TypeError(f"{value!r} is not a time")
    return to_grid(value)
