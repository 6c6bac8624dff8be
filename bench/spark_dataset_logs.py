"""A day's logs as files, served by S3's read operations from a separate process with minimal overhead."""

from __future__ import annotations

import os
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from chalicelib.runlog.artifact import artifact_metadata

DAY = datetime(2026, 11, 20, tzinfo=UTC)
PIPELINES, HOURS = 10, 24
BUCKET, PREFIX = "logs", "pipeline-logs"
_WORDS = [
    *(
        "processed",
        "table",
        "warehouse",
        "public",
        "orders",
        "service",
        "ingestion",
        "row",
        "column",
        "partition",
        "retry",
        "offset",
    ),
    *("commit", "flush", "checkpoint", "customer", "invoice", "payment", "region", "cluster"),
]
_LEVELS = (["INFO"] * 80) + (["DEBUG"] * 10) + (["WARNING"] * 7) + (["ERROR"] * 3)
_MESSAGES = 20_000


def write_day(folder: Path, size_bytes: int, seed: int) -> None:
    """Hourly runs of each pipeline: ``{fqn}/{run}/logs.txt``, lines of about 115 bytes in Python's format."""
    random = Random(seed)
    messages = [" ".join(random.choices(_WORDS, k=7)) for _ in range(_MESSAGES)]
    for pipeline in range(PIPELINES):
        for hour in range(HOURS):
            path = folder / f"svc{pipeline}.orders" / f"run-{hour:02d}" / "logs.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = _lines(random, messages, pipeline, hour, size_bytes // (PIPELINES * HOURS))
            path.write_text("".join(lines))


def _lines(random: Random, messages: list[str], pipeline: int, hour: int, size_bytes: int) -> Iterator[str]:
    moment, written = DAY + timedelta(hours=hour), 0
    step = timedelta(seconds=3500) / max(size_bytes // 115, 1)
    while written < size_bytes:
        moment += step
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
        text = f"{random.choice(messages)} {random.randrange(100_000)} in {random.randrange(5000)} ms"
        line = f"{stamp} - svc{pipeline}.stage{random.randrange(8)} - {random.choice(_LEVELS)} - {text}\n"
        written += len(line)
        yield line


@dataclass(frozen=True, slots=True)
class Stored:
    """An object."""

    path: Path
    size: int
    headers: tuple[tuple[str, str], ...]


class LogServer:
    """Serves a day's logs from a separate process until ``stop``."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.spark_dataset_logs", str(folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()

    @property
    def options(self) -> dict[str, str]:
        """Options of the data source for this server."""
        return {"bucket": BUCKET, "endpoint": self.url, "region": "us-east-1", "accessKeyId": "test", "secretAccessKey": "test"}

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def stop(self) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.communicate()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, Stored]
    keys: list[str]

    def do_HEAD(self) -> None:
        self._object(is_head=True)

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list({name: values[0] for name, values in query.items()})
        else:
            self._object(is_head=False)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _object(self, *, is_head: bool) -> None:
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
        stored = self.objects.get(key)
        if stored is None:
            self._answer(404, [], 0)
            return
        start, end = 0, stored.size
        if given := self.headers.get("Range"):
            first, _, last = given.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1 if last else stored.size, stored.size)
        ranged = [("Content-Range", f"bytes {start}-{end - 1}/{stored.size}")] if given else []
        self._answer(206 if given else 200, [*stored.headers, *ranged], end - start)
        if not is_head:
            with stored.path.open("rb") as file:
                while start < end:
                    start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter, after = query.get("prefix", ""), query.get("delimiter", ""), query.get("start-after", "")
        rows: list[str] = []
        folders: dict[str, None] = {}
        for key in self.keys[bisect_right(self.keys, after) :]:
            if key.startswith(prefix):
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                if cut >= 0:
                    folders[key[: cut + 1]] = None
                else:
                    rows.append(key)
        modified = f"{DAY + timedelta(days=1):%Y-%m-%dT%H:%M:%S}.000Z"
        contents = [
            f"<Contents><Key>{escape(key)}</Key><Size>{self.objects[key].size}</Size><ETag>&quot;e&quot;</ETag>"
            f"<LastModified>{modified}</LastModified></Contents>"
            for key in rows
        ]
        common = [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        body = "".join(
            ["<ListBucketResult><IsTruncated>false</IsTruncated>", *contents, *common, "</ListBucketResult>"],
        ).encode()
        self._answer(200, [("Content-Type", "application/xml")], len(body))
        self.wfile.write(body)

    def _answer(self, status: int, headers: list[tuple[str, str]], size: int) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()


def _serve(folder: Path) -> None:
    objects: dict[str, Stored] = {}
    modified = formatdate((DAY + timedelta(days=1)).timestamp(), usegmt=True)
    for path in sorted(folder.rglob("logs.txt")):
        body = path.read_bytes()
        metadata = artifact_metadata(body.count(b"\n"), len(body), 2, 1, "closed")
        meta = [(f"x-amz-meta-{name}", value) for name, value in metadata.items()]
        key = f"{PREFIX}/{path.relative_to(folder).as_posix()}"
        objects[key] = Stored(path, len(body), (("ETag", '"e"'), ("Last-Modified", modified), *meta))
    _Handler.objects, _Handler.keys = objects, sorted(objects)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
