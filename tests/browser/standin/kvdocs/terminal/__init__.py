"""The stand-in has no terminal."""
