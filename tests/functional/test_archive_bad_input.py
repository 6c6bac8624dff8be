"""Bad input to the archive over HTTP: always the error envelope, never a 500 nor a traceback, and nothing stored partially."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.ports import Key, ObjectInfo, Row
from tests.functional.archive import DAY_MS, FILES, HOST, Site, deployed, is_refusal
from tests.functional.gateway import Answer, call, event_of, handled
from tests.sampling import examples
from tests.world import START_MS

ID = "ab" * 16
NONSENSE = ["", " ", "x", "-1", "0", "1e999", "nan", "null", "None", "[]", "{}", "'", '"', "\\", "%", "%00", "\0", "\n", "ä", "語", "😀",
            "\ufeff", "\u202e", "../../etc/passwd", "<script>", "' OR 1=1 --", "*", "**", "?", "#", "a#b", "~", "a" * 5000, "9" * 5000, "ä" * 3000,
            "a," * 3000, "*," * 300, "${jndi:ldap://x}", "true", "1,2", ".", ".."]  # fmt: skip
PARAMETERS = ["what", "where", "work_id", "start", "end", "cursor", "combine", "order", "lookback", "limit", "", "ä"]


@pytest.fixture
def site() -> Iterator[Site]:
    with deployed() as site:
        site.file(id=ID, start=START_MS - DAY_MS, work_id="job-1")
        yield site


def is_sound(answer: Answer) -> bool:
    """Whether a request succeeded, or was refused in the envelope without internal details."""
    told = answer.body if answer.status >= 400 else ""
    if any(word in told for word in ("Traceback", "chalicelib", "pydantic", "botocore", "Errno")):
        return False
    if answer.status >= 400:
        return answer.status in (400, 404, 405, 409, 413) and is_refusal(answer, answer.status, answer.json.get("code"))
    return answer.status in (200, 201, 204, 307, 308)


@pytest.mark.sampled(default=120)
@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: ascii(value[:20]) + str(len(value)))
@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_with_nonsense(site: Site, name: str, value: str) -> None:
    whole = {"what": "syslog", "where": "web-1", "work_id": "job-1", "start": "0", "end": "now", "combine": "true"}
    for query in (whole | {name: value}, {"what": "syslog", "start": "0", "end": "now"} | {name: value}, {name: value}):
        for path in (f"{FILES}/", "/v0/archive/latest/syslog/web-1", "/v0/archive/latest/syslog/web-1/data"):
            answer = site.get(f"{path}?{urlencode(query)}")
            assert is_sound(answer), answer
            assert "InternalServerError" not in answer.body


def test_a_parameter_without_a_value_or_given_twice(site: Site) -> None:
    for query in (
        "what",
        "what=&&&=",
        "what=syslog&what=other&start=0&end=now",
        "&",
        "=",
        "what=syslog&start=0&end=now&start=x",
        "%",
        "%ZZ=%",
    ):
        assert is_sound(site.get(f"{FILES}/?{query}"))


def test_parameters_that_only_a_broken_gateway_would_hand_over(site: Site) -> None:
    for value in ("\ud800", "a\udfff"):
        for name in PARAMETERS:
            event = event_of("GET", f"{FILES}/?what=syslog&start=0&end=now", headers={"Host": HOST})
            event["queryStringParameters"] |= {name: value}
            event["multiValueQueryStringParameters"] |= {name: [value]}
            assert is_sound(handled(event))
            event["path"] = event["path"].rstrip("/")
            event["requestContext"]["path"] = event["requestContext"]["path"].rstrip("/")
            assert is_sound(handled(event)), "nor while it is redirected"


@pytest.mark.parametrize("missing", ["Host", "X-Forwarded-Proto", "both"])
def test_headers_that_are_not_there(site: Site, missing: str) -> None:
    headers = {} if missing == "both" else {"Host": HOST} if missing == "X-Forwarded-Proto" else {"X-Forwarded-Proto": "http"}
    for path in (f"{FILES}/?what=syslog&start=0&end=now", "/v0/archive", "/spec/", "/v0/archive/latest/syslog/web-1"):
        answer = handled(event_of("GET", path, headers=headers))
        assert answer.status in (200, 308)


@pytest.mark.parametrize("protocol", ["javascript", "", " ", ",", "ftp", "https://evil.example/?", "x" * 5000])
def test_invalid_protocol_is_not_used_in_links(site: Site, protocol: str) -> None:
    """Links use the client's address; a header has no other effect."""
    answer = handled(
        event_of("GET", f"{FILES}/?what=syslog&start=0&end=now", headers={"Host": HOST, "X-Forwarded-Proto": protocol})
    )
    assert answer.json["records"][0]["http_url"].startswith((f"https://{HOST}/", f"http://{HOST}/"))


# Paths

TRICKS = ["a%2Fb", "..%2F..%2Fetc", "%2e%2e", "..", ".", "%00", "%FF", "%ED%A0%80", "%25", "%252F", "a%20b", "ä", "%C3%A4", "a" * 5000,
          "%F0%9F%98%80" * 500, "*", "%2A", "a,b=c", "'", "~", "-", "null", "undefined", ID.upper(), ID + "%00", ID + "%2F..", f"x%2F{ID}",
          "a,b", "[a]", "a%0D%0AX-Evil:%201"]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS, ids=lambda name: name[:24])
def test_names_in_paths(site: Site, name: str) -> None:
    for method, path, body in (
        ("GET", f"{FILES}/{name}/data", None), ("GET", f"{FILES}/{name}/metadata", None), ("DELETE", f"{FILES}/{name}", None),
        ("PATCH", f"{FILES}/{name}/metadata", "{}"), ("GET", f"/v0/archive/latest/{name}/web-1", None),
        ("GET", f"/v0/archive/latest/syslog/{name}", None), ("GET", f"/v0/archive/latest/{name}/{name}/data", None),
    ):  # fmt: skip
        answer = call(method, path, body, {"Host": HOST})
        limit = 256 if path.startswith("/v0/archive/latest/") else 512
        is_too_long = len(unquote(name)) > limit
        assert is_refusal(answer, *((400, 400) if is_too_long else (404, "NoSuchFile"))), answer
        assert "\r" not in "".join(answer.headers.values())
    assert site.ids(what="syslog") == [ID]


@pytest.mark.parametrize("key", ["secret/data", f"x/{ID}/data", "a/../data"])
def test_an_id_reaches_no_other_object_than_its_own(site: Site, key: str) -> None:
    """The metadata of an object say which file it is, not its key."""
    document = site.document()
    site.store(key, b"secret", json.dumps(document))
    guess = quote(key.removesuffix("/data"), safe="")
    for path in ("data", "metadata"):
        assert is_refusal(site.get(f"{FILES}/{guess}/{path}"), 404, "NoSuchFile")
    assert is_refusal(site.ask("DELETE", f"{FILES}/{guess}"), 404, "NoSuchFile")
    assert site.world.archive_store.head(key)


def test_a_name_that_no_table_could_look_for_costs_no_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys have at most 2,048 bytes in DynamoDB, 1,024 in S3. A request with a longer one would fail as unavailable, and be retried."""
    database, store = site.world.database, site.world.archive_store
    get_many, query, head = database.get_many, database.query, store.head
    asked: list[str] = []

    def watched_get_many(keys: Sequence[Key]) -> Mapping[Key, Row]:
        asked.extend(text for key in keys for text in (key.partition, key.sort))
        return get_many(keys)

    def watched_query(table: str, partition: str, first: str | None, last: str | None, **more: Any) -> tuple[Sequence[Row], bool]:
        asked.extend(text for text in (partition, first, last) if text)
        return query(table, partition, first, last, **more)

    def watched_head(key: str) -> ObjectInfo:
        asked.append(key)
        return head(key)

    monkeypatch.setattr(database, "get_many", watched_get_many)
    monkeypatch.setattr(database, "query", watched_query)
    monkeypatch.setattr(store, "head", watched_head)
    for path in (
        f"{FILES}/?" + urlencode({"what": "a" * 3000, "start": 0, "end": "now"}),
        f"{FILES}/?" + urlencode({"what": "a" * 1500 + "*", "start": 0, "end": "now"}),
        f"{FILES}/?" + urlencode({"what": "syslog", "where": "a" * 3000, "start": 0, "end": "now"}),
        f"{FILES}/?" + urlencode({"what": "*", "where": "a" * 1100 + "*", "start": 0, "end": "now"}),
        f"{FILES}/?" + urlencode({"what": "syslog", "work_id": "a" * 3000}),
        f"/v0/archive/latest/{'a' * 1500}/{'b' * 1500}",
        f"{FILES}/{'a' * 3000}/data",
        f"{FILES}/{'a' * 3000}/metadata",
    ):
        asked = []
        assert is_sound(site.get(path))
        assert all(len(key) < 1024 for key in asked), path


def test_latest_does_not_accept_a_pattern(site: Site) -> None:
    """What and where match exactly; a star is not a valid character."""
    for what, where in (("*", "web-1"), ("sys*", "web-1"), ("syslog", "*"), ("*", "*")):
        assert is_refusal(site.latest(what, where), 404, "NoSuchFile")


# Methods


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v0/archive/", {"GET"}), (f"{FILES}/", {"GET", "POST"}), (f"{FILES}/{ID}", {"DELETE"}), (f"{FILES}/{ID}/metadata", {"GET", "PATCH"}),
     (f"{FILES}/{ID}/data", {"GET"}), ("/v0/archive/latest/a/b", {"GET"}), ("/v0/archive/latest/a/b/data", {"GET"}),
     ("/v0/environment/", {"GET"}), ("/health/", {"GET"}), ("/spec/", {"GET"}), ("/docs/", {"GET"}), ("/docs/static/index.html", {"GET"})],
)  # fmt: skip
def test_other_methods(site: Site, path: str, allowed: set[str]) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "NONSENSE"} - allowed:
        answer = site.ask(method, path)
        assert is_refusal(answer, 405), answer
        assert set(answer.headers["Allow"].split(", ")) == allowed
    assert site.ids(what="syslog") == [ID]


# Bodies

BODIES = ["", " ", "x", "null", "5", '"x"', "true", "[]", "[{}]", "{", '{"a": }', "{'a': 1}", "[" * 100_000, '{"a":' * 50_000, "{}{}", "\0",
          '{"size": 1e5000}', '{"size": ' + "9" * 5000 + "}", "a=b&c=d", "<xml/>", '{"a": "' + "x" * 3_000_000 + '"}',
          '{"\\ud800": 1}', '{"a": "\\udfff"}', '{"a": NaN}', '{"version": [[[[]]]]}', "ä" * 1000]  # fmt: skip


@pytest.mark.sampled(default=50)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body[:20]) + str(len(body)))
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", "", None])
def test_bodies_of_uploads_and_changes(site: Site, body: str, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    before = site.get(f"{FILES}/{ID}/metadata").json
    for method, path in (("POST", FILES), ("PATCH", f"{FILES}/{ID}/metadata")):
        refusal = (413, 413) if len(body.encode()) > 65_536 else (400, "InvalidMetadata")
        assert is_refusal(site.ask(method, path, body, headers), *refusal), body[:50]
    assert site.get(f"{FILES}/{ID}/metadata").json == before
    assert len(site.world.archive_store.list("").objects) == 1


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\x00", "{}".encode("utf-16"), b"\x1f\x8b\x08", bytes(range(256))])
def test_binary_bodies(site: Site, body: bytes) -> None:
    for method, path in (("POST", FILES), ("PATCH", f"{FILES}/{ID}/metadata")):
        answer = site.ask(method, path, body, {"Content-Type": "application/octet-stream"})
        assert is_sound(answer) and (answer.status == 400 or body.startswith(b"\xff\xfe{")), answer


def test_a_body_that_is_no_base64(site: Site) -> None:
    event = event_of("POST", FILES, b"x", {"Host": HOST, "Content-Type": "application/octet-stream"})
    for body in ("!!!", "a", "ä", ""):
        assert is_refusal(handled(event | {"body": body}), 400, "InvalidMetadata")


def test_no_body_at_all(site: Site) -> None:
    for method, path in (("POST", FILES), ("POST", f"{FILES}/"), ("PATCH", f"{FILES}/{ID}/metadata")):
        assert is_refusal(site.ask(method, path), 400, "InvalidMetadata")


# Generated input

WORDS = st.sampled_from(
    ["syslog", "*", "web-1", "job-1", "now", "0", "2015-03-20", "9999-12-31", "-1e30", "newest", "+00:00", ",", "T", "20 Mar"]
)
TIMES = st.text("0123456789-+:.TZe /,ap JanMofGUC", max_size=30)
PARTS = st.lists(WORDS | st.text(max_size=6), max_size=3).map("".join)
QUERIES = st.dictionaries(st.sampled_from(PARAMETERS) | st.text(max_size=4), PARTS | TIMES, max_size=6)
SETTINGS = settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
BASES = st.sampled_from([{}, {"what": "syslog"}, {"what": "*", "work_id": "job-1"}, {"what": "syslog", "start": "0", "end": "now"}])


@SETTINGS
@given(QUERIES, BASES)
def test_no_query_is_ever_a_500(site: Site, query: dict[str, str], base: dict[str, str]) -> None:
    for path in (f"{FILES}/", FILES, "/v0/archive/latest/syslog/web-1"):
        assert is_sound(answer := site.get(f"{path}?{urlencode(base | query)}")), answer


@settings(SETTINGS, max_examples=examples(600))
@given(TIMES | st.text(max_size=20) | st.floats().map(str) | st.integers().map(str) | st.datetimes().map(str))
def test_no_time_is_ever_a_500(site: Site, text: str) -> None:
    for query in ({"start": text, "end": "9999-12-31"}, {"start": "0001-01-01", "end": text}):
        answer = site.list(what="x", **query)
        assert answer.status == 200 or is_refusal(answer, 400, answer.json["code"]), answer


NAMES = st.text("abAB09%2Fé.*-_~'\" +", min_size=1, max_size=30)


@SETTINGS
@given(NAMES, st.sampled_from(["GET", "DELETE", "PATCH"]))
def test_no_path_is_ever_a_500(site: Site, name: str, method: str) -> None:
    tail = "" if method == "DELETE" else "/metadata"
    assert is_sound(answer := site.ask(method, f"{FILES}/{name}{tail}", "{}" if method == "PATCH" else None)), answer
    assert is_sound(answer := site.latest(name, name)), answer
    assert site.ids(what="syslog") == [ID]


@pytest.fixture
def cursor(site: Site) -> str:
    """A valid cursor."""
    keys = [f"{site.push(start=START_MS - number, end=None, what='paged')['id']}/data" for number in range(101)]
    assert site.notify(*keys) == []
    made: str = site.list(what="paged").json["next"].rpartition("cursor=")[2]
    return made


@SETTINGS
@given(junk=st.text(max_size=40) | st.binary(max_size=40).map(bytes.hex), place=st.integers(0, 60))
def test_no_tampered_cursor_is_ever_a_500(site: Site, cursor: str, junk: str, place: int) -> None:
    tampered = cursor[:place] + junk + cursor[place + 1 :]
    answer = site.list(what="paged", cursor=tampered)
    assert answer.status == 200 if tampered in (cursor, "") else is_refusal(answer, 400, "InvalidCursor"), answer
