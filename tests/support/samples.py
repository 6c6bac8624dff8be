"""One valid request per operation of the OpenAPI document: for the tests of secrets, names, limits, largest requests and costly bodies.

A new route takes one row here. What a test changes in a request, it derives from the row with ``dataclasses.replace``.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import msgpack
from google.protobuf.json_format import ParseDict

from chalicelib.composition import SWEEP
from chalicelib.coordination import Partition, Status, WorkSource
from chalicelib.coordination.partition import format_timestamp, to_row
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.pipelines.records import record_of_event
from chalicelib.ports import Run
from chalicelib.routes import viewer
from chalicelib.routes.budgets import Budget
from chalicelib.routes.openapi import document as openapi_document
from chalicelib.routes.operations import OPERATIONS
from tests.files_harness import record_of
from tests.functional.archive import Site
from tests.functional.gateway import LOGS, Answer, call
from tests.support.publisher import InMemoryPublisher
from tests.world import START_MS, World

OperationKey = tuple[str, str]
"""Method and path as in the OpenAPI document."""
Document = Any
DECLARED = {(each.method, each.path): each for each in OPERATIONS}
"""The rows of the operations."""
JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"
MSGPACK, PROTOBUF = "application/msgpack", "application/x-protobuf"
RUN = Run("svc.a", "r1")
FQN, RUN_ID = RUN.fqn, RUN.run_id
FILE_ID = "1".zfill(32)
NAMES = {
    "fqn": FQN, "runId": RUN_ID, "writer": "w", "step": "s", "start": "s", "index": "logs", "id": FILE_ID, "what": "upload", "where": "web-1",
    "source": SWEEP, "name": "runlake", "file": next(name for name in viewer.files() if name != viewer.PAGE),
}  # fmt: skip
"""Values of the names in paths."""
NAMED = {"X-Runlake-Fqn": FQN, "X-Runlake-Run-Id": RUN_ID}
"""Headers that name the run of records without one."""


def operations() -> Mapping[OperationKey, Any]:
    """The operations of the OpenAPI document."""
    return {
        (method.upper(), path): each
        for path, item in openapi_document("http://x")["paths"].items()
        for method, each in item.items()
        if method != "parameters"
    }


@cache
def _content_types() -> Mapping[OperationKey, Sequence[str]]:
    return {name: list(each.get("requestBody", {}).get("content", ())) for name, each in operations().items()}


# Bodies


def as_json(document: Document) -> bytes:
    """One JSON value, without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


def as_lines(document: Document) -> bytes:
    """Text, or a line of JSON per record."""
    return as_text(document) if isinstance(document, str) else b"".join(as_json(each) + b"\n" for each in document)


def as_text(document: Document) -> bytes:
    """Text."""
    return str(document).encode()


def as_gzip(document: Document) -> bytes:
    """Text in gzip."""
    return gzip.compress(as_text(document))


def as_msgpack(document: Document) -> bytes:
    """An entry of Fluentd per record."""
    return b"".join(msgpack.packb([1, each]) for each in document)


def as_protobuf(document: Document) -> bytes:
    """A request of OTLP."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    packed: bytes = ParseDict(document, ExportLogsServiceRequest(), ignore_unknown_fields=True).SerializeToString()
    return packed


def as_firehose(document: Document) -> bytes:
    """A delivery whose records are in base64."""
    return as_json({**document, "records": [{"data": base64.b64encode(as_json(each)).decode()} for each in document["records"]]})


ENCODERS = {
    JSON: as_json, LINES: as_lines, TEXT: as_text, MSGPACK: as_msgpack, PROTOBUF: as_protobuf, "application/octet-stream": as_text,
    "application/gzip": as_gzip, "application/x-gzip": as_gzip,
}  # fmt: skip


# Preparations


def nothing(_: World) -> None:
    """Most operations need at most the run."""


def archived_file(world: World) -> None:
    """A file of the archive."""
    Site(world, InMemoryPublisher()).file(b"of a file\n", id=FILE_ID, what="upload", where="web-1", work_id="w")


def failed_partition(world: World) -> None:
    """A partition that waits after a failure."""
    state = json.dumps({"error": "OSError: x", "failed_ms": START_MS})
    _put_partition(world, Status.CLOSED, reopen_ms=START_MS + 60_000, state=state, closed_count=1)


def assigned_partition(world: World) -> None:
    """A partition that a worker holds."""
    _put_partition(world, Status.ASSIGNED, owner="host:1:x", timeout_ms=START_MS + 600_000)


def _put_partition(world: World, status: Status, **attributes: Any) -> None:
    partition = Partition(WorkSource(SWEEP).partitions, f"{FQN}/{RUN_ID}", status, format_timestamp(START_MS), **attributes)
    world.work_sources(SWEEP)[0].put_row(to_row(partition))


def pipeline_file(world: World) -> None:
    """A file of a processing pipeline, with an event of the run."""
    put_output_set(world.database, OutputSet("b", "", 0, 0, 0))
    handler = RollingS3Handler(base="b", format="jsonl", workers=1)
    handler.use(HandlerContext(world.store, world.database, world.clock, "runlake", lambda: None))
    generation = Generations(world.database, world.clock).of_run("svc", FQN, RUN_ID, START_MS)
    assert generation
    handler.handle(record_of(0, "of a pipeline's file", START_MS, FQN, "main", generation, run_id=RUN_ID))
    world.database.transact(handler.pending_writes())
    handler.committed()


def dead_letter(world: World, run: Run = RUN, line: int = 0, handler: str = "files", **event: Any) -> None:
    """A dead letter of the built-in pipeline."""
    event = {"fqn": run.fqn, "run_id": run.run_id, "line": line, "time_ms": START_MS, "logger": "app", "level": "INFO"} | event
    record = record_of_event({"message": "m"} | event, "")
    DeadLetters(world.store, "runlake", world.clock).put(handler, record, OSError("no space left"), 4)


# Requests


@dataclass(frozen=True)
class Sample:
    """A request that succeeds with ``status`` once ``needs`` has prepared the world, in which the run has a catalogued line. ``document``: the
    body before it is encoded, by default as its content type says. ``wrap``: the document of other records (``message``, ``data`` and the
    names of their run in ``runlake``)."""

    method: str
    path: str
    document: Document = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    encoder: Callable[[Document], bytes] | None = None
    status: int = 200
    needs: Callable[[World], None] = nothing
    wrap: Callable[[Iterable[Document]], Document] | None = None
    names: Mapping[str, str] = field(default_factory=lambda: NAMES)

    @property
    def operation(self) -> OperationKey:
        """Method and path as in the OpenAPI document."""
        return self.method, self.path

    @property
    def budget(self) -> Budget:
        """The limits of the operation."""
        return DECLARED[self.operation].budget

    @property
    def url(self) -> str:
        """Path and query."""
        return self.path_with() + (f"?{urlencode(self.query)}" if self.query else "")

    def path_with(self, **names: str) -> str:
        """The path, with other values of names as in a URL."""
        return self.path.format(**{**self.names, **names})

    @property
    def body(self) -> bytes | None:
        """The body."""
        return None if self.document is None else self.encoded(self.document)

    def encoded(self, document: Document) -> bytes:
        """The body with another document."""
        return (self.encoder or ENCODERS[self.content_type])(document)

    def with_records(self, records: Iterable[Document]) -> bytes:
        """The body with other records."""
        assert self.wrap
        return self.encoded(self.wrap(records))

    def all_headers(self, **more: str) -> dict[str, str]:
        """Headers with the content type, and more ones: ``Content_Encoding`` is Content-Encoding."""
        return {"Content-Type": self.content_type, **self.headers} | {name.replace("_", "-"): each for name, each in more.items()}

    def send(self, body: bytes | None = None, **headers: str) -> Answer:
        """Send the request, with another body if any."""
        return call(self.method, self.url, self.body if body is None else body, self.all_headers(**headers))

    def in_each_format(self) -> Iterator[Sample]:
        """The request in each content type of the OpenAPI document. Records without names get headers."""
        for content_type in _content_types()[self.operation] if self.document is not None else ():
            is_text = self.encoder is None and content_type not in (JSON, MSGPACK, PROTOBUF, *((LINES,) if self.wrap else ()))
            if is_text == isinstance(self.document, str):
                yield replace(self, content_type=content_type)
            elif is_text and self.wrap:
                named = {**NAMED, **self.headers}
                yield replace(self, document=as_messages(self.document), headers=named, content_type=content_type, wrap=as_messages)
            elif is_text:
                yield replace(self, document=self.document["logs"], content_type=content_type)
            else:
                yield replace(self, document=[RECORD], content_type=content_type, wrap=list)


def as_messages(records: Iterable[Document]) -> str:
    """Text with the message of each record as a line."""
    return "".join(f"{each['message']}\n" for each in records)


# No text of these documents is secret: masking it could hide a field whose secrets are missed.
EVENT = {
    "message": "one\ntwo", "step": "s", "level": "INFO", "id": 0, "data": {"k": "v", "instanceId": "i", "list": ["x", {"n": "y"}], "more": ["z"]},
    "annotations": [{"position": 1, "note": {"href": ["x"]}}],
}  # fmt: skip
RECORD = {
    "message": "one", "level": "info", "host": "h", "instanceId": "i", "nested": {"a": ["b"]}, "date": "2026-09-21T14:13:21Z",
    "runlake": {"fqn": FQN, "run_id": RUN_ID, "step": "s", "writer": "w"},
}  # fmt: skip
UPLOAD = {
    "start": START_MS, "end": START_MS + 5, "path": "/a.log", "where": "web-1", "what": "upload", "work_id": "w", "hash": "a" * 32, "size": 3,
}  # fmt: skip


def _attribute(name: str, value: str) -> Document:
    return {"key": name, "value": {"stringValue": value}}


OTLP = {
    "resourceLogs": [{
        "resource": {"attributes": [_attribute("runlake.fqn", FQN), _attribute("runlake.run_id", RUN_ID)]},
        "scopeLogs": [{
            "scope": {"name": "scope", "version": "1", "attributes": [_attribute("a", "b")]},
            "logRecords": [{
                "body": {"stringValue": "one"}, "severityText": "INFO", "eventName": "e", "timeUnixNano": "1790000000000000001",
                "attributes": [_attribute("a", "b"), {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "c"}]}}}],
            }],
        }],
    }],
}  # fmt: skip


def _events(records: Iterable[Document]) -> Document:
    return [{**each, "data": {"a": each["data"]}} if "data" in each else each for each in records]


def _delivery(records: Iterable[Document]) -> Document:
    return {"requestId": "one", "timestamp": 0, "records": list(records)}


def _resources(records: Iterable[Document]) -> Document:
    """Records of one run after another share a resource."""
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": [_attribute(f"runlake.{name}", each) for name, each in names]},
                "scopeLogs": [{"logRecords": [_otlp_record(each) for each in group]}],
            }
            for names, group in groupby(records, lambda each: tuple(each.get("runlake", {}).items()))
        ]
    }


def _otlp_record(record: Document) -> Document:
    data = {"attributes": [{"key": "data", "value": _otlp_value(record["data"])}]} if "data" in record else {}
    return {"body": {"stringValue": record["message"]}, **data}


def _otlp_value(value: Document) -> Document:
    return {"arrayValue": {"values": [_otlp_value(each) for each in value]}} if isinstance(value, list) else {"stringValue": value}


def _actions(action: Document) -> Callable[[Iterable[Document]], Document]:
    return lambda records: [each for record in records for each in (action, record)]


_EVENTS, _CATALOG, _FILES, _LATEST = "/v1/events/{fqn}/{runId}", "/v1/catalog/pipelines", "/v0/archive/files", "/v0/archive/latest"
_AGENTS, _ELASTIC, _WORK = "/v1/agents", "/v1/agents/elasticsearch", "/v1/coordination/{source}"
_PIPELINE_FILES, _PIPELINE = "/v1/pipeline-files", "/v1/pipelines/{name}"
_LETTERS, _LETTER = "/v1/dead-letters", {"fqn": FQN, "runId": RUN_ID, "handler": "files", "line": "0"}
_CREATE = {"create": {"_index": f"runlake-{FQN}-{RUN_ID}", "_id": "one"}}
_FIREHOSE = {"X-Amz-Firehose-Request-Id": "one", "X-Amz-Firehose-Common-Attributes": '{"commonAttributes":{}}'}
_SYSLOG = '<13>1 2026-09-21T14:13:21Z host app 1 id [a@1 b="c"] one\n'
ROWS = (
    Sample("POST", f"{LOGS}/{{fqn}}/{{runId}}", {"logs": "one\ntwo\n", "connectorId": "c"}),
    Sample("POST", f"{LOGS}/{{fqn}}/{{runId}}/close", {"outcome": "failed", "exception": "x", "step": "s"}),
    Sample("GET", f"{LOGS}/{{fqn}}/{{runId}}", query={"after": "0", "limit": "5", "tail": "", "since": ""}),
    Sample("GET", f"{LOGS}/{{fqn}}/{{runId}}/download", query={"link": "true"}),
    Sample("GET", f"{LOGS}/{{fqn}}", query={"limit": "5", "cursor": ""}),
    Sample("GET", f"{LOGS}/{{fqn}}/stream/{{runId}}", query={"wait": "0"}),
    Sample("GET", f"{LOGS}/{{fqn}}/last"),
    Sample("GET", f"{LOGS}/{{fqn}}/last/download"),
    Sample("POST", _EVENTS, [EVENT, {"message": "three", "id": 1}], {"writer": "w"}, wrap=_events),
    Sample("GET", _EVENTS, query={"step": "s", "level": "INFO", "text": "one", "after": "0", "from": "0"}),
    Sample("GET", f"{_EVENTS}/log", query={"step": "s", "start": "0"}),
    Sample("GET", f"{_EVENTS}/steps"),
    Sample("POST", f"{_EVENTS}/steps/{{step}}", {"name": "n", "parent": "p", "startedMs": 1, "status": "running"}),
    Sample("GET", f"{_EVENTS}/completeness", query={"wait": "0"}),
    Sample("PUT", f"{_EVENTS}/starts/{{start}}", {"host": "h", "command": "c", "ageMs": 1, "heartbeatS": 60, "method": "runlog"}),
    Sample("PUT", f"{_EVENTS}/heartbeat"),
    Sample("PUT", f"{_EVENTS}/writers/{{writer}}", {}),
    Sample("POST", f"{_EVENTS}/writers/{{writer}}/close", {"count": 1, "lastTimestamp": 5}),
    Sample("POST", f"{_AGENTS}/fluent", [RECORD, RECORD], wrap=list),
    Sample("POST", f"{_AGENTS}/logstash", [RECORD], wrap=list),
    Sample("POST", f"{_AGENTS}/syslog", _SYSLOG, headers=NAMED, content_type=TEXT, wrap=as_messages),
    Sample("POST", f"{_AGENTS}/firehose", _delivery([RECORD]), headers=_FIREHOSE, encoder=as_firehose, wrap=_delivery),
    Sample("POST", f"{_AGENTS}/otlp/v1/logs", OTLP, wrap=_resources),
    Sample("GET", _ELASTIC),
    Sample("HEAD", _ELASTIC),
    Sample("GET", f"{_ELASTIC}/_license"),
    Sample("GET", f"{_ELASTIC}/_cluster/health"),
    *(
        Sample(method, path, [action, RECORD], content_type=LINES, encoder=as_lines, wrap=_actions({"create": {}}))
        for method in ("POST", "PUT")
        for path, action in ((f"{_ELASTIC}/_bulk", _CREATE), (f"{_ELASTIC}/{{index}}/_bulk", {"index": {}}))
    ),
    Sample("GET", "/v1/catalog", query={"outcome": "failed", "fqn": "s*", "contains": "s", "since": "0", "cursor": "", "limit": "5"}),
    Sample("GET", "/v1/catalog/history", query={"fqn": "svc.a"}),
    Sample("GET", _CATALOG, query={"prefix": "s", "contains": "s", "cursor": "", "limit": "5"}),
    Sample("GET", f"{_CATALOG}/{{fqn}}/runs", query={"cursor": "", "limit": "5"}),
    Sample("GET", f"{_CATALOG}/{{fqn}}/runs/{{runId}}", query={"lost": "true"}),
    Sample("GET", f"{_CATALOG}/{{fqn}}/runs/{{runId}}/explanation"),
    Sample("GET", f"{_CATALOG}/{{fqn}}/runs/{{runId}}/grep", query={"q": "zero", "regex": "true", "limit": "5"}),
    Sample("GET", f"{_CATALOG}/{{fqn}}/runs/{{runId}}/histogram", query={"buckets": "5"}),
    Sample("DELETE", f"{_CATALOG}/{{fqn}}/runs/{{runId}}", query={"reason": "a password"}),
    Sample("DELETE", f"{_CATALOG}/{{fqn}}", query={"reason": "a password"}),
    Sample("GET", "/v1/configuration"),
    Sample("GET", "/v0/archive/"),
    Sample("GET", "/v0/environment/"),
    Sample(
        "GET", f"{_FILES}/", needs=archived_file,
        query={"what": "upload", "where": "web-1", "work_id": "w", "start": "2020-01-01", "end": "now", "combine": "true", "cursor": ""},
    ),
    Sample("POST", _FILES, UPLOAD, status=201),
    Sample("DELETE", f"{_FILES}/{{id}}", needs=archived_file, status=204),
    Sample("GET", f"{_FILES}/{{id}}/metadata", needs=archived_file),
    Sample("PATCH", f"{_FILES}/{{id}}/metadata", {"what": "other", "where": "web-2"}, needs=archived_file),
    Sample("GET", f"{_FILES}/{{id}}/data", needs=archived_file),
    Sample("GET", f"{_LATEST}/{{what}}/{{where}}", query={"lookback": "3"}, needs=archived_file),
    Sample("GET", f"{_LATEST}/{{what}}/{{where}}/data", needs=archived_file),
    Sample("GET", _WORK, query={"status": "CLOSED", "limit": "5", "cursor": ""}, needs=failed_partition),
    Sample("POST", f"{_WORK}/{{fqn}}/{{runId}}/retry", {"state": "x"}, needs=failed_partition),
    Sample("POST", f"{_WORK}/{{fqn}}/{{runId}}/release", {"state": "x"}, needs=assigned_partition),
    Sample(
        "GET", _PIPELINE_FILES, query={"namespace": "svc", "app": "a", "program": "main", "base": "b", "cursor": ""}, needs=pipeline_file
    ),
    Sample("GET", f"{_PIPELINE_FILES}/files", query={"namespace": "svc", "app": "a", "base": "b", "cursor": ""}, needs=pipeline_file),
    Sample("GET", f"{_PIPELINE_FILES}/bases", query={"limit": "5", "cursor": ""}, needs=pipeline_file),
    Sample("DELETE", _PIPELINE_FILES, query={"namespace": "svc"}, needs=pipeline_file, status=202),
    Sample("GET", f"{_PIPELINE_FILES}/repair", query={"base": "b"}, needs=pipeline_file),
    Sample("POST", f"{_PIPELINE_FILES}/repair", {"k": "v"}, {"base": "b"}, needs=pipeline_file),
    Sample("GET", "/v1/pipelines", query={"name": "x"}),
    Sample("POST", f"{_PIPELINE}/enable", {"handler": "files"}),
    Sample("POST", f"{_PIPELINE}/disable", {"handler": "files"}),
    Sample("POST", f"{_PIPELINE}/replay", {"from": "2026-09-21"}),
    Sample("GET", _LETTERS, query={"fqn": FQN, "runId": RUN_ID, "limit": "5", "cursor": ""}, needs=dead_letter),
    Sample("GET", f"{_LETTERS}/{{name}}", query=_LETTER, needs=dead_letter),
    Sample("DELETE", f"{_LETTERS}/{{name}}", query=_LETTER, needs=dead_letter, status=204),
    Sample("POST", f"{_LETTERS}/{{name}}/resend", query=_LETTER, needs=dead_letter, status=202),
    Sample("GET", "/v1/ui/"),
    Sample("GET", "/v1/ui/config"),
    Sample("GET", "/v1/ui/{file}"),
    Sample("GET", "/", status=302),
    Sample("GET", "/v1/health"),
    Sample("GET", "/health/"),
    Sample("GET", "/spec/"),
    Sample("GET", "/v1/openapi.json"),
    Sample("GET", "/docs/", status=302),
    Sample("GET", "/docs/static/index.html"),
)  # fmt: skip
SAMPLES: Mapping[OperationKey, Sample] = {each.operation: each for each in ROWS}
