"""Bulk compaction in a separate process: concurrent with the deployed stack's schedule, killed, and over damaged runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.request import Request, urlopen

import pytest

from bench.spark_compaction_kill import dirty, kills
from chalicelib.ports import Run
from local.jobs import environment_of
from local.state import PROJECT
from tests.integration.job_process import Ended, run_alone, run_job
from tests.integration.rebuild_harness import wait_until_quiet
from tests.integration.roles import append_events, assert_job_fits, lose_rows, output
from tests.integration.stacks import PATIENCE_S, Stack, running_stack
from tests.permissions import Calls

LOGS = "/v1/services/ingestionPipelines/logs"
RUNS = 24


@pytest.fixture(scope="module")
def quiet() -> Iterator[Stack]:
    """A stack without background work, except from a test, and with a versioned bucket."""
    never = {
        "PartialFlushIntervalMinutes": "1440",
        "CleanupIntervalMinutes": "1440",
        "PipelinesIntervalMinutes": "1440",
        "EarlyFlushWatermarkBytes": "1000000000",
    }
    with running_stack(**never) as stack:
        with closing(stack.client("s3")) as s3:
            s3.put_bucket_versioning(Bucket=stack["bucket"], VersioningConfiguration={"Status": "Enabled"})
        yield stack


def job(stack: Stack, *arguments: str, run: Callable[..., Ended] = run_job) -> tuple[int, dict[str, Any]]:
    """The job's exit code and summary."""
    done = run(stack, "bulk_compact", *arguments)
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def tick(stack: Stack) -> dict[str, int]:
    """Sends the event of EventBridge; returns the function's response."""
    event = {"version": "0", "id": "t", "detail-type": "T", "source": "t", "account": "", "time": "", "region": stack["region"]}
    with closing(stack.client("lambda")) as client:
        answer = client.invoke(
            FunctionName=stack["functions"]["compact"], Payload=json.dumps(event | {"resources": [], "detail": {}})
        )
        payload = answer["Payload"].read()
    assert "FunctionError" not in answer, payload
    return dict(json.loads(payload))


def append(stack: Stack, run: Run, text: str, *, close: bool) -> None:
    url = f"{stack.api_url}{LOGS}/{run.fqn}/{run.run_id}"
    with urlopen(Request(url, text.encode(), {"Content-Type": "text/plain"}), timeout=PATIENCE_S) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    if close:
        seal(stack, run, cookie)


def seal(stack: Stack, run: Run, cookie: str) -> None:
    """Seal a run without writing logs.txt: the state after a close that was killed after its seal."""
    from chalicelib.aws.clients import make_client
    from chalicelib.aws.clock import SystemClock
    from chalicelib.aws.object_store import S3ObjectStore
    from chalicelib.runlog.layout import Layout
    from chalicelib.runlog.position import PositionSigner
    from chalicelib.runlog.writer import Writer
    from tests.support.segment_index import InMemorySegmentIndex

    credentials = {name: stack[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
    client = make_client("s3", region=stack["region"], endpoint_url=stack["aws_endpoint_url"], **credentials)
    with closing(client):
        store = S3ObjectStore(client, stack["bucket"])
        writer = Writer(store, InMemorySegmentIndex(), Layout(), PositionSigner(["a-key-of-the-tests"]), SystemClock())
        assert writer.seal(run, "closed", writer.tails.find(run))


def wait_until_catalogued(stack: Stack, runs: dict[Run, str]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    with closing(stack.client("dynamodb")) as dynamodb:
        for number, run in enumerate(runs):
            key = {"fqn": {"S": run.fqn}, "run_id": {"S": run.run_id}}
            wanted = 2 if number % 2 else 1
            while int(catalogued(dynamodb, stack, key).get("segments", {"N": "0"})["N"]) < wanted:
                assert time.monotonic() < give_up, f"never catalogued: {run}"
                time.sleep(0.1)


def catalogued(dynamodb: Any, stack: Stack, key: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dynamodb.get_item(TableName=stack["runs_table"], Key=key, ConsistentRead=True).get("Item", {})
    return found


def appended(stack: Stack, fqn: str, count: int) -> dict[Run, str]:
    """Runs with a line each, every second one sealed, and their logs."""
    runs = {Run(fqn, f"run-{number:02d}"): f"of run {number}\n" for number in range(count)}
    for number, (run, text) in enumerate(runs.items()):
        append(stack, run, text, close=number % 2 == 1)
    wait_until_catalogued(stack, runs)
    return runs


def artifacts(stack: Stack, run: Run) -> dict[str, list[bytes]]:
    """All versions of a run's artifacts, by name."""
    prefix = f"pipeline-logs/{run.fqn}/{run.run_id}/"
    found: dict[str, list[bytes]] = {}
    with closing(stack.client("s3")) as s3:
        for each in s3.list_object_versions(Bucket=stack["bucket"], Prefix=prefix).get("Versions", ()):
            if each["Key"].endswith(".txt"):
                with s3.get_object(Bucket=stack["bucket"], Key=each["Key"], VersionId=each["VersionId"])["Body"] as body:
                    found.setdefault(each["Key"].removeprefix(prefix), []).append(bytes(body.read()))
    return found


def written_once(runs: dict[Run, str]) -> dict[Run, dict[str, list[bytes]]]:
    return {run: {"logs.txt" if number % 2 else "partial.txt": [text.encode()]} for number, (run, text) in enumerate(runs.items())}


@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_a_dry_run_writes_nothing_and_takes_no_lease(quiet: Stack) -> None:
    runs = appended(quiet, "svc.bulk-dry", 4)
    code, told = job(quiet, "--fqn", "svc.bulk-d*", "--dry-run", "true", run=run_alone)
    assert code == 0 and told["dry_run"] is True
    assert (told["runs"]["finalized"], told["runs"]["compacted"], told["due"]) == (2, 2, 4)
    assert not {name for name in told["requests"] if name.partition(":")[2] not in ("ListObjectsV2", "HeadObject", "Query")}
    assert [artifacts(quiet, run) for run in runs] == [{}] * 4


@pytest.mark.behavior("Bulk and scheduled compaction may run at the same time.")
@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_together_with_the_scheduled_function_each_run_is_done_once(quiet: Stack) -> None:
    runs = appended(quiet, "svc.bulk-both", RUNS)
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(tick, quiet)
        code, told = job(quiet, "--fqn", "svc.bulk-both", "--parallelism", "2", "--source", "bucket")
        done = other.result()
    assert code == 0 and sum(told["runs"].values()) == RUNS, told
    assert done["failed"] == done["set_aside"] == 0
    assert {run: artifacts(quiet, run) for run in runs} == written_once(runs)
    assert job(quiet)[1]["due"] == 0, "and nothing is due"


@pytest.mark.behavior("A bulk compaction whose driver or worker is killed is completed by its repeat.")
@pytest.mark.thorough
def test_killed_driver_and_killed_worker(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty times: ``python -m bench.spark_compaction --kills 20``."""
    seed = time.time_ns() % 10**6
    with capsys.disabled():
        print(f"seed={seed}", file=sys.stderr)
    (measured,) = kills(2, seed, runs=40, lease_s=3)
    assert measured.reached, measured


@pytest.mark.thorough
def test_damaged_runs_are_reported_and_the_others_done() -> None:
    """With a run of 100,000 segments: ``python -m bench.spark_compaction --dirty``."""
    (measured,) = dirty(1200)
    assert measured.reached, measured


AHEAD = """
import sys
from contextlib import suppress
from chalicelib import composition
from chalicelib.aws.clock import SystemClock
from chalicelib.deadline import Deadline
from chalicelib.errors import PreconditionFailedError
from chalicelib.ports import Condition, PutOptions, Run
from chalicelib.runlog.concatenation import Concatenator, parts_of
from chalicelib.runlog.multipart_plan import SourceRange
from glue_jobs.compaction.task import Attempt, PlannedRun, Task
from glue_jobs.job_runtime.environment import use_stack

class Ahead(SystemClock):
    def now_ms(self):
        return super().now_ms() + 3_600_000

use_stack(sys.argv[1])
services, run = composition.services().with_ports(clock=Ahead()), Run(sys.argv[2], sys.argv[3])
planned = [PlannedRun(run, 4, is_listed=True, is_final=True), PlannedRun(Run(run.fqn, "run-01"), 2, is_listed=True)]
told = {result.run.run_id: result for result in Task(services, Attempt("later", 0, 0), 1).work(planned)}
assert told[run.run_id].retired_segments and told["run-01"].outcome == "unchanged", told
size = 9_000_000
parts = parts_of([SourceRange("", 0, size, size, literal=b"x" * size)])
with suppress(PreconditionFailedError):  # the last of its requests is refused, and it tidies up
    Concatenator(services.store).concatenate(
        services.layout.logs(run), parts, PutOptions(), Condition(if_none_match=True), Deadline(services.clock)
    )
    sys.exit("there was no such log")
"""
"""What tasks do an hour later; and when somebody else has been faster."""


@pytest.mark.sampled(default=1, group="roles of jobs")
def test_its_role_allows_what_it_does_and_nothing_else(quiet: Stack, calls: Calls) -> None:
    """Runs of every state; one large enough for a multipart upload; and an hour later, when segments are removed."""
    runs = appended(quiet, "svc.bulk-role", 4)
    large = Run("svc.bulk-role", "large")
    append_events(quiet, large.fqn, large.run_id)
    for number in range(3):
        append(quiet, large, ("y" * 999 + "\n") * 4000, close=number == 2)
    summary = f"s3://{output(quiet, 'JobsBucketName')}/summaries/bulk_compact.json"
    assert job(quiet, "--fqn", "svc.bulk-role", "--dry-run")[1]["due"] >= len(runs), "as the catalog has it"
    wait_until_quiet(quiet)
    for run_id in ("run-00", large.run_id):
        lose_rows(quiet, "svc.bulk-role", run_id)
    code, told = job(quiet, "--fqn", "svc.bulk-role", "--source", "bucket", "--summary", summary)
    assert code == 0 and told["runs"]["finalized"] + told["runs"]["compacted"] == len(runs) + 1, told
    assert told["requests"]["s3:CompleteMultipartUpload"] >= 1
    ahead = [sys.executable, "-c", AHEAD, quiet["stack_name"], large.fqn, large.run_id]
    done = subprocess.run(ahead, cwd=PROJECT, env=environment_of(quiet), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_job_fits(quiet, "bulk_compact", calls)
