"""Keys of the listing: texts sort like their values, and a query for any moment of a file reads its rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import (
    CLASSES_MS,
    LISTING,
    SortKeyIndex,
    directory_keys,
    duration_class,
    indexes_of,
    key_after,
    key_before,
    last_sort_key,
    listing_rows,
    period_number,
    period_text,
    sort_key,
)
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.timestamps import DAY_MS, FIRST_MS, LAST_MS
from tests.support.file_ids import FILE_IDS

MAX_DURATION_MS = 29 * DAY_MS
INSTANTS = st.integers(FIRST_MS, LAST_MS)
IDS = FILE_IDS
PERIODS = st.integers(FIRST_MS // 60_000, LAST_MS // 60_000)
"""No period is shorter than a minute."""
STARTS = st.one_of(
    st.integers(FIRST_MS, LAST_MS - MAX_DURATION_MS), st.integers(-5, 5), st.sampled_from([FIRST_MS, -DAY_MS, 0, DAY_MS])
)
DURATIONS = st.one_of(
    st.none(), st.integers(0, MAX_DURATION_MS), st.sampled_from([each for each in CLASSES_MS if each <= MAX_DURATION_MS])
)


def record(start: int, duration: int | None, **other: Any) -> FileRecord:
    document: dict[str, Any] = {
        "version": 0,
        "start": start,
        "end": None if duration is None else start + duration,
        "path": "/a",
        "work_id": None,
        "where": "web-1",
        "what": "syslog",
        "id": "0" * 32,
        "hash": "0" * 32,
    }
    return FileRecord("s3://b/k", 1, 2, Metadata.model_validate(document | other))


RECORDS = st.builds(
    lambda start, duration, id_, work_id: record(start, duration, id=id_, work_id=work_id),
    STARTS,
    DURATIONS,
    IDS,
    st.sampled_from([None, "job-1"]),
)


@given(INSTANTS, IDS, INSTANTS, IDS)
@example(-1, "0" * 32, 0, "0" * 32)
@example(FIRST_MS, "0" * 32, LAST_MS, "0" * 32)
def test_positions_sort_as_starts_and_ids_do(start: int, one: str, other_start: int, other: str) -> None:
    assert (sort_key(start, one) < sort_key(other_start, other)) == ((start, one) < (other_start, other))
    assert (sort_key(start, one).encode() < sort_key(other_start, other).encode()) == ((start, one) < (other_start, other))


@given(INSTANTS, IDS)
def test_a_position_without_an_id_is_before_all_that_start_then(start: int, file_id: str) -> None:
    assert sort_key(start).encode() < sort_key(start, file_id).encode() < last_sort_key(start).encode()
    assert start == LAST_MS or last_sort_key(start) < sort_key(start + 1)


@given(INSTANTS, IDS, st.sampled_from([-1, 0, 0, 0, 0, 1]), IDS)
@example(0, "foo", 0, "foo ")
@example(0, "foo", 0, "fo")
@example(0, "foo", 0, "fon" + "\U0010ffff" * 127)
@example(0, "foo~", 0, "foo}é")
@example(0, "\ue000", 0, "\ud7ff\U0010ffff")
@example(0, "\U0010ffff" * 128, 0, "\U0010ffff" * 127 + "\U0010fffe")
@example(0, "a" * 511 + "b", 0, "a" * 512)
@example(0, "a" * 509 + "b", 0, "a" * 509 + "aé")
@example(0, " ", -1, "\U0010ffff" * 128)
def test_bounds_next_to_a_position_separate_it_from_all_others(start: int, file_id: str, later_ms: int, other: str) -> None:
    """Pages continue from these bounds, inclusive ones: none repeats its file, and none skips another."""
    at, another = sort_key(start, file_id), sort_key(start + later_ms, other)
    assert key_before(at).encode() < at.encode() < key_after(at).encode()
    assert (another <= key_before(at)) == (another < at)
    assert (another >= key_after(at)) == (another > at)
    assert all(0 < len(bound.encode()) <= 1024 for bound in (key_before(at), key_after(at)))


@given(PERIODS, PERIODS)
@example(-1, 0)
def test_periods_sort_as_texts(one: int, other: int) -> None:
    assert (period_text(one) < period_text(other)) == (one < other)
    assert period_number(period_text(one)) == one


@given(st.integers(0, 30 * DAY_MS))
def test_every_duration_has_a_class(duration_ms: int) -> None:
    class_ = duration_class(duration_ms)
    assert duration_ms <= CLASSES_MS[class_]
    assert class_ == 0 or duration_ms > CLASSES_MS[class_ - 1]
    assert duration_ms <= 60_000 or 2 * duration_ms > CLASSES_MS[class_], (
        "a file lasts more than half of what the longest of its index does"
    )


@pytest.mark.parametrize(
    ("duration_ms", "class_"), [(0, 0), (1, 1), (60_000, 1), (60_001, 2), (240_000, 3), (240_001, 4), (29 * DAY_MS, 17)]
)
def test_classes(duration_ms: int, class_: int) -> None:
    assert duration_class(duration_ms) == class_


@given(RECORDS)
def test_a_file_is_in_each_of_its_lanes_in_every_period_that_it_overlaps(file: FileRecord) -> None:
    rows, metadata = listing_rows(file), file.metadata
    for index in indexes_of(file):
        assert metadata.last_ms - metadata.start <= index.longest_ms
        held = {key.partition for key in rows if key.partition in {index.partition(period) for period in index.periods_of(file)}}
        for moment in (metadata.start, (metadata.start + metadata.last_ms) // 2, metadata.last_ms):
            assert index.partition(index.period_of(moment)) in held
    assert all(FileRecord.from_text(row["document"]) == file for row in rows.values())
    assert all((row["partition"], row["at"]) == (key.partition, key.sort) and key.table == LISTING for key, row in rows.items())
    assert {key.sort for key in rows} == {sort_key(metadata.start, file.id)}


@given(STARTS, STARTS)
def test_periods_of_a_lane_follow_each_other(one: int, other: int) -> None:
    for index in indexes_of(record(0, 60_000, work_id="job-1")):
        assert (index.period_of(one) <= index.period_of(other)) or one > other
        if index.period_ms:
            assert index.period_of(one) * index.period_ms <= one < (index.period_of(one) + 1) * index.period_ms


@given(RECORDS)
def test_the_directory_leads_to_every_period_of_a_listed_index(file: FileRecord) -> None:
    keys = {(key.partition, key.sort) for key in directory_keys(file)}
    assert {("n#what", "syslog"), ("n#where", "web-1"), ("n#what@web-1", "syslog"), ("n#where@syslog", "web-1")} <= keys
    for index in indexes_of(file):
        if index.is_listed:
            assert (f"c#{index.scope}", index.class_) in keys
            assert {(index.periods, period_text(period)) for period in index.periods_of(file)} <= keys


@given(RECORDS, st.sampled_from(["what", "where", "work_id"]), st.sampled_from(["a", "a-1", "web-1", "syslog", "j"]))
def test_no_two_lanes_of_different_names_share_a_partition(file: FileRecord, field: str, name: str) -> None:
    metadata = file.metadata
    if getattr(metadata, field) == name:
        return
    other = FileRecord("s3://b/k", 1, 2, metadata.model_validate(metadata.document() | {field: name}))

    def scoped(of: FileRecord) -> set[tuple[str, SortKeyIndex]]:
        return {
            (key.partition, index)
            for index in indexes_of(of)
            for key in listing_rows(of)
            if key.partition.startswith(index.scope + "#")
        }

    shared = {partition for partition, _ in scoped(file)} & {partition for partition, _ in scoped(other)}
    indexes = {index for partition, index in scoped(file) | scoped(other) if partition in shared}
    assert all(index in set(indexes_of(file)) and index in set(indexes_of(other)) for index in indexes)


def test_the_rows_of_the_longest_file_fit_into_a_transaction_with_those_of_its_days() -> None:
    longest = record(0, 30 * DAY_MS - 1, work_id="job-1")
    assert len(longest.file_rows()) + len(listing_rows(longest)) + 4 <= 100
