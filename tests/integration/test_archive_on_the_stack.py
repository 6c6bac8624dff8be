"""The archive on the deployed stack: behaviour that needs real presigned links, notifications, queues and topics."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import quote_plus
from uuid import uuid4

import pytest
import requests

from tests.integration.stacks import PATIENCE_S, Stack, eventually

MIB = 1024 * 1024
GZIP = gzip.compress(b"packed\n", mtime=0)
PIPELINES = "/v1/services/ingestionPipelines"


def hash_of(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def name(prefix: str) -> str:
    """A unique ``what``: the stack is shared."""
    return f"{prefix}-{uuid4().hex[:12]}"


@dataclass
class Reports:
    """Reports of the topic, including those of other tests."""

    sqs: Any
    queue: str
    seen: list[dict[str, Any]] = field(default_factory=list)

    def about(self, text: str) -> list[dict[str, Any]]:
        """Reports so far that contain a text."""
        received = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", ())
        for message in received:
            self.seen.append(json.loads(json.loads(message["Body"])["Message"]))
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return [report for report in self.seen if text in json.dumps(report)]

    def first(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = eventually(lambda: self.about(text), what=f"a report about {text}")[0]
        return found


@dataclass
class Archive:
    """The stack for a client of the API, and its bucket for S3 clients."""

    stack: Stack
    web: requests.Session
    s3: Any
    sqs: Any
    reports: Reports

    @property
    def files(self) -> str:
        return f"{self.stack.api_url}/v0/archive/files"

    def ask(self, method: str, url: str, **options: Any) -> requests.Response:
        return self.web.request(method, url if "://" in url else self.stack.api_url + url, timeout=PATIENCE_S, **options)

    def push(self, body: bytes, key: str = "", **fields: Any) -> dict[str, Any]:
        """Store a file as the datalake's client does."""
        now_ms = int(time.time() * 1000)
        document = {
            "version": 0, "start": now_ms - 5000, "end": now_ms, "path": "/var/log/x.log", "work_id": None, "where": "web-1",
            "what": "x", "id": uuid4().hex, "hash": hash_of(body),
        } | fields  # fmt: skip
        where = {"Bucket": self.stack["archive_bucket"], "Key": key or f"{document['id']}/data"}
        self.s3.put_object(**where, Body=body, Metadata={"datalake": json.dumps(document)})
        return document

    def records(self, what: str, **query: Any) -> list[dict[str, Any]]:
        answer = self.ask(
            "GET", f"{self.files}/", params={"what": what, "start": "0", "end": "2100-01-01", "combine": "true"} | query
        )
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["records"]
        return found

    def listed(self, what: str) -> dict[str, Any]:
        """The only file of a ``what``, once it exists."""
        (record,) = eventually(lambda: self.records(what), what=f"a file of {what}")
        return dict(record)

    def begin(self, body: bytes, what: str, **fields: Any) -> dict[str, Any]:
        given = {
            "start": "now",
            "path": "/x.txt",
            "where": "web-1",
            "what": what,
            "work_id": None,
            "hash": hash_of(body),
            "size": len(body),
        }
        answer = self.ask("POST", self.files, json=given | fields)
        assert answer.status_code == 201, answer.text
        begun: dict[str, Any] = answer.json()
        return begun

    def notify(self, *records: dict[str, Any], wrapped: bool = True) -> None:
        """Put a message on the ingestion's queue, as SNS would."""
        body = json.dumps({"Records": list(records)})
        about = {
            "Type": "Notification",
            "MessageId": str(uuid4()),
            "TopicArn": "arn:aws:sns:::x",
            "Subject": "Amazon S3 Notification",
        }
        text = json.dumps(about | {"Message": body}) if wrapped else body
        self.sqs.send_message(QueueUrl=self.stack["ingest_queue_url"], MessageBody=text)

    def event(self, key: str, event_name: str = "ObjectCreated:Put") -> dict[str, Any]:
        where = {"bucket": {"name": self.stack["archive_bucket"]}, "object": {"key": quote_plus(key, safe="/")}}
        return {"eventVersion": "2.1", "eventName": event_name, "s3": where}


@pytest.fixture(scope="module")
def archive(stack: Stack) -> Iterator[Archive]:
    with (
        requests.Session() as web,
        closing(stack.client("s3")) as s3,
        closing(stack.client("sqs")) as sqs,
        closing(stack.client("sns")) as sns,
    ):
        queue = sqs.create_queue(QueueName=f"archive-{uuid4().hex}")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        subscription = sns.subscribe(TopicArn=stack["report_topic_arn"], Protocol="sqs", Endpoint=arn)["SubscriptionArn"]
        yield Archive(stack, web, s3, sqs, Reports(sqs, queue))
        sns.unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=queue)


def is_no_file(archive: Archive, file_id: str) -> bool:
    answer = archive.ask("GET", f"{archive.files}/{file_id}/metadata")
    return answer.status_code == 404 and answer.json()["code"] == "NoSuchFile"


# Files pushed like those of the datalake's client


def test_a_file_is_listed_reported_fetched_and_the_latest(archive: Archive) -> None:
    document = archive.push(b"hello\n", what=name("pushed"), path="/var/log/x.json")
    record = archive.listed(document["what"])
    assert record["url"] == f"s3://{archive.stack['archive_bucket']}/{document['id']}/data"
    assert record["http_url"] == f"{archive.files}/{document['id']}/data"
    assert record["metadata"].items() >= document.items()
    contents = archive.ask("GET", record["http_url"])
    assert (contents.content, contents.headers["Content-Type"]) == (b"hello\n", "application/json")
    latest = archive.ask("GET", f"/v0/archive/latest/{document['what']}/web-1")
    assert latest.json() == record
    assert archive.ask("GET", f"/v0/archive/latest/{document['what']}/web-1/data").content == b"hello\n"
    report = archive.reports.first(document["id"])
    assert (report["version"], report["status"]) == (0, "success")
    assert report["records"] == [{"url": record["url"], "size": 6, "create_time": record["create_time"], "metadata": document}]


def test_pages_lead_on_through_the_address_used(archive: Archive) -> None:
    what = name("paged")
    for number in range(101):
        archive.push(b"x", what=what, start=1_426_809_600_000 + number, end=None)
    eventually(lambda: archive.ask("GET", f"/v0/archive/latest/{what}/web-1?lookback=36500").status_code == 200, what="the first")
    eventually(lambda: len(archive.records(what)) == 100, what="100 files")

    def pages() -> list[str]:
        url, ids = f"{archive.files}?what={what}&start=0&end=2100-01-01", []
        while url:
            answer = archive.ask("GET", url).json()
            ids += [record["metadata"]["id"] for record in answer["records"]]
            url = answer["next"]
            assert url is None or url.startswith(f"{archive.files}/?what={what}&")
        return ids

    assert len(eventually(lambda: found if len(set(found := pages())) == 101 else None, what="all")) == 101


def test_a_missing_slash_redirects_once(archive: Archive) -> None:
    for path in ("/v0/archive", "/v0/environment", "/health", "/spec", "/docs", "/v0/archive/files"):
        query = "?what=a%20b&start=1&end=2" if path.endswith("files") else ""
        answer = archive.ask("GET", path + query, allow_redirects=False)
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (308, f"/api{path}/")
        answer = archive.ask("GET", path + query)
        assert answer.status_code == 200 and len(answer.history) == (2 if path == "/docs" else 1)


@pytest.mark.parametrize("body", [b"\xff\xfe\x00binary", GZIP, b"\x89PNG\r\n\x1a\n"])
def test_binary_and_gzip_contents_come_unchanged_by_redirect(archive: Archive, body: bytes) -> None:
    document = archive.push(body, what=name("binary"), path="/x.json.gz")
    answer = archive.ask("GET", f"{archive.files}/{document['id']}/data", allow_redirects=False)
    assert answer.status_code == 307
    with requests.get(answer.headers["Location"], timeout=PATIENCE_S, stream=True) as contents:
        assert contents.raw.read() == body
        assert contents.headers["Content-Type"] == "application/json"
        assert contents.headers.get("Content-Encoding", "") == ("gzip" if body == GZIP else "")
    if body == GZIP:
        assert archive.ask("GET", f"{archive.files}/{document['id']}/data").content == b"packed\n", "a client unpacks it"


@pytest.mark.parametrize("body", [b"", b"text\n"])
def test_a_file_of_a_binary_type_comes_unchanged_whatever_it_holds(archive: Archive, body: bytes) -> None:
    document = archive.push(body, path="/x.bin")
    for headers in ({}, {"Accept": "application/octet-stream"}, {"Accept": "text/plain"}):
        answer = archive.ask("GET", f"{archive.files}/{document['id']}/data", headers=headers)
        assert (answer.status_code, answer.content) == (200, body), answer.text


def test_large_contents_come_by_redirect(archive: Archive) -> None:
    body = b"0123456789abcde\n" * (6 * MIB // 16)
    document = archive.push(body)
    assert archive.ask("GET", f"{archive.files}/{document['id']}/data").content == body


@pytest.mark.parametrize("key", ["a b+c", "100%", "%41", "ä/語/😀 &=?#;", "a//b", "'\"<>"])
def test_keys_of_any_letters(archive: Archive, key: str) -> None:
    document = archive.push(b"odd\n", key=f"{uuid4().hex}/{key}", what=name("odd"))
    record = archive.listed(document["what"])
    assert record["url"].endswith(f"/{key}")
    assert archive.ask("GET", record["http_url"]).content == b"odd\n"
    archive.s3.delete_object(Bucket=archive.stack["archive_bucket"], Key=record["url"].removeprefix("s3://").partition("/")[2])
    eventually(lambda: archive.records(document["what"]) == [], what="its removal")


def test_a_removal_takes_the_rows_along_and_the_latest_falls_back(archive: Archive) -> None:
    what = name("removed")
    now_ms = int(time.time() * 1000)
    older, newer = (
        archive.push(b"1", what=what, start=now_ms - 9000, end=now_ms),
        archive.push(b"2", what=what, start=now_ms, end=now_ms),
    )
    eventually(lambda: len(archive.records(what)) == 2, what="both")
    archive.s3.delete_object(Bucket=archive.stack["archive_bucket"], Key=f"{newer['id']}/data")
    eventually(lambda: [record["metadata"]["id"] for record in archive.records(what)] == [older["id"]], what="its removal")
    latest = eventually(lambda: archive.ask("GET", f"/v0/archive/latest/{what}/web-1"), what="a latest")
    assert latest.json()["metadata"]["id"] == older["id"]
    assert is_no_file(archive, newer["id"])


def test_an_expiry_that_only_the_queue_tells_of(archive: Archive) -> None:
    """A late removal of an existing object changes nothing; the bucket's lifecycle sends the same event as any removal."""
    document = archive.push(b"1", what=name("expiry"))
    archive.listed(document["what"])
    marker = name("marker")
    archive.notify(archive.event(f"{document['id']}/data", "LifecycleExpiration:Delete"), archive.event(marker))
    archive.reports.first(marker)
    assert len(archive.records(document["what"])) == 1


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_notification_directly_and_wrapped_by_sns_with_bad_neighbours(archive: Archive, wrapped: bool) -> None:
    document = archive.push(b"1", what=name("wrapped"))
    event, marker = archive.event(f"{document['id']}/data"), name("missing")
    archive.notify(archive.event("x", "ObjectTagging:Put"), event, archive.event(marker), wrapped=wrapped)
    report = archive.reports.first(marker)
    assert report["status"] == "warning" and "unsupported event" in report["message"]
    assert [record["metadata"]["id"] for record in report["records"]] == [document["id"]]
    assert len(archive.records(document["what"])) == 1


def test_objects_that_are_no_files_hold_nobody_up(archive: Archive) -> None:
    prefix = uuid4().hex
    for number in range(15):
        archive.s3.put_object(
            Bucket=archive.stack["archive_bucket"], Key=f"{prefix}/bad-{number}", Body=b"x", Metadata={"datalake": "{"}
        )
    document = archive.push(b"good", what=name("good"))
    archive.listed(document["what"])
    eventually(lambda: len(archive.reports.about(f"{prefix}/bad-")) == 15, what="15 reports")
    assert {report["status"] for report in archive.reports.about(f"{prefix}/bad-")} == {"error"}


# Uploads


def test_a_small_upload(archive: Archive) -> None:
    body = b"line 1\nline 2\n"
    begun = archive.begin(body, name("small"), path="/a  b/ü/x.txt", note="two  spaces, ü and \x7f")
    how = begun["upload"]
    assert archive.ask(how["method"], how["url"], data=body, headers=how["headers"]).status_code == 200
    assert archive.ask(how["method"], how["url"], data=body, headers=how["headers"]).status_code == 412, "once"
    record = archive.listed(begun["metadata"]["what"])
    assert record["metadata"].items() >= begun["metadata"].items() and record["size"] == len(body)
    assert archive.ask("GET", begun["http_url"]).content == body
    assert archive.reports.first(begun["id"])["status"] == "success"


def test_an_empty_upload(archive: Archive) -> None:
    begun = archive.begin(b"", name("empty"))
    how = begun["upload"]
    assert archive.ask(how["method"], how["url"], data=b"", headers=how["headers"]).status_code == 200
    assert archive.listed(begun["metadata"]["what"])["size"] == 0


def test_a_large_upload_in_parts(archive: Archive) -> None:
    body = bytes(range(256)) * (4 * 1024 * 101)
    begun = archive.begin(body, name("large"))
    how = begun["upload"]
    assert [part["size"] for part in how["parts"]] == [100 * MIB, MIB]
    etags, start = [], 0
    for part in how["parts"]:
        answer = archive.ask("PUT", part["url"], data=body[start : start + part["size"]])
        assert answer.status_code == 200, answer.text
        etags.append((part["number"], answer.headers["ETag"]))
        start += part["size"]
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in etags)
    answer = archive.ask("POST", how["complete_url"], data=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
    assert answer.status_code == 200 and "<Error>" not in answer.text
    record = archive.listed(begun["metadata"]["what"])
    assert record["size"] == len(body)
    with requests.get(record["http_url"], timeout=PATIENCE_S) as contents:
        assert hash_of(contents.content) == begun["metadata"]["hash"]


def test_a_large_upload_that_is_given_up(archive: Archive) -> None:
    begun = archive.begin(b"x", name("aborted"), size=101 * MIB)
    assert archive.ask("DELETE", begun["upload"]["abort_url"]).status_code == 204
    assert archive.ask("PUT", begun["upload"]["parts"][1]["url"], data=b"x" * MIB).status_code == 404
    assert is_no_file(archive, begun["id"])


@pytest.mark.parametrize(("sent", "says"), [(b"line 1\nline 3\n", "hash"), (b"line 1\n", "size")])
def test_a_wrong_hash_or_size_is_reported_marked_and_never_listed(archive: Archive, sent: bytes, says: str) -> None:
    what = name("wrong")
    begun = archive.begin(b"line 1\nline 2\n", what)
    headers = begun["upload"]["headers"]
    metadata = {key.removeprefix("x-amz-meta-"): value for key, value in headers.items() if key.startswith("x-amz-meta-")}
    if says == "hash":
        assert archive.ask("PUT", begun["upload"]["url"], data=sent, headers=headers).status_code == 200
    else:  # S3 itself rejects this by the signature
        archive.s3.put_object(Bucket=archive.stack["archive_bucket"], Key=f"{begun['id']}/data", Body=sent, Metadata=metadata)
    report = archive.reports.first(begun["id"])
    assert report["status"] == "error" and report["records"] == []
    assert f"{says} differs from the announced one" in report["message"]
    answer = archive.ask("GET", begun["http_url"])
    assert answer.status_code == 404 and f"{says} differs" in answer.json()["detail"]
    assert archive.records(what) == []
    assert archive.ask("GET", f"/v0/archive/latest/{what}/web-1").status_code == 404


# Changes and deletions


@pytest.mark.parametrize("size", [7, 6 * MIB])
def test_a_change_of_metadata(archive: Archive, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    before, after = name("before"), name("after")
    document = archive.push(body, what=before)
    archive.listed(before)
    answer = archive.ask("PATCH", f"{archive.files}/{document['id']}/metadata", json={"what": after, "note": 1.5})
    changed = document | {"what": after, "note": 1.5}
    assert answer.status_code == 200 and changed.items() <= answer.json().items()
    assert archive.records(before) == [], "at once"
    (record,) = archive.records(after)
    assert record["size"] == size
    assert archive.ask("GET", record["http_url"]).content == body
    head = archive.s3.head_object(Bucket=archive.stack["archive_bucket"], Key=f"{document['id']}/data")
    assert json.loads(head["Metadata"]["datalake"]) == changed


def test_a_deletion(archive: Archive) -> None:
    document = archive.push(b"x", what=name("deleted"))
    archive.listed(document["what"])
    assert archive.ask("DELETE", f"{archive.files}/{document['id']}").status_code == 204
    assert archive.records(document["what"]) == [], "at once"
    assert is_no_file(archive, document["id"])
    assert archive.ask("DELETE", f"{archive.files}/{document['id']}").status_code == 404


# Run logs


def test_a_run_log_is_a_file_until_it_expires(archive: Archive) -> None:
    run_id, what = str(uuid4()), name("run")
    log = f"{PIPELINES}/logs/{what.upper()}/{run_id}"
    for text in ("one\n", "two\n"):
        assert archive.ask("POST", log, json={"logs": text, "connectorId": "Host-1.example"}).status_code == 200
    assert archive.ask("POST", f"{log}/close").status_code == 200
    record = archive.listed(what)
    assert (record["metadata"]["where"], record["metadata"]["work_id"]) == ("host-1_example", run_id)
    assert record["metadata"]["hash"] == hash_of(b"one\ntwo\n")
    assert record["http_url"] == record["url"] and archive.ask("GET", record["url"]).content == b"one\ntwo\n"
    assert [found["metadata"]["id"] for found in archive.records(what, work_id=run_id)] == [record["metadata"]["id"]]
    assert archive.ask("GET", f"/v0/archive/latest/{what}/host-1_example/data").content == b"one\ntwo\n"
    bucket, _, key = record["s3_url"].removeprefix("s3://").partition("/")
    archive.s3.delete_object(Bucket=bucket, Key=key)
    eventually(lambda: archive.records(what) == [], what="its expiry")
    assert archive.ask("GET", f"/v0/archive/latest/{what}/host-1_example").status_code == 404


# Bad input that only real tables and buckets reject


@pytest.mark.parametrize(
    "path",
    [
        f"/v0/archive/files/?start=0&end=now&what={'a' * 3000}",
        f"/v0/archive/files/?start=0&end=now&what={'a' * 1500}*",
        f"/v0/archive/files/?start=0&end=now&what=*&where={'a' * 3000}",
        f"/v0/archive/files/?start=0&end=now&what=x&where={'a' * 3000}*",
        f"/v0/archive/files/?what=x&work_id={'a' * 3000}",
        f"/v0/archive/latest/{'a' * 1500}/{'b' * 1500}",
        f"/v0/archive/latest/{'a' * 300}/b/data",
        f"/v0/archive/files/{'a' * 3000}/data",
        f"/v0/archive/files/{'a' * 3000}/metadata",
        "/v0/archive/files/%00/data",
        "/v0/archive/files/..%2F..%2Fx/metadata",
        "/v0/archive/files/%FF/metadata",
        "/v0/archive/files/?start=%00&end=%FF&what=%00",
    ],
    ids=lambda path: path[12:60],
)
def test_names_that_no_table_could_look_for(archive: Archive, path: str) -> None:
    answer = archive.ask("GET", path)
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code != 200:
        assert answer.json().keys() - {"detail"} == {"code", "message"}


@pytest.mark.parametrize("key", ["", "k" * 3000, "\0\x1f😀"], ids=["empty", "long", "odd"])
def test_a_key_that_s3_cannot_have_is_reported_with_its_neighbours(archive: Archive, key: str) -> None:
    marker = name("missing")
    archive.notify(archive.event(key), archive.event(marker))
    report = archive.reports.first(marker)
    assert report["status"] == "error" and report["records"] == []
