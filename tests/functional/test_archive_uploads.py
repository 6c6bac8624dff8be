"""Uploads without credentials, changes of metadata, deletions: responses, stored objects, and files that must not be listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.archive import uploads
from chalicelib.catalog.file_state import FileState
from chalicelib.errors import PreconditionFailedError
from chalicelib.ports import PutOptions, StoredObject
from tests.functional.archive import BASE, FILES, Site, deployed, described, hash_of, is_refusal
from tests.functional.gateway import Answer
from tests.sampling import examples
from tests.support.object_store import InMemoryObjectStore
from tests.world import START_MS, World

MIB = 1024 * 1024
BODY = b"line 1\nline 2\n"


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        yield site


def announced(body: bytes = BODY, **fields: Any) -> dict[str, Any]:
    """A client's metadata of a new file."""
    return {"start": START_MS, "end": START_MS + 5, "path": "/a.log", "where": "web-1", "what": "upload", "work_id": None,
            "hash": hash_of(body), "size": len(body)} | fields  # fmt: skip


def begin(site: Site, body: bytes = BODY, **fields: Any) -> dict[str, Any]:
    answer = site.ask("POST", FILES, announced(body, **fields))
    assert answer.status == 201, answer.body
    upload: dict[str, Any] = answer.json
    return upload


def upload(site: Site, body: bytes = BODY, **fields: Any) -> dict[str, Any]:
    """Upload a file completely. Returns its metadata."""
    begun = begin(site, body, **fields)
    site.send(begun, body)
    assert site.notify(f"{begun['id']}/data") == []
    metadata: dict[str, Any] = begun["metadata"]
    return metadata


def metadata_url(document: dict[str, Any]) -> str:
    return f"{FILES}/{document['id']}/metadata"


def no_row_lists(site: Site) -> bool:
    return site.rows("files") == site.rows("latest") == [row for row in site.rows("listing") if "document" in row] == []


# Begin


def test_response_of_a_new_upload(site: Site) -> None:
    answer = site.ask("POST", FILES, announced(colour="blue"))
    assert answer.status == 201 and answer.headers["Content-Type"] == "application/json"
    said, file_id = answer.json, answer.json["id"]
    assert said.keys() == {"id", "url", "http_url", "metadata", "upload", "expires_at", "warnings"}
    assert len(file_id) == 32 and set(file_id) <= set("0123456789abcdef")
    assert (said["url"], said["http_url"]) == (f"s3://archive/{file_id}/data", f"{BASE}{FILES}/{file_id}/data")
    expected = {name: value for name, value in announced(colour="blue").items() if name != "size"}
    assert said["metadata"] == expected | {"version": 0, "id": file_id}
    assert said["upload"].keys() == {"method", "url", "headers"} and said["upload"]["method"] == "PUT"
    assert json.loads(said["upload"]["headers"]["x-amz-meta-datalake"]) == said["metadata"]
    assert said["expires_at"] == "2026-09-21T15:13:20.000Z"
    assert site.world.archive_store.calls == {}, "no request for a small file"
    assert site.rows("objects") == [] and no_row_lists(site)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []), ({"where": "localhost"}, ["where"]), ({"where": "vagrant", "what": "job"}, ["where", "what"]), ({"what": "task"}, ["what"]),
        ({"where": "job", "what": "localhost", "work_id": "task"}, []),
    ],
)  # fmt: skip
def test_discouraged_names_are_warnings_in_the_response_and_the_report(
    site: Site, fields: dict[str, str], names: list[str]
) -> None:
    begun = begin(site, **fields)
    assert [each.partition(" ")[0] for each in begun["warnings"]] == names
    assert all(repr(fields[name]) in warning for name, warning in zip(names, begun["warnings"], strict=True))
    site.send(begun, BODY)
    site.notify(f"{begun['id']}/data")
    assert site.report["status"] == "success" and site.report["records"][0].get("warnings", []) == begun["warnings"]


def test_every_upload_is_another_file(site: Site) -> None:
    assert begin(site)["id"] != begin(site)["id"]


def test_times_of_an_upload_may_be_any_moment(site: Site) -> None:
    assert begin(site, start="now", end=None)["metadata"]["start"] == START_MS
    assert begin(site, start="2015-03-20T01:00:00+01:00", end=1_426_809_601)["metadata"]["end"] == 1_426_809_601_000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": "0" * 32}, "id"), ({"runlake-upload-bytes": "5"}, "runlake-upload-bytes"), ({"version": 1}, "version"),
        ({"version": None}, "version"), ({"size": None}, "size"), ({"size": -1}, "size"), ({"size": "5"}, "size"), ({"size": 5.0}, "size"),
        ({"size": True}, "size"), ({"size": [5]}, "size"), ({"hash": None}, "hash"), ({"hash": "x"}, "hash"), ({"hash": "0" * 64}, "hash"),
        ({"what": "Up.log"}, "what"), ({"what": "a\n"}, "what"), ({"where": 5}, "where"), ({"where": "x" * 257}, "where"),
        ({"path": "relative"}, "path"), ({"work_id": "null"}, "work_id"), ({"start": None}, "start"), ({"start": "x"}, "time"),
        ({"start": [1]}, "time"), ({"start": {}}, "time"), ({"start": True}, "time"), ({"start": 1e300}, "time"), ({"end": START_MS - 1}, "end"),
        ({"end": START_MS + 40 * 86_400_000}, "30 days"), ({"start": "0000-01-01"}, "time"), ({"path": "/" + "x" * 1900}, "too large"),
        ({"note": "ä" * 400}, "too large"), ({"start": "2015-01-01T00:00:00+99:99"}, "time"), ({"start": 10**400}, "time"),
    ],
)  # fmt: skip
def test_an_upload_that_cannot_be_is_refused(site: Site, change: dict[str, Any], says: str) -> None:
    answer = site.ask("POST", FILES, announced(**change))
    assert is_refusal(answer, 400, "InvalidMetadata") and says in answer.json["message"]
    assert site.world.archive_store.calls == {}


@pytest.mark.parametrize("name", ["start", "path", "where", "what", "work_id", "hash", "size"])
def test_a_required_field_that_is_missing_is_refused(site: Site, name: str) -> None:
    given_fields = announced()
    del given_fields[name]
    answer = site.ask("POST", FILES, given_fields)
    assert is_refusal(answer, 400, "InvalidMetadata") and f'"{name}"' in answer.json["message"]


def test_an_upload_has_at_most_5_gib(site: Site) -> None:
    for size in (uploads.MAX_BYTES + 1, 10**30):
        assert is_refusal(site.ask("POST", FILES, announced(size=size)), 413, "TooLarge")
    assert site.ask("POST", FILES, announced(size=uploads.MAX_BYTES)).status == 201


# What nobody could read again is not taken


UNREADABLE = [
    '{"x": NaN}',
    '{"x": Infinity}',
    '{"x": -Infinity}',
    '{"x": 1e999}',
    '{"x": ["\\ud800"]}',
    '{"\\udfff": 1}',
    '{"path": "/\\ud800"}',
]


@pytest.mark.parametrize("change", UNREADABLE)
def test_an_upload_that_the_ingestion_would_refuse_is_refused_at_once(site: Site, change: str) -> None:
    whole = json.dumps(announced())
    answer = site.ask("POST", FILES, f"{whole[:-1]}, {change[1:]}")
    assert is_refusal(answer, 400, "InvalidMetadata"), answer.body


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_change_that_the_ingestion_would_refuse_is_refused_and_the_file_stays(site: Site, change: str) -> None:
    document = site.file()
    assert is_refusal(site.ask("PATCH", metadata_url(document), change), 400, "InvalidMetadata")
    assert site.get(metadata_url(document)).json == described(document)
    assert site.ids(what="syslog") == [document["id"]]


SIMPLE = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=10)
FIELDS = st.dictionaries(
    st.sampled_from(["start", "end", "path", "what", "where", "work_id", "cls", "self", "_fields_set"]) | st.text(max_size=10),
    SIMPLE | st.lists(SIMPLE, max_size=3) | st.dictionaries(st.text(max_size=5), SIMPLE, max_size=3)
    | st.sampled_from(["/x y  z", "x", "now", "2015-03-20", 5, 31_536_000_000]),
    max_size=3,
)  # fmt: skip


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FIELDS, FIELDS)
def test_whatever_an_upload_or_a_change_is_answered_with_200_is_listed_so(first: dict[str, Any], then: dict[str, Any]) -> None:
    with deployed() as site:
        answer = site.ask("POST", FILES, announced() | first)
        if answer.status != 201:
            assert is_refusal(answer, 400, "InvalidMetadata")
            return
        site.send(answer.json, BODY)
        assert site.notify(f"{answer.json['id']}/data") == []
        metadata = answer.json["metadata"]
        assert site.report["status"] == "success" and site.report["records"][0]["metadata"] == metadata
        changed = site.ask("PATCH", metadata_url(metadata), then)
        assert changed.status == 200 or is_refusal(changed, 400, "InvalidMetadata")
        expected = changed.json if changed.status == 200 else described(metadata)
        (record,) = site.list(what="*").json["records"]
        assert record["metadata"] == site.get(metadata_url(metadata)).json == expected


# Checked at ingestion


@pytest.mark.behavior("An upload is listed only once its bytes match its hash and size.")
def test_an_upload_is_no_file_before_its_bytes_were_checked(site: Site) -> None:
    begun = begin(site)
    assert is_refusal(site.follow(begun["http_url"]), 404, "NoSuchFile")
    site.send(begun, BODY)
    for path in ("data", "metadata"):
        answer = site.get(f"{FILES}/{begun['id']}/{path}")
        assert is_refusal(answer, 404, "NoSuchFile") and "not checked yet" in answer.json["detail"]
    assert site.ids(what="upload") == []
    site.notify(f"{begun['id']}/data")
    assert site.follow(begun["http_url"]).body == BODY.decode()
    assert site.ids(what="upload") == [begun["id"]]


def test_an_object_is_made_once(site: Site) -> None:
    begun = begin(site)
    site.send(begun, BODY)
    with pytest.raises(PreconditionFailedError):
        site.send(begun, BODY)


@pytest.mark.parametrize("notified", [True, False], ids=["after it was listed", "before it was listed"])
@pytest.mark.parametrize("at", ["once", "59 min later"])
@pytest.mark.parametrize("changed", [False, True], ids=["as uploaded", "with other metadata"])
def test_link_stores_nothing_in_the_place_of_a_deleted_file(site: Site, notified: bool, at: str, changed: bool) -> None:
    begun = begin(site)
    key = f"{begun['id']}/data"
    site.send(begun, BODY)
    if notified or changed:
        site.notify(key)
    if changed:
        assert site.ask("PATCH", f"{FILES}/{begun['id']}/metadata", {"path": "/other"}).status == 200
    assert site.ask("DELETE", f"{FILES}/{begun['id']}").status == 204
    if at != "once":
        site.world.clock.advance(uploads.EXPIRES_S)
    with pytest.raises(PreconditionFailedError):
        site.send(begun, BODY)
    (mark,) = site.world.archive_store.list("").objects
    assert (mark.key, mark.size) == (key, 0)
    assert site.notify(key) == [] and site.ids(what="upload") == [] and no_row_lists(site)
    for path in ("", "/data", "/metadata"):
        answer = site.ask("DELETE" if not path else "GET", f"{FILES}/{begun['id']}{path}")
        assert is_refusal(answer, 404, "NoSuchFile")


def test_upload_that_is_deleted_after_its_link_expired_leaves_nothing(site: Site) -> None:
    document = upload(site, BODY)
    site.world.clock.advance(uploads.EXPIRES_S + 301)
    assert site.ask("DELETE", f"{FILES}/{document['id']}").status == 204
    assert site.world.archive_store.list("").objects == []


@pytest.mark.parametrize("notified", [True, False], ids=["after it was listed", "before it was listed"])
@pytest.mark.parametrize("at", ["once", "59 min later"])
def test_file_that_comes_back_by_its_link_is_not_listed(site: Site, notified: bool, at: str) -> None:
    """The mark in its place was deleted with AWS credentials."""
    begun = begin(site)
    site.send(begun, BODY)
    if notified:
        site.notify(f"{begun['id']}/data")
    assert site.ask("DELETE", f"{FILES}/{begun['id']}").status == 204
    site.world.archive_store.delete(f"{begun['id']}/data")
    if at != "once":
        site.world.clock.advance(uploads.EXPIRES_S - 60)
    site.send(begun, BODY)
    for _ in range(2):  # a notification may come twice
        site.notify(f"{begun['id']}/data")
        assert site.ids(what="upload") == [] and no_row_lists(site)
        assert site.report["status"] == "error" and "deleted" in site.report["message"]
    assert is_refusal(site.get(f"{FILES}/{begun['id']}/data"), 404, "NoSuchFile")
    assert site.ask("DELETE", f"{FILES}/{begun['id']}").status == 204
    assert [each.size for each in site.world.archive_store.list("").objects] == [0]


def test_upload_that_is_restored_after_its_link_expired_is_listed(site: Site) -> None:
    """Restored from a backup with AWS credentials, with all of its metadata."""
    begun = begin(site)
    site.send(begun, BODY)
    assert site.ask("DELETE", f"{FILES}/{begun['id']}").status == 204
    site.world.archive_store.delete(f"{begun['id']}/data")
    site.world.clock.advance(FileState.UPLOAD_WINDOW_S + 1)
    site.send(begun, BODY)
    site.notify(f"{begun['id']}/data")
    assert site.ids(what="upload") == [begun["id"]]


def test_deleted_files_are_remembered_longer_than_their_links_work() -> None:
    assert uploads.EXPIRES_S < FileState.UPLOAD_WINDOW_S < FileState.DELETED_TTL_S


def test_deletion_does_not_take_away_a_newer_version(site: Site) -> None:
    document = site.file()
    key, delete = f"{document['id']}/data", site.world.archive_store.delete

    def overtaken(*arguments: Any, **options: Any) -> None:
        site.world.archive_store.put(key, b"newer", PutOptions(site.world.archive_store.head(key).metadata))
        delete(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch_:
        patch_.setattr(site.world.archive_store, "delete", overtaken)
        assert site.ask("DELETE", f"{FILES}/{document['id']}").status == 503, "to be repeated"
    assert site.world.archive_store.get(key).body == b"newer"


def test_deletion_of_a_file_that_is_written_again_meanwhile_is_refused(site: Site) -> None:
    document = site.file()
    key, delete = f"{document['id']}/data", site.world.archive_store.delete

    def overtaken(*arguments: Any, **options: Any) -> None:
        info = site.world.archive_store.head(key)
        delete(*arguments, **options)
        site.world.archive_store.put(key, b"again", PutOptions(info.metadata))

    with pytest.MonkeyPatch.context() as patch_:
        patch_.setattr(site.world.archive_store, "delete", overtaken)
        assert site.ask("DELETE", f"{FILES}/{document['id']}").status == 503, "to be repeated"
    assert site.ids(what="syslog") == [document["id"]]


def test_an_empty_upload(site: Site) -> None:
    document = upload(site, b"")
    assert site.get(f"{FILES}/{document['id']}/data").body == ""
    assert site.ids(what="upload") == [document["id"]]


WRONG = [
    ("hash", BODY, b"line 1\nline 3\n", "hash"),
    ("size, shorter", BODY, BODY[:-1], "size"),
    ("size, longer", BODY, BODY + b"x", "size"),
    ("empty", BODY, b"", "size"),
]


def store_as_announced(site: Site, begun: dict[str, Any], body: bytes) -> None:
    """Store an object without the check of the signature, which S3 would refuse."""
    names = begun["upload"]["headers"]
    metadata = {name.removeprefix("x-amz-meta-"): value for name, value in names.items() if name.startswith("x-amz-meta-")}
    site.world.archive_store.put(f"{begun['id']}/data", body, PutOptions(metadata))


@pytest.mark.parametrize(("said", "sent", "says"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_hash_or_size_is_an_error_in_the_report_and_the_file_is_marked(
    site: Site, said: bytes, sent: bytes, says: str
) -> None:
    begun = begin(site, said)
    store_as_announced(site, begun, sent)
    for _ in range(2):
        assert site.notify(f"{begun['id']}/data") == [], "it is done with"
        report = site.report
        assert (
            report["status"] == "error"
            and f"{says} differs from the announced one" in report["message"]
            and begun["id"] in report["message"]
        )
    assert site.ids(what="upload") == [] and no_row_lists(site)
    assert site.latest("upload", "web-1").status == 404
    for path in ("data", "metadata"):
        answer = site.get(f"{FILES}/{begun['id']}/{path}")
        assert is_refusal(answer, 404, "NoSuchFile") and f"{says} differs" in answer.json["detail"], "and tells why"
    (mark,) = (row for row in site.rows("objects") if row["key"] == f"file#{begun['id']}")
    assert says in mark["problem"] and "document" not in mark


def test_bad_upload_affects_no_other_file_and_is_not_the_latest(site: Site) -> None:
    good = upload(site, start=START_MS - 5)
    begun = begin(site)
    store_as_announced(site, begun, b"x" * len(BODY))
    other = site.push(what="upload", start=START_MS - 500)
    assert site.notify(f"{begun['id']}/data", f"{other['id']}/data") == []
    assert [report["status"] for report in site.reports[1:]] == ["error", "success"]
    assert site.ids(what="upload") == [other["id"], good["id"]]
    assert site.latest("upload", "web-1").json["metadata"]["id"] == good["id"]


def test_a_bad_upload_that_goes_away_is_forgotten(site: Site) -> None:
    begun = begin(site)
    store_as_announced(site, begun, b"x" * len(BODY))
    site.notify(f"{begun['id']}/data")
    site.world.archive_store.delete(f"{begun['id']}/data")
    assert site.notify(f"{begun['id']}/data", name="LifecycleExpiration:Delete") == []
    assert "hash differs" not in site.follow(begun["http_url"]).body


def test_a_bad_upload_can_be_deleted(site: Site) -> None:
    """Otherwise its sender could only wait for the lifecycle."""
    begun = begin(site)
    store_as_announced(site, begun, b"x" * len(BODY))
    site.notify(f"{begun['id']}/data")
    assert site.ask("DELETE", f"{FILES}/{begun['id']}").status == 204
    assert [each.size for each in site.world.archive_store.list("").objects] == [0]


def test_upload_with_a_wrong_size_is_not_hashed(site: Site) -> None:
    begun = begin(site)
    store_as_announced(site, begun, BODY + b"x")
    site.world.archive_store.calls.clear()
    site.notify(f"{begun['id']}/data")
    assert site.world.archive_store.calls["get"] == 0


# Large ones


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * MIB)


@pytest.mark.usefixtures("small_parts")
def test_a_large_upload_goes_in_parts(site: Site) -> None:
    body = bytes(range(256)) * (12 * MIB // 256) + b"the end"
    begun = begin(site, body)
    how = begun["upload"]
    assert how.keys() == {"method", "part_size", "parts", "complete_url", "abort_url"}
    assert (how["method"], how["part_size"]) == ("MULTIPART", 5 * MIB)
    assert [(part["number"], part["size"]) for part in how["parts"]] == [(1, 5 * MIB), (2, 5 * MIB), (3, 2 * MIB + 7)]
    site.send(begun, body)
    assert site.notify(f"{begun['id']}/data", name="ObjectCreated:CompleteMultipartUpload") == []
    assert site.report["status"] == "success" and site.report["records"][0]["size"] == len(body)
    assert site.ids(what="upload") == [begun["id"]]


@pytest.mark.usefixtures("small_parts")
def test_a_large_upload_with_a_wrong_byte_is_marked(site: Site) -> None:
    body = b"x" * (5 * MIB + 1)
    begun = begin(site, body)
    site.send(begun, body[:-1] + b"y")
    site.notify(f"{begun['id']}/data")
    assert site.report["status"] == "error" and "hash differs" in site.report["message"]
    assert site.ids(what="upload") == []


@pytest.mark.usefixtures("small_parts")
def test_parts_of_an_exact_size(site: Site) -> None:
    assert "parts" not in begin(site, b"x" * 5 * MIB)["upload"]
    for size, parts in ((5 * MIB + 1, [5 * MIB, 1]), (10 * MIB, [5 * MIB, 5 * MIB])):
        assert [part["size"] for part in begin(site, b"x" * size)["upload"]["parts"]] == parts
    assert site.world.archive_store.uploads == 2, "the bucket's lifecycle aborts what is never completed"


# Changes


def patch(site: Site, document: dict[str, Any], **changes: Any) -> Answer:
    return site.ask("PATCH", metadata_url(document), changes)


@pytest.mark.behavior("The metadata of a file can be changed.")
def test_a_change_is_a_new_version_of_the_record_at_once(site: Site) -> None:
    document = site.file(work_id="job-1", note="x")
    older = site.file(start=START_MS - 100_000, end=None)
    site.world.clock.advance(5)
    answer = patch(site, document, what="other", where="web-2", work_id=None, end=None, start="2015-03-20", more=[1.5])
    expected = document | {
        "what": "other",
        "where": "web-2",
        "work_id": None,
        "end": None,
        "start": 1_426_809_600_000,
        "more": [1.5],
    }
    assert (answer.status, answer.json) == (200, described(expected))
    (record,) = site.list(what="other").json["records"]
    assert (record["metadata"]["more"], record["create_time"]) == ([1.5], START_MS + 5000)
    assert site.ids(what="syslog") == [older["id"]] and site.ids(what="*", work_id="job-1") == []
    assert site.latest().json["metadata"]["id"] == older["id"], "it falls back"
    assert site.latest("other", "web-2", "?lookback=9999").json["metadata"]["id"] == document["id"]
    assert site.get(metadata_url(document)).json == described(expected)
    assert site.follow(record["http_url"]).body == "hello\n"
    before = sorted(map(str, site.rows("files")))
    assert site.notify(f"{document['id']}/data", name="ObjectCreated:Copy") == [] and sorted(map(str, site.rows("files"))) == before


def test_an_empty_change_keeps_everything(site: Site) -> None:
    document = site.file()
    assert patch(site, document).json == described(document)


def test_a_change_of_something_that_is_not_ingested_yet(site: Site) -> None:
    document = site.push()
    assert patch(site, document, what="other").status == 200
    assert site.ids(what="other") == [document["id"]]


def test_a_change_under_an_odd_key(site: Site) -> None:
    document = site.file(key="odd key")
    assert patch(site, document, what="other").status == 200
    assert [record["url"] for record in site.list(what="other").json["records"]] == ["s3://archive/odd key"]


@pytest.mark.parametrize("size", [0, 1, 5 * MIB, 5 * MIB + 1, 12 * MIB])
def test_the_object_is_rewritten_by_copy_where_it_is_large(site: Site, size: int) -> None:
    document = site.document(b"x" * size)
    site.world.archive_store.put(
        f"{document['id']}/data", b"x" * size, PutOptions({"datalake": json.dumps(document), "mine": "1"}, content_type="image/png")
    )
    site.notify(f"{document['id']}/data")
    sent = site.world.archive_store.uploaded_bytes
    assert patch(site, document, what="other").status == 200
    info = site.world.archive_store.head(f"{document['id']}/data")
    assert (info.size, info.content_type, info.metadata["mine"]) == (size, "image/png", "1")
    assert site.world.archive_store.uploaded_bytes - sent == (size if size <= 5 * MIB else 0)
    assert site.world.archive_store.uploads == 0
    assert site.ids(what="other") == [document["id"]]


def test_a_checked_upload_is_not_checked_again_after_a_change(site: Site) -> None:
    document = upload(site)
    assert patch(site, document, note="x").json == described(document | {"note": "x"})
    assert site.notify(f"{document['id']}/data") == []
    assert site.report["status"] == "success" and site.ids(what="upload") == [document["id"]]


@pytest.mark.parametrize(
    "change",
    [{"version": 0}, {"id": "0" * 32}, {"hash": "0" * 32}, {"what": None}, {"what": "A"}, {"where": "a.b"}, {"work_id": "null"},
     {"path": "x"}, {"start": "x"}, {"start": None}, {"end": 5}, {"start": [], "what": 5}, {"note": "x" * 2000},
     {"end": START_MS + 99 * 86_400_000}],
)  # fmt: skip
def test_invalid_change_changes_nothing(site: Site, change: dict[str, Any]) -> None:
    document = site.file()
    before = (site.rows("files"), site.world.archive_store.head(f"{document['id']}/data"))
    assert is_refusal(patch(site, document, **change), 400, "InvalidMetadata")
    assert before == (site.rows("files"), site.world.archive_store.head(f"{document['id']}/data"))


def test_a_change_of_no_file(site: Site) -> None:
    assert is_refusal(site.ask("PATCH", f"{FILES}/{'0' * 32}/metadata", {"what": "x"}), 404, "NoSuchFile")
    begun = begin(site)
    site.send(begun, BODY)
    assert is_refusal(patch(site, begun, what="x"), 404, "NoSuchFile"), "not before it is checked"


class RewrittenMeanwhile(InMemoryObjectStore):
    """Another writer replaces the object between a read and the next request."""

    meanwhile: bytes | None = None

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        found = super().get(key, start, end, if_match=if_match)
        if self.meanwhile is not None:
            self.put(key, self.meanwhile, PutOptions(found.info.metadata))
            self.meanwhile = None
        return found


def test_change_is_not_applied_to_a_newer_version() -> None:
    world = World()
    world.archive_store = store = RewrittenMeanwhile(world.clock)
    with deployed(world=world) as site:
        document = site.file()
        store.meanwhile = b"theirs"
        answer = patch(site, document, what="other")
        assert is_refusal(answer, 503, "Unavailable") and answer.headers["Retry-After"] == "1"
        assert store.get(f"{document['id']}/data").body == b"theirs"
        assert patch(site, document, what="other").status == 200
        assert store.get(f"{document['id']}/data").body == b"theirs"


# Deletions


@pytest.mark.behavior("A file can be deleted.")
def test_a_deletion(site: Site) -> None:
    older, document = site.file(start=START_MS - 100_000), site.file()
    answer = site.ask("DELETE", f"{FILES}/{document['id']}")
    assert (answer.status, answer.body) == (204, "")
    assert site.ids(what="syslog") == [older["id"]] and site.latest().json["metadata"]["id"] == older["id"]
    assert [found.key for found in site.world.archive_store.list("").objects] == [f"{older['id']}/data"]
    for path in ("/data", "/metadata"):
        assert is_refusal(site.get(f"{FILES}/{document['id']}{path}"), 404, "NoSuchFile")
    assert is_refusal(site.ask("DELETE", f"{FILES}/{document['id']}"), 404, "NoSuchFile")
    assert site.notify(f"{document['id']}/data", name="ObjectRemoved:Delete") == [] and site.ids(what="syslog") == [older["id"]]


def test_a_deletion_before_ingestion_and_the_event_that_comes_late(site: Site) -> None:
    document = site.push()
    assert site.ask("DELETE", f"{FILES}/{document['id']}").status == 204
    site.notify(f"{document['id']}/data")
    assert site.ids(what="syslog") == []


def test_a_deletion_under_an_odd_key(site: Site) -> None:
    document = site.file(key="odd key")
    assert site.ask("DELETE", f"{FILES}/{document['id']}").status == 204
    assert site.ids(what="syslog") == [] and site.world.archive_store.list("").objects == []


def test_a_deletion_frees_the_id_for_the_same_file_again(site: Site) -> None:
    document = site.file()
    site.ask("DELETE", f"{FILES}/{document['id']}")
    site.file(**document)
    assert site.ids(what="syslog") == [document["id"]] and site.latest().status == 200
