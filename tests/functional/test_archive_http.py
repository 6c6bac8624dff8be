"""The archive's HTTP, row by row of the contract: endpoints, codes and messages, rules of lists, addresses, types, times."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from chalicelib import __version__
from chalicelib.archive.contents import MAX_INLINE_BYTES
from chalicelib.archive.uploads import MAX_BYTES
from chalicelib.aws.errors import translate_error
from chalicelib.catalog.search import MAX_INDEXES
from chalicelib.ports import ObjectInfo, PutOptions, Run
from chalicelib.routes import openapi_archive
from tests.functional.archive import BASE, DAY_MS, FILES, HOST, Site, deployed, described, is_refusal
from tests.functional.gateway import Answer, event_of, handled
from tests.support.object_store import InMemoryObjectStore
from tests.world import START_MS, World

SLASHED = ["/v0/archive", "/v0/environment", FILES, "/health", "/spec", "/docs"]


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        yield site


def record_of(site: Site, document: dict[str, Any]) -> dict[str, Any]:
    """A file's record in a list."""
    page = site.list(what=document["what"]).json["records"]
    return next(record for record in page if record["metadata"]["id"] == document["id"])


# Endpoints


def test_archive_tells_where_files_are_stored(site: Site) -> None:
    answer = site.get("/v0/archive/")
    assert (answer.status, answer.json) == (200, {"storage_url": "s3://archive"})


def test_environment_tells_the_build(site: Site) -> None:
    answer = site.get("/v0/environment/")
    assert (answer.status, answer.json) == (200, {"data": {"build": {"version": __version__}}})


def test_health_is_empty(site: Site) -> None:
    answer = site.get("/health/")
    assert (answer.status, answer.json) == (200, {})


def test_spec_is_openapi_with_every_endpoint_and_the_prefix_used(site: Site) -> None:
    answer = site.get("/spec/")
    assert answer.status == 200 and answer.json["openapi"].startswith("3.")
    assert answer.json["servers"][0]["url"] == "/api"
    paths = answer.json["paths"]
    for path in (
        "/v0/archive/", "/v0/archive/files/", "/v0/archive/files/{id}/data", "/v0/archive/files/{id}/metadata", "/v0/archive/files/{id}",
        "/v0/archive/latest/{what}/{where}", "/v0/archive/latest/{what}/{where}/data", "/v0/environment/", "/health/",
    ):  # fmt: skip
        assert path in paths, sorted(paths)


@pytest.mark.parametrize("prefix", ["/api", "", "/docs", "/logs/archive"])
def test_the_base_address_leads_to_docs_and_that_to_its_page(site: Site, prefix: str) -> None:
    answer = site.get("/", prefix=prefix)
    assert (answer.status, answer.headers["Location"]) == (302, f"{prefix}/docs/")
    answer = site.get("/docs/", prefix=prefix)
    assert (answer.status, answer.headers["Location"]) == (302, f"{prefix}/docs/static/index.html")
    answer = site.get("/docs/static/index.html", prefix=prefix)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/html")
    assert "<html" in answer.body


def test_a_record_of_a_list(site: Site) -> None:
    document = site.file(b"hello\n", work_id="job-1", start=1_426_809_600_123, end=1_426_895_999_999)
    (record,) = site.list(what="syslog").json["records"]
    assert record == {
        "url": f"s3://archive/{document['id']}/data",
        "metadata": document | {"start_iso": "2015-03-20T00:00:00.123Z", "end_iso": "2015-03-20T23:59:59.999Z"},
        "http_url": f"{BASE}{FILES}/{document['id']}/data",
        "create_time": START_MS,
        "size": 6,
    }
    assert site.follow(record["http_url"]).body == "hello\n"


def test_a_record_without_an_end_says_null(site: Site) -> None:
    site.file(end=None)
    metadata = site.list(what="syslog").json["records"][0]["metadata"]
    assert metadata["end"] is None and metadata["end_iso"] is None


def test_a_list_without_files_is_one_empty_page(site: Site) -> None:
    assert site.list(what="syslog").json == {"records": [], "next": None}


def test_metadata_of_a_file(site: Site) -> None:
    document = site.file(work_id="job-1", more={"a": [1, 2.5, None]})
    answer = site.get(f"{FILES}/{document['id']}/metadata")
    assert (answer.status, answer.json) == (200, described(document))
    assert answer.headers["Content-Type"] == "application/json"


def test_metadata_have_times_in_iso_that_the_stored_document_cannot_replace(site: Site) -> None:
    document = site.file(start=1_426_809_600_123, end=None, start_iso="stored", end_iso="stored")
    metadata = site.get(f"{FILES}/{document['id']}/metadata").json
    assert (metadata["end"], metadata["start_iso"], metadata["end_iso"]) == (None, "2015-03-20T00:00:00.123Z", None)
    changed = site.ask("PATCH", f"{FILES}/{document['id']}/metadata", {"end": 1_426_895_999_999}).json
    assert (changed["start_iso"], changed["end_iso"]) == ("2015-03-20T00:00:00.123Z", "2015-03-20T23:59:59.999Z")
    assert record_of(site, document)["metadata"] == changed


def test_metadata_and_data_work_straight_from_s3_before_ingestion(site: Site) -> None:
    document = site.push(b"hello\n")
    assert site.get(f"{FILES}/{document['id']}/metadata").json == described(document)
    assert site.get(f"{FILES}/{document['id']}/data").body == "hello\n"
    assert site.ids(what="syslog") == []


def test_files_under_any_key_are_served_by_their_id(site: Site) -> None:
    document = site.file(b"old\n", key="web-1/syslog/1426809600000/abc-syslog.1")
    record = record_of(site, document)
    assert record["url"] == "s3://archive/web-1/syslog/1426809600000/abc-syslog.1"
    assert site.follow(record["http_url"]).body == "old\n"
    assert site.get(f"{FILES}/{document['id']}/metadata").json == described(document)


@pytest.mark.parametrize("path", ["{id}/data", "{id}/metadata"])
def test_no_such_file(site: Site, path: str) -> None:
    answer = site.get(f"{FILES}/" + path.format(id="0" * 32))
    assert (answer.status, answer.json) == (404, {"code": "NoSuchFile", "message": f"No file with id {'0' * 32} exists"})
    assert is_refusal(site.get(f"{FILES}/" + path.format(id="no-id")), 404, "NoSuchFile")


def test_an_object_without_metadata_is_no_file(site: Site) -> None:
    site.store("1" * 32 + "/data", b"x", None)
    site.store("2" * 32 + "/data", b"x", "no json")
    for file_id in ("1" * 32, "2" * 32):
        for path in ("data", "metadata"):
            assert is_refusal(site.get(f"{FILES}/{file_id}/{path}"), 404, "NoSuchFile")


# The latest file


def test_latest_is_the_record_with_the_greatest_start(site: Site) -> None:
    documents = [site.file(start=START_MS - age, end=START_MS) for age in (5000, 1000, 3000)]
    answer = site.latest()
    assert answer.status == 200
    assert answer.json == record_of(site, documents[1])


def test_latest_of_the_same_start_is_the_one_created_last(site: Site) -> None:
    first = site.file()
    site.world.clock.advance(1)
    second = site.file()
    assert site.latest().json["metadata"]["id"] == second["id"]
    site.notify(f"{first['id']}/data")
    assert site.latest().json["metadata"]["id"] == second["id"]


def test_latest_contents(site: Site) -> None:
    site.file(b"old\n", start=START_MS - 90_000)
    site.file(b"new\n", path="/x.json")
    answer = site.get("/v0/archive/latest/syslog/web-1/data")
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, "new\n", "application/json")


def test_latest_is_not_one_that_begins_more_than_a_day_from_now(site: Site) -> None:
    site.file(start=START_MS + DAY_MS + 1, end=None)
    assert is_refusal(site.latest(), 404, "NoSuchFile")
    older = site.file(start=START_MS - 1, end=None)
    assert site.latest().json["metadata"]["id"] == older["id"]
    ahead = site.file(start=START_MS + DAY_MS, end=None)
    assert site.latest().json["metadata"]["id"] == ahead["id"]
    site.world.clock.advance(1)
    assert site.latest().json["metadata"]["start"] == START_MS + DAY_MS + 1, "its time has come"


@pytest.mark.parametrize(
    ("age_days", "query", "status"),
    [(0, "", 200), (14, "", 200), (15, "", 404), (15, "?lookback=15", 200), (16, "?lookback=15", 404), (0, "?lookback=0", 200),
     (1, "?lookback=0", 404), (3000, "?lookback=36500", 200), (3000, "?lookback=999999999", 200), (14, "?lookback=", 200)],
)  # fmt: skip
def test_latest_looks_back_fourteen_days_or_as_many_as_are_given(site: Site, age_days: int, query: str, status: int) -> None:
    site.file(start=START_MS - age_days * DAY_MS, end=None)
    for path in ("", "/data"):
        assert site.get(f"/v0/archive/latest/syslog/web-1{path}{query}").status == status


def test_missing_latest_names_the_requested_file(site: Site) -> None:
    answer = site.latest("nope", "nowhere", "?lookback=3")
    assert is_refusal(answer, 404, "NoSuchFile")
    assert answer.json["message"] == 'No "nope" files found in last 3 days from "nowhere"'


@pytest.mark.parametrize("lookback", ["x", "-1", "1.5", "1e3", "inf", "0x10", "٣", "9" * 5000, "+1", " ", "1;2", "null"])
def test_invalid_lookback(site: Site, lookback: str) -> None:
    site.file()
    for path in ("", "/data"):
        answer = site.get(f"/v0/archive/latest/syslog/web-1{path}?" + urlencode({"lookback": lookback}))
        assert is_refusal(answer, 400, "InvalidLookback")


# Codes and messages of a list


NO_WHAT = "You must provide the `what` paramater"
"""Spelled as the datalake spells it: clients may compare messages."""
NOT_BOTH = "You must provide only work_id or start/end. Not both."
TOGETHER = "start and end must always be provided together."
NO_START, NO_END = (f"{name} must be milliseconds since the epoch." for name in ("start", "end"))


@pytest.mark.behavior("Errors of the archive have the datalake API's codes and messages.")
@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("", "NoArgs", "Please provide minimal query arguments"),
        ("?start=1&end=2", "NoWhat", NO_WHAT),
        ("?what=&start=1&end=2", "NoWhat", NO_WHAT),
        ("?what=,&start=1&end=2", "NoWhat", NO_WHAT),
        ("?work_id=job-1", "NoWhat", NO_WHAT),
        ("?what=syslog", "NoWorkInterval", "You must provide either work_id or start/end"),
        ("?what=syslog&where=web-1", "NoWorkInterval", "You must provide either work_id or start/end"),
        ("?what=", "NoWhat", NO_WHAT),
        ("?colour=blue", "NoWhat", NO_WHAT),
        ("?what=syslog&start=1", "InvalidWorkInterval", TOGETHER),
        ("?what=syslog&end=1", "InvalidWorkInterval", TOGETHER),
        ("?what=syslog&start=", "InvalidWorkInterval", TOGETHER),
        ("?what=syslog&work_id=a&start=1&end=2", "InvalidWorkInterval", NOT_BOTH),
        ("?what=syslog&work_id=a&start=1", "InvalidWorkInterval", NOT_BOTH),
        ("?what=syslog&work_id=a&end=x", "InvalidWorkInterval", NOT_BOTH),
        ("?what=syslog&work_id=a&start=&end=", "InvalidWorkInterval", NOT_BOTH),
        ("?what=syslog&work_id=a&start=1&end=2&combine=false", "InvalidWorkInterval", NOT_BOTH),
        ("?what=syslog&work_id=a&start=1&combine=true", "InvalidWorkInterval", TOGETHER),
        ("?what=syslog&start=2&end=1", "InvalidWorkInterval", "start must be before end"),
        ("?what=syslog&start=x&end=1", "InvalidTime", NO_START),
        ("?what=syslog&start=1&end=x", "InvalidTime", NO_END),
        ("?what=syslog&start=&end=1", "InvalidTime", NO_START),
        ("?what=syslog&start=1&end=", "InvalidTime", NO_END),
        ("?what=syslog&work_id=a&cursor=x", "InvalidCursor", "Failed to decode cursor x"),
    ],
)
def test_codes_of_a_list(site: Site, query: str, code: str, message: str) -> None:
    answer = site.get(f"{FILES}/{query}")
    assert is_refusal(answer, 400, code)
    assert answer.json["message"] == message


def test_what_was_wrong_with_a_request_is_in_the_detail(site: Site) -> None:
    assert "'yesterday'" in site.list(what="syslog", start="yesterday", end="now").json["detail"]
    assert "combine=true" in site.list(what="syslog", work_id="a", start=1, end=2).json["detail"]
    assert "'x'" in site.latest(query="?lookback=x").json["detail"]
    assert site.latest(query="?lookback=x").json["message"] == "lookback must be an integer not <class 'str'>"


# Rules of a list


def test_bounds_are_inclusive(site: Site) -> None:
    document = site.file(start=1_426_809_600_000, end=1_426_809_700_000)
    inside = [(0, 1_426_809_600_000), (1_426_809_700_000, 1_500_000_000_000), (1_426_809_650_000, 1_426_809_650_000)]
    for start, end in inside:
        assert site.ids(what="syslog", start=start, end=end) == [document["id"]]
    for start, end in [(0, 1_426_809_599_999), (1_426_809_700_001, 1_500_000_000_000)]:
        assert site.ids(what="syslog", start=start, end=end) == []


def test_files_without_an_end_match_by_their_start(site: Site) -> None:
    document = site.file(start=1_426_809_600_000, end=None)
    assert site.ids(what="syslog", start=1_426_809_600_000, end=1_426_809_600_000) == [document["id"]]
    assert site.ids(what="syslog", start=1_426_809_600_001, end=1_500_000_000_000) == []
    assert site.ids(what="syslog", start=0, end=1_426_809_599_999) == []


def test_names_match_exactly(site: Site) -> None:
    document = site.file(what="syslog", where="web-1", work_id="job-1")
    site.file(what="syslog2", where="web-1", work_id="job-1")
    site.file(what="syslog", where="web-10", work_id="job-10")
    assert site.ids(what="syslog", where="web-1") == [document["id"]]
    assert site.ids(what="syslog", work_id="job-1") == [document["id"]]
    for query in ({"what": "sys"}, {"what": "syslog", "where": "web"}, {"what": "syslog", "work_id": "job"}, {"what": "SYSLOG"}):
        assert site.ids(**query) == []
    assert site.ids(what="syslog", work_id="null") == []


def test_where_narrows_a_work_id_and_an_interval(site: Site) -> None:
    one, other = site.file(where="web-1", work_id="job-1"), site.file(where="web-2", work_id="job-1")
    assert site.ids(what="syslog", work_id="job-1", where="web-2") == [other["id"]]
    assert site.ids(what="syslog", where="web-1") == [one["id"]]


def test_work_id_and_interval_are_combined_on_request(site: Site) -> None:
    site.file(work_id="job-1", start=START_MS - DAY_MS, end=None)
    inside = site.file(work_id="job-1", start=START_MS - 1000, end=None)
    site.file(work_id="job-2", start=START_MS - 1000, end=None)
    query = {"what": "syslog", "work_id": "job-1", "start": START_MS - 2000, "end": START_MS}
    assert site.ids(**query, combine="true") == site.ids(**query, combine="True") == [inside["id"]]


def test_next_of_a_combined_list_is_combined_too(site: Site) -> None:
    for number in range(1, 102):
        site.file(start=START_MS - number, end=None, work_id="job-1")
    assert [len(page) for page in site.pages(what="syslog", work_id="job-1", start=0, end=START_MS, combine="true")] == [100, 1]


def test_repeated_names_are_joined(site: Site) -> None:
    """As clients send them that are generated from the OpenAPI document."""
    ids = [site.file(what=what, start=START_MS - 1000, end=None)["id"] for what in ("a", "b", "c")]
    for number in range(1, 101):
        site.file(what="a", start=START_MS - number, end=None)
    for query in ("what=a&what=b", "what=b&what=&what=a", "what=a,b", "what=a&what=a,b&what=b"):
        answer = site.get(f"{FILES}/?{query}&start=0&end={START_MS}")
        found = [record["metadata"]["id"] for each in (answer, site.follow(answer.json["next"])) for record in each.json["records"]]
        assert len(found) == len(set(found)) == 102 and set(ids[:2]) < set(found) and ids[2] not in found


def test_unknown_parameters_are_ignored(site: Site) -> None:
    document = site.file()
    assert site.ids(what="syslog", colour="blue", limit="x") == [document["id"]]
    assert is_refusal(site.get(f"{FILES}/?colour=blue&start=1&end=2"), 400, "NoWhat")


def test_a_file_that_spans_days_appears_once(site: Site) -> None:
    document = site.file(start=START_MS - 20 * DAY_MS, end=START_MS)
    assert site.ids(what="syslog") == [document["id"]]
    assert site.ids(what="syslog", start=START_MS - 10 * DAY_MS, end=START_MS - 9 * DAY_MS) == [document["id"]]


def test_at_most_a_hundred_a_page_no_page_empty_but_the_last_and_ids_unique(site: Site) -> None:
    for number in range(200):
        site.push(start=START_MS - number * 1000, end=START_MS)
    assert site.notify(*(f"{number:032x}/data" for number in range(1, 201))) == []
    pages = site.pages(what="syslog")
    assert [len(page) for page in pages] == [100, 100]
    ids = [record["metadata"]["id"] for page in pages for record in page]
    assert ids == [f"{number:032x}" for number in range(200, 0, -1)], "by start"
    assert site.ids(what="syslog", order="newest") == ids[::-1]
    assert site.ids(what="syslog", order="oldest") == ids


@pytest.mark.behavior("Pages of a list repeat and skip no file while others are added and deleted.")
@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_pages_are_stable_while_files_come_and_go(site: Site, order: str) -> None:
    for number in range(1, 151):
        site.file(start=START_MS - number * 1000, end=None)
    answer = site.list(what="syslog", order=order)
    first = [record["metadata"]["id"] for record in answer.json["records"]]
    site.world.archive_store.delete(f"{first[99]}/data")
    site.notify(f"{first[99]}/data", name="ObjectRemoved:Delete")
    site.file(start=START_MS - (150_500 if order == "oldest" else 500), end=None)
    rest = [record["metadata"]["id"] for record in site.follow(answer.json["next"]).json["records"]]
    assert len(rest) == 50 and not set(rest) & set(first), "neither the place of the last nor a new one before it shifts a page"


def test_pages_of_a_moving_end(site: Site) -> None:
    for number in range(1, 131):
        site.file(start=START_MS - number * 1000, end=None)
    answer = site.list(what="syslog", start="0", end="now")
    site.world.clock.advance(5)
    following = site.follow(answer.json["next"])
    assert following.status == 200, following.body
    assert len(following.json["records"]) == 30


@pytest.mark.behavior("A cursor that was changed or belongs to another query is refused.")
def test_a_cursor_is_opaque_signed_and_of_its_query(site: Site) -> None:
    for number in range(1, 102):
        site.file(start=START_MS - number * 1000, end=None, work_id="job-1")
    cursor = site.list(what="syslog").json["next"].partition("cursor=")[2].partition("&")[0]
    assert site.list(what="syslog", cursor=cursor).status == 200
    for query in ({"what": "other"}, {"what": "syslog", "where": "web-1"}, {"what": "syslog", "work_id": "job-1"},
                  {"what": "syslog", "work_id": "job-1", "start": 5, "end": START_MS, "combine": "true"},
                  {"what": "syslog", "order": "newest"}, {"what": "syslog", "start": 5, "end": START_MS}):  # fmt: skip
        assert is_refusal(site.list(**query, cursor=cursor), 400, "InvalidCursor")
    for tampered in (cursor[:-1], cursor[1:], cursor[:-2] + "AA", cursor.upper(), cursor + "A", cursor.rpartition(".")[0]):
        assert is_refusal(site.list(what="syslog", cursor=tampered), 400, "InvalidCursor")


# Addresses


@pytest.mark.parametrize("prefix", ["/api", "", "/prod", "/logs/archive", "/v0", "/v1", "/docs", "/spec-1", "/health"])
@pytest.mark.parametrize(("host", "protocol"), [("archive.test", "https"), ("127.0.0.1:4700", "http")])
def test_addresses_are_made_from_the_one_that_was_used(site: Site, prefix: str, host: str, protocol: str) -> None:
    for number in range(1, 102):
        site.file(start=START_MS - number, end=None)
    headers, base = {"Host": host, "X-Forwarded-Proto": protocol}, f"{protocol}://{host}{prefix}"
    answer = site.get(f"{FILES}/?what=syslog&start=1&end=2100-01-01", headers=headers, prefix=prefix)
    assert answer.json["next"].startswith(f"{base}{FILES}/?what=syslog&start=1&end=2100-01-01&cursor=")
    for record in answer.json["records"]:
        assert record["http_url"] == f"{base}{FILES}/{record['metadata']['id']}/data"
    latest = site.get("/v0/archive/latest/syslog/web-1", headers=headers, prefix=prefix).json
    assert latest["http_url"].startswith(f"{base}{FILES}/")
    assert site.get("/spec/", headers=headers, prefix=prefix).json["servers"][0]["url"] == (prefix or "/")
    redirect = site.get(f"{FILES}?what=syslog", headers=headers, prefix=prefix)
    assert redirect.headers["Location"] == f"{prefix}{FILES}/?what=syslog"


def test_the_protocol_is_the_first_one_that_was_forwarded(site: Site) -> None:
    document = site.file()
    for forwarded, protocol in (("https,http", "https"), ("http, https", "http")):
        answer = site.get(f"{FILES}/?what=syslog&start=1&end=2100-01-01", headers={"X-Forwarded-Proto": forwarded})
        assert answer.json["records"][0]["http_url"] == f"{protocol}://{HOST}/api{FILES}/{document['id']}/data"


def test_next_keeps_every_parameter_as_it_was(site: Site) -> None:
    for number in range(1, 102):
        site.file(start=START_MS - number, end=None)
    query = {"what": "syslog,other", "where": "web-1", "start": "20 Mar 2015", "end": "2100-01-01T00:00:00+01:00", "x": "ä &=#%+"}
    answer = site.list(**query)
    assert answer.json["next"].startswith(f"{BASE}{FILES}/?{urlencode(query)}&cursor=")
    assert len(site.follow(answer.json["next"]).json["records"]) == 1


# The slash at the end


@pytest.mark.parametrize("path", SLASHED)
def test_a_missing_slash_redirects_and_the_query_stays(site: Site, path: str) -> None:
    for query in ("", "?what=a&start=1&end=2", "?what=a%20b%26c&what=d&x=%C3%A4+%2B"):
        answer = site.get(path + query)
        assert answer.status == 308
        location = answer.headers["Location"]
        assert location.startswith(f"/api{path}/") and location.count("?") == bool(query)
        there = location.removeprefix("/api")
        sent, arrived = event_of("GET", path + query), event_of("GET", there)
        assert sent["multiValueQueryStringParameters"] == arrived["multiValueQueryStringParameters"]
        assert site.get(there).status in (200, 302, 400), "and never on again"


@pytest.mark.parametrize("path", SLASHED)
def test_gateway_that_strips_the_slash_causes_no_redirect_loop(site: Site, path: str) -> None:
    for cut in ("path", "requestContext"):
        event = event_of("GET", f"{path}/?what=a&start=1&end=2", headers={"Host": HOST})
        if cut == "path":
            event["path"] = path
        else:
            event["requestContext"]["path"] = f"/api{path}"
        assert handled(event).status == (302 if path == "/docs" else 200)


@pytest.mark.parametrize("path", ["/v0/archive/latest/syslog/web-1", "/v0/archive/latest/syslog/web-1/data"])
def test_a_slash_too_many_is_no_matter(site: Site, path: str) -> None:
    document = site.file()
    for url in (path, f"{FILES}/{document['id']}/data", f"{FILES}/{document['id']}/metadata"):
        assert site.get(f"{url}/").status == 200


def test_uploads_begin_with_and_without_the_slash(site: Site) -> None:
    body = {"start": "now", "path": "/a", "where": "w", "what": "x", "work_id": None, "hash": "0" * 32, "size": 0}
    assert [site.ask("POST", FILES + slash, body).status for slash in ("", "/")] == [201, 201]


# Contents


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a/x.json", "application/json"), ("/a/x.html", "text/html"), ("/a/x.txt", "text/plain"), ("/a/x.csv", "text/csv"),
        ("/a/x", "text/plain"), ("/a/x.nonsense", "text/plain"), ("C:\\logs\\x.json", "application/json"),
        (f"/a/x.json-{'0' * 32}", "application/json"), (f"/a/x.json-{'f' * 40}", "application/json"),
        (f"/a/x.json-{'0' * 31}", "text/plain"), (f"/a/x.json-{'0' * 41}", "text/plain"), ("//[/x", "text/plain"),
        ("/ä ö/x.json", "application/json"),
    ],
)  # fmt: skip
def test_the_type_is_guessed_from_the_path(site: Site, path: str, kind: str) -> None:
    document = site.push(b"{}", path=path)
    answer = site.get(f"{FILES}/{document['id']}/data")
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, "{}", kind)
    assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize("body", [b"", b"text\n", b"\xff\xfe\x00"])
@pytest.mark.parametrize("path", ["/a/x.bin", "/a/x.exe", "/a/x.so", "/a/x.gz", "/a/x.tar.gz"])
@pytest.mark.parametrize("accept", [None, "*/*", "application/octet-stream"])
def test_binary_types_are_no_trouble_whatever_they_hold(site: Site, path: str, body: bytes, accept: str | None) -> None:
    document = site.push(body, path=path)
    answer = site.get(f"{FILES}/{document['id']}/data", headers={"Accept": accept} if accept else {})
    assert answer.status in (200, 307), answer.body
    if answer.status == 200:
        assert answer.body == body.decode()


@pytest.mark.parametrize(
    "text", ["", "a\n", "äöü €\r\n\0\x1b[0m\t", "\ufeffx", "😀" * 1000, "<script>alert(1)</script>", "a" * 100_000]
)
def test_text_comes_as_it_is(site: Site, text: str) -> None:
    document = site.push(text.encode(), path="/a/x.html")
    answer = site.get(f"{FILES}/{document['id']}/data")
    assert (answer.status, answer.body) == (200, text)
    assert answer.headers["Content-Security-Policy"] == "sandbox", "whoever wrote the file, it does not run in this site's name"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/a/x.json", "/a/x.json.gz", "/a/x"])
def test_gzip_is_recognized_by_its_first_bytes(site: Site, path: str) -> None:
    document = site.push(gzip.compress(b"{}"), path=path)
    answer = site.get(f"{FILES}/{document['id']}/data")
    kind = "application%2Fjson" if "json" in path else "text%2Fplain"
    assert answer.status == 307
    assert f"content_type={kind}&content_encoding=gzip" in answer.headers["Location"]
    assert answer.headers["Cache-Control"] == "no-store", "it expires"


@pytest.mark.parametrize("body", [b"\x1f\x8b", b"\x1f\x8b\x07", b"\x1f", b"\x80"])
def test_damaged_gzip_is_not_served_as_gzip(site: Site, body: bytes) -> None:
    document = site.push(body, path="/a/x.gz")
    answer = site.get(f"{FILES}/{document['id']}/data")
    assert "content_encoding=&" in answer.headers.get("Location", "content_encoding=&") + "&"
    assert answer.headers.get("Content-Encoding", "") == ""


def test_contents_over_lambdas_limit_are_a_link(site: Site) -> None:
    for size, status in (
        (MAX_INLINE_BYTES - 2, 200),
        (MAX_INLINE_BYTES - 1, 307),
        (MAX_INLINE_BYTES, 307),
        (MAX_INLINE_BYTES + 1, 307),
    ):
        document = site.push(b"x" * size)
        answer = site.get(f"{FILES}/{document['id']}/data")
        assert answer.status == status
        assert len(json.dumps({"body": answer.body})) < 6_000_000
    escaped = site.push(("ä" * 2_000_000).encode())
    assert site.get(f"{FILES}/{escaped['id']}/data").status == 307, "it grows when it is escaped"


def test_a_link_is_to_the_object_itself(site: Site) -> None:
    document = site.file(b"\xff", key="odd key+1%/ä")
    link = site.get(f"{FILES}/{document['id']}/data").headers["Location"]
    assert link.startswith("memory:///odd%20key%2B1%25/%C3%A4?operation=get&expires=900")


# Times


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1426809600000", 1_426_809_600_000), ("1426809600", 1_426_809_600_000), ("2015", 2_015_000), ("0", 0), ("-1", -1000),
        ("1426809600.5", 1_426_809_600_500), ("1.4268096e9", 1_426_809_600_000), ("100000000000", 100_000_000_000_000),
        ("100000000001", 100_000_000_001), ("2015-03-20", 1_426_809_600_000), ("2015-03-20T00:00:00Z", 1_426_809_600_000),
        ("2015-03-20T01:00:00+01:00", 1_426_809_600_000), ("2015-03-20 00:00:00.000", 1_426_809_600_000),
        ("20 Mar 2015", 1_426_809_600_000), ("Fri Mar 20 00:00:00 UTC 2015", 1_426_809_600_000), ("now", START_MS),
        ("0001-01-01", -62_135_596_800_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999), ("1965-01-01", -157_766_400_000),
    ],
)  # fmt: skip
def test_times_in_queries(site: Site, text: str, ms: int) -> None:
    document = site.file(start=ms, end=None)
    assert site.ids(what="syslog", start=text, end=text) == [document["id"]]
    assert site.list(what="syslog", start=text, end=text).json["records"][0]["metadata"]["start"] == ms


@pytest.mark.parametrize(
    "text",
    ["inf", "-inf", "nan", "sNaN", "infinity", "1e400", "-1e400", "1e-9999999999999999999", "1" + "0" * 30, "9" * 5000, "x", "None", "[]",
     "2015-02-30", "2015-13-01", "10000-01-01", "0000-01-01", "2015-03-20T25:00", "tomorrow", "12:99", " ", "\0", "ä", "😀",
     "2015-01-01T00:00:00+99:99", "2015-01-01 00:00 +9999", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
     "2015-01-01 00:00:00 EST5EDT", "-" * 50, "a" * 100_000, "0x10", "1;DROP TABLE", "{}", "%00", "1 2 3 4 5 6"],
)  # fmt: skip
def test_times_that_cannot_be_are_invalid_never_a_500(site: Site, text: str) -> None:
    for query in ({"start": text, "end": "now"}, {"start": "0", "end": text}):
        is_too_long = len(text) > 8192
        assert is_refusal(site.list(what="syslog", **query), 400, None if is_too_long else "InvalidTime")


def test_fields_that_are_not_s3s_own_survive(site: Site) -> None:
    """An object whose metadata has more than the datalake's."""
    document = site.document()
    site.world.archive_store.put(f"{document['id']}/data", b"x", PutOptions({"datalake": json.dumps(document), "other": "1"}))
    assert site.get(f"{FILES}/{document['id']}/metadata").json == described(document)


# The examples of the OpenAPI document


class Throttled(InMemoryObjectStore):
    """A store that S3 throttles."""

    def head(self, key: str) -> ObjectInfo:
        raise translate_error(ClientError({"Error": {"Code": "SlowDown"}}, "HeadObject"), "head", key, write=False)


EXAMPLE_ID = openapi_archive.SCHEMAS["Metadata"]["examples"][0]["id"]
MANY = ",".join(f"name-{number}" for number in range(MAX_INDEXES + 1))
QUERIES: dict[str, dict[str, Any]] = {
    "NoArgs": {},
    "NoWhat": {"work_id": "job-1"},
    "NoWorkInterval": {"what": "syslog"},
    "InvalidWorkInterval": {"what": "syslog", "work_id": "job-1", "start": 1_426_809_920_345, "end": 1_426_895_999_114},
    "InvalidTime": {"what": "syslog", "start": "yesterday", "end": "now"},
    "InvalidCursor": {"what": "syslog", "work_id": "job-1", "cursor": "nonsense"},
    "InvalidOrder": {"what": "syslog", "work_id": "job-1", "order": "random"},
    "TooManyNames": {"what": MANY, "work_id": "job-1"},
}
NEW_FILE = openapi_archive.SCHEMAS["NewFile"]["examples"][0]


def failed(code: str) -> Answer:
    """The response to a request that fails with an archive code."""
    world = World()
    if code == "Unavailable":
        world.archive_store = Throttled(world.clock)
    with deployed(world=world) as site:
        if code in QUERIES:
            return site.get(f"{FILES}/?{urlencode(QUERIES[code])}")
        if code == "InvalidLookback":
            return site.latest(query="?lookback=long")
        if code in ("InvalidMetadata", "TooLarge"):
            wrong = {"what": "Sys Log"} if code == "InvalidMetadata" else {"size": MAX_BYTES + 1}
            return site.ask("POST", FILES, NEW_FILE | wrong)
        if code == "NotChangeable":
            run = Run("mysql.ingest", "run-1")
            site.write_run(run, "one\n")
            site.finish_run(run)
            (file_id,) = site.ids(what="mysql_ingest")
            answer = site.ask("DELETE", f"{FILES}/{file_id}")
            return Answer(answer.status, answer.body.replace(file_id, EXAMPLE_ID), answer.headers)
        return site.get(f"{FILES}/{EXAMPLE_ID}/data")


@pytest.mark.parametrize("code", openapi_archive.ERRORS)
def test_documented_error_is_one_that_the_server_sends(code: str) -> None:
    status, _, message = openapi_archive.ERRORS[code]
    answer = failed(code)
    detail = openapi_archive.DETAILS.get(code)
    assert (answer.status, answer.json) == (status, {"code": code, "message": message} | ({"detail": detail} if detail else {}))
