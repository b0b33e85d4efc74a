"""A real Chromium, and two sites for it: the built one, and a small one of known behaviour."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, NoBrowser, find_chromium
from tests.browser.site_server import Faults, SiteServer, serve

ROOT = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).parent / "standin"

collect_ignore = ["standin"]  # a package that only the browser imports

expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        executable = find_chromium()
    except NoBrowser as error:
        pytest.exit(str(error), returncode=3)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=executable, args=FLAGS) as chromium,
    ):
        make_context = chromium.new_context

        def new_context(*, offline_reading: bool = False, **settings: Any) -> BrowserContext:
            fresh = make_context(**settings)
            if not offline_reading:
                fresh.add_init_script("delete Navigator.prototype.serviceWorker")
            return fresh

        # A service worker would answer for a host on which a test has made something go wrong.
        chromium.new_context = new_context  # type: ignore[method-assign]
        yield chromium


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context() as fresh:
        fresh.set_default_timeout(30_000)
        yield fresh


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture(scope="session")
def built_site() -> Iterator[SiteServer]:
    """The lesson's site as `make site` builds it, below /kv-cache/."""
    if not (ROOT / "site" / "index.html").is_file():
        pytest.exit("site/ is missing: run `make site` first", returncode=3)
    with serve(ROOT / "site") as site:
        yield site


@pytest.fixture
def site(built_site: SiteServer) -> SiteServer:
    """The same, with nothing wrong."""
    built_site.faults = Faults()
    built_site.served.clear()
    return built_site


@pytest.fixture(scope="session")
def standin_root() -> Path:
    """A site of one page around the stand-in package's widget."""
    root = ROOT / "build" / "standin"
    out = root / "assets" / "kv"
    build = ["node", "overrides/runtime/build.mjs", "--package", str(STANDIN), "--out", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=120)
    page = (STANDIN / "page.html").read_text()
    (root / "index.html").write_text(page)
    (root / "other" / "index.html").parent.mkdir(exist_ok=True)
    (root / "other" / "index.html").write_text("<!doctype html><title>Other</title><h1>Other</h1>")
    return root


@pytest.fixture(scope="session")
def standin_server(standin_root: Path) -> Iterator[SiteServer]:
    with serve(standin_root) as site:
        yield site


@pytest.fixture
def standin(standin_server: SiteServer) -> SiteServer:
    """The stand-in site, with nothing wrong."""
    standin_server.faults = Faults()
    standin_server.served.clear()
    return standin_server
