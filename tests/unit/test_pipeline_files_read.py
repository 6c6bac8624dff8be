"""Files of an application read as one stream: by time, in all formats, with missing files, and in bounded memory."""

from __future__ import annotations

import gzip
import io
import logging
import random
import tracemalloc
import zlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import DamagedLogError
from chalicelib.pipelines.files import appendable_object, avro, gzip_members, streams
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.reading import FileEventQuery, FileReader
from chalicelib.pipelines.files.rows import FileRows
from chalicelib.ports import Key, Put, PutOptions
from tests.files_harness import START_MS, FilesHarness, commit, put, record_of, run_writer

HOUR_MS = 3_600_000
FORMATS = ("jsonl", "avro", "parquet", "text", "jsonl+gzip", "text+gzip")


def of_format(name: str) -> dict[str, str]:
    """A handler's options."""
    format_, _, compress = name.partition("+")
    return {"format": format_, "compress": compress}


def reading(site: FilesHarness) -> FileReader:
    generations = Generations(site.database, site.clock)
    return FileReader(site.store, site.database, generations, lambda what, why: site.warnings.append((what, why)))


def read(site: FilesHarness, **about: Any) -> list[int]:
    """The numbers of the events, from their messages: text has no other field."""
    query = FileEventQuery(**({"base": "files", "namespace": "svc", "app": "flow"} | about))
    return [int(event.message.rsplit(" ", 1)[1]) for event in reading(site).events(query)]


@pytest.mark.parametrize("format_", FORMATS)
def test_many_files_come_as_one_in_order_of_time(format_: str) -> None:
    site, order = FilesHarness(), list(range(60))
    random.Random(7).shuffle(order)
    handler = site.handler(**of_format(format_), max_bytes=500)
    for first in range(0, 60, 6):
        put(site, handler, *sorted(order[first : first + 6]))
    assert len(site.objects()) > 3
    assert read(site) == list(range(60))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("path", ["", "{level}"])
def test_programs_are_merged_or_read_alone(format_: str, path: str) -> None:
    site = FilesHarness(options={"path": path})
    handler = site.handler(**of_format(format_))
    for number in range(12):
        handler.handle(record_of(number, program=f"p{number % 3}", level=(20, 40)[number // 2 % 2]))
    commit(site, handler)
    assert read(site) == list(range(12))
    assert read(site, program="p1") == [1, 4, 7, 10]


def test_a_range_includes_the_file_that_began_before_it() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(10):
        handler.handle(record_of(number, time_ms=START_MS + number * HOUR_MS))
    commit(site, handler)
    for program in (None, "main"):
        found = read(site, program=program, from_ms=START_MS + 3 * HOUR_MS, to_ms=START_MS + 6 * HOUR_MS)
        assert found == [3, 4, 5]


def test_a_range_includes_a_file_whose_first_event_is_later_than_the_range() -> None:
    """A late event follows the one that the file was created for."""
    site = FilesHarness()
    handler = site.handler()
    for number, hour in ((1, 9), (2, 3), (3, 10)):
        handler.handle(record_of(number, time_ms=START_MS + hour * HOUR_MS))
    commit(site, handler)
    assert read(site, program="main", from_ms=START_MS, to_ms=START_MS + 4 * HOUR_MS) == [2]
    assert read(site) == [2, 1, 3]


def test_ranges_are_what_a_list_of_all_events_says() -> None:
    rng = random.Random(3)
    times = {number: START_MS + rng.randrange(5 * 24) * HOUR_MS for number in range(80)}
    site = FilesHarness()
    handler = site.handler(max_bytes=900)
    for number, time_ms in times.items():
        handler.handle(record_of(number, time_ms=time_ms, program=f"p{number % 2}"))
        if number % 9 == 0:
            commit(site, handler)
    commit(site, handler)
    for _ in range(40):
        first, last = sorted(START_MS + rng.randrange(5 * 24) * HOUR_MS for _ in range(2))
        program = rng.choice([None, "p0", "p1"])
        wanted = sorted(n for n, t in times.items() if first <= t < last and program in (None, f"p{n % 2}"))
        found = read(site, program=program, from_ms=first, to_ms=last)
        assert sorted(found) == wanted and [times[n] for n in found] == sorted(times[n] for n in found)


def test_a_range_reads_the_rows_of_its_days_alone() -> None:
    site = FilesHarness()
    handler = site.handler()
    for day in range(50):
        put(site, handler, day, time_ms=START_MS + day * 24 * HOUR_MS)
    site.database.read_rows = 0
    assert read(site, program="main", from_ms=START_MS + 24 * HOUR_MS, to_ms=START_MS + 25 * HOUR_MS) == [1]
    assert site.database.read_rows <= 2


@pytest.mark.behavior("A query for one application returns no events of another whose name begins alike.")
def test_flow1_never_answers_for_flow10() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number, app in enumerate(("flow1", "flow10", "flow1", "flow", "flow1.x")):
        handler.handle(record_of(number, fqn=f"svc.{app}"))
    commit(site, handler)
    assert read(site, app="flow1") == [0, 2] and read(site, app="flow") == [3]


@pytest.mark.behavior("Missing and damaged files do not fail a read.")
@pytest.mark.parametrize("format_", FORMATS)
def test_a_missing_file_is_left_out_with_one_warning(format_: str) -> None:
    site = FilesHarness()
    handler = site.handler(**of_format(format_), max_bytes=100)
    for number in range(6):
        put(site, handler, number, text=f"{'x' * 200} event {number}")
    gone = site.objects()[2]
    site.store.delete(gone)
    assert read(site) == [0, 1, 3, 4, 5]
    assert [what for what, _ in site.warnings] == [gone]


@pytest.mark.parametrize("damage", ["other bytes", "cut"])
@pytest.mark.parametrize("format_", ["jsonl", "avro", "parquet", "jsonl+gzip", "text+gzip"])
def test_a_corrupt_file_is_left_out_with_one_warning(format_: str, damage: str) -> None:
    site = FilesHarness()
    handler = site.handler(**of_format(format_), max_bytes=100)
    for number in range(4):
        put(site, handler, number, text=f"{'x' * 200} event {number}")
    bad = site.objects()[1]
    body = site.store.get(bad).body
    site.store.put(bad, b"\x00nothing that anybody wrote\n" * 50 if damage == "other bytes" else body[:50], PutOptions())
    assert read(site) == [0, 2, 3]
    assert [what for what, _ in site.warnings] == [bad]


def test_a_row_that_makes_no_sense_is_left_out_with_one_warning() -> None:
    site = FilesHarness()
    run_writer(site, 1)
    at = site.rows()[0].at + "x"
    site.database.put_many([Put(Key("pipeline_files", "files", at), {"partition": "files", "at": at, "names": ["a"]})])
    assert read(site) == [1] and [what for what, _ in site.warnings] == [at]


def test_what_was_published_and_not_committed_is_not_read() -> None:
    site = FilesHarness()
    handler = run_writer(site, 1)
    handler.handle(record_of(2))
    handler.pending_writes()
    assert read(site) == [1] and site.warnings == []


@pytest.mark.parametrize("format_", ["jsonl", "avro", "text", "jsonl+gzip", "text+gzip"])
def test_each_beginning_of_a_file_that_grows_can_be_read(format_: str) -> None:
    site = FilesHarness()
    handler = site.handler(**of_format(format_))
    seen = []
    for number in range(5):
        put(site, handler, number)
        seen.append(site.rows()[0].contents.size)
    body = site.store.get(site.objects()[0]).body
    for count, size in enumerate(seen, 1):
        site.store.put(site.objects()[0], body[:size] + b"\x00 what a dead process has left", PutOptions())
        (row,) = site.rows()
        cut = replace(row, contents=replace(row.contents, size=size))
        assert len(list(streams.events_of(site.store, cut))) == count


@pytest.mark.behavior("A pipeline that is created again shows no events of the deleted one.")
def test_a_recreated_pipeline_never_shows_the_old_logs() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    handler = site.handler()
    old = generations.of_run("svc", "svc.flow", "run-1", START_MS)
    put(site, handler, 1, 2, generation=old)
    site.clock.advance(10)
    generations.end("svc", "svc.flow")
    assert read(site) == []
    site.clock.advance(10)
    new = generations.of_run("svc", "svc.flow", "run-2", site.clock.now_ms())
    assert new not in (old, None)
    put(site, handler, 3, generation=new)
    assert read(site) == [3]


def test_events_of_a_pipeline_without_permission_are_not_returned() -> None:
    site = FilesHarness()
    run_writer(site, 1)
    assert read(site, may_see=lambda fqn: fqn != "svc.flow") == []


def test_events_of_text_keep_their_lines_together() -> None:
    site = FilesHarness()
    handler = site.handler(format="text")
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no'
    put(site, handler, 1, text=f"it broke\n{trace}")
    put(site, handler, 2)
    events = list(reading(site).events(FileEventQuery("files", "svc", "flow")))
    assert [(event.time - START_MS, event.level, event.logger, event.message) for event in events] == [
        (1, "INFO", "logger.main", "it broke"), (1, "ERROR", "", trace), (2, "INFO", "logger.main", "event 2"),
    ]  # fmt: skip


@pytest.mark.slow
def test_memory_is_a_piece_of_each_file_that_covers_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNK_BYTES", 65_536)
    site = FilesHarness()
    handler = site.handler(max_bytes=2_000_000)
    for number in range(10_000):
        handler.handle(record_of(number, f"{'x' * 1000} event {number}"))
    commit(site, handler)
    assert len(site.objects()) == 6 or len(site.objects()) == 7
    query = FileEventQuery("files", "svc", "flow")
    tracemalloc.start()
    count = sum(1 for _ in reading(site).events(query))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_000 and peak < 6_000_000


@pytest.mark.parametrize("format_", ["jsonl", "avro", "text", "jsonl+gzip", "text+gzip"])
def test_a_range_begins_near_its_first_event(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the file's first byte: the cost of a page is proportional to its size, not to the file's."""
    monkeypatch.setattr(streams, "CHUNK_BYTES", 2000)
    site = FilesHarness()
    handler = site.handler(**of_format(format_))
    rng = random.Random(2)
    for first in range(0, 2000, 10):
        put(site, handler, *range(first, first + 10), text="")
    (row,) = site.rows()
    assert len(row.contents.landmarks) == appendable_object.MAX_LANDMARKS
    for _ in range(20):
        number = rng.randrange(2000)
        site.store.calls.clear()
        query = FileEventQuery("files", "svc", "flow", from_ms=START_MS + number)
        assert next(iter(reading(site).events(query))).time == START_MS + number
        assert site.store.calls["get"] <= 2 + row.contents.size / 2000 / appendable_object.MAX_LANDMARKS * 3


def test_a_file_is_opened_when_its_time_comes() -> None:
    site = FilesHarness()
    handler = site.handler(max_bytes=100)
    for number in range(20):
        put(site, handler, number)
    site.store.calls.clear()
    events = reading(site).events(FileEventQuery("files", "svc", "flow"))
    assert next(events).line == 0
    assert site.store.calls["get"] <= 2


def test_pages_of_rows_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.pipelines.files.table.PAGE_ROWS", 7)
    site = FilesHarness()
    handler = site.handler()
    for number in range(40):
        handler.handle(record_of(number, program=f"p{number}"))
    commit(site, handler)
    assert len(list(FileRows(site.database).listed("files", ""))) == 40 and read(site) == list(range(40))


EVENTS_OF_ANY_KIND = st.lists(
    st.builds(
        lambda time, level, logger, message, run_id, line: logging.makeLogRecord({
            "name": logger, "levelname": level, "msg": message, "runlake_fqn": "svc.flow", "runlake_run_id": run_id,
            "runlake_line": line, "runlake_time_ms": time,
        }),
        st.integers(0, 253_402_300_799_999), st.sampled_from(["INFO", ""]), st.text(max_size=5), st.text(max_size=300),
        st.text(max_size=5), st.integers(-1, 10**12),
    ),
    max_size=20,
)  # fmt: skip


@given(EVENTS_OF_ANY_KIND, st.integers(1, 40))
def test_avro_is_what_another_library_reads(records: list[logging.LogRecord], piece: int) -> None:
    encoder = avro.AvroEncoder()
    for record in records:
        encoder.add(record, record.getMessage(), record.runlake_time_ms)  # type: ignore[attr-defined]
    body = avro.HEADER + encoder.take()
    schema = dict(
        avro.SCHEMA,
        fields=[
            {"name": each["name"], "type": each["type"] if isinstance(each["type"], str) else "long"}
            for each in avro.SCHEMA["fields"]
        ],
    )
    theirs = list(fastavro.reader(io.BytesIO(body), reader_schema=schema))
    ours = [event.document() for event in avro.read(iter([body[at : at + piece] for at in range(0, len(body), piece)]), 0)]
    expected = [
        {
            "time": record.runlake_time_ms, "level": record.levelname, "logger": as_stored(record.name),
            "message": as_stored(record.msg), "fqn": "svc.flow", "runId": as_stored(record.runlake_run_id), "line": record.runlake_line,
        }
        for record in records
    ]  # fmt: skip
    assert ours == expected
    assert [dict(each, time=_ms(each["time"])) for each in theirs] == expected


def as_stored(text: str) -> str:
    return text.encode(errors="replace").decode()


def _ms(time: Any) -> int:
    return time if isinstance(time, int) else (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(st.data())
def test_damaged_avro_is_damaged_and_never_anything_else(data: st.DataObject) -> None:
    encoder = avro.AvroEncoder()
    for number in range(5):
        encoder.add(record_of(number), f"event {number}", START_MS)
    body = bytearray(avro.HEADER + encoder.take())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    with suppress(DamagedLogError):
        list(avro.read(iter([bytes(body[:cut])]), 0))


@pytest.mark.parametrize("change", ["schema", "codec", "magic", "no schema"])
def test_avro_of_another_schema_or_codec_is_refused(change: str) -> None:
    header = {
        "schema": avro.HEADER.replace(b'"runId"', b'"runid"'), "codec": avro.HEADER.replace(b"deflate", b"snapppy"),
        "magic": b"Obj\x02" + avro.HEADER[4:], "no schema": avro.HEADER.replace(b"avro.schema", b"avro.schemb"),
    }[change]  # fmt: skip
    with pytest.raises(DamagedLogError):
        list(avro.read(iter([header]), 0))


def test_an_avro_block_that_expands_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_BLOCK_BYTES", 1000)
    encoder = avro.AvroEncoder()
    encoder.add(record_of(1), "x" * 2000, START_MS)
    with pytest.raises(DamagedLogError, match="too large"):
        list(avro.read(iter([avro.HEADER + encoder.take()]), 0))


def test_cost_of_small_members_does_not_grow_with_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib copies all that it is given beyond a member's end."""
    members, given_bytes, inflater = 20_000, [0], zlib.decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._inflate = inflater(wbits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflate, name)

        def decompress(self, data: bytes, limit: int) -> bytes:
            given_bytes[0] += len(data)
            return self._inflate.decompress(data, limit)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    body = gzip_members.member(b"a\n") * members
    assert b"".join(gzip_members.expanded(iter([body]))) == b"a\n" * members
    assert given_bytes[0] < members * 20_000


def test_a_compressed_file_is_one_that_gzip_reads_and_anything_else_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    site = FilesHarness()
    handler = site.handler(compress="gzip")
    for number in range(3):
        put(site, handler, number)
    (key,) = site.objects()
    body = site.store.get(key).body
    assert key.endswith("/00000000.jsonl.gz") and len(gzip.decompress(body).splitlines()) == 3
    monkeypatch.setattr(gzip_members, "PIECE_BYTES", 7)
    for piece in (1, 10, len(body)):
        pieces = [body[at : at + piece] for at in range(0, len(body), piece)]
        assert b"".join(gzip_members.expanded(iter(pieces))) == gzip.decompress(body)
    for bad in (body[:-1], body + b"x", b"x", body[: len(body) // 2]):
        with pytest.raises(DamagedLogError, match="gzip"):
            list(gzip_members.expanded(iter([bad])))
    monkeypatch.setattr(gzip_members, "MAX_LINE_BYTES", 50)
    with pytest.raises(DamagedLogError, match="too long limit=50"):
        list(gzip_members.expanded(iter([body])))
