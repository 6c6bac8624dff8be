"""Partitions, their changes, rows and timestamps, without a store."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.coordination import ItemTtl, Partition, Status, WorkSource
from chalicelib.coordination.administration import read_cursor, write_cursor
from chalicelib.coordination.partition import (
    GLOBAL_KEY,
    format_timestamp,
    format_timestamp_us,
    from_row,
    new_partition,
    parse_timestamp_ms,
    parse_timestamp_us,
    to_row,
    upper_bound,
)
from chalicelib.coordination.store import IndexPosition
from chalicelib.errors import DamagedPartitionError, InvalidConfigurationError, InvalidInputError

MS = st.integers(-62_135_596_800_000, 253_402_300_000_000)
TEXTS = st.text(min_size=1, max_size=40)
PARTITIONS = st.builds(
    Partition,
    source=TEXTS,
    key=TEXTS,
    status=st.sampled_from(Status),
    priority=MS.map(format_timestamp),
    owner=st.none() | TEXTS,
    timeout_ms=st.none() | MS,
    reopen_ms=st.none() | MS,
    state=st.none() | st.dictionaries(TEXTS, st.integers() | TEXTS).map(json.dumps),
    closed_count=st.integers(0, 10**6),
    version=st.integers(0, 10**12),
    expires_s=st.none() | st.integers(0, 10**11),
    other=st.dictionaries(TEXTS.map(lambda name: f"x-{name}"), TEXTS | st.integers() | st.lists(TEXTS), max_size=3),
)


@given(PARTITIONS)
def test_row_has_all_of_a_partition(partition: Partition) -> None:
    row = to_row(partition)
    assert from_row(row) == partition
    assert None not in row.values(), "what has no value is left out"
    assert row["sourceStatusCombinationKey"] == f"{partition.source}|{partition.status.value}"


@given(MS, MS)
def test_texts_sort_as_the_times_do(one: int, other: int) -> None:
    assert (format_timestamp(one) < format_timestamp(other)) == (one < other)
    assert parse_timestamp_ms(format_timestamp(one)) == one


@given(MS.map(lambda ms: ms * 1000), st.integers(0, 999_999))
def test_microseconds_are_preserved(us: int, more: int) -> None:
    assert parse_timestamp_us(format_timestamp_us(us + more)) == us + more


@given(MS, st.integers(0, 10_000), st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"]))
def test_upper_bound_sorts_behind_all_earlier_timestamps(ms: int, earlier_ms: int, digits: str) -> None:
    """Those of Java too, which omits digits of zero."""
    earlier = max(ms - earlier_ms, -62_135_596_800_000)
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=earlier // 1000 * 1000 if digits == "seconds" else earlier)
    text = moment.isoformat(timespec="microseconds" if digits == "nanoseconds" else digits)
    text += ("789" if digits == "nanoseconds" else "") + "Z"
    assert text <= upper_bound(ms)
    assert upper_bound(ms) < format_timestamp(ms + 1000)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T00:00:01.000001Z", 1_000_001),
        ("1970-01-01T00:00:01.123456789Z", 1_123_456),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999Z", -1000),
    ],
)
def test_foreign_timestamps_are_parsed(text: str, us: int) -> None:
    assert parse_timestamp_us(text) == us


@pytest.mark.parametrize("text", ["", "now", "1970-01-01T00:00:00", "+12345-01-01T00:00:00Z", "12"])
def test_invalid_timestamps(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_timestamp_us(text)


GOOD = {"sourceIdentifier": "s|PARTITION", "sourcePartitionKey": "k", "sourcePartitionStatus": "UNASSIGNED", "version": 0}


def test_mandatory_attributes_of_a_row() -> None:
    assert from_row(GOOD) == Partition("s|PARTITION", "k", Status.UNASSIGNED, "")
    nulls = dict.fromkeys(("partitionOwner", "partitionOwnershipTimeout", "reOpenAt", "partitionProgressState", "closedCount"))
    assert from_row(GOOD | nulls) == from_row(GOOD), "NULL is as good as nothing"


@pytest.mark.parametrize(
    "broken",
    [
        {"sourcePartitionStatus": "LOST"},
        {"sourcePartitionStatus": None},
        {"version": "x"},
        {"version": None},
        {"partitionOwnershipTimeout": "soon"},
        {"reOpenAt": 12},
        {"closedCount": "many"},
    ],
    ids=str,
)
def test_damaged_row_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(DamagedPartitionError, match="key='k'"):
        from_row(GOOD | broken)
    with pytest.raises(DamagedPartitionError):
        from_row({name: value for name, value in GOOD.items() if name not in broken} if set(broken) <= set(GOOD) else GOOD | broken)


def test_changes_are_new_partitions_of_the_next_version() -> None:
    fresh = new_partition("s", "k", 1_000_000)
    assert (fresh.version, fresh.closed_count, fresh.status, fresh.priority) == (0, 0, Status.UNASSIGNED, format_timestamp(1000))
    taken = fresh.assigned("me", 5000)
    assert (taken.version, taken.owner, taken.timeout_ms, taken.priority) == (1, "me", 5000, format_timestamp(5000))
    renewed = taken.renewed(7000)
    assert (renewed.version, renewed.timeout_ms, renewed.priority) == (2, 7000, format_timestamp(7000))
    assert renewed.renewed(6000).timeout_ms == 7000, "never for a shorter time"
    done = renewed.completed()
    assert (done.version, done.status, done.owner, done.timeout_ms, done.reopen_ms) == (3, Status.COMPLETED, None, None, None)
    assert done.priority == renewed.priority
    put_off = renewed.closed(9000, 2)
    assert (put_off.status, put_off.closed_count, put_off.reopen_ms, put_off.priority) == (
        Status.CLOSED,
        1,
        9000,
        format_timestamp(9000),
    )
    assert (put_off.assigned("me", 1).reopen_ms, put_off.assigned("me", 1).closed_count) == (None, 1)
    last = put_off.assigned("me", 1).closed(9000, 2)
    assert (last.status, last.closed_count, last.reopen_ms) == (Status.COMPLETED, 2, None)
    again = last.retried(4000)
    assert (again.status, again.closed_count, again.priority, again.version) == (
        Status.UNASSIGNED,
        0,
        format_timestamp(4000),
        last.version + 1,
    )
    assert fresh == new_partition("s", "k", 1_000_000), "and the old one is as it was"


@pytest.mark.parametrize("status", Status)
def test_retention(status: Status) -> None:
    partition = Partition("s", "k", status, "p", expires_s=1)
    completed = status is Status.COMPLETED
    assert ItemTtl().stamped(partition, 5000).expires_s is None
    assert ItemTtl(10).stamped(partition, 5000).expires_s == (15 if completed else None)
    assert ItemTtl(10, everything=True).stamped(partition, 5000).expires_s == 15
    assert ItemTtl(10, everything=True).stamped(Partition("s", GLOBAL_KEY, status, "p"), 5000).expires_s is None


def test_sources() -> None:
    assert (WorkSource("a").partitions, WorkSource("a").global_state) == ("a|PARTITION", "a|GLOBAL_STATE")
    assert WorkSource("a", "x").partitions == "x|a|PARTITION"
    for name, prefix in (("", ""), ("a|b", ""), ("a", "b|c"), ("x" * 256, "")):
        with pytest.raises(InvalidConfigurationError):
            WorkSource(name, prefix)


@given(TEXTS, TEXTS)
def test_cursors_come_back(priority: str, key: str) -> None:
    assert read_cursor(write_cursor(IndexPosition(priority, key))) == IndexPosition(priority, key)


@pytest.mark.parametrize("key", ["", "k" * 1025, "ü" * 513, "caf\udce9"])
def test_key_that_dynamodb_cannot_store_is_an_error(key: str) -> None:
    with pytest.raises(InvalidInputError):
        new_partition("compaction|PARTITION", key, 0)
