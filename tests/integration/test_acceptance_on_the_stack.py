"""Acceptance behaviours on the deployed stack: real processes, real HTTP, the template's own functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from local.recording import recording
from tests.integration.stacks import COMMAND_S, PATIENCE_S, Stack, eventually, running_stack

LOGS = "/v1/services/ingestionPipelines/logs"
IDLE_RUN = str(uuid.uuid4())
IDLE_S, AHEAD_S = 33, 30
"""The sweep's clock is half a minute ahead, so a run is idle for a minute sooner."""
_TICK = {
    "version": "0", "id": "test", "detail-type": "Scheduled Event", "source": "aws.events", "account": "0",
    "time": "2026-01-01T00:00:00Z", "region": "us-east-1", "resources": [], "detail": {},
}  # fmt: skip

# A process of writers, a thread for each name, that uses only the standard library: one batch in flight, with cookies. The first request
# asks for a position, so that all others may be repeated while the archive is busy (503).
WRITERS = """
import json, sys, threading, time
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

url, count, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
done = []

def post(opener, logs, name):
    body = json.dumps({"logs": logs, "connectorId": name}).encode()
    for pause_s in (0.5, 1, 2, 4, 8, None):
        try:
            with opener.open(Request(url, body, {"Content-Type": "application/json"}), timeout=300) as answer:
                return answer.read()
        except HTTPError as error:
            if error.code != 503 or pause_s is None:
                raise
            time.sleep(pause_s)

def write(name):
    opener = build_opener(HTTPCookieProcessor())
    post(opener, "", name)
    for number in range(count):
        post(opener, f"{name} {number} a\\n{name} {number} b\\n", name)
    done.append(name)

threads = [threading.Thread(target=write, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(0 if len(done) == len(names) else 1)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack on which a run counts as abandoned after a minute. ``IDLE_RUN`` has one line from before all tests."""
    calls = tmp_path_factory.mktemp("calls") / "calls.jsonl"
    with patch.dict(os.environ, recording(calls)), running_stack(StreamTimeoutMinutes="1") as running:
        send(url_of(running, "svc.swept", IDLE_RUN), "first\n")
        yield running


@pytest.fixture
def run_id() -> str:
    return str(uuid.uuid4())


def url_of(stack: Stack, fqn: str, run_id: str, suffix: str = "") -> str:
    return f"{stack.api_url}{LOGS}/{quote(fqn, safe='')}/{run_id}{suffix}"


def send(url: str, text: str | bytes = b"", **headers: str) -> tuple[int, dict[str, Any]]:
    """POST; (status, JSON)."""
    body = text.encode() if isinstance(text, str) else text
    request = Request(url, body, {"Content-Type": "text/plain"} | headers)
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def page(url: str) -> dict[str, Any]:
    with urlopen(url, timeout=PATIENCE_S) as answer:
        return dict(json.load(answer))


def read_lines(url: str) -> list[str]:
    lines: list[str] = []
    after: str | None = "0"
    while after is not None:
        got = page(f"{url}?after={after}")
        lines += got["logs"].split("\n") if got["total"] else []
        after = got["after"]
    return lines


def invoke(stack: Stack, function: str) -> dict[str, Any]:
    """Invoke a scheduled function, as EventBridge does."""
    with closing(stack.client("lambda")) as client:
        answer = client.invoke(FunctionName=stack["functions"][function], Payload=json.dumps(_TICK))
        return dict(json.load(answer["Payload"]))


def names(stack: Stack, fqn: str, run_id: str) -> dict[str, str]:
    """The run's objects and their storage classes."""
    prefix = f"pipeline-logs/{fqn}/{run_id}/"
    with closing(stack.client("s3")) as s3:
        found = s3.list_objects_v2(Bucket=stack["bucket"], Prefix=prefix).get("Contents", [])
    return {each["Key"].removeprefix(prefix): each.get("StorageClass", "STANDARD") for each in found}


def check_writers(lines: list[str], writers: dict[str, int]) -> None:
    """No line lost or duplicated, each batch contiguous, each writer's order kept."""
    expected = {name: [f"{name} {number} {half}" for number in range(count) for half in "ab"] for name, count in writers.items()}
    assert len(lines) == sum(map(len, expected.values()))
    for name, own in expected.items():
        assert [line for line in lines if line.startswith(f"{name} ")] == own
    assert all(one.removesuffix("a") == other.removesuffix("b") for one, other in zip(lines[::2], lines[1::2], strict=True))


def test_behaviour_02_four_processes_of_fifty_and_five_threads_of_ten_on_one_run(stack: Stack, run_id: str) -> None:
    url = url_of(stack, "svc.crowd", run_id)
    alone, together = [f"process-{number}" for number in range(4)], [f"thread-{number}" for number in range(5)]
    commands = [["50", name] for name in alone] + [["10", *together]]
    processes = [subprocess.Popen([sys.executable, "-c", WRITERS, url, *each], stderr=subprocess.PIPE) for each in commands]
    invoke(stack, "compact")
    errors = [process.communicate(timeout=COMMAND_S)[1].decode()[-1000:] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), errors
    writers = dict.fromkeys(alone, 50) | dict.fromkeys(together, 10)
    check_writers(read_lines(url), writers)
    assert send(url + "/close")[0] == 200
    check_writers(read_lines(url), writers)


def test_behaviour_03_a_key_makes_a_repeat_harmless(stack: Stack, run_id: str) -> None:
    url = url_of(stack, "svc.keyed", run_id)
    for _ in range(3):
        assert send(url, "one\n", **{"Idempotency-Key": "batch-1"})[0] == 200
    assert send(url, "two\n", **{"Idempotency-Key": "batch-1"})[0] == 400  # of other sizes, once the first is catalogued
    assert read_lines(url) == ["one"]


def test_bytes_of_text_are_unchanged_or_refused(stack: Stack, run_id: str) -> None:
    url, octets = url_of(stack, "text.bytes", run_id), {"Content-Type": "application/octet-stream"}
    assert send(url, b"caf\xe9\n")[0] == 415
    assert send(url, "caf\ufffd\n")[0] == send(url, b"caf\xe9\n", **octets)[0] == 200
    with urlopen(url_of(stack, "text.bytes", run_id, "/download"), timeout=PATIENCE_S) as answer:
        assert answer.read() == "caf\ufffd\n".encode() + b"caf\xe9\n"


def test_behaviour_04_concurrent_closes_give_one_logs_txt(stack: Stack, run_id: str) -> None:
    url = url_of(stack, "svc.closed", run_id)
    send(url, "a\nb\n")
    threads = [threading.Thread(target=send, args=(url + "/close",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert send(url + "/close") == (200, {"message": "Log stream closed successfully"})
    objects = names(stack, "svc.closed", run_id)
    assert objects["logs.txt"] == "STANDARD_IA" and "partial.txt" not in objects
    status, refusal = send(url, "late\n")
    assert (status, refusal["code"]) == (409, 409)
    assert names(stack, "svc.closed", run_id) == objects


def test_behaviours_08_and_11_a_viewer_that_waits_sees_each_line_once_while_it_is_compacted(stack: Stack, run_id: str) -> None:
    url = url_of(stack, "svc.viewed", run_id)
    expected = [f"line {number}" for number in range(30)]

    def write() -> None:
        opener = build_opener(HTTPCookieProcessor())
        for number, line in enumerate(expected):
            with opener.open(Request(url, line.encode(), {"Content-Type": "text/plain"}), timeout=PATIENCE_S) as answer:
                answer.read()
            if number % 10 == 5:
                invoke(stack, "compact")
        send(url + "/close")

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[str] = []
    while True:
        got = page(f"{url}?after={len(seen)}&wait=10")
        seen += got["logs"].split("\n") if got["logs"] else []
        if not got["streaming"] and got["after"] is None and got["total"] == len(seen) > 0:
            break
    writer.join()
    assert seen == expected


def test_behaviour_09_openmetadatas_partial_txt_goes_on_here(stack: Stack, run_id: str) -> None:
    with closing(stack.client("s3")) as s3:
        s3.put_object(Bucket=stack["bucket"], Key=f"pipeline-logs/svc_legacy/{run_id}/partial.txt", Body=b"old 1\nold 2")
    url = url_of(stack, "svc.legacy", run_id)
    assert read_lines(url) == ["old 1", "old 2"]
    send(url, "new\n")
    send(url + "/close")
    assert read_lines(url) == ["old 1", "old 2", "new"]


def test_a_large_download_is_a_link_to_exactly_the_logs_bytes(stack: Stack, run_id: str) -> None:
    url = url_of(stack, "svc.large", run_id)
    batch = b"".join(b"%06d \xff not utf-8\n" % number for number in range(100_000))
    for _ in range(4):
        assert send(url, batch, **{"Content-Type": "application/octet-stream"})[0] == 200
    send(url + "/close")
    with urlopen(url + "/download", timeout=PATIENCE_S) as answer:
        assert "/restapis/" not in answer.url and answer.url != url + "/download", "a redirect to the store"
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert answer.read() == batch * 4


def test_behaviours_05_and_10_the_sweep_ends_idle_runs_and_an_append_reopens_them(stack: Stack, run_id: str) -> None:
    idle_url, fresh_url = url_of(stack, "svc.swept", IDLE_RUN), url_of(stack, "svc.swept", run_id)
    with closing(stack.client("s3")) as s3:
        key = f"pipeline-logs/svc.swept/{IDLE_RUN}/segments/{0:010d}"
        appended_s = s3.head_object(Bucket=stack["bucket"], Key=key)["LastModified"].timestamp()
    eventually(time.time, lambda now_s: now_s > appended_s + IDLE_S, what="a run that is old enough")
    stack.set_ahead("sweep", AHEAD_S)
    send(fresh_url, "fresh\n")
    swept = invoke(stack, "sweep")
    assert swept["failed"] == 0 and swept["done"] >= 1
    assert "logs.txt" in names(stack, "svc.swept", IDLE_RUN)
    assert "logs.txt" not in names(stack, "svc.swept", run_id)
    assert send(idle_url, "back\n")[0] == 200
    send(idle_url + "/close")
    with closing(stack.client("s3")) as s3:
        final = s3.get_object(Bucket=stack["bucket"], Key=f"pipeline-logs/svc.swept/{IDLE_RUN}/logs.txt")
        assert (final["Metadata"]["writer-epoch"], final["Body"].read()) == ("2", b"first\nback\n")


def test_nothing_that_was_sent_here_ends_in_the_dead_letter_queue(stack: Stack) -> None:
    with closing(stack.client("sqs")) as sqs:
        attributes = sqs.get_queue_attributes(QueueUrl=stack["dead_letter_queue_url"], AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "0"
