"""Ended runs, pipelines over them, and the expected events of the pipelines' files, read by the rows that name them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import yaml

from bench.spark_compaction_archive import BUCKET, BenchArchive, BenchRun
from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.files.table import TABLE
from chalicelib.pipelines.rows import PIPELINES
from chalicelib.ports import Run
from chalicelib.runlog.artifact import artifact_metadata

ROLLING = "chalicelib.pipelines.files.handler.RollingS3Handler"
START_MS = 1_795_230_000_000
Event = tuple[str, str, int]
"""FQN, run id, line."""


def ended_run(name: str, number: int, lines: int, *, bodies: int = 2, fqns: int = 8) -> BenchRun:
    """A run of this many numbered lines within a quarter of an hour."""
    run = Run(f"svc.{name}-{number % fqns}", f"run-{number:04d}")
    written = [_line(run, each, START_MS + number * 60_000 + each * 900_000 // lines) for each in range(lines)]
    size = -(-lines // bodies)
    return BenchRun(run, [b"".join(written[first : first + size]) for first in range(0, lines, size)])


def _line(run: Run, number: int, at_ms: int) -> bytes:
    stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    head = f"{stamp},{at_ms % 1000:03d} - app.module{number % 20:02d} - INFO - {run.run_id} line {number} "
    return head.encode().ljust(119, b".") + b"\n"


def events_of(runs: Sequence[BenchRun]) -> Counter[Event]:
    """Each event once."""
    return Counter((each.run.fqn, each.run.run_id, line) for each in runs for line in range(each.log.count(b"\n")))


def document(name: str, handlers: dict[str, Any], **sections: Any) -> str:
    """The file of a pipeline whose handlers all receive every event."""
    plain = {"plain": {"format": "%(runlake_fqn)s/%(runlake_run_id)s/%(runlake_line)d %(message)s"}}
    root = {"level": "NOTSET", "handlers": list(handlers)}
    return yaml.safe_dump(
        {"name": name, "logging": {"version": 1, "formatters": plain, "handlers": handlers, "root": root}, **sections}
    )


class PipelineArchive(BenchArchive):
    """An archive with the tables of pipelines, and a folder for their files."""

    tables = MappingProxyType({**BenchArchive.tables, "pipelines": "PipelinesTable", "pipeline_files": "PipelineFilesTable"})

    def __init__(self, endpoint_url: str) -> None:
        super().__init__(endpoint_url)
        names = {f"RUNLAKE_{name.upper()}_TABLE": f"{BUCKET}-{name}" for name in self.tables}
        os.environ.update(names | {"RUNLAKE_PIPELINES_CONFIG": f"s3://{BUCKET}/_pipelines"})
        schemas = {
            TABLE: Schema(f"{BUCKET}-pipeline_files", "partition", "at"),
            PIPELINES: Schema(f"{BUCKET}-pipelines", "key", "at"),
        }
        self.rows_of_pipelines = DynamoDbDatabase(self.database, schemas)

    def finalize(self, runs: Sequence[BenchRun]) -> None:
        """Finalize runs, and delete their segments except the last."""
        for each in runs:
            last = each.entries[-1]
            metadata = artifact_metadata(last.end_line, last.end_byte, last.sequence + 1, 1, "closed")
            self.put(self.layout.logs(each.run), each.log, metadata)
            for entry in each.entries[:-1]:
                self.s3.delete_object(Bucket=BUCKET, Key=self.layout.segment(each.run, entry.sequence))

    def pipeline(self, name: str, text: str, folder: str = "_pipelines") -> None:
        """Put a pipeline's file."""
        self.put(f"{folder}/{name}.yaml", text.encode(), {})

    def file_count(self, base: str) -> int:
        """Number of files, including uncommitted ones."""
        return int(self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{base}/")["KeyCount"])

    def delivered_events(self, base: str) -> Counter[Event]:
        """How often each event is in the committed files of a base, within the bytes that their rows name."""
        events: Counter[Event] = Counter()
        for row in FileRows(self.rows_of_pipelines).listed(base, ""):
            assert isinstance(row, FileRow), row
            with self.s3.get_object(Bucket=BUCKET, Key=row.object_key)["Body"] as answer:  # signed: private in moto
                body: bytes = answer.read()
            assert len(body) >= row.contents.size, (row, len(body))
            events.update(map(_event_of, body[: row.contents.size].splitlines()))
        return events

    def leftover_heads(self, name: str) -> list[str]:
        """Heads of workers that still have active runs: none after a job has ended."""
        rows, _ = self.rows_of_pipelines.query(PIPELINES, f"pipeline#{name}", "checkpoint#", "checkpoint$", limit=100)
        return [str(row["at"]) for row in rows]

    def first_unprocessed_lines(self, name: str) -> dict[tuple[str, str], int]:
        """The first unprocessed line of each run, from the checkpoints."""
        rows, more = self.rows_of_pipelines.query(PIPELINES, f"runs#{name}", None, None, limit=1000)
        assert not more
        split = ((str(row["at"]).rpartition("/"), json.loads(row["position"])) for row in rows)
        return {(fqn, run_id): position[0] for (fqn, _, run_id), position in split}


def _event_of(line: bytes) -> Event:
    if line.startswith(b"{"):
        event = json.loads(line)
        return event["fqn"], event["runId"], event["line"]
    fqn, run_id, number = line.decode().partition(" ")[0].split("/")
    return fqn, run_id, int(number)
