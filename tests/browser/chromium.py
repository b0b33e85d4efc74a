"""The Chromium that tests and benchmarks drive: an installed one, or Playwright's own.

`python -m tests.browser.chromium` names it; where there is none it installs Playwright's, or
Debian's package.
"""

from __future__ import annotations

import os
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


def install_chromium() -> bool:
    """Install a Chromium: Playwright's own download, else Debian's package where we may."""
    print("Chromium: none is installed; fetching Playwright's (about 170 MB, once)", flush=True)
    download = [sys.executable, "-m", "playwright", "install", "chromium"]
    if subprocess.run(download, check=False).returncode == 0:
        return True
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    print("Chromium: Playwright's is out of reach; installing Debian's package", flush=True)
    steps = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"])
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return all(
        subprocess.run(step, check=False, env=quiet, stdout=subprocess.DEVNULL).returncode == 0
        for step in steps
    )


def main() -> int:
    """Find a browser, else install one; say which in one line."""
    try:
        find_chromium()
    except NoBrowser:
        if not install_chromium():
            print(MISSING, file=sys.stderr)
            return 1
    print(f"Chromium: {find_chromium()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
