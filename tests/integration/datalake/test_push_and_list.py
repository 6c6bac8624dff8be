"""Pushed files are listed: by time, place, kind and work, in all formats of the client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.datalake.client import Datalake, file_id, fingerprint

LINES = b"GET /index.html 200\nGET /gr\xc3\xb6\xc3\x9fe 404\n"
# Of datalake's own README.
START, END = "2015-03-20T00:05:32.345Z", "2015-03-20T23:59:01.114Z"
START_MS, END_MS = 1426809932345, 1426895941114
DAY = {"start": "2015-03-20", "end": "2015-03-21"}
INTERVAL = {"start": START, "end": END}


def log_file(folder: Path, name: str = "nginx.log", content: bytes = LINES) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.behavior("The unmodified datalake client pushes a file and lists it with its metadata.")
def test_a_small_file_is_listed_with_its_metadata(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    path = log_file(tmp_path, "größe 表 #1%20.log")
    url = datalake.push(path, what=what, where=where, **INTERVAL)
    [record] = datalake.listed(what=what, **DAY)
    assert record["metadata"] == {
        "version": 0,
        "start": START_MS,
        "end": END_MS,
        "start_iso": START,
        "end_iso": END,
        "path": str(path),
        "where": where,
        "what": what,
        "work_id": None,
        "id": file_id(url),
        "hash": fingerprint(LINES),
    }
    assert (record["url"], record["http_url"], record["size"]) == (url, datalake.http_url(url), len(LINES))
    assert isinstance(record["create_time"], int)


def test_the_formats_url_http_json_and_human(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    url = datalake.push(log_file(tmp_path), what=what, where=where, **INTERVAL)
    [record] = datalake.listed(what=what, **DAY)
    assert datalake.listing(what, **DAY) == datalake.listing(what, "--format", "url", **DAY) == [url]
    assert datalake.listing(what, "--format", "http", **DAY) == [datalake.http_url(url)]
    assert [json.loads(line) for line in datalake.listing(what, "--format", "json", **DAY)] == [record]
    assert (
        json.loads(datalake.run("list", what, "--format", "json-pretty", "--start", "2015-03-20", "--end", "2015-03-21")) == record
    )
    human = datalake.listing(what, "--format", "human", **DAY)
    assert {f"url: {url}", f"what: {what}", f"where: {where}", "work_id: None", f"size: {len(LINES)}"} < set(human)
    assert {"start: 2015-03-20T00:05:32.345000+00:00", "end: 2015-03-20T23:59:01.114000+00:00"} < set(human)


def test_a_place_is_chosen_from_a_days_files(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    path = log_file(tmp_path)
    here = datalake.push(path, what=what, where=where, **INTERVAL)
    there = datalake.push(path, what=what, where=where + "-2", **INTERVAL)
    datalake.listed(2, what=what, **DAY)
    assert sorted(datalake.listing(what, **DAY)) == sorted([here, there])
    assert datalake.listing(what, where=where, **DAY) == [here]
    assert datalake.listing(what, where=where + "-2", **DAY) == [there]
    assert datalake.listing(what, where=where[:-1], **DAY) == []
    assert datalake.listing(what, where=where, start="2015-03-21", end="2015-03-22") == []


def test_several_kinds_at_once(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    """The README's ``--what syslog,foobar``; version 2.5 passes the argument on unchanged."""
    path = log_file(tmp_path)
    kinds = [f"{what}-{name}" for name in ("syslog", "foobar", "other")]
    urls = {kind: datalake.push(path, what=kind, where=where, **INTERVAL) for kind in kinds}
    for kind in kinds:
        datalake.listed(what=kind, **DAY)
        assert datalake.listing(kind, **DAY) == [urls[kind]]
    two = sorted([urls[kinds[0]], urls[kinds[1]]])
    both = ",".join(kinds[:2])
    assert sorted(record["url"] for record in datalake.records(what=both, **DAY)) == two
    assert sorted(record["url"] for record in datalake.records(what=both, where=where, **DAY)) == two
    assert sorted(datalake.listing(both, **DAY)) == two
    assert sorted(datalake.listing("*", where=where, **DAY)) == sorted(urls.values())


def test_the_files_of_a_work(datalake: Datalake, what: str, where: str, work_id: str, tmp_path: Path) -> None:
    path = log_file(tmp_path)
    common: dict[str, Any] = {"what": what, "work_id": work_id}
    here = datalake.push(path, where=where, **INTERVAL, **common)
    there = datalake.push(path, where=where + "-2", start="2001-01-01", end="2001-01-02", **common)
    etl = datalake.push(path, what=what + "-etl", where=where, work_id=work_id, **INTERVAL)
    datalake.push(path, what=what, where=where, work_id=work_id + "0", **INTERVAL)
    datalake.listed(2, what=what, work_id=work_id)
    datalake.listed(what=what + "-etl", work_id=work_id)
    datalake.listed(what=what, work_id=work_id + "0")
    assert datalake.listing(what, work_id=work_id) == [there, here]
    assert datalake.listing(what, work_id=work_id, where=where) == [here]
    assert datalake.listing(what + "-etl", work_id=work_id) == [etl]
    assert datalake.records(what=what, work_id=work_id)[1]["metadata"]["work_id"] == work_id


def test_a_file_pushed_now_without_an_interval_of_its_own(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    """``now`` is the client's notation for a time, also in a list."""
    url = datalake.push(log_file(tmp_path), what=what, where=where, start="now", end="now")
    datalake.listed(what=what, start="2015-03-20", end="now")
    assert datalake.listing(what, start="2015-03-20", end="now") == [url]
