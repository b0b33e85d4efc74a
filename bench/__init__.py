"""Measurements of the built site: `python -m bench` prints tables and writes build/bench.json."""
