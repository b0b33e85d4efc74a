"""The lesson on one page: every formula, figure, flag, metric and rule, for any model and GPU.

Examples:
    >>> sheet = read_subject(model="meta-llama/Llama-3.1-8B", gpu="lesson-h100-80gb")
    >>> sheet.held.kv_pool_tokens, sheet.at_once(8192)
    (407714, 49)
"""

from kvdocs.sheet.line import Grid, Line, Part
from kvdocs.sheet.parts import parts
from kvdocs.sheet.subject import Subject, read_subject

__all__ = ["Grid", "Line", "Part", "Subject", "parts", "read_subject"]
