"""The stand-in has no drills."""
