"""A stand-in for the package, small and with known behaviour."""

BALLAST = bytes(8 * 2**20)
"""Makes Python's memory larger than the 30 MiB that Pyodide starts with."""
