"""The stand-in has no drills."""

DRILLS: dict[str, object] = {}
