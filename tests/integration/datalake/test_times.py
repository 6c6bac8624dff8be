"""Files by time: bounds are part of the interval, a file of several days is one file, an instant has only a start."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake, file_id


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_bytes(b"a line\n")
    return path


def test_a_file_of_three_days_is_listed_once_and_found_by_each_day(datalake: Datalake, what: str, where: str, log: Path) -> None:
    url = datalake.push(log, what=what, where=where, start="2016-02-28T12:00:00.500Z", end="2016-03-01T12:00:00.250Z")
    datalake.listed(what=what, start="2016-02-28", end="2016-03-02")
    assert datalake.listing(what, start="2016-02-01", end="2016-04-01") == [url]
    for first, last in [("2016-02-28", "2016-02-29"), ("2016-02-29", "2016-03-01"), ("2016-03-01", "2016-03-02")]:
        assert datalake.listing(what, start=first, end=last) == [url], first
    assert datalake.listing(what, start="2016-02-29T05:00", end="2016-02-29T05:00") == [url]

    # A query includes its bounds.
    assert datalake.listing(what, start="2016-02-28", end="2016-02-28T12:00:00.500Z") == [url]
    assert datalake.listing(what, start="2016-02-28", end="2016-02-28T12:00:00.499Z") == []
    assert datalake.listing(what, start="2016-03-01T12:00:00.250Z", end="2016-03-02") == [url]
    assert datalake.listing(what, start="2016-03-01T12:00:00.251Z", end="2016-03-02") == []


def test_an_instant_is_found_by_its_start_only(datalake: Datalake, what: str, where: str, log: Path) -> None:
    url = datalake.push(log, what=what, where=where, start="2016-02-28T23:59:59.999Z")
    [record] = datalake.listed(what=what, start="2016-02-28", end="2016-02-29")
    assert (record["metadata"]["end"], record["metadata"]["start"]) == (None, 1456703999999)
    instant = "2016-02-28T23:59:59.999Z"
    assert datalake.listing(what, start=instant, end=instant) == [url]
    assert datalake.listing(what, start="2016-02-28", end="2016-02-28T23:59:59.998Z") == []
    assert datalake.listing(what, start="2016-02-29", end="2016-03-05") == []
    human = datalake.listing(what, "--format", "human", start=instant, end=instant)
    assert "end: null" in human and "start: 2016-02-28T23:59:59.999000+00:00" in human


def test_times_in_all_forms_that_the_client_reads(datalake: Datalake, what: str, where: str, log: Path) -> None:
    url = datalake.push(log, what=what, where=where, start="1456660800", end="1456660801500")
    [record] = datalake.listed(what=what, start="2016-02-28", end="2016-02-29")
    assert (record["metadata"]["start"], record["metadata"]["end"]) == (1456660800000, 1456660801500)
    for start, end in [
        ("1456660800", "1456660800"),
        ("1456660801500", "1456660802000"),
        ("2016-02-28T13:00:00+01:00", "2016-02-28T13:00:00+01:00"),
        ("Sun Feb 28 12:00:00 UTC 2016", "Feb 28 2016 12:00:01.5"),  # as `date -u` prints it
    ]:
        assert datalake.listing(what, start=start, end=end) == [url], start


def test_a_file_from_before_march_1973_keeps_its_time(datalake: Datalake, what: str, where: str, work_id: str, log: Path) -> None:
    """Its milliseconds are few enough to be mistaken for seconds when they are normalized again, as the client does on reading. So
    it is found by its work id; the client cannot query times before 1973."""
    url = datalake.push(log, what=what, where=where, work_id=work_id, start="1971-05-01T00:00:00Z")
    [record] = datalake.listed(what=what, work_id=work_id)
    assert record["metadata"]["start"] == 41904000000 and record["metadata"]["start_iso"] == "1971-05-01T00:00:00.000Z"
    assert datalake.listing(what, work_id=work_id) == [url]
    assert record["metadata"]["id"] == file_id(url)


def test_a_file_that_is_pushed_again_under_its_id_is_found_where_it_is_now(
    datalake: Datalake, what: str, where: str, work_id: str, log: Path
) -> None:
    file = {"filename": str(log), "what": what, "where": where, "work_id": work_id, "id": uuid.uuid4().hex}
    [url] = datalake.call("push_many", files=[file | {"start": "2016-02-28", "end": "2016-03-01"}])
    datalake.listed(what=what, start="2016-02-28", end="2016-02-29")
    assert datalake.call("push_many", files=[file | {"start": "2016-07-01"}]) == [url]
    datalake.listed(what=what, start="2016-07-01", end="2016-07-02")
    assert datalake.listing(what, start="2016-02-01", end="2016-04-01") == []
    assert datalake.listing(what, start="2016-02-01", end="2016-12-01") == datalake.listing(what, work_id=work_id) == [url]
