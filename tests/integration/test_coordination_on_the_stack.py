"""Background work on the deployed stack from an operator's view: paths through the gateway, permissions and the table of the function."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import requests

from chalicelib.aws.dynamodb import serialize_item
from chalicelib.composition import SWEEP
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import format_timestamp, to_row
from chalicelib.coordination.settings import parse_settings
from tests.integration.stacks import PATIENCE_S, Stack


@pytest.fixture(scope="module")
def web() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def environment(stack: Stack, function: str) -> dict[str, str]:
    with closing(stack.client("lambda")) as client:
        variables: dict[str, str] = client.get_function_configuration(FunctionName=stack["functions"][function])["Environment"][
            "Variables"
        ]
    return variables


def put(stack: Stack, key: str, status: Status, **attributes: Any) -> None:
    """Store a partition of the sweep in a state that workers leave; the sweep runs only once an hour."""
    settings = parse_settings(json.loads(environment(stack, "sweep")["RUNLAKE_SOURCE_COORDINATION"]))
    now_ms = round(time.time() * 1000)
    partition = Partition(settings.source(SWEEP).partitions, key, status, format_timestamp(now_ms), **attributes)
    with closing(stack.client("dynamodb")) as dynamodb:
        dynamodb.put_item(TableName=stack["coordination_table"], Item=serialize_item(to_row(partition)))


def work(stack: Stack) -> None:
    """Run a worker of the sweep on waiting partitions."""
    event = {
        "version": "0",
        "id": "test",
        "detail-type": "Test",
        "source": "test",
        "account": "",
        "time": "",
        "region": "",
        "resources": [],
    }
    with closing(stack.client("lambda")) as client:
        answer = client.invoke(FunctionName=stack["functions"]["sweep"], Payload=json.dumps(event | {"detail": {"worker": 1}}))
        payload = answer["Payload"].read()
    assert "FunctionError" not in answer, payload


def shown(stack: Stack, web: requests.Session, key: str, **query: Any) -> list[dict[str, Any]]:
    """The entries of one partition in a list; the stack is shared."""
    found: list[dict[str, Any]] = []
    while True:
        answer = web.get(f"{stack.api_url}/v1/coordination/sweep", params=query, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        found += [partition for partition in answer.json()["partitions"] if partition["key"] == key]
        if not (cursor := answer.json()["cursor"]):
            return found
        query["cursor"] = cursor


def post(stack: Stack, web: requests.Session, path: str) -> requests.Response:
    return web.post(f"{stack.api_url}/v1/coordination/sweep/{path}", timeout=PATIENCE_S)


@pytest.mark.parametrize("fqn", ["svc.pipe", 'a/b "c"/d.pïpe 100%', "/".join("abcdefghijkl")], ids=["plain", "quoted", "deep"])
def test_quarantined_run_is_listed_retried_and_gone(stack: Stack, web: requests.Session, fqn: str) -> None:
    run_id = uuid4().hex
    key, state = f"{fqn}/{run_id}", json.dumps({"error": "RuntimeError: it broke", "failed_ms": round(time.time() * 1000)})
    put(stack, key, Status.COMPLETED, closed_count=20, version=60, state=state)
    (aside,) = shown(stack, web, key, status="completed", limit=1)
    assert (aside["fqn"], aside["run_id"], aside["set_aside"]) == (fqn, run_id, True)
    assert (aside["error"], aside["failures"]) == ("RuntimeError: it broke", 20)
    for path in (f"{quote(fqn)}/{run_id}/retry", f"{quote(fqn, safe='')}/{run_id}/retry"):
        answer = post(stack, web, path)
        assert answer.status_code == 200, answer.text
        waiting = answer.json()
        assert (waiting["key"], waiting["status"], waiting["failures"], waiting["version"]) == (key, "UNASSIGNED", 0, 61)
    assert [each["status"] for each in shown(stack, web, key)] == ["UNASSIGNED"]
    work(stack)
    assert shown(stack, web, key) == []
    answer = post(stack, web, path)
    assert (answer.status_code, answer.json()["code"]) == (404, 404)


def test_operator_releases_run_of_hanging_worker(stack: Stack, web: requests.Session) -> None:
    key = f"svc.pipe/{uuid4().hex}"
    put(stack, key, Status.ASSIGNED, owner="host:1:x", timeout_ms=round(time.time() * 1000) + 600_000, version=1)
    (held,) = shown(stack, web, key, status="assigned")
    assert held["owner"] == "host:1:x"
    work(stack)
    assert shown(stack, web, key)[0]["owner"] == "host:1:x", "it is nobody else's"
    answer = post(stack, web, f"{key}/release")
    assert (answer.status_code, answer.json()["status"], answer.json()["owner"]) == (200, "UNASSIGNED", None)
    work(stack)
    assert shown(stack, web, key) == []


def test_errors_have_the_envelope(stack: Stack, web: requests.Session) -> None:
    for status, answer in (
        (404, web.get(f"{stack.api_url}/v1/coordination/nope", timeout=PATIENCE_S)),
        (400, web.get(f"{stack.api_url}/v1/coordination/sweep?limit=0", timeout=PATIENCE_S)),
        (404, post(stack, web, "nobody/knows/retry")),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, status)
        assert answer.json()["message"]
