"""Fake targets, written from the vendors' documentation and independent of our code: each validates requests by its own rules.

``handle`` is one request; ``Wire`` carries requests to it, and fails on demand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

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
class Searchable(Bulk):
    """An index that is also searched, by the reference of the search, field capabilities, refresh and delete-by-query APIs.

    ``mapping``: ``dynamic`` (a text with a ``keyword`` of at most 256 characters), ``keyword``, or ``flattened`` data. Documents are visible
    from the next refresh on (``refresh``, or with each request if ``refreshes``). ``alter`` changes answers of searches.
    """

    mapping: str = "dynamic"
    refreshes: bool = True
    visible: dict[str, Any] = field(default_factory=dict)
    alter: Callable[[dict[str, Any]], None] = lambda _: None
    paths: list[str] = field(default_factory=list)

    def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        path = url.split("://", 1)[1].split("/", 1)[1].split("?")[0]
        self.paths.append(path)
        if path == "_bulk":
            return super().handle(url, headers, body)
        if not self.documents:
            return Answer(404, b'{"error": {"type": "index_not_found_exception"}, "status": 404}')
        operation = path.split("/")[1]
        if self.refreshes or operation == "_refresh":
            self.refresh()
        asked = json.loads(body) if body else {}
        answers = {"_field_caps": self._field_caps, "_search": self._search, "_delete_by_query": self._delete}
        answer = answers[operation](asked, parse_qs(urlsplit(url).query)) if operation != "_refresh" else {}
        return Answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json", "X-Elastic-Product": "Elasticsearch"})

    def refresh(self) -> None:
        self.visible = dict(self.documents)

    def _field_caps(self, _: Any, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        types: dict[str, str] = {}
        for document in self.visible.values():
            for name in ("writer", *(f"data.{name}" for name in document["data"] if self.mapping != "flattened")):
                if self.mapping == "keyword":
                    types[name] = "keyword"
                else:
                    types |= {name: "text", f"{name}.keyword": "keyword"}
            types["data"] = "flattened" if self.mapping == "flattened" else "object"
        asked = query["fields"][0].split(",")
        return {"fields": {name: {kind: {"type": kind}} for name, kind in types.items() if name in asked}}

    def _search(self, asked: Any, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        assert query["allow_partial_search_results"] == ["false"] and 1 <= asked["size"] <= 10_000
        names = [name for each in asked["sort"] for name in each]
        rows = sorted(
            ([self._value(document, name) for name in names], id_)
            for id_, document in self.visible.items()
            if self._is_match(document, asked["query"])
        )
        orders = {how["order"] for each in asked["sort"] for how in each.values() if isinstance(how, dict)} or {"asc"}
        if orders == {"desc"}:
            rows = [row for row in reversed(rows) if "search_after" not in asked or row[0] < asked["search_after"]]
        else:
            rows = [row for row in rows if row[0] > asked.get("search_after", [])]
        excluded = asked.get("_source", {}).get("excludes", ())
        hits = [
            {
                "_id": id_,
                "sort": sort,
                "_source": {name: value for name, value in self.visible[id_].items() if name not in excluded},
            }
            for sort, id_ in rows[: asked["size"]]
        ]
        answer: dict[str, Any] = {"timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}
        self.alter(answer)
        return answer

    def _delete(self, asked: Any, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        matching = [id_ for id_, document in self.visible.items() if self._is_match(document, asked["query"])]
        matching = matching[: int(query["max_docs"][0])]
        for id_ in matching:
            del self.documents[id_]
        self.refresh()
        return {"total": len(matching), "deleted": len(matching), "failures": [], "version_conflicts": 0, "timed_out": False}

    def _is_match(self, document: Any, query: Any) -> bool:
        ((kind, what),) = query.items()
        if kind == "bool":
            assert set(what) <= {"filter", "must_not"}
            is_all = all(self._is_match(document, each) for each in what["filter"])
            return is_all and not any(self._is_match(document, each) for each in what.get("must_not", ()))
        if kind == "match_none":
            return False
        if kind == "exists":
            return self._value(document, what["field"]) is not None
        ((name, what),) = what.items()
        value = self._value(document, name)
        if kind == "term":
            return bool(value == what["value"])
        assert kind == "range" and what["format"] == "epoch_millis"
        return bool(what.get("gte", value) <= value and value < what.get("lt", value + 1))

    def _value(self, document: Any, name: str) -> Any:
        """What a field is compared and sorted by."""
        is_dynamic = self.mapping == "dynamic" or (self.mapping == "flattened" and not name.startswith("data"))
        assert name.endswith(".keyword") == (
            is_dynamic and name.startswith(("data.", "writer")) and not name.startswith("writerEnd")
        )
        for part in name.removesuffix(".keyword").split("."):
            document = (document or {}).get(part)
        if name == "@timestamp":
            return (datetime.fromisoformat(document) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        return None if isinstance(document, str) and is_dynamic and len(document) > 256 else document


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
        self.page_rows = 10_000

    def fail_next(self, faults: Sequence[int | str | None]) -> None:
        """``faults`` of the next requests."""
        self._faults = list(faults)

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

    def get_log_events(
        self,
        logGroupName: str,
        logStreamName: str,
        startFromHead: bool,
        startTime: int = 0,
        endTime: int = 1 << 60,
        limit: int = 10_000,
        nextToken: str = "f/-1",
    ) -> dict[str, Any]:
        """Pages of ``page_rows`` at most, the first of them empty; the last one repeats the token."""
        self._read("GetLogEvents", logGroupName, logStreamName)
        assert 1 <= limit <= 10_000
        rows = sorted(self.groups[logGroupName][logStreamName], key=lambda row: row["timestamp"])
        rows = [row for row in rows if startTime <= row["timestamp"] < endTime]
        at = int(nextToken[2:])
        if not startFromHead:
            end = len(rows) if at < 0 else at
            start = max(end - min(limit, self.page_rows), 0) if at >= 0 else end
            return {"events": rows[start:end], "nextBackwardToken": f"b/{start}"}
        end = min(max(at, 0) + min(limit, self.page_rows), len(rows)) if at >= 0 else 0
        return {"events": rows[max(at, 0) : end], "nextForwardToken": f"f/{end}"}

    def filter_log_events(
        self,
        logGroupName: str,
        logStreamNames: Sequence[str],
        filterPattern: str,
        startTime: int,
        endTime: int = 1 << 60,
        nextToken: str = "0",
    ) -> dict[str, Any]:
        """Only the patterns of the records of closed writers and of a step. ``page_rows`` of the stream at most, matching or not."""
        (stream,) = logStreamNames
        self._read("FilterLogEvents", logGroupName, stream)
        step = re.fullmatch(r'\{ \$\.data\.stepId = "([^"*\\]+)" \}', filterPattern)
        assert step or filterPattern == "{ $.writerEnd.count >= 0 }"
        word = f'"stepId":"{step[1]}"' if step else '"writerEnd":{"count":'
        rows = sorted(self.groups[logGroupName][stream], key=lambda row: row["timestamp"])
        rows = [row for row in rows if startTime <= row["timestamp"] <= endTime]
        at, end = int(nextToken), min(int(nextToken) + self.page_rows, len(rows))
        matching = [row for row in rows[at:end] if word in row["message"]]
        return {"events": matching} | ({"nextToken": str(end)} if end < len(rows) else {})

    def delete_log_stream(self, logGroupName: str, logStreamName: str) -> dict[str, Any]:
        self._read("DeleteLogStream", logGroupName, logStreamName)
        del self.groups[logGroupName][logStreamName]
        return {}

    def _read(self, operation: str, group: str, stream: str) -> None:
        self.calls.append(operation)
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, int):
            self._fail("ThrottlingException" if fault == 429 else "ServiceUnavailableException", operation, fault)
        if fault is not None:
            raise ConnectionClosedError(endpoint_url="https://logs")
        if stream not in self.groups.get(group, {}):
            self._fail("ResourceNotFoundException", operation)

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
