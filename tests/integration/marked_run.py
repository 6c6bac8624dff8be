"""A run whose every trace has a text of its own, and a search for such texts in everything that a stack stores."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import re
import string
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import requests
from botocore.exceptions import ClientError
from pyspark.sql.pandas.types import to_arrow_schema

from chalicelib.composition import SOURCES, Services
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import format_timestamp
from chalicelib.deadline import Deadline
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import PutOptions, Run
from client.tests.dead_programs import leave
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import APPEND, STAGING, Layout
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.removal import MarkedRows
from glue_jobs.dataset.row_tables import values_of
from glue_jobs.dataset.s3_destination import S3Files, s3_files
from glue_jobs.dataset.write_tasks import write_files
from glue_jobs.datasource.schema import EVENTS, schema_of
from runlake import RunName
from tests.files_harness import record_of
from tests.integration.roles import output
from tests.integration.stacks import PATIENCE_S, Stack

LOGS = "/v1/services/ingestionPipelines/logs"
BUCKETS = 4
_ZSTD, _GZIP, _PARQUET = b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PAR1"
_FIRST = "qzx"
"""Of each mark: the search looks for such words."""
_WORD = re.compile(rb"qzx[a-z]{13}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}")


class MarkedRun:
    """A running run, reopened after it was abandoned, and its later attempt, which has failed. ``marks``: the text of each place."""

    def __init__(self, stack: Stack) -> None:
        self.marks: dict[str, str] = {}
        self.run = Run(f"svc.gone-{word()}", "r1")
        self.later = Run(self.run.fqn, "r1~2")
        self.retry: Callable[[], int] = lambda: 0
        self._stack, self._web = stack, requests.Session()
        self._web.headers["Content-Type"] = "application/json"

    def mark(self, place: str) -> str:
        return self.marks.setdefault(place, word())

    def call(
        self, method: str, path: str, document: Any = None, expected: int | None = 200, key: str | None = None
    ) -> requests.Response:
        """A request of one connection. ``expected``: its status, None: any. ``key``: of an append."""
        body, headers = None if document is None else json.dumps(document), {"Idempotency-Key": key} if key else None
        answer = self._web.request(method, self._stack.api_url + path, data=body, headers=headers, timeout=PATIENCE_S)
        assert expected in (None, answer.status_code), (method, path, answer.status_code, answer.text[:500])
        return answer

    def close(self) -> None:
        self._web.close()

    def write(self, services: Services) -> None:
        """Everything that clients write over HTTP. The run is abandoned and reopened, so it has a final log and later segments."""
        for run, attempt in ((self.run, 1), (self.later, 2)):
            start = {"host": self.mark("host of a start"), "command": self.mark("command of a start"), "attempt": attempt}
            path = f"/v1/events/{self.run.fqn}/{self.run.run_id}/starts/{self.mark('id of a start')}{attempt}"
            assert self.call("PUT", path, start).json()["runId"] == run.run_id
        events, log = f"/v1/events/{self.run.fqn}/{self.run.run_id}", f"{LOGS}/{self.run.fqn}"
        writer = self.mark("name of a writer")
        self.call("PUT", f"{events}/writers/{writer}")
        event = {"id": 0, "message": self.mark("message of an event"), "data": {"k": self.mark("data of an event")}}
        self.call("POST", f"{events}?writer={writer}", [event | {"step": self.mark("step of an event")}])
        self.call("POST", f"{events}/steps/{self.mark('id of a step')}", {"name": self.mark("name of a step"), "status": "failed"})
        services.finalizer.abandon(self.run, services.clock.now_ms() + 1, Deadline(services.clock))
        key = word()  # its digest is stored
        line = {"logs": f"{self.mark('line of a segment')}\n", "connectorId": self.mark("name of a connector")}
        self.call("POST", f"{log}/{self.run.run_id}", line, key=key)
        self.retry = lambda: self.call("POST", f"{log}/{self.run.run_id}", line, None, key).status_code
        self.call("POST", f"{log}/{self.later.run_id}", f"{self.mark('line of an attempt')}\n")
        end = {"outcome": "failed", "exitCode": 3, "exception": self.mark("exception of an outcome")}
        self.call("POST", f"{log}/{self.later.run_id}/close", end)

    def derive(self, services: Services) -> None:
        """What schedules, handlers and jobs derive from a run, by the adapters of the stack."""
        store, run = services.store, self.run
        for text in (self.mark("old version"), ""):
            store.put(services.layout.partial(run), text.encode(), PutOptions())
        store.delete(services.layout.partial(run))
        store.put(services.layout.bundle(run, 0, 9), gzip.compress(self.mark("bundle").encode()), PutOptions())
        store.put(services.layout.marker(run, self.mark("heartbeat marker")), b"", PutOptions())
        letters = DeadLetters(store, "audit", services.clock)
        letters.put("h", self._record("dead letter"), ValueError(self.mark("reason of a dead letter")), 1)
        state = json.dumps({"text": self.mark("background work")})
        for source in SOURCES:
            partitions, work = services.work_sources(source)
            key = f"{run.fqn}/{run.run_id}"
            partitions.create(Partition(work.partitions, key, Status.UNASSIGNED, format_timestamp(0), state=state))
        self._write_file(services)
        upload = store.create_multipart(services.layout.logs(run), PutOptions())
        store.upload_part(services.layout.logs(run), upload, 1, b"part")  # no API returns it: the search counts the upload

    def explain(self, services: Services) -> None:
        """An explanation of the later attempt, which is finalized and ingested."""
        row = services.runs.get(self.later)
        assert row
        services.runs.record_explanation(self.later, row.final_segments, self.mark("explanation"))

    def _record(self, place: str, generation: str = "") -> Any:
        return record_of(1, self.mark(place), fqn=self.run.fqn, run_id=self.run.run_id, generation=generation)

    def _write_file(self, services: Services) -> None:
        handler = RollingS3Handler(base="pipeline-files", format="jsonl", workers=1)
        handler.use(HandlerContext(services.store, services.database, services.clock, "runlake", lambda: None))
        handler.handle(self._record("pipeline file", services.pipeline_files.generation_of(self.run) or ""))
        services.database.transact(handler.pending_writes())
        handler.committed()

    def put_rows(self, files: S3Files) -> None:
        """Rows of the dataset, of this run and of another pipeline's."""
        rows, values = [], {}
        for run, text in ((self.run, self.mark("row of the dataset")), (Run("svc.kept", "r1"), "kept")):
            values[run] = values_of(run.fqn, 1_795_219_200, (), BUCKETS)
            same = {"outcome": "failed", "level": "INFO", "logger": "app"}
            rows.append({"fqn": run.fqn, "run_id": run.run_id, "line": 0, "message": text, "raw": text.encode()} | same)
        events = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema_of(EVENTS)))
        committer = Committer(files, Layout(BUCKETS, "UTC", ""))
        committer.commit(
            committer.settled(),
            Change(APPEND, {}),
            lambda attempt: write_files(iter([events]), values, files, f"{STAGING}{attempt}/{OUTPUT}"),
        )

    def spool(self, root: Path) -> Path:
        """A folder that a client left, with a line of the run."""
        line = f"{self.mark('line in a spool')}\n".encode()
        return leave(root, self._stack.api_url, line, run=RunName(self.run.fqn, self.run.run_id), run_end=None)


def word() -> str:
    """A random text that no rule of masking finds."""
    return _FIRST + "".join(random.SystemRandom().choices(string.ascii_lowercase, k=13))


def dataset_of(stack: Stack) -> S3Files:
    """The dataset in the stack's bucket, by the session of ``services_of``."""
    return s3_files("s3", output(stack, "DatasetBucketName"), f"events-{word()}")


def remove_rows(files: S3Files, services: Services) -> None:
    """As the next job does."""
    removal = MarkedRows(
        files, Committer(files, Layout(BUCKETS, "UTC", "")), services.store, BUCKETS, time.time, int(time.time() * 1000)
    )
    while removal.remove():
        pass


class Search:
    """Finds texts in everything that a stack stores: all versions of all objects, metadata, uploads, rows, messages, logs of functions; not in
    the functions' code. ``within``: only objects with this in their key."""

    def __init__(self, stack: Stack, marks: dict[str, str], within: str = "") -> None:
        self._stack, self._within = stack, within
        self._places = {text.encode(): place for place, text in marks.items()}

    def found(self, *folders: Path) -> dict[str, list[str]]:
        """Where each text is, by its place in the run."""
        found: dict[str, list[str]] = {}
        for where, content in self._contents(folders):
            for each in {word for body in _decoded(content) for word in _WORD.findall(body)} & set(self._places):
                found.setdefault(self._places[each], []).append(where)
        return found

    def _contents(self, folders: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
        for source in (self._objects, self._rows, self._messages, self._lines):
            yield from source()
        for folder in folders:
            yield from ((str(path), str(path).encode() + path.read_bytes()) for path in folder.rglob("*") if path.is_file())

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        with closing(self._stack.client("s3")) as s3:
            for bucket in (each["Name"] for each in s3.list_buckets()["Buckets"]):
                for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
                    rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
                    for row in (each for each in rows if self._within in each["Key"] and not each["Key"].endswith(".zip")):
                        yield f"{bucket}/{row['Key']}", row["Key"].encode() + (_read(s3, bucket, row) if "Size" in row else b"")
                for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ()):
                    yield f"upload of {bucket}/{upload['Key']}", upload["Key"].encode()

    def _rows(self) -> Iterator[tuple[str, bytes]]:
        with closing(self._stack.client("dynamodb")) as dynamodb:
            for table in dynamodb.list_tables()["TableNames"]:
                for page in dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
                    for row in page["Items"]:
                        yield table, b"\n".join(_flat(row))

    def _messages(self) -> Iterator[tuple[str, bytes]]:
        with closing(self._stack.client("sqs")) as sqs:
            for queue in sqs.list_queues().get("QueueUrls", ()):
                waiting = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0).get("Messages", ())
                yield from ((queue, each["Body"].encode()) for each in waiting)

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        with closing(self._stack.client("logs")) as logs:
            for group in logs.describe_log_groups()["logGroups"]:
                for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
                    yield from ((group["logGroupName"], each["message"].encode()) for each in page["events"])


def _read(s3: Any, bucket: str, row: dict[str, Any]) -> bytes:
    try:
        answer = s3.get_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
    except ClientError:  # deleted since it was listed
        return b""
    with answer["Body"] as body:
        return json.dumps(answer["Metadata"]).encode() + b"\0" + bytes(body.read())


def _decoded(content: bytes) -> Iterator[bytes]:
    """The bytes, and what they contain: gzip, zstd, Parquet, base64."""
    yield content
    for magic, read in ((_GZIP, gzip.decompress), (_ZSTD, _unpacked), (_PARQUET, _table)):
        if (at := content.find(magic)) >= 0:
            with suppress(OSError, EOFError, zlib.error, pa.ArrowException):
                yield read(content[at:])
    for text in _BASE64.findall(content):
        yield from (base64.b64decode(text[at : at + (len(text) - at) // 4 * 4]) for at in range(4))


def _unpacked(packed: bytes) -> bytes:
    return bytes(pa.input_stream(pa.py_buffer(packed), compression="zstd").read())


def _table(file: bytes) -> bytes:
    return str(pq.read_table(io.BytesIO(file), partitioning=None).to_pylist()).encode()


def _flat(value: Any) -> Iterator[bytes]:
    """All texts and bytes within a row, decoded."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name.encode()
            yield from _flat(each)
    elif isinstance(value, list | set | tuple):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, bytes):
        yield from _decoded(value)
    else:
        yield str(value).encode()
