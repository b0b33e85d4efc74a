"""Settings for every test."""

import pytest
from hypothesis import settings

from tests.cli_runner import Runner

# Several people share a small machine: a slow example says nothing about the code.
settings.register_profile("kvdocs", deadline=None)
settings.load_profile("kvdocs")


@pytest.fixture
def kvdocs(capsys, monkeypatch):
    """Run a command line: `kvdocs("size", "llama-3.1-8b")`."""
    monkeypatch.delenv("KVDOCS_DEBUG", raising=False)
    return Runner(capsys, monkeypatch)
