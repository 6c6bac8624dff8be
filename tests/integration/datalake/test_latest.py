"""The latest file of a kind and a place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake
from tests.integration.preloaded import Done

CONTENT = b"the state of things\n"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_bytes(CONTENT)
    return path


def ago(**span: int) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat(timespec="milliseconds")


def refused(done: Done) -> bool:
    return done.code == 2 and "(NoSuchFile)" in done.last_line and "Traceback" not in done.error


def test_the_latest_start_wins_in_any_order_of_arrival(datalake: Datalake, what: str, where: str, report: Path) -> None:
    times = [ago(days=3), ago(days=1), ago(days=2)]
    urls = [datalake.push(report, what=what, where=where, start=start, end="now") for start in times]
    datalake.push(report, what=what, where=where + "-2", start="now")
    datalake.listed(3, what=what, where=where, start=times[0], end="now")
    datalake.listed(what=what, where=where + "-2", start=times[0], end="now")
    assert datalake.run("latest", what, where) == urls[1] + "\n"
    assert datalake.run("latest", "--format", "http", what, where) == datalake.http_url(urls[1]) + "\n"
    record = json.loads(datalake.run("latest", "--format", "json", what, where))
    assert record in datalake.records(what=what, where=where, start=times[0], end="now")
    human = datalake.run("latest", "--format", "human", what, where).splitlines()
    assert {f"url: {urls[1]}", f"what: {what}", f"where: {where}"} < set(human)


def test_the_latest_is_fetched_by_its_address(datalake: Datalake, what: str, where: str, report: Path, tmp_path: Path) -> None:
    datalake.push(report, what=what, where=where, start="now")
    datalake.listed(what=what, start=ago(days=1), end="now")
    address = datalake.run("latest", "--format", "http", what, where)
    name = datalake.run("fetch", stdin=address, cwd=tmp_path).strip()
    assert (tmp_path / name).read_bytes() == CONTENT


def test_an_old_file_needs_a_larger_lookback(datalake: Datalake, what: str, where: str, report: Path) -> None:
    start = ago(days=100)
    url = datalake.push(report, what=what, where=where, start=start)
    datalake.listed(what=what, start=start, end=start)
    assert refused(datalake.attempt("latest", what, where))
    assert refused(datalake.attempt("latest", "--lookback", "90", what, where))
    assert datalake.run("latest", "--lookback", "110", what, where) == url + "\n"


def test_a_file_of_the_day_after_tomorrow_is_not_the_latest_yet(datalake: Datalake, what: str, where: str, report: Path) -> None:
    start, soon, later = ago(days=1), ago(hours=-20), ago(days=-2)
    datalake.push(report, what=what, where=where, start=start)
    next_day = datalake.push(report, what=what, where=where, start=soon)
    datalake.push(report, what=what, where=where, start=later)
    datalake.listed(3, what=what, start=start, end=later)
    assert datalake.run("latest", what, where) == next_day + "\n"


def test_there_is_no_latest_of_a_kind_or_place_that_nobody_pushed(datalake: Datalake, what: str, where: str, report: Path) -> None:
    datalake.push(report, what=what, where=where, start="now")
    datalake.listed(what=what, start=ago(days=1), end="now")
    for names in [(what + "-no", where), (what, where + "-no"), (where, what)]:
        assert refused(datalake.attempt("latest", *names)), names
