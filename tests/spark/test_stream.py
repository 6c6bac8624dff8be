"""``spark.readStream.format("runlake")`` from end to end: the offsets that Spark stores, and the rows that it reads after a
restart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.stored_runs import MINUTE_MS, START_MS, Bucket, event_numbers, raw_bytes
from chalicelib.errors import InvalidConfigurationError
from glue_jobs.datasource import column_reading
from glue_jobs.datasource.options import parse_options
from glue_jobs.datasource.schema import EVENTS, arrow_schema, schema_of
from glue_jobs.datasource.source import RunlakeReader
from glue_jobs.datasource.stream import RunlakeStreamReader
from tests.spark.test_following import TRACE

LINE = b"2026-11-21 03:00:02,000 - svc.load - INFO - row\n"


class Sink:
    """The content of an idempotent sink that may get a batch again."""

    def __init__(self, spark: SparkSession, bucket: Bucket, checkpoint: Path) -> None:
        self._spark, self._bucket, self._checkpoint = spark, bucket, checkpoint
        self.batches: dict[int, list[Any]] = {}
        self.repeated: list[int] = []

    @property
    def rows(self) -> list[Any]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def run(self, **options: str) -> None:
        """Start the query, from the checkpoint if there is one; read all data; stop it."""
        query = self.start(**options)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def start(self, available_now: bool = False, **options: str) -> StreamingQuery:
        stream = (
            self._spark.readStream.format("runlake").options(**{**self._bucket.options, "flushAfter": "none", **options}).load()
        )
        writer = stream.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def forget_commit(self) -> None:
        """As if the query had been killed before it committed its last batch."""
        commits = [int(path.name) for path in (self._checkpoint / "commits").iterdir() if path.name.isdigit()]
        for name in (str(max(commits)), f".{max(commits)}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)

    @property
    def offset(self) -> dict[str, Any]:
        """The last stored offset."""
        files = [path for path in (self._checkpoint / "offsets").iterdir() if path.name.isdigit()]
        last = max(files, key=lambda path: int(path.name))
        return dict(json.loads(last.read_text().splitlines()[-1]))

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        if number in self.batches:
            self.repeated.append(number)
            assert sorted(rows, key=_place) == sorted(self.batches[number], key=_place)
        self.batches[number] = rows


def _place(row: Any) -> tuple[str, int]:
    return row["run_id"], row["line"]


@pytest.fixture
def sink(spark: SparkSession, bucket: Bucket, tmp_path: Path) -> Sink:
    return Sink(spark, bucket, tmp_path / "checkpoint")


@pytest.mark.behavior("A streaming query that is stopped or killed reads every line once.")
def test_a_query_that_is_stopped_and_killed_reads_every_line_once(bucket: Bucket, sink: Sink) -> None:
    one, two = bucket.run(run_id="one").lines(100), bucket.run(run_id="two").append(LINE, TRACE[:70])
    sink.run()
    assert raw_bytes(sink.rows, "one") == b"".join(one.log.splitlines(keepends=True)[:-1])  # the last event may grow
    assert len(sink.offset["runs"]) == 2

    one.lines(100, first=100).compact(upto=4).retire(below=4)
    two.append(TRACE[70:])
    three = bucket.run(run_id="three").lines(10).seal("abandoned").finalize("abandoned").retire()
    sink.run()
    sink.forget_commit()  # killed: the last batch is repeated, although its segments are deleted
    one.seal().finalize().retire()
    two.compact().retire()
    three.reopen().lines(10, first=10)
    sink.run()
    assert sink.repeated

    two.seal().finalize()
    three.seal().finalize()
    sink.run()
    assert [raw_bytes(sink.rows, run.run_id) for run in (one, two, three)] == [run.log for run in (one, two, three)]
    assert event_numbers(sink.rows, "two") == [0, 1]  # a line, and its trace, which came in two pieces
    assert {row["segment"] for row in sink.rows} == {None}


def test_a_closed_run_leaves_the_checkpoint(bucket: Bucket, sink: Sink) -> None:
    bucket.run(run_id="old").lines(10).seal().finalize()
    new = bucket.run(run_id="new", at_ms=START_MS + 10 * MINUTE_MS).lines(10)
    sink.run()
    assert len(sink.offset["runs"]) == 2
    new.lines(10, first=10)
    sink.run()
    assert len(sink.offset["runs"]) == 1
    new.lines(10, first=20).seal()
    sink.run()
    assert raw_bytes(sink.rows, "new") == new.log
    assert len(event_numbers(sink.rows, "old")) == 10


def test_batches_have_about_as_many_bytes_as_they_may(bucket: Bucket, sink: Sink) -> None:
    runs = [bucket.run(run_id=f"run-{number}").append(LINE * 100).seal() for number in range(7)]
    sink.run(maxBytesPerBatch=str(250 * len(LINE)))
    assert [len(rows) for _, rows in sorted(sink.batches.items())] == [200, 200, 200, 100]
    assert all(raw_bytes(sink.rows, run.run_id) == run.log for run in runs)


def test_what_is_there_is_read_and_the_query_ends(bucket: Bucket, sink: Sink) -> None:
    run = bucket.run().lines(100).seal()
    query = sink.start(available_now=True)
    assert query.awaitTermination(60)
    assert raw_bytes(sink.rows) == run.log
    for number in range(3):
        bucket.run(run_id=f"run-1{number}").lines(10).seal()
    query = sink.start(available_now=True, maxBytesPerBatch="700")
    assert query.awaitTermination(60)
    assert len(sink.rows) == 110  # one batch, as docs/spark.md says


def test_only_what_comes(bucket: Bucket, sink: Sink) -> None:
    one, old = bucket.run(run_id="one").lines(100), bucket.run(run_id="old").lines(5).seal().finalize()
    sink.run(startingOffsets="latest")
    assert sink.rows == []
    one.lines(10, first=100).seal()
    two = bucket.run(run_id="two", at_ms=one.at_ms).lines(10).seal()
    sink.run(startingOffsets="latest")
    assert event_numbers(sink.rows, "one") == list(range(100, 110))
    assert raw_bytes(sink.rows, "two") == two.log
    assert event_numbers(sink.rows, old.run_id) == []


def test_a_checkpoint_of_other_runs_is_refused(bucket: Bucket, sink: Sink) -> None:
    bucket.run().lines(10)
    sink.run()
    bucket.run().lines(20)
    with pytest.raises(PySparkException, match="belongs to other options"):
        sink.run(fqn="svc.*")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"rows": "problems"}, "events only"), ({"status": "open"}, "every status"), ({"endingOffsets": "{}"}, "a stream has no end")],
)
def test_options_that_no_stream_has(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=complaint):
        RunlakeStreamReader(parse_options({"bucket": "logs", **options}), ("raw",))


@pytest.mark.parametrize(
    ("columns", "options", "unused", "count"),
    [
        (schema_of(EVENTS).fieldNames(), {}, "OutlineParser.parse", 269),  # the last event waits for more lines
        (["run_id", "line", "raw"], {}, "ColumnarParser.parse", 269),
        (["level", "line"], {"level": "error"}, "EventColumns.messages", 199),
        (["message"], {"from": "2026-11-21T03:05Z", "to": "2026-11-21T03:10Z"}, "EventColumns.loggers", 50),
    ],
    ids=["all columns", "no parsed columns", "level", "times"],
)
def test_batches_are_those_of_a_read_between_the_same_offsets(
    bucket: Bucket, columns: Sequence[str], options: Mapping[str, str], unused: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Arrow batches of the selected columns, of the events that the options select; no other texts are made."""
    run = bucket.run("svc.orders", "run-1")
    for minute in range(20):
        level = "ERROR" if minute % 3 else "INFO"
        run.append(
            f"2026-11-21 03:{minute:02}:00,000 - svc.load - {level} - row\n{TRACE.decode()}\n".encode() * 10, every_ms=60_000
        )
    monkeypatch.setattr(column_reading, "LEAST_BYTES", 0)
    everything = parse_options({**bucket.options, **options, "flushAfter": "none"})
    stream = RunlakeStreamReader(everything, tuple(columns))
    start, end = stream.initialOffset(), stream.latestOffset()
    between = parse_options({**bucket.options, **options, "flushAfter": "none", "endingOffsets": json.dumps(end)})
    expected = pa.Table.from_batches(_batches(RunlakeReader(between, tuple(columns)), None))
    monkeypatch.setattr(f"glue_jobs.columnar.{_MODULES[unused.split('.')[0]]}.{unused}", None)
    batches = _batches(stream, stream.partitions(start, end))
    assert all(batch.schema == arrow_schema(columns, EVENTS) for batch in batches)
    assert pa.Table.from_batches(batches) == expected
    assert expected.num_rows == count


_MODULES = {"OutlineParser": "outlines", "ColumnarParser": "parser", "EventColumns": "columns"}


def _batches(reader: RunlakeReader | RunlakeStreamReader, tasks: Sequence[Any] | None) -> list[pa.RecordBatch]:
    planned = reader.partitions() if isinstance(reader, RunlakeReader) else tasks or ()
    return [batch for task in planned for batch in reader.read(task)]
