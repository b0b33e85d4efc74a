"""The build takes numpy's wheel only with the right checksum, and goes on without it."""

from __future__ import annotations

import json
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.browser.site_server import SiteServer, serve

pytestmark = pytest.mark.node

WHEELS = Path(__file__).resolve().parents[2] / "overrides" / "runtime" / "wheels.mjs"
NAME = "numpy-9.9-fake.whl"
CONTENT = b"not really a wheel"
SCRIPT = """
const { getWheels } = await import(process.argv[2]);
const { folder, ...distribution } = JSON.parse(process.argv[3]);
const said = [];
const wheels = await getWheels((text) => said.push(text), distribution, folder);
console.log(JSON.stringify({ said, names: wheels.map(({ entry }) => entry.file_name) }));
"""


def get_wheels(folder: Path, address: str, content: bytes = CONTENT) -> dict[str, list[str]]:
    entry = {"name": "numpy", "version": "9.9", "file_name": NAME, "imports": ["numpy"]}
    packages = {"numpy": {**entry, "sha256": sha256(content).hexdigest()}}
    given = {
        "folder": str(folder),
        "address": address,
        "version": "1",
        "lock": {"packages": packages},
    }
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", SCRIPT, "test", str(WHEELS), json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.fixture
def host(tmp_path: Path):
    root = tmp_path / "distribution"
    root.mkdir()
    (root / NAME).write_bytes(CONTENT)
    with serve(root) as site:
        yield site


def test_a_wheel_at_hand_is_taken_without_a_request(tmp_path: Path, host: SiteServer):
    (tmp_path / NAME).write_bytes(CONTENT)
    assert get_wheels(tmp_path, host.url) == {"said": [], "names": [NAME]}
    assert host.served == []


def test_else_it_is_fetched_and_kept(tmp_path: Path, host: SiteServer):
    got = get_wheels(tmp_path / "wheels", host.url)
    assert got["names"] == [NAME]
    assert "fetched" in got["said"][0]
    assert (tmp_path / "wheels" / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("where", ["at hand", "fetched"])
def test_another_checksum_is_refused(tmp_path: Path, host: SiteServer, where: str):
    if where == "at hand":
        (tmp_path / NAME).write_bytes(CONTENT)
    got = get_wheels(tmp_path, host.url, content=b"the real one")
    assert got["names"] == []
    assert "another checksum" in got["said"][0]
    assert (tmp_path / NAME).exists() == (where == "at hand")


def test_out_of_reach_the_build_says_what_is_missing_and_goes_on(tmp_path: Path):
    got = get_wheels(tmp_path, "http://127.0.0.1:9/")
    assert got["names"] == []
    (line,) = got["said"]
    assert NAME in line
    assert "make wheels" in line


def test_a_missing_file_is_told_with_the_hosts_answer(tmp_path: Path, host: SiteServer):
    got = get_wheels(tmp_path / "wheels", f"{host.url}elsewhere/")
    assert "answered 404" in got["said"][0]


def test_pyodides_own_list_says_where_the_wheel_is():
    script = (
        "const { wantedWheels } = await import(process.argv[2]);"
        "console.log(JSON.stringify(wantedWheels()))"
    )
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", script, "test", str(WHEELS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (wheel,) = json.loads(run.stdout)
    assert wheel["name"] == "numpy"
    assert wheel["url"].startswith("https://")
    assert wheel["url"].endswith(".whl")
