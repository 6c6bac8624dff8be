"""A local bucket that counts its requests: moto's S3 in this process, filled directly, read over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from chalicelib.ports import SegmentEntry
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.segment import DATA, SEAL, metadata_of

ACCOUNT = "123456789012"
OPTIONS = {"region": "us-east-1", "accessKeyId": "test", "secretAccessKey": "test"}
Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass
class Traffic:
    """Since the last ``reset``: requests by kind, keys that were read, and object bytes sent."""

    requests: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    read_bytes: int = 0

    def reset(self) -> None:
        """Count from 0."""
        self.requests.clear()
        self.keys.clear()
        self.read_bytes = 0


class BucketServer:
    """S3 with one bucket. ``one_at_a_time`` serializes requests: moto lets several concurrent conditional writes succeed, and a
    rejected transaction undoes concurrent writes; AWS does neither."""

    def __init__(self, bucket: str = "logs", *, one_at_a_time: bool = False) -> None:
        self.bucket, self.traffic, self._lock = bucket, Traffic(), Lock()
        self._one = Lock() if one_at_a_time else None
        self._backend = get_backend("s3")[ACCOUNT]["aws"]
        self._backend.create_bucket(bucket, "us-east-1")
        application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._counted(application), threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def options(self) -> dict[str, str]:
        """Options of the data source for this bucket."""
        return {"bucket": self.bucket, "endpoint": self.url, **OPTIONS}

    def put(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None, modified_ms: int | None = None) -> None:
        """Store an object with this modification time."""
        stored = self._backend.put_object(self.bucket, key, body)
        stored.set_metadata({f"x-amz-meta-{name}": value for name, value in (metadata or {}).items()})
        if modified_ms is not None:
            stored.last_modified = datetime.fromtimestamp(modified_ms / 1000, UTC).replace(tzinfo=None)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._backend.delete_object(self.bucket, key)

    def empty(self) -> None:
        """Delete all objects."""
        self._backend.buckets[self.bucket].keys.clear()
        self.traffic.reset()

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _counted(self, application: Wsgi) -> Wsgi:
        def counted(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
            kind, key = self._kind(environ)
            with self._one or nullcontext():
                sent = b"".join(application(environ, start_response))
            with self._lock:
                self.traffic.requests[kind] += 1
                if kind == "GET":
                    self.traffic.keys[key] += 1
                    self.traffic.read_bytes += len(sent)
            yield sent

        return counted

    def _kind(self, environ: Mapping[str, Any]) -> tuple[str, str]:
        url = urlsplit(environ.get("RAW_URI") or environ["REQUEST_URI"])
        method, key = environ["REQUEST_METHOD"], unquote(url.path).removeprefix(f"/{self.bucket}").lstrip("/")
        is_list = method == "GET" and "list-type" in parse_qs(url.query)
        return ("LIST" if is_list else method), key


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""


def put_log(
    server: BucketServer, fqn: str, run_id: str, bodies: Sequence[bytes], at_ms: Sequence[int], *, is_final: bool = False
) -> None:
    """Store a run with these segments and their times; ``is_final``: finalized, with segments deleted."""
    base = f"pipeline-logs/{fqn}/{run_id}/"
    line = byte = 0
    for number, (body, ms) in enumerate(zip(bodies, at_ms, strict=True)):
        entry = SegmentEntry(number, DATA, 1, line, byte, body.count(b"\n"), len(body), "s", 0, "d", ms, "", landmarks=())
        if not is_final:
            server.put(f"{base}segments/{number:010d}", body, metadata_of(entry), ms)
        line, byte = entry.end_line, entry.end_byte
    if is_final:
        seal = SegmentEntry(len(bodies), SEAL, 1, line, byte, 0, 0, "s", 0, "", at_ms[-1], reason="closed")
        server.put(f"{base}segments/{len(bodies):010d}", b"", metadata_of(seal), at_ms[-1])
        metadata = artifact_metadata(line, byte, len(bodies) + 1, 1, "closed")
        server.put(f"{base}logs.txt", b"".join(bodies), metadata, at_ms[-1])
