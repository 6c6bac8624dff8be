"""A bucket on this machine that counts what is asked of it: moto's S3 in this process, filled without a request, read by real ones."""

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
    """Requests since the last ``forget``: how many of each kind, which keys were read, and the bytes of objects that were sent."""

    requests: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    read_bytes: int = 0

    def reset(self) -> None:
        """Begin anew."""
        self.requests.clear()
        self.keys.clear()
        self.read_bytes = 0


class BucketServer:
    """S3 with one bucket. ``one_at_a_time``: of those who write conditionally at the same moment moto lets several win, and a
    transaction that is refused takes back what others wrote meanwhile; AWS does neither."""

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
        """What a read needs to find it."""
        return {"bucket": self.bucket, "endpoint": self.url, **OPTIONS}

    def put(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None, modified_ms: int | None = None) -> None:
        """Store an object, with the time that it is to have."""
        stored = self._backend.put_object(self.bucket, key, body)
        stored.set_metadata({f"x-amz-meta-{name}": value for name, value in (metadata or {}).items()})
        if modified_ms is not None:
            stored.last_modified = datetime.fromtimestamp(modified_ms / 1000, UTC).replace(tzinfo=None)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._backend.delete_object(self.bucket, key)

    def empty(self) -> None:
        """Remove all objects."""
        self._backend.buckets[self.bucket].keys.clear()
        self.traffic.reset()

    def stop(self) -> None:
        """End it."""
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
        """No line for each request."""


def put_log(
    server: BucketServer, fqn: str, run_id: str, bodies: Sequence[bytes], at_ms: Sequence[int], *, is_final: bool = False
) -> None:
    """A run of these segments, each with the time at which it was written; ``is_final``: finalized and retired."""
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
