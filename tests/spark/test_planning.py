"""Tasks are planned by bytes, and the cuts between them change no row."""

from __future__ import annotations

import random

import pytest

from bench.stored_runs import PREFIX, START_MS, Bucket, StoredRun, event_numbers, raw_bytes
from chalicelib.runlog.layout import Layout
from glue_jobs.datasource.listing import RunFinder
from glue_jobs.datasource.objects import Listed
from glue_jobs.datasource.selection import Names, Pattern, Selection
from tests.spark.conftest import Read
from tests.spark.memory import MemoryServer, Reading

KIB = 1024


def _log(seed: int, events: int) -> tuple[bytes, list[int]]:
    """A log with stack traces, JSON objects over many lines, blank lines and long lines; and the lines at which its events begin."""
    chance = random.Random(seed)
    text, heads, line = [], [], 0
    for number in range(events):
        second = number % 60
        stamp = f"2026-11-21 03:{number // 60 % 60:02d}:{second:02d},{number % 1000:03d}"
        head = f"{stamp} - svc.load - INFO - row {number} {'x' * chance.choice([0, 5, 80, 900])}\n"
        kind = chance.random()
        if kind < 0.1:
            more = (
                "Traceback (most recent call last):\n"
                + '  File "a.py", line 1, in f\n    g()\n' * chance.randint(1, 60)
                + "ValueError: no\n"
            )
        elif kind < 0.15:
            more = '    {\n      "a": 1\n    }\n' * chance.randint(1, 20)
        elif kind < 0.2:
            more = "\n" * chance.randint(1, 5)
        else:
            more = ""
        heads += [line, line + 1] if kind < 0.1 else [line]  # a trace behind INFO is an event of its own
        text.append(head + more)
        line += 1 + more.count("\n")
    return "".join(text).encode(), heads


@pytest.mark.behavior("How a log is divided into tasks changes no row.")
@pytest.mark.sampled(default=4)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_final", [False, True], ids=["segments", "logs.txt"])
def test_cuts_change_no_row(seed: int, is_final: bool) -> None:
    log, heads = _log(seed, 800)
    lines = log.splitlines(keepends=True)
    server = MemoryServer()
    run = StoredRun(server, "svc.orders", "run-1", START_MS)
    chance = random.Random(seed)
    while lines:
        count = chance.randint(1, 60)
        run.append(b"".join(lines[:count]))
        lines = lines[count:]
    if is_final:
        run.seal().finalize().retire()
    for size in ("16m", "90k", "30k"):
        reading = Reading(server.store, bytesPerPartition=size)
        rows = reading.rows()
        assert raw_bytes(rows) == log
        assert event_numbers(rows) == heads
        assert (len(reading.tasks()) > 1) == (size != "16m")


def test_a_cut_in_a_trace_that_fills_tasks(bucket: Bucket) -> None:
    """A slice without an event boundary belongs to the slice before it."""
    begin = b"2026-11-21 03:00:01,000 - svc.load - ERROR - failed\n"
    trace = b"Traceback (most recent call last):\n" + b'  File "load.py", line 12, in load\n' * 1500 + b"ValueError: 42\n"
    log = begin + trace + begin * 10
    bucket.run().append(log).seal().finalize().retire()
    rows = bucket.rows(bytesPerPartition="12k")
    assert raw_bytes(rows) == log
    assert event_numbers(rows) == [0, *range(1503, 1513)]
    assert rows[0]["raw"] == begin + trace


def test_a_line_longer_than_tasks(bucket: Bucket) -> None:
    log = b"begin\n" + b"y" * 300 * KIB + b"\nend\n"
    bucket.run().append(log).seal().finalize().retire()
    rows = bucket.rows(bytesPerPartition="20k")
    assert raw_bytes(rows) == log
    assert event_numbers(rows) == [0, 1, 2]


def test_many_small_runs_are_one_task(bucket: Bucket) -> None:
    for number in range(300):
        bucket.run(run_id=f"run-{number}").append(b"a\n", b"b\n").seal()
    assert len(bucket.tasks()) == 1
    assert len(bucket.tasks(bytesPerPartition="4m")) == 5  # 600 objects with bytes, each of which counts as 32 KiB


def test_many_segments_are_few_tasks(bucket: Bucket) -> None:
    bucket.run().append(*[b"a line\n"] * 1000)
    assert len(bucket.tasks()) == 1
    assert len(bucket.tasks(bytesPerPartition="12m")) == 3
    bucket.server.traffic.reset()
    rows = bucket.rows(bytesPerPartition="12m")
    assert raw_bytes(rows) == b"a line\n" * 1000
    assert [row["segment"] for row in rows] == list(range(1000))
    assert bucket.server.traffic.requests["GET"] <= 1100


def test_tasks_are_about_as_large_as_asked(bucket: Bucket) -> None:
    line = b"z" * 1023 + b"\n"
    bucket.run(run_id="large").append(*[line * 512] * 20)  # 10 MiB
    bucket.run(run_id="larger").append(line * 12 * KIB).seal().finalize().retire()  # 12 MiB
    bucket.run(run_id="small").append(line * 100)
    sizes = [sum(part.end.byte - part.start.byte for part in task.slices) for task in bucket.tasks(bytesPerPartition="4m")]
    assert len(sizes) <= 8
    assert sum(sizes) == (10 + 12) * KIB * KIB + 100 * KIB
    assert max(sizes) <= 6 * KIB * KIB


def test_splitting_a_log_without_the_catalog_reads_it_once_more(bucket: Bucket) -> None:
    log = (b"z" * 1023 + b"\n") * 8 * KIB
    bucket.run().append(log).seal().finalize().retire()
    assert raw_bytes(bucket.rows(bytesPerPartition="2m")) == log
    counted = len(log) * 3 // 4  # lines before the last of three cuts
    assert len(log) + counted <= bucket.server.traffic.read_bytes <= (len(log) + counted) * 1.05


def test_tasks_in_spark(read: Read, bucket: Bucket) -> None:
    log, heads = _log(7, 800)
    bucket.run().append(log).seal().finalize().retire()
    frame = read(bytesPerPartition="64k")
    assert frame.rdd.getNumPartitions() > 2
    rows = frame.collect()
    assert raw_bytes(rows) == log
    assert event_numbers(rows) == heads


def test_a_read_that_finds_its_objects_gone_reads_the_same_bytes_elsewhere(bucket: Bucket) -> None:
    """Between planning and reading all segments are compacted and retired, and the runs finalized."""
    run = bucket.run().lines(4000).compact(upto=30)
    work = bucket.tasks(bytesPerPartition="64k")
    planned = run.log
    run.lines(400, first=4000).seal().finalize().retire()
    from glue_jobs.datasource.options import parse_options
    from glue_jobs.datasource.schema import schema_of
    from glue_jobs.datasource.source import PushdownReader

    reader = PushdownReader(parse_options(bucket.options), tuple(schema_of("events").names))
    rows = [row for part in work for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(work) > 3
    assert raw_bytes(rows) == planned


class ManyKeys:
    """A listing of generated runs."""

    def __init__(self, runs: int, segments: int) -> None:
        self._keys = [
            f"{PREFIX}/svc.p{run % 50:02d}/run-{run:06d}/segments/{number:010d}"
            for run in range(runs)
            for number in range(segments)
        ]
        self._keys.sort()
        self.requests = 0

    def page(self, prefix: str, after: str, limit: int = 1000) -> tuple[list[Listed], bool]:
        from bisect import bisect_left, bisect_right

        self.requests += 1
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        last = bisect_left(self._keys, prefix + "\U0010ffff")
        found = [Listed(key, 16_384, "", 1_795_230_000_000) for key in self._keys[first : min(first + limit, last)]]
        return found, last - first > limit

    def folders(self, prefix: str, after: str = "") -> list[str]:
        self.requests += 1
        inside = (key for key in self._keys if key.startswith(prefix) and key > after)
        return sorted({prefix + key[len(prefix) :].split("/")[0] + "/" for key in inside})


@pytest.mark.parametrize(("runs", "segments"), [(2000, 20), (1, 40_000), (3, 9_001), (40_000, 1)])
def test_a_listing_that_is_cut_finds_every_key_once(runs: int, segments: int) -> None:
    keys = ManyKeys(runs, segments)
    found = RunFinder(keys, Layout(PREFIX)).find(Selection())
    assert len(found) == runs
    assert all(
        [(segment_range.first, len(segment_range.sizes)) for segment_range in run.segment_ranges] == [(0, segments)]
        for run in found
    )
    assert keys.requests <= runs * segments / 1000 * 2 + 120


def test_only_wanted_folders_are_listed() -> None:
    keys = ManyKeys(2000, 20)
    found = RunFinder(keys, Layout(PREFIX)).find(Selection(Names((Pattern("svc.p1?"),)), Names((Pattern("run-0000*"),))))
    assert {run.run.fqn for run in found} == {f"svc.p1{digit}" for digit in range(10)}
    assert all(run.run.run_id.startswith("run-0000") for run in found)
    assert keys.requests <= 20
