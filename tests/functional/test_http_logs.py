"""Run logs over HTTP: requests of OpenMetadata's connectors and viewers, and extensions."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.tombstones import Tombstone, put_tombstone
from tests.faults.interception import Intercepted
from tests.functional.gateway import LOGS, Context, call, get, installed, post
from tests.world import START_MS, World

FQN = "mysql.ingest"
RUN_ID = "0f1e2d3c-0000-4000-8000-000000000001"
RUN = Run(FQN, RUN_ID)
PATH = f"{FQN}/{RUN_ID}"
MIB = 1024 * 1024


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def lines(*numbers: int) -> str:
    return json.dumps("\n".join(f"line {number}" for number in numbers))


def stored(world: World, run: Run = RUN) -> bytes:
    """The bytes of all segments, in order of their numbers."""
    names = [name for name in world.names(run) if name.startswith("segments/")]
    return b"".join(world.body(name, run) for name in names)


def test_health() -> None:
    with installed(World()):
        answer = call("GET", "/v1/health")
    assert (answer.status, answer.json["status"]) == (200, "ok")


@pytest.mark.usefixtures("world")
def test_pages_of_two() -> None:
    post(PATH, json.dumps("1\n2\n3\n4\n5\n"))
    pages = [get(f"{PATH}?after={after}&limit=2").json for after in ("", "2", "4")]
    assert [page["logs"] for page in pages] == ["1\n2", "3\n4", "5"]
    assert [page["after"] for page in pages] == ["2", "4", None]
    assert [page["total"] for page in pages] == [5, 5, 5]
    assert [page["streaming"] for page in pages] == [True, True, True]


@pytest.mark.usefixtures("world")
def test_an_unknown_run_is_an_empty_page() -> None:
    answer = get("nobody/knows")
    assert (answer.status, answer.json) == (200, {"logs": "", "after": None, "total": 0, "streaming": False})


def test_the_clients_own_requests(world: World) -> None:
    """Requests of ``logs_mixin.py`` in OpenMetadata's Python client: init, batch, compressed batch, close, and a page by offset."""
    headers = {"Content-type": "application/json", "Authorization": "Bearer token"}
    connector = {"connectorId": "host-17", "timestamp": 1_790_000_000_000}
    opened = post(PATH, json.dumps(connector), headers)
    headers["Cookie"] = opened.cookie
    batch = {"logs": "one\ntwo", "compressed": False, "lineCount": 2, **connector}
    assert post(PATH, json.dumps(batch), headers).status == 200
    packed = base64.b64encode(gzip.compress(b"three\nfour\n")).decode()
    assert post(PATH, json.dumps({**batch, "logs": packed, "compressed": True}), headers).status == 200
    assert get(f"{PATH}?offset=1&limit=1000", headers=headers).json["logs"] == "two\nthree\nfour"
    closed = post(f"{PATH}/close", json.dumps(connector), headers)
    assert (closed.status, closed.json) == (200, {"message": "Log stream closed successfully"})
    assert post(f"{PATH}/close", None, headers).json == closed.json
    assert world.body("logs.txt", RUN) == b"one\ntwo\nthree\nfour\n"
    assert get(PATH).json["streaming"] is False


def test_the_cookie_makes_a_retry_harmless(world: World) -> None:
    first = post(PATH, lines(1))
    assert first.headers["Set-Cookie"].endswith("; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax")
    cookie = {"Cookie": f"other=1; {first.cookie}; last=2"}
    second, again = post(PATH, lines(2), cookie), post(PATH, lines(2), cookie)
    assert [second.json["repeated"], again.json["repeated"]] == [False, True]
    assert (second.json["sequence"], second.json["line"], second.json["lines"]) == (1, 1, 1)
    assert {name: again.json[name] for name in ("sequence", "line")} == {"sequence": 1, "line": 1}
    assert stored(world) == b"line 1\nline 2\n"


def test_without_a_cookie_a_repeat_is_a_new_batch(world: World) -> None:
    post(PATH, lines(1))
    post(PATH, lines(1))
    assert stored(world) == b"line 1\nline 1\n"


@pytest.mark.behavior("A retry with the same `Idempotency-Key` is stored once.")
def test_an_idempotency_key_makes_a_retry_harmless(world: World) -> None:
    key = {"Idempotency-Key": "batch-7"}
    assert [post(PATH, lines(1), key).json["repeated"] for _ in range(3)] == [False, True, True]
    assert post(PATH, lines(2), key).status == 400
    assert post(PATH, lines(2), {"Idempotency-Key": "batch-8"}).status == 200
    assert stored(world) == b"line 1\nline 2\n"


@pytest.mark.parametrize(
    "forge",
    [
        lambda cookie: "PIPELINE_SESSION=",
        lambda cookie: "PIPELINE_SESSION=1_2_3_4_5_6_7_8_9.abc",
        lambda cookie: cookie[:-1] + ("A" if cookie[-1] != "A" else "B"),
        lambda cookie: cookie.replace("_1_1_", "_1_9_"),
        lambda cookie: "PIPELINE_SESSION=" + "x" * 8000,
        lambda cookie: "PIPELINE_SESSION=\x00\ud800é; ;;=;",
    ],
)
def test_a_forged_position_is_ignored(world: World, forge: object) -> None:
    first = post(PATH, lines(1))
    cookie = forge(first.cookie)  # type: ignore[operator]
    assert post(PATH, lines(2), {"Cookie": cookie}).status == 200
    assert stored(world) == b"line 1\nline 2\n"


def test_a_position_of_another_run_is_ignored(world: World) -> None:
    first = post("other/run", lines(1))
    assert post(PATH, lines(2), {"Cookie": first.cookie}).status == 200
    assert stored(world) == b"line 2\n"


@pytest.mark.usefixtures("world")
def test_an_append_to_a_closed_run_is_refused() -> None:
    cookie = {"Cookie": post(PATH, lines(1)).cookie}
    post(f"{PATH}/close", headers=cookie)
    for headers in (cookie, {}):
        refused = post(PATH, lines(2), headers)
        assert (refused.status, refused.json["code"]) == (409, 409)
        assert "closed" in refused.json["message"]
    assert get(PATH).json["total"] == 1


@pytest.mark.usefixtures("world")
def test_the_last_lines() -> None:
    post(PATH, lines(1, 2, 3, 4, 5))
    assert get(f"{PATH}?tail=2").json["logs"] == "line 4\nline 5"
    assert get(f"{PATH}?tail=4&limit=1").json["logs"] == "line 2"
    assert get(f"{PATH}?tail=99").json["logs"] == "line 1\nline 2\nline 3\nline 4\nline 5"


def test_lines_since_a_time(world: World) -> None:
    for number in (1, 2, 3):
        post(PATH, lines(number))
        world.clock.advance(60)
    world.index.put(RUN, [world.parts().writer.tails.segment(RUN, number) for number in range(3)])
    since_ms = START_MS + 60_000
    assert get(f"{PATH}?since={since_ms}").json["logs"] == "line 2\nline 3"
    iso = datetime.fromtimestamp(since_ms / 1000 + 1, UTC).isoformat().replace("+", "%2B")
    assert get(f"{PATH}?since={iso}").json["logs"] == "line 3"
    assert get(f"{PATH}?since={since_ms + 3_600_000}").json["logs"] == ""


def test_a_page_waits_for_lines(world: World) -> None:
    cookie = {"Cookie": post(PATH, lines(1)).cookie}
    waits: list[float] = []

    def arrive(seconds: float) -> None:
        waits.append(seconds)
        world.clock.advance(seconds)
        if len(waits) == 3:
            post(PATH, lines(2), cookie)

    world.clock.sleep = arrive  # type: ignore[method-assign]
    page = get(f"{PATH}?after=1&wait=20").json
    assert (page["logs"], page["total"], len(waits)) == ("line 2", 2, 3)


def test_a_page_waits_no_longer_than_asked_nor_than_the_function_lives(world: World) -> None:
    post(PATH, lines(1))
    started_s = world.clock.monotonic_s()
    assert get(f"{PATH}?after=1&wait=3").json["logs"] == ""
    assert world.clock.monotonic_s() - started_s == pytest.approx(3)
    get(f"{PATH}?after=1&wait=20", context=Context(remaining_ms=9_000))
    assert world.clock.monotonic_s() - started_s == pytest.approx(3 + 4)


@pytest.mark.usefixtures("world")
def test_a_small_log_is_downloaded_inline() -> None:
    post(PATH, json.dumps("é\0\r\n\x1b[0m"))
    answer = get(f"{PATH}/download")
    assert (answer.status, answer.body) == (200, "é\0\r\n\x1b[0m\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{FQN}-{RUN_ID}.log"'


@pytest.mark.parametrize("closed", [False, True])
def test_a_large_log_is_downloaded_by_redirect(world: World, closed: bool) -> None:
    for _ in range(6):
        post(PATH, json.dumps("x" * MIB))
    if closed:
        post(f"{PATH}/close")
    answer = get(f"{PATH}/download")
    assert answer.status == 307
    name = "logs.txt" if closed else "partial.txt"
    assert world.layout.run_prefix(RUN) + name in answer.headers["Location"]
    assert world.body(name, RUN) == (b"x" * MIB + b"\n") * 6


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("body", [b"not \xff utf-8\n", b"\x01" * MIB + b"\n"])
def test_bytes_that_json_would_change_or_swell_are_downloaded_by_redirect(world: World, closed: bool, body: bytes) -> None:
    post(PATH, body, {"Content-Type": "application/octet-stream"})
    if closed:
        post(f"{PATH}/close")
    answer = get(f"{PATH}/download")
    assert answer.status == 307
    assert world.body("logs.txt" if closed else "partial.txt", RUN) == body


def test_page_with_a_token_gets_the_link_of_a_large_log(world: World) -> None:
    post(PATH, json.dumps("small"))
    assert get(f"{PATH}/download?link=true").json == {"location": None}
    for _ in range(6):
        post(PATH, json.dumps("x" * MIB))
    post(f"{PATH}/close")
    answer = get(f"{PATH}/download?link=true")
    assert answer.status == 200
    assert answer.json["location"] == answer.headers["Location"]
    assert world.layout.run_prefix(RUN) + "logs.txt" in answer.json["location"]
    assert get(f"{PATH}/download?link=perhaps").status == 400


@pytest.mark.usefixtures("world")
def test_a_download_of_an_unknown_run() -> None:
    answer = get(f"{PATH}/download")
    assert (answer.status, answer.json["code"]) == (404, 404)


def test_download_of_an_expired_run_returns_the_reason(world: World) -> None:
    tombstone = Tombstone(FQN, RUN_ID, "age", 0, "plan-1", 2, 1, 3, 4, 5)
    put_tombstone(world.store, world.layout, tombstone)
    answer = get(f"{PATH}/download")
    assert (answer.status, answer.json["code"]) == (410, 410)
    assert "reason=age plan=plan-1" in answer.json["message"]
    assert get(PATH).json["total"] == 0


@pytest.mark.parametrize(
    ("sent", "fqn"),
    [
        ("svc/with/three/slashes.pipe", "svc/with/three/slashes.pipe"),
        ("svc%2Fwith%2Fslashes", "svc/with/slashes"),
        ("%22my%20svc%22.p%C3%AFpe", '"my svc".pïpe'),
        ("100%25.done", "100%.done"),
        ("a%2520b", "a%20b"),
        ("a+b", "a+b"),
        ("f" * 256, "f" * 256),
        ("..", ".."),
        ("close", "close"),
    ],
)
def test_names_of_every_kind(world: World, sent: str, fqn: str) -> None:
    run = Run(fqn, RUN_ID)
    assert post(f"{sent}/{RUN_ID}", lines(1)).status == 200
    assert stored(world, run) == b"line 1\n"
    assert get(f"{sent}/{RUN_ID}").json["logs"] == "line 1"
    assert get(f"{sent}/{RUN_ID}/download").body == "line 1\n"
    assert post(f"{sent}/{RUN_ID}/close").status == 200
    assert world.body("logs.txt", run) == b"line 1\n"


@pytest.mark.behavior("An outage of S3 is a 503 that clients repeat.")
def test_an_unavailable_store_is_a_503_to_repeat(world: World) -> None:
    broken = Intercepted(world.store, raising(StoreUnavailableError("s3 is away")))
    with installed(world, store=broken):  # type: ignore[arg-type]
        for answer in (post(PATH, lines(1)), get(PATH), get(f"{PATH}/download"), post(f"{PATH}/close")):
            assert (answer.status, answer.json["code"]) == (503, 503)
            assert int(answer.headers["Retry-After"]) > 0


def test_a_lost_answer_is_a_503_and_its_retry_is_harmless(world: World) -> None:
    cookie = {"Cookie": post(PATH, lines(1)).cookie}
    with installed(world, store=losing_one_answer(world)):
        assert post(PATH, lines(2), cookie).status == 503
        assert post(PATH, lines(2), cookie).json["repeated"] is True
    assert stored(world) == b"line 1\nline 2\n"


def test_what_an_append_prints(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    cookie = {"Cookie": post(PATH, lines(1)).cookie}
    post(f"{PATH}/close", headers=cookie)
    capsys.readouterr()
    post("other/run", lines(1, 2, 3))
    (sent,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert sent["om_streamable_logs_logs_sent"] == [1]
    assert sent["om_streamable_logs_batch_size"] == [3]
    assert len(sent["om_streamable_logs_log_shipment"]) == len(sent["om_streamable_logs_s3_write_latency"]) == 1
    assert (sent["fqn"], sent["run_id"], sent["method"], sent["status"]) == ("other", "run", "POST", 200)
    post(PATH, lines(2), cookie)
    (refused,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (refused["om_streamable_logs_logs_failed"], refused["status"]) == ([1], 409)
    assert "om_streamable_logs_logs_sent" not in refused
    assert world.names(Run("other", "run")) == ["segments/0000000000"]


def raising(error: Exception) -> object:
    def gate(operation: str, call: object) -> None:
        raise error

    return gate


def losing_one_answer(world: World) -> ObjectStore:
    lost: list[str] = []

    def gate(operation: str, request: object) -> object:
        answer = request()  # type: ignore[operator]
        if operation == "put" and not lost:
            lost.append(operation)
            raise OutcomeUnknownError("cut")
        return answer

    return Intercepted(world.store, gate)  # type: ignore[arg-type, return-value]


def test_the_base_is_openmetadatas() -> None:
    assert LOGS == "/v1/services/ingestionPipelines/logs"


def test_threads_of_one_process_do_not_mix_their_requests(world: World) -> None:
    def writer(number: int) -> None:
        headers: dict[str, str] = {}
        for batch in range(10):
            answer = post(f"{FQN}/shared", json.dumps(f"{number}.{batch} a\n{number}.{batch} b"), headers)
            headers = {"Cookie": answer.cookie}

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(writer, range(5)))
    got = get(f"{FQN}/shared?limit=1000").json["logs"].split("\n")
    assert sorted(got) == sorted(f"{number}.{batch} {half}" for number in range(5) for batch in range(10) for half in "ab")
    for number in range(5):
        own = [line for line in got if line.startswith(f"{number}.")]
        assert own == [f"{number}.{batch} {half}" for batch in range(10) for half in "ab"]


@pytest.mark.parametrize(("protocol", "is_secure"), [("https", True), ("https,http", True), ("http", False), ("", False)])
def test_cookie_is_secure_where_the_request_was(world: World, protocol: str, is_secure: bool) -> None:
    headers = {"X-Forwarded-Proto": protocol} if protocol else {}
    cookie = post(PATH, lines(1), headers).headers["Set-Cookie"]
    assert cookie.partition("; ")[2] == "Path=/; Max-Age=86400; HttpOnly; SameSite=Lax" + ("; Secure" if is_secure else "")
    events = call("POST", f"/v1/events/{PATH}", '{"message": "x"}', {"Content-Type": "application/json", **headers})
    assert events.headers["Set-Cookie"].endswith("; Secure") is is_secure
