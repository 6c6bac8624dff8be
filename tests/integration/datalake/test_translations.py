"""Translation expressions: metadata made of the file's path."""

from __future__ import annotations

from pathlib import Path

from tests.integration.datalake.client import Datalake

JOB = r".*job-(?P<job_id>[0-9]+).log$~job{job_id}"


def test_translate_prints_what_a_path_becomes(datalake: Datalake) -> None:
    assert datalake.run("translate", JOB, "/var/log/jobs/job-1234.log") == "job1234\n"
    swapped = r"^/(?P<a>\w+)/(?P<b>\w+)/.*~{b}-{a}"
    assert datalake.run("translate", swapped, "/var/log/jobs/job-1234.log") == "log-var\n"


def test_push_takes_expressions_for_what_where_and_work_id(
    datalake: Datalake, what: str, where: str, work_id: str, tmp_path: Path
) -> None:
    folder = tmp_path / where / what
    folder.mkdir(parents=True)
    path = folder / f"{work_id}.0.log"
    path.write_bytes(b"a line\n")
    url = datalake.push(
        path,
        start="2020-02-29",
        where=r".*/(?P<host>[^/]+)/[^/]+/[^/]+$~{host}",
        what=r".*/(?P<kind>[^/]+)/[^/]+$~{kind}-log",
        work_id=r".*/(?P<work>[^/.]+)[^/]*$~{work}",
    )
    [record] = datalake.listed(what=f"{what}-log", work_id=work_id)
    metadata = record["metadata"]
    assert (record["url"], metadata["where"], metadata["work_id"]) == (url, where, work_id)
    assert datalake.listing(f"{what}-log", work_id=work_id, where=where) == [url]
    assert datalake.listing(f"{what}-log", where=where, start="2020-02-29", end="2020-03-01") == [url]


def test_a_default_place_is_taken_from_the_settings(datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"a line\n")
    datalake.run("push", "--what", what, "--start", "2020-02-29", path, DATALAKE_DEFAULT_WHERE=where)
    [record] = datalake.listed(what=what, start="2020-02-29", end="2020-03-01")
    assert record["metadata"]["where"] == where
