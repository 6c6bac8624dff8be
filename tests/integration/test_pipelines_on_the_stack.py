"""Log pipelines on the deployed stack: lines that connectors write over HTTP appear in files that are read over HTTP. The scheduled
function runs the built-in pipeline and one whose file is in the bucket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import requests

from local.deploy import BUCKET
from local.state import PROJECT
from tests.integration.roles import BY_GLUE, GIVEN_UP, POISON, assert_job_fits, output
from tests.integration.stacks import COMMAND_S, PATIENCE_S, Stack, running_stack
from tests.integration.test_workers_on_the_stack import tick
from tests.permissions import Calls
from tests.pipelines_harness import line
from tests.support.template import API_ROLES

LOGS = "/v1/services/ingestionPipelines/logs"
ALWAYS, OURS = "pipeline-files", "pipeline-files/audit"
AUDIT = """
logging:
  version: 1
  formatters:
    short: {format: "[%(runlake_run_id)s %(runlake_step)s] %(message)s"}
  handlers:
    files:
      class: chalicelib.pipelines.files.handler.RollingS3Handler
      base: pipeline-files/audit
      format: jsonl
      formatter: short
  root: {level: WARNING, handlers: [files]}
"""


QUIET = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
CONFIGURED = {"PipelinesConfig": f"s3://{BUCKET}/_pipelines", "BuiltInPipeline": "true"}
ROLE = "arn:aws:iam::000000000000:role/runlake-audit"


@pytest.fixture(scope="module")
def quiet() -> Iterator[Stack]:
    """A stack whose pipelines are disabled unless a test enables them."""
    with running_stack(**CONFIGURED, **QUIET) as stack:
        with closing(stack.client("s3")) as s3:
            s3.put_object(Bucket=stack["bucket"], Key="_pipelines/audit.yaml", Body=AUDIT.encode())
            s3.put_object(Bucket=stack["bucket"], Key="_pipelines/bad.yaml", Body=b"[")
        yield stack


class Lab:
    """An application of this test, and its operations over HTTP."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.namespace = f"svc{uuid4().hex[:8]}"
        self.fqn = f"{self.namespace}.flow"

    def ask(self, method: str, path: str, expected: int = 200, body: Any = None) -> Any:
        with requests.request(method, self._stack.api_url + path, json=body, timeout=PATIENCE_S) as answer:
            assert answer.status_code == expected, (method, path, answer.status_code, answer.text[:500])
            return answer.json()

    def write(self, run: str, *said: tuple[str, str]) -> None:
        """Lines of the current time, each with a level, from a connector; the run stays running."""
        now_ms = time.time_ns() // 1_000_000
        for level, text in said:
            self.ask("POST", f"{LOGS}/{self.fqn}/{run}", body=line(now_ms, text, level) + "\n")

    def messages(self, base: str = ALWAYS) -> list[str]:
        return [each["message"] for each in self.files(base)]

    def files(self, base: str) -> list[dict[str, Any]]:
        """The application's events in the files of a base."""
        path = f"/v1/pipeline-files?base={base}&namespace={self.namespace}&app=flow&limit=10000"
        answer = self.ask("GET", path)
        assert answer["cursor"] is None and answer["leftOut"] == 0
        return list(answer["events"])

    def pipelines(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.ask("GET", "/v1/pipelines")["pipelines"]}

    def change(self, action: str, body: Any = None) -> Any:
        return self.ask("POST", f"/v1/pipelines/audit/{action}", body=body or {})

    def work(self, look: Callable[[], Any], wanted: Any) -> None:
        """Invoke the scheduled function as often as needed: the second pipeline has an asynchronous invocation of its own."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            told = tick(self._stack, "pipelines")
            assert set(told.values()) <= {"stopped", "busy"}, told
            until = time.monotonic() + 5
            while time.monotonic() < until:
                if (found := look()) == wanted:
                    return
                time.sleep(0.3)
            assert time.monotonic() < give_up, (found, wanted)


@pytest.fixture
def lab(quiet: Stack) -> Lab:
    # A base is registered once its pipeline has started for the first time.
    made = Lab(quiet)
    made.work(lambda: {each["state"] for each in made.pipelines().values()}, {"running"})
    return made


def test_what_connectors_write_is_read_in_files_and_pipelines_tell_how_they_are(lab: Lab) -> None:
    texts = [[f"{writer} {number}" for number in range(5)] for writer in range(4)]

    def connector(writer: int) -> None:
        lab.write(f"run-{writer}", *(("WARNING" if number % 2 else "INFO", text) for number, text in enumerate(texts[writer])))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(connector, range(4)))
    lab.work(lambda: sorted(lab.messages()), sorted(text for said in texts for text in said))
    wanted = sorted(f"[run-{writer} ] {writer} {number}" for writer in range(4) for number in (1, 3))
    lab.work(lambda: sorted(lab.messages(OURS)), wanted)
    times = [each["time"] for each in lab.files(ALWAYS)]
    assert times == sorted(times)
    lab.work(
        lambda: [(each["lag_events"], each["lag_s"], each["state"]) for each in lab.pipelines().values()], [(0, 0, "running")] * 2
    )
    told = lab.ask("GET", "/v1/pipelines")
    assert [each["file"].rpartition("/")[2] for each in told["problems"]] == ["bad.yaml"]
    assert all(each["errors"] == 0 and each["last_error"] is None for each in told["pipelines"])


def test_events_that_came_as_events_are_one_record_each(lab: Lab) -> None:
    events = [
        {
            "message": "first\n  second",
            "level": "warn",
            "step": "extract",
            "timestamp": time.time_ns() // 1_000_000,
            "data": {"rows": 3},
        },
        {"message": "plain enough", "level": "ERROR", "step": "load"},
    ]
    lab.ask("POST", f"/v1/events/{lab.fqn}/run-1?writer=w", body=events)
    lab.work(lambda: sorted(lab.messages(OURS)), ["[run-1 extract] first\n  second", "[run-1 load] plain enough"])
    assert sorted((each["level"], each["message"]) for each in lab.files(OURS)) == [
        ("ERROR", "[run-1 load] plain enough"),
        ("WARNING", "[run-1 extract] first\n  second"),
    ]


def test_a_pipeline_is_switched_off_and_on_and_replayed(lab: Lab) -> None:
    assert lab.change("disable")["state"] == "disabled"
    lab.write("run-1", ("ERROR", "meanwhile"))
    lab.work(lab.messages, ["meanwhile"])
    assert lab.messages(OURS) == [] and lab.pipelines()["audit"]["state"] == "disabled"
    assert lab.change("enable")["state"] in ("running", "silent")
    lab.work(lambda: lab.messages(OURS), ["[run-1 ] meanwhile"])
    assert lab.change("replay", {"from": "1970-01-02"})["replay_from"] == "1970-01-02T00:00:00.000Z"
    lab.work(lambda: lab.messages(OURS), ["[run-1 ] meanwhile"] * 2)
    assert lab.pipelines()["audit"]["replay_from"] is None and lab.messages() == ["meanwhile"]


def test_a_handler_is_switched_off_and_gets_what_it_missed(lab: Lab) -> None:
    assert lab.change("disable", {"handler": "files"})["handlers"][0]["state"] == "disabled"
    lab.write("run-1", ("ERROR", "missed"))
    lab.work(lab.messages, ["missed"])
    assert lab.messages(OURS) == []
    assert lab.change("enable", {"handler": "files"})["handlers"][0]["state"] == "replaying"
    lab.work(lambda: (lab.messages(OURS), lab.pipelines()["audit"]["handlers"][0]["state"]), (["[run-1 ] missed"], "enabled"))


def test_what_is_deleted_is_gone_and_a_recreated_pipeline_is_new(lab: Lab) -> None:
    lab.write("run-1", ("ERROR", "old"))
    lab.work(lambda: (lab.messages(), lab.messages(OURS)), (["old"], ["[run-1 ] old"]))
    gone = lab.ask("DELETE", f"/v1/pipeline-files?fqn={lab.fqn}", 202)
    assert (gone["state"], gone["files"], gone["runs"]) == ("deleting", 2, 1)
    assert lab.messages() == lab.messages(OURS) == []
    lab.ask("POST", f"{LOGS}/{lab.fqn}/run-1", 410, body="late\n")
    lab.write("run-2", ("ERROR", "new"))
    lab.work(lambda: (lab.messages(), lab.messages(OURS)), (["new"], ["[run-2 ] new"]))
    lab.change("replay", {"from": 0})
    lab.work(lambda: lab.messages(OURS), ["[run-2 ] new"] * 2)
    assert lab.messages() == ["new"]


@pytest.mark.behavior("Two applications have files by level on S3, one of them in a location of its own.")
def test_files_by_level_and_one_application_with_its_own_location(quiet: Stack, lab: Lab) -> None:
    """The examples of the documentation."""
    names = ("by-level-on-s3", "own-location")
    levels = ("ERROR", "INFO", "WARNING")
    with closing(quiet.client("s3")) as s3:
        for name in names:
            body = (PROJECT / "docs" / "examples" / "pipelines" / f"{name}.yaml").read_bytes()
            s3.put_object(Bucket=quiet["bucket"], Key=f"_pipelines/{name}.yaml", Body=body)
        try:
            for lab.fqn in ("sales.load", "hr.payroll"):
                lab.write("run-1", *((level, f"{lab.fqn} {level}") for level in levels))

            def keys() -> list[str]:
                listed = [
                    each["Key"]
                    for prefix in ("teams", "payroll")
                    for each in s3.list_objects_v2(Bucket=quiet["bucket"], Prefix=f"{ALWAYS}/{prefix}/").get("Contents", ())
                ]
                return [re.sub(r"\d{4}-\d\d-\d\d", "DAY", re.sub(r"~\d{13}", "~", key)) for key in listed]

            wanted = [f"{ALWAYS}/teams/sales/load/{level}~.log.gz" for level in levels]
            lab.work(keys, wanted + [f"{ALWAYS}/payroll/DAY/{level}~.jsonl" for level in levels])
            for base, namespace, app in (("teams", "sales", "load"), ("payroll", "hr", "payroll")):
                path = f"/v1/pipeline-files?base={ALWAYS}/{base}&namespace={namespace}&app={app}"

                def found(path: str = path) -> list[str]:
                    return sorted(each["message"].rpartition(" ")[2] for each in lab.ask("GET", path)["events"])

                lab.work(found, list(levels))
        finally:
            for name in names:
                s3.delete_object(Bucket=quiet["bucket"], Key=f"_pipelines/{name}.yaml")


def test_files_in_a_bucket_that_a_role_opens() -> None:
    """Written by the scheduled function and read by the API. The emulator enforces neither policies nor owners."""
    elsewhere = f"      format: jsonl\n      bucket: audit-elsewhere\n      role: {ROLE}\n      path: '{{application}}/{{level}}'"
    with (
        running_stack(**CONFIGURED, PipelineRoles=ROLE, **QUIET) as stack,
        closing(stack.client("s3")) as s3,
    ):
        s3.create_bucket(Bucket="audit-elsewhere")
        body = AUDIT.replace("      format: jsonl", elsewhere).encode()
        s3.put_object(Bucket=stack["bucket"], Key="_pipelines/audit.yaml", Body=body)
        lab = Lab(stack)
        lab.work(lambda: {each["state"] for each in lab.pipelines().values()}, {"running"})
        lab.write("run-1", ("ERROR", "there"))
        lab.work(lambda: lab.messages(OURS), ["[run-1 ] there"])
        (written,) = s3.list_objects_v2(Bucket="audit-elsewhere")["Contents"]
        assert re.fullmatch(r"pipeline-files/audit/flow/ERROR~\d{13}\.jsonl", written["Key"])


def test_the_roles_of_pipelines_may_assume_what_is_listed_and_only_then(template: dict[str, Any]) -> None:
    policy = template["Resources"]["PipelineRolesPolicy"]
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert policy["Condition"] == "AssumesPipelineRoles" and template["Parameters"]["PipelineRoles"]["Default"] == ""
    others = [{"Ref": role} for role in ("SweepRole", "PipelinesRole", "RunPipelinesRole")]
    assert policy["Properties"]["Roles"] == [*API_ROLES, *others]
    assert (statement["Action"], statement["Resource"]) == ("sts:AssumeRole", {"Ref": "PipelineRoles"})


@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_the_job_works_what_has_ended_and_its_role_allows_that_and_nothing_else(quiet: Stack, calls: Calls) -> None:
    """More runs than tasks; one that the function has processed in part; pipelines that never ran, one of them with a handler that
    rejects everything."""
    lab = Lab(quiet)
    events = f"/v1/events/{lab.fqn}/run-0?writer=w"
    lab.ask("POST", events, body=[{"message": "0", "step": "s"}])
    lab.work(lab.messages, ["0"])
    lab.ask("POST", events, body=[{"message": "10", "step": "s"}])
    for number in range(1, 10):
        lab.write(f"run-{number}", ("ERROR" if number == 5 else "INFO", str(number)))
    for number in range(10):
        lab.ask("POST", f"{LOGS}/{lab.fqn}/run-{number}/close")
    with closing(quiet.client("s3")) as s3:
        s3.put_object(Bucket=quiet["bucket"], Key="_pipelines/poison.yaml", Body=POISON.encode())
        s3.put_object(Bucket=quiet["bucket"], Key="_pipelines/new.yaml", Body=AUDIT.replace("/audit", "/new").encode())
    told = job(quiet, "--summary", f"s3://{output(quiet, 'JobsBucketName')}/summaries/run_pipelines.json")
    assert sorted(told["pipelines"]) == ["audit", "new", "poison", "runlake"]
    assert not any(each["problems"] for each in told["pipelines"].values()), told
    assert told["pipelines"]["poison"]["dead"] >= 11
    assert sorted(lab.messages(), key=int) == [str(number) for number in range(11)]
    assert lab.messages(OURS) == lab.messages("pipeline-files/new") == ["[run-5 ] 5"]
    assert_job_fits(quiet, "run_pipelines", calls, BY_GLUE | GIVEN_UP)


def job(stack: Stack, *arguments: str) -> Any:
    """Run the job in a separate process. Returns its summary."""
    command = [sys.executable, "-m", "local", "job", "--port", str(stack["port"]), "run_pipelines", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])
