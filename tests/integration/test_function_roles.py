"""Each function's role compared with its AWS calls, recorded on a private stack: everything needed is allowed, nothing else.

The functions run with the recorder on their path. The schedules are invoked directly, with a clock a day ahead for old runs: a run
is idle after a day, a segment is deleted twenty minutes after it was written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote
from uuid import uuid4

import pytest
import requests

from chalicelib.catalog.runs import shard_of
from chalicelib.coordination import Status
from local.deploy import BUCKET
from tests.integration.rebuild_harness import wait_until_quiet
from tests.integration.roles import EVENTS, GIVEN_UP, POISON, UNAVAILABLE, assert_fits, changes, unnoticed
from tests.integration.stacks import PATIENCE_S, Stack, eventually, stack_with_tokens
from tests.integration.test_coordination_on_the_stack import put
from tests.integration.test_workers_on_the_stack import key, some_runs, write
from tests.issuer import EVERYTHING, Issuer, bearer
from tests.permissions import Calls, Grant, grants

pytestmark = pytest.mark.behavior("The role of each function allows exactly the requests that it makes.")

LOGS = "/v1/services/ingestionPipelines/logs"
TEXT = {"Content-Type": "text/plain"}
BY_OTHERS = (
    {
        "Logs": "Lambda writes what a function prints",
        "Traces": "Lambda's daemon sends them",
        "Queue": "Lambda polls the queue",
        "GiveUpUploads": "when a call of an upload in parts fails; shown for the same code in the job bulk_compact",
        "HeadsOfJobs": "when a job was killed: tests/functional/test_run_pipelines_job.py",
        "DeleteVersions": "of deleted runs, in a bucket that has versions: tests/functional/test_http_deletion.py",
        "AbsentFiles": "S3 says 404 of what is not there to whoever may list, 403 to others",
    }
    | GIVEN_UP
    | UNAVAILABLE
)
CONTINUED = frozenset({"DeletedRuns", "Files", "Latest", "Listing", "RowsOfFilesOfPipelines"})
"""What the sweep does only for a deletion whose function was killed; shown for the same code in the API."""
DAY_S = 90_000
RUNS_PER_WORKER = 20
CONSTANTS = {"RECORDED_CONSTANTS": json.dumps({"chalicelib.triggers.schedules": {"RUNS_PER_WORKER": RUNS_PER_WORKER}})}
"""Another worker is started for fewer runs than in production: the needed permissions do not depend on the number."""
QUIET = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
POLICY, PARAMETER, SECRET = "/runlake/policy", "/role/password", "role/db"
MASKED = f"role-masked-{uuid4().hex[:8]}"
NAMED = {
    "PolicyParameter": POLICY,
    "Masking": json.dumps([{"fqn": MASKED, "values_from": [f"ssm:{PARAMETER}", f"secretsmanager:{SECRET}"]}]),
    "PipelinesConfig": f"s3://{BUCKET}/_pipelines",
    "BuiltInPipeline": "true",
    "MaskingSecretArns": f"arn:aws:ssm:*:*:parameter{PARAMETER},arn:aws:secretsmanager:*:*:secret:{SECRET}",
}
"""Settings that let a function read more."""
OF_ROLES = pytest.mark.sampled(default=2, group="roles of functions")


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[tuple[Stack, Calls]]:
    """A stack whose functions record their calls."""
    calls = Calls(Path(tmp_path_factory.mktemp("calls")) / "calls.jsonl")
    with patch.dict(os.environ, calls.environment | CONSTANTS), stack_with_tokens(issuer, **QUIET, **NAMED) as stack:
        with closing(stack.client("ssm")) as ssm, closing(stack.client("secretsmanager")) as secrets:
            ssm.put_parameter(Name=POLICY, Value=json.dumps({"principals": {}}), Type="String", Overwrite=True)
            ssm.put_parameter(Name=PARAMETER, Value="hush-one", Type="SecureString", Overwrite=True)
            secrets.create_secret(Name=SECRET, SecretString="hush-two")
        with closing(stack.client("s3")) as s3:
            s3.put_object(Bucket=stack["bucket"], Key="_pipelines/poison.yaml", Body=POISON.encode())
        yield stack, calls


@pytest.fixture(scope="module")
def web(issuer: Issuer) -> Iterator[requests.Session]:
    """A session with all permissions."""
    with requests.Session() as session:
        session.headers.update(bearer(issuer.granted("root", DAY_S, **EVERYTHING)))
        yield session


def assert_function_fits(stack: Stack, calls: Calls, function: str) -> None:
    name = stack["functions"][function]
    with closing(stack.client("lambda")) as client:
        role = client.get_function_configuration(FunctionName=name)["Role"]
    continued = CONTINUED if function == "sweep" else frozenset()
    assert_fits(calls.needs(stack, name), grants(stack, role), lambda grant: is_excused(grant) or grant.sid in continued)


def is_excused(grant: Grant) -> bool:
    """Two statements have the name Logs: S3's and CloudWatch's. A change reads a file's stored state only if a notification
    overtakes it, and a deletion removes a run's partitions only if its work is under way."""
    if (grant.sid, grant.action) in (("Objects", "dynamodb:ConditionCheckItem"), ("Partitions", "dynamodb:DeleteItem")):
        return True
    return grant.sid in BY_OTHERS and (grant.sid != "Logs" or grant.action.startswith("logs:"))


class Api:
    """The API for a client; every response is expected."""

    def __init__(self, stack: Stack, web: requests.Session) -> None:
        self._stack, self._web = stack, web

    def ask(self, method: str, path: str, expected: int = 200, **options: Any) -> requests.Response:
        is_signed = "://" in path
        url = path if is_signed else self._stack.api_url + path
        answer = (requests if is_signed else self._web).request(method, url, timeout=PATIENCE_S, **options)
        assert answer.status_code == expected, (method, path, answer.status_code, answer.text[:500])
        return answer

    def append(self, path: str, text: str, **headers: str) -> None:
        self.ask("POST", path, data=text.encode(), headers=TEXT | headers)

    def upload(self, what: str, body: bytes, where: str = "w") -> str:
        """Upload a file by a presigned request; returns its id once catalogued."""
        told = self.ask(
            "POST", "/v0/archive/files", 201,
            json={"what": what, "where": where, "start": "now", "path": "/x", "work_id": None, "size": len(body),
                  "hash": blake2b(body, digest_size=16).hexdigest()},
        ).json()  # fmt: skip
        how = told["upload"]
        if "parts" not in how:
            self.ask(how["method"], how["url"], data=body, headers=how["headers"])
            eventually(
                lambda: self._web.get(f"{self._stack.api_url}/v0/archive/files/{told['id']}/metadata", timeout=PATIENCE_S).ok
            )
        return str(told["id"])

    def push(self, what: str) -> str:
        """Store a file with AWS credentials, as the datalake's client does; returns its id."""
        file_id = uuid4().hex
        document = {"version": 0, "id": file_id, "what": what, "where": "w", "start": 0, "end": 0, "path": "/x", "work_id": None,
                    "hash": blake2b(b"", digest_size=16).hexdigest()}  # fmt: skip
        with closing(self._stack.client("s3")) as s3:
            s3.put_object(
                Bucket=self._stack["archive_bucket"], Key=f"{file_id}/data", Body=b"", Metadata={"datalake": json.dumps(document)}
            )
        return file_id


def tick(stack: Stack, function: str, ahead_s: int = 0) -> dict[str, int]:
    """Invoke as EventBridge does, with the function's clock ahead; returns the function's result."""
    event = dict.fromkeys(("id", "detail-type", "source", "account", "time", "region"), "")
    stack.set_ahead(function, ahead_s)
    with closing(stack.client("lambda")) as client:
        payload = {"version": "0", **event, "resources": [], "detail": {}}
        answer = client.invoke(FunctionName=stack["functions"][function], Payload=json.dumps(payload))
        told = answer["Payload"].read()
    assert "FunctionError" not in answer, told
    return dict(json.loads(told))


@OF_ROLES
def test_the_api(recorded: tuple[Stack, Calls], web: requests.Session) -> None:
    """A run of every kind written, masked, read and closed; files uploaded, changed, found and removed; partitions of work; files
    of processing pipelines, their handlers disabled and enabled, repaired and deleted. Each request passed the authorizer, which
    makes no AWS call."""
    stack, calls = recorded
    api, run = Api(stack, web), f"{LOGS}/role-{uuid4().hex[:8]}/run"
    _logs(api, run)
    _events(api, f"/v1/events/role-{uuid4().hex[:8]}/run")
    _files(api, f"role-{uuid4().hex[:8]}")
    _partitions(stack, api)
    _processing(stack, api, f"role{uuid4().hex[:8]}")
    assert_function_fits(stack, calls, "api")
    assert_function_fits(stack, calls, "authorize")


def _logs(api: Api, run: str) -> None:
    api.append(run, "one\n")
    api.append(run, "two\n", **{"Idempotency-Key": "key"})
    api.append(run, "two\n", **{"Idempotency-Key": "key"})
    for path in (run, f"{run}?after=1", f"{run}?since=1", run.rpartition("/")[0], f"{run.rpartition('/')[0]}/last"):
        api.ask("GET", path)
    for _ in range(3):
        api.append(f"{run}-large", ("y" * 999 + "\n") * 4000)
    api.append(f"{LOGS}/{MASKED}/run", "hush-one hush-two\n")
    assert api.ask("GET", f"{LOGS}/{MASKED}/run").json()["logs"].count("***") == 4
    for path in (run, f"{run}-large"):
        api.ask("POST", f"{path}/close")
        api.ask("GET", f"{path}/download", allow_redirects=False, expected=307 if path.endswith("large") else 200)
    api.ask("GET", run)
    fqn = run.split("/")[-2]
    of_run = ("", "/explanation", "/grep?q=one", "/histogram")
    for path in ("", f"/{fqn}/runs", *(f"/{fqn}/runs/run{each}" for each in of_run)):
        api.ask("GET", f"/v1/catalog/pipelines{path}")
    assert api.ask("GET", f"/v1/catalog?fqn={fqn}").json()["runs"]
    api.ask("GET", f"{LOGS}/{fqn}/stream/run")


def _events(api: Api, run: str) -> None:
    api.ask("PUT", f"{run}/heartbeat")
    api.ask("PUT", f"{run}/writers/w")
    api.ask("POST", f"{run}?writer=w", json=EVENTS)
    api.ask("POST", f"{run}/steps/s", json={"name": "S"})
    api.ask("POST", f"{run}/writers/w/close", json={"count": len(EVENTS)})
    for path in (
        run,
        f"{run}?step=s",
        f"{run}/log?step=s",
        f"{run}/log",
        f"{run}/steps",
        f"{run}/completeness",
        "/v1/configuration",
    ):
        api.ask("GET", path)


def _files(api: Api, what: str) -> None:
    one, two, other = api.upload(what, b"one\n"), api.upload(what, b"two\n"), api.upload(what, b"other\n", "elsewhere")
    large = api.ask(
        "POST", "/v0/archive/files", 201,
        json={"what": what, "where": "w", "start": "now", "path": "/x", "work_id": None, "hash": "0" * 32, "size": 101 * 2**20},
    ).json()  # fmt: skip
    api.ask("DELETE", large["upload"]["abort_url"], 204)
    files = "/v0/archive/files"
    api.ask("GET", f"{files}/?what={what}&start=0&end=2100-01-01")
    api.ask("GET", f"{files}/?what={what}&work_id=none")
    api.ask("GET", f"/v0/archive/latest/{what}/w")
    for file_id, change in ((one, {"where": "moved"}), (two, {"start": "2020-01-01"}), (other, {"note": "x"})):
        api.ask("PATCH", f"{files}/{file_id}/metadata", json=change)
        api.ask("GET", f"{files}/{file_id}/data")
    api.ask("GET", f"{files}/{'0' * 32}/metadata", 404)
    three = api.upload(what, b"three\n")
    pushed = api.push(what)
    for file_id in (three, other, one, two, pushed):
        api.ask("DELETE", f"{files}/{file_id}", 204)


def _partitions(stack: Stack, api: Api) -> None:
    run = f"role/{uuid4().hex}"
    put(stack, run, Status.COMPLETED)
    api.ask("GET", "/v1/coordination/sweep?status=COMPLETED")
    api.ask("POST", f"/v1/coordination/sweep/{quote(run)}/retry")


def _processing(stack: Stack, api: Api, namespace: str) -> None:
    """Of the files one continues behind the bytes of its row, one is deleted, and one has no row; all are old by a clock that is
    ahead."""

    def written(app: str) -> Any:
        tick(stack, "pipelines")
        return api.ask("GET", f"/v1/pipeline-files?namespace={namespace}&app={app}").json()["events"]

    for app in ("one", "two"):
        for run in ("run-1", "run-2"):
            api.append(f"{LOGS}/{namespace}.{app}/{run}", "a line\n")
        eventually(partial(written, app))
    with closing(stack.client("s3")) as s3:
        one, two = _keys(stack, f"pipeline-files/{namespace}/")
        s3.put_object(Bucket=stack["bucket"], Key=one, Body=s3.get_object(Bucket=stack["bucket"], Key=one)["Body"].read() + b"more")
        s3.delete_object(Bucket=stack["bucket"], Key=two)
        s3.put_object(Bucket=stack["bucket"], Key=f"pipeline-files/{namespace}/2026-01-01/lost/any/00000001.jsonl", Body=b"{}")
        s3.put_object(Bucket=stack["bucket"], Key=f"_dead/{namespace}.one/run-1/a/b/0000000001.json", Body=b"{}")
    stack.set_ahead("api", 7200)
    found = api.ask("GET", "/v1/pipeline-files/repair").json()["findings"]
    assert {each["kind"] for each in found} >= {"longer", "row-only", "object-only"}
    assert api.ask("POST", "/v1/pipeline-files/repair").json()["mended"]
    stack.set_ahead("api", 0)
    for action, body in (("disable", {}), ("enable", {}), ("replay", {"from": "2100-01-01"})):
        api.ask("POST", f"/v1/pipelines/runlake/{action}", json=body)
    for action in ("disable", "enable"):
        api.ask("POST", f"/v1/pipelines/poison/{action}", json={"handler": "poison"})
    api.ask("GET", "/v1/pipelines")
    _put_dead_letter(stack, f"{namespace}.one")
    letter = f"fqn={namespace}.one&runId=run-1&handler=files&line=0"
    assert api.ask("GET", f"/v1/dead-letters?fqn={namespace}.one").json()["letters"]
    api.ask("GET", f"/v1/dead-letters/runlake?{letter}")
    api.ask("POST", f"/v1/dead-letters/runlake/resend?{letter}", 202)
    api.ask("DELETE", f"/v1/dead-letters/runlake?{letter}", 204)
    api.ask("DELETE", f"/v1/pipeline-files?fqn={namespace}.one", 202)
    api.ask("DELETE", f"/v1/pipeline-files?namespace={namespace}", 202)
    assert not _keys(stack, f"pipeline-files/{namespace}/") and not _keys(stack, f"_dead/{namespace}.one/")


def _put_dead_letter(stack: Stack, fqn: str) -> None:
    """A dead letter of the built-in pipeline, of the first line of run-1."""
    event = {"fqn": fqn, "run_id": "run-1", "line": 0, "time_ms": 0, "logger": "root", "level": "INFO", "message": "m"}
    letter = {
        "pipeline": "runlake",
        "handler": "files",
        "reason": "r",
        "trace": "",
        "attempts": 1,
        "dead_ms": 0,
        "event": event,
    }
    with closing(stack.client("s3")) as s3:
        key = f"_dead/{fqn}/run-1/runlake/files/0000000000.json"
        s3.put_object(Bucket=stack["bucket"], Key=key, Body=json.dumps(letter).encode())


def _keys(stack: Stack, prefix: str) -> list[str]:
    with closing(stack.client("s3")) as s3:
        return [each["Key"] for each in s3.list_objects_v2(Bucket=stack["bucket"], Prefix=prefix).get("Contents", [])]


@OF_ROLES
def test_the_ingestion(recorded: tuple[Stack, Calls], web: requests.Session) -> None:
    """Segments, one of them large enough for an immediate compaction; finalized logs; files that are added, moved, broken and
    deleted."""
    stack, calls = recorded
    api, fqn = Api(stack, web), f"role-{uuid4().hex[:8]}"
    for _ in range(3):
        api.append(f"{LOGS}/{fqn}/large", ("y" * 999 + "\n") * 4000)
    api.append(f"{LOGS}/{fqn}/small", "a line\n")
    api.append(f"{LOGS}/{fqn}/small", "a line\n", **{"Idempotency-Key": "key"})
    api.ask("POST", f"{LOGS}/{fqn}/small/close")
    api.ask("POST", f"/v1/events/{fqn}/events?writer=w", json=EVENTS)
    api.ask("POST", f"/v1/events/{fqn}/events/steps/s", json={"name": "S"})
    for _ in changes(stack, uuid4().hex[:8], fqn, notified=True):
        wait_until_quiet(stack)
    file_id = api.upload(fqn, b"one\n")
    wait_until_quiet(stack)
    api.ask("PATCH", f"/v0/archive/files/{file_id}/metadata", json={"where": "moved"})  # the latest file of two sources
    wait_until_quiet(stack)
    assert_function_fits(stack, calls, "ingest")


@OF_ROLES
@pytest.mark.parametrize("function", ["compact", "sweep"])
def test_the_schedules(recorded: tuple[Stack, Calls], web: requests.Session, function: str) -> None:
    """Runs that are due; the same a day later, when they are abandoned and their segments are old; and more work than one
    invocation does."""
    stack, calls = recorded
    api, fqn = Api(stack, web), f"role-{uuid4().hex[:8]}"
    for number in range(3):
        api.append(f"{LOGS}/{fqn}/run-{number}", "a line\n")
    api.ask("POST", f"{LOGS}/{fqn}/run-0/close")
    if function == "sweep":
        _files_that_go(stack, api, f"role{uuid4().hex[:8]}")

    events = f"/v1/events/{fqn}/{uuid4().hex}"
    api.ask("POST", f"{events}?writer=w", json=EVENTS)
    wait_until_quiet(stack)
    with unnoticed(stack, "bucket"):  # ingestion writes no row of this segment, so the schedule does
        api.ask("POST", f"{events}?writer=late", json=EVENTS)
        tick(stack, function)
        tick(stack, function, DAY_S)
    wait_until_quiet(stack)
    tick(stack, function, 9 * DAY_S)
    crowd(stack)
    tick(stack, function, 10 * DAY_S)
    assert_function_fits(stack, calls, function)


def _files_that_go(stack: Stack, api: Api, namespace: str) -> None:
    """Files of pipelines that will be too old; and a deleted pipeline that has written since."""
    for run in ("old.a/run-1", "deleted.a/run-1", "deleted.a/run-2"):
        api.append(f"{LOGS}/{namespace}.{run}", "a line\n")
    eventually(lambda: tick(stack, "pipelines") and len(_keys(stack, f"pipeline-files/{namespace}/")) == 2)
    api.ask("DELETE", f"/v1/pipeline-files?fqn={namespace}.deleted.a", 202)
    with closing(stack.client("s3")) as s3:
        s3.put_object(Bucket=stack["bucket"], Key=f"_dead/{namespace}.deleted.a/run-1/a/b/0000000001.json", Body=b"{}")


@OF_ROLES
def test_the_pipelines(recorded: tuple[Stack, Calls], web: requests.Session) -> None:
    """Running runs with lines and events, and one that ends; a file that grows; events that no handler takes; disabled handlers; a
    deleted run."""
    stack, calls = recorded
    api, fqn = Api(stack, web), f"role{uuid4().hex[:8]}.flow"
    for number in range(2):
        for run in ("run", "another"):
            api.append(f"{LOGS}/{fqn}/{run}", f"line {number}\n")
        api.ask("POST", f"/v1/events/{fqn}/run?writer=w", json=[{"message": "one", "step": "s"}])
        wait_until_quiet(stack)
        tick(stack, "pipelines")
    eventually(
        lambda: [(each["name"], each["state"]) for each in api.ask("GET", "/v1/pipelines").json()["pipelines"]],
        lambda told: told == [("runlake", "running"), ("poison", "running")],
    )
    api.ask("POST", f"{LOGS}/{fqn}/run/close")
    wait_until_quiet(stack)
    tick(stack, "pipelines")
    api.ask("POST", "/v1/pipelines/runlake/replay", json={"from": 0})
    _put_dead_letter(stack, fqn)
    api.ask("POST", f"/v1/dead-letters/runlake/resend?fqn={fqn}&runId=run-1&handler=files&line=0", 202)
    tick(stack, "pipelines")
    assert not api.ask("GET", f"/v1/dead-letters?fqn={fqn}&runId=run-1").json()["letters"]
    assert_function_fits(stack, calls, "pipelines")


def crowd(stack: Stack) -> None:
    """More due runs than one invocation processes: only rows, each of which is checked and completed."""
    now_ms = round(time.time() * 1000)
    numbers = {"segments": 1, "lines": 1, "bytes": 5, "started_ms": now_ms, "last_append_ms": now_ms}
    row = {name: {"N": str(value)} for name, value in numbers.items()}
    runs = some_runs(RUNS_PER_WORKER + 1)
    write(stack, [{"PutRequest": {"Item": key(run) | row | {"activity_shard": {"S": shard_of(run)}}}} for run in runs])
