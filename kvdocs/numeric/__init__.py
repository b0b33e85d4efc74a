"""Attention and fp8 rounding in numpy: what the rest of kvdocs counts, computed.

The only part of kvdocs that needs other packages. Importing it without them is refused with an
`ExtraError`; nothing else in kvdocs imports it.

- `kvdocs.numeric.attention`: attention with and without a KV cache; MHA, GQA and MQA from one code.
- `kvdocs.numeric.fp8`: rounding keys and values to e4m3, with the scales vLLM has.
- `kvdocs.numeric.rounding`: what that does to keys, values and the output of attention.
"""

from importlib.util import find_spec

from kvdocs.errors import ExtraError

_MISSING = [name for name in ("numpy", "ml_dtypes") if find_spec(name) is None]
if _MISSING:
    raise ExtraError(
        f"kvdocs.numeric needs {' and '.join(_MISSING)}, which this Python does not have; install "
        "the extra with: pip install 'kvdocs[numeric]'"
    )
