"""A stand-in for the package, small and with known behaviour."""
