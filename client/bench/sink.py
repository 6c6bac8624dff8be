"""An archive for measurements, in its own process: it accepts batches and stores only their counts and hash."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


class Sum:
    """The totals of one writer's batches. Appends are answered as by the archive, and repeats are not counted."""

    def __init__(self) -> None:
        self.batches = self.bytes = self.lines = self.requests = 0
        self.server_s = 0.0
        self.sha256 = hashlib.sha256()

    def append(self, data: bytes, base: int) -> int:
        """The position after the batch; a repeat has the base of the last one."""
        if base == self.batches:
            self.batches += 1
            self.bytes += len(data)
            self.lines += data.count(b"\n")
            self.sha256.update(data)
        return self.batches

    def facts(self) -> dict[str, Any]:
        counts = {"bytes": self.bytes, "lines": self.lines, "batches": self.batches, "requests": self.requests}
        return {**counts, "serverS": self.server_s, "sha256": self.sha256.hexdigest()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a response is two writes
    sums = Sum()
    lag_s = 0.0
    """Added to each response to a POST: a network's round trip."""

    def log_message(self, *_: Any) -> None:
        """Disable logging."""

    def do_GET(self) -> None:
        self._send(self.sums.facts())

    def do_DELETE(self) -> None:
        type(self).sums = Sum()
        self._send({})

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.sums.requests += 1
        run_id = self.path.partition("/starts/")[0].rpartition("/")[2]
        self._send({"runId": run_id, "attempt": 1, "position": "0", "joined": False, "instanceId": "bench"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(self.lag_s)
        begun_s = time.perf_counter()
        self._answer_post(body)
        self.sums.server_s += time.perf_counter() - begun_s

    def _answer_post(self, body: bytes) -> None:
        self.sums.requests += 1
        if "/writers/" in self.path or "/steps/" in self.path or self.path.endswith("/close"):
            return self._send({})
        base = int((self.headers.get("cookie") or "=0").partition("=")[2])
        kind = self.headers.get("content-type")
        if kind == "application/json":
            body = json.loads(body).encode()
        elif body and kind != "application/x-ndjson":
            body = gzip.decompress(body)
        self._send({"position": str(self.sums.append(body, base) if body else base), "errors": []})

    def _send(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running_sink(lag_ms: int = 0) -> Iterator[str]:
    """Start a sink, yield its address, and stop it."""
    process = subprocess.Popen([sys.executable, "-m", "client.bench.sink", str(lag_ms)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def facts_of(url: str) -> dict[str, Any]:
    """The sink's totals, which this call resets."""
    found: dict[str, Any] = httpx.get(url).json()
    httpx.delete(url)
    return found


if __name__ == "__main__":
    _Handler.lag_s = int(sys.argv[1]) / 1000
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
