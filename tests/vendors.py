"""Fake targets, written from the vendors' documentation and independent of our code: each validates requests by its own rules.

``handle`` is one request; ``Wire`` carries requests to it, and fails on demand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from typing import Any, Protocol

from botocore.exceptions import ClientError, ConnectionClosedError
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from chalicelib.errors import OutcomeUnknownError, TargetUnavailableError
from chalicelib.events.targets.transport import Answer
from chalicelib.ports import Clock

Reject = Callable[[Mapping[str, Any]], int]
"""The status for a document: 201 accepts it."""
DAY_MS = 86_400_000


class Vendor(Protocol):
    """A server."""

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer: ...


@dataclass
class Bulk:
    """Elasticsearch's bulk API, and as much of its search as the official clients need to read everything back, by ``@timestamp``,
    ``writer``, ``id`` and ``uid``. ``documents`` by id, in order of creation."""

    reject: Reject = lambda _: 201
    limit_bytes: int = 10 * 1024 * 1024
    documents: dict[str, Any] = field(default_factory=dict)
    requests: int = 0

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.requests += 1
        path = url.split("://", 1)[1].split("/", 1)[1].split("?")[0]
        if path.endswith("/_search"):
            return self._search(json.loads(body))
        if path != "_bulk" or headers.get("Content-Type") not in ("application/x-ndjson", "application/json"):
            return Answer(406, b'{"error":"Content-Type header is not supported"}')
        if len(body) > self.limit_bytes:
            return Answer(413)
        if not body.endswith(b"\n"):
            return Answer(400, b'{"error":{"type":"illegal_argument_exception","reason":"must be terminated by a newline"}}')
        lines = body.split(b"\n")[:-1]
        if len(lines) % 2:
            return Answer(400, b'{"error":"a source is missing"}')
        items = [self._create(json.loads(action), source) for action, source in zip(lines[::2], lines[1::2], strict=True)]
        errors = any(item["create"]["status"] >= 300 for item in items)
        return Answer(200, json.dumps({"errors": errors, **({"items": items} if errors else {})}).encode())

    def _search(self, query: Mapping[str, Any]) -> Answer:
        order = [(each["@timestamp"], each["writer"], each["id"], uid) for uid, each in self.documents.items()]
        after = query.get("search_after")
        page = [each for each in sorted(order) if after is None or list(each) > after][: query["size"]]
        hits = [{"_index": "logs", "_id": each[3], "_source": self.documents[each[3]], "sort": each} for each in page]
        about = {"took": 1, "timed_out": False, "hits": {"total": {"value": len(order), "relation": "eq"}, "hits": hits}}
        headers = {"X-Elastic-Product": "Elasticsearch", "Content-Type": "application/json"}
        return Answer(200, json.dumps(about).encode(), headers)

    def _create(self, action: Any, source: bytes) -> dict[str, Any]:
        ((verb, where),) = action.items()
        assert verb == "create" and where["_index"] and 0 < len(where["_id"].encode()) <= 512
        document = json.loads(source, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
        assert isinstance(document, dict) and document["@timestamp"]
        if where["_id"] in self.documents:
            return {"create": {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "exists"}}}
        status = self.reject(document)
        if status >= 300:
            kind = "es_rejected_execution_exception" if status == 429 else "document_parsing_exception"
            return {"create": {"status": status, "error": {"type": kind, "reason": "no"}}}
        self.documents[where["_id"]] = document
        return {"create": {"status": 201}}


@dataclass
class Shipper:
    """Fluentd's or Logstash's HTTP input: one invalid record fails its request."""

    reject: Reject = lambda _: 200
    limit_bytes: int = 32 * 1024 * 1024
    records: list[Any] = field(default_factory=list)
    requests: int = 0

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.requests += 1
        if len(body) > self.limit_bytes:
            return Answer(413, b"Payload Too Large")
        kind = headers.get("Content-Type")
        if kind == "application/json":
            found = json.loads(body)
            records = found if isinstance(found, list) else [found]
        elif kind == "application/x-ndjson":
            records = [json.loads(line) for line in body.split(b"\n") if line]
        else:
            return Answer(415)
        worst = max(map(self.reject, records))
        if worst >= 300:
            return Answer(worst, b"400 Bad Request\nrecord is invalid")
        self.records += records
        return Answer(200, b"ok")


@dataclass
class Otlp:
    """A receiver of OTLP in JSON, strict about protobuf's JSON mapping: ``opentelemetry-proto`` parses each request."""

    reject: Reject = lambda _: 200
    records: list[dict[str, Any]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.requests += 1
        assert url.endswith("/v1/logs") and headers["Content-Type"] == "application/json"
        rejected = 0
        request = json_format.Parse(body, ExportLogsServiceRequest())
        for resource, parsed in zip(json.loads(body)["resourceLogs"], request.resource_logs, strict=True):
            self.resources.append(attributes(resource["resource"]["attributes"]))
            records = [record for scope in resource["scopeLogs"] for record in scope["logRecords"]]
            decoded = [record for scope in parsed.scope_logs for record in scope.log_records]
            for record, protobuf in zip(records, decoded, strict=True):
                read = self._read(record)
                assert (protobuf.time_unix_nano, protobuf.body.string_value) == (read["ns"], read["message"])
                if self.reject(read) >= 300:
                    rejected += 1
                else:
                    self.records.append(read)
        return Answer(200, json.dumps(partial_success(rejected) if rejected else {}).encode())

    @staticmethod
    def _read(record: Mapping[str, Any]) -> dict[str, Any]:
        known = {"timeUnixNano", "severityNumber", "severityText", "body", "attributes"}
        assert set(record) <= known and isinstance(record["timeUnixNano"], str)
        return {
            "ns": int(record["timeUnixNano"]),
            "level": record.get("severityText"),
            "number": record.get("severityNumber"),
            "message": any_value(record["body"]),
            "attributes": attributes(record["attributes"]),
        }


def partial_success(rejected: int) -> dict[str, Any]:
    return {"partialSuccess": {"rejectedLogRecords": str(rejected), "errorMessage": "too strange"}}


def attributes(of: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [each["key"] for each in of]
    assert len(set(names)) == len(names), "keys are unique"
    return {each["key"]: any_value(each["value"]) for each in of}


def any_value(value: Mapping[str, Any]) -> Any:
    """An AnyValue as a Python value."""
    if not value:
        return None
    ((kind, given),) = value.items()
    if kind == "intValue":
        assert isinstance(given, str) and -(2**63) <= int(given) < 2**63
        return int(given)
    if kind == "kvlistValue":
        return attributes(given["values"])
    if kind == "arrayValue":
        return [any_value(each) for each in given["values"]]
    assert isinstance(given, {"stringValue": str, "boolValue": bool, "doubleValue": float | int}[kind])
    return given


class Wire:
    """A transport to a vendor. ``faults``: one for each request, None for success.

    A number: that status, nothing applied. "refused": no connection. "lost": applied, no response. "cut": not applied, no response.
    """

    def __init__(self, vendor: Vendor, faults: Sequence[int | str | None] = (), retry_after: str = "7") -> None:
        self._vendor, self._faults, self._retry_after = vendor, list(faults), retry_after
        self.closed = 0
        self.sent: list[bytes] = []

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.sent.append(body)
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, int):
            return Answer(fault, b"busy", {"retry-after": self._retry_after} if fault in (429, 503) else {})
        if fault == "refused":
            raise TargetUnavailableError("request was not sent")
        if fault == "cut":
            raise OutcomeUnknownError("response was lost")
        answer = self._vendor.handle(url, headers, body)
        if fault == "lost":
            raise OutcomeUnknownError("response was lost")
        return answer

    def close(self) -> None:
        self.closed += 1


def faults_of(seed: int, count: int, kinds: Sequence[int | str | None]) -> list[int | str | None]:
    """About half of the requests fail, never five in a row."""
    chance, drawn = Random(seed), list[int | str | None]()
    for _ in range(count):
        fault = chance.choice([*kinds, *[None] * len(kinds)])
        drawn.append(None if all(drawn[-4:]) and len(drawn) >= 4 else fault)
    return drawn


class LogsClient:
    """CloudWatch Logs by its reference: a boto3 client of ``logs`` for one account."""

    def __init__(self, clock: Clock, faults: Sequence[int | str | None] = (), event_bytes: int = 262_144) -> None:
        self._clock, self._faults, self._event_bytes = clock, list(faults), event_bytes
        self.groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.requests = 0
        self.calls: list[str] = []

    def put_log_events(self, logGroupName: str, logStreamName: str, logEvents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        self.calls.append("put_log_events")
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, int):
            self._fail("ThrottlingException" if fault == 429 else "ServiceUnavailableException", "PutLogEvents", fault)
        if fault in ("refused", "cut"):
            raise ConnectionClosedError(endpoint_url="https://logs")
        if logStreamName not in self.groups.get(logGroupName, {}):
            self._fail("ResourceNotFoundException", "PutLogEvents")
        answer = self._put(self.groups[logGroupName][logStreamName], logEvents)
        if fault == "lost":
            raise ConnectionClosedError(endpoint_url="https://logs")
        return answer

    def _put(self, stream: list[dict[str, Any]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        self.requests += 1
        sizes = [len(row["message"].encode()) + 26 for row in rows]
        times = [row["timestamp"] for row in rows]
        is_wrong = (
            not 1 <= len(rows) <= 10_000
            or sum(sizes) > 1_048_576
            or max(sizes) > self._event_bytes
            or min(sizes) <= 26
            or times != sorted(times)
            or times[-1] - times[0] > DAY_MS
        )
        if is_wrong:
            self._fail("InvalidParameterException", "PutLogEvents")
        now = self._clock.now_ms()
        old = sum(time < now - 14 * DAY_MS for time in times)
        new = next((row for row, time in enumerate(times) if time > now + 2 * 3_600_000), None)
        stream += [dict(row) for row in rows[old:new]]
        info = ({"tooOldLogEventEndIndex": old} if old else {}) | ({"tooNewLogEventStartIndex": new} if new is not None else {})
        return {"nextSequenceToken": "ignored"} | ({"rejectedLogEventsInfo": info} if info else {})

    def create_log_stream(self, logGroupName: str, logStreamName: str) -> dict[str, Any]:
        self.calls.append("create_log_stream")
        assert 0 < len(logStreamName) <= 512 and not set(logStreamName) & set(":*")
        if logGroupName not in self.groups:
            self._fail("ResourceNotFoundException", "CreateLogStream")
        if logStreamName in self.groups[logGroupName]:
            self._fail("ResourceAlreadyExistsException", "CreateLogStream")
        self.groups[logGroupName][logStreamName] = []
        return {}

    def create_log_group(self, logGroupName: str) -> dict[str, Any]:
        self.calls.append("create_log_group")
        if logGroupName in self.groups:
            self._fail("ResourceAlreadyExistsException", "CreateLogGroup")
        self.groups[logGroupName] = {}
        return {}

    def get_log_events(self, logGroupName: str, logStreamName: str, **_: Any) -> dict[str, Any]:
        found = sorted(self.groups[logGroupName][logStreamName], key=lambda row: row["timestamp"])
        return {"events": found, "nextForwardToken": "f"}

    def close(self) -> None:
        self.calls.append("close")

    @staticmethod
    def _fail(code: str, operation: str, status: int = 400) -> None:
        answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, operation)


class VendorServers:
    """Vendors on real sockets: the first element of the path names the vendor. The fault "close" cuts the connection."""

    def __init__(self, vendors: Mapping[str, Vendor], faults: Sequence[int | str | None] = ()) -> None:
        left = list(faults)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fault = left.pop(0) if left else None
                name, _, rest = self.path.removeprefix("/").partition("/")
                if fault == "close":
                    self.close_connection = True
                    self.connection.close()
                    return
                if isinstance(fault, int):
                    answer = Answer(fault, b"busy", {"Location": f"/{name}/{rest}", "Retry-After": "0"})
                else:
                    answer = vendors[name].handle(f"http://vendor/{rest}", dict(self.headers), body)
                if fault == "lost":
                    self.close_connection = True
                    self.connection.close()
                    return
                self._tell(answer)

            def do_GET(self) -> None:
                self._tell(vendors["api"].handle(self.path, dict(self.headers), b""))

            def _tell(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for header, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                    self.send_header(header, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> VendorServers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
