"""A virtual bucket of a million segments: real LIST and HEAD requests over HTTP with S3's responses, from a separate process. Keys
are computed from numbers, so none are stored."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from multiprocessing import get_context
from multiprocessing.connection import Connection
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from chalicelib.runlog.artifact import artifact_metadata

SEGMENT_BYTES = 16 * 1024
_PREFIX = "pipeline-logs/"
_MODIFIED = "2026-11-21T03:00:00.000Z"
_LIMIT = 1000


class Keys(Sequence[str]):
    """Keys of ``runs`` runs in 100 pipelines with ``segments`` segments each, in order; with many runs, those of every tenth
    pipeline also have a partial.txt with the first half of their segments."""

    def __init__(self, runs: int, segments: int) -> None:
        each = max(runs // 100, 1)
        self.bases = [f"{_PREFIX}svc.p{run // each:06d}/run-{run:06d}/" for run in range(runs)]
        self._has_partial = [runs > 1 and (run // each) % 10 == 0 for run in range(runs)]
        self._starts = list(accumulate((segments + has for has in self._has_partial), initial=0))
        self.segments = segments

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        run = bisect_right(self._starts, index) - 1
        number = index - self._starts[run] - self._has_partial[run]
        return self.bases[run] + ("partial.txt" if number < 0 else f"segments/{number:010d}")

    def size(self, key: str) -> int:
        """Size of an object in bytes."""
        return self.segments // 2 * SEGMENT_BYTES if key.endswith("partial.txt") else SEGMENT_BYTES

    def metadata(self, key: str) -> dict[str, str]:
        """Metadata of a partial.txt."""
        return artifact_metadata(self.segments // 2 * 100, self.size(key), self.segments // 2, 1, "")


@contextmanager
def listing_server(runs: int, segments: int) -> Iterator[str]:
    """URL of a server with these keys."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(runs, segments, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(runs: int, segments: int, connection: Connection) -> None:
    keys = Keys(runs, segments)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"keys": keys}))
    connection.send(server.server_port)
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    keys: Keys

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}
        if "list-type" not in query:
            self._answer(404, b"")
            return
        self._answer(200, self._listing(query).encode())

    def do_HEAD(self) -> None:
        key = unquote(urlsplit(self.path).path).partition("/logs/")[2]
        if not key.endswith("partial.txt"):
            self._answer(404, b"")
            return
        headers = {f"x-amz-meta-{name}": value for name, value in self.keys.metadata(key).items()}
        self._answer(200, b"", self.keys.size(key), headers)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _listing(self, query: dict[str, str]) -> str:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        limit = min(int(query.get("max-keys", _LIMIT)), _LIMIT)
        at = max(bisect_left(self.keys, prefix), bisect_right(self.keys, query.get("start-after", "")))
        rows: list[str] = []
        while len(rows) < limit and at < len(self.keys) and (key := self.keys[at]).startswith(prefix):
            folder, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                rows.append(f"<CommonPrefixes><Prefix>{escape(prefix + folder + found)}</Prefix></CommonPrefixes>")
                at = bisect_left(self.keys, prefix + folder + "0")
            else:
                rows.append(self._row(key))
                at += 1
        more = at < len(self.keys) and self.keys[at].startswith(prefix)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>logs</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{''.join(rows)}</ListBucketResult>"
        )

    def _row(self, key: str) -> str:
        return (
            f"<Contents><Key>{quote(key)}</Key><LastModified>{_MODIFIED}</LastModified><ETag>&quot;9b2cf535f27731c974343645a3985328"
            f"&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
            f"<Size>{self.keys.size(key)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )

    def _answer(self, status: int, body: bytes, size: int | None = None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 03:00:00 GMT")
        self.send_header("ETag", '"9b2cf535f27731c974343645a3985328"')
        for name, value in (headers or {}).items():
            self.send_header(name, re.sub(r"[^ -~]", "", value))
        self.end_headers()
        self.wfile.write(body)
