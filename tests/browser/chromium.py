"""The Chromium that tests and benchmarks drive: an installed one, or Playwright's own.

`python -m tests.browser.chromium` names it, and installs Playwright's when there is none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MISSING = (
    "No Chromium to drive: install Chromium or Google Chrome (Debian and Ubuntu: "
    "`apt-get install chromium`), or run `playwright install chromium`."
)


class NoBrowser(RuntimeError):  # noqa: N818 - it names the condition
    """There is no Chromium on this machine."""


def find_chromium() -> str:
    """Return the path of an installed Chromium, or of the one Playwright downloaded."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    if Path(own).is_file():
        return own
    raise NoBrowser(MISSING)


def main() -> int:
    """Find a browser, else install Playwright's; say which in one line."""
    try:
        print(f"Chromium: {find_chromium()}")
    except NoBrowser:
        print("Chromium: none is installed; fetching Playwright's (about 170 MB, once)")
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        if subprocess.run(command, check=False).returncode:
            print(MISSING, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
