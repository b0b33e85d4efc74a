"""Whether a server starts, and how much cache it has.
"""
from kvdocs.sizing.cases import capacity_case
