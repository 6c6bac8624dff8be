"""The rows of the contract's "Weak there, better here", one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from chalicelib.archive.contents import MAX_INLINE_BYTES
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.errors import StoreUnavailableError
from chalicelib.ports import Put, PutOptions, Run, Write
from chalicelib.runlog.batch import Batch
from tests.functional.archive import BASE, DAY_MS, FILES, Site, deployed, described, hash_of, is_refusal
from tests.functional.gateway import installed
from tests.ingestion_harness import ARCHIVE, message, s3_record
from tests.support.database import InMemoryDatabase
from tests.support.publisher import InMemoryPublisher
from tests.world import START_MS, World

YEAR_MS = 365 * DAY_MS


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        yield site


def put_records(site: Site, count: int, step_ms: int = 10, what: str = "syslog", work_id: str | None = None) -> None:
    """Write very many files directly into the listing."""
    for number in range(count):
        document = site.document(start=START_MS + number * step_ms, end=None, what=what, work_id=work_id)
        record = FileRecord(f"s3://archive/{document['id']}/data", 1, START_MS, Metadata.model_validate(document))
        rows = (
            [Put(key, {"partition": key.partition, "at": key.sort}) for key in directory_keys(record)] if number % 1000 == 0 else []
        )
        site.world.database.put_many(rows + [Put(key, row) for key, row in listing_rows(record).items()])


def test_weak_01_pages_give_every_file_once_in_a_stable_order(site: Site) -> None:
    for number in range(1, 131):
        site.push(start=START_MS - (number % 13) * DAY_MS, end=START_MS + (number % 7) * DAY_MS, work_id="job-1")
    assert site.notify(*(f"{number:032x}/data" for number in range(1, 131))) == []
    expected = sorted((START_MS - (number % 13) * DAY_MS, f"{number:032x}") for number in range(1, 131))
    for query in ({}, {"work_id": "job-1"}, {"where": "web-1"}):
        pages = site.pages(what="syslog", **query)
        assert [len(page) for page in pages] == [100, 30]
        assert [(each["metadata"]["start"], each["metadata"]["id"]) for page in pages for each in page] == expected
        assert site.ids(what="syslog", order="newest", **query) == [file_id for _, file_id in reversed(expected)]


@pytest.mark.behavior("A query by time reads about as many rows as it returns.")
@pytest.mark.slow
def test_weak_02_a_time_query_reads_about_what_it_returns(site: Site) -> None:
    put_records(site, 20_000)
    database = site.world.database
    for start, count in ((START_MS + 10_000, 5), (START_MS + 199_000, 90), (START_MS, 10)):
        read = database.read_rows
        assert len(site.ids(what="syslog", start=start, end=start + (count - 1) * 10)) == count
        assert database.read_rows - read <= count + 10
    read = database.read_rows
    answer = site.list(what="syslog", start=START_MS, end=START_MS + DAY_MS)
    assert len(answer.json["records"]) == 100 and database.read_rows - read <= 110
    read = database.read_rows
    assert len(site.follow(answer.json["next"]).json["records"]) == 100 and database.read_rows - read <= 110, "nor by its cursor"


def test_weak_03_latest_is_one_item_read(site: Site) -> None:
    for number in range(20):
        site.file(start=START_MS - number * DAY_MS // 2, end=START_MS)
    database = site.world.database
    database.calls.clear()
    read = database.read_rows
    assert site.latest().status == 200
    assert dict(database.calls) == {"get_many": 1} and database.read_rows - read == 1


def test_weak_04_metadata_is_fetched_by_head(site: Site) -> None:
    document = site.push(b"x" * 1_000_000)
    calls = site.world.archive_store.calls
    calls.clear()
    assert site.get(f"{FILES}/{document['id']}/metadata").json == described(document)
    assert dict(calls) == {"head": 1}
    calls.clear()
    assert site.notify(f"{document['id']}/data") == []
    assert dict(calls) == {"head": 1}, "the ingestion reads no contents either"


@pytest.mark.behavior("A deleted or expired object leaves the lists, and `latest` falls back to the file before.")
@pytest.mark.parametrize("name", ["ObjectRemoved:Delete", "LifecycleExpiration:Delete"])
def test_weak_05_deletions_and_expiry_remove_rows_and_latest_falls_back(site: Site, name: str) -> None:
    older, newer = site.file(start=START_MS - DAY_MS, end=START_MS, work_id="job-1"), site.file(work_id="job-1")
    for document, latest in ((newer, older), (older, None)):
        assert site.latest().json["metadata"]["id"] == document["id"]
        site.world.archive_store.delete(f"{document['id']}/data")
        assert site.notify(f"{document['id']}/data", name=name) == []
        expected = [latest["id"]] if latest else []
        assert site.ids(what="syslog") == site.ids(what="syslog", work_id="job-1") == expected
        assert site.latest().status == (200 if latest else 404)
    assert site.rows("files") == site.rows("latest") == []
    assert [row["partition"] for row in site.rows("listing") if "document" in row] == []


def test_weak_06_latest_never_swallows_a_write_error() -> None:
    class NoLatest(InMemoryDatabase):
        is_down = True

        def transact(self, writes: Sequence[Write]) -> None:
            if self.is_down and any(write.key.table == "latest" for write in writes):
                raise StoreUnavailableError("throttled")
            super().transact(writes)

    world = World()
    world.database = database = NoLatest()
    with deployed(world=world) as site:
        document = site.push()
        assert site.notify(f"{document['id']}/data") == ["message-0"], "the message comes again"
        assert site.reports == [] and site.ids(what="syslog") == [], "and nothing is stored half"
        database.is_down = False
        assert site.notify(f"{document['id']}/data") == []
        assert site.latest().json["metadata"]["id"] == document["id"]


def test_weak_07_an_unsupported_event_drops_no_neighbour(site: Site) -> None:
    documents = [site.push() for _ in range(4)]
    keys = [f"{document['id']}/data" for document in documents]
    records = [s3_record(key, "ObjectTagging:Put" if key == keys[1] else "ObjectCreated:Put", ARCHIVE) for key in keys]
    assert site.receive(message(*records)) == []
    assert site.report["status"] == "warning" and "ObjectTagging:Put" in site.report["message"]
    assert site.ids(what="syslog") == [document["id"] for document in documents if document is not documents[1]]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{FILES}/?what=x&work_id=y&cursor=x", 400, "InvalidCursor"),
        (f"{FILES}/?what=x&work_id=y&cursor=eyJ4IjoxfQ%3D%3D", 400, "InvalidCursor"),
        (f"{FILES}/?what=x&start=inf&end=1", 400, "InvalidTime"),
        (f"{FILES}/?what=x&start=1&end=1e400", 400, "InvalidTime"),
        (f"{FILES}/{'1' * 32}/data", 404, "NoSuchFile"),
        (f"{FILES}/{'1' * 32}/metadata", 404, "NoSuchFile"),
        ("/v0/archive/latest/x/y?lookback=x", 400, "InvalidLookback"),
    ],
)
def test_weak_08_bad_input_is_never_a_500(site: Site, path: str, status: int, code: str) -> None:
    site.world.archive_store.put("1" * 32 + "/data", b"x", PutOptions())  # without metadata
    assert is_refusal(site.get(path), status, code)


def test_weak_09_contents_over_lambdas_limit_are_a_redirect(site: Site) -> None:
    small, large = site.file(b"x" * (MAX_INLINE_BYTES - 2), start=START_MS - 90_000), site.file(b"x" * (MAX_INLINE_BYTES + 1))
    assert site.get(f"{FILES}/{small['id']}/data").status == 200
    for path in (f"{FILES}/{large['id']}/data", "/v0/archive/latest/syslog/web-1/data"):
        answer = site.get(path)
        assert answer.status == 307 and answer.headers["Location"].startswith(f"memory:///{large['id']}/data?operation=get")
    site.world.archive_store.calls.clear()
    site.get(f"{FILES}/{large['id']}/data")
    assert site.world.archive_store.calls["get"] <= 1, "its first bytes tell whether it is gzip, no more is read"


@pytest.mark.behavior("A list may combine kinds, wildcards, a work id and an interval.")
def test_weak_10_several_whats_all_of_a_where_wildcards_and_both_work_id_and_interval(site: Site) -> None:
    names = [("syslog", "web-1"), ("foobar", "web-1"), ("syslog", "web-2"), ("sysstat", "db-1"), ("kern", "web-1")]
    ids = {name: site.file(what=name[0], where=name[1], work_id="job-1", start=START_MS - 5 * number, end=None)["id"]
           for number, name in enumerate(reversed(names))}  # fmt: skip
    site.file(what="syslog", where="web-1", work_id="job-2", start=START_MS - YEAR_MS, end=None)

    def asked(**query: str) -> set[str]:
        found = site.ids(start=START_MS - DAY_MS, end=START_MS, combine="true", **query)
        assert len(found) == len(set(found))
        return set(found)

    def of(*whats: str, where: str = "") -> set[str]:
        return {file_id for (what, at), file_id in ids.items() if what in whats and at.startswith(where)}

    assert (
        asked(what="syslog,foobar") == asked(what="foobar, syslog,") == asked(what="syslog,syslog,foobar") == of("syslog", "foobar")
    )
    assert asked(what="*", where="web-1") == of("syslog", "foobar", "kern", where="web-1")
    assert asked(what="sys*") == of("syslog", "sysstat")
    assert asked(what="*s*", where="*-1") == of("syslog", "sysstat", where="web-1") | of("sysstat")
    assert asked(what="*") == set(ids.values())
    assert asked(what="*log,kern") == of("syslog", "kern")
    assert asked(what="syslog", work_id="job-1") == of("syslog")
    assert asked(what="*", work_id="job-2") == set(), "its interval is another"
    assert asked(what="sys*", work_id="job-1", where="web-*") == of("syslog")
    for query in ({"what": "s?slog"}, {"what": "[s]yslog"}, {"what": "*", "where": "web"}, {"what": "sys%"}):
        assert asked(**query) == set(), "a star is the only wildcard"


def test_log_in_a_bucket_whose_name_begins_with_the_archives_is_fetched_over_http() -> None:
    """The datalake's client fetches only from the archive's bucket."""
    world, topic, run = World(), InMemoryPublisher(), Run("Svc", "Run-1")
    with installed(world, publisher=topic, bucket_name=f"{ARCHIVE}-logs"):
        site = Site(world, topic)
        entry = world.parts().writer.append(run, Batch.from_text("one\n")).entry
        world.parts().finalizer.close(run)
        keys = (world.layout.segment(run, entry.sequence), world.layout.logs(run)) if entry else ()
        assert site.receive(*(message(s3_record(key, bucket=f"{ARCHIVE}-logs")) for key in keys)) == []
        (record,) = site.list(what="svc").json["records"]
        assert record["url"] == record["http_url"] and record["s3_url"] == f"s3://{ARCHIVE}-logs/{world.layout.logs(run)}"
        assert site.follow(record["http_url"]).body == "one\n"


def test_weak_11_run_logs_are_files_too(site: Site) -> None:
    run = Run("Svc.My Pipeline", "Run-1")
    site.write_run(run, "one\n", "two\nthree\n", connector="Host 1.example")
    assert site.ids(what="svc_my_pipeline") == [], "not before it is finalized"
    site.finish_run(run)
    (record,) = site.list(what="svc_my_pipeline", where="host_1_example", work_id="run-1").json["records"]
    metadata = record["metadata"]
    assert (metadata["start"], metadata["end"]) == (START_MS, START_MS + 60_000), "from its lines"
    assert metadata["hash"] == hash_of(b"one\ntwo\nthree\n") and record["size"] == 14
    assert (metadata["version"], metadata["path"]) == (0, f"/{site.world.layout.logs(run)}")
    assert record["url"] == record["http_url"] == f"{BASE}{FILES}/{metadata['id']}/data", "the client fetches it"
    assert record["s3_url"] == f"s3://bucket/{site.world.layout.logs(run)}"
    contents = site.follow(record["http_url"])
    assert (contents.status, contents.body, contents.headers["Content-Type"]) == (200, "one\ntwo\nthree\n", "text/plain")
    assert site.get(f"{FILES}/{metadata['id']}/metadata").json.items() <= metadata.items()
    assert site.latest("svc_my_pipeline", "host_1_example").json["metadata"]["id"] == metadata["id"]
    for method, path, body in (("DELETE", "", None), ("PATCH", "/metadata", {"what": "x"})):
        assert is_refusal(site.ask(method, f"{FILES}/{metadata['id']}{path}", body), 409, "NotChangeable")
    site.world.store.delete(site.world.layout.logs(run))
    assert site.receive(message(s3_record(site.world.layout.logs(run), "LifecycleExpiration:Delete"))) == []
    assert site.ids(what="svc_my_pipeline") == [] and site.latest("svc_my_pipeline", "host_1_example").status == 404


@pytest.mark.parametrize("rewrites", [1, 2, 3])
def test_a_log_that_is_rewritten_while_it_is_read_is_looked_at_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, rewrites: int
) -> None:
    """A deletion empties a log right after its close. After three concurrent changes the next message retries."""
    run = Run("svc.pipe", "r1")
    site.write_run(run, "one\n")
    key, store = site.world.layout.logs(run), site.world.store
    read, left = store.get, [rewrites]

    def overtaken(asked: str, *given: Any, **options: Any) -> Any:
        if asked == key and options.get("if_match") and left[0]:
            left[0] -= 1
            old = store.head(key)
            store.put(key, b"tw%d\n" % left[0], PutOptions(old.metadata))
        return read(asked, *given, **options)

    site.world.parts().finalizer.close(run)
    monkeypatch.setattr(store, "get", overtaken)
    failed = site.receive(message(s3_record(key)))
    assert (len(failed), left) == (1 if rewrites == 3 else 0, [0])
    found = [record["metadata"]["hash"] for record in site.list(what="svc_pipe").json["records"]]
    assert found == ([] if failed else [hash_of(b"tw0\n")])


@pytest.mark.parametrize(("connector", "where"), [("", "unknown"), ("Ünï.Host", "n_host")])
def test_weak_11_the_where_of_a_run_log(site: Site, connector: str, where: str) -> None:
    run = Run("svc.pipe", "null")
    site.write_run(run, "one\n", connector=connector)
    site.finish_run(run)
    (record,) = site.list(what="svc_pipe").json["records"]
    assert record["metadata"]["where"] == where
    assert record["metadata"]["work_id"] != "null", "it would mean none"


def test_weak_12_poison_messages_do_not_block_others(site: Site) -> None:
    bad = [f"bad-{number}" for number in range(15)]
    for number, key in enumerate(bad):
        site.store(key, b"x", [None, "", "{", "[]", '{"version": 1}'][number % 5])
    good = site.push()
    assert site.notify(*bad, f"{good['id']}/data") == [], "none comes again"
    assert [report["status"] for report in site.reports] == ["error"] * 15 + ["success"]
    assert site.ids(what="syslog") == [good["id"]]
    assert site.world.clock.now_ms() == START_MS, "nor was anything waited for"


def test_weak_13_ten_empty_years_cost_next_to_nothing(site: Site) -> None:
    first, last = site.file(start=START_MS - 10 * YEAR_MS, end=None), site.file(start=START_MS, end=None)
    database = site.world.database
    database.calls.clear()
    for order, expected in (("oldest", [first["id"], last["id"]]), ("newest", [last["id"], first["id"]])):
        assert site.ids(what="syslog", start="1900-01-01", end="2100-01-01", order=order) == expected
    assert database.calls["query"] <= 2 * 6
    database.calls.clear()
    assert site.ids(what="nothing", start="0001-01-01", end="9999-12-31") == []
    assert site.ids(what="syslog", start=START_MS - 9 * YEAR_MS, end=START_MS - YEAR_MS) == []
    assert database.calls["query"] <= 6


@pytest.mark.behavior("The work of a list request is bounded, and a cursor continues it.")
@pytest.mark.slow
def test_weak_13_the_work_of_a_request_is_bounded(site: Site) -> None:
    """Files of the work id with another ``what`` are read and skipped: a request stops in time, and its cursor continues."""
    put_records(site, 30_000, what="other", work_id="job-1")
    wanted = site.file(what="syslog", work_id="job-1", start=START_MS + DAY_MS, end=None)
    database = site.world.database
    read = database.read_rows
    answer = site.list(what="syslog", work_id="job-1")
    assert answer.status == 200
    assert database.read_rows - read <= 15_000
    assert site.ids(what="syslog", work_id="job-1") == [wanted["id"]]


def test_weak_14_a_copy_that_changes_the_times_leaves_nothing_behind(site: Site) -> None:
    document = site.file(start=START_MS - 20 * DAY_MS, end=START_MS - 10 * DAY_MS, work_id="job-1")
    assert len(site.rows("files")) == 11
    site.world.clock.advance(1)
    changed = site.push(**document | {"start": START_MS, "end": START_MS})
    assert site.notify(f"{document['id']}/data", name="ObjectCreated:Copy") == []
    assert [row["time_index_key"] for row in site.rows("files")] == [f"{START_MS // DAY_MS}:syslog"]
    listed = [json.loads(row["document"]) for row in site.rows("listing") if "document" in row]
    assert {each["metadata"]["start"] for each in listed} == {START_MS}
    assert site.ids(what="syslog", start=0, end=START_MS - 1) == [] and site.ids(what="syslog", work_id="job-1") == [document["id"]]
    assert site.latest().json["metadata"]["start"] == changed["start"]


@pytest.mark.parametrize("ms", [0, 1, -1, 5_000, 99_999_999_999, 31_536_000_000, -157_766_400_000])
def test_weak_15_milliseconds_before_march_1973_stay_what_they_are(site: Site, ms: int) -> None:
    document = site.file(start=ms, end=ms + 1000)
    assert site.report["records"][0]["metadata"]["start"] == ms
    record = site.list(what="syslog").json["records"][0]
    assert (record["metadata"]["start"], record["metadata"]["end"]) == (ms, ms + 1000)
    answer = site.ask("PATCH", f"{FILES}/{document['id']}/metadata", {"note": "x"})
    assert (answer.status, answer.json) == (200, described(document | {"note": "x"})), "nor when something else is changed"


def test_weak_16_uploads_without_credentials(site: Site) -> None:
    body = b"line 1\nline 2\n"
    given = {"start": "2015-03-20", "end": None, "path": "/a.log", "where": "w", "what": "upload", "work_id": None}
    upload = site.ask("POST", FILES, given | {"hash": hash_of(body), "size": len(body)})
    assert upload.status == 201
    site.send(upload.json, body)
    assert site.notify(f"{upload.json['id']}/data") == []
    (record,) = site.list(what="upload").json["records"]
    assert record["metadata"]["start"] == 1_426_809_600_000 and record["size"] == len(body)
    assert site.follow(upload.json["http_url"]).body == body.decode()
    assert json.loads(upload.body)["url"] == record["url"]
