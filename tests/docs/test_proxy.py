"""The proxy before OpenMetadata and Runlake, as docs/how-to.md configures it: Debian's nginx with its block, before two servers."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from local.emulator import free_port
from tests.docs.pages import PROJECT, blocks
from tests.prerequisites import NGINX, require

pytestmark = pytest.mark.slow
LOGS = "/api/v1/services/ingestionPipelines/logs"
LISTED = "0f1e2d3c-0000-4000-8000-000000000009"
ID = "0f1e2d3c-0000-4000-8000-000000000008"
_CONFIGURATION = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
    scgi_temp_path {folder}/s;
    server {{ listen 127.0.0.1:{port}; {block} }}
}}
"""


class _Named(BaseHTTPRequestHandler):
    """Responds with the server's name and the path as it arrived."""

    name = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.name} {self.path}".encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The proxy's port."""
    require(NGINX)
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    servers = {
        name: ThreadingHTTPServer(("127.0.0.1", 0), type(name, (_Named,), {"name": name})) for name in ("openmetadata", "runlake")
    }
    for server in servers.values():
        threading.Thread(target=server.serve_forever, daemon=True).start()
    (block,) = blocks(PROJECT / "docs" / "how-to.md", "nginx")
    text = block.text.replace("openmetadata:8585", f"127.0.0.1:{servers['openmetadata'].server_port}")
    text, count = re.subn(r"https://[a-z0-9.-]+;", f"http://127.0.0.1:{servers['runlake'].server_port};", text)
    assert count == 1
    (folder / "nginx.conf").write_text(_CONFIGURATION.format(folder=folder, port=port, block=text))
    with subprocess.Popen(["/usr/sbin/nginx", "-p", folder, "-c", folder / "nginx.conf"]) as process:
        try:
            _wait(port, folder)
            yield port
        finally:
            process.terminate()
            process.wait(30)
            for server in servers.values():
                server.shutdown()
                server.server_close()


def _wait(port: int, folder: Path) -> None:
    give_up_s = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            assert time.monotonic() < give_up_s, (folder / "error.log").read_text()
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("path", "server"),
    [
        ("/api/v1/tables", "openmetadata"),
        ("/api/v1/services/ingestionPipelines/name/mysql.ingest", "openmetadata"),
        (f"{LOGS}/{ID}/last", "openmetadata"),
        (f"{LOGS}/{ID}/last?after=1000", "openmetadata"),
        (f"{LOGS}/{ID}/last/download", "openmetadata"),
        (f"{LOGS}/{LISTED}/last", "runlake"),
        (f"{LOGS}/{LISTED}/last?after=1000", "runlake"),
        (f"{LOGS}/{LISTED}/last/download", "runlake"),
        (f"{LOGS}/{ID}/{ID}", "runlake"),
        (f"{LOGS}/mysql.ingest/last", "runlake"),
        (f"{LOGS}/mysql.ingest/{ID}", "runlake"),
        (f"{LOGS}/mysql.ingest/{ID}/download", "runlake"),
        (f"{LOGS}/mysql.ingest/stream/{ID}?after=5", "runlake"),
        (f"{LOGS}/%22a%20b%22.x%2Fy/run%2D1?limit=5", "runlake"),
    ],
)
def test_paths_go_unchanged_to_their_server(proxy: int, path: str, server: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=30)
    connection.request("GET", path)
    assert connection.getresponse().read().decode() == f"{server} {path}"
    connection.close()
