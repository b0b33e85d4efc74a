"""Settings for every test."""

from hypothesis import settings

# Several people share a small machine: a slow example says nothing about the code.
settings.register_profile("kvdocs", deadline=None)
settings.load_profile("kvdocs")
