"""A static host below a sub-path, whose files a test can lose, damage, stall or slow down."""

from __future__ import annotations

import gzip
import mimetypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PREFIX = "/kv-cache/"
COMPRESSED = (".html", ".js", ".mjs", ".css", ".json", ".svg", ".wasm", ".xml")
"""What a static host such as GitHub Pages compresses."""
CHUNK = 64 * 1024


@dataclass
class Faults:
    """What goes wrong. Paths are relative to the site.

    Attributes:
        missing: Files answered with 404.
        replaced: Files answered with other bytes.
        stalled: Files whose answer never begins, until the set is cleared.
        encoded: Gzip files sent as they are, with `Content-Encoding: gzip`.
        rate: Bytes a second for each answer; 0 for no limit.
    """

    missing: set[str] = field(default_factory=set)
    replaced: dict[str, bytes] = field(default_factory=dict)
    stalled: set[str] = field(default_factory=set)
    encoded: set[str] = field(default_factory=set)
    rate: int = 0


@dataclass
class Served:
    """One answer: the file, and the bytes of its body as sent."""

    path: str
    sent: int


@dataclass
class SiteServer:
    """A running host.

    Attributes:
        url: Address of the site's root.
        faults: May be changed while it runs.
        served: All answers so far.
    """

    url: str
    faults: Faults = field(default_factory=Faults)
    served: list[Served] = field(default_factory=list)


@contextmanager
def serve(root: Path, *, compress: bool = False) -> Iterator[SiteServer]:
    """Serve a folder below `/kv-cache/` while the context is open.

    Args:
        root: The built site.
        compress: Send text and wasm gzipped, as GitHub Pages does.
    """

    class Handler(_Handler):
        site_root = root
        compressing = compress

    host = _Host(("127.0.0.1", 0), Handler)
    site = SiteServer(f"http://127.0.0.1:{host.server_port}{PREFIX}")
    Handler.site = site
    thread = threading.Thread(target=host.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        site.faults.stalled.clear()
        host.shutdown()
        host.server_close()
        thread.join()


class _Host(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed has hung up; anything else is a fault of this host."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@lru_cache(maxsize=64)
def _gzipped(path: Path, mtime: float) -> bytes:  # noqa: ARG001 - part of the key
    return gzip.compress(path.read_bytes(), 9)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    site: SiteServer
    site_root: Path
    compressing: bool

    def do_GET(self) -> None:
        url = unquote(urlsplit(self.path).path)
        name = url.removeprefix(PREFIX)
        if url == name or url.endswith("/"):
            name = f"{name}index.html"
        while name in self.site.faults.stalled:
            time.sleep(0.02)
        path = self.site_root / name
        if not url.startswith(PREFIX) or name in self.site.faults.missing or not path.is_file():
            self._send(name, b"not found", status=HTTPStatus.NOT_FOUND)
            return
        if name in self.site.faults.replaced:
            self._send(name, self.site.faults.replaced[name])
        elif self.compressing and path.suffix in COMPRESSED:
            self._send(name, _gzipped(path, path.stat().st_mtime), encoded=True)
        else:
            self._send(name, path.read_bytes(), encoded=name in self.site.faults.encoded)

    def _send(
        self, name: str, body: bytes, *, status: HTTPStatus = HTTPStatus.OK, encoded: bool = False
    ) -> None:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        if name.endswith((".js", ".mjs")):
            kind = "text/javascript"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        if encoded:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.site.served.append(Served(name, self._write(body)))

    def _write(self, body: bytes) -> int:
        sent = 0
        try:
            for start in range(0, len(body), CHUNK):
                sent += self.wfile.write(body[start : start + CHUNK])
                if self.site.faults.rate:
                    time.sleep(CHUNK / self.site.faults.rate)
        except ConnectionError:
            self.close_connection = True
        return sent

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Keep test output quiet."""
