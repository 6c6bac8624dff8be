"""Ids that clients choose: any text without control characters is ingested, listed, fetched and deleted as 32 hex digits are.

The expected lists are plain sorted lists of the pushed documents; the expected requests are built here, not by the code under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.archive.objects import ANNOUNCED_BYTES
from chalicelib.catalog import search
from chalicelib.catalog.file_ids import run_object_id
from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import PutOptions, Run
from tests.functional.archive import BASE, FILES, Site, deployed, hash_of, is_refusal
from tests.functional.gateway import installed
from tests.ingestion_harness import ARCHIVE, BUCKET, message, s3_record
from tests.sampling import examples
from tests.support.file_ids import DOTS, FILE_IDS, HOSTILE, MANY_SEGMENTS, NO_IDS, is_one_segment
from tests.support.publisher import InMemoryPublisher
from tests.world import START_MS, World

SETTINGS = settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
REACHABLE = (*HOSTILE, *MANY_SEGMENTS)


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        yield site


def key_of(file_id: str, place: int = 0) -> str:
    """The key that the datalake's client would use, or one that S3 takes."""
    return f"{file_id}/data" if file_id not in DOTS and ".." not in file_id.split("/") else f"odd-{place}"


def address(file_id: str) -> str:
    return f"{FILES}/{quote(file_id, safe='')}"


def ids_of(documents: Sequence[dict[str, Any]], *, newest_first: bool = False) -> list[str]:
    """In the order of the contract: by start, then by the bytes of the id."""
    ordered = sorted(documents, key=lambda each: (each["start"], each["id"].encode()), reverse=newest_first)
    return [each["id"] for each in ordered]


# Each id alone


@pytest.mark.behavior(
    "A file may have any id without control characters, up to 512 bytes, and is fetched by its percent-encoded id."
)
@pytest.mark.sampled(default=30)
@pytest.mark.parametrize("file_id", REACHABLE, ids=lambda file_id: ascii(file_id[:16]) + str(len(file_id)))
def test_file_is_reported_listed_fetched_and_deleted(site: Site, file_id: str) -> None:
    body = f"contents of {file_id}\n".encode()
    document = site.file(body, key=key_of(file_id), id=file_id, work_id="job-1")
    assert site.report["status"] == "success"
    assert [record["metadata"]["id"] for record in site.report["records"]] == [file_id]
    (record,) = site.list(what="syslog").json["records"]
    assert record["url"] == site.report["records"][0]["url"] == f"s3://archive/{key_of(file_id)}"
    assert record["http_url"] == f"{BASE}{address(file_id)}/data"
    assert record["http_url"].isascii() and not set(record["http_url"]) & set(' "<>\\^`{|}')
    assert site.follow(record["http_url"]).body.encode() == body
    assert site.get(f"{address(file_id)}/metadata").json["id"] == file_id
    assert site.latest().json == record
    assert site.get("/v0/archive/latest/syslog/web-1/data").body.encode() == body
    assert site.ids(what="syslog", work_id="job-1") == [file_id]
    changed = site.ask("PATCH", f"{address(file_id)}/metadata", {"where": "web-2"})
    assert changed.status == 200 and changed.json["id"] == file_id, changed.body
    assert site.ids(what="syslog", where="web-1") == [] and site.ids(what="syslog", where="web-2") == [file_id]
    assert site.ask("DELETE", address(file_id)).status == 204
    assert site.ids(what="syslog") == [] and is_refusal(site.latest(where="web-2"), 404, "NoSuchFile")
    with pytest.raises(ObjectNotFoundError):
        site.world.archive_store.head(key_of(file_id))
    assert document["id"] == file_id


@pytest.mark.parametrize("file_id", DOTS)
def test_id_that_no_path_can_hold_has_the_address_on_s3(site: Site, file_id: str) -> None:
    """Browsers and HTTP libraries resolve these segments, also percent-encoded."""
    site.file(b"dots\n", key="a key", id=file_id)
    (record,) = site.list(what="syslog").json["records"]
    assert record["url"] == record["http_url"] == "s3://archive/a key"
    assert site.latest().json == record
    assert site.get("/v0/archive/latest/syslog/web-1/data").body == "dots\n"
    site.world.archive_store.delete("a key")
    assert site.notify("a key", name="ObjectRemoved:Delete") == [] and site.ids(what="syslog") == []


@pytest.mark.parametrize("file_id", [*HOSTILE[:12], "\ufffd", "\U0010ffff" * 128], ids=ascii)
def test_file_works_straight_from_s3_before_ingestion(site: Site, file_id: str) -> None:
    site.push(b"early\n", id=file_id)
    assert site.get(f"{address(file_id)}/data").body == "early\n"
    assert site.get(f"{address(file_id)}/metadata").json["id"] == file_id
    assert site.ids(what="syslog") == []


@pytest.mark.parametrize("file_id", NO_IDS, ids=lambda file_id: ascii(file_id)[:20])
def test_anything_else_is_an_error_in_the_report(site: Site, file_id: Any) -> None:
    site.push(key="bad/data", id=file_id)
    good = site.push(id="good")
    assert site.notify("bad/data", "good/data") == []
    assert [report["status"] for report in site.reports] == ["error", "success"]
    assert '"id"' in site.reports[0]["message"] and site.reports[0]["records"] == []
    assert site.ids(what="syslog") == [good["id"]]
    if isinstance(file_id, str) and file_id:
        too_long = len(file_id) > 512
        assert is_refusal(site.get(f"{address(file_id)}/data"), *((400, 400) if too_long else (404, "NoSuchFile")))


def test_lone_surrogate_is_an_error_in_the_report(site: Site) -> None:
    text = json.dumps(site.document() | {"id": "X"}).replace('"X"', '"\\ud800"')
    site.store("bad/data", b"x", text)
    assert site.notify("bad/data") == []
    assert site.report["status"] == "error" and "json" in site.report["message"]


def test_stored_document_without_an_id_gets_32_digits_also_under_a_key_of_an_id(site: Site) -> None:
    document = {name: value for name, value in site.document().items() if name != "id"}
    for key in ("foo/data", "ab" * 16 + "/data"):
        site.store(key, b"x", json.dumps(document))
        assert site.notify(key) == []
    assert set(site.ids(what="syslog")) == {hash_of(b"s3://archive/foo/data"), "ab" * 16}


# No id reaches another object


@pytest.mark.behavior("No id reaches the object of another file or of a run.")
@pytest.mark.parametrize(
    "guess",
    [
        "..",
        ".",
        "../secret",
        "a/../secret",
        "secret",
        "a/data",
        "secret/data",
        "./secret",
        "/secret",
        "../bucket/run",
        "uploads/x",
        "",
    ],
)
def test_id_is_no_path_in_a_key(site: Site, guess: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects lie under each key that the id might be taken for; all are of other files, so none is asked for by its contents."""
    for key in (f"{guess}/data", "secret/data", "secret", "a/data/data", "a/data", "uploads/x/data", "data", "../data", "run/data"):
        site.store(key, b"secret", json.dumps(site.document() | {"id": f"other-{key}"}))
    site.world.store.put_repeated("run/data", b"secret", 6, {})
    heads: list[str] = []
    head = site.world.archive_store.head
    monkeypatch.setattr(site.world.archive_store, "head", lambda key: (heads.append(key), head(key))[1])
    for method, path in (("GET", "/data"), ("GET", "/metadata"), ("DELETE", ""), ("PATCH", "/metadata")):
        answer = site.ask(method, f"{address(guess)}{path}", {"where": "x"} if method == "PATCH" else None)
        assert answer.status in (404, 405), answer
        assert "secret" not in answer.body.replace(guess, "")
    assert all("/" not in key.removesuffix("/data") and not key.startswith(".") for key in heads), "no request leads out of a key"


def test_file_of_an_id_with_slashes_is_found_by_the_catalog_alone(site: Site) -> None:
    """The object ``a/data/data`` is what the file ``a/data`` has as its key by the convention; the key ``a/data`` is that of the file ``a``."""
    one, other = site.push(b"of a\n", id="a"), site.push(b"of a/data\n", id="a/data")
    assert is_refusal(site.get(f"{address('a/data')}/data"), 404, "NoSuchFile")
    assert site.notify("a/data", "a/data/data") == []
    for document, body in ((one, "of a\n"), (other, "of a/data\n")):
        assert site.get(f"{address(document['id'])}/data").body == body
    assert site.ask("DELETE", address("a/data")).status == 204
    assert site.get(f"{address('a')}/data").body == "of a\n" and site.ids(what="syslog") == ["a"]


def test_object_that_became_another_file_is_not_served_as_the_former_one(site: Site) -> None:
    site.file(b"mine\n", key="odd", id="mine", what="mine")
    site.push(b"theirs\n", key="odd", id="theirs", what="theirs")
    for path in ("data", "metadata"):
        assert is_refusal(site.get(f"{address('mine')}/{path}"), 404, "NoSuchFile"), "before its notification"
    assert site.notify("odd") == [] and site.ids(what="*") == ["theirs"]


RUN = Run("svc", "run-1")
CLAIMS = {
    "own key": lambda own: (f"{own}/data", {"id": own}, {}),
    "own key, no id": lambda own: (f"{own}/data", {}, {}),
    "own key, no document": lambda own: (f"{own}/data", None, {}),
    "odd key": lambda own: ("odd", {"id": own}, {}),
    "key of the log": lambda own: (log_key(), {"id": own}, {}),
    "key of another id": lambda own: ("foo/data", {"id": own}, {}),
    "bad upload": lambda own: (f"{own}/data", {"id": own}, {ANNOUNCED_BYTES: "99"}),
}
"""Objects in the archive that claim the id of a run's log: key, document and more metadata."""


def log_key() -> str:
    return World().layout.logs(RUN)


def assert_is_the_log(site: Site, file_id: str, bucket: str = BUCKET) -> None:
    for record in (*site.list(what="*").json["records"], site.latest("svc").json):
        assert (record["s3_url"], record["metadata"]["id"]) == (f"s3://{bucket}/{log_key()}", file_id)
    assert site.ids(what="*") == site.ids(what="svc", work_id="run-1") == [file_id] and site.latest("syslog").status == 404
    assert site.get(f"{address(file_id)}/data").body == "one\n"
    assert site.get(f"{address(file_id)}/metadata").json["what"] == "svc"
    assert {row["range_key"] for table in ("files", "latest") for row in site.rows(table)} == {f"web-1:{file_id}"}


@pytest.mark.behavior("An object of the archive that claims the id of a run's log is refused, and the log stays listed.")
@pytest.mark.parametrize("order", ["lc", "cl", "lcc", "clc", "lcl", "ccl", "clcl"])
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("together", [False, True])
def test_object_that_claims_the_id_of_a_runs_log_is_not_that_file(site: Site, claim: str, order: str, *, together: bool) -> None:
    """l: the log is ingested, c: the claim. A rebuild of the catalog is such an order too."""
    file_id = run_object_id(log_key())
    key, fields, more = CLAIMS[claim](file_id)
    document = {name: value for name, value in site.document().items() if name != "id"}
    metadata = {} if fields is None else {"datalake": json.dumps(document | fields)}
    site.world.archive_store.put(key, b"forged\n", PutOptions(metadata | more))
    site.write_run(RUN, "one\n", connector="web-1")
    site.world.parts().finalizer.close(RUN)
    bodies = [message(s3_record(log_key()) if each == "l" else s3_record(key, bucket=ARCHIVE)) for each in order]
    site.topic.messages.clear()
    for batch in [bodies] if together else [[body] for body in bodies]:
        assert site.receive(*batch) == []
    assert_is_the_log(site, file_id)
    for place, report in enumerate([] if together else site.reports):
        if order[place] == "c" and "l" in order[:place]:
            assert (report["status"], report["records"]) == ("error", [])
            assert "a run's log" in report["message"] or claim == "own key, no document"
        elif order[place] == "l" or claim not in ("own key, no document", "bad upload"):
            assert report["status"] == "success", "no log has the id yet"
    for method, path in (("DELETE", ""), ("PATCH", "/metadata")):
        assert is_refusal(site.ask(method, f"{address(file_id)}{path}", {"what": "x"}), 409, "NotChangeable")
    site.world.archive_store.delete(key)
    assert site.notify(key, name="ObjectRemoved:Delete") == []
    assert_is_the_log(site, file_id)


def test_id_of_a_deleted_log_is_that_of_any_file(site: Site) -> None:
    file_id = run_object_id(log_key())
    site.write_run(RUN, "one\n", connector="web-1")
    site.finish_run(RUN)
    site.world.store.delete(log_key())
    assert site.receive(message(s3_record(log_key(), "ObjectRemoved:Delete"))) == [] and site.ids(what="*") == []
    site.file(b"another\n", id=file_id, what="foo")
    assert site.ids(what="*") == [file_id] and site.get(f"{address(file_id)}/data").body == "another\n"


def test_renamed_buckets_leave_the_ids_of_logs_to_logs() -> None:
    """A catalog has the former names until it is rebuilt."""
    world, topic, file_id = World(), InMemoryPublisher(), run_object_id(log_key())
    with installed(world, publisher=topic):
        site = Site(world, topic)
        site.write_run(RUN, "one\n", connector="web-1")
        site.finish_run(RUN)
        site.file(b"foo\n", id="foo", what="foo")
    with installed(world, publisher=topic, bucket_name="new-logs", archive_bucket_name="new-archive"):
        for own in (file_id, "foo"):
            site.push(b"foo\n", id=own, what="foo")
            assert site.receive(message(s3_record(f"{own}/data", bucket="new-archive"))) == []
        assert site.ids(what="foo") == ["foo"] and site.ids(what="svc") == [file_id]
        assert site.get(f"{address(file_id)}/data").status == 404 and site.get(f"{address('foo')}/data").body == "foo\n"
        assert site.receive(message(s3_record(log_key(), bucket="new-logs"))) == []
        assert site.list(what="foo").json["records"][0]["url"] == "s3://new-archive/foo/data"
        site.world.archive_store.delete("foo/data")
        assert site.receive(message(s3_record("foo/data", "ObjectRemoved:Delete", "new-archive"))) == []
        assert_is_the_log(site, file_id, "new-logs")


def test_bytes_that_are_no_text_are_not_taken_for_a_replaced_character(site: Site) -> None:
    site.file(b"replaced\n", id="\ufffd")
    assert site.get(f"{FILES}/%EF%BF%BD/data").body == "replaced\n"
    for name in ("%FF", "%C3", "%ED%A0%80", "%80"):
        for path in ("data", "metadata"):
            assert is_refusal(site.get(f"{FILES}/{name}/{path}"), 404, "NoSuchFile")
        assert is_refusal(site.ask("DELETE", f"{FILES}/{name}"), 404, "NoSuchFile")
    assert site.ids(what="syslog") == ["\ufffd"]


def test_an_upload_gets_an_id_of_32_digits(site: Site) -> None:
    fields = {name: value for name, value in site.document().items() if name not in ("id", "version")}
    assert is_refusal(site.ask("POST", FILES, fields | {"size": 6, "id": "uploads/x"}), 400, "InvalidMetadata")
    begun = site.ask("POST", FILES, fields | {"size": 6}).json
    assert len(begun["id"]) == 32 and begun["url"] == f"s3://archive/{begun['id']}/data"


# Many ids together


@pytest.mark.behavior("Lists and latest files are right for any ids: pages, cursors and deletions.")
@SETTINGS
@given(
    ids=st.lists(FILE_IDS, min_size=1, max_size=12, unique=True),
    starts=st.lists(st.sampled_from([0, 0, 0, 1, 86_400_000]), min_size=12, max_size=12),
    page=st.integers(1, 4),
    gone=st.lists(st.integers(0, 11), max_size=6),
)
@example(["foo", "foo ", "foo~", "fooé", "fo", "fop"], [0] * 12, 1, [0, 3])
@example(["\ue000", "\ud7ff\U0010ffff", "\uffff", "\U00010000", "~", "é"], [0] * 12, 1, [1])
@example(["a" * 512, "a" * 511 + "b", "\U0010ffff" * 128, "\U0010ffff" * 127], [0] * 12, 1, [2])
@example(["..", ".", "a/b", "a/data", "a"], [0] * 12, 2, [0, 4])
def test_any_ids_are_listed_in_order_and_once(ids: list[str], starts: list[int], page: int, gone: list[int]) -> None:
    with deployed() as site, pytest.MonkeyPatch.context() as patched:
        patched.setattr(search.Search.page, "__defaults__", (page, *(search.Search.page.__defaults__ or ())[1:]))
        documents = [
            site.push(key=key_of(file_id, place), id=file_id, start=START_MS - starts[place], end=None, work_id="job-1")
            for place, file_id in enumerate(ids)
        ]
        keys = [key_of(file_id, place) for place, file_id in enumerate(ids)]
        assert site.notify(*keys) == []
        assert [record["metadata"]["id"] for report in site.reports for record in report["records"]] == ids
        there = dict(zip(keys, documents, strict=True))
        assert_listed(site, list(there.values()), page)
        for place in gone:
            key = keys[place % len(keys)]
            there.pop(key, None)
            site.world.archive_store.delete(key)
            assert site.notify(key, name="ObjectRemoved:Delete") == []
        assert_listed(site, list(there.values()), page)
        for file_id in [document["id"] for document in there.values() if document["id"] not in DOTS]:
            assert site.get(f"{address(file_id)}/metadata").json["id"] == file_id
            assert site.ask("DELETE", address(file_id)).status == 204
        left = [document for document in there.values() if document["id"] in DOTS]
        assert_listed(site, left, page)
        assert {row["range_key"] for row in site.rows("files")} == {f"web-1:{document['id']}" for document in left}


def assert_listed(site: Site, documents: list[dict[str, Any]], page: int) -> None:
    """Each list has these files in order on full pages, and the latest file is one of the newest."""
    for query in ({}, {"where": "web-1"}, {"work_id": "job-1"}, {"start": START_MS - 86_400_000, "end": START_MS}):
        for order in ("oldest", "newest"):
            pages = site.pages(what="syslog", order=order, **query)
            found = [record["metadata"]["id"] for each in pages for record in each]
            assert found == ids_of(documents, newest_first=order == "newest"), (query, order)
            assert all(len(each) == page for each in pages[:-1]) and (pages[-1] or not documents)
    latest = site.latest()
    newest = [each["id"] for each in documents if each["start"] == max(each["start"] for each in documents)]
    assert latest.json["metadata"]["id"] in newest if newest else is_refusal(latest, 404, "NoSuchFile")


def test_original_of_any_id_with_a_key_of_its_own_outlives_its_copy(site: Site) -> None:
    for file_id in ("foo", "é ~", "\U0010ffff"):
        assert is_one_segment(file_id)
        site.file(b"one\n", id=file_id)
        site.file(b"one\n", key=f"copies/{quote(file_id)}", id=file_id)
        site.world.archive_store.delete(f"copies/{quote(file_id)}")
        assert site.notify(f"copies/{quote(file_id)}", name="ObjectRemoved:Delete") == []
        assert site.list(what="syslog").json["records"][0]["url"] == f"s3://archive/{file_id}/data"
        site.world.archive_store.delete(f"{file_id}/data")
        assert site.notify(f"{file_id}/data", name="ObjectRemoved:Delete") == [] and site.ids(what="syslog") == []
