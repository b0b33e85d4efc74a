"""Size and simulate the KV cache of an LLM server."""

__version__ = "0.1.0"
