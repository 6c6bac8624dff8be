"""Lists contain exactly the readable items, each once and in order, at a bounded cost; their cursors reveal nothing."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from chalicelib.catalog.file_ids import run_object_id
from chalicelib.composition import COMPACTION
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import format_timestamp
from chalicelib.ingestion.run_files import slug
from chalicelib.ports import Run
from chalicelib.routes import archive_authorization, gate
from tests.functional.archive import BASE, FILES, Site
from tests.functional.gateway import LOGS, Answer, call, installed, post
from tests.functional.test_no_secret_leaves import ingested
from tests.issuer import EVERYTHING, JWT, Issuer, bearer
from tests.sampling import examples
from tests.support import samples
from tests.support.database import InMemoryDatabase
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.samples import DECLARED
from tests.world import START_MS, World

ISSUER = Issuer()
TIMES = {"start": "0001-01-01", "end": "9999-12-31T23:59:59.999Z"}


class Counting(InMemoryDatabase):
    """Counts queries."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0

    def query(self, *args: object, **options: object):  # type: ignore[no-untyped-def]
        self.queries += 1
        return super().query(*args, **options)  # type: ignore[arg-type]


@pytest.fixture
def site() -> Iterator[Site]:
    world, topic = World(), InMemoryPublisher()
    world.database = Counting()
    with installed(world, publisher=topic, keys=ISSUER.read, **JWT):
        yield Site(world, topic, itertools.count(1))


def pages(site: Site, token: str, **query: str) -> list[list[str]]:
    """The ids of each page."""
    url, found = f"{FILES}/?{urlencode(TIMES | query)}", []
    while url:
        answer = call("GET", url, None, bearer(token) | {"Host": "archive.test", "X-Forwarded-Proto": "https"})
        assert answer.status == 200, answer.body
        found.append([record["metadata"]["id"] for record in answer.json["records"]])
        url = (answer.json["next"] or "").removeprefix(BASE)
    return found


def flat(listed: list[list[str]]) -> list[str]:
    return [each for page in listed for each in page]


def make_log(site: Site, run: Run) -> str:
    site.write_run(run, "line\n", connector="host")
    site.finish_run(run)
    return run_object_id(site.world.layout.logs(run))


def test_wildcard_lists_readable_names(site: Site) -> None:
    seen = [site.file(what=what, start=START_MS + at, end=START_MS + at)["id"] for at, what in enumerate(("sales_a", "sales_b"))]
    site.file(what="hr_a")
    token = ISSUER.granted(archive_read=["sales_*"])
    assert flat(pages(site, token, what="*")) == seen
    assert flat(pages(site, token, what="hr_a,sales_b")) == seen[1:]
    assert flat(pages(site, token, what="*", where="web-*")) == seen
    assert flat(pages(site, token, what="hr_a")) == []


def test_hidden_names_cost_nothing_and_do_not_count(site: Site) -> None:
    """201 names exceed the limit of a request; hidden names do not count."""
    for number in range(201):
        site.file(what=f"hr_{number}")
    seen = site.file(what="sales_a")["id"]
    database = site.world.database
    assert isinstance(database, Counting)
    token = ISSUER.granted(archive_read=["sales_*"])
    database.queries = 0
    assert flat(pages(site, token, what="*")) == [seen]
    assert database.queries < 10


def test_log_of_a_run_is_authorized_by_its_name_not_its_what(site: Site) -> None:
    """Three names share a ``what``; a file of the archive pretends to be of the fourth."""
    runs = [Run("svc.a", "r1"), Run("SVC.A", "r2"), Run("svc_a", "r3")]
    assert {slug(run.fqn) for run in runs} == {"svc_a"}
    logs = [make_log(site, run) for run in runs]
    forged = site.file(what="svc_a", fqn="svc.a", run_id="r9", start=START_MS + 10**9, end=START_MS + 10**9)["id"]
    by_name = {name: flat(pages(site, ISSUER.granted(logs_read=[name]), what="*")) for name in ("svc.a", "SVC.*", "svc_a", "*")}
    assert by_name == {"svc.a": logs[:1], "SVC.*": logs[1:2], "svc_a": logs[2:], "*": logs}
    assert flat(pages(site, ISSUER.granted(archive_read=["*"]), what="*")) == [forged], "who reads the archive reads no logs"
    assert flat(pages(site, ISSUER.granted(archive_read=["*"], logs_read=["*"]), what="svc_a")) == [*logs, forged]


@pytest.mark.behavior("A cursor reveals no hidden file.")
def test_cursors_among_hidden_files_continue_and_reveal_nothing(site: Site) -> None:
    hidden = [site.file(what="svc_a", start=START_MS + at, end=START_MS + at)["id"] for at in range(250)]
    site.world.clock.advance(3600)
    log = make_log(site, Run("svc.a", "r1"))
    token = ISSUER.granted(logs_read=["svc.*"])
    database = site.world.database
    assert isinstance(database, Counting)
    database.queries = 0
    listed = pages(site, token, what="svc_a")
    assert flat(listed) == [log]
    assert len(listed) == 3, "a page looks at a hundred files, seen or not"
    assert database.queries < 20
    answer = call("GET", f"{FILES}/?{urlencode(TIMES | {'what': 'svc_a'})}", None, bearer(token))
    (cursor,) = parse_qs(urlsplit(answer.json["next"]).query)["cursor"]
    for text in (cursor, *map(decoded, cursor.split("."))):
        assert not any(file_id in text for file_id in hidden)
    changed = TIMES | {"what": "svc_a", "order": "newest", "cursor": cursor}
    refused = call("GET", f"{FILES}/?{urlencode(changed)}", None, bearer(token)).json
    assert refused["message"] == f"Failed to decode cursor {cursor}", "as it was sent, not as it is once it is decrypted"


def decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text.removeprefix("~") + "==").decode(errors="replace")


@pytest.mark.parametrize(
    ("granted", "is_sealed"), [({"archive_read": ["*"], "logs_read": ["*"]}, False), ({"archive_read": ["sales_*"]}, True)]
)
def test_cursor_made_with_the_key_of_positions_is_refused_where_cursors_have_their_own(
    granted: dict[str, list[str]], is_sealed: bool
) -> None:
    """A leaked key neither creates nor decrypts cursors of the other key. A list that spans the change starts over."""
    world, topic = World(), InMemoryPublisher()
    token, query = bearer(ISSUER.granted(**granted)), TIMES | {"what": "sales_a"}

    def page(cursor: str = "") -> Answer:
        return call("GET", f"{FILES}/?{urlencode(query | ({'cursor': cursor} if cursor else {}))}", None, token)

    with installed(world, publisher=topic, keys=ISSUER.read, **JWT):
        site = Site(world, topic, itertools.count(1))
        for _ in range(120):
            site.file(what="sales_a")
        (cursor,) = parse_qs(urlsplit(page().json["next"]).query)["cursor"]
        assert cursor.startswith("~") is is_sealed and page(cursor).status == 200
    with installed(world, publisher=topic, keys=ISSUER.read, cursor_keys=SecretStr("cursors-0123456789"), **JWT):
        assert (page(cursor).status, page(cursor).json["code"]) == (400, "InvalidCursor")
        (cursor,) = parse_qs(urlsplit(page().json["next"]).query)["cursor"]
        assert page(cursor).status == 200


@pytest.mark.parametrize("change", [lambda text: text[:-4] + "AAAA", lambda _: "~", lambda _: "~x.y"])
def test_a_cursor_that_was_changed_is_refused(site: Site, change) -> None:  # type: ignore[no-untyped-def]
    for _ in range(120):
        site.file(what="sales_a")
    token = bearer(ISSUER.granted(archive_read=["sales_*"]))
    query = TIMES | {"what": "sales_a"}
    (cursor,) = parse_qs(urlsplit(call("GET", f"{FILES}/?{urlencode(query)}", None, token).json["next"]).query)["cursor"]
    answer = call("GET", f"{FILES}/?{urlencode(query | {'cursor': change(cursor)})}", None, token)
    assert (answer.status, answer.json["code"]) == (400, "InvalidCursor")


def test_latest_readable_files(site: Site) -> None:
    old = make_log(site, Run("svc.a", "r1"))
    site.world.clock.advance(3600)
    make_log(site, Run("SVC.A", "r2"))
    answer = call("GET", "/v0/archive/latest/svc_a/host", None, bearer(ISSUER.granted(logs_read=["svc.*"])))
    assert answer.json["metadata"]["id"] == old
    assert call("GET", "/v0/archive/latest/svc_a/host/data", None, bearer(ISSUER.granted(logs_read=["svc.*"]))).body == "line\n"
    assert call("GET", "/v0/archive/latest/svc_a/host", None, bearer(ISSUER.granted(logs_read=["svc.b"]))).status == 404
    assert call("GET", "/v0/archive/latest/svc_a/host", None, bearer(ISSUER.granted(logs_read=["other.*"]))).status == 403
    assert call("GET", "/v0/archive/latest/svc_a/host", None, bearer(ISSUER.granted(archive_read=["*"]))).status == 404


def test_background_work_of_runs_that_may_be_administered(site: Site) -> None:
    store, source = site.world.work_sources(COMPACTION)
    for number in range(60):
        key = f"svc_{'hr' if number % 3 else 'sales'}.etl/run-{number:02d}"
        store.create(Partition(source.partitions, key, Status.CLOSED, format_timestamp(START_MS + number), reopen_ms=START_MS))
    found, cursor = [], ""
    while cursor is not None:
        query = urlencode({"limit": 7, "cursor": cursor})
        answer = call("GET", f"/v1/coordination/compaction?{query}", None, bearer(ISSUER.granted(admin=["svc_sales.*"]))).json
        found += [each["run_id"] for each in answer["partitions"]]
        cursor = answer["cursor"]
        assert "svc_hr" not in json.dumps(answer) and (cursor is None or "svc_hr" not in decoded(cursor))
    assert found == [f"run-{number:02d}" for number in range(0, 60, 3)]


LETTERS = "aBé_-. /%İK*"


@settings(max_examples=examples(2000), deadline=None)
@given(st.text(LETTERS, min_size=1, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_readable_log_is_always_listed(fqn: str, cuts: list[int]) -> None:
    """The search covers the listed name of every FQN that a pattern matches."""
    pattern = fqn
    for cut in cuts:
        pattern = pattern[:cut] + "*" + pattern[cut + 1 :]
    assert slug(fqn).startswith(archive_authorization._beginning(pattern))


def work_of(site: Site, count: int) -> None:
    store, source = site.world.work_sources(COMPACTION)
    for number in range(count):
        key = f"svc_hr.etl/run-{number:02d}"
        store.create(Partition(source.partitions, key, Status.CLOSED, format_timestamp(START_MS + number), reopen_ms=START_MS))


WORK = "/v1/coordination/compaction"


def test_plain_cursor_does_not_reveal_hidden_work(site: Site) -> None:
    """A chosen position would reveal whether a hidden item follows it."""
    work_of(site, 3)
    place = base64.urlsafe_b64encode(json.dumps([format_timestamp(START_MS), "svc_hr"]).encode()).decode().rstrip("=")
    query = urlencode({"status": "CLOSED", "limit": 1, "cursor": f"CLOSED.CLOSED.{place}"})
    assert call("GET", f"{WORK}?{query}", None, bearer(ISSUER.granted(admin=["mine.*"]))).status == 400
    assert call("GET", f"{WORK}?{query}", None, bearer(ISSUER.granted(admin=["*"]))).status == 200
    assert call("GET", "/v1/catalog/pipelines?cursor=svc_a", None, bearer(ISSUER.granted(logs_read=["mine.*"]))).status == 400
    assert call("GET", "/v1/catalog/pipelines?cursor=svc_a", None, bearer(ISSUER.granted(logs_read=["*"]))).status == 200


def test_encrypted_cursor_is_bound_to_its_principal_and_query(site: Site) -> None:
    work_of(site, 5)
    one, other = (bearer(ISSUER.granted(name, admin=["mine.*"], logs_read=["mine.*"])) for name in ("one", "other"))
    cursor = call("GET", f"{WORK}?limit=2", None, one).json["cursor"]

    def status(path: str, token: dict[str, str], **query: str) -> int:
        return call("GET", f"{path}?{urlencode(query | {'cursor': cursor})}", None, token).status

    assert status(WORK, one) == status(WORK, one, limit="1") == 200
    assert status(WORK, other) == status(WORK, one, status="closed") == status("/v1/coordination/sweep", one) == 400
    assert status("/v1/catalog/pipelines", one) == 400


@pytest.fixture
def api() -> Iterator[World]:
    with installed(World(), runs=InMemoryRunCatalog(), publisher=InMemoryPublisher(), keys=ISSUER.read, **JWT) as world:
        yield world


def audited(caplog: pytest.LogCaptureFixture, path: str) -> tuple[Answer, list[dict[str, Any]]]:
    """The response for a principal with all permissions, and its audit lines."""
    caplog.clear()
    answer = call("GET", path, None, bearer(ISSUER.granted("root", **EVERYTHING)))
    return answer, [vars(each) for each in caplog.records if each.message == "access"]


@pytest.mark.behavior("The audit log names the pipelines, runs and files in each response.")
def test_audit_lines_name_what_each_response_contains(api: World, caplog: pytest.LogCaptureFixture) -> None:
    root, names_of, prepared = bearer(ISSUER.granted("root", **EVERYTHING)), dict[str, list[str]](), {samples.nothing}
    plain, closed = root | {"Content-Type": "text/plain"}, root | {"Content-Type": "application/json"}
    assert post(f"{samples.FQN}/{samples.RUN_ID}", "zero\n", plain).status == 200
    assert post(f"{samples.FQN}/{samples.RUN_ID}/close", '{"outcome": "failed"}', closed).status == 200
    ingested(api)
    for sample in (each for each in samples.ROWS if each.method == "GET" and not DECLARED[each.operation].is_public):
        if sample.needs not in prepared:
            sample.needs(api)
            prepared.add(sample.needs)
        answer, lines = audited(caplog, sample.url)
        listed = [name for line in lines for name in line.get("names", ())]
        stated = " ".join([*listed, *(line["resource"] for line in lines)])
        assert all(name in stated for name in (samples.FQN, samples.FILE_ID) if name in answer.body), sample.path
        if listed:
            names_of[DECLARED[sample.operation].id] = listed
    run, file = ["svc.a/r1"], [f"upload s3://archive/{samples.FILE_ID}/data"]
    assert names_of == {
        "listRuns": run, "readLastLog": run, "downloadLastLog": run, "listRecentRuns": run, "listHistories": run, "listPipelines": run,
        "listRunFacts": run, "listFiles": file, "readLatest": file, "readLatestFile": file, "listPartitions": run, "readPipelineFiles": run,
        "listPipelineFiles": ["svc.a b/svc/2026-09-21/a/main/00000000.jsonl"], "listProcessingPipelines": ["pipelines/runlake"],
        "listDeadLetters": run,
    }  # fmt: skip


def test_audit_line_counts_and_digests_names_beyond_its_limit(
    api: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "MAX_NAMES_CHARS", 20)
    for number in range(4):
        api.clock.advance(1)
        post(f"svc.a/r{number}", '"x"', bearer(ISSUER.granted("root", **EVERYTHING)))
    ingested(api)
    (line,) = [each for each in audited(caplog, f"{LOGS}/svc.a")[1] if each["action"] == "list"]
    assert (line["names"], line["count"], line["more"]) == (["svc.a/r3", "svc.a/r2"], 4, 2)
    assert line["more_sha256"] == sha256(b"svc.a/r1\nsvc.a/r0").hexdigest()
