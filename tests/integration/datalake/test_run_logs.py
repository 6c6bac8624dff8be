"""Logs of runs are files of the archive: the datalake client lists and fetches them.

They are in a bucket other than DATALAKE_STORAGE_URL, and the client fetches from no other bucket. So a record's ``url``, which
``list`` prints by default, is a URL of the API, whereas a pushed file has one of S3.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.datalake.client import Datalake, file_id, fingerprint, request

LOGS = "/v1/services/ingestionPipelines/logs"
BATCHES = ["one\ntwo\n", "Größe 表\n", "\x1b[31mlast\x1b[0m\r\n"]
CLOCK_TOLERANCE_MS = 2_000


def slug(name: str) -> str:
    """The archive's spelling of run names, reimplemented on purpose."""
    return re.sub("[^a-z0-9_-]+", "_", name.lower()).strip("_")


def write_run(datalake: Datalake, fqn: str, run_id: str, batches: list[str], connector: str = "") -> None:
    """Append batches as a connector does, then close the run."""
    url = f"{datalake.api_url}{LOGS}/{quote(fqn, safe='')}/{run_id}"
    sender = {"connectorId": connector} if connector else {}
    for batch in batches:
        request(url, json.dumps({"logs": batch} | sender).encode(), **{"Content-Type": "application/json"})
    request(url + "/close", b"")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def the_record(datalake: Datalake, fqn: str, run_id: str) -> dict[str, Any]:
    """The finalized run's record, once it exists."""
    [record] = datalake.listed(what=slug(fqn), work_id=slug(run_id))
    return record


@pytest.mark.behavior("The datalake client lists and fetches logs of finished runs.")
@pytest.mark.parametrize("name", ['mysql_prod."a.b".pipe line?#', "svc/with/slashes", "Größe 100%"])
def test_a_closed_run_is_listed_and_fetched_in_both_formats(datalake: Datalake, tmp_path: Path, name: str) -> None:
    fqn, run_id = f"{name}.{uuid.uuid4().hex[:12]}", str(uuid.uuid4())
    write_run(datalake, fqn, run_id, BATCHES, connector="host-1.example")
    content = "".join(BATCHES).encode()
    record = the_record(datalake, fqn, run_id)
    assert (record["size"], record["metadata"]["hash"]) == (len(content), fingerprint(content))
    for form in ("url", "http"):
        listed = datalake.run("list", slug(fqn), "--work-id", slug(run_id), "--format", form)
        fetched = datalake.run("fetch", "--filename-template", f"{form}.log", stdin=listed, cwd=tmp_path)
        assert fetched == f"{form}.log\n"
        assert (tmp_path / f"{form}.log").read_bytes() == content


def test_the_metadata_of_a_run_are_its_own(datalake: Datalake) -> None:
    fqn, run_id = f"svc.times.{uuid.uuid4().hex[:12]}", f"Run.{uuid.uuid4().hex[:12]}"
    before = now_ms()
    write_run(datalake, fqn, run_id, BATCHES, connector="Host-1.example")
    after = now_ms()
    metadata = the_record(datalake, fqn, run_id)["metadata"]
    assert metadata["where"] == "host-1_example"
    assert (metadata["version"], metadata["work_id"]) == (0, slug(run_id))
    assert before - CLOCK_TOLERANCE_MS <= metadata["start"] <= metadata["end"] <= after + CLOCK_TOLERANCE_MS
    assert re.fullmatch("[0-9a-f]{32}", metadata["id"]) and metadata["path"].startswith("/")


def test_runs_are_found_by_time_and_place_and_as_the_latest(datalake: Datalake) -> None:
    fqn, runs = f"svc.latest.{uuid.uuid4().hex[:12]}", [f"run-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    host = f"host-{uuid.uuid4().hex[:12]}"
    hour = {"start": str(now_ms() - 1_800_000), "end": str(now_ms() + 1_800_000)}
    for run_id in runs:
        write_run(datalake, fqn, run_id, [f"of {run_id}\n"], connector=host)
        the_record(datalake, fqn, run_id)
    urls = [record["url"] for record in datalake.listed(2, what=slug(fqn), **hour)]
    assert datalake.listing(slug(fqn), **hour) == datalake.listing(slug(fqn), where=host, **hour) == urls
    assert datalake.listing(slug(fqn), where="another-host", **hour) == []
    assert datalake.run("latest", slug(fqn), host) == urls[1] + "\n"
    assert datalake.run("cat", urls[1]) == f"of {runs[1]}\n\n"


def test_a_run_without_a_connector_is_from_an_unknown_place(datalake: Datalake) -> None:
    fqn, run_id = f"svc.nobody.{uuid.uuid4().hex[:12]}", str(uuid.uuid4())
    write_run(datalake, fqn, run_id, ["a line\n"])
    record = the_record(datalake, fqn, run_id)
    assert record["metadata"]["where"] == "unknown"
    assert datalake.listing(slug(fqn), work_id=slug(run_id), where="unknown") == [record["url"]]
    assert record["http_url"] == f"{datalake.api_url}/v0/archive/files/{record['metadata']['id']}/data"


def test_a_large_run_is_redirected(datalake: Datalake, tmp_path: Path) -> None:
    fqn, run_id = f"svc.large.{uuid.uuid4().hex[:12]}", str(uuid.uuid4())
    batches = [f"{number} {'x' * 100}\n" * 10_000 for number in range(8)]
    write_run(datalake, fqn, run_id, batches, connector="host-1")
    record = the_record(datalake, fqn, run_id)
    name = datalake.run("fetch", record["http_url"], cwd=tmp_path).strip()
    assert name == record["metadata"]["id"] == file_id(record["http_url"])
    assert fingerprint((tmp_path / name).read_bytes()) == fingerprint("".join(batches).encode())
