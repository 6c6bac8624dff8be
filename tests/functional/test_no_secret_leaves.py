"""A configured secret in any part of any operation's input occurs afterwards in no object, key, metadata, row, report, metric, log line or
response.

``OPERATIONS`` has an entry for every operation of the route table, and a test fails if one is missing.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgpack
import pytest
from google.protobuf.json_format import ParseDict, ParseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from chalicelib import composition, observability
from chalicelib.composition import SWEEP
from chalicelib.coordination import Partition, Status, WorkSource
from chalicelib.coordination.partition import format_timestamp, to_row
from chalicelib.deadline import Deadline
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import Run
from chalicelib.routes import event_paths, gate, operations, paths, secrets, viewer
from chalicelib.routes.responses import MOVED_TO_SLASH
from chalicelib.runlog.log_end import list_all
from tests.files_harness import record_of
from tests.functional.archive import Site
from tests.functional.gateway import LOGS, Answer, call, installed, post
from tests.ingestion_harness import ARCHIVE, BUCKET, s3_record
from tests.sampling import examples
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

SECRET, QUOTED = "hunter2-prod-secret", 'it\'s a "hush"\\-secret'
"""The second is escaped differently in JSON, Python strings and addresses."""
RULES = SecretStr(json.dumps([{"fqn": "*", "values": [SECRET, QUOTED]}]))
FQN, RUN_ID = "svc.a", "r1"
RUN = Run(FQN, RUN_ID)
Document = Any
Place = tuple[str, Any]
"""Which input: ``path``, ``query`` or ``header`` with a number or a name, ``key`` or ``value`` with the steps to it in the body."""


def as_json(document: Document) -> bytes:
    return json.dumps(document).encode()


def as_escaped_json(document: Document) -> bytes:
    """Every character of a text is escaped, so only a parser finds the text."""
    return _escaped(document).encode()


def _escaped(value: Document) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(_escaped, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_escaped(name)}:{_escaped(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def as_utf_16(document: Document) -> bytes:
    """``json.loads`` reads these bytes; a check that decodes them as UTF-8 finds nothing."""
    return json.dumps(document).encode("utf-16-le")


def as_utf_32(document: Document) -> bytes:
    return json.dumps(document).encode("utf-32-le")


def as_marked_json(document: Document) -> bytes:
    """A byte order mark, and every character of a text escaped."""
    return b"\xef\xbb\xbf" + as_escaped_json(document)


def as_lines(document: Document) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in document).encode()


def as_text(document: Document) -> bytes:
    return str(document).encode()


def as_gzip(document: Document) -> bytes:
    return gzip.compress(str(document).encode())


def as_msgpack(document: Document) -> bytes:
    return b"".join(msgpack.packb([1, each]) for each in document)


def as_protobuf(document: Document) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    packed: bytes = ParseDict(document, ExportLogsServiceRequest(), ignore_unknown_fields=True).SerializeToString()
    return packed


def as_firehose(document: Document) -> bytes:
    packed = [{"data": base64.b64encode(json.dumps(each).encode()).decode()} for each in document["records"]]
    return json.dumps({**document, "records": packed}).encode()


@dataclass(frozen=True)
class Operation:
    """A valid request: unmodified, its status is below 300, or ``redirect``. ``covers``: the view, and the action if one view
    has several. ``path``: its parts. ``before`` creates the objects that it needs, besides a run."""

    covers: str
    method: str
    path: Sequence[str]
    body: Document = None
    encode: Callable[[Document], bytes] = as_json
    content_type: str = "application/json"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[World], None] = lambda world: None
    redirect: int = 0

    @property
    def places(self) -> list[Place]:
        headers = {
            "Idempotency-Key",
            "Content-Type",
            "Content-Encoding",
            "Last-Event-Id",
            "X-Other",
            "User-Agent",
            "Host",
            *self.headers,
        }
        found: list[Place] = [("path", number) for number in range(len(self.path))]
        found += [("query", name) for name in (*self.query, "other")] + [("query name", "")]
        found += [("header", name) for name in sorted(headers)]
        return found + (list(_places(self.body, ())) if self.body is not None else [])

    def send(self, place: Place, text: Callable[[str], str]) -> Answer:
        """Sends the request with a secret: ``text`` adds it to the text at ``place``."""
        kind, where = place
        parts = [text(part) if (kind, where) == ("path", at) else part for at, part in enumerate(self.path)]
        query = {**self.query, **({where: text(self.query.get(where, ""))} if kind == "query" else {})}
        query |= {text(""): "1"} if kind == "query name" else {}
        headers = {"Content-Type": self.content_type, **self.headers}
        headers |= {where: text(headers.get(where, ""))} if kind == "header" else {}
        body = _with(self.body, where, kind, text) if kind in ("key", "value") else self.body
        url = "/" + "/".join(part if part.startswith("v") and at == 0 else quote(part, safe="") for at, part in enumerate(parts))
        url += f"?{urlencode(query)}" if query else ""
        return call(self.method, url, None if body is None else self.encode(body), headers)


def _places(value: Document, at: tuple[Any, ...]) -> Iterator[Place]:
    if isinstance(value, str):
        yield "value", at
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _places(each, (*at, number))
    elif isinstance(value, dict):
        yield "key", at
        for name, each in value.items():
            yield from _places(each, (*at, name))


def _with(value: Document, at: tuple[Any, ...], kind: str, text: Callable[[str], str]) -> Document:
    if at:
        changed = list(value) if isinstance(value, list) else dict(value)
        changed[at[0]] = _with(value[at[0]], at[1:], kind, text)
        return changed
    return text(value) if kind == "value" else {**value, text(""): "x"}


def file_in_archive(world: World) -> None:
    Site(world, InMemoryPublisher()).file(b"of a file\n", id=FILE_ID, what="upload", where="web-1", work_id="w")


def failed_partition(world: World) -> None:
    state = json.dumps({"error": "OSError: x", "failed_ms": START_MS})
    _put(world, Status.CLOSED, reopen_ms=START_MS + 60_000, state=state, closed_count=1)


def assigned_partition(world: World) -> None:
    _put(world, Status.ASSIGNED, owner="host:1:x", timeout_ms=START_MS + 600_000)


def _put(world: World, status: Status, **attributes: Any) -> None:
    partition = Partition(WorkSource(SWEEP).partitions, f"{FQN}/{RUN_ID}", status, format_timestamp(START_MS), **attributes)
    world.work_sources(SWEEP)[0].put_row(to_row(partition))


def file_of_a_pipeline(world: World) -> None:
    put_output_set(world.database, OutputSet("b", "", 0, 0, 0))
    handler = RollingS3Handler(base="b", format="jsonl", workers=1)
    handler.use(HandlerContext(world.store, world.database, world.clock, "runlake", lambda: None))
    generation = Generations(world.database, world.clock).of_run("svc", FQN, RUN_ID, START_MS)
    assert generation
    handler.handle(record_of(0, "of a pipeline's file", START_MS, FQN, "main", generation, run_id=RUN_ID))
    world.database.transact(handler.pending_writes())
    handler.committed()


FILE_ID = "1".zfill(32)
LOG, EVENTS, CATALOG = LOGS.strip("/").split("/"), ["v1", "events", FQN, RUN_ID], ["v1", "catalog", "pipelines"]
FILES = ["v0", "archive", "files"]
FILES_WANTED = {"what": "upload", "where": "web-1", "work_id": "w", "start": "2020-01-01", "end": "now", "cursor": ""}
UPLOAD = {
    "start": START_MS,
    "end": START_MS + 5,
    "path": "/a.log",
    "where": "web-1",
    "what": "upload",
    "work_id": "w",
    "hash": "a" * 32,
    "size": 3,
}
# Only the secret is masked in these: a document with another secret would hide a field that the first scan misses.
EVENT = {
    "message": "one\ntwo", "step": "s", "level": "INFO", "id": 0, "data": {"k": "v", "instanceId": "i", "list": ["x", {"n": "y"}], "more": ["z"]},
    "annotations": [{"position": 1, "note": {"href": ["x"]}}],
}  # fmt: skip
RECORD = {
    "message": "one", "level": "info", "host": "h", "instanceId": "i", "nested": {"a": ["b"]}, "date": "2026-09-21T14:13:21Z",
    "runlake": {"fqn": FQN, "run_id": RUN_ID, "step": "s", "writer": "w"},
}  # fmt: skip
NAMED = {"X-Runlake-Fqn": FQN, "X-Runlake-Run-Id": RUN_ID}


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
BULK = [{"create": {"_index": f"runlake-{FQN}-{RUN_ID}", "_id": "one"}}, RECORD]

OPERATIONS = (
    Operation("logs.logs append", "POST", [*LOG, FQN, RUN_ID], {"logs": "one\ntwo\n", "connectorId": "c"}),
    Operation("logs.logs append", "POST", [*LOG, FQN, RUN_ID], {"logs": "one\ntwo\n", "connectorId": "c"}, as_escaped_json),
    Operation("logs.logs append", "POST", [*LOG, FQN, RUN_ID], "one\ntwo\n", as_text, "text/plain"),
    Operation("logs.logs append", "POST", [*LOG, FQN, RUN_ID], "one\ntwo\n", as_gzip, "application/gzip"),
    Operation("logs.logs close", "POST", [*LOG, FQN, RUN_ID, "close"]),
    Operation("logs.logs close", "POST", [*LOG, FQN, RUN_ID, "close"], {"outcome": "failed", "exception": "x", "step": "s"}),
    Operation("logs.logs page", "GET", [*LOG, FQN, RUN_ID], query={"after": "0", "limit": "5", "tail": "", "since": ""}),
    Operation("logs.logs download", "GET", [*LOG, FQN, RUN_ID, "download"], query={"link": "true"}),
    Operation("logs.logs runs", "GET", [*LOG, FQN], query={"limit": "5", "cursor": ""}),
    Operation("logs.logs stream", "GET", [*LOG, FQN, "stream", RUN_ID], query={"wait": "0"}),
    Operation("logs.logs last", "GET", [*LOG, FQN, "last"]),
    Operation("logs.logs last/download", "GET", [*LOG, FQN, "last", "download"]),
    Operation("events.events append", "POST", EVENTS, [EVENT, {"message": "three", "id": 1}], query={"writer": "w"}),
    Operation("events.events append", "POST", EVENTS, [EVENT, {"message": "three", "id": 1}], as_escaped_json, query={"writer": "w"}),
    Operation("events.events append", "POST", EVENTS, [EVENT, EVENT], as_lines, "application/x-ndjson"),
    Operation("events.events events", "GET", EVENTS, query={"step": "s", "level": "INFO", "text": "one", "after": "0", "from": "0"}),
    Operation("events.events log", "GET", [*EVENTS, "log"], query={"step": "s", "start": "0"}),
    Operation("events.events log", "GET", [*EVENTS, "log"], query={"raw": "true"}),
    Operation("events.events steps", "GET", [*EVENTS, "steps"]),
    Operation(
        "events.events tell", "POST", [*EVENTS, "steps", "s"], {"name": "n", "parent": "p", "startedMs": 1, "status": "running"}
    ),
    Operation("events.events tell", "POST", [*EVENTS, "steps", "s"], {"name": "n", "parent": "p"}, as_escaped_json),
    Operation("events.events completeness", "GET", [*EVENTS, "completeness"], query={"wait": "0"}),
    Operation("events.events start", "PUT", [*EVENTS, "starts", "s"], {"host": "h", "command": "c", "ageMs": 1, "heartbeatS": 60}),
    Operation("events.events start", "PUT", [*EVENTS, "starts", "s"], {"host": "h", "command": "c"}, as_escaped_json),
    Operation("events.events heartbeat", "PUT", [*EVENTS, "heartbeat"]),
    Operation("events.events open", "PUT", [*EVENTS, "writers", "w"], {}),
    Operation("events.events close", "POST", [*EVENTS, "writers", "w", "close"], {"count": 1, "lastTimestamp": 5}),
    Operation("agents.fluent_records", "POST", ["v1", "agents", "fluent"], [RECORD, RECORD]),
    Operation("agents.fluent_records", "POST", ["v1", "agents", "fluent"], [RECORD], as_escaped_json, query={"tag": f"runlake.{FQN}.{RUN_ID}"}),
    Operation("agents.fluent_records", "POST", ["v1", "agents", "fluent"], [RECORD], as_msgpack, "application/msgpack"),
    Operation(
        "agents.fluent_records", "POST", ["v1", "agents", "fluent"], [{"log": "x"}],
        headers={"Fluent-Tag": f"runlake.{FQN}.{RUN_ID}", **NAMED},
    ),
    Operation("agents.fluent_records", "POST", ["v1", "agents", "fluent"], "one\ntwo\n", as_text, "text/plain", headers=NAMED),
    Operation("agents.logstash_events", "POST", ["v1", "agents", "logstash"], [RECORD]),
    Operation(
        "agents.syslog_messages", "POST", ["v1", "agents", "syslog"], '<13>1 2026-09-21T14:13:21Z host app 1 id [a@1 b="c"] one\n',
        as_text, "text/plain", headers=NAMED,
    ),
    Operation("agents.syslog_messages", "POST", ["v1", "agents", "syslog"], [RECORD], as_lines),
    Operation(
        "agents.firehose_delivery", "POST", ["v1", "agents", "firehose"], {"requestId": "one", "timestamp": 0, "records": [RECORD]},
        as_firehose, headers={"X-Amz-Firehose-Request-Id": "one", "X-Amz-Firehose-Common-Attributes": '{"commonAttributes":{}}'},
    ),
    Operation("agents.otlp_logs", "POST", ["v1", "agents", "otlp", "v1", "logs"], OTLP),
    Operation("agents.otlp_logs", "POST", ["v1", "agents", "otlp", "v1", "logs"], OTLP, as_protobuf, "application/x-protobuf"),
    Operation("elasticsearch.root", "GET", ["v1", "agents", "elasticsearch"]),
    Operation("elasticsearch.root", "HEAD", ["v1", "agents", "elasticsearch"]),
    Operation("elasticsearch.license", "GET", ["v1", "agents", "elasticsearch", "_license"]),
    Operation("elasticsearch.cluster_health", "GET", ["v1", "agents", "elasticsearch", "_cluster", "health"]),
    Operation("elasticsearch.bulk_of_any", "POST", ["v1", "agents", "elasticsearch", "_bulk"], BULK, as_lines, "application/x-ndjson"),
    Operation("elasticsearch.bulk_of_any", "PUT", ["v1", "agents", "elasticsearch", "_bulk"], BULK, as_lines, "application/x-ndjson"),
    Operation("elasticsearch.bulk_of_index", "POST", ["v1", "agents", "elasticsearch", "i", "_bulk"], [{"index": {}}, RECORD], as_lines),
    Operation("elasticsearch.bulk_of_index", "PUT", ["v1", "agents", "elasticsearch", "i", "_bulk"], [{"index": {}}, RECORD], as_lines),
    Operation(
        "catalog.recent_runs", "GET", CATALOG[:-1], query={"outcome": "failed", "fqn": "s*", "since": "0", "cursor": "", "limit": "5"}
    ),
    Operation("catalog.pipelines", "GET", CATALOG, query={"prefix": "s", "contains": "s", "cursor": "", "limit": "5"}),
    Operation("catalog.pipeline", "GET", [*CATALOG, FQN, "runs"], query={"cursor": "", "limit": "5"}),
    Operation("catalog.pipeline", "GET", [*CATALOG, FQN, "runs", RUN_ID], query={"lost": "true"}),
    Operation("catalog.pipeline", "GET", [*CATALOG, FQN, "runs", RUN_ID, "grep"], query={"q": "zero", "regex": "true", "limit": "5"}),
    Operation("catalog.pipeline", "GET", [*CATALOG, FQN, "runs", RUN_ID, "histogram"], query={"buckets": "5"}),
    Operation("configuration.configuration", "GET", ["v1", "configuration"]),
    Operation("archive.archive", "GET", ["v0", "archive", ""]),
    Operation("archive.archive", "GET", ["v0", "archive"], redirect=308),
    Operation("archive.environment", "GET", ["v0", "environment", ""]),
    Operation("archive.environment", "GET", ["v0", "environment"], redirect=308),
    Operation("archive.list_files", "GET", [*FILES, ""], query=FILES_WANTED, before=file_in_archive),
    Operation("archive.list_files", "GET", FILES, query=FILES_WANTED, before=file_in_archive, redirect=308),
    Operation("archive.begin_upload", "POST", FILES, UPLOAD),
    Operation("archive.begin_upload", "POST", FILES, UPLOAD, as_escaped_json),
    Operation("archive.delete_file", "DELETE", [*FILES, FILE_ID], before=file_in_archive),
    Operation("archive.get_metadata", "GET", [*FILES, FILE_ID, "metadata"], before=file_in_archive),
    Operation("archive.change_metadata", "PATCH", [*FILES, FILE_ID, "metadata"], {"what": "other", "where": "web-2"}, before=file_in_archive),
    Operation(
        "archive.change_metadata", "PATCH", [*FILES, FILE_ID, "metadata"], {"what": "other", "where": "web-2"}, as_escaped_json,
        before=file_in_archive,
    ),
    Operation("archive.get_contents", "GET", [*FILES, FILE_ID, "data"], before=file_in_archive),
    Operation("archive.latest", "GET", ["v0", "archive", "latest", "upload", "web-1"], query={"lookback": "3"}, before=file_in_archive),
    Operation("archive.latest_contents", "GET", ["v0", "archive", "latest", "upload", "web-1", "data"], before=file_in_archive),
    Operation(
        "coordination.partitions", "GET", ["v1", "coordination", "sweep"], query={"status": "CLOSED", "limit": "5", "cursor": ""},
        before=failed_partition,
    ),
    Operation("coordination.change retry", "POST", ["v1", "coordination", "sweep", FQN, RUN_ID, "retry"], {"state": "x"}, before=failed_partition),
    Operation(
        "coordination.change release", "POST", ["v1", "coordination", "sweep", FQN, RUN_ID, "release"], {"state": "x"},
        before=assigned_partition,
    ),
    Operation(
        "pipeline_files.events", "GET", ["v1", "pipeline-files"],
        query={"namespace": "svc", "app": "a", "program": "main", "base": "b", "cursor": ""}, before=file_of_a_pipeline,
    ),
    Operation("pipeline_files.delete", "DELETE", ["v1", "pipeline-files"], query={"fqn": FQN}, before=file_of_a_pipeline),
    Operation("pipeline_files.delete", "DELETE", ["v1", "pipeline-files"], query={"namespace": "svc"}, before=file_of_a_pipeline),
    Operation("pipeline_files.findings", "GET", ["v1", "pipeline-files", "repair"], query={"base": "b"}, before=file_of_a_pipeline),
    Operation("pipeline_files.repair", "POST", ["v1", "pipeline-files", "repair"], {"k": "v"}, query={"base": "b"}, before=file_of_a_pipeline),
    Operation("pipelines.pipelines", "GET", ["v1", "pipelines"], query={"name": "x"}),
    Operation("pipelines.enable", "POST", ["v1", "pipelines", "runlake", "enable"], {"handler": "files"}),
    Operation("pipelines.disable", "POST", ["v1", "pipelines", "runlake", "disable"], {"handler": "files"}),
    Operation("pipelines.replay", "POST", ["v1", "pipelines", "runlake", "replay"], {"from": "2026-09-21"}),
    Operation("pipelines.replay", "POST", ["v1", "pipelines", "runlake", "replay"], {"from": "2026-09-21"}, as_escaped_json),
    Operation("viewer.page", "GET", ["v1", "ui", ""]),
    Operation("viewer.page", "GET", ["v1", "ui"], redirect=308),
    Operation("viewer.config", "GET", ["v1", "ui", "config"]),
    Operation("viewer.file", "GET", ["v1", "ui", next(name for name in viewer.files() if name != viewer.PAGE)]),
    Operation("health.home", "GET", [""], redirect=302),
    Operation("health.health", "GET", ["v1", "health"]),
    Operation("health.archive_health", "GET", ["health", ""]),
    Operation("health.archive_health", "GET", ["health"], redirect=308),
    Operation("health.spec", "GET", ["spec", ""]),
    Operation("health.spec", "GET", ["spec"], redirect=308),
    Operation("health.openapi_document", "GET", ["v1", "openapi.json"]),
    Operation("health.docs", "GET", ["docs", ""]),
    Operation("health.docs", "GET", ["docs"], redirect=308),
)  # fmt: skip


UNREADABLE = tuple(
    replace(each, encode=encode)
    for each in OPERATIONS
    for encode in (as_utf_16, as_utf_32, as_marked_json)
    if each.encode is as_json
    and each.covers in ("archive.begin_upload", "archive.change_metadata", "pipelines.replay", "pipelines.disable")
)
"""Bodies that ``json.loads`` reads and that are refused here."""


def test_every_operation_of_the_route_table_is_covered() -> None:
    actions = {
        "logs.logs": [str(each) for each in paths.LogAction],
        "events.events": [str(each) for each in event_paths.EventAction],
        "coordination.change": ["release", "retry"],
    }
    views = {
        (f"{route.module().__name__.rpartition('.')[2]}.{route.name}", method)
        for route in operations.ROUTES
        for method in route.methods.split()
    }
    wanted = {(f"{view} {action}", "") for view in actions for action in actions[view]}
    wanted |= {(view, method) for view, method in views if view not in actions}
    covered = {(each.covers, "" if each.covers.partition(" ")[0] in actions else each.method) for each in OPERATIONS}
    assert wanted == covered


OPEN = {
    f"{route.module().__name__.rpartition('.')[2]}.{route.name}" for route in operations.ROUTES if route.path in gate.PUBLIC_ROUTES
}


@contextmanager
def everything_said() -> Iterator[io.StringIO]:
    """Standard output and the lines of both loggers."""
    said = io.StringIO()
    handlers = [handler for each in (observability.logger, observability._decisions) for handler in each._logger.handlers]
    streams = [handler.setStream(said) for handler in handlers]  # type: ignore[attr-defined]
    try:
        with redirect_stdout(said):
            yield said
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)  # type: ignore[attr-defined]


def everything_in(value: Any, seen: set[int]) -> Iterator[str]:
    """Each text in a Python object: fields, names, bytes, contents of gzip."""
    if isinstance(value, str):
        yield value
        yield unquote(value)
    elif isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        yield from everything_in((gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("latin-1"), seen)
        return
    if id(value) in seen or isinstance(value, str | int | float | None | type):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for name, each in list(value.items()):
            yield from everything_in(name, seen)
            yield from everything_in(each, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in list(value):
            yield from everything_in(each, seen)
    else:
        names = [
            *getattr(value, "__dict__", ()),
            *(name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())),
        ]
        for name in names:
            yield from everything_in(getattr(value, name, None), seen)


def ingested(world: World) -> None:
    """Ingests the notifications of all objects, which creates rows and reports."""
    services = composition.services()
    deadline = Deadline(world.clock)
    for store, bucket in ((world.store, BUCKET), (world.archive_store, ARCHIVE)):
        for found in list_all(store, ""):
            record = json.dumps({"Records": [s3_record(found.key, bucket=bucket)]})
            composition.ingester(services).ingest([record], deadline)


def ways_to_write(secret: str) -> list[str]:
    """The forms of a secret in stored texts and logs, after percent-decoding."""
    other = secret.replace("'", "\\'")
    return [secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], repr(f"{secret}'\"")[1:-4], other, repr(other)[1:-1]]


@contextmanager
def prepared(operation: Operation) -> Iterator[tuple[Mapping[str, Any], io.StringIO]]:
    """A world with a run and the objects that the operation needs: all stores, and the output."""
    world, runs, topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
    with installed(world, runs=runs, publisher=topic, masking=RULES), everything_said() as said:
        assert post(f"{FQN}/{RUN_ID}", "zero\n", {"Content-Type": "text/plain"}).status == 200
        ingested(world)
        operation.before(world)
        yield {"world": world, "runs": runs, "reports": topic}, said


def leaks(operation: Operation, place: Place, text: Callable[[str], str], secret: str = SECRET) -> list[str]:
    """The places that contain the secret afterwards."""
    with prepared(operation) as (stores, said):
        try:
            answer = operation.send(place, text)
        except ValueError as error:
            if "No matching route" not in str(error):
                raise
            return []  # the gateway rejects it
        except ParseError:
            return []  # protobuf has no such value
        ingested(stores["world"])
        assert answer.status < 500, answer
    own = [answer.body, *answer.headers, *map(str, answer.headers.values())]
    if answer.status == MOVED_TO_SLASH and operation.covers in OPEN:
        own = []  # repeats the caller's address: masking it would confirm to a stranger that a guess is a secret
    found = {"answer": own, "log lines": [said.getvalue()]}
    found |= {what: everything_in(store, set()) for what, store in stores.items()}  # type: ignore[misc]
    written = ways_to_write(secret)
    return [what for what, texts in found.items() if any(way in each for each in texts for way in written)]


@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=lambda number: f"{number}-{OPERATIONS[number].covers}")
def test_each_operation_is_a_good_request(number: int) -> None:
    """A request that is rejected anyway would prove nothing."""
    with prepared(OPERATIONS[number]):
        answer = OPERATIONS[number].send(("nothing", None), str)
    redirect = OPERATIONS[number].redirect
    assert answer.status == redirect if redirect else answer.status < 300, answer


@pytest.mark.sampled(default=20)
@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=lambda number: f"{number}-{OPERATIONS[number].covers}")
@pytest.mark.parametrize("secret", [SECRET, QUOTED], ids=["plain", "quoted"])
def test_secret_in_any_place_of_an_operation_leaks_nowhere(number: int, secret: str) -> None:
    operation = OPERATIONS[number]
    found = {
        place: where for place in operation.places if (where := leaks(operation, place, lambda text: f"{text}{secret}", secret))
    }
    assert not found


@pytest.mark.parametrize("number", range(len(UNREADABLE)), ids=lambda number: f"{number}-{UNREADABLE[number].covers}")
def test_secret_in_a_body_of_another_encoding_leaks_nowhere(number: int) -> None:
    operation = UNREADABLE[number]
    places = [place for place in operation.places if place[0] in ("key", "value")]
    assert places and not {place: where for place in places if (where := leaks(operation, place, lambda text: f"{text}{SECRET}"))}


@settings(deadline=None, max_examples=examples(150), print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    st.text("ab -_/.%é\"'\\\n", max_size=12),
    st.text("ab -_/.%é\"'\\\n", max_size=12),
    st.sampled_from([SECRET, QUOTED]),
)
def test_secret_among_other_text_leaks_nowhere(data: st.DataObject, before: str, behind: str, secret: str) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    place = data.draw(st.sampled_from(operation.places))
    if place[0] == "header":  # HTTP allows no more
        before, behind = (each.encode("ascii", "ignore").decode().replace("\n", "") for each in (before, behind))
    assert leaks(operation, place, lambda text: before + secret + behind, secret) == []


JOINED = "alpha/beta-secret"


@pytest.mark.parametrize(
    "operation",
    [
        Operation("", "POST", ["v1", "agents", "fluent"], [{**RECORD, "runlake": {"fqn": "alpha", "run_id": "beta-secret"}}]),
        Operation("", "POST", ["v1", "agents", "fluent"], [{**RECORD, "runlake": {"fqn": "svc.alpha.beta-secret", "run_id": "r"}}]),
        Operation("", "POST", ["v1", "agents", "fluent"], [{"log": "x"}], headers={"Fluent-Tag": "runlake.alpha.beta-secret"}),
        Operation("", "POST", ["v1", "agents", "elasticsearch", "_bulk"], [{"create": {"_index": "runlake-alpha-beta-secret"}}, RECORD], as_lines),
        Operation("", "POST", FILES, {**UPLOAD, "what": "beta-secret", "where": "alpha"}),
        Operation("", "POST", FILES, {**UPLOAD, "what": "alpha", "where": "beta-secret"}),
        Operation("", "POST", FILES, {**UPLOAD, "what": "beta-secret", "work_id": "alpha"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("between", ["/", ":", "|"])
def test_names_that_make_a_secret_together_are_refused(operation: Operation, between: str) -> None:
    """Adjacent parts of one key."""
    world, runs, secret = World(), InMemoryRunCatalog(), JOINED.replace("/", between)
    rules = SecretStr(json.dumps([{"fqn": "*", "values": [secret]}]))
    with installed(world, runs=runs, masking=rules), everything_said() as said:
        answer = operation.send(("", None), str)
        ingested(world)
    texts = [answer.body, said.getvalue(), *everything_in(world, set()), *everything_in(runs, set())]
    assert not [each for each in texts if secret in each] and "201" not in f"{answer.status}"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"])
def test_body_that_is_stored_is_utf_8_without_a_byte_order_mark(encoding: str) -> None:
    """The check and the view decode the body with the same function, so no body passes that the check could not read."""
    world = World()
    with installed(world, masking=RULES):
        made = call("POST", paths.ARCHIVE + "/files", json.dumps(UPLOAD))
        assert made.status == 201
        for method, path, document in (
            ("POST", f"{paths.ARCHIVE}/files", {**UPLOAD, "note": "é"}),
            ("PATCH", f"{paths.ARCHIVE}/files/{made.json['id']}/metadata", {"note": "é"}),
            ("POST", f"{paths.PIPELINES}/errors/replay", {"from": "é"}),
        ):
            body = json.dumps(document, ensure_ascii=False).encode(encoding)
            answer = call(method, path, body, {"Content-Type": "application/json"})
            assert answer.status in (400, 404), (method, path, answer.body)


def test_bodies_are_parsed_in_one_place_of_each_kind() -> None:
    """A view that parses JSON without the shared functions could read unchecked fields."""
    routes = Path(secrets.__file__).parent
    readers = {path.name for path in routes.glob("*.py") if "raw_body" in path.read_text() and "json.loads" in path.read_text()}
    parsers = {path.name for path in routes.glob("*.py") if "json.loads" in path.read_text()}
    assert readers == set()
    assert parsers == {
        "json_bodies.py",  # bodies that are stored unmasked
        "bodies.py", "event_bodies.py", "close_requests.py",  # lines, events and the end of a run, which are masked
        "agents.py", "elasticsearch.py", "coordination.py", "pipeline_files.py",  # answers, rows and cursors of our own
    }  # fmt: skip


def test_the_harness_sees_what_is_stored_and_said() -> None:
    """Without rules the search finds the secret everywhere, so the search works."""
    world, runs, topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
    with installed(world, runs=runs, publisher=topic), everything_said() as said:
        assert post(f"{SECRET}/{RUN_ID}", f"{SECRET}\n", {"Content-Type": "text/plain"}).status == 200
        ingested(world)
    for what in (world, runs, topic, said.getvalue()):
        assert any(SECRET in each for each in everything_in(what, set())), what


def test_only_public_paths_are_not_checked() -> None:
    """Public routes store nothing and repeat nothing."""
    assert {route.path for route in operations.ROUTES if route.path in gate.PUBLIC_ROUTES} == gate.PUBLIC_ROUTES


@pytest.mark.parametrize("number", [number for number, each in enumerate(OPERATIONS) if each.covers in OPEN])
def test_host_reveals_nothing_to_an_unauthenticated_caller(number: int) -> None:
    """A response that differed for a configured value would confirm a guess to an unauthenticated caller."""
    operation = OPERATIONS[number]
    with prepared(operation):
        right, wrong = (operation.send(("header", "Host"), lambda _, host=host: host) for host in (SECRET, SECRET[::-1]))  # type: ignore[misc]
    assert (right.status, right.body, right.headers) == (wrong.status, wrong.body, wrong.headers)
