"""Bad input over HTTP: a clear error in the envelope, or the contract's leniency; never a 500, and nothing stored partially."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.ports import Run
from tests.functional.gateway import Answer, call, event_of, get, handled, installed, post
from tests.sampling import examples
from tests.world import World

RUN_ID = "0f1e2d3c-0000-4000-8000-000000000001"
RUN = Run("svc.pipe", RUN_ID)
PATH = f"svc.pipe/{RUN_ID}"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def packed(data: bytes) -> str:
    return json.dumps({"logs": base64.b64encode(data).decode(), "compressed": True})


def is_refusal(answer: Answer, code: int) -> bool:
    """Whether the client recognizes an error: it must have a ``code``."""
    body = answer.json
    return answer.status == code and set(body) == {"code", "message"} and body["code"] == code and bool(body["message"])


BOMB = gzip.compress(bytes(65 * MIB))
HALF = gzip.compress(b"some lines\n" * 100)[:-10]
REFUSED = [
    ("malformed json", '{"logs": ', JSON, 400),
    ("no json at all", "hello", JSON, 400),
    ("a number", "5", JSON, 400),
    ("an array", '["a"]', JSON, 400),
    ("nested without end", "[" * 200_000, JSON, 400),
    ("logs of a wrong type", '{"logs": {"a": 1}}', JSON, 400),
    ("compressed of a wrong type", '{"logs": "a", "compressed": []}', JSON, 400),
    ("connector of a wrong type", '{"logs": "a", "connectorId": 5}', JSON, 400),
    ("compressed, but not base64", '{"logs": "!!!", "compressed": true}', JSON, 400),
    ("compressed, but not gzip", packed(b"hello"), JSON, 400),
    ("compressed, but cut", packed(HALF), JSON, 400),
    ("a gzip bomb in a LogBatch", packed(BOMB), JSON, 413),
    ("a gzip bomb", BOMB, {"Content-Type": "application/gzip"}, 413),
    ("a gzip bomb by encoding", BOMB, {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}, 413),
    ("broken gzip", b"hello", {"Content-Type": "application/gzip"}, 400),
    ("cut gzip", HALF, {"Content-Type": "application/gzip"}, 400),
    ("cut gzip by encoding", HALF, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, 400),
    ("gzip that a gateway took for text", HALF.decode(errors="replace"), {**JSON, "Content-Encoding": "gzip"}, 400),
    ("another encoding", "x", {"Content-Type": "text/plain", "Content-Encoding": "br"}, 415),
    ("text that the gateway changed", "caf\ufffd", {"Content-Type": "text/plain"}, 415),
    (
        "a long text of another charset",
        gzip.compress(bytes(6 * MIB + 1)),
        {"Content-Type": "application/gzip; charset=utf-16"},
        413,
    ),
    ("unknown charset", "x", {"Content-Type": "text/plain; charset=x"}, 415),
    ("a picture", b"\x89PNG", {"Content-Type": "image/png"}, 415),
    ("a form", "logs=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ("an idempotency key that is too long", '"a"', {**JSON, "Idempotency-Key": "k" * 256}, 400),
    ("an idempotency key of control characters", '"a"', {**JSON, "Idempotency-Key": "a\nb"}, 400),
    ("an empty idempotency key", '"a"', {**JSON, "Idempotency-Key": ""}, 400),
]


@pytest.mark.parametrize(("body", "headers", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_bodies(world: World, body: str | bytes, headers: dict[str, str], code: int) -> None:
    assert is_refusal(post(PATH, body, headers), code)
    assert world.names(RUN) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a%00b/run", 400),  # NUL
        ("a%0Ab/run", 400),
        ("a%7Fb/run", 400),
        ("a/run%00", 400),
        ("a%FFb/run", 400),  # no UTF-8
        ("a%ED%A0%80b/run", 400),  # a surrogate
        ("%C3%A9" * 256 + "/run", 400),  # too long for a key
        ("a" * 1200 + "/run", 400),
        ("a/" + "r" * 1200, 400),
        ("a/x%2Fy", 400),  # a run id has no slash
        ("a/last", 400),  # the API's own words
        ("a/download", 400),
        ("a/close", 400),
        ("/run", 404),
        ("a", 404),
    ],
)
def test_names_that_cannot_be(world: World, path: str, code: int) -> None:
    assert is_refusal(post(path, '"a"', JSON), code)
    assert world.store.list("").objects == []


@pytest.mark.parametrize(
    "fqn", ["../../etc", "..", ".active", "a/../b", "a%2F..%2Fb", "./a", "//a", "~root", "C:%5Cwindows", "%2e%2e"]
)
def test_path_tricks_stay_below_the_prefix(world: World, fqn: str) -> None:
    assert post(f"{fqn}/{RUN_ID}", '"a"', JSON).status == 200
    (stored,) = world.store.list("").objects
    prefix, name, run_id, *segment = stored.key.split("/")
    assert (prefix, run_id, segment) == ("pipeline-logs", RUN_ID, ["segments", "0000000000"])
    assert not name.startswith(".")


@pytest.mark.parametrize("run_id", ["..", ".", ".active", "partial.txt", "segments", "%2e%2e"])
def test_run_ids_of_tricks_stay_in_their_place(world: World, run_id: str) -> None:
    assert post(f"a/{run_id}", '"a"', JSON).status == 200
    (stored,) = world.store.list("").objects
    assert stored.key.count("/") == 4
    assert "/../" not in stored.key
    assert get(f"a/{run_id}").json["logs"] == "a"


@pytest.mark.parametrize("cursor", ["x", "-1", "1e3", "%00", "%FF", "99999999999999999999", "1;DROP", "null"])
def test_a_bad_cursor_is_no_error(world: World, cursor: str) -> None:
    post(PATH, '"a\\nb"', JSON)
    answer = get(f"{PATH}?after={cursor}&limit={cursor}&tail={'x' + cursor}&since={cursor}&wait={'x' + cursor}")
    assert answer.status == 200
    assert answer.json["total"] == 2


@pytest.mark.parametrize("body", [None, "", "null", "{}", '{"logs": null}', '{"logs": ""}', '""'])
def test_an_empty_batch_stores_nothing(world: World, body: str | None) -> None:
    answer = post(PATH, body, JSON)
    assert answer.status == 200
    assert answer.cookie.startswith("PIPELINE_SESSION=")
    assert world.names(RUN) == []


def test_lone_surrogates_and_control_characters_are_kept_or_replaced(world: World) -> None:
    assert post(PATH, r'{"logs": "a\ud800b\u0000\u001b", "connectorId": "c\udfff"}', JSON).status == 200
    assert world.body("segments/0000000000", RUN) == "a\ufffdb\0\x1b\n".encode()


@pytest.mark.parametrize("form", ["string", "batch", "plain", "binary"])
def test_a_body_of_six_megabytes(world: World, form: str) -> None:
    text = "a line of a very large batch of lines\n" * (6_000_000 // 38)
    body: str | bytes = {"string": json.dumps(text), "batch": json.dumps({"logs": text})}.get(form, text)
    headers = JSON if form in ("string", "batch") else {"Content-Type": "text/plain"}
    if form == "binary":
        body, headers = text.encode(), {"Content-Type": "application/octet-stream"}
    assert post(PATH, body, headers).status == 200
    assert world.body("segments/0000000000", RUN) == text.encode()


@pytest.mark.slow
def test_a_gzip_body_expands_to_64_mib_at_most(world: World) -> None:
    noise = random.Random(1)
    text = b"".join(noise.randbytes(40).hex().encode() + b"x" * 4015 + b"\n" for _ in range(16_384))
    assert post(PATH, gzip.compress(text), {"Content-Type": "application/gzip"}).status == 200
    assert len(world.body("segments/0000000000", RUN)) == 64 * MIB
    assert is_refusal(post(PATH, gzip.compress(text + b"y"), {"Content-Type": "application/gzip"}), 413)


def test_unexpected_error_is_a_500_without_traceback(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.store, "put", lambda *_: 1 / 0)
    answer = post(PATH, '"a"', JSON)
    assert is_refusal(answer, 500)
    assert answer.json["message"] == "internal server error"


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods(method: str) -> None:
    answer = call(method, f"/v1/services/ingestionPipelines/logs/{PATH}")
    assert is_refusal(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.usefixtures("world")
def test_route_that_only_the_gateway_has_is_no_path() -> None:
    """As between two deployments."""
    event = event_of("GET", "/v1/health")
    event["requestContext"] |= {"resourcePath": "/v1/removed", "path": "/api/v1/removed"}
    answer = handled(event)
    assert is_refusal(answer, 404) and answer.json["message"] == "no such path"


@pytest.mark.behavior("Invalid input never causes a server error.")
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.one_of(
        st.none(), st.text(max_size=60), st.binary(max_size=60), st.recursive(st.text(max_size=5), st.lists).map(json.dumps)
    ),
    content_type=st.sampled_from(["application/json", "text/plain", "application/gzip", "application/octet-stream", "", "x/y"]),
    encoding=st.sampled_from([None, "gzip", "identity", "", "br"]),
    query=st.text("=&abc%2F0189-.;", max_size=30),
    tail=st.text("abc%2F0./'\" +~é-", min_size=1, max_size=40),
)
def test_nothing_is_ever_a_500(body: str | bytes | None, content_type: str, encoding: str | None, query: str, tail: str) -> None:
    with installed(World()):
        headers = {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding is not None else {})
        for answer in (post(f"f/{tail}", body, headers), get(f"f/{tail}?{query}")):
            assert answer.status in (200, 307, 400, 404, 409, 413, 415)
            assert answer.status < 400 or is_refusal(answer, answer.status)
