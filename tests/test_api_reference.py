"""The API reference has every module that is meant to be imported, and fetches nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def api() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "overrides"))
    import api  # noqa: PLC0415 - only there is it found

    yield api
    sys.path.remove(str(ROOT / "overrides"))


def test_modules_that_readers_import_have_a_page(api: ModuleType):
    names = {module.name for module in api.modules()}
    assert {"model", "sizing", "engine", "server", "units", "errors", "widgets"} <= names
    assert not names & {"cli", "__init__", "__main__", "cells"}


def test_each_says_in_a_sentence_what_it_is_for(api: ModuleType):
    for module in api.modules():
        assert module.told.endswith("."), module.name
        importlib.import_module(f"kvdocs.{module.name}")
    for package, parts in api.AUTHORS.items():
        for part in parts:
            importlib.import_module(f"kvdocs.{package}.{part}")


def test_pages_are_made_beside_the_navigation(api: ModuleType):
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins._current_plugin = "the hook"  # MkDocs sets it while events run
    listing = File.generated(config, "reference/api.md", content="")
    files = api.on_files(Files([listing]), config)
    page = files.get_file_from_path("reference/api/units.md")
    assert page.inclusion == InclusionLevel.NOT_IN_NAV
    assert "::: kvdocs.units\n" in page.content_string
    table = api.modules_table()
    assert all(f'href="{module.name}/"' in table for module in api.modules())


def test_a_site_without_the_list_has_no_pages_below_it(api: ModuleType):
    config = load_config(str(ROOT / "mkdocs.yml"))
    assert len(api.on_files(Files([]), config)) == 0


def test_no_inventory_of_another_site_is_fetched():
    config = load_config(str(ROOT / "mkdocs.yml"))
    handlers = config.plugins["mkdocstrings"].config.handlers
    assert handlers["python"]["inventories"] == []
