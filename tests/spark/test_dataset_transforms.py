"""Events as rows: the partition of an event, its explanation and its place in a file; the files of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from chalicelib.ingestion.run_files import slug
from chalicelib.ports import Run
from glue_jobs.dataset.raw_text import without_messages
from glue_jobs.dataset.row_tables import SCHEMA, Cause, partitioned, values_of
from glue_jobs.datasource.schema import EVENTS, arrow_schema, schema_of
from glue_jobs.transforms.dataset_files import merge_bins
from glue_jobs.transforms.events import CAUSE, DATASET, ORDER, PARTITIONS

ARRIVED = date(2026, 11, 21)


def event(line: int, timestamp: datetime | None, fqn: str = "Svc.Orders", run_id: str = "run-1") -> tuple[Any, ...]:
    return (fqn, run_id, line, timestamp, "INFO", "svc.load", "row", b"an event\n", 3, "connector-7", 1, "failed")


def bucket(what: str, buckets: int) -> int:
    return int(hashlib.md5(what.encode()).hexdigest()[:4], 16) % buckets


TIMES = [
    (datetime(2026, 11, 20, 23, 59, 59, 999_999, UTC), date(2026, 11, 20)),
    (datetime(2026, 11, 21, 0, 0, tzinfo=UTC), date(2026, 11, 21)),
    (datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 1)),
    (datetime(1999, 12, 31, 23, 59, tzinfo=UTC), ARRIVED),
    (datetime(2099, 12, 31, 23, 59, tzinfo=UTC), date(2099, 12, 31)),
    (datetime(2100, 1, 1, tzinfo=UTC), ARRIVED),
    (datetime(2, 1, 1, tzinfo=UTC), ARRIVED),
    (None, ARRIVED),
]
"""An event's time, and its date in a run that arrived on the 21st."""


def rows_of(
    events: Sequence[tuple[Any, ...]], runs: dict[tuple[str, str], date], causes: Mapping[str, Sequence[Cause]] = {}
) -> list[tuple[Any, ...]]:
    """Rows (``DATASET``) in the order of files. ``causes``: by the run's id."""
    schema = arrow_schema(schema_of(EVENTS).names, EVENTS)
    table = pa.Table.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*events, strict=True), schema.types, strict=True)], schema=schema
    )
    values = {
        Run(*run): values_of(run[0], int(datetime(*arrived.timetuple()[:3], tzinfo=UTC).timestamp()), causes.get(run[1], ()), 16)
        for run, arrived in runs.items()
    }
    rows = []
    for folder, part in partitioned(table, values):
        day, number = (text.partition("=")[2] for text in folder.split("/"))
        assert part.schema == SCHEMA
        rows += [(*row.values(), date.fromisoformat(day), int(number)) for row in part.to_pylist()]
    return rows


def test_an_event_goes_to_its_own_day_or_its_runs() -> None:
    events = [event(line, timestamp) for line, (timestamp, _) in enumerate(TIMES)]
    none = [None] * len(CAUSE)
    expected = [
        (*each, "svc_orders", *none, None, day, bucket("svc_orders", 16)) for each, (_, day) in zip(events, TIMES, strict=True)
    ]
    actual = rows_of(events, {("Svc.Orders", "run-1"): ARRIVED, ("Svc.Orders", "run-2"): date(2026, 1, 1)})
    assert sorted(actual, key=lambda row: row[2]) == expected


def test_each_run_has_its_own_day() -> None:
    arrivals = {("a", "1"): date(2026, 11, 1), ("a", "2"): date(2026, 11, 2), ("b", "1"): date(2026, 11, 3)}
    rows = rows_of([event(0, None, *run) for run in arrivals], arrivals)
    assert {(row[0], row[1]): row[-2] for row in rows} == arrivals


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_in_the_order_of_files_whatever_the_order_of_events(seed: int) -> None:
    """Names that differ in upper case only, and events without a time, which come first."""
    random = Random(seed)
    stamps = [None, *(datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in range(3))]
    runs = {(fqn, run): ARRIVED for fqn in ("svc.a", "Svc.a", "svc.b", "ä") for run in ("1", "10", "2")}
    events = [event(line, random.choice(stamps), *run) for run in runs for line in range(8)]
    random.shuffle(events)
    rows = rows_of(events, runs)
    places = {name: DATASET.names.index(name) for name in (*PARTITIONS, *ORDER)}

    def key(row: tuple[Any, ...]) -> list[Any]:
        return [(row[place] is not None, row[place]) for place in places.values()]

    assert rows == sorted(rows, key=key) and sorted(row[:3] for row in rows) == sorted(each[:3] for each in events)


CAUSE_EVENTS = [
    ("failed", "1", 0, b"first\n", None),
    ("failed", "1", 1, b"\xff\xc3 trace\n  at a\n  at b\n", 2),
    ("failed", "1", 4, b"end\nof the log", 1),
    ("failed", "2", 1, b"of another run\n", None),
    ("lost", "3", 1, b"of a lost run", 1),
    ("succeeded", "4", 1, b"of a run that a request explained\n", None),
]
"""Outcome, run, first line and text of an event, and the rank of the cause that it contains."""


def test_explanation_is_on_the_events_with_its_lines() -> None:
    stamp = datetime(2026, 11, 20, tzinfo=UTC)
    events = [(*event(line, stamp, run_id=run)[:7], raw, None, None, None, outcome) for outcome, run, line, raw, _ in CAUSE_EVENTS]
    first, trace, root = (1, 5, "trace-root", "disk", 0.92), (3, 1, "detail", None, 0.5), (2, 3, "error-record", None, 0.76)
    causes: dict[str, list[Cause]] = {"1": [first, root, trace], **{run: [(1, 1, "detail", None, 0.5)] for run in "34"}}
    rows = rows_of(sorted(events, key=lambda each: each[2]), {("Svc.Orders", run): ARRIVED for run in "1234"}, causes)
    assert all(row[DATASET.names.index("raw_head")] is None for row in rows)
    names = [DATASET.names.index(name) for name in ("outcome", "run_id", "line", "raw", "cause_rank")]
    found = [tuple(row[place] for place in names) for row in rows]
    assert sorted(found, key=lambda row: row[1:3]) == CAUSE_EVENTS
    first_cause = DATASET.names.index("cause_rank")
    assert {row[first_cause : first_cause + 5] for row in rows if row[1] == "1"} == {(None,) * 5, first, root}


RAWS: list[tuple[bytes, str, str | None]] = [
    (b"03:00 - INFO - row\n", "row", "03:00 - INFO - "),
    (b"row\n", "row", ""),
    (b"\n", "", ""),
    ("é - failed\n  at ä\n".encode(), "failed\n  at ä", "é - "),
    (b"03:00 - row", "row", None),
    (b"03:00 - row\r\n", "row", None),
    (b"03:00 - row\n\n", "row", None),
    (b"03:00 - now\n", "row", None),
    (b"w\n", "row", None),
    (b"", "", None),
    (b"\xff - row\n", "row", None),
    (b"03:00 - \xff\n", "\ufffd", None),
]
"""The text of an event, its message, and what is before it; None: the text cannot be rebuilt."""


@pytest.mark.parametrize("only_texts", [True, False], ids=["only UTF-8", "not only UTF-8"])
def test_text_is_stored_only_where_it_cannot_be_rebuilt(only_texts: bool) -> None:
    cases = [case for case in RAWS if not only_texts or case[0].isascii()]
    raws = pa.array([b"before", *(raw for raw, _, _ in cases)]).slice(1)
    stored = without_messages(raws, pa.array([message for _, message, _ in cases]))
    assert stored.head.to_pylist() == [head for _, _, head in cases]
    assert stored.raw.to_pylist() == [raw if head is None else None for raw, _, head in cases]


_BYTES = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xff", "é".encode(), b"\xc3", b" - "]), max_size=5).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(_BYTES, _BYTES, st.booleans()), min_size=1, max_size=8))
def test_stored_columns_give_the_text(cases: list[tuple[bytes, bytes, bool]]) -> None:
    """Whatever the text and the message; most messages are the end of their text."""
    raws = [head + (message if is_end else b"") + b"\n" for head, message, is_end in cases]
    messages = [message.decode(errors="replace") for _, message, _ in cases]
    stored = without_messages(pa.array(raws), pa.array(messages))
    for text, message, raw, head in zip(raws, messages, stored.raw.to_pylist(), stored.head.to_pylist(), strict=True):
        assert (raw is None) != (head is None)
        assert (raw if head is None else f"{head}{message}\n".encode()) == text


NAMES = [
    "svc.orders", "Service.DB.Schema_x", "a b//c", "--dashed--", "__x__", "...", "", "ÄÖÜ straße", "İstanbul", "\N{KELVIN SIGN}elvin", "ΣΑΣ", "日本",
    "x" * 300, "." * 5 + "y" * 300, "a" * 255 + ".b", "tab\tnew\nline", "emoji 😀!",
]  # fmt: skip


def test_what_is_the_name_in_the_datalake() -> None:
    found = [values_of(name, 0, (), 7)[:2] for name in NAMES]
    assert found == [(slug(name), bucket(slug(name), 7)) for name in NAMES]


@pytest.mark.parametrize("count", [1, 3])
def test_files_of_a_bin_become_one_in_order(spark: SparkSession, count: int) -> None:
    day = date(2026, 11, 20)
    times = [datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in range(6)]
    rows = [(*event(hour, times[hour]), "what", *[None] * len(CAUSE), None, day, 0, f"file-{hour}") for hour in (3, 1, 5, 0, 4, 2)]
    bins = [(f"file-{hour}", hour % count) for hour in range(6)]
    schema = StructType([*DATASET.fields, StructField("file", StringType(), False)])
    frame = merge_bins(spark.createDataFrame(rows, schema), spark.createDataFrame(bins, "file string, bin int"), count)
    tasks = [[row["line"] for row in task] for task in frame.rdd.glom().collect()]
    assert frame.columns == schema.names[:-1] and tasks == [
        [hour for hour in range(6) if hour % count == each] for each in range(count)
    ]
