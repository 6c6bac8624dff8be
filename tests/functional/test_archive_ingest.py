"""The archive's ingestion, sentence by sentence of the contract: metadata documents, objects and records, ingester and report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib import composition
from chalicelib.deadline import Deadline
from chalicelib.errors import StoreUnavailableError, UnavailableError
from chalicelib.ingestion.report import Report
from chalicelib.ports import Key, Message, ObjectInfo, PutOptions, Row, Write
from tests.functional.archive import DAY_MS, FILES, Site, deployed, described, hash_of, is_refusal
from tests.ingestion_harness import ARCHIVE, message, s3_record
from tests.sampling import examples
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.world import START_MS, World

ID = "ab" * 16
KEY = f"{ID}/data"


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        yield site


# Metadata document


@pytest.mark.parametrize("name", ["version", "start", "end", "path", "work_id", "where", "what", "id", "hash"])
def test_every_field_of_a_document_is_kept(site: Site, name: str) -> None:
    document = site.file(work_id="job-1")
    assert site.list(what="syslog").json["records"][0]["metadata"][name] == document[name]


@pytest.mark.parametrize("name", ["start", "where", "what", "hash", "path", "work_id"])
def test_a_required_field_that_is_missing_is_an_error(site: Site, name: str) -> None:
    document = site.document()
    del document[name]
    site.store(KEY, b"x", json.dumps(document))
    assert site.notify(KEY) == []
    assert site.report["status"] == "error" and f'"{name}"' in site.report["message"]
    assert site.rows("files") == site.rows("latest") == site.rows("listing") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 1), ("version", -1), ("version", "0"), ("version", None), ("version", 0.5), ("version", False),
        ("start", None), ("start", "x"), ("start", True), ("start", []), ("start", {}), ("start", 10**30), ("start", 1e300), ("start", ""),
        ("end", "x"), ("end", False), ("end", START_MS - 60_001), ("end", 10**30), ("end", "2015"),
        ("path", "relative"), ("path", ""), ("path", None), ("path", 5), ("path", "C:relative"), ("path", "CC:\\x"), ("path", "\\x"),
        ("work_id", "null"), ("work_id", ""), ("work_id", "Job"), ("work_id", 5), ("work_id", "a b"), ("work_id", "a\n"), ("work_id", []),
        ("where", ""), ("where", "Web"), ("where", "web.1"), ("where", None), ("where", 5), ("where", "web\n"), ("where", "wéb"),
        ("what", ""), ("what", "Syslog"), ("what", "syslog.log"), ("what", None), ("what", 5), ("what", "syslog\n"), ("what", "a/b"),
        ("id", ""), ("id", "x\n"), ("id", "\x7f"), ("id", "g" * 513), ("id", "é" * 257), ("id", None), ("id", 5), ("id", "0" * 31 + "\n"),
        ("hash", ""), ("hash", "0" * 31), ("hash", None), ("hash", 5), ("hash", "g" * 32), ("hash", "0" * 64),
    ],
)  # fmt: skip
def test_invalid_field_is_an_error_and_nothing_is_stored(site: Site, name: str, value: Any) -> None:
    site.push(key=KEY, **{"id": ID, name: value})
    assert site.notify(KEY) == []
    assert site.report["status"] == "error" and site.report["records"] == [] and site.report["message"]
    assert site.rows("files") == site.rows("latest") == site.rows("listing") == []
    assert is_refusal(site.get(f"{FILES}/{ID}/metadata"), 404, "NoSuchFile")


@pytest.mark.parametrize(
    ("name", "value"),
    [("path", "/"), ("path", "C:\\x\\y"), ("path", "/ä ö\n\t"), ("end", None), ("work_id", None), ("work_id", "null-1"), ("work_id", "_"),
     ("what", "0"), ("where", "-_-"), ("start", 0), ("start", -1)],
)  # fmt: skip
def test_a_field_that_holds(site: Site, name: str, value: Any) -> None:
    site.file(**({"end": 5} if name == "start" else {}) | {name: value})
    assert site.report["status"] == "success"
    assert site.report["records"][0]["metadata"][name] == value


def test_an_id_is_made_when_it_is_missing_and_stays(site: Site) -> None:
    document = site.document()
    del document["id"]
    site.store("some/odd key", b"x", json.dumps(document))
    site.store(KEY, b"x", json.dumps(document))
    site.notify("some/odd key", KEY)
    first = [report["records"][0]["metadata"]["id"] for report in site.reports]
    assert first[1] == ID, "the key tells it"
    assert len(first[0]) == 32 and set(first[0]) <= set("0123456789abcdef")
    site.notify("some/odd key", KEY)
    assert [report["records"][0]["metadata"]["id"] for report in site.reports[2:]] == first
    assert sorted(site.ids(what="syslog")) == sorted(first)


def test_a_missing_end_is_an_instant(site: Site) -> None:
    document = site.document()
    del document["end"]
    site.store(f"{document['id']}/data", b"x", json.dumps(document))
    assert site.notify(f"{document['id']}/data") == []
    assert site.list(what="syslog").json["records"][0]["metadata"]["end"] is None


@pytest.mark.parametrize(
    ("given_time", "ms"),
    [(1_426_809_600_000, 1_426_809_600_000), (1_426_809_600.5, 1_426_809_600_500), ("2015-03-20T00:00:00Z", 1_426_809_600_000),
     ("2015-03-20T01:00:00+01:00", 1_426_809_600_000), ("20 Mar 2015", 1_426_809_600_000), ("1426809600", 1_426_809_600_000)],
)  # fmt: skip
def test_dates_normalize_to_milliseconds(site: Site, given_time: Any, ms: int) -> None:
    site.file(start=given_time, end=None)
    assert site.report["records"][0]["metadata"]["start"] == ms


def test_a_stored_now_is_no_time(site: Site) -> None:
    """Its value would change with every read."""
    site.push(key=KEY, id=ID, start="now", end=None)
    site.notify(KEY)
    assert site.report["status"] == "error"


@pytest.mark.parametrize(
    "text",
    ["", " ", "null", "5", '"x"', "[]", "{", '{"a": NaN}', '{"a": Infinity}', '{"a": 1e999}', "{}", "[" * 100_000, '{"a":' * 5000, "\0",
     "\ud800", "ä", "=?UTF-8?B?" + "e30=" + "?=", '{"version": 0, "version": 1}', "9" * 10_000],
)  # fmt: skip
def test_metadata_that_is_not_a_document_is_an_error(site: Site, text: str) -> None:
    site.store(KEY, b"x", text)
    assert site.notify(KEY) == []
    assert site.report["status"] == "error"
    assert site.rows("listing") == []


@pytest.mark.parametrize("extra", [float("nan"), float("inf"), "\ud800"])
def test_values_that_json_cannot_represent_are_an_error(site: Site, extra: Any) -> None:
    site.push(key=KEY, id=ID, extra=[{"a": extra}])
    assert site.notify(KEY) == []
    assert site.report["status"] == "error"


EXTRAS = [
    {"colour": "blue"}, {"ratio": 0.1}, {"big": 10**40, "small": 1e-300, "precise": 0.1 + 0.2}, {"deep": [{"a": [[[[{"b": None}]]]]}]},
    {"": "nameless"}, {"a": {"": 1}}, {"ä €": "ü 😀 \0"}, {"list": [True, None, 1.5, "x"]}, {"start_iso": "mine"}, {"url": "mine"},
    {"cls": 1}, {"self": 1}, {"_fields_set": 1}, {"_fields_set": ["start"]}, {"model_config": {}}, {"model_extra": 1}, {"__class__": "x"},
    {"document": 1, "text": 2, "days": 3, "last_ms": 4}, {"__dict__": {}}, {"values": 1}, {"__pydantic_extra__": 1}, {"data": 1},
]  # fmt: skip


@pytest.mark.parametrize("extra", EXTRAS, ids=[next(iter(extra)) or "empty" for extra in EXTRAS])
def test_unknown_keys_are_kept_whatever_they_are(site: Site, extra: dict[str, Any]) -> None:
    document = site.file(**extra)
    assert site.report["records"][0]["metadata"] == document
    assert site.get(f"{FILES}/{document['id']}/metadata").json == described(document)
    listed = site.list(what="syslog").json["records"][0]["metadata"]
    assert document.items() <= (listed | {"start_iso": document.get("start_iso", listed["start_iso"])}).items()
    assert site.latest().json["metadata"] == listed
    rows = {table: site.rows(table) for table in ("files", "listing", "latest")}
    assert site.notify(f"{document['id']}/data") == [], "and again"
    assert {table: site.rows(table) for table in rows} == rows
    site.world.archive_store.delete(f"{document['id']}/data")
    assert site.notify(f"{document['id']}/data", name="ObjectRemoved:Delete") == []
    assert site.ids(what="syslog") == []


# Objects and records


def test_one_record_for_each_day_from_start_to_end(site: Site) -> None:
    document = site.file(start=3 * DAY_MS - 1, end=5 * DAY_MS, work_id="job-1")
    rows = site.rows("files")
    assert [row["time_index_key"] for row in rows] == ["2:syslog", "3:syslog", "4:syslog", "5:syslog"]
    for row in rows:
        assert row == {
            "version": 0, "url": f"s3://archive/{document['id']}/data", "time_index_key": row["time_index_key"],
            "work_id_index_key": "job-1:syslog", "range_key": f"web-1:{document['id']}", "create_time": START_MS, "size": 6,
            "metadata": document,
        }  # fmt: skip


def test_the_work_id_key_of_a_file_without_one(site: Site) -> None:
    document = site.file()
    assert site.rows("files")[0]["work_id_index_key"] == f"null{document['id']}:syslog"


@pytest.mark.parametrize(("days", "status"), [(29, "success"), (30, "error"), (3000, "error")])
def test_at_most_thirty_day_buckets_or_nothing_is_stored(site: Site, days: int, status: str) -> None:
    site.file(start=100 * DAY_MS, end=(100 + days) * DAY_MS)
    assert site.report["status"] == status
    assert len(site.rows("files")) == (days + 1 if status == "success" else 0)
    assert len(site.rows("latest")) == (status == "success")


def test_the_latest_table_holds_the_greatest_start(site: Site) -> None:
    site.file(start=5 * DAY_MS, end=None)
    late = site.file(start=7 * DAY_MS, end=None)
    site.file(start=6 * DAY_MS, end=None)
    other = site.file(start=1, end=None, where="web-2")
    rows = {row["what_where_key"]: row for row in site.rows("latest")}
    assert {key: row["metadata"]["id"] for key, row in rows.items()} == {"syslog:web-1": late["id"], "syslog:web-2": other["id"]}
    row = rows["syslog:web-1"]
    assert (row["time_index_key"], row["range_key"], row["size"], row["version"]) == ("7:syslog", f"web-1:{late['id']}", 6, 0)


@pytest.mark.parametrize("key", [KEY, "web-1/syslog/1426809600000/abc-x.log", "x", "/lead", "a/../b", "sp ace+plus%25&=é語"])
def test_any_key_is_accepted_and_the_metadata_decides(site: Site, key: str) -> None:
    document = site.file(key=key, id="cd" * 16)
    assert site.report["records"][0]["url"] == f"s3://archive/{key}"
    assert site.ids(what="syslog") == [document["id"]]
    assert site.get(f"{FILES}/{document['id']}/data").body == "hello\n"


# Events


NAMES = ["ObjectCreated:Put", "ObjectCreated:Copy", "ObjectCreated:CompleteMultipartUpload", "ObjectCreated:Post"]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3", "2.10"])
@pytest.mark.parametrize("name", [*NAMES, *(f"s3:{name}" for name in NAMES)])
def test_events_that_create(site: Site, name: str, version: str) -> None:
    document = site.push()
    assert site.receive(message(s3_record(f"{document['id']}/data", name, ARCHIVE, version))) == []
    assert site.report["status"] == "success" and site.ids(what="syslog") == [document["id"]]


REMOVALS = ["ObjectRemoved:Delete", "ObjectRemoved:DeleteMarkerCreated", "LifecycleExpiration:Delete",
            "LifecycleExpiration:DeleteMarkerCreated", "s3:ObjectRemoved:Delete"]  # fmt: skip


@pytest.mark.parametrize("name", REMOVALS)
def test_events_that_remove(site: Site, name: str) -> None:
    document = site.file()
    site.world.archive_store.delete(f"{document['id']}/data")
    assert site.notify(f"{document['id']}/data", name=name) == []
    assert site.ids(what="syslog") == [] and site.rows("files") == site.rows("latest") == []
    assert len(site.reports) == 1, "a removal is not reported"


@pytest.mark.parametrize("name", REMOVALS)
def test_late_removal_keeps_a_recreated_file(site: Site, name: str) -> None:
    document = site.file()
    site.notify(f"{document['id']}/data", name=name)
    assert site.ids(what="syslog") == [document["id"]]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (s3_record(KEY, "ObjectTagging:Put", ARCHIVE), "unsupported event"),
        (s3_record(KEY, "ObjectRestore:Completed", ARCHIVE), "unsupported event"),
        (s3_record(KEY, "ObjectCreated:", ARCHIVE), "unsupported event"),
        (s3_record(KEY, "", ARCHIVE), "unsupported event"),
        (s3_record(KEY, version="1.0", bucket=ARCHIVE), "unsupported version"),
        (s3_record(KEY, version="3.0", bucket=ARCHIVE), "unsupported version"),
        (s3_record(KEY, bucket="another"), "unknown bucket"),
        (s3_record("0" * 32 + "/data", bucket=ARCHIVE), "gone"),
        (s3_record("without", bucket=ARCHIVE), "no metadata document"),
        (s3_record("broken", bucket=ARCHIVE), "not valid json"),
        ({"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": ARCHIVE}, "object": {}}}, "lacks a field"),
        ({"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": 5}, "object": {"key": 5}}}, "strings"),
        ({}, "lacks a field"), (None, "lacks a field"), ([], "lacks a field"), ("x", "lacks a field"),
    ],
)  # fmt: skip
def test_bad_input_is_reported_and_its_neighbours_are_ingested(site: Site, record: Any, says: str) -> None:
    good = site.push()
    site.store("without", b"x", None)
    site.store("broken", b"x", "{")
    body = json.dumps({"Records": [record, s3_record(f"{good['id']}/data", bucket=ARCHIVE)]})
    assert site.receive(body) == []
    assert site.report["status"] == "warning" and says in site.report["message"]
    assert [each["metadata"]["id"] for each in site.report["records"]] == [good["id"]] == site.ids(what="syslog")
    assert site.receive(json.dumps({"Records": [record]})) == []
    assert site.report["status"] == "error" and site.report["records"] == []


@pytest.mark.parametrize(
    "body", ["", "x", "[]", "5", "null", "{}", '{"Records": {}}', '{"Message": "x"}', '{"Message": "[]"}', "[" * 100_000]
)
def test_message_that_is_not_a_notification_is_reported_and_acknowledged(site: Site, body: str) -> None:
    assert site.receive(body) == []
    assert [report["status"] for report in site.reports] == ["error"]


def test_the_test_event_is_ignored(site: Site) -> None:
    test_event = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "x", "Bucket": ARCHIVE, "RequestId": "x"})
    assert site.receive(test_event, json.dumps({"Type": "Notification", "Message": test_event})) == []
    assert site.reports == []


def test_a_notification_wrapped_by_sns(site: Site) -> None:
    document = site.push()
    inner = message(s3_record(f"{document['id']}/data", bucket=ARCHIVE))
    about = {"Type": "Notification", "MessageId": "1", "TopicArn": "arn", "Subject": "Amazon S3 Notification", "Message": inner}
    assert site.receive(json.dumps(about), json.dumps({"Message": inner})) == []
    assert [report["status"] for report in site.reports] == ["success", "success"]
    assert site.ids(what="syslog") == [document["id"]]


KEYS = [
    "a b",
    "a+b",
    "a%b",
    "a%20b",
    "100%",
    "ä/語/😀",
    "a&b=c?d#e;f",
    "  ",
    "a//b",
    "'\"<>",
    "back\\slash",
    "tab\tnew\nline",
    "x" * 1000,
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("safe", ["/", ""])
def test_keys_are_form_encoded(site: Site, key: str, safe: str) -> None:
    """As S3 writes them, and as moto does, which also encodes the slash."""
    document = site.push(key=key)
    record = s3_record(key, bucket=ARCHIVE)
    record["s3"]["object"]["key"] = quote(key, safe=safe).replace("%20", "+")
    assert site.receive(message(record)) == []
    assert site.report["records"][0]["url"] == f"s3://archive/{key}"
    assert site.ids(what="syslog") == [document["id"]]


@pytest.mark.parametrize("key", ["", "k" * 1025, "é" * 513, "a\ud800b"], ids=["empty", "long", "long in bytes", "no text"])
@pytest.mark.parametrize("name", ["ObjectCreated:Put", "ObjectRemoved:Delete"])
def test_key_that_s3_cannot_have_is_reported_without_a_request(site: Site, key: str, name: str) -> None:
    """S3 and DynamoDB would reject the lookup, and the whole batch would be delivered again."""
    good, record = site.push(), s3_record("x", name, ARCHIVE)
    record["s3"]["object"]["key"] = key
    assert site.receive(message(record)) == []
    assert site.report["status"] == "error" and "key" in site.report["message"]
    assert site.world.archive_store.calls["head"] == 0 and site.world.database.calls == {}
    assert site.receive(message(record), message(s3_record(f"{good['id']}/data", bucket=ARCHIVE))) == []
    assert site.ids(what="syslog") == [good["id"]]


def test_an_event_as_s3_writes_it_and_as_moto_does(site: Site) -> None:
    one, other = site.push(), site.push()
    record = {
        "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventTime": "2026-11-21T08:00:00.000Z",
        "eventName": "ObjectCreated:Put", "userIdentity": {"principalId": "AWS:x"}, "requestParameters": {"sourceIPAddress": "127.0.0.1"},
        "responseElements": {"x-amz-request-id": "x", "x-amz-id-2": "y"},
        "s3": {"s3SchemaVersion": "1.0", "configurationId": "x", "bucket": {"name": ARCHIVE, "arn": "x", "ownerIdentity": {}},
               "object": {"key": f"{one['id']}/data", "size": 6, "eTag": "x", "versionId": "1", "sequencer": "0055AED6DCD90281E5"}},
    }  # fmt: skip
    moto = s3_record("", "ObjectCreated:Put", ARCHIVE, "2.1")
    moto["s3"]["object"] = {"key": f"{other['id']}%2Fdata", "size": 6}
    complete = s3_record(f"{other['id']}/data", "ObjectCreated:CompleteMultipartUpload", ARCHIVE)
    assert site.receive(message(record), message(moto), message(moto, complete)) == []
    assert [len(report["records"]) for report in site.reports] == [1, 1, 1], "one for each object, not for each event"
    assert sorted(site.ids(what="syslog")) == [one["id"], other["id"]]


# Reports


def test_a_report(site: Site) -> None:
    document = site.file(start=START_MS - 5 * DAY_MS, end=START_MS)
    assert site.reports == [
        {
            "version": 0, "status": "success", "start": START_MS, "duration": 0.0,
            "records": [{"url": f"s3://archive/{document['id']}/data", "size": 6, "create_time": START_MS, "metadata": document}],
        }
    ]  # fmt: skip
    assert site.topic.messages[0][1] == {"status": "success"}


@pytest.mark.behavior("Each message of notifications has one report with a record for each object.")
def test_one_report_for_each_message_with_a_record_for_each_object(site: Site) -> None:
    documents = [site.push() for _ in range(5)]
    records = [s3_record(f"{document['id']}/data", bucket=ARCHIVE) for document in documents]
    assert site.receive(message(*records[:3]), message(*records[3:])) == []
    assert [[record["metadata"]["id"] for record in report["records"]] for report in site.reports] == [
        [document["id"] for document in documents[:3]],
        [document["id"] for document in documents[3:]],
    ]


def test_a_message_of_very_many_records_is_reported_in_parts(site: Site) -> None:
    documents = [site.push(note="x" * 1200) for _ in range(300)]
    assert site.receive(message(*(s3_record(f"{document['id']}/data", bucket=ARCHIVE) for document in documents))) == []
    assert len(site.reports) > 1 and {report["status"] for report in site.reports} == {"success"}
    assert sum(len(report["records"]) for report in site.reports) == 300
    assert len(site.ids(what="syslog")) == 300


# Twice, late, in any order


def state(site: Site) -> tuple[Any, ...]:
    return tuple(
        sorted(json.dumps(row, default=str, sort_keys=True) for row in site.rows(table)) for table in ("files", "latest", "listing")
    )


def test_the_same_event_twice_is_the_same_state(site: Site) -> None:
    documents = [site.file(start=START_MS - number * DAY_MS, end=START_MS, work_id="job-1") for number in range(5)]
    before = state(site)
    keys = [f"{document['id']}/data" for document in documents]
    assert site.notify(*keys, *keys[::-1], keys[0], keys[0]) == []
    site.world.clock.advance(500)
    assert site.notify(*keys) == []
    assert state(site) == before


def test_events_in_any_order_are_the_same_state() -> None:
    states = []
    for order in (1, -1):
        with deployed() as site:
            documents = [site.push(start=START_MS - number * 1000, end=START_MS) for number in range(6)]
            bodies = [message(s3_record(f"{document['id']}/data", bucket=ARCHIVE)) for document in documents]
            assert site.receive(*bodies[::order]) == []
            states.append(state(site))
    assert states[0] == states[1]


def test_rewrite_updates_the_file_and_a_late_event_reports_its_present_state(site: Site) -> None:
    document = site.file(what="syslog", start=START_MS - 40 * DAY_MS, end=START_MS - 35 * DAY_MS, work_id="job-1")
    site.world.clock.advance(5)
    site.file(
        b"longer than before\n", **document | {"what": "other", "where": "web-2", "start": START_MS, "end": None, "work_id": None}
    )
    assert site.ids(what="syslog") == [] and site.ids(what="syslog", work_id="job-1") == []
    (record,) = site.list(what="other").json["records"]
    assert (record["size"], record["create_time"]) == (19, START_MS + 5000)
    assert [row["time_index_key"] for row in site.rows("files")] == [f"{START_MS // DAY_MS}:other"]
    assert is_refusal(site.latest(), 404, "NoSuchFile") and site.latest("other", "web-2").status == 200
    after = state(site)
    site.notify(f"{document['id']}/data", f"{document['id']}/data", name="ObjectCreated:Copy")
    assert state(site) == after


def test_an_event_after_its_object_went_is_an_error_in_the_report(site: Site) -> None:
    document = site.push()
    site.world.archive_store.delete(f"{document['id']}/data")
    site.notify(f"{document['id']}/data")
    assert site.report["status"] == "error" and "gone" in site.report["message"]


def test_created_and_removed_in_one_message(site: Site) -> None:
    gone, there = site.push(), site.push()
    site.world.archive_store.delete(f"{gone['id']}/data")
    records = [s3_record(f"{each['id']}/data", name, ARCHIVE) for each in (gone, there) for name in (NAMES[0], REMOVALS[0])]
    assert site.receive(message(*records)) == []
    assert site.ids(what="syslog") == [there["id"]]


def test_file_becomes_invalid_and_valid_again(site: Site) -> None:
    document = site.file()
    site.store(f"{document['id']}/data", b"x", "{")
    site.notify(f"{document['id']}/data")
    assert site.report["status"] == "error" and site.ids(what="syslog") == []
    site.file(**document)
    assert site.ids(what="syslog") == [document["id"]]


def test_two_objects_that_claim_the_same_id(site: Site) -> None:
    """The object that was ingested last is the file; deleting the other one changes nothing."""
    site.file(b"one", key="one", id=ID)
    site.file(b"other", key="other", id=ID)
    assert [record["url"] for record in site.list(what="syslog").json["records"]] == ["s3://archive/other"]
    site.world.archive_store.delete("one")
    site.notify("one", name="ObjectRemoved:Delete")
    assert site.ids(what="syslog") == [ID]
    site.world.archive_store.delete("other")
    site.notify("other", name="ObjectRemoved:Delete")
    assert site.ids(what="syslog") == []


# Trouble of ours


class FailingDatabase(InMemoryDatabase):
    """``failing``: names of calls that fail."""

    failing: frozenset[str] = frozenset()

    def transact(self, writes: Sequence[Write]) -> None:
        self._fail("transact")
        super().transact(writes)

    def get_many(self, keys: Sequence[Key]) -> Any:
        self._fail("get_many")
        return super().get_many(keys)

    def put_many(self, rows: Sequence[Any]) -> None:
        self._fail("put_many")
        super().put_many(rows)

    def query(self, *given: Any, **more: Any) -> tuple[Sequence[Row], bool]:
        self._fail("query")
        return super().query(*given, **more)

    def _fail(self, name: str) -> None:
        if name in self.failing:
            raise StoreUnavailableError("throttled")


@pytest.mark.behavior("A notification is acknowledged only once its file is stored and reported.")
@pytest.mark.parametrize("call", ["transact", "get_many", "put_many"])
def test_failure_of_the_service_is_retried_by_the_queue(call: str) -> None:
    world = World()
    world.database = database = FailingDatabase()
    with deployed(world=world) as site:
        document = site.push()
        database.failing = frozenset({call})
        assert site.receive(message(s3_record(f"{document['id']}/data", bucket=ARCHIVE)), "no json") == ["message-0"]
        assert [report["status"] for report in site.reports] == ["error"], "only the other message's"
        database.failing = frozenset()
        assert site.notify(f"{document['id']}/data") == []
        assert site.report["status"] == "success" and site.latest().status == 200


class FailingStore(InMemoryObjectStore):
    """HEAD of some keys fails, with the store's error or an unexpected one."""

    error: Exception | None = None

    def head(self, key: str) -> ObjectInfo:
        if self.error and "bad" in key:
            raise self.error
        return super().head(key)


@pytest.mark.parametrize("error", [StoreUnavailableError("slow down"), RuntimeError("a fault of ours"), KeyError("x")])
def test_trouble_with_one_object_brings_its_message_alone_again(error: Exception) -> None:
    world = World()
    world.archive_store = store = FailingStore(world.clock)
    with deployed(world=world) as site:
        store.error = error
        good, bad = site.push(), site.push(key="bad")
        assert site.notify("bad", f"{good['id']}/data") == ["message-0"]
        assert site.ids(what="syslog") == [good["id"]]
        store.error = None
        assert site.notify("bad") == [] and site.ids(what="syslog") == [good["id"], bad["id"]]


def test_a_report_that_cannot_be_sent_brings_its_message_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    document = site.push()

    def publish(messages: Sequence[Message]) -> list[UnavailableError]:
        return [StoreUnavailableError("the topic is down")] * len(messages)

    with monkeypatch.context() as broken:
        broken.setattr(site.topic, "publish", publish)
        assert site.notify(f"{document['id']}/data") == ["message-0"]
    assert site.notify(f"{document['id']}/data") == [] and len(site.reports) == 1


# Generated input


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["version", "start", "end", "path", "work_id", "where", "what", "id", "hash"]
NEAR = st.dictionaries(
    st.sampled_from([*FIELDS, "cls", "self", "_fields_set", "model_config", "document"]) | st.text(max_size=8),
    JSON
    | st.integers(-(10**16), 10**16)
    | st.sampled_from(["/x", "x", ID, "2015-03-20", "0001-01-01", "9999-12-31T23:59:59.999Z", 0]),
    max_size=3,
)
WHOLE = {
    "version": 0, "start": START_MS, "end": None, "path": "/x", "work_id": None, "where": "w", "what": "x", "id": ID, "hash": hash_of(b""),
}  # fmt: skip
TEXTS = st.one_of(st.text(max_size=100), JSON.map(json.dumps), NEAR.map(lambda changed: json.dumps(WHOLE | changed)))
QUIET = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@QUIET
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_metadata_is_ingested_or_reported_never_an_exception(texts: list[str]) -> None:
    with deployed() as site:
        ingester = composition.ingester(composition.services())
        for text in texts:
            site.store(KEY, b"x", text)
            for name in (NAMES[0], NAMES[0]):
                (result,) = ingester.ingest([message(s3_record(KEY, name, ARCHIVE))], Deadline(site.world.clock))
                assert isinstance(result, Report), result
                assert (result.status == "success") == (len(result.records) == 1) == (not result.problems)
            listed = site.list(what="*")
            assert listed.status == 200 and len(listed.json["records"]) == len(result.records)
            for record in listed.json["records"]:
                where = record["metadata"]["what"], record["metadata"]["where"]
                assert site.latest(*where, "?lookback=36500").status in (200, 404)
                assert site.follow(record["http_url"]).status == 200
            assert site.get(f"{FILES}/{ID}/metadata").status in (200, 404)
            site.world.clock.advance(1)
        site.world.archive_store.delete(KEY)
        assert site.notify(KEY, name=REMOVALS[0]) == [] and site.ids(what="*") == []


EVENTS = st.dictionaries(
    st.sampled_from(["eventName", "eventVersion", "s3"]),
    JSON | st.sampled_from([NAMES[0], REMOVALS[0], "2.1"])
    | st.fixed_dictionaries({
        "bucket": JSON | st.fixed_dictionaries({"name": JSON | st.sampled_from([ARCHIVE, "bucket"])}),
        "object": JSON | st.fixed_dictionaries({"key": JSON | st.sampled_from([KEY, "", "%", "%FF", "a" * 5000])}),
    }),
)  # fmt: skip
BODIES = st.one_of(
    st.text(max_size=50),
    JSON.map(json.dumps),
    st.lists(JSON | EVENTS, max_size=3).map(lambda records: json.dumps({"Records": records})),
    st.lists(EVENTS.map(lambda changed: s3_record(KEY, bucket=ARCHIVE) | changed), max_size=3).map(
        lambda records: message(*records)
    ),
)


@QUIET
@given(st.lists(BODIES | BODIES.map(lambda body: json.dumps({"Message": body})), max_size=4))
def test_any_message_is_ingested_or_reported_never_an_exception(bodies: list[str]) -> None:
    with deployed() as site:
        site.push(key=KEY, id=ID)
        results = composition.ingester(composition.services()).ingest(bodies, Deadline(site.world.clock))
        assert len(results) == len(bodies) and all(isinstance(result, Report) for result in results), results


# Non-ASCII metadata


def test_metadata_in_the_form_of_mail_headers_is_reported_clearly(site: Site) -> None:
    """S3 returns ``=?UTF-8?B?…?=`` for a value outside of ASCII. The datalake's client sends only ASCII, with JSON escapes."""
    site.store(KEY, b"x", "=?UTF-8?B?eyJ2ZXJzaW9uIjowLCJwYXRoIjoiL8OkIn0=?=")
    assert site.notify(KEY) == []
    assert site.report["status"] == "error" and "not valid json" in site.report["message"]


def test_other_metadata_of_the_object_is_no_matter(site: Site) -> None:
    document = site.document()
    options = PutOptions({"datalake": json.dumps(document), "other": "x"}, content_type="application/json")
    site.world.archive_store.put(f"{document['id']}/data", b"x", options)
    assert site.notify(f"{document['id']}/data") == [] and site.ids(what="syslog") == [document["id"]]
